"""What people type for knobs and costs. Knobs have the bounds and the forms that they have in a config."""

from __future__ import annotations

from typing import Final

from pydantic import TypeAdapter, ValidationError

from headway.config.fields import Seconds
from headway.config.problems import explained
from headway.config.schema import HeadwaySettings

KNOBS: Final = {
    "wait_price": "wait_price",
    "max_mean_wait": "max_mean_wait_s",
    "max_waiting_share": "max_waiting_share",
}
GAP_MIN: Final = "gap_min"  # no matter of price: it says how long at least
COSTS: Final = {"sleep": "sleep_s", "wake": "wake_s", "resume": "resume_s", "park": "park_s"}
FREEDOMS: Final = ("hides_park", "abandons_sleep")
WIDEST: Final = 1e6  # of a sweep: the greatest value over the least
_SECONDS: Final = TypeAdapter(Seconds)


def number(word: str, value: float | str) -> float:
    """The value of a knob, a cost or a freedom; times are in seconds, or texts such as `90s`.

    Raises:
        ValueError: nothing is called that, or the value makes no sense for it.
    """
    if word in KNOBS or word == GAP_MIN:
        try:
            checked = HeadwaySettings.model_validate({word: _said(value)})
        except ValidationError as error:
            raise _wrong(word, error) from None
        return float(getattr(checked, word))
    if word in COSTS:
        return seconds(word, value)
    if word in FREEDOMS:
        if (said := _said(value)) not in (0, 1):
            raise ValueError(f"{word}: must be 0 or 1, not {value}")
        return float(said)
    known = ", ".join([*KNOBS, GAP_MIN, *COSTS, *FREEDOMS])
    raise ValueError(f"nothing is called {word!r}; there are {known}")


def seconds(word: str, value: float | str) -> float:
    """A length of time that is called `word`; ValueError where it is none, or longer than a year."""
    try:
        return _SECONDS.validate_python(_said(value))
    except ValidationError as error:
        raise _wrong(word, error) from None


def span(text: str) -> tuple[str, float, float]:
    """`KNOB=LOW:HIGH` of a sweep.

    Raises:
        ValueError: it is not of that form, or there is nothing to sweep between these two.
    """
    word, equals, rest = text.partition("=")
    low, colon, high = rest.partition(":")
    word = word.strip()
    if not equals or not colon:
        raise ValueError(f"{text!r} is not KNOB=LOW:HIGH")
    if word in FREEDOMS:
        raise ValueError(f"{word} is 0 or 1: there is nothing to sweep. Play both: `--what-if {word}=1`")
    least, most = number(word, low), number(word, high)
    if not 0 < least < most:
        raise ValueError(f"{text!r}: LOW is to be above 0, and HIGH above LOW")
    if most > least * WIDEST:
        raise ValueError(f"{text!r}: HIGH is to be at most {WIDEST:,.0f} times LOW")
    return word, least, most


def _said(value: float | str) -> float | str:
    """A number where it is one, else the text: `1s`."""
    try:
        return float(value)
    except ValueError:
        return str(value).strip()


def _wrong(word: str, error: ValidationError) -> ValueError:
    return ValueError(f"{word}: {next(explained(error)).text}")
