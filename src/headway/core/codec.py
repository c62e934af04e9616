"""Records to JSON documents and back, driven by their type hints; one compiled plan per class, made on first use.

A document holds every field, also those at their default: a later default must not change what was stored.
Reading is lenient about keys (unknown ones are ignored, missing ones take the default) and strict about types.
Inside `Any` a tuple comes back as a list.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]

ODD = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
)  # of a damaged document

_PLAIN = frozenset({str, int, float, bool, type(None)})  # JSON as they stand

# ensure_ascii: an argument that is no valid UTF-8 (surrogates) survives as an escape
_compact = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def to_doc(obj: Any) -> dict[str, Any]:
    """The record as a JSON-able dict: tuples become lists, nested records dicts; types are not tagged.

    Raises:
        TypeError: `obj` is no record, or holds something inside an `Any` that JSON has no word for.
    """
    plan = _plan(obj.__class__)
    doc = dict(zip(plan.names, plan.values(obj), strict=True))
    for name, encode in plan.encoders:
        doc[name] = encode(doc[name])
    return doc


def dumps(obj: Any) -> str:
    """`to_doc` as compact JSON with sorted keys: equal records give equal text.

    Raises:
        TypeError: as `to_doc`.
        ValueError: a number is not finite.
    """
    return _compact.encode(to_doc(obj))


def from_doc(cls: type[T], doc: Mapping[str, Any]) -> T:
    """The record of class `cls` that `to_doc` made this document of.

    Raises:
        ValueError: a value has the wrong type, or a field without a default is missing; the message names the field.
    """
    try:
        made: T = _read_record(cls, doc)
    except _Wrong as wrong:
        raise ValueError(f"{cls.__name__}{wrong}") from None
    return made


def loads(cls: type[T], text: str) -> T:
    """`from_doc` of JSON text.

    Raises:
        ValueError: no JSON, or as `from_doc`.
    """
    return from_doc(cls, json.loads(text))


class _Wrong(ValueError):
    """A value of the wrong type; each level it passes on its way out adds its own name in front."""

    def __init__(self, expected: str, got: Any) -> None:
        super().__init__(expected, got)
        self.said = f"expected {expected}, got {got!r:.80}"
        self.path = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.said}"


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one class is written and read."""

    names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]  # all fields in one call
    encoders: tuple[tuple[str, Encode], ...]  # only of fields that are not JSON as they stand
    decoders: tuple[tuple[str, Decode], ...]
    required: tuple[str, ...]


@cache
def _plan(cls: Any) -> _Plan:
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is no record")
    hints = get_type_hints(cls)
    names = tuple(f.name for f in fields(cls))
    made = ((name, _encoder(hints[name])) for name in names)
    return _Plan(
        names=names,
        values=_getter(names),
        encoders=tuple((name, encode) for name, encode in made if encode is not None),
        decoders=tuple((name, _decoder(hints[name])) for name in names),
        required=tuple(f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING),
    )


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """attrgetter gives a bare value for one name and refuses none at all."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda obj: tuple(getattr(obj, name) for name in names)


# ---------------------------------------------------------------- writing


def _encoder(hint: Any) -> Encode | None:
    """How a value of that type is written; None: as it stands."""
    if hint in _PLAIN:
        return None
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return None
    if origin in (Union, types.UnionType):
        # which member it is only shows in the value, so one that needs work makes all go by value
        return None if all(_encoder(arg) is None for arg in args) else _by_value
    if origin is tuple:
        items = [_encoder(arg) for arg in args if arg is not ...]
        return list if not any(items) else _by_value
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict if _encoder(args[1]) is None else _by_value
    return _by_value


def _by_value(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return [_by_value(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(key): _by_value(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float) else to_doc(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise TypeError(f"the key {key!r} is no text")


# ---------------------------------------------------------------- reading


def _read_record(cls: Any, doc: Any) -> Any:
    plan = _plan(cls)
    if not isinstance(doc, Mapping):
        raise _Wrong(f"a {cls.__name__}", doc)
    given: dict[str, Any] = {}
    for name, decode in plan.decoders:
        if name in doc:
            try:
                given[name] = decode(doc[name])
            except _Wrong as wrong:
                wrong.path = f".{name}{wrong.path}"
                raise
    for name in plan.required:
        if name not in given:
            missing = _Wrong("a value", None)
            missing.path = f".{name}"
            raise missing
    return cls(**given)


@cache
def _decoder(hint: Any) -> Decode:
    if hint is Any:
        return lambda value: value
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _one_of(args)
    if origin in (Union, types.UnionType):
        return _any_of([arg for arg in args if arg is not type(None)], type(None) in args)
    if origin is tuple:
        return _many(_decoder(args[0])) if args[-1] is ... else _each([_decoder(arg) for arg in args])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_decoder(args[1]))
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: _read_record(hint, value)
    raise TypeError(f"no way to read a {hint}")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _Wrong("text", value)


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _Wrong("a whole number", value)


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise _Wrong("a number", value)


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _Wrong("true or false", value)


_SCALARS: Mapping[Any, Decode] = {str: _text, int: _whole, float: _number, bool: _flag}


def _one_of(allowed: tuple[Any, ...]) -> Decode:
    def decode(value: Any) -> Any:
        if value in allowed:
            return value
        raise _Wrong(f"one of {', '.join(map(str, allowed))}", value)

    return decode


def _any_of(hints: list[Any], or_none: bool) -> Decode:
    decoders = [_decoder(hint) for hint in hints]

    def decode(value: Any) -> Any:
        if value is None and or_none:
            return None
        for attempt in decoders[:-1]:
            try:
                return attempt(value)
            except _Wrong:
                continue
        return decoders[-1](value)

    return decode


def _many(item: Decode) -> Decode:
    def decode(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _Wrong("a list", value)
        return tuple(_at(f"[{number}]", item, each) for number, each in enumerate(value))

    return decode


def _each(items: list[Decode]) -> Decode:
    def decode(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) != len(items):
            raise _Wrong(f"a list of {len(items)}", value)
        pairs = zip(items, value, strict=True)
        return tuple(_at(f"[{number}]", item, each) for number, (item, each) in enumerate(pairs))

    return decode


def _mapping(item: Decode) -> Decode:
    def decode(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _Wrong("a table", value)
        return {_text(key): _at(f".{key}", item, each) for key, each in value.items()}

    return decode


def _at(place: str, decode: Decode, value: Any) -> Any:
    try:
        return decode(value)
    except _Wrong as wrong:
        wrong.path = f"{place}{wrong.path}"
        raise
