"""Sizes and durations as people write them ("16GiB", "90s", "1h30min": never rounded up, never clamped) and read them.

It imports nothing of ours: every `headway` command needs it, and few need the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

MIB = 1 << 20
GIB = 1 << 30
SIZE_UNITS: Mapping[str, int] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
DURATION_UNITS: Mapping[str, float] = {
    "d": 86400.0,
    "h": 3600.0,
    "min": 60.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 0.001,
}
LONGEST = 100  # signs of a number: Python refuses those of thousands, in words of its own
_SIZES = {name.lower(): size for name, size in SIZE_UNITS.items()}
_SHORT = {"k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB"}


def parse_size(text: str) -> int:
    """Bytes of a size such as "16GiB", "1.5 GiB" or "512 MB" (GiB = 2**30, GB = 10**9).

    Raises:
        ValueError: no unit, an unknown unit, or no number; the message says how to write it.

    >>> parse_size("1.5GiB")
    1610612736
    """
    number, unit = _number_and_unit(text.strip())
    if len(number) > LONGEST:
        raise ValueError(f'a number of {len(number)} signs is no size: write it like "16GiB" or "400MiB"')
    if number and unit.lower() in _SHORT:
        raise ValueError(f'"{text}" is no size (did you mean "{number}{_SHORT[unit.lower()]}"?)')
    if not number or unit.lower() not in _SIZES:
        raise ValueError(f'"{text}" is no size: write it like "16GiB" or "400MiB"')
    factor = _SIZES[unit.lower()]
    whole, _, rest = number.partition(".")
    return int(whole) * factor + (int(rest) * factor // 10 ** len(rest) if rest else 0)


def size_text(size_bytes: int) -> str:
    """The shortest exact way to write a size >= 0; `parse_size` reads it back.

    >>> size_text(24 << 30), size_text(1 << 29), size_text(1000)
    ('24GiB', '512MiB', '1000B')
    """
    for name in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % SIZE_UNITS[name] == 0:
            return f"{size_bytes // SIZE_UNITS[name]}{name}"
    return f"{size_bytes}B"


def parse_duration(text: str) -> float:
    """Seconds of a duration such as "90s", "10min", "1.5h" or "1h 30min", larger units first.

    Raises:
        ValueError: no unit, an unknown unit, or units out of order; the message says how to write it.

    >>> parse_duration("1h30min")
    5400.0
    """
    wrong = ValueError(f'"{text}" is no duration: write it like "90s", "10min" or "1h30min"')
    rest, total_s, units = text.strip(), 0.0, []
    while rest:
        number, tail = _number_and_unit(rest)
        unit = tail[: next((i for i, char in enumerate(tail) if not char.isalpha()), len(tail))]
        if not number or unit not in DURATION_UNITS:
            raise wrong
        total_s += float(number) * DURATION_UNITS[unit] if unit != "ms" else float(number) / 1000
        units.append(DURATION_UNITS[unit])
        rest = tail[len(unit) :].lstrip()
    if not units or any(later >= earlier for earlier, later in pairwise(units)):
        raise wrong
    return total_s


def duration_text(seconds: float) -> str:
    """A duration >= 0 as people write it, exact to a microsecond; `parse_duration` reads it back.

    >>> duration_text(5400), duration_text(90), duration_text(0.2)
    ('1h30min', '90s', '0.2s')
    """
    if seconds != int(seconds) or seconds < 120:
        return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
    left, parts = int(seconds), []
    for unit in ("d", "h", "min", "s"):
        count, left = divmod(left, int(DURATION_UNITS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _number_and_unit(text: str) -> tuple[str, str]:
    """Split "1.5 GiB" into ("1.5", "GiB"); the number is "" when there is none."""
    end = next((i for i, char in enumerate(text) if char not in "0123456789."), len(text))
    number = text[:end]
    whole, dot, rest = number.partition(".")
    if not whole or "." in rest or (dot and not rest):
        return "", text
    return number, text[end:].lstrip()


def size(bytes_: float) -> str:
    """Bytes in a sentence.

    >>> size(15247000000), size(900 << 20), size(3 << 20), size(0)
    ('14.2 GiB', '0.9 GiB', '3 MiB', '0 GiB')
    """
    if 0 < bytes_ < 100 * MIB:
        return f"{max(1, round(bytes_ / MIB))} MiB"
    return f"{bytes_ / GIB:.1f} GiB".replace(".0 GiB", " GiB")


def duration(seconds: float) -> str:
    """Seconds in a sentence, two units at most.

    >>> duration(3.42), duration(12.4), duration(100), duration(840), duration(4000), duration(200000)
    ('3.4 s', '12 s', '100 s', '14 min', '1 h 6 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s".replace(".0 s", " s")
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
