"""Takes back what commands changed, when their turn could not be saved: they were answered "not now"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from headway.core.draft import Draft
from headway.core.model import Holder

Plain = Mapping[str, Any]  # fields of the snapshot that commands set
FIELDS = (
    "mode",
    "mode_by",
    "policy",
    "recipes",
    "recipes_seen",
    "prod_only_by",
    "queue_hold",
    "crashes",
    "windows",
)


@dataclass(frozen=True, slots=True)
class Undo:
    """What the commands of one turn made of what was there before. No holder after: it was forgotten."""

    holders: tuple[tuple[Holder | None, Holder | None], ...]
    plain: tuple[Plain, Plain]

    @classmethod
    def of(cls, plain: Plain, draft: Draft) -> Undo:
        """What changed in the draft since its mark, when the plain fields were as given; NOTHING if nothing did."""
        pairs = ((before, draft.holders.get(hid)) for hid, before in draft.before.items())
        changed = tuple((before, after) for before, after in pairs if before is not after)
        became = plain_of(draft)
        if not changed and all(plain[name] is became[name] for name in plain):
            return NOTHING
        return cls(changed, (plain, became))

    def apply(self, draft: Draft) -> None:
        """Put back what is still as the commands left it; what the world changed since stays."""
        told = set()
        for before, after in self.holders:
            if after is None:
                assert before is not None
                told.add(before.id)
                if before.id not in draft.holders:
                    draft.put(before)
                    draft.gone.discard(before.id)
                continue
            told.add(after.id)
            self._back(draft, before, after)
        was, became = self.plain
        now = plain_of(draft)
        back = {
            name: was[name] for name in was if was[name] is not became[name] and became[name] == now[name]
        }
        if back:
            draft.set(**back)
        if told:
            draft.event("commands.undone", None, holders=sorted(told))

    def _back(self, draft: Draft, before: Holder | None, after: Holder) -> None:
        now = draft.holders.get(after.id)
        if now is None:
            return
        if before is None:
            if after.id not in draft.pending:
                draft.drop(after.id)
            return
        back = {
            field.name: getattr(before, field.name)
            for field in fields(before)
            if getattr(before, field.name) != getattr(after, field.name) == getattr(now, field.name)
        }
        draft.put(replace(now, **back))


def marked(draft: Draft) -> Plain:
    """Have the draft note what changes from now on; its plain fields as they are now."""
    draft.mark()
    return plain_of(draft)


def plain_of(draft: Draft) -> Plain:
    return {name: draft.other.get(name, getattr(draft.base, name)) for name in FIELDS}


NOTHING = Undo((), ({}, {}))
