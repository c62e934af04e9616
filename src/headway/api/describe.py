"""The OpenAPI document, whole: what FastAPI knows of each route, and what is true of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter

from headway.api.auth import NEEDS, READING, SECRET, need_of
from headway.api.once import KEY_MAX
from headway.api.problems import MEDIA_TYPE

SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "`headway token create NAME --scope SCOPE`"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "headway_session_8490",
        "description": "a page's session; the number is the port of the address that the page was opened at",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "the word it began with",
    },
}
WORDS = {
    "401": "No token, or one that is not known.",
    "403": "The caller may not do this, or a page of somebody else sent it.",
    "404": "Nothing has that id or name.",
    "409": "It cannot be done now: `code` says why.",
    "412": "It is another one by now: its ETag comes with this.",
    "413": "The body is too large.",
    "422": "The request has the wrong form: `facts.fields` names each.",
    "429": "Too many wrong tokens or PINs: `retry_after_s`.",
    "500": "The daemon made a mistake: its log has it.",
    "503": "The database or the daemon cannot do it now: `retry_after_s`.",
}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "sent again with the same key within a day, it is done once and answered the same",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX, "pattern": "^[!-~]*$"},
}


@dataclass(frozen=True, slots=True)
class Problem:
    """RFC 9457. `code` is stable; `detail` is for people and ends with the next step; `facts` are its numbers."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)
    holder: str | None = None
    position: int | None = None
    retry_after_s: float | None = None


def describe(app: FastAPI) -> dict[str, Any]:
    """Complete the document of an application whose routes are all there; FastAPI keeps it."""
    document = app.openapi()
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = TypeAdapter(Problem).json_schema(mode="serialization")
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components["securitySchemes"] = SCHEMES
    for path, method, operation in operations(document):
        _complete(path, method, operation)
    return document


def queries(document: Mapping[str, Any]) -> dict[tuple[str, str], frozenset[str]]:
    """The names of the query parameters that each method and path knows."""
    return {
        (method, path): frozenset(one["name"] for one in operation["parameters"] if one["in"] == "query")
        for path, method, operation in operations(document)
    }


def operations(document: Mapping[str, Any]) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """(path, METHOD, operation) of each, in order."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    need, changes = need_of(method, operation), method not in READING
    operation[NEEDS] = need
    operation["security"] = _security(need, changes)
    parameters = operation.setdefault("parameters", [])
    if method == "POST" and not operation.get(SECRET):
        parameters.append(KEY)
    codes = {"401", "403", "429", "500", "503"}
    codes |= {"422"} if parameters or "requestBody" in operation else set()
    finds = "{" in path or any(one["name"] in ("target", "service") for one in parameters)
    codes |= {"404", "409"} if changes or finds else set()
    codes |= {"413"} if changes else set()
    codes |= {"412"} if any(one["name"].lower() == "if-match" for one in parameters) else set()
    for code in sorted(codes):
        answer = operation["responses"].setdefault(code, {"description": WORDS[code]})
        if code == "422":
            answer.clear()
            answer["description"] = WORDS[code]
        answer.setdefault("content", {})[MEDIA_TYPE] = {"schema": {"$ref": "#/components/schemas/Problem"}}
    operation["responses"] = dict(sorted(operation["responses"].items()))
    if (accepted := operation["responses"].get("202")) is not None:
        accepted["description"] = "Saved, and not yet done: Location is where to look."
        accepted["headers"] = {"Location": {"schema": {"type": "string"}}}


def _security(need: str, changes: bool) -> list[dict[str, list[str]]]:
    if need == "open":
        return []
    page: dict[str, list[str]] = {"session": [], **({"csrf": []} if changes else {})}
    nobody: list[dict[str, list[str]]] = [{}] if need == "look" else []
    return [*nobody, {"token": []}, *([] if need == "admin" else [page])]
