"""The phrasebook of notes: what went wrong with a holder. Codes are stable; these words may be reworded."""

from __future__ import annotations

from collections.abc import Mapping

from headway.core.wording import Phrase, how_it_ended
from headway.core.wording import phrase as _p

NOTES: Mapping[str, Phrase] = {
    "driver_failed": _p("its driver failed: {detail}", "its driver failed"),
    "failed": _p("its driver failed"),
    "server_silent": _p("the server did not answer in time"),
    "server_exited": _p(
        "the server {exit} while it was starting",
        "the server ended while it was starting",
        derive=how_it_ended,
    ),
    "port_taken": _p("port {port} is taken by {owner}", "its port is taken by another program"),
    "hook_failed": _p("its {hook} command {exit}", "a park or resume command failed", derive=how_it_ended),
    "cannot_start": _p("{why}", "the command could not be executed"),
    "run_not_made": _p("{why}", "the files of its run could not be made"),
    "limit_passed": _p("it took longer than {limit_s}", "it took longer than its limit"),
    "memory_not_released": _p("its memory was not released"),
    "exit": _p(
        "its last run {exit}: {line}", "its last run {exit}", "its last run ended badly", derive=how_it_ended
    ),
    "out_of_memory": _p(
        "it ran out of memory, so it gets a device alone: {line}",
        "it ran out of memory, so it gets a device alone",
    ),
    "crash_loop": _p(
        "it failed {failures} times right after its start: {line}",
        "it failed {failures} times right after its start",
        "it failed right after its start",
    ),
    "max_runtime": _p(
        "it has run for its max_runtime of {max_runtime_s}; a release lets it run as long again",
        "it has run for as long as it may",
    ),
    "lost": _p("its process was gone, and how it ended is not known"),
    "after_failed": _p("the job it follows did not end well"),
    "after_gone": _p("the job it follows never ran"),
}
