"""What the request log keeps of one request: times, sizes, how it ended. Never its words."""

import re
import time
from typing import Any, Final

from headway.core.route import To
from headway.gate.callers import Caller
from headway.gate.lines import Line

_FINISH: Final = re.compile(rb'"(?:finish_reason|stop_reason|done_reason)"\s*:\s*"([a-z_]{1,32})"')
_TOKENS: Final = re.compile(rb'"(?:completion_tokens|output_tokens|eval_count)"\s*:\s*(\d{1,9})')
TAIL_BYTES = 2048


class Record:
    """Filled in as the request goes. All `_s` are readings of the loop's clock until `row`."""

    __slots__ = (
        "_last",
        "_line",
        "_tail",
        "arrived_s",
        "caller",
        "code",
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
        self.caller: Caller | None = None
        self.demand = self.was_held = False
        self.sent_s: float | None = None
        self.first_s: float | None = None
        self.status = 0
        self.in_bytes = self.out_bytes = 0
        self._tail = self._last = b""

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

    def tail(self, data: bytes) -> None:
        """Keep the end of the answer, for its finish reason."""
        self._tail, self._last = self._last, data

    def row(self, now_s: float, ended: str, conversation: str | None) -> dict[str, Any]:
        """The log's row; times become seconds since arrival."""
        sent_s = self.sent_s if self.sent_s is not None else now_s
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
            "waited_s": round(sent_s - self.arrived_s, 4) if self.was_held else 0.0,
            "sent_after_s": round(self.sent_s - self.arrived_s, 4) if self.sent_s is not None else None,
            "first_after_s": round(self.first_s - self.arrived_s, 4) if self.first_s is not None else None,
            "took_s": round(now_s - self.arrived_s, 4),
            "in_bytes": self.in_bytes,
            "out_bytes": self.out_bytes,
        }
        if self.waited_for is not None:
            row["waited_for"] = self.waited_for
        if self.code is not None:
            row["code"] = self.code
        if conversation is not None:
            row["conversation"] = conversation
        tail = (self._tail + self._last)[-TAIL_BYTES:]
        if found := _FINISH.findall(tail):
            row["finish"] = found[-1].decode()
        if found := _TOKENS.findall(tail):
            row["output_tokens"] = int(found[-1])
        return row


def unread(code: str, status: int) -> dict[str, Any]:
    """The log's row of a request that could not be read, and so has neither id nor service."""
    return {"id": None, "service": None, "status": status, "ended": code, "wall_s": round(time.time(), 3)}
