"""What a row of the request log says of an attended request: for the daemon that reads it, and for replay alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headway.core.forecast import Answer

TOOL_CALL, END_OF_TURN = 1, 2
LONGEST_S: Final = 1e11  # three thousand years: no clock says more, and sums of these stay exact enough
MOST_TOKENS: Final = 10**9
FINISHES: Final = {  # as OpenAI's, Anthropic's and Ollama's servers say it; all others are unknown
    "tool_calls": TOOL_CALL, "tool_use": TOOL_CALL, "function_call": TOOL_CALL,
    "stop": END_OF_TURN, "end_turn": END_OF_TURN, "stop_sequence": END_OF_TURN,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One attended request that concerned a model. Instants are of the boot's clock."""

    service: str
    boot: str
    at_s: float  # when it came
    wall_s: float  # the same by the wall clock
    took_s: float
    sent_after_s: float | None  # None: it never reached a server
    waited_s: float  # for the model; for a place in its line is no matter of sleep
    window: str | None = None  # the kind of window that was open over it while it waited
    conversation: str | None = None
    finish: int = 0
    tokens: int = 0

    def answer(self, offset_s: float) -> Answer:
        """As the forecast learns it, `offset_s` from the boot's clock to one that goes on over boots."""
        arrived_s = self.at_s + offset_s
        return Answer(
            arrived_s=arrived_s,
            ended_s=arrived_s + self.took_s,
            conversation=self.conversation,
            finish=self.finish,
            tokens=self.tokens,
        )


def read_line(text: str | bytes) -> dict[str, Any] | None:
    """One line of the log; None where it is no document. A disk, or a hand, may have put anything there."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def logged(row: Mapping[str, Any]) -> Logged | None:
    """None: it is about something else, or it cannot be read."""
    if not row.get("demand") or row.get("class") != "attended":
        return None
    sent, conversation = row.get("sent_after_s"), row.get("conversation")
    held = row.get("held") and row.get("waited_for") != "place"
    try:
        found = Logged(
            service=str(row["service"]),
            boot=str(row["boot"]),
            at_s=float(row["at_s"]),
            wall_s=float(row["wall_s"]),
            took_s=float(row["took_s"]),
            sent_after_s=None if sent is None else float(sent),
            waited_s=float(row["waited_s"]) if held else 0.0,
            window=row.get("window"),
            conversation=None if conversation is None else str(conversation),
            finish=TOOL_CALL if row.get("tool") else FINISHES.get(str(row.get("finish")), 0),
            tokens=int(row.get("output_tokens") or 0),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    times = (found.at_s, found.wall_s, found.took_s, found.sent_after_s or 0.0, found.waited_s)
    known = all(abs(one) <= LONGEST_S for one in times) and min(times[2:]) >= 0
    return found if known and 0 <= found.tokens <= MOST_TOKENS else None
