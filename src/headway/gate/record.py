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

    # what most requests leave as it is stands here: a thousand times a second counts
    service: str | None = None
    engine: str | None = None
    model: str | None = None
    waited_for: str | None = None
    code: str | None = None
    note: str | None = None
    conversation: str | None = None
    caller: Caller | None = None
    demand = was_held = False
    sent_s: float | None = None
    first_s: float | None = None
    status = 0
    in_bytes = out_bytes = 0
    usage: Usage | None = None

    def __init__(self, id: str, arrived_s: float, method: str) -> None:
        self.id, self.arrived_s, self.method = id, arrived_s, method

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
