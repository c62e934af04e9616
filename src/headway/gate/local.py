"""What the gate answers itself: the front door, model lists, health of a service that is aside, preflights."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, quote

from headway.core import wire
from headway.gate import refusals
from headway.gate.heads import RequestHead
from headway.gate.holding import Holding
from headway.gate.lines import Refused

Reply = tuple[int, bytes, str, dict[str, str]]  # status, body, media type, more headers
JSON = "application/json"
ID_MAX = 128
_QUERY: Final = re.compile(r"([?&]model=)[^&#]*")


def answer(
    holding: Holding, version: str, kind: str, service: str | None, name: str | None, *, anthropic: bool
) -> Reply:
    """The gate's own answer to a probe; `service` limits it to one, `name` is a model.

    `anthropic`: the caller reads the lists of that API, which stand on the same paths.
    """
    lines = holding.lines
    line = lines.get(service) if service is not None else None
    state = {"X-Headway-State": refusals.word(line)} if line is not None else {}
    failed = line is not None and line.row.state == "failed"
    match kind:
        case "root" if service is None:
            mode: wire.Mode = "shadow" if holding.shadow else "live"
            return 200, refusals.root(lines, mode).encode(), "text/plain; charset=utf-8", {}
        case "health":
            words = refusals.word(line) if line is not None else "ok"
            return 503 if failed else 200, refusals.encode({"status": words}), JSON, state
        case "models":
            return 200, refusals.encode(refusals.models(lines, service, anthropic=anthropic)), JSON, state
        case "tags":
            return 200, refusals.encode(refusals.tags(lines, service)), JSON, state
        case "version":
            return 200, refusals.encode({"version": version}), JSON, state
        case "model":
            found = refusals.model(lines, name, anthropic=anthropic)
            if found is not None:
                return 200, refusals.encode(found), JSON, state
            return *_error("model_not_found", 404, {"model": name, "param": "model"}), JSON, state
        case _ if service is not None:
            return *_error("service_aside", 503, {"service": service}), JSON, state
        case _:
            return *_error("route_unknown", 404, {}), JSON, state


def _error(code: str, status: int, facts: Mapping[str, Any]) -> tuple[int, bytes]:
    return status, refusals.encode(refusals.document("openai", code, status, facts))


def unknown(table: wire.Table | None, code: str, status: int, facts: Mapping[str, Any]) -> Refused:
    """A refusal of the router. Before any table came nothing is known, so nothing is "not found"."""
    return Refused("no_table", 503, 1.0, {}) if table is None else Refused(code, status, 0.0, facts)


def given_id(head: RequestHead) -> str | None:
    """The caller's request id, when it's a plain one."""
    if b"x-request-id" not in head.fields:
        return None
    given = head.text(b"x-request-id")
    plain = given and len(given) <= ID_MAX and given.isascii() and given.isprintable() and " " not in given
    return given if plain else None


def query_model(path: str) -> str | None:
    """The model that a request names in its query."""
    query = path.partition("?")[2]
    if "model=" not in query:
        return None
    found = parse_qs(query).get("model")
    return found[0] if found else None


def rename_query(path: str, model: str) -> str:
    """The same path with this model where its query names one."""
    return _QUERY.sub(lambda found: found[1] + quote(model, safe="/:"), path)


def cors(head: RequestHead, origins: Iterable[str]) -> tuple[bytes, ...]:
    """The header lines that let a listed page read its answer; none for anybody else."""
    origin = head.fields.get(b"origin")
    if origin is None:
        return ()
    listed = tuple(origins)
    if "*" not in listed and origin.decode("latin-1") not in listed:
        return ()
    return (
        b"Access-Control-Allow-Origin: " + origin,
        b"Access-Control-Expose-Headers: X-Request-Id, X-Headway-State, Retry-After",
        b"Vary: Origin",
    )


def preflight(head: RequestHead, origins: Iterable[str]) -> bytes | None:
    """The answer to a listed page's question whether it may ask; None when this is no such question."""
    ours = cors(head, origins)
    if head.method != "OPTIONS" or not ours:
        return None
    asked = {
        name: value for name, value in map(_field, head.lines) if name.startswith(b"access-control-request-")
    }
    if b"access-control-request-method" not in asked:
        return None
    more = [
        *ours,
        b"Access-Control-Allow-Methods: GET, POST, PUT, DELETE, OPTIONS",
        b"Access-Control-Max-Age: 600",
    ]
    if names := asked.get(b"access-control-request-headers"):
        more.append(b"Access-Control-Allow-Headers: " + names)
    return refusals.reply(200, b"", media="text/plain", more=more)


def _field(row: bytes) -> tuple[bytes, bytes]:
    name, _, value = row.partition(b":")
    return name.lower(), value.strip(b" \t")
