"""Made-up traces of requests: agents that call tools, pause for a person, and go home. The same seed, the same trace."""

from __future__ import annotations

import random

from headway.sim.replay.trace import Request


def agents(seed: int, *, count: int = 2, hours: float = 24.0) -> tuple[Request, ...]:
    """`count` people one of whose agents works at a time; sorted by arrival, the first at 0."""
    rng = random.Random(seed)
    found: list[Request] = []
    for person in range(count):
        at_s, session = rng.expovariate(1 / 600), 0
        while at_s < hours * 3600:
            session += 1
            for _ in range(rng.randint(5, 60)):
                service_s = rng.lognormvariate(1.5, 0.8)
                turn_ends = rng.random() < 0.08
                found.append(
                    Request(
                        arrived_s=at_s,
                        service_s=service_s,
                        conversation=f"{person}-{session}",
                        finish=2 if turn_ends else 1,
                        tokens=rng.choice((60, 300, 900)),
                    )
                )
                pause_s = rng.lognormvariate(5.2, 1.2) if turn_ends else rng.lognormvariate(2.0, 1.1)
                at_s += service_s + pause_s
            at_s += rng.lognormvariate(7.0, 1.0)
    found.sort(key=lambda one: one.arrived_s)
    return tuple(found)


def irregular(seed: int, *, days: int = 10) -> tuple[Request, ...]:
    """One or two people who work some hours of the day, and not every day."""
    rng = random.Random(seed)
    some = agents(seed, count=rng.choice((1, 2)), hours=24.0 * days)
    begin, hours, share = rng.randint(6, 12), rng.randint(8, 14), rng.choice((0.5, 0.9))
    at_work = [day < 2 or rng.random() < share for day in range(days + 2)]
    return tuple(
        one
        for one in some
        if at_work[int(one.arrived_s // 86400)] and begin <= one.arrived_s / 3600 % 24 < begin + hours
    )


def crowd(seed: int, *, per_s: float = 4.0, count: int = 8000) -> tuple[Request, ...]:
    """A data centre's chat: no conversation is known, and there is no quiet."""
    rng = random.Random(seed)
    at_s, found = 0.0, []
    for _ in range(count):
        at_s += rng.expovariate(per_s)
        found.append(Request(arrived_s=at_s, service_s=rng.uniform(0.05, 0.4)))
    return tuple(found)
