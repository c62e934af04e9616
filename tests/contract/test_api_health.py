"""What programs that watch are told: health, readiness, and the figures for Prometheus."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headway.core.ledger import Waits
from headway.core.model import Device, Gauges, Service, Waiting
from headway.core.outlook import NONE
from headway.daemon.figures import BOUNDS_S, Figures
from headway.ports import Pulse
from tests.core.make import gib, outlook
from tests.parts.false_api import Served, serving, snapshot

pytestmark = pytest.mark.contract

GATES = frozenset({"a", "b"})


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


async def told(api: Served, path: str) -> tuple[int, Any]:
    status, _, body = await api.raw("GET", path)
    return status, json.loads(body)


async def figures(api: Served) -> dict[tuple[str, ...], float]:
    """Every sample as (name, label values in order of the labels' names) -> value."""
    status, headers, body = await api.raw("GET", "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(body.decode()):
        assert family.documentation and family.name.startswith("headway")
        for sample in family.samples:
            key = (sample.name, *(sample.labels[label] for label in sorted(sample.labels)))
            assert key not in found
            found[key] = sample.value
    return found


LINKS = {
    # name: (living, connected, link, ready)
    "both speak": (GATES, GATES, "ok", 200),
    "one does not": (GATES, frozenset({"a"}), "not_connected", 503),
    "one is gone and its connection not yet": (frozenset({"a"}), GATES, "ok", 200),
    "there is none": (frozenset(), frozenset(), "no_gate", 200),
}


@pytest.mark.parametrize(("living", "connected", "link", "ready"), LINKS.values(), ids=LINKS.keys())
async def test_the_link(
    api: Served, living: frozenset[str], connected: frozenset[str], link: str, ready: int
) -> None:
    api.pulse = Pulse(gates_living=living, gates_connected=connected)
    status, found = await told(api, "/healthz")
    assert (status, found["status"], found["link"]) == (200, "ok", link)
    assert (await told(api, "/readyz"))[0] == ready


async def test_a_request_that_waits_beyond_its_limit_is_no_readiness(api: Served) -> None:
    chat = snapshot().holders["chat"]
    assert isinstance(chat, Service)
    for waited_s, status in ((90.0, 200), (96.0, 503)):
        since_s = api.clock.at_s - waited_s
        demand = {"attended": Waiting(n=1, since_s=since_s)}
        holders = {**snapshot().holders, "chat": replace(chat, demand=demand)}
        api.hub.publish(snapshot(8, holders=holders), {}, frozenset())
        found = await told(api, "/readyz")
        assert found[0] == status
        assert [one["code"] for one in found[1]["troubles"]] == (["wait_overdue"] if status == 503 else [])


async def test_figures_of_the_state(api: Served) -> None:
    devices = {
        "local/gpu0": Device(id="local/gpu0", name="gpu0", total_bytes=gib(24), used_bytes=gib(4), free_bytes=gib(20), read_at_s=999.0),
        "local/gpu1": Device(id="local/gpu1", name="gpu1", index=1),
    }  # fmt: skip
    waits = (NONE, Waits(requests=50.0, waited=5.0, waited_s=20.0), NONE)
    outlooks = {"chat": outlook(waits=waits, price=7.0)}
    api.hub.publish(snapshot(8, devices=devices, outlooks=outlooks), {}, frozenset())
    found = await figures(api)
    assert found[("headway_service_waiting_share", "chat")] == 0.1
    assert found[("headway_service_mean_wait_seconds", "chat")] == 0.4
    assert found[("headway_service_wait_price", "chat")] == 7.0
    assert found[("headway_info", "live", "1.2.3")] == 1
    assert found[("headway_jobs", "queued")] == 3 and found[("headway_jobs", "running")] == 1
    assert found[("headway_service_state", "chat", "stopped")] == 1
    assert found[("headway_service_waiting", "chat")] == 0
    assert found[("headway_device_memory_bytes", "gpu0", "free")] == gib(20)
    assert found[("headway_device_reading_age_seconds", "gpu0")] == 1.0
    assert ("headway_device_memory_bytes", "gpu1", "free") not in found, "unknown is not nothing"
    assert ("headway_service_active", "chat") not in found


async def test_figures_of_the_machine_are_shown_where_they_are_known(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = {
        "local/gpu0": Device(id="local/gpu0", name="gpu0", gauges=Gauges(util_percent=37.0, temp_c=55.0, power_w=212.5)),
        "local/gpu1": Device(id="local/gpu1", name="gpu1", index=1, gauges=Gauges(temp_c=0.0)),
    }  # fmt: skip
    api.hub.publish(snapshot(8, devices=devices), {}, frozenset())
    names = ("utilisation_percent", "temperature_celsius", "power_watts")
    found = await figures(api)
    assert [found[(f"headway_device_{name}", "gpu0")] for name in names] == [37.0, 55.0, 212.5]
    assert [found.get((f"headway_device_{name}", "gpu1")) for name in names] == [None, 0.0, None]
    assert found[("headway_host_memory_bytes", "free")] == gib(3)
    assert found[("headway_host_cpu_percent",)] == 12.5
    shown = await api.get("/api/v1/status")
    assert shown["host"] == {"cpus": 4, "cpu_percent": 12.5, "memory_bytes": gib(8), "free_bytes": gib(3)}
    first, second = shown["devices"]
    assert (first["util_percent"], first["temp_c"], first["power_w"]) == (37.0, 55.0, 212.5)
    assert (second["util_percent"], second["temp_c"]) == (None, 0.0), "unknown is not nothing"


async def test_a_stranger_is_named_by_its_program_and_never_by_its_arguments(api: Served) -> None:
    device = Device(id="local/gpu0", name="gpu0", strangers=((5, gib(2)), (99, gib(1))))
    api.hub.publish(snapshot(8, devices={device.id: device}), {}, frozenset())
    named = [{"pid": 5, "bytes": gib(2), "name": "python"}, {"pid": 99, "bytes": gib(1), "name": None}]
    assert (await api.get("/api/v1/status"))["devices"][0]["strangers"] == named
    assert (await api.get("/api/v1/devices"))[0]["strangers"] == named
    assert (await api.get("/api/v1/devices/gpu0"))["strangers"] == named


async def test_model_servers_that_are_not_ours_are_named_and_looked_for_once_a_minute(api: Served) -> None:
    rows = [await api.get("/api/v1/servers") for _ in range(3)]
    assert rows == [[{"kind": "ollama", "url": "http://127.0.0.1:11434", "models": ["llama3"]}]] * 3
    assert api.looked == [frozenset({8123})], "the upstream of chat is ours, and is not asked"
    api.clock.at_s += 61
    await asyncio.gather(*(api.get("/api/v1/servers") for _ in range(5)))
    assert len(api.looked) == 2


async def test_figures_of_the_daemon(api: Served) -> None:
    counted = Figures()
    for took_s in (0.0005, 0.001, 0.003, 7.0):
        counted.turned(took_s)
    counted.event("job.done")
    pulse = counted.pulse(GATES, frozenset({"a"}))
    api.pulse = replace(pulse, alerts={("webhook", "sent"): 3})
    found = await figures(api)
    buckets = [found[("headway_turn_seconds_bucket", f"{bound:g}")] for bound in BOUNDS_S]
    assert buckets[:4] == [2, 2, 3, 3] and buckets[-1] == 3
    assert found[("headway_turn_seconds_bucket", "+Inf")] == found[("headway_turn_seconds_count",)] == 4
    assert found[("headway_turn_seconds_sum",)] == pytest.approx(7.0045)
    assert found[("headway_gates", "living")] == 2 and found[("headway_gates", "connected")] == 1
    assert found[("headway_events_total", "job.done")] == 1
    assert found[("headway_alerts_total", "sent", "webhook")] == 3
    assert found[("headway_troubles", "gate_away")] == 1
    assert found[("headway_loop_age_seconds",)] == 0


async def test_metrics_are_looked_at_like_the_board(short_dir: Path) -> None:
    async with serving(short_dir, read="token") as api:
        assert (await told(api, "/metrics"))[0] == 401
