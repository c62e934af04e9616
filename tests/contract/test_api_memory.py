"""Memory over time, as the API tells it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.core.model import Device
from tests.parts.false_api import Served, serving, snapshot

pytestmark = pytest.mark.contract

AT = "/api/v1/devices"
GPU = Device(id="local/GPU-1", name="gpu0", total_bytes=100)


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        served.hub.publish(snapshot(devices={GPU.id: GPU}), {}, frozenset())
        served.clock.wall = 1.7e9
        yield served


RANGES = {
    # words: (span, from one bucket to the next)
    "": (3600, 20),
    "?range=1h": (3600, 20),
    "?range=6h": (21_600, 120),
    "?range=24h": (86_400, 300),
    "?range=3d": (259_200, 1200),
    "?range=7d": (604_800, 2400),
    "?from_s=1699999000&to_s=1699999100": (100, 1),
    "?from_s=0&to_s=1700000000": (1_700_000_000, 66 * 86_400),
}


@pytest.mark.parametrize(("words", "wanted"), RANGES.items(), ids=RANGES.keys())
@pytest.mark.parametrize("name", ["gpu0", "local/GPU-1"])
async def test_it_is_of_a_span_of_time(api: Served, name: str, words: str, wanted: tuple[int, int]) -> None:
    found = await api.get(f"{AT}/{name}/memory{words}")
    assert (found["device"], found["name"], found["total_bytes"]) == (GPU.id, "gpu0", 100)
    span_s = found["to_s"] - found["from_s"]
    assert wanted[0] <= span_s < wanted[0] + 2 * wanted[1] and found["step_s"] == wanted[1]
    assert found["holders"] == [{"id": "chat", "kind": "service", "name": "chat"}]
    (bucket,) = found["buckets"]
    assert bucket == {
        "at_s": found["from_s"] + found["step_s"],
        "looks": 4,
        "used_bytes": 10,
        "peak_bytes": 20,
        "foreign_bytes": 0,
        "bytes": {"chat": 10},
        "busy": {"chat": 0.25},
    }


REFUSED = {
    "a range that is not there": "?range=2h",
    "a range and a span": "?range=1h&from_s=1&to_s=2",
    "half a span": "?from_s=1",
    "the other half": "?to_s=1",
    "a span that ends before it begins": "?from_s=2&to_s=1",
    "an empty one": "?from_s=2&to_s=2",
    "no number": "?from_s=yesterday&to_s=2",
    "not a number": "?from_s=nan&to_s=2",
    "for ever": "?from_s=0&to_s=inf",
    "before the epoch": "?from_s=-1&to_s=2",
    "a word that nobody knows": "?step=60",
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_no_span_is_refused(api: Served, words: str) -> None:
    status, headers, body = await api.raw("GET", f"{AT}/gpu0/memory{words}")
    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert json.loads(body)["code"] == "invalid"


async def test_a_device_that_nobody_knows_is_told(api: Served) -> None:
    status, _, body = await api.raw("GET", f"{AT}/gpu7/memory")
    assert (status, json.loads(body)["code"]) == (404, "not_found")


async def test_a_device_is_found_beside_it(api: Served) -> None:
    for name in ("gpu0", "local/GPU-1"):
        assert (await api.get(f"{AT}/{name}"))["id"] == GPU.id
    assert (await api.raw("GET", f"{AT}/gpu7"))[0] == 404
