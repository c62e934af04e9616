"""Patterns of claims: what they may say, and that everything they may say is a regular expression of fixed parts."""

import pytest

from headway.core.patterns import PATTERN_MAX, parts

pytestmark = pytest.mark.core

SAID = {
    # name: (pattern, its parts)
    "words": ("train.py", ("train.py",)),
    "one behind the other": ("notebook.*kernel", ("notebook", "kernel")),
    "at least one letter between": ("a.+b", ("a.", "b")),
    "from the beginning to the end": ("^sleep 600$", ("^sleep 600$",)),
    "a sign that means itself": (r"a\.\*b", (r"a\.\*b",)),
    "a class": (r"gpu[0-9].*x", ("gpu[0-9]", "x")),
    "a class that holds its own end": (r"[]a].*[^]b].*[\]c]", ("[]a]", "[^]b]", r"[\]c]")),
    "signs in a class mean themselves": ("[*+(|].*x", ("[*+(|]", "x")),
    "letters of a kind": (r"\d\w\b", (r"\d\w\b",)),
    "anything": (".*", ("", "")),
}


@pytest.mark.parametrize(("pattern", "found"), SAID.values(), ids=SAID.keys())
def test_what_a_pattern_may_say(pattern: str, found: tuple[str, ...]) -> None:
    assert parts(pattern) == found


REFUSED = {
    "a letter again": "a+",
    "a class again": "[ab]*",
    "a part that may be missing": "ab?",
    "a number of times": "a{30}",
    "as few as there are": ".*?",
    "a sign that means itself, again": r"\.*",
    "a group": "(a)",
    "one of two": "a|b",
    "what was found before": r"(a)\1",
    "an escape of another kind": r"\x41",
    "an escape of nothing": "a\\",
    "a class without an end": "[ab",
    "a class without an end that escapes it": "[ab\\]",
    "too many letters": "x" * (PATTERN_MAX + 1),
}


@pytest.mark.parametrize("pattern", REFUSED.values(), ids=REFUSED.keys())
def test_what_could_take_long_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        parts(pattern)


def test_the_longest_one_is_let_in() -> None:
    assert parts("x" * PATTERN_MAX) == ("x" * PATTERN_MAX,)
