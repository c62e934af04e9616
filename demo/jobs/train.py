"""A job that restarts from saved points: it counts steps, and saves the count every N of them.

What it did since its last saved point is lost when it is ended, as in a real training. `--saved` prints that
point as one JSON line `{"done": 40, "total": 300, "age_s": 1.5}` (`age_s` is null before the first) and does
nothing else.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from demo.jobs.state import SecondCopy, only_copy, tell_progress, write_whole
from demo.sim_device import (
    OUT_OF_MEMORY_EXIT,
    FakeOutOfMemory,
    allocate,
    clear,
    parse_size,
    split_devices,
    visible_devices,
)

SECOND_COPY_EXIT = 3


class Ended(Exception):
    """SIGTERM came."""


def saved_step(directory: Path) -> int:
    """The step that the job in `directory` would go on from; 0 when it never saved."""
    path = directory / "saved.json"
    return int(json.loads(path.read_text())["done"]) if path.exists() else 0


def train(options: argparse.Namespace) -> None:
    """Take the memory, go on from the saved point to the last step.

    Raises:
        FakeOutOfMemory: the memory was not free within `patience_s`.
        Ended: SIGTERM came.
    """
    time.sleep(options.alloc_late_s)
    _take_memory(options)
    step = saved_step(options.dir)
    print(f"going on from step {step} of {options.steps}", flush=True)
    tell_progress(step, options.steps)
    while step < options.steps:
        time.sleep(options.step_s)
        step += 1
        if step % options.save_every == 0 or step == options.steps:
            write_whole(options.dir / "saved.json", json.dumps({"done": step}) + "\n")
        tell_progress(step, options.steps)
    print(f"finished {step} steps", flush=True)


def _take_memory(options: argparse.Namespace) -> None:
    give_up_s = time.monotonic() + options.patience_s
    for device in options.device:
        while True:
            try:
                allocate(options.reports, device, options.bytes, options.total)
                break
            except FakeOutOfMemory:
                if time.monotonic() >= give_up_s:
                    raise
            time.sleep(0.1)


def _print_saved(options: argparse.Namespace) -> None:
    path = options.dir / "saved.json"
    age_s = round(max(0.0, time.time() - path.stat().st_mtime), 1) if path.exists() else None
    print(json.dumps({"done": saved_step(options.dir), "total": options.steps, "age_s": age_s}))


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended


def main() -> int:
    """Run the job: ends with `--exit-code`, 143 after SIGTERM, 12 without memory, 3 as a second copy."""
    parser = argparse.ArgumentParser(prog="python -m demo.jobs.train", description="A job with saved points.")
    parser.add_argument(
        "--dir", type=Path, required=True, metavar="STATE", help="where its saved point lives"
    )
    parser.add_argument("--saved", action="store_true", help="print the saved point and end")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-s", type=float, default=0.1, metavar="S")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--reports", type=Path, metavar="DIR", help="needed unless --saved")
    parser.add_argument(
        "--device", type=split_devices, metavar="NAME[,NAME]", help="default: CUDA_VISIBLE_DEVICES, or sim0"
    )
    parser.add_argument(
        "--bytes", type=parse_size, default=parse_size("14GiB"), metavar="SIZE", help="per device"
    )
    parser.add_argument(
        "--total", type=parse_size, default=parse_size("24GiB"), metavar="SIZE", help="of each device"
    )
    parser.add_argument(
        "--patience-s", type=float, default=0.0, metavar="S", help="how long to try for the memory"
    )
    parser.add_argument(
        "--alloc-late-s", type=float, default=0.0, metavar="S", help="take the memory S s after the start"
    )
    parser.add_argument("--exit-code", type=int, default=0, help="after the last step")
    options = parser.parse_args()
    if options.saved:
        _print_saved(options)
        return 0
    if options.reports is None:
        parser.error("--reports DIR is needed")
    options.device = options.device or visible_devices()
    signal.signal(signal.SIGTERM, _end)
    try:
        with only_copy(options.dir):
            train(options)
    except Ended:
        return 128 + signal.SIGTERM
    except SecondCopy as error:
        print(error, file=sys.stderr)
        return SECOND_COPY_EXIT
    except FakeOutOfMemory as error:
        print(error, file=sys.stderr)
        return OUT_OF_MEMORY_EXIT
    finally:
        for device in options.device:
            clear(options.reports, device)
    return int(options.exit_code)


if __name__ == "__main__":
    sys.exit(main())
