"""Both HTTP sides of the gate, byte by byte: every message is cut at every byte and must come out the same."""

import re
from collections.abc import Iterator

import pytest

from tests.parts.gate_play import Play, get, post

pytestmark = pytest.mark.contract

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
JSON = b'{"model":"gpt","big":12345678901234567890,"f":1.10,"s":"\\u00e9"}'


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.close()


def sent(head: bytes, *rows: bytes, body: bytes = b"") -> bytes:
    """A request as the server must see it."""
    return b"\r\n".join([head, b"Host: 127.0.0.1:9000", *rows, b"", b""]) + body


CHUNKED = b"5;ext=1\r\nhello\r\n0A\r\n0123456789\r\n0\r\nX-Trailer: yes\r\n\r\n"
REQUESTS = {
    # name: (port of, what the client sends, what the server gets without X-Request-Id)
    "get": ("chat", get("/x?a=%20b", "X-MiXed: Case"), sent(b"GET /x?a=%20b HTTP/1.1", b"X-MiXed: Case")),
    "json": (
        None,
        post(JSON),
        sent(
            b"POST /v1/chat/completions HTTP/1.1",
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(JSON),
            body=JSON,
        ),
    ),
    "binary upload": (
        "chat",
        post(b"\0\r\n\r\nx", "/v1/files", "Content-Type: application/octet-stream"),
        sent(
            b"POST /v1/files HTTP/1.1",
            b"Content-Type: application/octet-stream",
            b"Content-Length: 6",
            body=b"\0\r\n\r\nx",
        ),
    ),
    "chunked upload, extensions and trailers": (
        "chat",
        post(CHUNKED, "/up", "Content-Type: x/y", "Transfer-Encoding: chunked", "Trailer: X-Trailer", length=False),
        sent(
            b"POST /up HTTP/1.1",
            b"Content-Type: x/y",
            b"Trailer: X-Trailer",
            b"Transfer-Encoding: chunked",
            body=CHUNKED,
        ),
    ),
    "hop by hop, ours and named headers are taken out": (
        "chat",
        get(
            "/x", "Connection: keep-alive, X-Secret", "X-Secret: 1", "Keep-Alive: 5", "TE: trailers", "X-Keep: 1",
            "X-Headway-Class: background", "X-Headway-Client: me", "X-Prio: 10", "Proxy-Authorization: x",
        ),
        sent(b"GET /x HTTP/1.1", b"X-Keep: 1"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fixed", "data", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_requests_cut_at_every_byte(play: Play, fixed: str | None, data: bytes, expected: bytes) -> None:
    for cut in range(len(data)):
        client, pipe = play.client(fixed)
        for piece in (data[:cut], data[cut:]):
            if piece:
                client.data_received(piece)
                play.spin()
        server = play.servers[-1]
        got = server.pipe.take()
        head, end, body = got.partition(b"\r\n\r\n")
        rows = [row for row in head.split(b"\r\n") if not row.startswith(b"X-Request-Id: g-")]
        assert b"\r\n".join(rows) + end + body == expected, cut
        server.say(OK)
        play.spin()
        assert pipe.out.endswith(b"\r\n\r\nok")
        client.connection_lost(None)
    assert len(play.servers) <= (1 if fixed is None or data.startswith(b"GET") else len(data))
    assert play.idle


RESPONSES = {
    # name: (from the server, to the client without X-Request-Id, the client's connection stays)
    "length": (OK, OK, True),
    "header case and order": (
        b"HTTP/1.1 418 I'm a teapot\r\nX-B: 1\r\nx-a:2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\ncontent-LENGTH: 1\r\n\r\nz",
        b"HTTP/1.1 418 I'm a teapot\r\nX-B: 1\r\nx-a:2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\ncontent-LENGTH: 1\r\n\r\nz",
        True,
    ),
    "chunked with extensions and trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED,
        True,
    ),
    "a stream is not to be buffered": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        b"X-Accel-Buffering: no\r\n\r\n0\r\n\r\n",
        True,
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n", True),
    "not modified keeps its length": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        True,
    ),
    "an interim answer": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
        True,
    ),
    "hop by hop headers": (
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-H\r\nX-H: 1\r\nKeep-Alive: 5\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        True,
    ),
    "an error of the server, whole": (
        b"HTTP/1.1 500 Oh\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nbad",
        b"HTTP/1.1 500 Oh\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nbad",
        True,
    ),
    "until the end of the connection": (
        b"HTTP/1.1 200 OK\r\n\r\nall of it",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it",
        False,
    ),
}


