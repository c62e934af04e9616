"""What is measured, and what is wanted of it. A measure runs for one proxy at a time; a round is all of them once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.gate_parts import cost
from bench.gate_parts.peers import Ours, Peer
from bench.gate_parts.tools import BenchFailed, Counts, Tools

PER_S = 10_000
HOLD_LIMIT_S = 60.0
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    `goal` is a ratio to nginx's figure where `of` is "ratio", and the figure itself where it's "figure". `better` says
    which side of the goal passes.
    """

    key: str
    title: str
    goal: float
    of: Literal["ratio", "figure"] = "ratio"
    better: Literal["less", "more"] = "less"
    form: str = ".3g"

    def passes(self, figure: float, nginx: float | None) -> bool | None:
        """Whether the goal is met; None: nobody can say, nginx wasn't there."""
        if self.of == "ratio" and nginx is None:
            return None
        value = figure / nginx if self.of == "ratio" and nginx is not None else figure
        return value <= self.goal if self.better == "less" else value >= self.goal


Got = dict[str, float]


def small(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """Small requests, one after the other on one connection, and on 64; there also with a trace id in each head."""
    one, _ = _closed(tools, peer, 1, counts.requests // 4)
    many, rate = _closed(tools, peer, 64, counts.requests)
    traced, _ = _closed(tools, peer, 64, counts.requests, tools.traced)
    return {"cpu_1": one, "cpu_64": many, "rate_64": rate, "cpu_traced": traced}


def crowded(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """Small requests on 512 connections."""
    _, rate = _closed(tools, peer, 512, counts.requests)
    return {"rate_512": rate}


def events(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """Streams whose events come at the pace of a model."""
    tools.run("streams", peer.port, tools.stream, 1)
    before_s = cost.cpu_s(peer.pids)
    report = tools.run("streams", peer.port, tools.stream, counts.streams)
    spent_s = cost.cpu_s(peer.pids) - before_s
    if report["events"] < counts.streams * counts.events:
        raise BenchFailed(f"only {report['events']} events came through")
    return {"event_us": spent_s * 1e6 / (counts.streams * counts.events)}


def held(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """Memory of requests that wait, in a new process: what was freed before would be used again.

    It's what the second half adds: what grows only once is in the first.
    """
    peer.stop()
    peer.start()
    few = _hold(tools, peer, counts.held // 2)
    before = cost.held_bytes(peer.pids)
    more = _hold(tools, peer, counts.held // 2)
    grown = cost.held_bytes(peer.pids) - before
    for process in (few, more):
        process.kill()
        process.communicate()
    tools.release_silent()  # some proxies keep their side although the client has left
    return {"held_kb": grown / 1000 / (counts.held // 2)}


def upload(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """20 MB to a service's own port: nothing of it must be read."""
    cpu_ms, growth_mib = _upload(tools, peer, peer.upload_port, tools.sound, counts.uploads)
    return {"upload_ms": cpu_ms, "upload_mib": growth_mib}


def form(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """20 MB as a form that names its model, to the front door."""
    cpu_ms, growth_mib = _upload(tools, peer, peer.port, tools.form, counts.uploads)
    return {"form_ms": cpu_ms, "form_mib": growth_mib}


def rewrite(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """Another model's name in a body of 200 KB. Only ours does it."""
    if not isinstance(peer, Ours):
        return {}
    root = Path(__file__).parents[2]
    paths = [*([str(peer.tree)] if peer.tree else []), os.environ.get("PYTHONPATH", ""), str(root)]
    argv = [sys.executable, "-m", "bench.gate_parts.rewrite", str(counts.rewrites)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tools.on_core(peer.core):
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    if done.returncode != 0:  # a tree of another time, whose functions are called otherwise
        raise BenchFailed(f"rewrite.py does not fit this gate: {done.stderr.strip().rpartition(chr(10))[2]}")
    return {"rewrite_us": float(done.stdout)}


def crowd(tools: Tools, peer: Peer, counts: Counts) -> Got:
    """Thousands that wait and thousands that stream, at once. Every one must get its whole answer."""
    waiting = _hold(tools, peer, counts.crowd_held)
    streamed = tools.finish(
        tools.start("streams", peer.port, tools.crowd, counts.crowd_streams), strict=False
    )
    peer.release()
    released = _answered(tools, waiting)
    whole = streamed["answered"] + released["answered"]
    return {"crowd_lost": float(counts.crowd_held + counts.crowd_streams - whole)}


Measure = Callable[[Tools, Peer, Counts], Got]
MEASURES: dict[str, Measure] = {
    measure.__name__: measure for measure in (small, crowded, events, held, upload, form, rewrite, crowd)
}


def latency(tools: Tools, peers: Sequence[Peer], counts: Counts) -> dict[str, Got]:
    """Added to a sequential request: the model server itself and all proxies in turn, in one process.

    A slow one is alone there: what it does behind its answer would be in the others' time.
    """
    groups = [[peer for peer in peers if not peer.slow], *([peer] for peer in peers if peer.slow)]
    found: dict[str, Got] = {}
    for group in groups:
        ports = [tools.upstream_port, *(peer.port for peer in group)]
        direct_us, *times_us = tools.run("latency", counts.latencies, tools.small, *ports)
        for peer, time_us in zip(group, times_us, strict=True):
            found[peer.column] = {"added_us": time_us - direct_us}
    return found


FIGURES: tuple[Figure, ...] = (
    Figure("cpu_1", "CPU per 10,000 small requests, 1 connection (s)", 1.5),
    Figure("cpu_64", "CPU per 10,000 small requests, 64 connections (s)", 1.5),
    Figure("cpu_traced", "the same, each with a trace id in its head (s)", 1.5),
    Figure("added_us", "added latency, sequential, p50 (us)", 1.5, form=",.0f"),
    Figure("event_us", "CPU per paced server-sent event (us)", 1.25),
    Figure("rate_64", "requests per second, 64 connections", 0.75, better="more", form=",.0f"),
    Figure("rate_512", "requests per second, 512 connections", 0.75, better="more", form=",.0f"),
    Figure("held_kb", "memory per held connection (KB)", 0.8),
    Figure("upload_ms", "20 MB upload to a service's port: CPU (ms)", 1.2),
    Figure("upload_mib", "20 MB upload to a service's port: growth (MiB)", 2.0, of="figure"),
    Figure("form_ms", "20 MB form to the front door: CPU (ms)", 1.2),
    Figure("form_mib", "20 MB form to the front door: growth (MiB)", 2.0, of="figure"),
    Figure("rewrite_us", "`model` in a body of 200 KB rewritten (us)", 150.0, of="figure"),
    Figure("crowd_lost", "held and streaming at once: requests lost", 0.0, of="figure", form=",.0f"),
)


def _closed(
    tools: Tools, peer: Peer, connections: int, requests: int, what: Path | None = None
) -> tuple[float, float]:
    """(CPU seconds per 10,000 requests, requests per second)"""
    what = what or tools.small
    tools.run("closed", peer.port, what, connections, max(connections, requests // 10))
    before_s = cost.cpu_s(peer.pids)
    report = tools.run("closed", peer.port, what, connections, requests)
    spent_s = cost.cpu_s(peer.pids) - before_s
    return spent_s * PER_S / requests, requests / report["wall_s"]


def _hold(tools: Tools, peer: Peer, connections: int) -> subprocess.Popen[str]:
    """Requests that wait, once all of them have been taken in."""
    peer.shut()
    process = tools.start("hold", peer.port, peer.held, connections)
    assert process.stdout is not None
    if process.stdout.readline() != "held\n":
        process.kill()
        raise BenchFailed(f"{peer.column}: {process.communicate()[1].strip()[:500]}")
    _quiet(peer)
    if process.poll() is not None:
        raise BenchFailed(
            f"{peer.column} answered what should have been held: {process.communicate()[0].strip()}"
        )
    return process


def _quiet(peer: Peer) -> None:
    """Wait until a proxy has no more to do: what it was sent is where it stays."""
    until_s = time.monotonic() + HOLD_LIMIT_S
    before_s = cost.cpu_s(peer.pids)
    while time.monotonic() < until_s:
        time.sleep(POLL_S * 5)
        now_s = cost.cpu_s(peer.pids)
        if now_s - before_s < POLL_S / 10:
            return
        before_s = now_s
    raise BenchFailed(f"{peer.column} was still busy after {HOLD_LIMIT_S:.0f} s")


def _answered(tools: Tools, process: subprocess.Popen[str]) -> Any:
    """What became of held requests that were released."""
    try:
        process.wait(HOLD_LIMIT_S)
    except subprocess.TimeoutExpired:
        pass  # told by how many were answered
    return tools.finish(process, strict=False)


def _upload(tools: Tools, peer: Peer, port: int, request: Path, times: int) -> tuple[float, float]:
    """(CPU milliseconds of one, MiB that the proxy grew meanwhile)"""
    tools.run("closed", port, request, 1, 1)
    before = cost.forget_peak(peer.pids)
    before_s = cost.cpu_s(peer.pids)
    tools.run("closed", port, request, 1, times)
    spent_s = cost.cpu_s(peer.pids) - before_s
    return spent_s * 1e3 / times, (cost.peak_bytes(peer.pids) - before) / 2**20
