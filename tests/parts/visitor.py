"""A program that somebody starts by hand: `python -m tests.parts.visitor`. It holds memory, tells its signals, and ends.

With `--leaves` it lets a process behind that leaves its tree, holds the memory in its place, and lives on.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from demo.sim_device import parse_size, set_bytes, visible_devices

NAMES = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT", "SIGWINCH")


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--reports", type=Path, required=True)
    words.add_argument("--bytes", type=parse_size, default=0)
    words.add_argument("--seconds", type=float, default=600.0)
    words.add_argument("--exit", type=int, default=0)
    words.add_argument("--leaves", action="store_true")
    words.add_argument("--tells", action="store_true", help="print each signal; SIGTERM ends it with 44")
    given = words.parse_args()
    if given.tells:
        for name in NAMES:
            signal.signal(getattr(signal, name), told)
    if given.leaves and not left_alone():
        print("left", flush=True)
        return
    for device in visible_devices():
        set_bytes(given.reports, device, given.bytes)
    print(f"holds {os.getpid()}", flush=True)
    until_s = time.monotonic() + given.seconds
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(left_s)
    sys.exit(given.exit)


def told(number: int, _: object) -> None:
    print(f"got {signal.Signals(number).name}", flush=True)
    if number == signal.SIGTERM:
        sys.exit(44)


def left_alone() -> bool:
    """Twice a child, in a session of its own. True in the one that lives on."""
    if os.fork():
        os.wait()
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    return True


if __name__ == "__main__":
    main()
