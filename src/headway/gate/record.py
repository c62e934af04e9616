"""What the request log keeps of one request: times, sizes, how it ended. Never its words."""

import time
from typing import Any

from headway.core.route import To
from headway.gate.callers import Caller
from headway.gate.heads import ResponseHead
from headway.gate.lines import Line
from headway.gate.usage import Usage, looks_into


class Record:
    """Filled in as the request goes. All `_s` are readings of the loop's clock until `row`."""

    __slots__ = (
        "arrived_s",
        "caller",
        "code",
        "conversation",
        "demand",
        "engine",
        "first_s",
        "id",
        "in_bytes",
        "method",
        "model",
        "note",
        "out_bytes",
        "sent_s",
        "service",
        "status",
        "usage",
        "waited_for",
        "was_held",
    )  # fmt: skip

    def __init__(self, id: str, arrived_s: float, method: str) -> None:
        self.id, self.arrived_s, self.method = id, arrived_s, method
        self.service: str | None = None
        self.engine: str | None = None
        self.model: str | None = None
        self.waited_for: str | None = None
        self.code: str | None = None
        self.note: str | None = None
        self.conversation: str | None = None
        self.caller: Caller | None = None
        self.demand = self.was_held = False
        self.sent_s: float | None = None
        self.first_s: float | None = None
        self.status = 0
        self.in_bytes = self.out_bytes = 0
        self.usage: Usage | None = None

    def admitted(self, to: To, line: Line | None, caller: Caller) -> None:
        """It's known where it goes."""
        self.service, self.demand, self.caller = to.service, to.demand, caller
        self.engine = line.row.engine if line is not None else None

    def held(self, line: Line) -> None:
        """It waits, and for whom."""
        self.was_held = True
        holder = line.row.why.get("activity")
        self.waited_for = holder if isinstance(holder, str) else "place" if line.open else line.row.state

    def granted(self, now_s: float) -> None:
        """It's sent now."""
        self.sent_s = now_s

    def returned(self) -> None:
        """It was not sent after all."""
        self.sent_s = None

    def answered(self, status: int, now_s: float) -> None:
        """The head of its answer is here."""
        self.status = status
        self.first_s = self.first_s if self.first_s is not None else now_s

    def refused(self, code: str, status: int) -> None:
        """The gate answered with an error."""
        self.code, self.status = code, status

    def begins(self, read: ResponseHead) -> None:
        """The body of its answer begins: it's looked into where it has a form that says something."""
        if looks_into(read.media) and not read.encoded:
            self.usage = Usage()

    def waited_s(self, now_s: float) -> float:
        """How long it was held, in seconds."""
        if not self.was_held:
            return 0.0
        return (self.sent_s if self.sent_s is not None else now_s) - self.arrived_s

    def row(self, now_s: float, ended: str, boot: str) -> dict[str, Any]:
        """The log's row; times become seconds since arrival. `boot`: which boot of the machine `at_s` counts from."""
        took_s = now_s - self.arrived_s
        row: dict[str, Any] = {
            "id": self.id,
            "service": self.service,
            "engine": self.engine,
            "model": self.model,
            "class": self.caller.class_ if self.caller is not None else None,
            "client": self.caller.client if self.caller is not None else None,
            "demand": self.demand,
            "method": self.method,
            "status": self.status,
            "ended": self.note or ended,
            "held": self.was_held,
            "waited_s": round(self.waited_s(now_s), 4),
            "sent_after_s": round(self.sent_s - self.arrived_s, 4) if self.sent_s is not None else None,
            "first_after_s": round(self.first_s - self.arrived_s, 4) if self.first_s is not None else None,
            "took_s": round(took_s, 4),
            "in_bytes": self.in_bytes,
            "out_bytes": self.out_bytes,
            "at_s": round(time.clock_gettime(time.CLOCK_BOOTTIME) - took_s, 4),
            "wall_s": round(time.time() - took_s, 3),
            "boot": boot,
        }
        if self.waited_for is not None:
            row["waited_for"] = self.waited_for
        if self.code is not None:
            row["code"] = self.code
        if self.conversation is not None:
            row["conversation"] = self.conversation
        if self.usage is not None:
            row.update(self.usage.row())
        return row


def unread(id: str | None, code: str, status: int) -> dict[str, Any]:
    """The log's row of a request that was not read further than its head, or that has no head: then no id either."""
    return {"id": id, "service": None, "status": status, "ended": code, "wall_s": round(time.time(), 3)}
