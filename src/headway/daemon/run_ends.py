"""A run as a fact: what its files say, and where it ended badly what the last lines of its log say."""

from __future__ import annotations

import re
from dataclasses import replace

from headway.core.facts import RunSeen
from headway.core.model import Exit
from headway.ports import Runs, RunState

LINES = 40  # of the log, from its end, in which the reason is looked for
LAST_LINES, LINE_MAX = 10, 300  # of these, so many are kept, each so far
SEARCHED = 4096  # signs of a line, from its end: the pattern takes the square of what it is given
# What PyTorch, JAX, CuPy, llama.cpp, CUDA, cuBLAS and HIP say when a device has no memory left.
OUT_OF_MEMORY = re.compile(
    r"(cuda|hip|gpu|vram|device|xla)\b.*out of memory|out of memory.*\b(cuda|hip|gpu|device)\b|OutOfMemoryError|"
    r"(CUDA_ERROR|hipError)_?OUT_?OF_?MEMORY|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED",
    re.IGNORECASE,
)


def run_seen(runs: Runs, holder: str, state: RunState) -> RunSeen:
    """The fact of that run as it is now."""
    return RunSeen(
        holder=holder,
        run_id=state.id,
        lock_held=state.lock_held,
        pid=state.pid,
        start_ticks=state.start_ticks,
        boot_id=state.boot_id,
        exit=_told(runs, state.id, state.exit),
        gone=state.gone,
        port=state.port,
    )


def _told(runs: Runs, run_id: str, exit_: Exit | None) -> Exit | None:
    """Its end with what its log says of it. The log of one that ended well is not read."""
    if exit_ is None or exit_.code == 0:
        return exit_
    try:
        found = "\n".join(runs.log_tail(run_id, LINES))
    except OSError:
        return exit_
    lines = [line.strip() for line in found.splitlines() if line.strip()][-LINES:]  # progress bars, too
    last = tuple(line[:LINE_MAX].replace("\0", "\ufffd") for line in lines[-LAST_LINES:])
    return replace(
        exit_, last_lines=last, out_of_memory=any(OUT_OF_MEMORY.search(line[-SEARCHED:]) for line in lines)
    )
