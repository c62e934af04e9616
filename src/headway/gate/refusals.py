"""Refusals and the gate's own answers, in the shape that the caller's library reads.

A code is stable; the words may change. The facts (who holds the memory, since when, for at most how long more)
stand beside the API's own error object, the same under all three shapes.
"""

import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from headway.core import wire
from headway.gate.lines import RETRY_AFTER_MAX_S, Line, Refused

Shape = Literal["openai", "anthropic", "ollama"]

WORDS: Final[Mapping[str, str]] = {
    "bad_request": "The request could not be read as HTTP/1.1.",
    "header_twice": "A header that may stand once stands twice.",
    "length_and_chunked": "Content-Length and Transfer-Encoding exclude each other.",
    "transfer_encoding": "Only the transfer encoding `chunked` is supported.",
    "content_length": "Content-Length is not a number of bytes.",
    "header_invalid": "An X-Headway header has a value that is not understood.",
    "chunk": "The chunked body is not framed as HTTP/1.1 asks.",
    "head_too_large": "The request's head is larger than 64 KiB.",
    "body_too_large": "The body is larger than the 64 MiB that the gate reads to find its model. Put `model` before "
    "everything else and send its Content-Length, or use the service's own port or `/upstream/SERVICE/`.",
    "content_encoding": "The gate reads bodies compressed with gzip or deflate to find their model, no others. Use "
    "one of these, or the service's own port or `/upstream/SERVICE/`, where bodies pass unread.",
    "host_missing": "The request has no Host.",
    "method_refused": "This method is refused here.",
    "timeout": "The request did not arrive in time.",
    "host_refused": "Only requests to this machine itself are served: the Host must be localhost, 127.0.0.1 or [::1].",
    "origin_refused": "Web pages of another site may not ask here: the Origin must be one of this machine.",
    "token_missing": "A token is needed here: send `Authorization: Bearer hw_...`.",
    "token_unknown": "This token is not known.",
    "no_table": "The gate has no list of services yet. It comes from `headway daemon`.",
    "model_required": "The request names no model.",
    "model_not_found": "No service answers for this model.",
    "service_unknown": "There is no service of this name.",
    "route_unknown": "The front door has no such route. A service's own routes are under `/upstream/SERVICE/`.",
    "control_route": "This route controls the engine, which is Headway's to do, and is refused here.",
    "queue_full": "Too many requests wait for this service.",
    "wait_over": "The wait for this service ended before its turn came.",
    "wake_over": "The service did not become ready within its limit.",
    "body_not_json": "The body is not valid JSON, so it was not passed on and nothing was started for it.",
    "service_failed": "The service failed and is being tried again with a back-off.",
    "service_held": "The service was put aside by hand. `headway release` lets it come back.",
    "no_model": "A window is open that keeps this service aside.",
    "service_aside": "The service is not running, and this route does not start it.",
    "service_gone": "The service is no longer configured.",
    "daemon_away": "The service is not running, and `headway daemon`, which would start it, is away.",
    "gate_draining": "The gate is being replaced; ask again.",
    "upstream_unreachable": "The server of this service does not accept connections.",
    "upstream_closed": "The server closed the connection without an answer.",
    "upstream_bad": "The server's answer was not HTTP/1.1.",
    "upstream_error": "The server answered with an error after the stream had begun.",
    "upstream_cut": "The request was cut off because its service had to stop.",
}
ANTHROPIC: Final[Mapping[int, str]] = {  # status -> type of the error, as Anthropic's own API says it
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
HOLDER: Final = ("activity", "note", "held_s", "expires_in_s", "preemptible")


def message(code: str, facts: Mapping[str, Any]) -> str:
    """What happened, who holds the memory and for at most how long more."""
    own = facts.get("message")
    words = [own if isinstance(own, str) and own else WORDS.get(code, code)]
    if isinstance(facts.get("activity"), str):
        held = f" for {_words(facts['held_s'])}" if isinstance(facts.get("held_s"), (int, float)) else ""
        left = facts.get("expires_in_s")
        more = f", for up to {_words(left)} more" if isinstance(left, (int, float)) else ""
        note = f" ({facts['note']})" if facts.get("note") else ""
        words.append(f"The memory is held by {facts['activity']}{note}{held}{more}.")
    if isinstance(until_wall_s := facts.get("until_wall_s"), (int, float)):
        words.append(f"It is back at {time.strftime('%Y-%m-%d %H:%M %Z', time.localtime(until_wall_s))}.")
    if facts.get("known"):
        words.append("Known: " + ", ".join(str(name) for name in facts["known"][:20]) + ".")
    return " ".join(words)


def _words(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def document(shape: Shape, code: str, status: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The error as the caller's API writes it, with our facts beside it."""
    text = message(code, facts)
    ours: dict[str, Any] = {"code": code}
    holder = {name: facts[name] for name in HOLDER if name in facts}
    if holder:
        ours["holder"] = holder
    ours.update(
        (key, value) for key, value in facts.items() if key not in (*HOLDER, "message", "code", "param")
    )
    if shape == "ollama":
        return {"error": text, **ours}
    if shape == "anthropic":
        kind = ANTHROPIC.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": text}, **ours}
    kind = (
        "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    )
    return {"error": {"message": text, "type": kind, "param": facts.get("param"), "code": code}, **ours}


def heartbeat(shape: Shape) -> bytes:
    """What a client that reads a stream skips."""
    return b'event: ping\ndata: {"type": "ping"}\n\n' if shape == "anthropic" else b": headway\n\n"


def error_event(shape: Shape, error: Mapping[str, Any]) -> bytes:
    """An error inside a stream that has begun."""
    return (b"event: error\n" if shape == "anthropic" else b"") + b"data: " + encode(error) + b"\n\n"


def error_of(shape: Shape, status: int, body: bytes) -> dict[str, Any]:
    """The server's own error document, or one of ours when it has none that a client could read."""
    try:
        read = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        read = None
    if isinstance(read, dict) and "error" in read:
        return read
    return document(shape, "upstream_error", 502, {"upstream_status": status})


def reply(
    status: int,
    body: bytes,
    *,
    media: str = "application/json",
    request_id: str = "",
    close: bool = False,
    head_only: bool = False,
    extra: Mapping[str, str] | None = None,
    more: Sequence[bytes] = (),
) -> bytes:
    """A whole response of the gate's own. `more`: header lines as they are."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {status} {phrase}", f"Content-Type: {media}", f"Content-Length: {len(body)}"]
    if request_id:
        lines.append(f"X-Request-Id: {request_id}")
    lines += [f"{name}: {value}" for name, value in (extra or {}).items()]
    if close:
        lines.append("Connection: close")
    head = [*(line.encode("latin-1", "replace") for line in lines), *more, b"", b""]
    return b"\r\n".join(head) + (b"" if head_only else body)


def retry_headers(refused: Refused) -> dict[str, str]:
    """Retry-After in whole seconds, at least 1, never above 900."""
    if refused.status not in (429, 503):
        return {}
    wait_s, until_wall_s = refused.retry_after_s, refused.facts.get("until_wall_s")
    if isinstance(
        until_wall_s, (int, float)
    ):  # a window's end is told as people tell time, and clocks may be set
        wait_s = min(RETRY_AFTER_MAX_S, until_wall_s - time.time())
    return {"Retry-After": str(max(1, round(wait_s)))}


def shape_of(path: str) -> Shape:
    """Whose error shape a path's callers read."""
    path = path.partition("?")[0].rstrip("/")
    if path.startswith("/upstream/"):
        path = "/" + "/".join(path.split("/")[3:])
    if path.endswith(("/v1/messages", "/v1/messages/count_tokens")):
        return "anthropic"
    return "ollama" if path.startswith("/api/") and not path.startswith("/api/v1/") else "openai"


def encode(row: Any) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(row)


def word(line: Line) -> str:
    """A service's state in people's words, for X-Headway-State."""
    row = line.row
    if line.state == "held":
        return "held"
    return row.word or ("stopped" if row.state == "aside" else row.state)


def models(lines: Mapping[str, Line], only: str | None = None, *, anthropic: bool = False) -> dict[str, Any]:
    """All configured models with their state, those that are aside too (OpenAI's list, or Anthropic's)."""
    data = []
    for name in sorted(lines):
        if only is not None and name != only:
            continue
        for alias in lines[name].row.names or (name,):
            data.append(_model(alias, lines[name], anthropic))
    if anthropic:
        first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
        return {"data": data, "has_more": False, "first_id": first, "last_id": last}
    return {"object": "list", "data": data}


def model(lines: Mapping[str, Line], wanted: str | None, *, anthropic: bool = False) -> dict[str, Any] | None:
    """One model, None when no service answers for it."""
    for name in sorted(lines):
        if wanted in (lines[name].row.names or (name,)) or wanted == name:
            return _model(str(wanted), lines[name], anthropic)
    return None


def _model(alias: str, line: Line, anthropic: bool) -> dict[str, Any]:
    ours = {"state": word(line), "service": line.row.name}
    if anthropic:
        return {
            "type": "model",
            "id": alias,
            "display_name": alias,
            "created_at": "1970-01-01T00:00:00Z",
            **ours,
        }
    return {"id": alias, "object": "model", "created": 0, "owned_by": "headway", **ours}


def tags(lines: Mapping[str, Line], only: str | None = None) -> dict[str, Any]:
    """All configured models with their state (Ollama's list)."""
    rows = []
    for name in sorted(lines if only is None else {only} & lines.keys()):
        for alias in lines[name].row.names or (name,):
            rows.append({"name": alias, "model": alias, "modified_at": "1970-01-01T00:00:00Z", "size": 0,
                         "digest": "", "details": {}, "state": word(lines[name])})  # fmt: skip
    return {"models": rows}


def root(lines: Mapping[str, Line], mode: wire.Mode) -> str:
    """The front door in plain text."""
    rows = ["Headway: shares the GPUs of this machine between model servers and jobs.", f"Mode: {mode}", ""]
    rows += [f"{name:24} {word(lines[name])}" for name in sorted(lines)] or ["No service is configured."]
    return "\n".join([*rows, "", "Models: /v1/models   A service's own routes: /upstream/SERVICE/", ""])


def stream_head(request_id: str, *, chunked: bool, more: Sequence[bytes] = ()) -> bytes:
    """The head of a stream that begins with heartbeats, before the server answered."""
    lines = [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/event-stream",
        b"Cache-Control: no-cache",
        b"X-Accel-Buffering: no",
        b"X-Request-Id: " + request_id.encode("latin-1", "replace"),
        b"Transfer-Encoding: chunked" if chunked else b"Connection: close",
    ]
    return b"\r\n".join([*lines, *more, b"", b""])
