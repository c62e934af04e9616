"""What the gate makes of a request head under one table: who asks, where it's bound, how its body must be read.

It stays true for every request with the same head from the same place, so it's kept with the head.
"""

from typing import TYPE_CHECKING, Final

from headway.core.route import Local, Refuse, To, locate, route
from headway.gate import bodies, local
from headway.gate.callers import Caller, check_caller, check_place
from headway.gate.heads import RequestHead, begin_request
from headway.gate.upstream import read_address

if TYPE_CHECKING:
    from headway.gate.hub import Hub

WAYS_KEPT: Final = 16
Place = tuple[
    str, str | None, bool
]  # who asks, the service of the port it came to, whether a token is needed there
AUTHORIZATION: Final = frozenset((b"authorization",))
CREDENTIALS: Final = frozenset((b"authorization", b"x-api-key"))


class Look:
    """One head as one client's port and one table show it.

    `row` is the service that port or path name (`bound`), unless it's unknown; `must`: what its body says decides
    where it goes, or is changed. `named` is the model in its query. Raises BadRequest for who may not ask.
    """

    __slots__ = (
        "_begun", "_fixed", "_hub", "_place", "_table", "_ways", "bound", "caller", "coding", "expects",
        "form", "head", "is_json", "media", "must", "named", "row",
    )  # fmt: skip

    def __init__(self, hub: "Hub", head: RequestHead, place: Place) -> None:
        peer, fixed, token_needed = place
        self._hub, self._table, self._place, self._fixed = hub, hub.table, place, fixed
        self.head = head
        check_place(head, hub.hosts, hub.origins, peer)
        self.caller: Caller = check_caller(head, hub.tokens, peer, token_needed=token_needed)
        bound = locate(hub.routes, head.path, fixed).service
        self.bound = bound is not None
        self.row = hub.routes.services.get(bound) if bound is not None else None
        self.media = head.text(b"content-type")
        coding = head.text(b"content-encoding").lower()
        self.coding = "" if coding == "identity" else coding
        self.expects = head.minor == 1 and head.fields.get(b"expect", b"").lower() == b"100-continue"
        self.is_json, self.form = "json" in self.media.lower(), bodies.is_form(self.media)
        renamed = self.row is not None and self.row.model is not None and (self.form or self.is_json)
        self.must = not self.bound or renamed
        self.named = local.query_model(head.path)
        self._ways: dict[str | None, To | Local | Refuse] = {}
        self._begun: dict[tuple[str, str, str | None, bytes | None, frozenset[bytes]], bytes] = {}

    def fits(self, hub: "Hub", place: Place) -> bool:
        """Whether it would be the same now, for a client that came there."""
        return self._table is hub.table and self._hub is hub and self._place == place

    def way(self, model: str | None) -> To | Local | Refuse:
        """Where a request goes that names this model."""
        found = self._ways.get(model)
        if found is None:
            head = self.head
            found = route(self._hub.routes, head.method, head.path, model, self._fixed)
            if len(self._ways) < WAYS_KEPT:
                self._ways[model] = found
        return found

    def begin(
        self, upstream: str, to: To, model: str | None, key: bytes | None, without: frozenset[bytes]
    ) -> bytes:
        """The head for the server, up to the line that frames the body.

        Args:
            upstream: its base URL, which can be dialled.
            model: what the server calls it; None: as the caller does.
            key: the service's own.
            without: names of lines that aren't true this time.
        """
        asked = (upstream, to.path, model, key, without)
        made = self._begun.get(asked)
        if made is not None:
            return made
        address, path = read_address(upstream), to.path
        assert address is not None
        if model is not None and "model=" in path:
            path = local.rename_query(path, model)
        if self.caller.ours:
            without |= CREDENTIALS
        elif key is not None:
            without |= AUTHORIZATION
        target = (address.prefix + path).encode("latin-1")
        made = begin_request(self.head, target, address.host_header, key, without)
        if len(self._begun) < WAYS_KEPT:
            self._begun[asked] = made
        return made


def looked(hub: "Hub", head: RequestHead, place: Place) -> Look:
    """The look at this head: the last one, if it's still true. Raises BadRequest for who may not ask."""
    seen: Look | None = head.seen
    if seen is not None and seen.fits(hub, place):
        return seen
    head.seen = look = Look(hub, head, place)
    return look
