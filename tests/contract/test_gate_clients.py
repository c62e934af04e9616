"""What kinds of clients get: old ones, slow ones, web pages, those of each API, and those that want another protocol."""

import asyncio
import functools
from collections.abc import Iterator

import pytest

from headway.core import wire
from headway.gate.protocol import HEAD_LIMIT_S, IDLE_LIMIT_S, Client
from tests.parts.gate_play import Play, document, get, post, said

pytestmark = pytest.mark.contract

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASK = post(b'{"model":"gpt"}')
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM = b'{"model":"gpt","stream":true}'


@pytest.fixture
def plays() -> Iterator[list[Play]]:
    made: list[Play] = []
    yield made
    for play in made:
        assert play.idle, "something is still counted"
        play.close()


# -------------------------------------------------------------------- old and slow ones


def test_http_1_0_is_kept_when_it_asks_and_is_told_so(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    client, pipe = play.ask(get("/x", "Connection: keep-alive", version="1.0"), "chat")
    play.servers[0].say(OK)
    assert b"\r\nConnection: keep-alive\r\n" in pipe.take() and not pipe.closed
    client.data_received(get("/v1/models/none", "Connection: Keep-Alive", version="1.0"))
    play.spin()
    play.servers[0].say(OK)
    assert b"\r\nConnection: keep-alive\r\n" in pipe.take()
    client.data_received(get("/y", version="1.0"))
    play.spin()
    play.servers[0].say(OK)
    assert b"\r\nConnection: close\r\n" in pipe.out and pipe.closed


def test_http_1_0_may_come_without_a_host_and_1_1_may_not(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    play.ask(b"GET /x HTTP/1.0\r\n\r\n", "chat")
    play.servers[0].say(OK)
    _, pipe = play.ask(b"GET /x HTTP/1.1\r\n\r\n", "chat")
    assert document(pipe.out)["error"]["code"] == "host_missing"


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    client, pipe = play.client("chat")
    now_s = 0.0
    for byte in get("/" + "x" * 100):
        client.data_received(bytes([byte]))
        play.spin(HEAD_LIMIT_S / 20)
        now_s += HEAD_LIMIT_S / 20
        client.check_time(play.hub.now())
        if pipe.closed:
            break
    assert HEAD_LIMIT_S <= now_s <= 1.2 * HEAD_LIMIT_S


def test_a_connection_may_rest_after_an_answer_that_took_long(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    client, pipe = play.ask(ASK)
    play.spin(10 * IDLE_LIMIT_S)
    play.servers[0].say(OK)
    play.spin(IDLE_LIMIT_S - 1)
    client.check_time(play.hub.now())
    assert not pipe.closed
    play.spin(1.5)
    client.check_time(play.hub.now())
    assert pipe.closed


async def test_a_client_that_closes_its_side_gets_what_is_there_and_is_gone_for_the_rest() -> None:
    """Nobody can tell it from one that left: a server must not work for it."""
    loop = asyncio.get_running_loop()
    play = Play()
    play.hub.loop = loop
    server = await loop.create_server(functools.partial(Client, play.hub, None), "127.0.0.1", 0)
    for data, answered in ((get("/v1/models"), True), (ASK, False)):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(data)
        writer.write_eof()
        got = await asyncio.wait_for(reader.read(), 20.0)
        assert got.startswith(b"HTTP/1.1 200 OK") is answered
        writer.close()
    server.close()
    assert play.idle and all(one.pipe.aborted for one in play.servers)
    play.close()


# -------------------------------------------------------------------- web pages

PAGE = "Origin: http://app.example"
READABLE = b"\r\nAccess-Control-Allow-Origin: http://app.example\r\n"


def test_a_listed_page_may_read_every_answer(plays: list[Play]) -> None:
    play = Play(origins=("http://app.example",))
    plays.append(play)
    _, pipe = play.ask(post(b'{"model":"gpt"}', "/v1/completions", PAGE))
    play.servers[0].say(OK)
    assert READABLE in pipe.out and b"\r\nVary: Origin\r\n" in pipe.out
    for data in (
        get("/v1/models", PAGE),
        get("/upstream/none/x", PAGE),
        get("/v1/models", PAGE, "X-Headway-Wait: x"),
    ):
        assert READABLE in play.ask(data)[1].out
    _, pipe = play.ask(post(b'{"model":"gpt"}', "/v1/completions", PAGE))
    play.servers[-1].say(
        b"HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\nVary: Accept\r\nContent-Length: 0\r\n\r\n"
    )
    assert b"http://app.example" not in pipe.out, "the server's own word counts"


def test_a_page_that_is_not_listed_is_told_nothing(plays: list[Play]) -> None:
    play = Play(origins=("http://app.example",))
    plays.append(play)
    _, pipe = play.ask(get("/v1/models", "Origin: http://localhost:3000"))
    assert pipe.out.startswith(b"HTTP/1.1 200") and b"Access-Control" not in pipe.out


def test_a_page_is_told_that_it_may_send_what_it_wants_to(plays: list[Play]) -> None:
    play = Play(origins=("http://app.example",))
    plays.append(play)
    fields = (
        PAGE,
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization,x-stainless-os",
    )
    _, pipe = play.ask(get("/v1/x", *fields, method="OPTIONS") + get("/v1/models", PAGE))
    assert b"\r\nAccess-Control-Allow-Headers: authorization,x-stainless-os\r\n" in pipe.out
    assert pipe.out.count(b"HTTP/1.1 200 OK") == 2


def test_a_question_with_a_body_is_no_preflight(plays: list[Play]) -> None:
    """Else its body would be read as the next request."""
    play = Play(origins=("http://app.example",))
    plays.append(play)
    fields = (PAGE, "Access-Control-Request-Method: POST", "Content-Type: a/b")
    data = post(get("/smuggled"), "/v1/x", *fields).replace(b"POST", b"OPTIONS", 1)
    play.ask(data, "chat")
    assert len(play.servers) == 1 and play.servers[0].pipe.out.endswith(get("/smuggled"))
    play.servers[0].say(OK)


# -------------------------------------------------------------------- each API

FACTS = {"activity": "train", "held_s": 60.0}


@pytest.mark.parametrize("path", ("/v1/chat/completions", "/v1/messages", "/api/chat"))
def test_a_refusal_says_when_to_come_back_and_where_it_stood(plays: list[Play], path: str) -> None:
    play = Play("closed", "aside", why=FACTS, max_wait_s={"attended": 5.0})
    plays.append(play)
    first = play.ask(post(b'{"model":"gpt"}', path, "X-Headway-Client: a"))[1]
    play.ask(post(b'{"model":"gpt"}', path, "X-Headway-Client: b", "X-Headway-Wait: 2"))
    second = play.ask(post(b'{"model":"gpt"}', path, "X-Headway-Client: c", "X-Headway-Wait: 1"))[1]
    play.spin(1.1)
    row = document(second.out)
    assert (row["position"], row["retry_after_s"]) == (3, 15)
    play.spin(5.0)
    row = document(first.out)
    assert (row["position"], row["retry_after_s"], row["holder"]) == (1, 15, FACTS)


ANTHROPIC = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def test_anthropics_errors_have_its_types(plays: list[Play]) -> None:
    play, failed = Play("closed", "aside"), Play("closed", "failed")
    plays += [play, failed]
    asks = {
        401: play.ask(post(b"{}", "/v1/messages", "x-api-key: hw_bad")),
        404: play.ask(post(b'{"model":"none"}', "/v1/messages")),
        429: play.ask(post(b'{"model":"gpt"}', "/v1/messages", "X-Headway-Wait: 0")),
        503: failed.ask(post(b'{"model":"gpt"}', "/v1/messages")),
    }
    for status, (_, pipe) in asks.items():
        assert pipe.out[9:12] == b"%d" % status
        assert document(pipe.out)["error"]["type"] == ANTHROPIC[status]
        assert b"\r\nX-Request-Id: g-" in pipe.out


def test_anthropics_model_lists_on_the_same_paths(plays: list[Play]) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    field = "anthropic-version: 2023-06-01"
    row = document(play.ask(get("/v1/models", field))[1].out)
    assert (row["has_more"], row["first_id"], row["last_id"]) == (False, "gpt", "gpt")
    assert (row["data"][0]["type"], row["data"][0]["display_name"]) == ("model", "gpt")
    assert document(play.ask(get("/v1/models/gpt", field))[1].out)["type"] == "model"
    assert document(play.ask(get("/v1/models/gpt"))[1].out)["object"] == "model"


def beating(play: Play, path: str, *fields: str) -> bytearray:
    """What the client of an admitted stream got after half a minute."""
    _, pipe = play.ask(post(STREAM, path, *fields))
    play.spin(1.0)
    play.spin(15.1)
    play.spin(15.1)
    return pipe.out


def test_heartbeats_are_what_each_api_skips(plays: list[Play]) -> None:
    play = Play("closed", "waking")
    plays.append(play)
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    assert bytes(beating(play, "/v1/messages")).endswith((b"%x\r\n%b\r\n" % (len(ping), ping)) * 2)
    assert beating(play, "/v1/responses").count(b": headway\n\n") == 2
    assert beating(play, "/api/chat") == b"", "NDJSON has nothing that is skipped"
    play.tell(wire.Table(wire.PROTO, "d", {"chat": wire.Service("chat", 1, "closed", "failed")}, whole=False))


SERVERS_OWN = b'{"error":{"message":"too long","type":"invalid_request_error"}}'
LATE = {
    # name: (path, the server's answer after the first heartbeat, in the event)
    "its own error": ("/v1/chat/completions", b"HTTP/1.1 400 Bad\r\nContent-Length: 63\r\n\r\n" + SERVERS_OWN, b'data: ' + SERVERS_OWN),
    "its own error, anthropic": ("/v1/messages", b"HTTP/1.1 400 Bad\r\nContent-Length: 63\r\n\r\n" + SERVERS_OWN, b'event: error\ndata: ' + SERVERS_OWN),
    "a page": ("/v1/chat/completions", b"HTTP/1.1 502 Bad\r\nContent-Length: 6\r\n\r\n<html>", b'"code":"upstream_error"'),
    "a page, anthropic": ("/v1/messages", b"HTTP/1.1 502 Bad\r\nContent-Length: 6\r\n\r\n<html>", b'event: error\ndata: {"type":"error","error":{"type":"api_error"'),
    "no stream": ("/v1/chat/completions", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", b'"code":"upstream_error"'),
    "a packed stream": ("/v1/messages", SSE.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + b"1\r\nx\r\n0\r\n\r\n", b'"type":"api_error"'),
    "nothing": ("/v1/messages", b"", b'event: error\ndata: {"type":"error","error":{"type":"api_error"'),
}  # fmt: skip


@pytest.mark.parametrize(("path", "answer", "event"), LATE.values(), ids=LATE.keys())
def test_what_fails_after_a_heartbeat_is_one_event_and_the_end(
    plays: list[Play], path: str, answer: bytes, event: bytes
) -> None:
    play = Play("closed", "waking")
    plays.append(play)
    out = beating(play, path, "Accept-Encoding: gzip")
    play.tell(wire.Open("chat", 2))
    play.spin()
    server = play.servers[0]
    assert b"Accept-Encoding" not in server.pipe.out
    server.say(answer) if answer else server.leave()
    assert out.count(b"HTTP/1.1") == 1 and out.count(b"error") >= 1
    assert event in out and out.count(b"\ndata: ") == (3 if b"ping" in out else 1)
    assert out.endswith(b"\n\n\r\n0\r\n\r\n")


# -------------------------------------------------------------------- other protocols


@pytest.mark.parametrize("upgrade", ("h2c", "TLS/1.3", "websocket, h2c", "foo"))
def test_only_a_websocket_becomes_a_tunnel(plays: list[Play], upgrade: str) -> None:
    play = Play()
    plays.append(play)
    fields = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}", "HTTP2-Settings: AAMAAABkAAQ")
    _, pipe = play.ask(get("/x", *fields), "chat")
    assert b"pgrade" not in play.servers[0].pipe.out and b"HTTP2" not in play.servers[0].pipe.out
    play.servers[0].say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n")
    assert pipe.out.startswith(b"HTTP/1.1 502") and play.servers[0].pipe.aborted
    assert said(play, wire.Closed) == []


@pytest.mark.parametrize("method", ("CONNECT", "TRACE"))
def test_methods_that_open_or_show_what_is_behind_are_refused(plays: list[Play], method: str) -> None:
    play = Play()
    plays.append(play)
    target = "localhost:80" if method == "CONNECT" else "/x"
    assert play.ask(get(target, method=method), "chat")[1].out[9:12] == b"405"
    assert play.servers == []
