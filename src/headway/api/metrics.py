"""The daemon's figures for Prometheus, made from the present state at each scrape. Unknown is left out, never 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headway.api.parts import Parts
from headway.api.troubles import loop_age_s, troubles_of
from headway.core import rows, view
from headway.core.model import Snapshot
from headway.ports import Pulse

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


def render(parts: Parts) -> bytes:
    """The whole page."""
    registry = CollectorRegistry()
    registry.register(_Now(parts))
    return generate_latest(registry)


class _Now(Collector):
    """One scrape."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def describe(self) -> Iterator[Metric]:
        return iter(
            ()
        )  # the names are known: without this the registry would collect once more to learn them

    def collect(self) -> Iterator[Metric]:
        snapshot, pulse = self._parts.hub.snapshot, self._parts.pulse()
        head = view.head(snapshot)
        yield InfoMetricFamily(
            "headway", "This daemon.", {"version": self._parts.version, "mode": snapshot.mode}
        )
        yield _one("headway_up_seconds", "Since this daemon began.", head.up_s)
        yield _one(
            "headway_loop_age_seconds", "Since the loop last looked at the world.", loop_age_s(self._parts)
        )
        yield _turns(pulse)
        yield _gauge("headway_jobs", "Jobs that are not over, by state.", "state", head.jobs)
        yield from _services(view.services(snapshot, self._parts.hub.verdicts))
        yield from _waits(snapshot)
        yield from _devices(head.devices)
        if (host := self._parts.host()) is not None:
            yield from _host(host)
        troubles = Counter(trouble.code for trouble in troubles_of(self._parts))
        yield _gauge("headway_troubles", "What needs a person, by code.", "code", troubles)
        gates = {"living": len(pulse.gates_living), "connected": len(pulse.gates_connected)}
        yield _gauge(
            "headway_gates", "Gates that live, and those that speak with this daemon.", "state", gates
        )
        yield from _counters(pulse)


def _one(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value)


def _gauge(name: str, words: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _figures(of: str, name: str, words: str, figures: Iterable[tuple[str, float | None]]) -> Metric:
    """One figure of each service, or of each device, by its name; what is not known is left out."""
    family = GaugeMetricFamily(f"headway_{of}_{name}", words, labels=[of])
    for called, figure in figures:
        if figure is not None:
            family.add_metric([called], figure)
    return family


def _turns(pulse: Pulse) -> Metric:
    below, buckets = 0, []
    for bound_s, n in pulse.turns:
        below += n
        buckets.append(("+Inf" if bound_s == float("inf") else f"{bound_s:g}", float(below)))
    family = HistogramMetricFamily("headway_turn_seconds", "How long a turn took until it had decided.")
    family.add_metric([], buckets, sum_value=round(pulse.turned_s, 6))
    return family


def _services(services: tuple[rows.ServiceRow, ...]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "headway_service_state", "1 for the state each service is in.", labels=["service", "state"]
    )
    figures: tuple[tuple[str, str, Callable[[rows.ServiceRow], float | None]], ...] = (
        ("active", "Requests in flight.", lambda row: row.active),
        ("waiting", "Requests that wait at the gate.", lambda row: row.waiting),
        ("oldest_wait_seconds", "How long the oldest of those has waited.", lambda row: row.waiting_s),
        ("memory_bytes", "Device memory it holds, measured.", lambda row: row.bytes),
    )
    for row in services:
        state.add_metric([row.name, row.state], 1)
    yield state
    for name, words, read in figures:
        yield _figures("service", name, words, ((row.name, read(row)) for row in services))


def _waits(s: Snapshot) -> Iterator[Metric]:
    """What waiting for each service came to, and what it costs now."""
    seen = sorted(s.outlooks.items())
    for name, words, figures in (
        (
            "waiting_share",
            "Share of the requests of 24 hours that waited for it.",
            [one.waits[1].share for _, one in seen],
        ),
        (
            "mean_wait_seconds",
            "What those of 24 hours waited on average.",
            [one.waits[1].mean_s for _, one in seen],
        ),
        (
            "wait_price",
            "Job time, in seconds, that a second of waiting must earn now.",
            [one.price for _, one in seen],
        ),
    ):
        yield _figures("service", name, words, zip((sid for sid, _ in seen), figures, strict=True))


def _devices(devices: tuple[rows.DeviceRow, ...]) -> Iterator[Metric]:
    memory = GaugeMetricFamily("headway_device_memory_bytes", "As last read.", labels=["device", "kind"])
    held = GaugeMetricFamily(
        "headway_device_held_bytes", "Measured, by holder.", labels=["device", "holder", "name", "kind"]
    )
    age = GaugeMetricFamily(
        "headway_device_reading_age_seconds", "Since its last reading.", labels=["device"]
    )
    for row in devices:
        kinds = {
            "total": row.total_bytes,
            "used": row.used_bytes,
            "free": row.free_bytes,
            "foreign": row.foreign_bytes,
            "reserve": row.reserve_bytes,
        }
        for kind, value in kinds.items():
            if value is not None:
                memory.add_metric([row.name, kind], value)
        for share in row.holders:
            if share.bytes is not None:
                held.add_metric([row.name, share.id, share.name, share.kind], share.bytes)
        if row.read_age_s is not None:
            age.add_metric([row.name], row.read_age_s)
    yield from (memory, held, age)
    gauges: tuple[tuple[str, str, Callable[[rows.DeviceRow], float | None]], ...] = (
        ("utilisation_percent", "Share of time in which it computed.", lambda row: row.util_percent),
        ("temperature_celsius", "As its sensor says.", lambda row: row.temp_c),
        ("power_watts", "What it draws.", lambda row: row.power_w),
    )
    for name, words, read in gauges:
        yield _figures("device", name, words, ((row.name, read(row)) for row in devices))


def _host(row: rows.HostRow) -> Iterator[Metric]:
    if row.cpu_percent is not None:
        yield _one("headway_host_cpu_percent", "Of all processors, since the look before.", row.cpu_percent)
    memory = GaugeMetricFamily("headway_host_memory_bytes", "Main memory.", labels=["kind"])
    memory.add_metric(["total"], row.memory_bytes)
    memory.add_metric(["free"], row.free_bytes)
    yield memory


def _counters(pulse: Pulse) -> Iterator[Metric]:
    events = CounterMetricFamily("headway_events", "What happened, by code of the audit.", labels=["code"])
    for code, n in sorted(pulse.events.items()):
        events.add_metric([code], n)
    alerts = CounterMetricFamily(
        "headway_alerts", "Alerts, by way and by what became of them.", labels=["way", "result"]
    )
    for (way, result), n in sorted(pulse.alerts.items()):
        alerts.add_metric([way, result], n)
    yield from (events, alerts)
