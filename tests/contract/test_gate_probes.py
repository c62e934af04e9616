"""Probes of a server that sleeps: it answers those that do not wake it; they hold nothing up, whatever happens to it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headway.core import wire
from headway.gate.exchange import PROBE_LIMIT_S
from tests.parts.gate_play import Play, document, get, post, said

pytestmark = pytest.mark.contract

PROBES = ("/health", "/props", "/models", "/metrics")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
OWN = b"X-Headway-State: asleep\r\n"


@pytest.fixture
def asleep() -> Iterator[Play]:
    play = Play("closed", "aside", word="asleep", probes=PROBES)
    yield play
    assert play.idle and not play.line.probing
    play.close()


def tell_row(play: Play, **changed: object) -> None:
    """The daemon tells the row anew."""
    row = replace(play.service, **changed)  # type: ignore[arg-type]
    play.tell(wire.Table(wire.PROTO, "d", {"chat": row}, whole=False))


@pytest.mark.parametrize("path", ("/health", "/v1/models", "/props", "/metrics"))
@pytest.mark.parametrize(("prefix", "fixed"), (("", "chat"), ("/upstream/chat", None)))
def test_its_server_answers_and_nothing_is_woken_or_pinned(
    asleep: Play, path: str, prefix: str, fixed: str | None
) -> None:
    _, pipe = asleep.ask(get(prefix + path), fixed)
    (server,) = asleep.servers
    assert server.pipe.out.startswith(f"GET {path} HTTP/1.1\r\n".encode())
    assert asleep.idle and len(asleep.line.probing) == 1
    asleep.tell(wire.Close("chat", 2))
    assert said(asleep, wire.Closed)[-1] == wire.Closed("chat", 2, 0, 0)
    server.say(OK)
    assert pipe.out.endswith(b"ok") and OWN not in pipe.out
    asleep.spin(PROBE_LIMIT_S + 1)
    assert not pipe.closed, "the client's connection is kept"
    assert said(asleep, wire.Demand)[-1].waiting == {}
    assert asleep.rows[-1]["demand"] is False and asleep.rows[-1]["status"] == 200


def test_the_connection_is_not_kept_where_it_could_hold_a_stop_up(asleep: Play) -> None:
    asleep.ask(get("/health"), "chat")
    asleep.servers[0].say(OK)
    assert asleep.servers[0].pipe.closed
    tell_row(asleep, gate="open", state="awake", probes=())
    asleep.ask(get("/health"), "chat")
    assert len(asleep.servers) == 2
    asleep.servers[1].say(OK)
    assert not asleep.servers[1].pipe.closed


NOT_ASKED = {
    # name: (request, status)
    "a route that wakes it": (get("/slots"), b"503"),
    "a query, which may ask for more": (get("/v1/models?reload=1"), b"200"),
    "another method": (post(b"{}", "/health"), b"503"),
    "its first page": (get("/"), b"503"),
    "a websocket": (get("/health", "Connection: Upgrade", "Upgrade: websocket"), b"200"),
    "a list of the front door": (get("/v1/models"), b"200"),
}


@pytest.mark.parametrize(("data", "status"), NOT_ASKED.values(), ids=NOT_ASKED.keys())
def test_nothing_else_reaches_it(asleep: Play, data: bytes, status: bytes) -> None:
    _, pipe = asleep.ask(data, None if b"/v1/models HTTP" in data else "chat")
    assert pipe.out[9:12] == status
    assert asleep.servers == []


def test_a_request_is_held_beside_a_probe(asleep: Play) -> None:
    _, held = asleep.ask(post(b'{"model":"gpt"}'))
    _, probe = asleep.ask(get("/health"), "chat")
    asleep.servers[0].say(OK)
    assert not held.out and probe.out.endswith(b"ok")
    assert said(asleep, wire.Demand)[-1].waiting["attended"].n == 1
    tell_row(asleep, state="failed", probes=())
    assert held.out[9:12] == b"503"


FAILS = {
    # name: what happens to the server while it's asked
    "it is moved": lambda play: tell_row(play, word="waking", state="waking", probes=()),
    "it is opened": lambda play: tell_row(play, gate="open", state="awake", probes=()),
    "it says nothing": lambda play: play.spin(PROBE_LIMIT_S + 0.1),
    "it ends": lambda play: play.servers[0].leave(),
    "it is no HTTP": lambda play: play.servers[0].say(b"hello\r\n\r\n"),
}


@pytest.mark.parametrize("path", ("/health", "/metrics"))
@pytest.mark.parametrize("name", FAILS)
def test_what_it_does_not_answer_the_gate_answers(asleep: Play, name: str, path: str) -> None:
    _, pipe = asleep.ask(get(path), "chat")
    FAILS[name](asleep)
    assert asleep.line.probing == set()
    if name != "it is opened":  # then a 503 tells the truth: it was open, and the answer broke
        assert bytes(pipe.out[9:12]) == (b"200" if path == "/health" else b"503")
        assert b"X-Headway-State: " in pipe.out
    assert asleep.servers[0].pipe.aborted or name == "it ends"
    assert pipe.out.count(b"HTTP/1.1") == 1
    asleep.ask(get(path), "chat") if name == "it is moved" else None
    assert len(asleep.servers) == 1, "one that is moved is asked no more"


def test_a_refused_connection_is_answered_by_the_gate_and_the_daemon_looks(asleep: Play) -> None:
    asleep.refuse = ConnectionRefusedError()
    _, pipe = asleep.ask(get("/health"), "chat")
    assert pipe.out[9:12] == b"200" and OWN in pipe.out
    assert said(asleep, wire.Trouble) == [wire.Trouble("chat", "refused")]
    _, pipe = asleep.ask(get("/props"), "chat")
    assert document(pipe.out)["error"]["code"] == "upstream_unreachable"


def test_a_broken_answer_is_cut_and_never_continued_with_another(asleep: Play) -> None:
    _, pipe = asleep.ask(get("/metrics"), "chat")
    asleep.servers[0].say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    asleep.spin(PROBE_LIMIT_S + 0.1)
    assert pipe.closed and pipe.out.endswith(b"half") and asleep.servers[0].pipe.aborted


def test_a_client_that_leaves_takes_its_probe_along(asleep: Play) -> None:
    client, _ = asleep.ask(get("/health"), "chat")
    client.connection_lost(None)
    assert asleep.servers[0].pipe.aborted


def test_a_service_that_is_gone_while_it_is_asked_leaves_nothing_behind() -> None:
    play = Play("closed", "aside", word="asleep", probes=PROBES)
    play.ask(get("/health"), "chat")
    play.tell(wire.Table(wire.PROTO, "d", {}))
    assert play.servers[0].pipe.aborted and play.idle and not play.line.probing
    play.close()
