"""Memory over time: what a look shows, and that coarser rows say the same as the looks they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.model import Device
from headway.core.samples import (
    BUCKETS_MAX,
    DAY_S,
    DEVICE,
    FOREIGN,
    STEPS,
    Rollup,
    Series,
    added,
    coarser,
    looked,
    over_time,
    rolled,
    span,
)
from tests.core.make import Scene, dev, gib, job_spec, service_spec
from tests.core.scenes import deep

pytestmark = pytest.mark.core

GPU = dev("gpu0")
NOON_S = 1_700_000_000 - 1_700_000_000 % DAY_S + DAY_S // 2


def row(series: Series, at_s: int, bytes_: int, busy: int = 0) -> Rollup:
    return Rollup(
        series=series, name="x", step_s=1, at_s=at_s, looks=1, bytes=bytes_, peak_bytes=bytes_, busy=busy
    )


# ---------------------------------------------------------------- a look


def seen(scene: Scene) -> dict[tuple[str, str], tuple[int, int]]:
    """(kind, holder) -> bytes and busy, on gpu0."""
    found = list(looked(scene.s, 7))
    assert all((one.step_s, one.at_s, one.looks, one.peak_bytes) == (1, 7, 1, one.bytes) for one in found)
    return {(r.series.kind, r.series.holder): (r.bytes, r.busy) for r in found if r.series.device == GPU}


def old(scene: Scene) -> Scene:
    return scene.at(scene.s.now_s + scene.s.policy.reading_max_age_s + 0.1)


LOOKS = {
    "an empty device": (Scene(24), {(DEVICE, ""): (0, 0)}),
    "a model and a job": (
        Scene(24).service(active=2).job(job_spec(running=4)).read(),
        {(DEVICE, ""): (gib(20), 0), ("service", "chat"): (gib(16), 1), ("job", "train"): (gib(4), 0)},
    ),
    "a model that answers nobody": (
        Scene(24).service().read(),
        {(DEVICE, ""): (gib(16), 0), ("service", "chat"): (gib(16), 0)},
    ),
    "what is not ours": (
        Scene(24).read(foreign=gib(3)),
        {(DEVICE, ""): (gib(3), 0), (FOREIGN, ""): (gib(3), 0)},
    ),
    "a busy model whose memory nobody sees": (
        Scene(24).service(service_spec(argv=()), seen_bytes={}, active=1).read(foreign=gib(16)),
        {(DEVICE, ""): (gib(16), 0), ("service", "chat"): (0, 1)},
    ),
    "only totals are measured: everybody is taken for what it needs": (
        Scene(24).service().read().read(per_process=False),
        {(DEVICE, ""): (gib(16), 0), ("service", "chat"): (gib(16), 0)},
    ),
    "nothing is measured": (
        Scene(24).service().read(confidence="declared", used_bytes=None, per_process=False),
        {(DEVICE, ""): (gib(16), 0), ("service", "chat"): (gib(16), 0)},
    ),
    "a device that cannot be read": (Scene(24).service().read(trouble="lost"), {}),
    "a reading that is old": (old(Scene(24).service().read()), {}),
}


@pytest.mark.parametrize(("scene", "rows"), LOOKS.values(), ids=LOOKS.keys())
def test_a_look(scene: Scene, rows: dict[tuple[str, str], tuple[int, int]]) -> None:
    assert seen(scene) == rows


def test_each_device_has_its_own_rows() -> None:
    scene = Scene(24, 24).job(job_spec(running=4), on=("gpu1",)).read()
    found = {(one.series.device, one.series.holder): one.bytes for one in looked(scene.s, 0)}
    assert found == {(GPU, ""): 0, (dev("gpu1"), ""): gib(4), (dev("gpu1"), "train"): gib(4)}


# ---------------------------------------------------------------- arithmetic

series = st.sampled_from([Series(GPU, DEVICE), Series(GPU, "service", "chat"), Series(GPU, "job", "j1")])
looks = st.lists(
    st.builds(row, series, st.integers(0, 1500), st.integers(0, 1 << 40), st.integers(0, 1)), max_size=60
)


def total(rows: Iterable[Rollup]) -> dict[Series, tuple[int, int, int, int]]:
    by = groupby(sorted(rows, key=lambda one: one.series), key=lambda one: one.series)
    return {
        series: (sum(r.looks for r in of), sum(r.bytes for r in of), max(r.peak_bytes for r in of), sum(r.busy for r in of))
        for series, of in ((series, list(rows)) for series, rows in by)
    }  # fmt: skip


@given(looks)
@deep(100)
def test_every_step_says_the_same_as_the_looks_themselves(given_: list[Rollup]) -> None:
    found = rolled(given_)
    for step_s in STEPS:
        assert total(one for one in found if one.step_s == step_s) == total(given_)


@given(looks)
@deep(60)
def test_a_row_begins_at_a_multiple_of_its_step_and_there_is_one_of_each(given_: list[Rollup]) -> None:
    found = rolled(given_)
    assert all(one.at_s % one.step_s == 0 for one in found)
    assert len({(one.series, one.step_s, one.at_s) for one in found}) == len(found)


def by_key(rows: Iterable[Rollup]) -> dict[tuple[Series, int, int], Rollup]:
    """Rows as the database keeps them: what has the same key is added."""
    kept: dict[tuple[Series, int, int], Rollup] = {}
    for one in rows:
        key = (one.series, one.step_s, one.at_s)
        kept[key] = added(kept[key], one) if key in kept else one
    return kept


@given(looks, st.integers(0, 60))
@deep(100)
def test_where_a_restart_cuts_makes_no_difference(given_: list[Rollup], cut: int) -> None:
    assert by_key([*rolled(given_[:cut]), *rolled(given_[cut:])]) == by_key(rolled(given_))


@given(looks)
@deep(60)
def test_step_by_step_is_the_same_as_at_once(given_: list[Rollup]) -> None:
    assert by_key(coarser(coarser(given_, 10), 600)) == by_key(coarser(given_, 600))


# ---------------------------------------------------------------- spans

HOUR_S = 3600
SPANS = {
    # name: (seconds back, seconds long, width, step)
    "an hour": (HOUR_S, HOUR_S, 20, 10),
    "six hours": (6 * HOUR_S, 6 * HOUR_S, 120, 60),
    "a day": (DAY_S, DAY_S, 300, 60),
    "three days": (3 * DAY_S, 3 * DAY_S, 1200, 600),
    "a week": (7 * DAY_S, 7 * DAY_S, 2400, 600),
    "a minute": (60, 60, 1, 1),
    "five minutes": (300, 300, 1, 1),
    "a minute of yesterday, while its seconds are there": (DAY_S, 60, 1, 1),
    "and once they are gone": (DAY_S + 1, 60, 10, 10),
    "a minute of last week": (7 * DAY_S, 60, 60, 60),
    "a minute of last year": (400 * DAY_S, 60, 600, 600),
    "ten years": (3650 * DAY_S, 3650 * DAY_S, 13 * DAY_S, 600),
}


@pytest.mark.parametrize(("back_s", "long_s", "width_s", "step_s"), SPANS.values(), ids=SPANS.keys())
def test_a_span_has_the_finest_buckets_that_there_are(
    back_s: int, long_s: int, width_s: int, step_s: int
) -> None:
    found = span(NOON_S - back_s, NOON_S - back_s + long_s, NOON_S)
    assert (found.width_s, found.step_s) == (width_s, step_s)


@given(st.floats(0, 4e9), st.floats(1e-3, 1e9))
@deep(200)
def test_no_span_has_too_many_buckets_and_each_is_whole(from_s: float, long_s: float) -> None:
    found = span(from_s, from_s + long_s, 2e9)
    assert found.from_s <= from_s < from_s + long_s <= found.to_s
    assert found.from_s % found.width_s == found.to_s % found.width_s == 0 == found.width_s % found.step_s
    assert 1 <= (found.to_s - found.from_s) // found.width_s <= BUCKETS_MAX


# ---------------------------------------------------------------- what people see


def test_means_are_over_the_seconds_that_could_be_read_and_the_peak_is_no_sum_of_peaks() -> None:
    chat, train = Series(GPU, "service", "chat"), Series(GPU, "job", "train")
    looks = [
        *(row(Series(GPU, DEVICE), at, bytes_) for at, bytes_ in ((0, 12), (1, 10), (2, 8), (3, 0))),
        *(row(chat, at, 10, busy) for at, busy in ((0, 1), (1, 0))),
        row(train, 2, 8),
        row(Series(GPU, FOREIGN), 0, 2),
    ]
    asked = span(0, 10, 1e9)
    found = over_time(Device(id=GPU, name="gpu0", total_bytes=24), asked, coarser(looks, 10))
    (bucket,) = found.buckets
    assert (bucket.at_s, bucket.looks, bucket.used_bytes, bucket.peak_bytes) == (0, 4, 8, 12)
    assert bucket.bytes == {"chat": 5, "train": 2} and bucket.foreign_bytes == 0
    assert bucket.busy == {"chat": 0.25}
    assert [one.id for one in found.holders] == ["chat", "train"], "who held most comes first"


def test_time_in_which_the_device_could_not_be_read_has_no_bucket() -> None:
    looks = [row(Series(GPU, DEVICE), at, 5) for at in (0, 30)]
    asked = replace(span(0, 40, 1e9), width_s=10)
    found = over_time(Device(id=GPU, name="gpu0"), asked, coarser(looks, 10))
    assert [one.at_s for one in found.buckets] == [0, 30]
