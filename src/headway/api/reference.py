"""docs/reference/api.md, made from the OpenAPI document: `python -m headway.api.reference > FILE`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headway.api.app import make_app
from headway.api.auth import NEEDS
from headway.api.bounds import bounds
from headway.api.describe import operations

_INTRO = """\
# API reference

Made from the code by `python -m headway.api.reference`; a test keeps it so. The whole of it for programs is
`/openapi.json` of a running daemon.

- **Where**: `http://127.0.0.1:8490`, or the Unix socket `run/headway.sock`, where you may do everything.
- **Who**: each entry names the scope it needs. *look*: everybody on this machine, unless `[api] read = "token"`;
  *open*: nobody is asked; the others: a token or the PIN, see [tokens](../howto/tokens.md).
- **Errors** are `application/problem+json` (RFC 9457) with `code` (stable), `detail` (for people), `facts`, and
  where there is one `holder`, `position`, `retry_after_s`. Test codes, never wording.
- **202** means saved, not done; `Location` is where to look. **200**, **201** and **204** mean done.
- **Lists** come in pages: `limit` rows, and a header `Link: <...>; rel="next"` while there are more.
- **Again**: a POST with an `Idempotency-Key` is done once within a day, however often it is sent, across restarts.
  The same key with another body is 409 `key_used`; one whose first request was cut off by the end of the daemon is
  409 `key_lost`.
- **Order**: `GET /api/v1/queue` has an `ETag`; sent as `If-Match` with a move, that move is done in this very order
  or not at all: 412 `order_changed`, with the order as it is now in `facts.order` and its mark as `ETag`.
- **Config**: `GET /api/v1/config` and `POST /api/v1/config/apply` do the same: 412 `config_changed`.
- **Events**: `/api/v1/events` begins with `snapshot`, then `job.updated`, `service.updated`, `device.updated`,
  `holder.gone`, and `board.updated` at the end of each batch, whose `id` goes into `Last-Event-ID`.
- Unknown fields in a body are errors. Numbers end in their unit: `_s` seconds, `_bytes` bytes. `null` is unknown,
  never 0.
"""


def reference() -> str:
    """The whole page, in Markdown."""
    document = make_app("0").openapi()
    schemas = document["components"]["schemas"]
    parts = [_INTRO, "\n".join(_bounds())]
    for path, method, operation in operations(document):
        lines = [f"## `{method} {path}`\n", _words(operation.get("description") or operation["summary"])]
        lines += ["", f"Scope: *{operation[NEEDS]}*. Answers: {', '.join(_answers(operation))}.", ""]
        if rows := list(_inputs(operation)):
            lines += ["| where | name | value | meaning |", "|---|---|---|---|", *rows, ""]
        if body := operation.get("requestBody"):
            name = _named(body["content"]["application/json"]["schema"])
            lines += [f"Body: {_link(name)}" + ("." if body.get("required") else ", may be left out."), ""]
        parts.append("\n".join(lines))
    parts.append("# Documents\n")
    for name in sorted(schemas):
        parts.append("\n".join(_document(name, schemas[name])))
    return "\n".join(parts)


def _bounds() -> Iterator[str]:
    yield "## Bounds\n"
    yield "What is refused with 429 or 503 says in `retry_after_s`, where that is known, when to try again. How much"
    yield "history stays is in the config: `events_kept`, `requests_kept`, `log_max`, `log_kept` of `[headway]`.\n"
    yield from ("| what | how much | beyond it |", "|---|---|---|")
    yield from (f"| {what} | {limit} | {then} |" for what, limit, then in bounds())
    yield ""


def _answers(operation: Mapping[str, Any]) -> Iterator[str]:
    for code, answer in operation["responses"].items():
        content = answer.get("content", {})
        media = next(iter(content), None)
        shown = (
            _value(content[media].get("schema", {}))
            if media == "application/json" and int(code) < 400
            else ""
        )
        yield (
            f"{code} {shown}".rstrip()
            if shown
            else f"{code} ({media})"
            if media and int(code) < 400
            else code
        )


def _inputs(operation: Mapping[str, Any]) -> Iterator[str]:
    for one in operation.get("parameters", []):
        words = _words(one.get("description") or one["schema"].get("description") or "")
        needed = " (needed)" if one.get("required") else ""
        yield f"| {one['in']} | `{one['name']}`{needed} | {_value(one['schema'])} | {words} |"


def _document(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {name}\n"
    yield _words(schema.get("description", ""))
    yield ""
    if "properties" in schema:
        yield from ("| field | value | meaning |", "|---|---|---|")
        needed = schema.get("required", ())
        for key, one in schema["properties"].items():
            mark = " (needed)" if key in needed and name.endswith("Body") else ""
            yield f"| `{key}`{mark} | {_value(one)} | {_words(one.get('description', ''))} |"
        yield ""


def _value(schema: Mapping[str, Any]) -> str:
    """What may stand there, in a few words."""
    if "$ref" in schema:
        return _link(_named(schema))
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_value(one) for one in options))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{word}`" for word in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_value(schema.get('items', {}))}"
    if kind == "object" and isinstance(inner := schema.get("additionalProperties"), dict):
        return f"table of {_value(inner)}"
    limits = [f"{sign} {schema[key]}" for key, sign in _LIMITS.items() if key in schema]
    return f"{kind} {', '.join(limits)}".rstrip()


_LIMITS = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "minLength": "length ≥",
    "maxLength": "length ≤",
}


def _named(schema: Mapping[str, Any]) -> str:
    found = schema.get("$ref") or next((o["$ref"] for o in schema.get("anyOf", ()) if "$ref" in o), "")
    return str(found).rpartition("/")[2]


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _words(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
