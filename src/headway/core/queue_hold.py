"""Holding the whole queue: no job starts until it is released by name. People do it, and we do after a crash loop.

A daemon that ends again and again without being told to may do so because of the jobs it starts. Then its next life
comes up with the queue held: models are woken and leases granted as ever, what runs goes on, and no job starts.
"""

from __future__ import annotations

from headway.core.commands import HoldQueue, Reply
from headway.core.draft import Draft
from headway.core.model import QueueHold
from headway.core.replies import accepted


def hold(d: Draft, command: HoldQueue) -> Reply:
    """Hold the queue, or release it. Said twice it changes nothing."""
    found: QueueHold | None = d.other.get("queue_hold", d.base.queue_hold)
    if command.on and found is None:
        d.set(queue_hold=QueueHold(by=command.by, since_s=d.now_s))
        d.event("queue.held", None, by=command.by)
    elif not command.on and found is not None:
        d.set(queue_hold=None, crashes=())
        d.event("queue.released", None, by=command.by)
    return accepted(d, None, held=command.on)


def started(d: Draft, crashed: bool) -> None:
    """A daemon begins. `crashed`: the one before it was not told to end."""
    policy = d.base.policy
    if not crashed:
        if d.base.crashes:
            d.set(crashes=())
        return
    near = (at_s for at_s in d.base.crashes if d.now_s - at_s < policy.crash_within_s)
    crashes = (*near, d.now_s)
    d.set(crashes=crashes)
    n = len(crashes)
    if policy.crash_starts and n >= policy.crash_starts and d.base.queue_hold is None:
        d.set(queue_hold=QueueHold(by="headway", since_s=d.now_s, crashes=n))
        d.event("daemon.crash_loop", None, crashes=n, within_s=d.now_s - crashes[0])
