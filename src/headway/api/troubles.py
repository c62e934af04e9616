"""What keeps the daemon from its whole work: what the board shows, and what only shows from outside the loop."""

from __future__ import annotations

from headway.api.parts import Parts
from headway.core import rows, view

STUCK_AFTER_S = 5.0  # the loop turns at least once a second
SLACK_S = 5.0  # a gate refuses at the limit, and says so within a moment


def loop_age_s(parts: Parts) -> float:
    """Seconds since the loop last looked at the world."""
    return max(0.0, parts.clock.now_s() - parts.hub.snapshot.now_s)


def troubles_of(parts: Parts) -> list[rows.Trouble]:
    """Everything that keeps it from its whole work, the loop first."""
    snapshot, pulse, age_s = parts.hub.snapshot, parts.pulse(), loop_age_s(parts)
    found = list(view.troubles(snapshot))
    if age_s > STUCK_AFTER_S:
        words = f"the loop has not turned for {age_s:.0f} s"
        found.insert(0, rows.Trouble(code="loop_stuck", sentence=words))
    if silent := pulse.gates_living - pulse.gates_connected:
        words = f"{len(silent)} of {len(pulse.gates_living)} gates live and do not speak with this daemon"
        found.append(rows.Trouble(code="gate_away", sentence=words))
    for sid in snapshot.services:
        if (service := snapshot.service(sid)) is None:
            continue
        limits_s = service.spec.max_wait_s
        for class_, waiting in service.demand.items():
            waited_s, limit_s = snapshot.now_s - waiting.since_s, limits_s.get(class_)
            if waiting.n and limit_s is not None and waited_s > limit_s + SLACK_S:
                words = f"a request for {sid} has waited {waited_s:.0f} s, and its limit is {limit_s:.0f} s"
                found.append(rows.Trouble(code="wait_overdue", sentence=words, id=sid))
    return found
