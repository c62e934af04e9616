"""What a phrase is, and the facts that several phrases make from the ones they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.names import shown
from headway.core.units import duration, size
from headway.core.words import DID

Facts = Mapping[str, Any]
LISTS = {  # kind -> the command that lists all of it
    "job": "headway ps -a",
    "service": "headway service ls",
    "lease": "headway lease ls -a",
    "claim": "headway lease ls -a",
    "window": "headway window ls",
}
GIVEN_UP = "given up while it waited"
INITIALS = {"j": "job", "L": "lease", "C": "claim", "w": "window"}


@dataclass(frozen=True, slots=True)
class Phrase:
    """Wordings from the richest to one that needs no fact: the first whose facts are all known is taken.

    `help` are commands to type next, of which the first is taken likewise; in them `{id}` is the holder asked about,
    and `{job_id}` the same of a job only. `derive` adds facts to say.
    """

    texts: tuple[str, ...]
    help: tuple[str, ...] = ()
    derive: Callable[[Facts], Facts] | None = None


def phrase(
    *texts: str, help: str | tuple[str, ...] = (), derive: Callable[[Facts], Facts] | None = None
) -> Phrase:
    return Phrase(texts, (help,) if isinstance(help, str) else help, derive)


def count(key: str, one: str, many: str) -> Callable[[Facts], Facts]:
    """Adds `KEY_words`: "1 request", "3 requests"; nothing for none."""

    def derive(facts: Facts) -> Facts:
        n = facts.get(key)
        return {} if not n else {f"{key}_words": f"{n} {one if n == 1 else many}"}

    return derive


could_come_back = count("talks", "conversation", "conversations")
requests_active = count("active", "request", "requests")
requests_pinning = count("pinning", "request", "requests")


def still_held(facts: Facts) -> Facts:
    """ "says it stopped; sim0 still shows 14.2 GiB", one clause per device."""
    held = facts.get("held") or {}
    return {
        "did": DID.get(str(facts.get("to")), "stepped aside"),
        "shows": " and ".join(f"{name} still shows {size(bytes_)}" for name, bytes_ in held.items()),
        "expected": size(facts.get("expected_bytes") or 0),
    }


def did(facts: Facts) -> Facts:
    return {"did": DID.get(str(facts.get("to")), "moved")}


def waited_for_held(facts: Facts) -> Facts:
    return {"after_held": facts.get("after")} if facts.get("held") else {}


def gate(facts: Facts) -> Facts:
    return {**requests_pinning(facts), "gate": None if facts.get("closed", True) else "open"}


def _ago(seconds: float | None) -> Facts:
    return {} if seconds is None else {"ago": "just now" if seconds < 1 else f"{duration(seconds)} ago"}


def held(facts: Facts) -> Facts:
    return _ago(facts.get("since_s"))


def ended(facts: Facts) -> Facts:
    return _ago(facts.get("ended_s"))


def given_up(facts: Facts) -> Facts:
    """One that left while it waited had nothing to give back."""
    return {**ended(facts), "up": GIVEN_UP if facts.get("gave_up") else None}


def share_done(facts: Facts) -> Facts:
    progress = facts.get("progress")
    return {} if progress is None else {"share": f"{progress:.0%}"}


def many(facts: Facts) -> Facts:
    return {"many": f"{facts['count']} devices"} if (facts.get("count") or 0) > 1 else {}


def who_runs(facts: Facts) -> Facts:
    """Who has the places, and what helps: the first in line cannot be moved any further up, so one of those stops."""
    others = tuple(facts.get("others") or ())
    helps = {"behind": facts.get("id")}
    if facts.get("position") == 1:
        helps = {"in_the_way": others[0]} if others else {}
    if facts.get("limit") == 1:
        return {"other": others[0] if others else "another", **helps}
    return {"all" if len(others) == facts.get("active") else "some": others, **helps}


def known_to_come(facts: Facts) -> Facts:
    """The list of windows helps who may wait for one of them."""
    return {"lists": "ls"} if facts.get("in_s") is not None else {}


def how_it_ended(facts: Facts) -> Facts:
    code = facts.get("exit_code")
    if not isinstance(code, int):
        return {}
    return {"exit": f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"}


def unknown(target: str, kind: str | None = None) -> str:
    """That nobody is called so, and what lists those who could have been meant.

    Args:
        kind: what was asked for; None: anything, and an id says by its letter what it is.
    """
    if kind is None and target[1:].isdigit():
        kind = INITIALS.get(target[0])
    if kind is None:
        lists = f"`{LISTS['job']}` lists jobs, `{LISTS['service']}` services, `{LISTS['lease']}` leases and claims"
    else:
        lists = f"`{LISTS[kind]}` lists what there is"
    return f"no {kind or 'id or name'} {shown(target)} is known. {lists}."


def nobody(facts: Facts) -> Facts:
    target = facts.get("target")
    return {} if target is None else {"unknown": unknown(str(target), facts.get("kind")).removesuffix(".")}
