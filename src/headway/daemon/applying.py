"""A changed config into a running daemon: read and checked whole, then one command, in one turn, in one commit.

Nothing of it counts before the loop has accepted it. After a kill meanwhile the next daemon reads the file anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from headway.core import wishes
from headway.core.commands import Configure, Reply
from headway.core.configs import Applied, Proposed
from headway.core.draft import Draft
from headway.core.facts import ConfigRefused, Fact
from headway.core.model import Job, Snapshot
from headway.core.phrases import refusal
from headway.errors import ConfigInvalid, Refused
from headway.ports import Inbox

SHOWN = 8  # problems that the audit names


async def no_config() -> Proposed:
    """For a daemon that was not made from a file."""
    raise Refused("no_config", "this daemon was started without a config file.")


class Applying:
    """Applies one config at a time, in the order in which they were asked for.

    Args:
        read: the config as it is written now; raises ConfigInvalid.
        tell: takes a fact into the inbox.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Proposed]],
        inbox: Inbox,
        snapshot: Callable[[], Snapshot],
        tell: Callable[[Fact], None],
    ) -> None:
        self._read, self._inbox, self._snapshot, self._tell = read, inbox, snapshot, tell
        self._under_way: asyncio.Future[None] | None = None

    async def apply(
        self, drain: bool, by: str, dry_run: bool = False, seen: Callable[[str], bool] | None = None
    ) -> Applied:
        """Take what the file says now, whole or not at all.

        Args:
            drain: what is not in it any more may be in use; see Configure.
            dry_run: only say what would change, and whether it would be refused.
            seen: is that the mark of the config that the caller saw in force? None: it does not say.

        Raises:
            ConfigInvalid: it has problems; everything goes on with the one before.
            Refused: `config_changed`, `in_use` or `store_silent`; the same.
        """
        while self._under_way is not None:
            await asyncio.wait([self._under_way])
        mine = self._under_way = asyncio.get_running_loop().create_future()
        try:
            return await self._apply(drain, by, dry_run, seen)
        finally:
            self._under_way = None
            mine.set_result(None)

    async def _apply(
        self, drain: bool, by: str, dry_run: bool, seen: Callable[[str], bool] | None
    ) -> Applied:
        try:
            proposed = await self._read()
        except ConfigInvalid as error:
            self._refused(error.problems, by, dry_run)
            raise
        if seen is not None and not seen(proposed.etag):
            raise Refused("config_changed", refusal("config_changed", {}), etag=proposed.etag)
        told = tuple(change.what for change in proposed.changes(()))
        command = replace(proposed.configure, drain=drain, by=by, told=told)
        reply = self._tried(command) if dry_run else await self._inbox.submit(command)
        if not reply.accepted:
            words = refusal(reply.code, reply.facts)
            self._refused([words], by, dry_run)
            raise Refused(reply.code, words, **reply.facts)
        later, retired = (_ids(reply.facts.get(name)) for name in ("later", "retired"))
        changes = proposed.changes(self._names(later))
        if not dry_run:
            proposed.taken()
        return Applied(
            file=proposed.file,
            applied=not dry_run,
            changes=list(changes),
            draining=retired,
        )

    def _tried(self, command: Configure) -> Reply:
        """What the loop would answer now."""
        s = self._snapshot()
        return wishes.apply(Draft(s, s.now_s), command)

    def _names(self, ids: Collection[str]) -> set[str]:
        holders = self._snapshot().holders
        found = (holders.get(hid) for hid in ids)
        return {str(one.recipe) if isinstance(one, Job) else one.id for one in found if one is not None}

    def _refused(self, problems: Sequence[str], by: str, dry_run: bool) -> None:
        if not dry_run:
            self._tell(ConfigRefused(problems=tuple(problems[:SHOWN]), by=by))


def _ids(found: object) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list) else []
