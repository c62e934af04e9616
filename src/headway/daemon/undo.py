"""Takes back what commands changed, when their turn could not be saved: they were answered "not now"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from headway.core.draft import Draft
from headway.core.model import Holder, HolderId

SETTINGS = ("mode", "mode_by", "prod_only_by", "windows")  # what commands set for the whole machine
Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Undo:
    """What the commands of one turn made of what was there before."""

    holders: tuple[tuple[Holder | None, Holder], ...]
    settings: tuple[Settings, Settings]

    @classmethod
    def of(cls, before: Mapping[HolderId, Holder], settings: Settings, draft: Draft) -> Undo:
        """What changed in the draft since holders and settings were as given."""
        changed = tuple(
            (before.get(hid), holder)
            for hid, holder in draft.holders.items()
            if before.get(hid) is not holder
        )
        return cls(changed, (settings, settings_of(draft)))

    def apply(self, draft: Draft) -> None:
        """Put back what is still as the commands left it; what the world changed since stays."""
        for before, after in self.holders:
            now = draft.holders.get(after.id)
            if now is None:
                continue
            if before is None:
                if after.id not in draft.pending:
                    draft.drop(after.id)
                continue
            back = {
                field.name: getattr(before, field.name)
                for field in fields(before)
                if getattr(before, field.name) != getattr(after, field.name) == getattr(now, field.name)
            }
            draft.put(replace(now, **back))
        was, became, now_ = *self.settings, settings_of(draft)
        if back := {name: was[name] for name in was if was[name] != became[name] == now_[name]}:
            draft.set(**back)
        if self.holders:
            draft.event("commands.undone", None, holders=sorted(after.id for _, after in self.holders))


NOTHING = Undo((), ({}, {}))


def settings_of(draft: Draft) -> Settings:
    return {name: draft.other.get(name, getattr(draft.base, name)) for name in SETTINGS}
