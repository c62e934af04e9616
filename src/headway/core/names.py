"""Names of services and jobs: what one may be, and how a program's name becomes one. How long a PIN is."""

from __future__ import annotations

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"  # the same as `is_name`, for schemas
NAME_WORDS = "write up to 64 of a-z, 0-9, dot, dash and underscore, the first a letter or a digit"
NAME_MAX, SHOWN_MAX = 64, 80
PIN_MIN, PIN_MAX = 6, 128
MARKS = "._-"
SIGNS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789" + MARKS)


def is_name(word: str) -> bool:
    return 0 < len(word) <= NAME_MAX and word[0] not in MARKS and SIGNS.issuperset(word)


def is_like_an_id(name: str) -> bool:
    """Would it be taken for the id of a job? A holder is found by its id or by its name."""
    return name[:1] == "j" and name[1:].isascii() and name[1:].isdigit()


def usable(word: str) -> str:
    """A program's name as the name of a job."""
    signs = "".join(sign if sign in SIGNS else "/" for sign in word.lower())
    kept = "-".join(part for part in signs.split("/") if part).strip(MARKS)[:NAME_MAX] or "job"
    return f"job-{kept}"[:NAME_MAX] if is_like_an_id(kept) else kept


def shown(word: str) -> str:
    """What somebody typed, in quotes, and not all of it where it is long."""
    return repr(word if len(word) <= SHOWN_MAX else f"{word[:SHOWN_MAX]}...")
