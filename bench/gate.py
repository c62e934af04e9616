"""What the gate costs, beside nginx and HAProxy, on one machine in one run.

    python -m bench.gate [--rounds 5] [--only small,latency] [--peers nginx,ours] [--json FILE] [--write]
    python -m bench.gate --quick              whether it works; its figures say nothing

Every proxy is one process on one core; the load and the model server share another. They take turns: nginx, HAProxy,
ours, nginx, ... A figure is the median over the rounds. CPU is what the kernel counted for the proxy's threads. Rates
and latencies tell what else the machine did, so on a busy one use `--first`: a real-time priority for all of it.

Ours is the gate as it's always run: parent and child, a table, a daemon that listens, the request log, the hold check,
another model's name put into each body, tokens and end reasons read from each answer. `floor` is uvloop that passes
bytes on and does nothing else.

`--tree NAME=PATH` adds one more column: the gate of another source tree, PATH being the folder with `headway` in it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.gate_parts.measures import MEASURES, latency
from bench.gate_parts.peers import Floor, HAProxy, LiteLLM, Nginx, Ours, Peer, installed
from bench.gate_parts.report import lines, machine, write
from bench.gate_parts.tools import QUICK, BenchFailed, Counts, Tools

PEERS = ("nginx", "haproxy", "floor", "ours")
NAMES = (*MEASURES, "latency")
FILES = 16_384
Samples = dict[str, dict[str, list[float]]]  # figure -> column -> one value a round


def cores() -> tuple[int, int]:
    """One for the proxies, one for the load. Raises BenchFailed."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise BenchFailed("this needs two cores: one for the proxy, one for the load and the model server")
    return allowed[0], allowed[1]


def choose(tools: Tools, core: int, options: argparse.Namespace) -> list[Peer]:
    """The proxies that are here. One that is not is a printed line."""
    peers: list[Peer] = []
    names = options.peers
    for kind, name, package in ((Nginx, "nginx", "nginx-light"), (HAProxy, "haproxy", "haproxy")):
        if name in names and installed(name):
            peers.append(kind(tools, core, name))
        elif name in names:
            print(
                f"{name} is not installed, so its column is missing (Debian: apt install {package})",
                file=sys.stderr,
            )
    if "floor" in names:
        peers.append(Floor(tools, core, "floor"))
    if "ours" in names:
        peers.append(Ours(tools, core, "ours"))
    peers.extend(Ours(tools, core, name, path) for name, path in options.tree)
    if options.litellm is not None:
        peers.append(LiteLLM(tools, core, options.litellm))
    return peers


def run(name: str, tools: Tools, peer: Peer, counts: Counts) -> dict[str, float]:
    """One measure of one proxy. Raises BenchFailed, which says whose it was."""
    try:
        return MEASURES[name](tools, peer, counts)
    except BenchFailed as error:
        raise BenchFailed(f"{peer.column}, {name}: {error}\n{peer.log()}".rstrip()) from None


def play(tools: Tools, peers: Sequence[Peer], only: Sequence[str], rounds: int, counts: Counts) -> Samples:
    """All rounds."""
    samples: Samples = {}

    def note(peer: Peer, got: dict[str, float]) -> None:
        for key, value in got.items():
            samples.setdefault(key, {}).setdefault(peer.column, []).append(value)

    for number in range(1, rounds + 1):
        for name in only:
            print(f"round {number} of {rounds}: {name}", file=sys.stderr, flush=True)
            if name == "latency":
                found = latency(tools, peers, counts)
                for peer in peers:
                    note(peer, found[peer.column])
            else:
                for peer in peers:
                    if name not in peer.skips:
                        note(peer, run(name, tools, peer, counts.few() if peer.slow else counts))
    return samples


