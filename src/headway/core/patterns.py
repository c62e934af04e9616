"""What a claim's pattern may say: the part of regular expressions whose search takes no longer than the text is long.

A pattern comes from a caller, and is looked for in the daemon's own loop. `(a+)+$` against forty letters would stop
that loop for hours, so nothing may be repeated but `.`: what is left are parts of fixed length, one behind another.
"""

from __future__ import annotations

PATTERN_MAX = 200
CLASSES = "dDwWsSbB"  # \d and its like
HOW = "write letters, `.`, `.*`, `.+`, `[...]`, `^`, `$` and `\\` before a sign that means itself; " + (
    "nothing else can be repeated, chosen from or put in groups"
)


def parts(pattern: str) -> tuple[str, ...]:
    """Regular expressions of fixed length that must be found one after the other, with anything between them.

    Raises:
        ValueError: it says more than that; with how to write it.
    """
    if len(pattern) > PATTERN_MAX:
        raise ValueError(f"a pattern has up to {PATTERN_MAX} letters")
    found, part, at = list[str](), "", 0
    while at < len(pattern):
        atom = _atom(pattern, at)
        at += len(atom)
        if atom == "." and pattern[at : at + 1] in ("*", "+"):
            found.append(part + ("." if pattern[at] == "+" else ""))
            part, atom = "", ""
            at += 1
        part += atom
    return (*found, part)


def _atom(pattern: str, at: int) -> str:
    """One letter, escape or class. Raises: ValueError."""
    sign = pattern[at]
    if sign in "*+?{}()|":
        raise ValueError(f"{sign!r} is not for these patterns: {HOW}")
    if sign == "\\":
        second = pattern[at + 1 : at + 2]
        if not second or (second.isalnum() and second not in CLASSES):
            raise ValueError(f"{sign + second!r} is not for these patterns: {HOW}")
        return sign + second
    if sign == "[":
        return _class(pattern, at)
    return sign


def _class(pattern: str, at: int) -> str:
    """`[...]` whole: a `]` right at its beginning, or behind a backslash, does not end it. Raises: ValueError."""
    end = at + 1
    end += pattern[end : end + 1] == "^"
    end += pattern[end : end + 1] == "]"
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    if end >= len(pattern):
        raise ValueError("a `[` has no `]`")
    return pattern[at : end + 1]
