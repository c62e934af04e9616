"""Waiting requests for people: which, since when, how much longer, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from headway.core import wire
from headway.core.deadlines import seldom_more_s
from headway.core.model import Pending, Service, Snapshot
from headway.core.phrases import fill
from headway.core.reasons import Verdicts, explain, waiting
from headway.core.wording import phrase, requests_active

LISTED: Final = 20  # of one service; how many more there are is counted

WAITS: Final = phrase(
    "{because}; about {likely_s} more, at most {at_most_s}",
    "{because}; at most {at_most_s} more",
    "{because}",
)
PLACE: Final = phrase(
    "waits for a place: it is answering {active_words}, and {max_active} at once at most",
    "waits for a place",
    derive=requests_active,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """One request that the gate holds."""

    id: str  # as in the answer's X-Request-Id and in the request log
    service: str
    model: str | None  # as its caller named it
    client: str | None
    attended: bool
    position: int  # in the line of its service, from 1
    waited_s: float
    likely_s: float | None  # more, by what such moves took before; None: not known
    at_most_s: float | None  # more, then it is sent or refused; None: it waits for a place where all is open
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPage:
    """`more` are not listed: the first ones of each service are."""

    requests: tuple[WaitingRow, ...]
    more: int


def waiting_page(
    service: Service, held: Iterable[wire.HeldEntry], s: Snapshot, verdicts: Verdicts
) -> WaitingPage:
    """The first of those that wait for a service, as its gates told them."""
    likely_s, because = back_s(service, s), explain(service.id, s, verdicts).sentence
    if service.gate.wish == "open" and service.form == service.top:
        because = fill(PLACE, {"active": service.active, "max_active": service.spec.max_active}, s)
    rows = tuple(
        WaitingRow(
            id=one.id,
            service=service.id,
            model=one.model,
            client=one.client or None,
            attended=one.class_ == "attended",
            position=one.position,
            waited_s=one.waited_s,
            likely_s=likely_s,
            at_most_s=one.left_s,
            why=fill(WAITS, {"because": because, "likely_s": likely_s, "at_most_s": one.left_s}, s),
        )
        for one in islice(held, LISTED)
    )
    return WaitingPage(requests=rows, more=max(0, waiting(service) - len(rows)))


def joined(pages: Iterable[WaitingPage]) -> WaitingPage:
    """Those of several services."""
    found = tuple(pages)
    return WaitingPage(
        requests=tuple(row for page in found for row in page.requests), more=sum(page.more for page in found)
    )


def back_s(service: Service, s: Snapshot) -> float | None:
    """Seconds until it answers, as measured before: those who step aside for it, then its own way back.

    None: one of these was never measured, nobody steps aside yet, or it answers.
    """
    pending = s.pending.get(service.id)
    if pending is not None and not pending.frees:
        return _less(_back(service, pending.source), s.now_s - pending.started_s)
    aside = [_release_s(one, s) for one in s.pending.values() if one.frees and one.cause == service.id]
    ways = [*aside, _back(service, service.form)]
    if not aside or service.form == service.top or None in ways:
        return None
    return max(one for one in aside if one is not None) + (ways[-1] or 0.0)


def _back(service: Service, source: str | None) -> float | None:
    form = service.form_named(source or service.bottom)
    return None if form is None else form.leave_s


def _release_s(pending: Pending, s: Snapshot) -> float | None:
    form = s.holders[pending.holder].form_named(pending.to)
    return None if form is None else _less(seldom_more_s(form), s.now_s - pending.started_s)


def _less(takes_s: float | None, since_s: float) -> float | None:
    """What is left of it. One that takes longer than it did before says nothing any more."""
    return None if takes_s is None or since_s > takes_s else takes_s - since_s
