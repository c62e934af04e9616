"""The hooks of the render job: `park` and `resume` return when it is done, `status` tells what the job does."""

import argparse
import os
import socket
import sys
from pathlib import Path


def tell(directory: Path, word: str, limit_s: float) -> str:
    """Say `word` to the job that lives in `directory`; returns its answer.

    Raises:
        OSError: no job listens there, or it gave no answer within `limit_s`.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(limit_s)
            control.connect(f"/proc/self/fd/{folder}/control.sock")
            control.sendall(word.encode() + b"\n")
            answer = control.recv(1024).decode().strip()
    finally:
        os.close(folder)
    if not answer:
        raise ConnectionResetError("the job ended before it answered")
    return answer


def main() -> int:
    """Exit code 0 when the job did what it was told, 1 with a reason on stderr when not."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.jobs.render_ctl", description="Park or resume the render job."
    )
    parser.add_argument("word", choices=("park", "resume", "status"))
    parser.add_argument("--dir", type=Path, required=True, metavar="STATE", help="the job's own --dir")
    parser.add_argument(
        "--limit-s", type=float, default=30.0, metavar="S", help="how long to wait for the answer"
    )
    options = parser.parse_args()
    try:
        answer = tell(options.dir, options.word, options.limit_s)
    except OSError as error:
        print(f"the render job in {options.dir} does not answer: {error}", file=sys.stderr)
        return 1
    if answer.startswith("error:"):
        print(answer, file=sys.stderr)
        return 1
    print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
