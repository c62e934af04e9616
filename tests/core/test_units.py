"""Sizes and durations: what is written is read back, and anything else is a clear error."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config.fields import LARGEST_BYTES, LONGEST_S
from headway.core import units
from headway.core.model import GIB, MIB
from headway.core.units import duration_text, parse_duration, parse_size, size_text

pytestmark = pytest.mark.core


@given(st.integers(0, LARGEST_BYTES))
def test_sizes_are_read_back(size: int) -> None:
    assert parse_size(size_text(size)) == size


@given(st.integers(0, 40), st.sampled_from(["KiB", "MiB", "GiB", "TiB"]), st.sampled_from(["", " "]))
def test_sizes_as_people_write_them(number: int, unit: str, gap: str) -> None:
    factor = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
    assert parse_size(f"{number}{gap}{unit}") == number * factor
    assert parse_size(f"{number}.5{gap}{unit.lower()}") == number * factor + factor // 2


@given(st.integers(0, int(LONGEST_S) * 1_000_000))
def test_durations_are_read_back_to_the_microsecond(micros: int) -> None:
    assert parse_duration(duration_text(micros / 1e6)) == pytest.approx(micros / 1e6, abs=5e-7)


@given(st.integers(0, int(LONGEST_S)))
def test_whole_seconds_are_read_back_exactly(seconds: int) -> None:
    assert parse_duration(duration_text(seconds)) == seconds


@given(st.text(max_size=12))
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    for parse in (parse_size, parse_duration):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert "write it like" in str(error) or "did you mean" in str(error)


UNITS = {
    "90s": 90.0,
    "10min": 600.0,
    "2h": 7200.0,
    "1.5h": 5400.0,
    "1h 30min": 5400.0,
    "250ms": 0.25,
    "1d": 86400.0,
}


@pytest.mark.parametrize(("text", "seconds"), UNITS.items())
def test_durations_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "90", "90 sec", "-1s", "1e3s", "30min 1h", "1h 1h", "1.s", ".5s", "1..5s", "inf"]
)
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "GiB", "16", "16G", "-1GiB", "1,5GiB", "1.2.3GiB", "16 bytes", "²GiB"])
def test_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(units).failed == 0


def test_exact_sizes() -> None:
    assert (
        parse_size("400MiB") == 400 * MIB
        and parse_size("1.5GiB") == 3 * GIB // 2
        and parse_size("16GB") == 16 * 10**9
    )
