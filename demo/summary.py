"""What happened in the demo, in figures, and which of its promises were not kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from demo.client import Answer
from headway.core.units import duration, size

Row = Mapping[str, Any]
SWAPS_NEEDED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """The device changed hands: `left` was seen to let go before `came` took it."""

    left: str
    came: str
    freed_in_s: float  # from asking to memory measured free
    came_in_s: float


@dataclass(slots=True, kw_only=True)
class Facts:
    """What the summary is made from. `events` and `requests` are Headway's own, the rest was seen from outside."""

    seconds: float = 0.0
    total_bytes: int = 0
    most_bytes: int = 0
    looks: int = 0
    answers: Sequence[Answer] = ()
    events: Sequence[Row] = ()
    requests: Sequence[Row] = ()
    jobs: Sequence[Row] = ()
    steps: int = 0  # of the training, at its last saved point
    frames: int = 0  # of the rendering
    cut_short: bool = False  # somebody ended it before it could come to everything
    exit_status: int | None = None
    left: Sequence[str] = ()
    troubles: list[str] = field(default_factory=list)


def swaps(events: Sequence[Row]) -> Iterator[Swap]:
    """Each time one holder came after the memory of another was measured free."""
    left: Row | None = None
    for event in events:
        if event["code"] == "release.verified":
            left = event
        elif event["code"] == "move.done" and left is not None and left["holder"] != event["holder"]:
            yield Swap(
                left=left["holder"],
                came=event["holder"],
                freed_in_s=left["facts"]["took_s"],
                came_in_s=event["facts"]["took_s"],
            )
            left = None


def waited(facts: Facts) -> list[float]:
    """Seconds that each request was held at the gate, of those that were held and answered in the end."""
    answered = {answer.id for answer in facts.answers if answer.error is None}
    rows = (row["doc"] for row in facts.requests if row["doc"].get("id") in answered)
    return [row["waited_s"] for row in rows if row["held"]]


def broken(facts: Facts) -> list[str]:
    """Promises that were not kept, in words; empty when all were."""
    unanswered = [answer for answer in facts.answers if answer.error is not None]
    found = [*facts.troubles, *([] if facts.cut_short else _not_reached(facts))]
    found += [f"request {answer.id} was not answered: {answer.error}" for answer in unanswered]
    if facts.most_bytes > facts.total_bytes:
        found.append(f"{size(facts.most_bytes)} were held at once, there are {size(facts.total_bytes)}")
    for event in facts.events:
        if event["code"] == "memory.not_released":
            found.append(f"{event['holder']} kept its memory: {event['sentence']}")
    found += [f"{job['name']} ({job['id']}) {job['state']}: {job['why']}" for job in facts.jobs if _bad(job)]
    if facts.exit_status != 0:
        found.append(f"`headway up` ended with status {facts.exit_status}")
    return found + [f"left behind: {what}" for what in facts.left]


def _not_reached(facts: Facts) -> Iterator[str]:
    """What a whole showing comes to, and this one did not."""
    swapped = len(list(swaps(facts.events)))
    if swapped < SWAPS_NEEDED:
        yield f"{swapped} verified swaps, at least {SWAPS_NEEDED} are needed"
    if not waited(facts):
        yield "no request was held and answered"
    if not facts.answers:
        yield "no request was sent"
    if not facts.looks or not facts.most_bytes:
        yield "the device was never seen in use"
    if facts.steps == 0:
        yield "train saved no step"
    if facts.frames == 0:
        yield "render drew no frame"


def _bad(job: Row) -> bool:
    return job["state"] not in ("done", "cancelled")


def lines(facts: Facts) -> list[str]:
    """The summary for people."""
    waits, found = waited(facts), list(swaps(facts.events))
    freed = [event["facts"]["took_s"] for event in facts.events if event["code"] == "release.verified"]
    answered = sum(answer.error is None for answer in facts.answers)
    text = [f"In {duration(facts.seconds)}:"]
    text.append(f"  requests    {answered} of {len(facts.answers)} answered; {_waits(waits)}")
    given_s = sum(job["ran_s"] for job in facts.jobs)
    text.append(f"  jobs        {duration(given_s)} of the device; {_progress(facts)}")
    text.append(f"  swaps       {len(found)}{_swap_times(found)}")
    text.append(f"  releases    {len(freed)}, each verified by measuring{_range(freed)}")
    text.append(
        f"  memory      at most {size(facts.most_bytes)} of {size(facts.total_bytes)} held at once, "
        f"in {facts.looks} looks from outside"
    )
    gone = "nothing is left: no process, port or lock" if not facts.left else f"{len(facts.left)} things left"
    return [*text, f"  afterwards  {gone}"]


def _waits(waits: list[float]) -> str:
    if not waits:
        return "none waited"
    return f"{len(waits)} waited for the device, {duration(mean(waits))} on average, {duration(max(waits))} at most"


def _progress(facts: Facts) -> str:
    renders = [job for job in facts.jobs if job["name"] == "render"]
    done = sum(job["state"] == "done" for job in renders)
    runs = sum(event["code"] == "move.done" and event["facts"]["form"] == "running" for event in facts.events)
    return (
        f"train saved {facts.steps} steps, {done} of {len(renders)} renders done, {runs} starts and resumes"
    )


def _swap_times(found: list[Swap]) -> str:
    if not found:
        return ""
    to_model = [swap.freed_in_s + swap.came_in_s for swap in found if swap.came == "chat"]
    return f"; the model was back in {duration(mean(to_model))} on average" if to_model else ""


def _range(seconds: list[float]) -> str:
    if not seconds:
        return ""
    return f" ({duration(min(seconds))} to {duration(max(seconds))} after it was asked)"
