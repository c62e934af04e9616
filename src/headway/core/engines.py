"""What a model server's own metrics say, made into figures for people. Nothing is decided from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

EVERY_S: Final = 5.0  # so often figures that change are told: a turn for each, and a line to every page
LONGEST_S: Final = 60.0  # a rate is over no more: before that nothing was told, as nothing changed


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRead:
    """One look. None: the server does not say. What is counted is counted since it started.

    Attributes:
        tokens: generated.
        busy_s: what generating them took, where tokens are only counted once an answer is whole.
        first_n, first_s: answers that have begun, and what their first tokens took together.
        cache_share: of the KV cache that is in use, 0 to 1.
        prefix_tokens, prefix_hits: tokens of prompts, and how many of them were in the prefix cache.
    """

    tokens: float | None = None
    busy_s: float | None = None
    first_n: float | None = None
    first_s: float | None = None
    cache_share: float | None = None
    prefix_tokens: float | None = None
    prefix_hits: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The last look, and what came of those before it."""

    read: EngineRead
    read_s: float
    tokens_per_s: float | None = None
    first_token_s: float | None = None  # of the answers that began between the last two looks with any


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    """What a model server says of itself. None: it does not say, or not yet."""

    tokens_per_s: float | None  # over the last seconds; of a llama.cpp server within its last answers
    first_token_s: float | None  # of its last answers
    cache_share: float | None  # of the KV cache, 0 to 1
    prefix_hit_share: float | None  # of the prompts' tokens, since it started


def news(before: Engine | None, read: EngineRead | None, at_s: float) -> bool:
    """Is there anything to tell?"""
    if read is None or before is None:
        return read is not None
    if at_s - before.read_s < EVERY_S:
        return False
    return read != before.read or (bool(before.tokens_per_s) and read.busy_s is None)


def told(before: Engine | None, read: EngineRead | None, at_s: float) -> Engine | None:
    """With one more look. One that comes soon after another changes nothing; a server that began anew counts anew."""
    if read is None or (before is not None and at_s - before.read_s < EVERY_S):
        return before
    if before is None or _fewer(before.read, read):
        fresh = EngineRead(tokens=read.tokens, busy_s=0.0, first_n=0.0, first_s=0.0)
        first_s = _ratio(fresh.first_s, read.first_s, fresh.first_n, read.first_n)
        return Engine(read=read, read_s=at_s, first_token_s=first_s)
    last, since_s = before.read, at_s - before.read_s
    first_s = _ratio(last.first_s, read.first_s, last.first_n, read.first_n)
    if read.busy_s is not None:
        rate = _ratio(last.tokens, read.tokens, last.busy_s, read.busy_s)
        rate = before.tokens_per_s if rate is None else rate
    else:
        rate = _ratio(last.tokens, read.tokens, 0.0, since_s) if since_s <= LONGEST_S else None
    return replace(
        before,
        read=read,
        read_s=at_s,
        tokens_per_s=rate,
        first_token_s=before.first_token_s if first_s is None else first_s,
    )


def engine_row(engine: Engine | None) -> EngineRow | None:
    """None: nothing is known of it."""
    if engine is None:
        return None
    read = engine.read
    row = EngineRow(
        tokens_per_s=engine.tokens_per_s,
        first_token_s=engine.first_token_s,
        cache_share=read.cache_share,
        prefix_hit_share=_ratio(0.0, read.prefix_hits, 0.0, read.prefix_tokens),
    )
    return row if row != NOTHING else None


NOTHING: Final = EngineRow(tokens_per_s=None, first_token_s=None, cache_share=None, prefix_hit_share=None)


def _fewer(last: EngineRead, read: EngineRead) -> bool:
    """Does it count from the beginning again?"""
    pairs = (
        (last.tokens, read.tokens),
        (last.first_n, read.first_n),
        (last.prefix_tokens, read.prefix_tokens),
    )
    return any(a is not None and (b is None or b < a) for a, b in pairs)


def _ratio(
    above: float | None, above_now: float | None, below: float | None, below_now: float | None
) -> float | None:
    """What came per what came; None: nothing did, or that is not known."""
    if above is None or above_now is None or below is None or below_now is None or below_now <= below:
        return None
    return (above_now - above) / (below_now - below)
