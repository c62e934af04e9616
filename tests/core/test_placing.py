"""On which device it is put, where several would do: tight where its need is known, with room where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import fit
from headway.core.decide import target
from headway.core.fit import Plan
from headway.core.model import Rank, Snapshot, Want
from tests.core.make import Scene, dev, gib, job_spec

pytestmark = pytest.mark.core

CARDS = {
    # name: ([(total GiB, GiB of strangers), ...], need GiB or None, in which order they are tried)
    "the one with least left over that fits": ([(48, 0), (16, 0), (24, 0)], 12, [1, 2, 0]),
    "one byte too much for the smallest": ([(48, 0), (16, 0), (24, 0)], 16 + 1 / (1 << 30), [2, 0, 1]),
    "where strangers leave just enough": ([(48, 0), (48, 34)], 14, [1, 0]),
    "where none fits, the least short first": ([(16, 0), (24, 0)], 40, [1, 0]),
    "of two alike the first": ([(24, 0), (24, 0)], 4, [0, 1]),
    "one of unknown need where most is free": ([(24, 0), (48, 0), (16, 0)], None, [1, 0, 2]),
    "not where a stranger holds half, though it is larger": ([(48, 30), (24, 0)], None, [1, 0]),
    "of two alike the first, for one of unknown need too": ([(24, 0), (24, 0)], None, [0, 1]),
}


def cards(given_: list[tuple[float, float]], need: float | None) -> tuple[Want, Snapshot]:
    """A queued job before devices of which strangers hold so much."""
    scene = Scene(*(total for total, _ in given_)).job(job_spec(running=need), "stopped").read()
    devices = {
        dev(f"gpu{at}"): replace(
            scene.s.devices[dev(f"gpu{at}")],
            foreign_bytes=gib(strangers),
            used_bytes=gib(strangers),
            free_bytes=gib(total) - gib(strangers),
        )
        for at, (total, strangers) in enumerate(given_)
    }
    s = replace(scene.s, devices=devices)
    holder = s.holders["train"]
    return Want(holder=holder, form="running", rank=(Rank.JOB, 0.0, holder.id)), s


@pytest.mark.parametrize(("given_", "need", "order"), CARDS.values(), ids=CARDS.keys())
def test_the_order_in_which_devices_are_tried(
    given_: list[tuple[float, float]], need: float | None, order: list[int]
) -> None:
    want, s = cards(given_, need)
    assert fit.placements(want, Plan(s)) == [(dev(f"gpu{at}"),) for at in order]


def test_one_of_unknown_need_is_not_put_beside_somebody_where_another_device_is_empty() -> None:
    scene = Scene(24, 16).job(job_spec("there", 4, placement="share")).job(job_spec(running=None), "stopped")
    assert target(scene.read().s)[0].placed["train"] == ("running", (dev("gpu1"),))


@given(
    st.lists(st.tuples(st.sampled_from([16, 24, 48, 80]), st.integers(0, 16)), min_size=1, max_size=5),
    st.sampled_from([None, 2, 14, 30]),
)
def test_it_has_the_tightest_fit_or_the_most_room(given_: list[tuple[int, int]], need: int | None) -> None:
    want, s = cards([(float(total), float(strangers)) for total, strangers in given_], need)
    free = [total - strangers for total, strangers in given_]
    ((first,), *_) = fit.placements(want, Plan(s))
    got = free[s.devices[first].index]
    if need is None or max(free) < need:
        assert got == max(free)
    else:
        assert got == min(size for size in free if size >= need)