def check_files() -> None:
    """Thousands of connections are open at once. Raises BenchFailed."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < FILES:
        raise BenchFailed(
            f"a process may open {most} files here, this needs {FILES}: `ulimit -Hn {FILES}` as root"
        )


def measure(options: argparse.Namespace, folder: Path) -> tuple[Samples, list[str]]:
    """Start everything, play, stop everything; (samples, versions)."""
    proxy, loader = cores()
    if not options.quick:
        check_files()
    counts = QUICK if options.quick else Counts(requests=options.requests)
    tools = Tools(folder, loader, counts, first=options.first)
    started: list[Peer] = []
    try:
        for peer in choose(tools, proxy, options):
            started.append(peer)
            peer.start()
        samples = play(tools, started, options.only, options.rounds, counts)
        return samples, [peer.version() for peer in started]
    finally:
        for peer in started:
            peer.stop()
        tools.close()


def listed(allowed: Sequence[str]) -> type:
    """A reader of `a,b` that knows what may stand there."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        if wrong := [name for name in names if name not in allowed]:
            raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: none of {', '.join(allowed)}")
        return names

    return read  # type: ignore[return-value]


def named_tree(text: str) -> tuple[str, Path]:
    """Read NAME=PATH."""
    name, mark, path = text.partition("=")
    if not mark or not name or not (Path(path) / "headway" / "gate").is_dir():
        raise argparse.ArgumentTypeError(f"{text}: needs NAME=PATH, PATH having headway/gate in it")
    return name, Path(path).resolve()


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20_000, help="small requests per round and proxy")
    parser.add_argument("--only", type=listed(NAMES), default=list(NAMES), help=f"of {','.join(NAMES)}")
    parser.add_argument("--peers", type=listed(PEERS), default=list(PEERS), help=f"of {','.join(PEERS)}")
    parser.add_argument("--tree", type=named_tree, action="append", default=[], metavar="NAME=PATH")
    parser.add_argument(
        "--litellm", type=Path, metavar="PROGRAM", help="the `litellm` of its own environment"
    )
    parser.add_argument(
        "--first", action="store_true", help="run before all other work of the machine (root)"
    )
    parser.add_argument("--quick", action="store_true", help="a little of everything")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all samples, for programs")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args(argv)
    if problem := wrong(options):
        parser.error(problem)
    return options


def wrong(options: argparse.Namespace) -> str | None:
    """What is wrong with the options together."""
    if options.rounds < 1 or options.requests < 100:
        return "--rounds is at least 1, --requests at least 100"
    if options.write and (options.quick or options.tree or set(options.only) != set(NAMES)):
        return "--write is for all measures of this tree: not with --quick, --tree or --only"
    if options.write and not {"nginx", "ours"} <= set(options.peers):
        return "--write needs nginx and ours"
    if options.json is not None and not options.json.absolute().parent.is_dir():
        return f"--json: there is no folder {options.json.absolute().parent}"
    if options.litellm is not None and not os.access(options.litellm, os.X_OK):
        return f"--litellm: {options.litellm} is no program. In an environment: pip install 'litellm[proxy]'"
    return None


def given(options: argparse.Namespace) -> str:
    """The options that a table was made with, for whoever wants it again."""
    words = [f"--rounds {options.rounds}", f"--requests {options.requests}"]
    words.extend(["--first"] if options.first else [])
    words.extend(["--litellm PROGRAM"] if options.litellm is not None else [])
    return " ".join(words)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    options = parse(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="hw-") as folder:
            samples, versions = measure(options, Path(folder))
        middle = {
            key: {column: median(values) for column, values in row.items()} for key, row in samples.items()
        }
        told, table = machine(versions), lines(middle)
        if options.json is not None:
            row = {"machine": told, "medians": middle, "samples": samples}
            options.json.write_text(json.dumps(row, indent=1))
        print(told, "", *table, sep="\n")
        if options.write:
            write(told, given(options), table)
    except (BenchFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # all that was started has been stopped on the way here
    return 0


if __name__ == "__main__":
    sys.exit(main())
