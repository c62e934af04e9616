"""The lanes of the queue: who has a place in one, whose place may be taken, and who is next in line."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headway.core.lifecycle import is_active
from headway.core.model import DeviceId, FormName, Holder, HolderId, Job

NAMED = 3  # jobs that run and are named to one who waits for a place

Placed = Mapping[HolderId, tuple[FormName, tuple[DeviceId, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One in line for whom devices are kept. `starts_s`: when it is expected to find room there; inf: not known."""

    id: HolderId
    devices: tuple[DeviceId, ...]
    waited_s: float
    starts_s: float


@dataclass(frozen=True, slots=True)
class Lane:
    """The jobs of one lane in a plan: who takes one of its places, and who stands there unsettled, weakest first.

    `named`: the weakest of the active ones, as many as a sentence names and one more.
    """

    active: frozenset[HolderId]
    weakest: tuple[Job, ...]
    named: tuple[HolderId, ...] = ()


def lane(
    name: str,
    holders: Mapping[HolderId, Holder],
    standing: Mapping[HolderId, Holder],
    placed: Placed,
    form_of: Callable[[Holder], tuple[FormName, object]],
) -> Lane:
    """The lane of that name in a plan: what is `placed` is settled, the others that stand there may still move."""
    settled = [job for hid in placed if isinstance(job := holders[hid], Job) and job.lane == name]
    others = [job for hid, job in standing.items() if isinstance(job, Job) and hid not in placed]
    others = [job for job in others if job.lane == name]
    active = [job for job in settled if placed[job.id][0] == job.top]
    active += [job for job in others if is_active(job) or form_of(job)[0] == job.top]
    named = heapq.nsmallest(NAMED + 1, active, key=_weakest)
    return Lane(
        frozenset(job.id for job in active),
        tuple(sorted(others, key=_weakest)),
        tuple(job.id for job in named),
    )


def _weakest(job: Job) -> tuple[float, HolderId]:
    return (-job.key, job.id)
