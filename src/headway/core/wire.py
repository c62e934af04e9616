"""The messages between gate and daemon: one JSON object per line over a Unix stream.

Every message is a frozen dataclass. `encode` makes the line, `decode` reads it: unknown fields are ignored, an
unknown `type` becomes `Unsupported`, a line that is not a message raises `WireError`. A field named `class_` is
`class` on the wire. Times are ages in seconds, never instants, but for those in `why`. The `Table` document is also
`run/routes.json`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

PROTO = 1  # the major; both sides speak this one and the one before
MAX_LINE_BYTES = 16 * 1024 * 1024  # a longer line is no message: the connection is closed
CLASSES = ("attended", "background")  # strongest first: a caller may go right, never left

GateWish = Literal["open", "closed"]
ServiceState = Literal["aside", "waking", "awake", "failed"]
Mode = Literal["live", "shadow"]
OnCancel = Literal["cancel", "drain"]
TroubleKind = Literal["refused", "timeout"]


class WireError(ValueError):
    """A line that is not a message of this protocol. The connection that sent it is closed."""


def _default_waits() -> Mapping[str, float]:
    return {"attended": 90.0, "background": 3600.0}


@dataclass(frozen=True, slots=True)
class Service:
    """One row of the table: all that the gate knows about a service.

    `upstream` is a base URL (`http://host:port[/prefix]` or `unix:/path`), None while it has no address. `model`
    is the name put in place of the caller's; None leaves the body as it is. `max_active` None means unlimited.
    `wake_limit_s` bounds the wait while `state` is "waking". `word` is the state in people's words, for the
    header X-Headway-State. `allow` lists control paths that may pass. `window` is the kind of window that is open over
    it: waits in one are told apart. `why` holds the facts of a refusal: code,
    message, activity, note, preemptible, retry_after_s; and since when the activity holds the memory, and until when at
    most: `since_s` and `until_s`, boottime of the boot `boot`, the only instants on this wire. `probes` lists the paths
    that its server answers while it sleeps, without waking: empty unless it sleeps and nothing is being done to it.
    """

    name: str
    rev: int
    gate: GateWish
    state: ServiceState = "aside"
    engine: str | None = None
    upstream: str | None = None
    key_file: str | None = None
    model: str | None = None
    names: tuple[str, ...] = ()
    port: int | None = None
    max_active: int | None = None
    queue_max: int = 512
    max_wait_s: Mapping[str, float] = field(default_factory=_default_waits)
    wake_limit_s: float = 600.0
    on_cancel: OnCancel = "cancel"
    word: str = ""
    allow: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    window: str | None = None
    why: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Token:
    """A caller's token as its SHA-256 (hex), with the class and priority it may not exceed."""

    sha256: str
    name: str
    class_: str = "attended"
    priority_max: int = 100


@dataclass(frozen=True, slots=True)
class Route:
    """One more inference route: a method and a path; a trailing `*` in the path matches any rest."""

    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait in one class: how long the oldest has, and the highest priority among them."""

    n: int
    oldest_s: float
    priority_max: int


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """One waiting request, for people. `position` starts at 1.

    `model` is what the caller asked for. After `left_s` at most it is sent or refused, as long as its server does not
    fail; None: it waits for a place on a server that answers, and nothing but its caller bounds that.
    """

    id: str
    class_: str
    client: str
    waited_s: float
    position: int
    model: str | None = None
    left_s: float | None = None


@dataclass(frozen=True, slots=True)
class Hello:
    """gate -> daemon: the first line of every connection. `log` is the path of its request log."""

    proto: int
    gate: str
    pid: int
    version: str
    started_age_s: float
    log: str


@dataclass(frozen=True, slots=True)
class Table:
    """daemon -> gate, and `run/routes.json`. `whole` replaces all that the gate knew.

    With `whole` false only `services` counts, and only the services named change. `default` is the service of a
    request that names no model on the front door. `salt` keys the conversation hash of the request log.
    """

    proto: int
    daemon: str
    services: Mapping[str, Service]
    whole: bool = True
    mode: Mode = "live"
    default: str | None = None
    classes: tuple[str, ...] = CLASSES
    tokens: tuple[Token, ...] = ()
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Open:
    """daemon -> gate: forward for this service from now on."""

    service: str
    rev: int


@dataclass(frozen=True, slots=True)
class Close:
    """daemon -> gate: hold new requests; `abort_after_s` cuts those still forwarded after that long."""

    service: str
    rev: int
    abort_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """gate -> daemon: closed at `rev`; `pinning` requests were forwarded and are not over."""

    service: str
    rev: int
    pinning: int
    tunnels: int


@dataclass(frozen=True, slots=True)
class Demand:
    """gate -> daemon: whole values. `last_end_age_s` counts attended requests only; None: none ended yet."""

    service: str
    active: int
    waiting: Mapping[str, Waiting]
    last_end_age_s: float | None
    seq: int


@dataclass(frozen=True, slots=True)
class List:
    """daemon -> gate: who waits? Answered by `Held`."""

    service: str


@dataclass(frozen=True, slots=True)
class Held:
    """gate -> daemon: at most 200 waiting requests, in order."""

    service: str
    entries: tuple[HeldEntry, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """gate -> daemon: the server refused a connection or did not answer one in time."""

    service: str
    what: TroubleKind


@dataclass(frozen=True, slots=True)
class Ping:
    """daemon -> gate, every 2 s."""

    n: int


@dataclass(frozen=True, slots=True)
class Pong:
    """gate -> daemon, at once; `loop_lag_ms` is the worst delay of the gate's loop since the last pong."""

    n: int
    loop_lag_ms: float


