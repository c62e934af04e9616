"""RFC 9457 answers: the one place where an error or a refusal becomes a status."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from headway.core.commands import Reply
from headway.core.phrases import refusal
from headway.errors import HeadwayError, Refused

MEDIA_TYPE = "application/problem+json"
STATUS: Mapping[str, int] = {  # by code, where it is not what the error class says
    "not_found": 404,
    "store_failed": 503,
    "store_silent": 503,
    "invalid": 422,
    "invalid_job": 422,
    "no_such_process": 422,
    "unknown_device": 422,
    "needs_ttl": 422,
    "line_full": 429,
    "queue_full": 429,
    "lease_over": 410,
    "order_changed": 412,
    "config_changed": 412,
}
RETRY_AFTER_S = 2.0
MEMBERS = ("holder", "position", "retry_after_s")  # facts that every client may look for beside `code`


def problem(status: int, code: str, detail: str, facts: Mapping[str, Any] | None = None) -> Response:
    """One problem document. `code` is stable, `detail` is for people, `facts` are its numbers."""
    known = dict(facts or {})
    if status == 503:
        known.setdefault("retry_after_s", RETRY_AFTER_S)
    document = {
        "type": f"urn:headway:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        "detail": detail,
        **{name: known[name] for name in MEMBERS if known.get(name) is not None},
        "facts": known,
    }
    headers = {}
    if isinstance(wait_s := known.get("retry_after_s"), int | float):
        headers["Retry-After"] = str(math.ceil(wait_s))
    if isinstance(known.get("etag"), str):
        headers["ETag"] = known["etag"]
    if status == 405:
        headers["Allow"] = ", ".join(known.get("allowed", ()))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="headway"'
    return Response(json.dumps(document, default=str), status, headers, MEDIA_TYPE)


def check(reply: Reply) -> None:
    """Raises: Refused, when the loop did not accept the command."""
    if reply.accepted:
        return
    raise Refused(reply.code, refusal(reply.code, reply.facts), **reply.facts)


def answer_to(error: HeadwayError) -> Response:
    return problem(STATUS.get(error.code, error.http_status), error.code, str(error), error.facts)


async def _headway_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HeadwayError)
    return answer_to(error)


async def _invalid(_: Request, error: Exception) -> Response:
    """A body or a parameter of the wrong shape: every field at once."""
    assert isinstance(error, RequestValidationError)
    fields = [
        {
            "field": ".".join(str(part) for part in one["loc"] if part != "body"),
            "problem": one["msg"].removeprefix("Value error, "),
        }
        for one in error.errors()
    ]
    words = "; ".join(
        f"{one['field']}: {one['problem']}" if one["field"] else one["problem"] for one in fields
    )
    return problem(422, "invalid", f"{words}.", {"fields": fields, "described_in": "/openapi.json"})


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # what FastAPI says of bytes that are no text
        return problem(422, "invalid", "the body is not JSON in UTF-8.", {"fields": []})
    code = {404: "no_such_path", 405: "no_such_method", 413: "too_large"}.get(
        error.status_code, f"http_{error.status_code}"
    )
    return problem(error.status_code, code, f"{error.detail}. The paths are listed in /openapi.json.")


async def _crashed(request: Request, error: Exception) -> Response:
    file = getattr(request.app.state, "parts", None) and request.app.state.parts.log_file
    where = f"its log ({file})" if file else "its log"
    return problem(500, "internal", f"the daemon made a mistake; {where} has the traceback.")


Handler = Callable[[Request, Exception], Awaitable[Response]]

HANDLERS: tuple[tuple[type[Exception], Handler], ...] = (
    (HeadwayError, _headway_error),
    (RequestValidationError, _invalid),
    (HTTPException, _http_error),
    (Exception, _crashed),
)


def install(app: FastAPI) -> None:
    for kind, handler in HANDLERS:
        app.add_exception_handler(kind, handler)
