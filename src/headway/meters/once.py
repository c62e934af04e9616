"""One look at the GPUs, for a person who asks before anything runs."""

from __future__ import annotations

import subprocess
import sys

from headway.meters.lines import boottime_s, decode
from headway.ports import Reading

LIMIT_S = 15.0  # without persistence mode the first look at a GPU takes seconds
ARGV = (sys.executable, "-m", "headway.meters.nvml", "--once")


def read_once(argv: tuple[str, ...] = ARGV, limit_s: float = LIMIT_S, traits: bool = False) -> Reading:
    """What NVML shows now, read by a process of its own: it can hang. A failure is the reading's `trouble`.

    Args:
        traits: with each GPU's settings, such as persistence mode.
    """
    argv = (*argv, "--traits") if traits else argv
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s)
        return decode(done.stdout)
    except subprocess.TimeoutExpired:
        trouble = f"NVML did not answer within {limit_s:g} s"
    except OSError as error:
        trouble = f"its meter cannot be started: {error.strerror or error}"
    except ValueError:
        trouble = "its meter prints no readings"
    return Reading(at_s=boottime_s(), devices=(), trouble=trouble)
