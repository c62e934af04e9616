"""What the gap policy makes of a service, for people: the curve at a few points, the price, who waited, and what
its moves take."""

from __future__ import annotations

from typing import Final

from headway.core.ledger import CLOSED, Waits
from headway.core.model import Service, Snapshot
from headway.core.outlook import Outlook
from headway.core.phrases import fill, told
from headway.core.rows import BudgetRow, GapRow, TimesRow, WaitsRow
from headway.core.wording import could_come_back, phrase

POINTS_S: Final = (5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
OVER: Final = ("1 h", "24 h", "all")
LIKELY: Final = 0.8
ANSWERING: Final = phrase(
    "nothing is expected while it answers; a second of waiting must earn {price} s of job time now"
)
ASIDE: Final = phrase("it is not awake; once it is, a second of waiting must earn {price} s of job time")
PROMISED: Final = phrase(
    "its requests have waited as much in a day as was promised: no swap until that is longer ago"
)
EXPECTED: Final = phrase(
    "{talks_words} could come back; 80 % chance of at least {likely_s} more quiet; a second of waiting must earn "
    "{price} s of job time now",
    "nobody is known who could come back; 80 % chance of at least {likely_s} more quiet; a second of waiting must earn "
    "{price} s of job time now",
    derive=could_come_back,
)


def gap_row(service: Service, s: Snapshot) -> GapRow | None:
    outlook = s.outlooks.get(service.id)
    if outlook is None:
        return None
    quiet = outlook.quiet if service.form == service.top and not service.active else None
    waits = [_waits(over, one) for over, one in zip(OVER, outlook.waits, strict=True)]
    return GapRow(
        sentence=_sentence(service, outlook, s),
        age_s=s.now_s - outlook.at_s,
        talks=quiet.talks if quiet is not None else None,
        likely_s=quiet.lasting_s(LIKELY) if quiet is not None else None,
        curve=tuple((at_s, round(quiet.at(at_s), 4)) for at_s in POINTS_S) if quiet is not None else (),
        price=outlook.price,
        wait_price=outlook.knobs.wait_price,
        max_mean_wait_s=outlook.knobs.max_mean_wait_s,
        max_waiting_share=outlook.knobs.max_waiting_share,
        follower_s=outlook.follower_s,
        waits=(*waits, _waits("slow_wake", outlook.apart)),
    )


def budget_row(service: Service, s: Snapshot) -> BudgetRow | None:
    """What was waited in 24 hours, against what is promised. None: there was no request."""
    outlook = s.outlooks.get(service.id)
    if outlook is None or not outlook.waits[1].requests:
        return None
    waits, knobs = outlook.waits[1], outlook.knobs
    return BudgetRow(
        requests=waits.requests,
        share=waits.share,
        max_share=knobs.max_waiting_share,
        mean_s=waits.mean_s,
        max_mean_s=knobs.max_mean_wait_s,
    )


def times(service: Service) -> tuple[TimesRow, ...]:
    """Of its forms below the highest, those of which a time was measured."""
    return tuple(
        TimesRow(form=form.name, down_s=form.enter_s, back_s=form.leave_s)
        for form in service.forms[1:]
        if form.enter_s is not None or form.leave_s is not None
    )


def _waits(over: str, waits: Waits) -> WaitsRow:
    return WaitsRow(
        over=over, requests=waits.requests, waited=waits.waited, share=waits.share, mean_s=waits.mean_s
    )


def _sentence(service: Service, outlook: Outlook, s: Snapshot) -> str:
    """Of a model that is aside for a job, why that was worth it; else what is expected."""
    if outlook.taken and (service.form != service.top or service.id in s.pending):
        return told("gap.taken", None, outlook.taken, s)
    if service.form != service.top:
        return fill(ASIDE, {"price": outlook.price}, s)
    if outlook.quiet is None or service.active:
        return fill(ANSWERING, {"price": outlook.price}, s)
    if outlook.price >= CLOSED:
        return fill(PROMISED, {}, s)
    likely_s = outlook.quiet.lasting_s(LIKELY)
    facts = {"talks": outlook.quiet.talks, "likely_s": likely_s, "price": outlook.price}
    return fill(EXPECTED, facts, s)
