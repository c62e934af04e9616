"""Whether some text is how a JSON object begins: it is, if there are words that go on from it and end as one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product

DEEPEST = 100  # nothing that we write comes near
STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
# what ends a string, an escape in it, a number or a word in the middle
ENDS = ("", '"', '""', '0"', '00"', '000"', '0000"', "0")
WORDS = ("true", "false", "null", "NaN", "Infinity")
# and what then makes a member of it: a value after a colon, a key without one, a comma before neither
MEMBERS = ("", "0", ":0", '"":0')


def is_beginning(text: str) -> bool:
    """True for nothing at all, for `{`, and for whatever of an object is cut off later.

    >>> is_beginning('{"holder":"j1","pend'), is_beginning('{"n":[1,-'), is_beginning('{"n":tr')
    (True, True, True)
    >>> is_beginning("garbage"), is_beginning('{"n":1}}'), is_beginning('{"n" 1'), is_beginning("[1,2")
    (False, False, False, False)
    """
    if not text:
        return True
    closing = _closing(text)
    return closing is not None and any(_is_object(text + end + closing) for end in _ends(text))


def _closing(text: str) -> str | None:
    """What closes all that is open in it; None: nothing does, or too much is open."""
    if not text.startswith("{"):
        return None
    still_open: list[str] = []
    for sign in STRING.sub("", text):
        if sign in "{[":
            still_open.append("}" if sign == "{" else "]")
        elif sign in "}]" and (not still_open or still_open.pop() != sign):
            return None
    return "".join(reversed(still_open)) if len(still_open) <= DEEPEST else None


def _ends(text: str) -> Iterator[str]:
    """All that may have to come between it and what closes it."""
    rests = {word[n:] for word in WORDS for n in range(1, len(word)) if text.endswith(word[:n])}
    for end, member in product((*ENDS, *sorted(rests)), MEMBERS):
        yield end + member


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
