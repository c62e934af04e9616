"""What a turn changed, into the store: one transaction a turn, and the journal while the store is silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from headway.core import codec
from headway.core.commands import Reply
from headway.core.configuring import said_mode
from headway.core.draft import Draft
from headway.core.facts import Fact, MoveAnswered, StoreState
from headway.core.model import Event, Move, Pending, Service, Snapshot
from headway.errors import HeadwayError, StoreFailed
from headway.ports import Batch, Clock, Journal, RequestLine, Store

SILENT_S = 0.25
IN_META = frozenset(
    {
        "mode",
        "prod_only_by",
        "queue_hold",
        "crashes",
        "windows",
        "next_window",
        "next_job",
        "next_lease",
        "fencing",
        "recipes_seen",
    }
)


class Recorder:
    """Owns what is not saved yet. `ok` is False from the first commit that is late or fails until one works.

    `trouble` says why, as far as that is known: nothing is of one that is only late.
    """

    def __init__(self, store: Store, journal: Journal, clock: Clock, told: Callable[[Event], None]) -> None:
        self._store, self._journal, self._clock, self._told = store, journal, clock, told
        self._rows: set[str] = set()
        self._gone: set[str] = set()
        self._intents: set[str] = set()
        self._events: list[tuple[Event, float]] = []
        self._requests: list[RequestLine] = []
        self._offsets: dict[str, int] = {}
        self._meta: dict[str, str] = {}
        self._under_way: asyncio.Future[None] | None = None
        self._new_facts: list[Fact] = []
        self._journaled = (
            1 if journal.read() else 0
        )  # entries in the journal; an earlier daemon's count as one
        self._covered = 0  # of these, those whose rows are in the batch under way
        self.ok = True
        self.trouble: str | None = None

    def facts(self) -> list[Fact]:
        """What became of the store since the last turn."""
        self._retire()
        facts, self._new_facts = self._new_facts, []
        return facts

    def meta(self, **words: str) -> None:
        """Small facts about the database itself."""
        self._meta |= words

    def tailed(self, lines: list[RequestLine], offsets: dict[str, int]) -> None:
        """Lines of the request log: they are saved together with the offset behind them."""
        self._requests += lines
        self._offsets |= offsets

    async def save(self, draft: Draft, s: Snapshot) -> bool:
        """Commit what the turn changed. False: not yet, the store is silent; nothing may be created."""
        self.collect(draft, s)
        if self._under_way is not None:
            self._retire()
            if self._under_way is not None:
                return False
        batch = self._batch(s)
        if batch is None:
            return self.ok
        self._under_way = self._store.save(batch)
        self._under_way.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([self._under_way], timeout=SILENT_S)
        self._retire()
        if self._under_way is not None and self.ok:
            self._set(False)
        return self.ok

    async def flush(self, s: Snapshot) -> None:
        """Write what is left, at the end."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way], timeout=2.0)
            self._retire()
        if self._under_way is None and (batch := self._batch(s)) is not None:
            self._under_way = self._store.save(batch)
            await asyncio.wait([self._under_way], timeout=2.0)
            self._retire()

    def allows(self, move: Move, pending: Pending, s: Snapshot, saved: bool) -> bool:
        """May this move go ahead now? What is done before its row is there goes on file first.

        One that creates waits for its row; without it only the way back of a model goes ahead. One that gives
        memory back never waits, but the next daemon must know that it was us who ended or parked a job.
        """
        if move.creates and saved:
            return True
        if move.creates and not isinstance(s.holders[move.holder], Service):
            return False
        try:
            self._journal.append({"holder": move.holder, "pending": codec.to_doc(pending)})
        except (HeadwayError, OSError):
            return not move.creates
        self._journaled += 1
        return True

    def refusal(self, move: Move) -> MoveAnswered:
        return MoveAnswered(
            holder=move.holder, to=move.form, run_id=move.run_id, error="store_silent", facts={}, refused=True
        )

    def unsaved(self, reply: Reply) -> Reply:
        """The answer to a command that could not be saved, whatever it would have been."""
        return replace(reply, accepted=False, code="store_silent", facts={"trouble": self.trouble})

    # ---------------------------------------------------------------- inside

    def collect(self, draft: Draft, s: Snapshot) -> None:
        """Note what is to be saved; the next `save` or `flush` writes it."""
        self._rows |= draft.saved
        self._gone |= draft.gone
        self._intents |= draft.intents
        wall_s = self._clock.wall_s()
        for event in draft.events:
            self._events.append((event, wall_s))
            self._told(event)
        if draft.other.keys() & IN_META:
            self._meta |= {
                "mode": s.mode,
                "mode_by": s.mode_by or "",
                "config_mode": said_mode(s.mode, s.mode_by),
                "prod_only_by": s.prod_only_by or "",
                "queue_hold": codec.dumps(s.queue_hold) if s.queue_hold else "",
                "crashes": json.dumps(s.crashes),
                "next_job": str(s.next_job),
                "next_lease": str(s.next_lease),
                "windows": json.dumps([codec.to_doc(window) for window in s.windows]),
                "next_window": str(s.next_window),
                "fencing": str(s.fencing),
                "recipes_seen": "\n".join(sorted(s.recipes_seen)),
            }
        if "recipes" in draft.other:
            self._meta["recipes"] = json.dumps({n: codec.to_doc(r) for n, r in sorted(s.recipes.items())})

    def _batch(self, s: Snapshot) -> Batch | None:
        if not (self._rows or self._gone or self._intents or self._events or self._requests or self._meta):
            return None
        rows = [s.holders[hid] for hid in sorted(self._rows) if hid in s.holders]
        clock = {
            "boot_id": s.boot_id,
            "saved_s": repr(self._clock.now_s()),
            "saved_wall_s": repr(self._clock.wall_s()),
        }
        batch = Batch(
            holders=tuple((h.id, h.kind, codec.dumps(h)) for h in rows),
            holders_gone=tuple(sorted(hid for hid in self._gone if hid not in s.holders)),
            pending=tuple((h, codec.dumps(s.pending[h])) for h in sorted(self._intents) if h in s.pending),
            pending_gone=tuple(h for h in sorted(self._intents) if h not in s.pending),
            events=tuple(self._events),
            requests=tuple(self._requests),
            offsets=dict(self._offsets),
            meta={**self._meta, **clock},
        )
        self._in_batch = (
            self._rows,
            self._gone,
            self._intents,
            self._events,
            self._requests,
            self._offsets,
            self._meta,
        )
        self._covered = self._journaled
        self._rows, self._gone, self._intents = set(), set(), set()
        self._events, self._requests, self._offsets, self._meta = [], [], {}, {}
        return batch

    def _retire(self) -> None:
        """Look at the commit under way; what was in a failed one is written again with the next."""
        if self._under_way is None or not self._under_way.done():
            return
        cancelled = self._under_way.cancelled()
        error = None if cancelled else self._under_way.exception()
        failed = cancelled or error is not None
        self._under_way = None
        if failed:
            rows, gone, intents, events, requests, offsets, meta = self._in_batch
            self._rows |= rows
            self._gone |= gone
            self._intents |= intents
            self._events, self._requests = events + self._events, requests + self._requests
            self._offsets, self._meta = {**offsets, **self._offsets}, {**meta, **self._meta}
        elif self._covered and self._covered == self._journaled:  # what was journaled since is in no row yet
            with suppress(HeadwayError, OSError):
                self._journal.clear()
                self._journaled = self._covered = 0
        self._set(not failed, str(error) if isinstance(error, StoreFailed) else None)

    def _set(self, ok: bool, trouble: str | None = None) -> None:
        if (ok, trouble) != (self.ok, self.trouble):
            self.ok, self.trouble = ok, trouble
            self._new_facts.append(StoreState(ok=ok, trouble=trouble))
