"""Start a gate: `python -m headway.gate.main parent --spec FILE`. The parent starts the children itself."""

import argparse
import sys
from pathlib import Path

from headway.errors import HeadwayError
from headway.gate.spec import Spec, read_spec


def run_parent(spec: Spec) -> None:
    """Run a gate parent in this process until SIGTERM or SIGINT."""
    from headway.gate import parent

    parent.run_parent(spec)


def run_child(spec: Spec, gate: str, fds: dict[str, int], ready_fd: int | None = None) -> None:
    """Serve in this process with inherited listening sockets (name -> descriptor)."""
    from headway.gate import child

    child.run_child(spec, gate, fds, ready_fd)


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m headway.gate.main", description=__doc__)
    parser.add_argument("role", choices=("parent", "child"))
    parser.add_argument(
        "--spec", type=Path, required=True, help="JSON file with run_dir, requests_dir, listen."
    )
    parser.add_argument("--id", default="", help="The child's id.")
    parser.add_argument("--fds", default="", help="The child's listening sockets: name=descriptor,...")
    parser.add_argument("--ready", type=int, help="Where the child writes a byte once it accepts.")
    args = parser.parse_args(argv)
    try:
        spec = read_spec(args.spec)
        if args.role == "parent":
            run_parent(spec)
        else:
            pairs = (pair.rpartition("=") for pair in args.fds.split(",") if pair)
            run_child(spec, args.id, {name: int(fd) for name, _, fd in pairs}, args.ready)
    except HeadwayError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
