"""The types of config values. Each carries its limits, so that a value outside is an error and never clamped."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializationInfo,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)

from headway.config.calendar import cron_error
from headway.core.names import NAME_PATTERN
from headway.core.units import duration_text, parse_duration, parse_size, size_text

LONGEST_S = 366 * 86400.0
LARGEST_BYTES = 1 << 50
PRIORITY_WORDS = {"background": 20, "normal": 50, "high": 80}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _seconds(value: object) -> float:
    if isinstance(value, str):
        seconds = parse_duration(value)
    elif _is_number(value):
        seconds = float(value)  # type: ignore[arg-type]  # _is_number
    else:
        raise ValueError('must be a duration such as "90s", or a number of seconds')
    if not 0 <= seconds <= LONGEST_S:  # not-a-number fails here too
        raise ValueError(f"must be between 0 and {duration_text(LONGEST_S)}, not {value}")
    return seconds


def _bytes(value: object) -> int:
    if isinstance(value, str):
        size = parse_size(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise ValueError('must be a size such as "16GiB", or a whole number of bytes')
    if not 0 <= size <= LARGEST_BYTES:
        raise ValueError(f"must be between 0 and {size_text(LARGEST_BYTES)}, not {value}")
    return size


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError('must be a list of texts, such as ["a", "b"]')
    if any(not word or "\0" in word for word in value):
        raise ValueError("holds an empty text")
    if repeated := sorted({word for word in value if value.count(word) > 1}):
        raise ValueError(f'holds "{repeated[0]}" twice')
    return tuple(value)


def _argv(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError('must be a list of words, such as ["python", "train.py"]: there is no shell')
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError('must be a list of texts, such as ["python", "train.py"]')
    if not value or not value[0].strip():
        raise ValueError('is empty: name at least the program, such as ["python", "train.py"]')
    if any("\0" in word for word in value):
        raise ValueError("holds a NUL character")
    if value[0].startswith("~"):
        raise ValueError(f'starts with "{value[0]}": there is no shell to expand ~, write the whole path')
    return tuple(value)


def _var(value: object) -> str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise ValueError("must be a text or a whole number")


def _device_words(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(v, str) or type(v) is int for v in value):
        return _words([str(word) for word in value])
    raise ValueError('must be a list of device names, indexes or UUIDs, such as ["gpu0"] or [0, 1]')


def _priority(value: object) -> object:
    if isinstance(value, str):
        if value not in PRIORITY_WORDS:
            raise ValueError(
                f'"{value}" is no priority: a number from 0 to 100, or {", ".join(PRIORITY_WORDS)}'
            )
        return PRIORITY_WORDS[value]
    return value


def _loopback(value: str) -> str:
    try:
        inside = value == "localhost" or ipaddress.ip_address(value).is_loopback
    except ValueError:
        raise ValueError(f'"{value}" is no address: use 127.0.0.1, ::1 or localhost') from None
    if not inside:
        raise ValueError(f"{value} can be reached from outside, which needs tokens; for now use 127.0.0.1")
    return value


def _path(value: str, info: ValidationInfo) -> str:
    """`~` is expanded; a relative path starts at the config file's directory, given as context."""
    if not value or "\0" in value:
        raise ValueError("is no path")
    try:
        expanded = Path(value).expanduser()
    except RuntimeError:
        raise ValueError(f"{value}: there is no such user") from None
    directory = (info.context or {}).get("directory")
    return value if directory is None else str(directory / expanded)


def _route(value: str) -> str:
    if not value.startswith("/") or any(char.isspace() for char in value):
        raise ValueError(f'must be a path such as "/health", not "{value}"')
    return value


def _upstream(value: str) -> str:
    try:
        parts = urlsplit(value.replace("{port}", "1"))
        _ = parts.port
    except ValueError:
        raise ValueError(f'"{value}" is no URL such as "http://127.0.0.1:8000"') from None
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f'must be a plain URL such as "http://127.0.0.1:8000", not "{value}"')
    if parts.path.rstrip("/") or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f'must end after the port, such as "http://127.0.0.1:8000": paths go through as sent ("{value}")'
        )
    return value.rstrip("/")


def _web_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine or not value.isprintable() or " " in value:
        raise ValueError('is no address such as "https://example.org/hook"')
    return value


def _cron(value: str) -> str:
    if (no := cron_error(value)) is not None:
        raise ValueError(
            f'must be five cron words such as "0 22 * * *" (every day at 22:00), not "{value}" ({no})'
        )
    return value


def _clock(value: str) -> str:
    hour, colon, minute = value.partition(":")
    if not (colon and len(minute) == 2 and (hour + minute).isdigit() and int(hour) < 24 and int(minute) < 60):
        raise ValueError(f'must be a time of day such as "06:30", not "{value}"')
    return value


def _schema(kind: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"format": kind, **more})


def _written(text: Callable[[Any], str]) -> PlainSerializer:
    """With `{"units": True}` as context, the value as people write it in the file, which reads back the same."""

    def written(value: Any, info: SerializationInfo) -> Any:
        return text(value) if info.context and info.context.get("units") else value

    return PlainSerializer(written)


_TEXTS = {"type": "array", "items": {"type": "string"}}

VAR_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
VarName = Annotated[str, StringConstraints(pattern=VAR_PATTERN)]
VarText = Annotated[str, BeforeValidator(_var), _schema("word", type=["string", "integer"])]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Seconds = Annotated[
    float, BeforeValidator(_seconds), _written(duration_text), _schema("duration", type=["string", "number"])
]
Bytes = Annotated[
    int, BeforeValidator(_bytes), _written(size_text), _schema("size", type=["string", "integer"])
]
Words = Annotated[tuple[str, ...], BeforeValidator(_words), _schema("texts", **_TEXTS)]
Argv = Annotated[tuple[str, ...], BeforeValidator(_argv), _schema("command", minItems=1, **_TEXTS)]
DeviceWords = Annotated[
    tuple[str, ...],
    BeforeValidator(_device_words),
    _schema("devices", type="array", items={"type": ["string", "integer"]}),
]
Priority = Annotated[
    int,
    Field(ge=0, le=100),
    BeforeValidator(_priority),
    _schema(
        "priority", anyOf=[{"type": "integer", "minimum": 0, "maximum": 100}, {"enum": list(PRIORITY_WORDS)}]
    ),
]
Port = Annotated[int, Field(ge=0, le=65535)]
LoopbackHost = Annotated[str, AfterValidator(_loopback)]
WebAddress = Annotated[str, AfterValidator(_web_address), _schema("address", type="string")]
PathText = Annotated[str, AfterValidator(_path), _schema("path", type="string")]
Route = Annotated[str, AfterValidator(_route)]
CronWords = Annotated[str, AfterValidator(_cron), _schema("cron", type="string")]
ClockTime = Annotated[str, AfterValidator(_clock), _schema("time of day", type="string")]
Upstream = Annotated[str, AfterValidator(_upstream)]
