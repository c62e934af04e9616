"""The gate's own figures, in Prometheus' text format. Counting costs two dictionary operations per request."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headway.core import wire
from headway.gate.lines import Line
from headway.gate.record import Record

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
WAIT_BOUNDS_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
Labels = Mapping[str, str]


class Counts:
    """What only goes up since this gate process started."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}  # (service, class, status)
        self._waits: dict[tuple[str, str], list[int]] = {}  # (service, class): by bound, not summed up
        self._waited_s: dict[tuple[str, str], float] = {}

    def ended(self, record: Record, now_s: float) -> None:
        """One more request is over. A status of 0: its client left before any answer."""
        class_ = record.caller.class_ if record.caller is not None else ""
        key = (record.service or "", class_, record.status)
        self._requests[key] = self._requests.get(key, 0) + 1
        if record.was_held:
            waited_s, pair = record.waited_s(now_s), key[:2]
            buckets = self._waits.setdefault(pair, [0] * (len(WAIT_BOUNDS_S) + 1))
            buckets[bisect_left(WAIT_BOUNDS_S, waited_s)] += 1
            self._waited_s[pair] = self._waited_s.get(pair, 0.0) + waited_s

    def refused(self, status: int) -> None:
        """One more request that was not read further than its head."""
        key = ("", "", status)
        self._requests[key] = self._requests.get(key, 0) + 1

    def requests(self) -> Iterator[str]:
        """The lines of the counter."""
        for (service, class_, status), n in sorted(self._requests.items()):
            labels = {"service": service, "class": class_, "status": str(status)}
            yield _sample("requests_total", labels, n)

    def waits(self) -> Iterator[str]:
        """The lines of the histogram."""
        for (service, class_), buckets in sorted(self._waits.items()):
            labels, below = {"service": service, "class": class_}, 0
            for bound_s, n in zip((*WAIT_BOUNDS_S, float("inf")), buckets, strict=True):
                below += n
                le = "+Inf" if bound_s == float("inf") else f"{bound_s:g}"
                yield _sample("wait_seconds_bucket", {**labels, "le": le}, below)
            yield _sample("wait_seconds_sum", labels, round(self._waited_s[service, class_], 6))
            yield _sample("wait_seconds_count", labels, below)


def is_compiled() -> bool:
    """Whether this gate's modules were compiled when it was installed."""
    return not __file__.endswith(".py")


def render(
    counts: Counts,
    lines: Mapping[str, Line],
    *,
    version: str,
    gate: str,
    linked: bool,
    clients: int,
    dropped: int,
) -> str:
    """The whole document.

    Args:
        linked: whether the daemon is connected.
        clients: open client connections.
        dropped: lines that the request log could not take.
    """
    who = {"version": version, "gate": gate, "compiled": str(int(is_compiled()))}
    rows = [
        *_family(
            "info",
            "gauge",
            "Which gate answers; compiled: whether it's machine code.",
            [_sample("info", who, 1)],
        )
    ]
    rows += _family("requests_total", "counter", "Requests that are over.", counts.requests())
    rows += _family("wait_seconds", "histogram", "How long held requests waited.", counts.waits())
    named = sorted(lines.items())
    rows += _family("held", "gauge", "Requests that wait now.", _held(named))
    for name, words, value in (
        ("active", "Requests forwarded and not over, probes left out.", lambda line: line.active),
        ("pinning", "Requests forwarded and not over, probes included.", lambda line: len(line.forwarded)),
        ("tunnels", "Open websockets.", lambda line: line.tunnels),
        ("open", "1 while requests of the service may be forwarded.", lambda line: int(line.open)),
    ):
        samples = [_sample(name, {"service": service}, value(line)) for service, line in named]
        rows += _family(name, "gauge", words, samples)
    rows += _family("clients", "gauge", "Open client connections.", [_sample("clients", {}, clients)])
    rows += _family(
        "link_up", "gauge", "1 while the daemon is connected.", [_sample("link_up", {}, int(linked))]
    )
    lost = [_sample("log_lines_dropped_total", {}, dropped)]
    rows += _family("log_lines_dropped_total", "counter", "Lines that the request log could not take.", lost)
    return "\n".join(rows) + "\n"


def _held(named: Iterable[tuple[str, Line]]) -> Iterator[str]:
    for service, line in named:
        for class_ in wire.CLASSES:
            yield _sample("held", {"service": service, "class": class_}, line.order.count(class_))


def _family(name: str, kind: str, words: str, samples: Iterable[str]) -> list[str]:
    return [f"# HELP headway_gate_{name} {words}", f"# TYPE headway_gate_{name} {kind}", *samples]


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"headway_gate_{name}{{{inside}}} {value}" if inside else f"headway_gate_{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
