"""Request bodies about leases and claims."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, StrictInt, field_validator, model_validator

from headway.api.bodies import Body
from headway.core.patterns import PATTERN_MAX, parts
from headway.core.units import parse_size, size_text

PID_MAX = 1 << 22
LARGEST_BYTES = 1 << 50  # as in the config
TTL_MAX_S = 366 * 86400.0
Size = Annotated[
    str | StrictInt | None,
    Field(description="memory on each of its devices: bytes, or a size such as 12GiB; left out: not known"),
]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Pid = Annotated[int, Field(ge=1, le=PID_MAX)]
Ttl = Annotated[FiniteFloat, Field(gt=0, le=TTL_MAX_S)]


def size_of(size: str | int | None) -> int | None:
    """Bytes of a size that was checked before."""
    return size if size is None or isinstance(size, int) else parse_size(size)


def _usable(size: str | int | None) -> str | int | None:
    """Raises: ValueError, with how to write it."""
    found = size_of(size)
    if found is not None and found <= 0:
        raise ValueError("a size is more than 0; leave it out where it is not known")
    if found is not None and found > LARGEST_BYTES:
        raise ValueError(f"a size is at most {size_text(LARGEST_BYTES)}")
    return size


def _each_once(words: list[str]) -> list[str]:
    """Raises: ValueError, with the one that is named again."""
    if again := next((word for word in words if words.count(word) > 1), None):
        raise ValueError(f"{again} is named twice")
    return words


class AskBody(Body):
    """Devices for a program that Headway does not start."""

    name: Name = Field("run", description="what it is called")
    gpu: Size = None
    gpus: int | None = Field(
        None, ge=1, le=64, description="how many devices; left out: 1, or all that are named"
    )
    devices: list[Word] = Field(default_factory=list, max_length=64, description="names, indexes or UUIDs")
    pid: Pid | None = Field(
        None, description="the process that holds it; left out: it lives by being renewed"
    )
    priority: int = Field(50, ge=0, le=100)
    preemptible: bool = Field(False, description="it may be asked to leave before it is done")
    wait_s: Annotated[FiniteFloat, Field(ge=0, le=TTL_MAX_S)] | Literal["forever"] | None = Field(
        None, description="how long it may wait; 0: now or not at all; left out: 15 minutes"
    )
    ttl_s: Ttl | None = Field(None, description="from its grant")
    ask_key: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_-]{16,64}$", description="your own secret for this ask"
    )
    purpose: str | None = Field(None, max_length=200)

    _size = field_validator("gpu")(_usable)
    _once = field_validator("devices")(_each_once)


class RenewBody(Body):
    ttl_s: Ttl | None = Field(None, description="left out: as it was asked for")


class ClaimBody(Body):
    """A process, or a pattern that finds it."""

    name: Name | None = None
    pid: Pid | None = None
    match: str | None = Field(
        None,
        min_length=1,
        max_length=PATTERN_MAX,
        description="found in its command line: a regular expression in which nothing is repeated but `.`",
    )
    gpu: Size = None
    devices: list[Word] = Field(default_factory=list, max_length=64)
    block: bool = False
    purpose: str | None = Field(None, max_length=200)
    asker: Pid | None = Field(None, description="the process that asks: it is never meant by `match`")

    _size = field_validator("gpu")(_usable)
    _once = field_validator("devices")(_each_once)

    @field_validator("match")
    @classmethod
    def pattern(cls, match: str | None) -> str | None:
        try:
            for part in parts(match or ""):
                re.compile(part)
        except re.error as error:
            raise ValueError(f"{match!r} is no pattern: {error}") from None
        return match

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        if (self.pid is None) == (self.match is None):
            raise ValueError("give either pid or match")
        return self
