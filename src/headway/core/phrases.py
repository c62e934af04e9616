"""Sentences from codes and facts: the first wording whose facts are all known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headway.core.model import Snapshot
from headway.core.notes import NOTES as NOTES
from headway.core.phrasebook import VERDICTS as VERDICTS
from headway.core.tellings import EVENTS as EVENTS
from headway.core.tellings import REFUSALS as REFUSALS
from headway.core.wording import Facts as Facts
from headway.core.wording import Phrase as Phrase
from headway.core.words import label, spoken

TROUBLES = frozenset({"note", "reason"})  # facts whose value is the code of a note, or a person's own words


def fill(phrase: Phrase, facts: Facts, s: Snapshot | None) -> str:
    """The first wording whose facts are all known."""
    given = {**facts, **(phrase.derive(facts) if phrase.derive else {})}
    for text in phrase.texts:
        if (filled := _filled(text, given, s)) is not None:
            return filled
    return phrase.texts[-1]


class _Said(Mapping[str, str]):
    """The facts in words; one that is not known is not there."""

    def __init__(self, facts: Facts, s: Snapshot | None) -> None:
        self._facts, self._s = facts, s

    def __getitem__(self, key: str) -> str:
        value = self._facts.get(key)
        trouble = value and key in TROUBLES
        word = note(str(value), self._facts, self._s) if trouble else spoken(key, value, self._s)
        if word is None:
            raise KeyError(key)
        return word

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def _filled(text: str, facts: Facts, s: Snapshot | None) -> str | None:
    """None when a fact that the wording needs is not known."""
    try:
        return text.format_map(_Said(facts, s))
    except KeyError:
        return None


def sentence(code: str, facts: Facts, s: Snapshot | None = None) -> str:
    """Why something is as it is, in words without the state before it. An unknown code is said as it is."""
    phrase = VERDICTS.get(code)
    return fill(phrase, facts, s) if phrase else code.replace("_", " ")


def help_for(code: str, facts: Facts, hid: str, kind: str) -> str | None:
    """The next command to type; None where waiting is all there is to do."""
    phrase = VERDICTS.get(code)
    if phrase is None:
        return None
    given = {**facts, "id": hid, f"{kind}_id": hid}
    given |= phrase.derive(given) if phrase.derive else {}
    lines = (_filled(text, given, None) for text in phrase.help)  # ids, as they are typed
    return next((typed for typed in lines if typed is not None), None)


def note(code: str, facts: Facts, s: Snapshot | None = None) -> str:
    """The last trouble of a holder in words that fit into a sentence; what a person wrote stays as it is."""
    phrase = NOTES.get(code)
    if phrase is None:
        return code
    # a note is never part of a note: its own code is among the facts of an event
    return fill(phrase, {key: value for key, value in facts.items() if key not in TROUBLES}, s)


def refusal(code: str, facts: Facts, s: Snapshot | None = None) -> str:
    """Why a command was refused, with the next step."""
    phrase = REFUSALS.get(code)
    return fill(phrase, facts, s) if phrase else code.replace("_", " ")


def told(code: str, holder: str | None, facts: Facts, s: Snapshot | None = None) -> str:
    """One line of the audit in words, with whom it is about in front."""
    phrase = EVENTS.get(code)
    words = fill(phrase, facts, s) if phrase else code.replace(".", " ").replace("_", " ")
    if holder is None:
        return words
    name = label(holder, s) if s else holder
    return f"{name}: {words}"