@dataclass(frozen=True, slots=True)
class Drain:
    """daemon -> gate: stop accepting, finish, leave."""


@dataclass(frozen=True, slots=True)
class Bye:
    """gate -> daemon: the last line of a gate that leaves on purpose."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Either way: the answer to a message whose type is not known here."""

    unsupported: str


Message = (
    Hello
    | Table
    | Open
    | Close
    | Closed
    | Demand
    | List
    | Held
    | Trouble
    | Ping
    | Pong
    | Drain
    | Bye
    | Unsupported
)
M = TypeVar("M")

TYPES: Mapping[str, type[Any]] = MappingProxyType({kind.__name__.lower(): kind for kind in get_args(Message)})
# (attribute, key on the wire, type, required, types of values that are taken as they stand)
Field = tuple[str, str, Any, bool, frozenset[type[Any]]]
_FIELDS: dict[type[Any], tuple[Field, ...]] = {}
_PLAIN = frozenset({str, int, float, bool, NoneType})  # JSON as they stand


def encode(message: Message) -> bytes:
    """The message as one line, newline included."""
    row = {"type": type(message).__name__.lower(), **_plain(message)}
    return _WRITER.encode(row).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Read one line.

    Raises:
        WireError: not JSON, not an object, no `type`, or a field is missing or of the wrong kind.
    """
    row = _load(line)
    name = row.get("type")
    if not isinstance(name, str):
        raise WireError("a message without a type")
    kind = TYPES.get(name)
    if kind is None:
        return Unsupported(name)
    return cast(Message, _build(kind, row, name))


def read_table(document: bytes) -> Table:
    """Read `run/routes.json`. Raises WireError like `decode`, and for any other message."""
    message = decode(document)
    if not isinstance(message, Table):
        raise WireError(f"expected a table, found {type(message).__name__.lower()}")
    return message


def _load(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise WireError(f"a line of {len(line)} bytes")
    try:
        row = _READER.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise WireError("not a JSON object")
    return row


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number here")


# made once: `dumps` and `loads` would make one for each line
_WRITER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_READER = json.JSONDecoder(parse_constant=_no_constant)


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if is_dataclass(kind):
        return {key: _plain(getattr(value, attr)) for attr, key, _, _, _ in _fields(kind)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _fields(kind: type[Any]) -> tuple[Field, ...]:
    """The fields of a message class."""
    if kind not in _FIELDS:
        types = get_type_hints(kind)
        _FIELDS[kind] = tuple(
            (f.name, f.name.rstrip("_"), types[f.name], f.default is f.default_factory, _as_is(types[f.name]))
            for f in fields(kind)
        )  # default and factory are both MISSING when neither is given
    return _FIELDS[kind]


def _as_is(hint: Any) -> frozenset[type[Any]]:
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    return frozenset(kind for kind in kinds if kind in (str, int, bool, NoneType))  # a float may be infinite


def _build(kind: type[M], row: Mapping[str, Any], where: str) -> M:
    given: dict[str, Any] = {}
    for attr, key, hint, required, as_is in _fields(kind):
        if key in row:
            value = row[key]
            given[attr] = value if type(value) in as_is else _read(hint, value, f"{where}.{key}")
        elif required:
            raise WireError(f"{where}.{key} is missing")
    return kind(**given)


def _read(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    if is_dataclass(hint):
        if not isinstance(value, dict):
            raise WireError(f"{where}: expected an object")
        return _build(cast(type[Any], hint), value, where)
    origin = get_origin(hint)
    if origin is None:
        return _read_scalar(hint, value, where)
    args = get_args(hint)
    if origin is UnionType or origin is Union:
        return None if value is None else _read(next(a for a in args if a is not NoneType), value, where)
    if origin is Literal:
        if value not in args:
            raise WireError(f"{where}: expected one of {args}, found {value!r:.80}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise WireError(f"{where}: expected a list")
        return tuple(_read(args[0], item, where) for item in value)
    if not isinstance(value, dict):
        raise WireError(f"{where}: expected an object")
    return {key: _read(args[1], item, f"{where}.{key}") for key, item in value.items()}


def _read_scalar(hint: Any, value: Any, where: str) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is float and number and math.isfinite(value):
        return float(value)
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint in (str, bool) and isinstance(value, hint):
        return value
    raise WireError(f"{where}: expected {hint.__name__}, found {value!r:.80}")
