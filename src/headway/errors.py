"""Every error raised on purpose: a stable code, an HTTP status, facts, and a message that ends with the next step."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from headway.core.units import GIB


class HeadwayError(Exception):
    """Base of every error raised on purpose. `code` is stable; the message may be reworded."""

    code = "internal"
    http_status = 500

    def __init__(self, message: str, **facts: Any) -> None:
        self.facts: dict[str, Any] = facts
        super().__init__(message)


class ConfigInvalid(HeadwayError):
    """Every problem of a config at once, each with file, table, line where known.

    `warnings` are about what could be read beside the problems, where somebody asked for them.
    """

    code = "config_invalid"
    http_status = 422

    def __init__(self, problems: list[str], warnings: Sequence[str] = ()) -> None:
        self.problems, self.warnings = problems, list(warnings)
        lines = "\n".join(f"  {problem}" for problem in problems)
        plural = "problem" if len(problems) == 1 else "problems"
        super().__init__(
            f"{len(problems)} {plural} in the config:\n{lines}\nFix them, then run `headway check` again.",
            problems=problems,
        )


class ConfigThere(HeadwayError):
    """A config that was to be written for the first time cannot be: mostly because there is one."""

    code = "config_there"
    http_status = 409


class AlreadyRunning(HeadwayError):
    code = "already_running"
    http_status = 409


class StoreTooNew(HeadwayError):
    """The database was written by a newer Headway."""

    code = "store_too_new"
    http_status = 500

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database has schema {found}, this Headway knows up to {known}. Nothing was changed. "
            f"Install the version that wrote it, or a newer one: `pip install --upgrade headway`.",
            found=found,
            known=known,
        )


class StoreFailed(HeadwayError):
    """A transaction could not be written: disk full, database locked, or I/O error."""

    code = "store_failed"
    http_status = 503


class RowUnreadable(HeadwayError):
    """A row that the daemon cannot begin without is damaged. It is left as it is."""

    code = "row_unreadable"
    http_status = 500

    def __init__(self, table: str, key: str, file: str, why: str) -> None:
        column = {"holder": "id", "intent": "holder", "log_offset": "source"}.get(table, "key")
        where = f"{column} = '" + str(key).replace("'", "''") + "'"
        super().__init__(
            f"the row of {table} with {where} in the database {file} cannot be read ({why:.200}). Nothing was changed. "
            "Restore a copy of the file; or give up what that row says, and end what of it still runs: "
            f'`sqlite3 {shlex.quote(file)} "DELETE FROM {table} WHERE {where}"`.',
            table=table,
            key=key,
            file=file,
        )


class LineUnreadable(HeadwayError):
    """A whole line of the journal says nothing that the daemon could go on from. It is left as it is."""

    code = "line_unreadable"
    http_status = 500

    def __init__(self, line: int, file: str, why: str) -> None:
        super().__init__(
            f"line {line} of the journal {file} cannot be read ({why:.200}), and what was under way is not guessed. "
            "Nothing was changed. Mend that line; or give up what the journal says, and end what of it still runs: "
            f"{aside(file)}.",
            line=line,
            file=file,
        )


class RunUnreadable(HeadwayError):
    """A run that lives cannot be told from its files any more. They are left as they are."""

    code = "run_unreadable"
    http_status = 500

    def __init__(self, file: str, pids: Sequence[int], lock: str) -> None:
        end = (
            f"`kill {' '.join(map(str, pids))}`"
            if pids
            else f"whoever holds {lock} (`fuser -v {shlex.quote(lock)}`)"
        )
        super().__init__(
            f"{file} of a run that still lives cannot be read, and nobody else tells what it says. Nothing was "
            f"changed: it is neither started again nor stopped. Restore a copy of the file; or end the run: {end}.",
            file=file,
            pids=list(pids),
        )


def aside(file: str) -> str:
    """What to type to put a file aside."""
    return f"`mv {shlex.quote(file)} {shlex.quote(f'{file}.bad')}`"


class FileFailed(HeadwayError):
    """The system refused to read or write a file: the disk is full, read-only, not ours, or broken."""

    code = "file_failed"
    http_status = 503


class NotFound(HeadwayError):
    code = "not_found"
    http_status = 404


class Refused(HeadwayError):
    """A command that cannot be done now; `code` says why."""

    http_status = 409

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.code = code


class DaemonAway(HeadwayError):
    code = "daemon_away"
    http_status = 503


class AlertFailed(HeadwayError):
    """Nobody was told."""

    code = "alert_failed"
    http_status = 502


class DriverFailed(HeadwayError):
    """Base of what a driver may raise; act.py turns it into a fact."""

    code = "driver_failed"
    http_status = 502


class ServerSilent(DriverFailed):
    """No answer in time, or nobody listens (`refused`)."""

    code = "server_silent"


class ServerExited(DriverFailed):
    """The process ended while it was being started."""

    code = "server_exited"


class PortTaken(DriverFailed):
    """Another program listens on the port that was chosen."""

    code = "port_taken"


class HookFailed(DriverFailed):
    """A park or resume command ended with a code other than 0."""

    code = "hook_failed"


class CannotStart(DriverFailed):
    """The command could not be executed: missing, not executable, empty."""

    code = "cannot_start"


class RunNotMade(DriverFailed):
    """The machine did not let a run begin: its files cannot be written, or there are no processes left.

    The command was not tried, so it says nothing of the holder.
    """

    code = "run_not_made"


class LimitPassed(DriverFailed):
    """A move took longer than its limit."""

    code = "limit_passed"


class MemoryNotReleased(HeadwayError):
    """A holder says it stepped aside, but the device still shows its memory in use."""

    code = "memory_not_released"
    http_status = 503

    def __init__(self, holder: str, device: str, held_bytes: int, expected_bytes: int) -> None:
        super().__init__(
            f"{holder} says it stepped aside, but {device} still shows {held_bytes / GIB:.1f} GiB held by it "
            f"(at most {expected_bytes / GIB:.1f} GiB expected). Nothing new starts on {device} until that drops. "
            f"To end it now: `headway stop {holder}`.",
            holder=holder,
            device=device,
            held_bytes=held_bytes,
            expected_bytes=expected_bytes,
        )


class LogUnreadable(HeadwayError):
    """A request log or trace that `headway replay` cannot use."""

    code = "log_unreadable"
    http_status = 422


class NoPlot(HeadwayError):
    """A picture cannot be drawn or written."""

    code = "no_plot"
    http_status = 501