@pytest.mark.parametrize(("data", "expected", "stays"), RESPONSES.values(), ids=RESPONSES.keys())
def test_responses_cut_at_every_byte(play: Play, data: bytes, expected: bytes, stays: bool) -> None:
    for cut in range(1, len(data)):
        client, pipe = play.ask(get("/x"), "chat")
        server = play.servers[-1]
        server.say(data[:cut])
        if server.upstream.exchange is not None:
            server.say(data[cut:])
        if not stays:
            server.leave()
        play.spin()
        got = pipe.take().replace(b"X-Request-Id: ", b"\0")
        before, mark, after = got.partition(b"\0")
        assert before + after[after.find(b"\r\n") + 2 :] == expected if mark else got == expected, cut
        assert pipe.closed is not stays
        client.connection_lost(None)
        assert play.idle
    if stays:
        assert len(play.servers) == 1, "each answer leaves its connection usable"


SMUGGLED = {
    "length and chunked": get("/x", "Content-Length: 3", "Transfer-Encoding: chunked", method="POST"),
    "two lengths": get("/x", "Content-Length: 3", "Content-Length: 4", method="POST"),
    "the same length twice": get("/x", "Content-Length: 3", "Content-Length: 3", method="POST"),
    "a negative length": get("/x", "Content-Length: -1", method="POST"),
    "a signed length": get("/x", "Content-Length: +1", method="POST"),
    "a list of lengths": get("/x", "Content-Length: 3, 3", method="POST"),
    "a huge length": get("/x", "Content-Length: 99999999999999999999999", method="POST"),
    "another coding": get("/x", "Transfer-Encoding: gzip, chunked", method="POST"),
    "chunked twice": get("/x", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", method="POST"),
    "chunked in HTTP/1.0": get("/x", "Transfer-Encoding: chunked", method="POST", version="1.0"),
    "a folded line": b"GET /x HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n  folded\r\n\r\n",
    "space before the colon": b"GET /x HTTP/1.1\r\nHost: localhost\r\nContent-Length : 3\r\n\r\n",
    "a bare line feed": b"GET /x HTTP/1.1\r\nHost: localhost\nX-A: 1\r\n\r\n",
    "a zero byte": b"GET /x HTTP/1.1\r\nHost: localhost\r\nX-A: \0\r\n\r\n",
    "two hosts": b"GET /x HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    "an empty host": b"GET /x HTTP/1.1\r\nHost: \r\n\r\n",
    "a host that is none": b"GET /x HTTP/1.1\r\nHost: localhost:1x\r\n\r\n",
    "a carriage return before the method": b"\rGET /x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path above the root": get("/a/%2e%2e/../x"),
    "half an escape": get("/%4"),
    "an escaped zero": get("/x%00"),
    "another scheme": get("ftp://localhost/x"),
    "a target that is no path": get("x"),
    "no HTTP": b"hello\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a bad chunk size": post(
        b"xyz\r\n", "/x", "Transfer-Encoding: chunked", "Content-Type: a/b", length=False
    ),
    "a chunk without its end": post(
        b"1\r\nabc\r\n", "/x", "Transfer-Encoding: chunked", "Content-Type: a/b", length=False
    ),
    "a signed chunk size": post(
        b"+1\r\na\r\n", "/x", "Transfer-Encoding: chunked", "Content-Type: a/b", length=False
    ),
    "a space behind a chunk size": post(
        b"1 ;a\r\na\r\n0\r\n\r\n", "/x", "Transfer-Encoding: chunked", "Content-Type: a/b", length=False
    ),
    "a trailer that is no field": post(
        b"0\r\nX y: 1\r\n\r\n", "/x", "Transfer-Encoding: chunked", "Content-Type: a/b", length=False
    ),
    "a bare line feed in a chunk": post(
        b"1\na\r\n0\r\n\r\n", "/x", "Transfer-Encoding: chunked", "Content-Type: a/b", length=False
    ),
}


@pytest.mark.parametrize("data", SMUGGLED.values(), ids=SMUGGLED.keys())
def test_what_two_servers_could_read_differently_is_refused(play: Play, data: bytes) -> None:
    client, pipe = play.ask(data + get("/smuggled"), "chat")
    play.spin()
    assert pipe.out.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert b"Connection: close" in pipe.out
    assert pipe.ended
    for server in play.servers:
        assert b"smuggled" not in server.pipe.out
    client.connection_lost(None)
    assert play.idle


def test_a_head_that_never_ends_is_refused(play: Play) -> None:
    _, pipe = play.ask(b"GET /x HTTP/1.1\r\nX: " + b"a" * 70_000, "chat")
    assert pipe.out.startswith(b"HTTP/1.1 431")


def test_pipelined_requests_are_answered_one_after_the_other(play: Play) -> None:
    client, pipe = play.ask(get("/1") + post(b"{}", "/v1/completions") + get("/3"), "chat")
    for number in range(3):
        assert len(play.servers) == 1
        assert play.servers[0].pipe.take().startswith((b"GET /1", b"POST /v1/completions", b"GET /3")[number])
        play.servers[0].say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number)
        play.spin()
    bodies = [part[:1] for part in bytes(pipe.out).split(b"\r\n\r\n")[1:]]
    assert bodies == [b"0", b"1", b"2"]
    client.connection_lost(None)


