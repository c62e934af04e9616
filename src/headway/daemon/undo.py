"""Takes back what commands changed, when their turn could not be saved: they were answered "not now"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from headway.core.draft import Draft
from headway.core.model import Holder, HolderId, Mode

ModeBy = tuple[Mode, str | None]  # with who set it by hand


@dataclass(frozen=True, slots=True)
class Undo:
    """What the commands of one turn made of what was there before."""

    holders: tuple[tuple[Holder | None, Holder], ...]
    modes: tuple[ModeBy, ModeBy]
    dropped: tuple[Holder, ...] = ()

    @classmethod
    def of(cls, before: Mapping[HolderId, Holder], mode: ModeBy, draft: Draft) -> Undo:
        """What changed in the draft since holders and mode were as given."""
        changed = tuple(
            (before.get(hid), holder)
            for hid, holder in draft.holders.items()
            if before.get(hid) is not holder
        )
        dropped = tuple(holder for hid, holder in before.items() if hid not in draft.holders)
        return cls(changed, (mode, mode_of(draft)), dropped)

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
        for holder in self.dropped:
            draft.put(holder)
        was, became = self.modes
        if was != became == mode_of(draft):
            draft.set(mode=was[0], mode_by=was[1])
        if undone := sorted({after.id for _, after in self.holders} | {one.id for one in self.dropped}):
            draft.event("commands.undone", None, holders=undone)


NOTHING = Undo((), (("live", None), ("live", None)))


def mode_of(draft: Draft) -> ModeBy:
    return draft.other.get("mode", draft.base.mode), draft.other.get("mode_by", draft.base.mode_by)
