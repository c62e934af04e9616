"""What the routes are made from, and how an answer becomes bytes."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, cast

from fastapi import Request, Response
from pydantic import TypeAdapter

from headway.api.access import Access
from headway.api.others import Others
from headway.api.over import Over
from headway.api.pages import OrderMark
from headway.api.web import Page
from headway.core import rows, view, words
from headway.core.commands import Command, Reply
from headway.core.configs import Configs, InForce
from headway.core.model import HolderId, JobSpec, MoveRule, Snapshot
from headway.core.wire import HeldEntry
from headway.core.wording import unknown
from headway.errors import NotFound, Refused
from headway.ports import AlertSent, Clock, Hub, Inbox, Processes, Pulse, Reader, RunState

NAMES_COMPARED, NAME_LENGTH = 200, 64
KINDS = ("service", "job", "lease", "claim", "unknown")


@dataclass(slots=True)
class Batches:
    """What event streams are sent to come to one revision, made once for all viewers that know the same."""

    revision: int = -1
    after: dict[int, bytes] = field(default_factory=dict)  # revision that a viewer knows -> bytes


async def _nobody() -> list[AlertSent]:
    return []


async def _no_one(service: HolderId) -> tuple[HeldEntry, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything the API reaches the daemon through.

    Attributes:
        access: who may come in over TCP.
        recipes: the `[job.NAME]` tables as specs; read anew at each use, so a reload shows at once.
        make_job: a spec from the fields of an ad-hoc job (argv, name, gpu as a size in words, gpus, driver, cwd, env,
            options); raises HeadwayError or ValueError with words.
        tail: the last lines of a run's log: (run id, lines); runs in a thread.
        run: a run as its files show it now; None: they are gone.
        log_path: where that log is, for a caller on the same machine; None: unknown.
        gate_url: where clients reach the models; None: no gate has listened yet.
        tokens_changed: called when a token came or went: the gates have to know.
        url: where this API is reached over TCP, such as http://127.0.0.1:8490.
        pulse: how the daemon is.
        test_alert: tells a test alert by every way.
        log_file: where the daemon's own log is.
        processes: those of this machine, for leases and claims.
        lease_moves: the table of the driver "lease".
        config: its config file; None: it has none.
        host: processors and main memory.
        others: model servers that are not ours; None: nobody looks.
        held: the requests that wait for a service, in line.
        in_force: what counts of it now, without secrets.
        page: what browsers are shown; None: this installation has no page.
    """

    inbox: Inbox
    hub: Hub
    reader: Reader
    clock: Clock
    access: Access
    recipes: Mapping[str, JobSpec]
    make_job: Callable[[Mapping[str, Any]], JobSpec]
    tail: Callable[[str, int], list[str]]
    processes: Processes
    lease_moves: tuple[MoveRule, ...]
    run: Callable[[str], RunState | None] = lambda run_id: None
    log_path: Callable[[str], str | None] = lambda run_id: None
    gate_url: Callable[[], str | None] = lambda: None
    tokens_changed: Callable[[], None] = lambda: None
    url: str = ""
    log_file: str | None = None
    config: Configs | None = None
    host: Callable[[], rows.HostRow | None] = lambda: None
    others: Others | None = None
    held: Callable[[HolderId], Awaitable[tuple[HeldEntry, ...]]] = _no_one
    in_force: Callable[[], InForce] = lambda: InForce(file="", etag='"0"', config={})
    allowed_hosts: frozenset[str] = frozenset()
    version: str = "0"
    page: Page | None = None
    pulse: Callable[[], Pulse] = Pulse
    test_alert: Callable[[], Awaitable[list[AlertSent]]] = _nobody
    life: str = field(default_factory=lambda: secrets.token_hex(4))  # revisions begin anew with each daemon
    order: OrderMark = field(default_factory=OrderMark)
    over: Over = field(default_factory=Over)
    batches: Batches = field(default_factory=Batches)
    closing: list[bool] = field(default_factory=lambda: [False])  # set to [True] when the server stops
    viewers: set[object] = field(default_factory=set)  # one for each event stream that is read

    async def submit(self, command: Command) -> Reply:
        return await self.inbox.submit(command)

    def overview(self, queued_max: int = 50) -> rows.Overview:
        """The whole board as it is now."""
        shown = view.overview(self.hub.snapshot, self.hub.verdicts, queued_max)
        return replace(
            shown,
            gate=self.gate_url(),
            host=self.host(),
            devices=self.named(shown.devices),
            order=self.order.of(self.hub.snapshot.queue),
            ended=self.over.of(self.hub),
            wrong_24h=self.over.wrong_in_a_day(self.hub),
        )

    def named(self, devices: tuple[rows.DeviceRow, ...]) -> tuple[rows.DeviceRow, ...]:
        """With the names of the programs that are not ours: never their arguments, which may hold a secret."""
        return tuple(
            replace(row, strangers=tuple(map(self._called, row.strangers))) if row.strangers else row
            for row in devices
        )

    def _called(self, one: rows.Stranger) -> rows.Stranger:
        return replace(one, name=self.processes.called(one.pid) or None)


async def parts_of(request: Request) -> Parts:
    """A coroutine, like every dependency here: FastAPI would call a plain function in a thread, each time."""
    return cast(Parts, request.app.state.parts)


def find(snapshot: Snapshot, target: str, kind: str | None = None) -> HolderId:
    """The holder that an id, or a name only one living holder has, means.

    Raises:
        NotFound: there is none.
        Refused: several have that name.
    """
    found = words.matching(snapshot, target, kind)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(unknown(target, kind) + _meant(snapshot, target, kind), target=target)
    raise Refused(
        "ambiguous",
        f"{target!r} means several: {', '.join(_with_state(hid, snapshot) for hid in found[:8])}. "
        "Give one of the ids.",
        ids=list(found),
    )


def _meant(snapshot: Snapshot, target: str, kind: str | None) -> str:
    """A name that differs by a slip of the finger. The loop waits for this: not among many names, nor long ones."""
    names = {h.spec.name for h in snapshot.holders.values() if kind in (None, h.kind)}
    few = len(names) <= NAMES_COMPARED and len(target) <= NAME_LENGTH
    near = get_close_matches(target, sorted(names), n=1) if few else None
    return f" Did you mean `{near[0]}`?" if near else ""


def _with_state(hid: HolderId, snapshot: Snapshot) -> str:
    return f"{hid} ({words.state(snapshot.holders[hid], snapshot).replace('_', ' ')})"


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def answer(shape: Any, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value`, which has the type `shape`, as JSON bytes."""
    return Response(_adapter(shape).dump_json(value), status, dict(headers or {}), "application/json")


def to_json(shape: Any, value: Any) -> bytes:
    return _adapter(shape).dump_json(value)