def test_pipelined_requests_that_the_gate_answers_itself_are_answered_one_after_the_other(play: Play) -> None:
    unknown = post(b'{"model":"nobody"}')
    _, pipe = play.ask(get("/health") + unknown + unknown + get("/health"))
    play.spin()
    play.spin()
    assert re.findall(rb"HTTP/1.1 (\d+)", bytes(pipe.out)) == [b"200", b"404", b"404", b"200"]


def test_pipelined_bytes_are_bounded(play: Play) -> None:
    client, pipe = play.ask(get("/1"), "chat")
    client.data_received(b"x" * 70_000)
    assert pipe.paused


def test_bytes_after_an_answer_break_the_connection_and_reach_nobody(play: Play) -> None:
    client, pipe = play.ask(get("/x"), "chat")
    play.servers[0].say(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert pipe.out.endswith(b"\r\n\r\nok")
    assert play.servers[0].pipe.closed
    _, pipe = play.ask(get("/y"), "chat")
    play.servers[1].say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + OK)
    assert b"ok" not in pipe.out.replace(b"token", b"")
    assert play.servers[1].pipe.aborted
    client.connection_lost(None)


BROKEN = {
    "no status": b"nonsense\r\n\r\n",
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "a bad length": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "a head that never ends": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_an_answer_that_is_no_http_is_a_502(play: Play, data: bytes) -> None:
    _, pipe = play.ask(get("/x"), "chat")
    play.servers[0].say(data)
    assert pipe.out.startswith(b"HTTP/1.1 502")
    assert b"upstream_bad" in pipe.out
    assert play.servers[0].pipe.aborted
    assert play.idle


def test_an_answer_that_breaks_after_its_head_is_cut_never_continued(play: Play) -> None:
    _, pipe = play.ask(get("/x"), "chat")
    play.servers[0].say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
    play.servers[0].leave(ConnectionResetError())
    assert pipe.aborted
    assert pipe.out.count(b"HTTP/1.1") == 1
    assert play.idle


def test_http_1_0_gets_no_chunks_and_its_connection_closes(play: Play) -> None:
    _, pipe = play.ask(get("/x", version="1.0"), "chat")
    play.servers[0].say(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    )
    assert pipe.out.endswith(b"Connection: close\r\n\r\nabc")
    assert b"chunked" not in pipe.out
    assert pipe.closed


def test_head_answers_have_no_body(play: Play) -> None:
    _, pipe = play.ask(get("/x", method="HEAD") + get("/y"), "chat")
    play.servers[0].say(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
    play.spin()
    assert b"Content-Length: 5000" in pipe.take()
    assert play.servers[0].pipe.take().count(b"/y") == 1


def test_one_connection_serves_fifty_requests_and_is_left_after_four_idle_seconds(play: Play) -> None:
    client, pipe = play.client("chat")
    for _ in range(50):
        client.data_received(get("/x"))
        play.spin()
        play.servers[0].say(OK)
        play.spin()
    assert len(play.servers) == 1
    play.spin(4.1)
    client.data_received(get("/x"))
    play.spin()
    assert len(play.servers) == 2
    assert pipe.out.count(b"200 OK") == 50


def test_back_pressure_goes_both_ways(play: Play) -> None:
    client, pipe = play.ask(post(b"x" * 10, "/up", "Content-Type: a/b")[:-5], "chat")
    server = play.servers[0]
    server.upstream.pause_writing()
    assert pipe.paused
    server.upstream.resume_writing()
    assert not pipe.paused
    client.data_received(b"x" * 5)
    server.say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na")
    client.pause_writing()
    assert server.pipe.paused
    client.resume_writing()
    assert not server.pipe.paused
    server.say(b"bc")
    assert pipe.out.endswith(b"abc")


def test_a_client_that_takes_nothing_of_its_answer_for_half_a_minute_is_gone(play: Play) -> None:
    """Else it keeps a model, and the memory, from everybody who waits."""
    client, pipe = play.ask(get("/1"), "chat")
    server = play.servers[0]
    server.say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na")
    pipe.left_bytes = 500_000
    client.pause_writing()
    client.check_time(play.hub.now())
    for seconds in (20, 40, 60):  # slow, but it reads
        pipe.left_bytes -= 1
        client.check_time(play.hub.now() + seconds)
    assert not pipe.aborted
    client.check_time(play.hub.now() + 89)
    assert not pipe.aborted
    client.check_time(play.hub.now() + 91)
    assert pipe.aborted
    client.connection_lost(None)
    assert server.pipe.aborted and not play.hub.holding.lines["chat"].forwarded


def test_a_kept_connection_is_read_again_by_the_next_request(play: Play) -> None:
    client, _ = play.ask(get("/1"), "chat")
    play.servers[0].say(OK[:-1])
    client.pause_writing()
    assert play.servers[0].pipe.paused
    play.servers[0].say(OK[-1:])  # was under way when the reading stopped
    play.spin()
    client.data_received(get("/2"))
    play.spin()
    assert play.servers[0].pipe.paused, "the client is still slow"
    _, other = play.ask(get("/3"), "chat")
    play.servers[1].say(OK)
    assert other.out.endswith(b"ok")
    client.resume_writing()
    assert not play.servers[0].pipe.paused


def test_an_answer_before_the_upload_ended_closes_both(play: Play) -> None:
    _, pipe = play.ask(post(b"x" * 10, "/up", "Content-Type: a/b")[:-5], "chat")
    play.servers[0].say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    assert b"Connection: close" in pipe.out
    assert pipe.ended
    assert play.servers[0].pipe.closed
    assert play.idle
