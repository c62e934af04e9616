"""What the request log keeps of one request: times, sizes, how it ended. Never its words."""

import time
from typing import Any

from headway.core.route import To
from headway.gate.callers import Caller
from headway.gate.lines import Line
from headway.gate.usage import Usage


class Record:
    """Filled in as the request goes. All `_s` are readings of the loop's clock until `row`."""

    # what most requests leave as it is stands here: a thousand times a second counts
    service: str | None = None
    engine: str | None = None
    window: str | None = None
    model: str | None = None
    waited_for: str | None = None
    code: str | None = None
    note: str | None = None
    conversation: str | None = None
    caller: Caller | None = None
    demand: bool = False
    was_held: bool = False
    sent_s: float | None = None
    first_s: float | None = None
    status: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    usage: Usage | None = None

    def __init__(self, id: str, arrived_s: float, method: str) -> None:
        self.id, self.arrived_s, self.method = id, arrived_s, method

    def admitted(self, to: To, line: Line | None, caller: Caller) -> None:
        """It's known where it goes."""
        self.service, self.demand, self.caller = to.service, to.demand, caller
        self.engine = line.row.engine if line is not None else None

    def held(self, line: Line) -> None:
        """It waits, and for whom."""
        self.was_held, self.window = True, line.row.window
        holder = line.row.why.get("activity")
        self.waited_for = holder if isinstance(holder, str) else "place" if line.open else line.row.state

    def answered(self, status: int, now_s: float) -> None:
        """The head of its answer is here."""
        self.status = status
        self.first_s = self.first_s if self.first_s is not None else now_s

    def refused(self, code: str, status: int) -> None:
        """The gate answered with an error."""
        self.code, self.status = code, status

    def waited_s(self, now_s: float) -> float:
        """How long it was held, in seconds."""
        if not self.was_held:
            return 0.0
        return (self.sent_s if self.sent_s is not None else now_s) - self.arrived_s

    def row(self, now_s: float, ended: str, boot: str) -> dict[str, Any]:
        """The log's row; times become seconds since arrival. `boot`: which boot of the machine `at_s` counts from."""
        caller, arrived_s, sent_s, first_s = self.caller, self.arrived_s, self.sent_s, self.first_s
        took_s = now_s - arrived_s
        row: dict[str, Any] = {
            "id": self.id,
            "service": self.service,
            "engine": self.engine,
            "model": self.model,
            "class": caller.class_ if caller is not None else None,
            "client": caller.client if caller is not None else None,
            "demand": self.demand,
            "method": self.method,
            "status": self.status,
            "ended": self.note or ended,
            "held": self.was_held,
            "waited_s": _rounded(self.waited_s(now_s)) if self.was_held else 0.0,
            "sent_after_s": _rounded(sent_s - arrived_s) if sent_s is not None else None,
            "first_after_s": _rounded(first_s - arrived_s) if first_s is not None else None,
            "took_s": _rounded(took_s),
            "in_bytes": self.in_bytes,
            "out_bytes": self.out_bytes,
            "at_s": _rounded(time.clock_gettime(time.CLOCK_BOOTTIME) - took_s),
            "wall_s": _rounded(time.time() - took_s),
            "boot": boot,
        }
        if self.waited_for is not None:
            row["waited_for"] = self.waited_for
        if self.window is not None:
            row["window"] = self.window
        if self.code is not None:
            row["code"] = self.code
        if self.conversation is not None:
            row["conversation"] = self.conversation
        if self.usage is not None:
            row.update(self.usage.row())
        return row


def _rounded(time_s: float) -> float:
    """To a tenth of a millisecond; `round` works on decimal digits, and takes four times as long."""
    return int(time_s * 10_000 + 0.5) / 10_000


def unread(id: str | None, code: str, status: int) -> dict[str, Any]:
    """The log's row of a request that was not read further than its head, or that has no head: then no id either."""
    return {"id": id, "service": None, "status": status, "ended": code, "wall_s": _rounded(time.time())}
