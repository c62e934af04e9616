"""What the gate answers itself: the front door, model lists, health of a service that is aside, preflights."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs

from headway.core import wire
from headway.gate import refusals
from headway.gate.heads import RequestHead
from headway.gate.holding import Holding
from headway.gate.lines import Refused

Reply = tuple[int, bytes, str, dict[str, str]]  # status, body, media type, more headers
JSON = "application/json"
ID_MAX = 128


def answer(holding: Holding, version: str, kind: str, service: str | None, name: str | None) -> Reply:
    """The gate's own answer to a probe; `service` limits it to one, `name` is a model."""
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
            return 200, refusals.encode(refusals.models(lines, service)), JSON, state
        case "tags":
            return 200, refusals.encode(refusals.tags(lines, service)), JSON, state
        case "version":
            return 200, refusals.encode({"version": version}), JSON, state
        case "model":
            found = refusals.model(lines, name)
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
    given = head.text(b"x-request-id")
    plain = given and len(given) <= ID_MAX and given.isascii() and given.isprintable() and " " not in given
    return given if plain else None


def query_model(head: RequestHead) -> str | None:
    """The model that a request without a body names in its query."""
    query = head.path.partition("?")[2]
    if "model=" not in query:
        return None
    found = parse_qs(query).get("model")
    return found[0] if found else None


def preflight(head: RequestHead, origins: Iterable[str]) -> bytes | None:
    """The answer to a page's question whether it may ask; None when this is no such question.

    Its Origin was checked before.
    """
    origin = head.text(b"origin")
    asked = any(row[:30].lower() == b"access-control-request-method:" for row in head.lines)
    if head.method != "OPTIONS" or not origin or not asked or not tuple(origins):
        return None
    extra = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, OPTIONS",
        "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Headway-Class, X-Headway-Wait",
        "Vary": "Origin",
    }
    return refusals.reply(200, b"", media="text/plain", extra=extra)
