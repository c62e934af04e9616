"""What the gate says itself: heartbeats, probes, lists, tunnels, shadow mode, and its log."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import click
import pytest

from headway.cli.main import cli
from headway.config.schema import Config, ServiceConfig
from headway.core import wire
from headway.gate.refusals import WORDS
from headway.gate.tunnel import LEAVE_LIMIT_S
from tests.parts.gate_play import Play, document, get, post, said

pytestmark = pytest.mark.contract

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASK = post(b'{"model":"gpt"}')
STREAM = post(b'{"model":"gpt","stream":true}')
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def plays() -> Iterator[list[Play]]:
    made: list[Play] = []
    yield made
    for play in made:
        assert play.idle, "something is still counted"
        play.close()


def test_heartbeats_of_an_admitted_stream_and_then_the_servers_own(plays: list[Play]) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    _, pipe = play.ask(STREAM)
    play.spin(20.0)
    assert pipe.out == b"", "not admitted: it waits in silence"
    play.tell(
        wire.Table(
            wire.PROTO, "d", {"chat": wire.Service("chat", 1, "closed", "waking", upstream="http://h:1")}
        )
    )
    play.spin(1.0)
    play.spin(15.1)
    play.spin(15.1)
    head, _, body = pipe.take().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b"b\r\n: headway\n\n\r\n" * 2
    play.tell(wire.Open("chat", 2))
    play.spin()
    play.servers[0].say(SSE + b"9\r\ndata: 1\n\n\r\n0\r\n\r\n")
    assert pipe.out == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
    assert not pipe.closed


def test_after_a_heartbeat_a_failure_is_one_error_event(plays: list[Play]) -> None:
    play = Play("closed", "waking")
    plays.append(play)
    _, pipe = play.ask(STREAM)
    play.spin(1.0)
    play.spin(16.0)
    play.tell(wire.Table(wire.PROTO, "d", {"chat": wire.Service("chat", 1, "closed", "failed")}, whole=False))
    assert pipe.out.count(b"HTTP/1.1") == 1
    assert pipe.out.count(b"data: {") == 1
    assert b"service_failed" in pipe.out
    assert pipe.out.endswith(b"0\r\n\r\n")
    assert pipe.closed


def test_a_probe_is_answered_by_the_gate_while_the_service_is_aside(plays: list[Play]) -> None:
    play = Play("closed", "aside", word="asleep")
    plays.append(play)
    for path, status in (
        ("/health", b"200"),
        ("/v1/models", b"200"),
        ("/metrics", b"503"),
        ("/slots", b"503"),
        ("/", b"503"),
    ):
        for fixed, prefix in (("chat", ""), (None, "/upstream/chat")):
            _, pipe = play.ask(get(prefix + path), fixed)
            assert pipe.out[9:12] == status, path
            assert (b"X-Headway-State: asleep\r\n" in pipe.out) is (path not in ("/slots", "/"))
    assert play.servers == []
    assert said(play, wire.Demand)[-1].waiting == {}


def test_an_open_service_answers_its_probes_itself_and_they_are_no_use_of_it(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    _, pipe = play.ask(get("/health"), "chat")
    assert (play.line.active, len(play.line.forwarded)) == (0, 1)
    play.servers[0].say(OK)
    assert pipe.out.endswith(b"ok")


def test_lists_on_the_front_door(plays: list[Play]) -> None:
    play = Play("closed", "failed")
    plays.append(play)
    models = document(play.ask(get("/v1/models"))[1].out)
    assert [(row["id"], row["state"], row["created"]) for row in models["data"]] == [("gpt", "failed", 0)]
    assert document(play.ask(get("/api/tags"))[1].out)["models"][0]["name"] == "gpt"
    assert b"chat" in play.ask(get("/"))[1].out
    assert document(play.ask(get("/v1/models/none"))[1].out)["error"]["code"] == "model_not_found"


def test_the_first_page_of_a_service_is_its_own_and_never_the_front_doors(plays: list[Play]) -> None:
    aside, awake = Play("closed", "aside"), Play()
    plays += [aside, awake]
    refused = document(aside.ask(get("/upstream/chat/"))[1].out)
    assert refused["error"]["code"] == "service_aside"
    assert (refused["service"], refused["state"]) == ("chat", "aside")
    awake.ask(get("/upstream/chat/"))
    assert awake.servers[0].pipe.out.startswith(b"GET / HTTP/1.1\r\n")
    awake.servers[0].say(OK)


def test_a_service_lists_its_own_models_only(plays: list[Play]) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    other = wire.Service("draw", 1, "closed", "aside", names=("sd",))
    play.tell(wire.Table(wire.PROTO, "d", {"chat": play.service, "draw": other}))
    assert [row["name"] for row in document(play.ask(get("/api/tags"), "draw")[1].out)["models"]] == ["sd"]
    assert len(document(play.ask(get("/api/tags"))[1].out)["models"]) == 2


def test_a_service_held_by_hand_is_no_failure(plays: list[Play]) -> None:
    why = {"code": "held", "message": "chat: held by ana, until it is released."}
    play = Play("closed", "failed", why=why)
    plays.append(play)
    _, pipe = play.ask(ASK)
    refused = document(pipe.out)
    assert pipe.out[9:12] == b"503"
    assert (refused["error"]["code"], refused["state"]) == ("service_held", "held")
    assert "ana" in refused["error"]["message"]
    assert b"X-Headway-State: held\r\n" in play.ask(get("/health"), "chat")[1].out


WINDOWS = {
    # name: (seconds until its end by the wall clock, Retry-After)
    "that ends soon": (70.2, range(68, 72)),
    "that ends in a day": (86400.0, range(900, 901)),
    "that is over by a clock that was set": (-50.0, range(1, 2)),
}


@pytest.mark.parametrize(("left_s", "expected"), WINDOWS.values(), ids=WINDOWS.keys())
def test_in_a_no_model_window_a_request_is_told_when_the_service_is_back(
    plays: list[Play], left_s: float, expected: range
) -> None:
    until_s = time.time() + left_s
    play = Play("closed", "failed", why={"code": "no_model", "window": "night", "until_wall_s": until_s})
    plays.append(play)
    _, pipe = play.ask(ASK)
    refused = document(pipe.out)
    assert pipe.out[9:12] == b"503"
    assert (refused["error"]["code"], refused["window"]) == ("no_model", "night")
    assert refused["retry_after_s"] in expected
    assert f"Retry-After: {refused['retry_after_s']}\r\n".encode() in pipe.out
    assert time.strftime("%H:%M", time.localtime(until_s)) in refused["error"]["message"]


def test_a_wait_in_a_window_is_told_apart_in_the_request_log(plays: list[Play]) -> None:
    for window in ("slow_wake", None):
        play = Play("closed", "aside", window=window)
        plays.append(play)
        _, pipe = play.ask(ASK)
        play.tell(wire.Table(wire.PROTO, "d", {"chat": replace(play.service, state="failed")}))
        assert pipe.out
        assert [row.get("window") for row in play.rows] == [window]


def test_who_waits_is_told_when_the_service_is_held_by_hand(plays: list[Play]) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    _, pipe = play.ask(ASK)
    held = wire.Service("chat", 1, "closed", "failed", why={"code": "held"})
    play.tell(wire.Table(wire.PROTO, "d", {"chat": held}, whole=False))
    assert document(pipe.out)["error"]["code"] == "service_held"


BROKEN = {
    # name: (body, more fields of the head, answered 400)
    "cut": (b'{"model":"gpt",', (), True),
    "text": (b"hello", (), True),
    "empty": (b"", (), True),
    "what curl -d sends by default": (b"{'model': 'gpt'}", ("Content-Type: application/x-www-form-urlencoded",), True),
    "no model, one service": (b'{"prompt":"hi"}', (), False),
    "a list is JSON": (b"[1]", (), False),
    "as lenient as the servers": (b'{"temperature": NaN}', (), False),
    "another type is not looked into": (b"RIFF", ("Content-Type: audio/wav",), False),
}  # fmt: skip


@pytest.mark.parametrize(("body", "fields", "refused"), BROKEN.values(), ids=BROKEN.keys())
def test_nobody_is_woken_for_a_body_that_is_no_json(
    plays: list[Play], body: bytes, fields: tuple[str, ...], refused: bool
) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    client, pipe = play.ask(post(body, "/v1/chat/completions", *fields))
    assert len(play.line.order) == (not refused)
    if refused:
        assert pipe.out[9:12] == b"400"
        assert document(pipe.out)["error"]["code"] == "body_not_json"
        assert not pipe.closed
        assert said(play, wire.Demand)[-1].waiting == {}
    client.connection_lost(None)


def test_shadow_passes_a_broken_body_on_as_it_is(plays: list[Play]) -> None:
    play = Play("closed", "aside", mode="shadow")
    plays.append(play)
    play.ask(post(b"{"))
    assert play.servers[0].pipe.out.endswith(b"\r\n\r\n{")
    play.servers[0].say(OK)


def test_no_refusal_names_a_key_or_command_that_does_not_exist() -> None:
    known = {*Config.model_fields, *ServiceConfig.model_fields, *cli.list_commands(click.Context(cli))}
    for text in WORDS.values():
        for word in re.findall(r"`(?:headway )?([a-z_]+)`", text):
            assert word in known or word == "chunked", text


def test_shadow_forwards_at_once_and_never_holds(plays: list[Play]) -> None:
    play = Play("closed", "aside", mode="shadow", model="real")
    plays.append(play)
    _, pipe = play.ask(ASK)
    assert play.servers[0].pipe.out.endswith(b'{"model":"real"}')
    play.servers[0].say(OK)
    assert pipe.out.endswith(b"ok")
    play.refuse = ConnectionRefusedError()
    play.spin(5.0)
    assert b"upstream_unreachable" in play.ask(ASK)[1].out


def test_without_a_table_nothing_is_not_found(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    play.hub.table = None
    play.hub.routes = type(play.hub.routes)({}, {}, None, ())
    assert document(play.ask(ASK)[1].out)["error"]["code"] == "no_table"


UPGRADE = get("/v1/realtime?model=gpt", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k")
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def test_a_tunnel_pins_only_while_it_is_used_and_is_held_while_closed(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    client, pipe = play.ask(UPGRADE)
    server = play.servers[0]
    assert b"Upgrade: websocket\r\n" in server.pipe.take()
    server.say(SWITCH + b"hello")
    assert pipe.take().endswith(b"\r\n\r\nhello")
    assert (play.line.tunnels, len(play.line.forwarded)) == (1, 0)
    client.data_received(b"\x81\x00")
    assert server.pipe.take() == b"\x81\x00"
    assert len(play.line.forwarded) == 1
    play.spin(5.6)
    assert len(play.line.forwarded) == 0
    play.tell(wire.Close("chat", 2))
    assert said(play, wire.Closed)[-1] == wire.Closed("chat", 2, 0, 1)
    client.data_received(b"wake up")
    play.spin()
    assert server.pipe.take() == b""
    assert pipe.paused
    assert said(play, wire.Demand)[-1].waiting["attended"].n == 1
    play.tell(wire.Open("chat", 3))
    assert server.pipe.take() == b"wake up"
    assert not pipe.paused
    client.connection_lost(None)
    assert server.pipe.closed
    assert play.line.tunnels == 0


def test_a_tunnel_that_rests_ends_when_its_gate_is_replaced(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    _, pipe = play.ask(UPGRADE)
    play.servers[0].say(SWITCH)
    (tunnel,) = play.hub.tunnels
    play.spin(59.0)
    tunnel.leave(play.hub.now(), play.hub.now(), 60.0)
    assert not pipe.closed
    play.spin(1.1)
    tunnel.leave(play.hub.now(), play.hub.now(), 60.0)
    assert pipe.closed and play.servers[0].pipe.closed


def test_a_tunnel_that_is_used_ends_at_last_when_its_gate_is_replaced(
    plays: list[Play],
) -> None:
    play = Play()
    plays.append(play)
    client, pipe = play.ask(UPGRADE)
    play.servers[0].say(SWITCH)
    (tunnel,) = play.hub.tunnels
    began_s = play.hub.now()

    def left(after_s: float) -> bool:
        play.spin(began_s + after_s - play.hub.now())
        tunnel.leave(play.hub.now(), began_s, 60.0)
        return pipe.closed

    assert not left(59.0)
    play.servers[0].say(b"ping")
    assert not left(118.0), "it was used meanwhile"
    play.tell(wire.Close("chat", 2))
    client.data_received(b"wake up")
    assert not left(190.0), "what its client sent waits for the service"
    play.tell(wire.Open("chat", 3))
    play.spin(began_s + LEAVE_LIMIT_S - 1.0 - play.hub.now())
    play.servers[0].say(b"ping")
    assert not left(LEAVE_LIMIT_S - 0.5)
    assert left(LEAVE_LIMIT_S), "though it's used"
    assert play.servers[0].pipe.closed and not play.hub.tunnels


def test_the_log_row_of_a_stream(plays: list[Play]) -> None:
    play = Play(salt="00")
    plays.append(play)
    play.ask(
        post(b'{"model":"gpt","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}')
    )
    play.servers[0].say(SSE)
    data = b'data: {"finish_reason":"stop","usage":{"completion_tokens":42}}\n\n'
    play.servers[0].say(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
    row = play.rows[-1]
    assert (row["finish"], row["output_tokens"], row["status"], row["ended"]) == ("stop", 42, 200, "done")
    assert len(row["conversation"]) == 24


def test_a_probe_that_never_ends_does_not_keep_its_service_from_closing(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    _, events = play.ask(get("/events"), "chat")
    play.servers[0].say(SSE)
    client, answer = play.ask(ASK)
    play.tell(wire.Close("chat", 2))
    play.spin(5.1)
    assert events.aborted
    assert not answer.closed
    client.connection_lost(None)
    play.spin(0.1)
    assert said(play, wire.Closed)[-1] == wire.Closed("chat", 2, 0, 0)


def test_a_cut_that_was_asked_for_before_a_reopening_cuts_nothing(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    _, pipe = play.ask(ASK)
    play.tell(wire.Close("chat", 2, 1.0))
    play.tell(wire.Open("chat", 3))
    play.tell(wire.Close("chat", 4))
    play.spin(1.1)
    play.servers[0].say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert pipe.out.endswith(b"ok")
