"""More messages cut at every byte: recorded ones of a real server, and every way in which a body is read or changed."""

import gzip
from collections.abc import Iterator

import pytest

from tests.parts.gate_exchanges import recorded
from tests.parts.gate_play import Play, get, post
from tests.parts.gate_raw import Exchange

pytestmark = pytest.mark.contract

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
JSON = b'{"model":"gpt","big":12345678901234567890,"f":1.10,"s":"\\u00e9"}'
REAL = JSON.replace(b'"gpt"', b'"real"')
IN_CHUNKS = b"a;x\r\n%b\r\n%x\r\n%b\r\n0\r\nX-T: 1\r\n\r\n" % (JSON[:10], len(JSON) - 10, JSON[10:])
PACKED = gzip.compress(JSON, mtime=0)
FORM = b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\n\r\n--\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n--b--\r\n'
FORMS, CHUNKS = "Content-Type: multipart/form-data; boundary=b", "Transfer-Encoding: chunked"
PATH = "/v1/chat/completions"

BODIES = {
    # name: (the server's name of the model, what the client sends, the body that arrives)
    "json": (None, post(JSON), JSON),
    "json, renamed": ("real", post(JSON), REAL),
    "json in chunks": (None, post(IN_CHUNKS, PATH, CHUNKS, length=False), IN_CHUNKS),
    "json in chunks, renamed": ("real", post(IN_CHUNKS, PATH, CHUNKS, length=False), b"%x\r\n%b\r\n0\r\nX-T: 1\r\n\r\n" % (len(REAL), REAL)),
    "packed": (None, post(PACKED, PATH, "Content-Encoding: gzip"), PACKED),
    "packed, renamed": ("real", post(PACKED, PATH, "Content-Encoding: gzip"), REAL),
    "form": (None, post(FORM % b"gpt", PATH, FORMS), FORM % b"gpt"),
    "form, renamed": ("real", post(FORM % b"gpt", PATH, FORMS), FORM % b"real"),
    "http 1.0": (None, post(JSON).replace(b"HTTP/1.1", b"HTTP/1.0"), JSON),
    "no body": (None, get("/x"), b""),
}  # fmt: skip


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    assert made.idle
    made.close()


@pytest.mark.parametrize("fixed", (None, "chat"), ids=("front", "port"))
@pytest.mark.parametrize(("model", "data", "arrives"), BODIES.values(), ids=BODIES.keys())
def test_a_body_is_read_the_same_wherever_it_is_cut(
    fixed: str | None, model: str | None, data: bytes, arrives: bytes
) -> None:
    play = Play(model=model)
    for at in range(len(data)):
        client, pipe = play.client(fixed)
        for piece in (data[:at], data[at:]):
            if piece:
                client.data_received(piece)
        play.spin()
        assert play.servers[-1].pipe.take().partition(b"\r\n\r\n")[2] == arrives, at
        play.servers[-1].say(OK)
        play.spin()
        assert pipe.out.endswith(b"\r\n\r\nok")
        client.connection_lost(None)
    passed_on = fixed is not None and model is None  # unread, so it can be sent only once
    assert len(play.servers) == 1 or passed_on, "what is read whole goes over a kept connection"
    assert play.idle
    play.close()


def test_two_pipelined_requests_are_told_apart_wherever_they_are_cut(play: Play) -> None:
    data = post(IN_CHUNKS, PATH, CHUNKS, length=False) + post(b"0\r\n\r\n", "/up", "Content-Type: a/b")
    for at in range(1, len(data)):
        client, pipe = play.client("chat")
        client.data_received(data[:at])
        play.spin()
        client.data_received(data[at:])
        play.spin()
        seen = [bytes(server.pipe.take()) for server in play.servers]
        assert sum(one.count(b"POST ") for one in seen) == 1, "one at a time"
        play.servers[-1].say(OK)
        play.spin()
        assert play.servers[-1].pipe.take().endswith(b"\r\n\r\n0\r\n\r\n")
        play.servers[-1].say(OK)
        play.spin()
        assert pipe.out.count(b"\r\n\r\nok") == 2, at
        client.connection_lost(None)
        play.servers.clear()
        play.hub.pool.sweep(float("inf"))


def test_a_tunnel_begins_at_the_same_byte_wherever_it_is_cut(play: Play) -> None:
    ask = (
        get("/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k")
        + b"\x81\x85from client"
    )
    said = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05from server"
    for at in range(1, max(len(ask), len(said))):
        client, pipe = play.client("chat")
        for piece in (ask[:at], ask[at:]):
            client.data_received(piece) if piece else None
            play.spin()
        server = play.servers[-1]
        assert server.pipe.take().endswith(b"\r\n\r\n"), "what comes behind waits for the answer"
        for piece in (said[:at], said[at:]):
            server.say(piece) if piece else None
        assert server.pipe.take() == b"\x81\x85from client", at
        assert pipe.out.endswith(b"\r\n\r\n\x81\x05from server"), at
        client.connection_lost(None)


@pytest.mark.parametrize("exchange", recorded(), ids=lambda exchange: exchange.name)
def test_recorded_exchanges_cut_at_every_byte(play: Play, exchange: Exchange) -> None:
    request, response = exchange.request[0], exchange.response[0]
    head, _, body = request.partition(b"\r\n\r\n")
    answer = response.partition(b"\r\n\r\n")[2]
    for at in range(1, len(request) + 1):
        client, pipe = play.client("chat")
        for piece in (request[:at], request[at:]):
            client.data_received(piece) if piece else None
        play.spin()
        got, _, passed = bytes(play.servers[-1].pipe.take()).partition(b"\r\n\r\n")
        assert passed == body and got.partition(b"\r\n")[0] == head.partition(b"\r\n")[0], at
        cut = at * len(response) // (len(request) + 1)  # the answer is cut along with it
        for piece in (response[:cut], response[cut:]):
            play.servers[-1].say(piece) if piece else None
        if exchange.to_end:
            play.servers[-1].leave()
        play.spin()
        assert pipe.out.partition(b"\r\n\r\n")[2] == answer, at
        client.connection_lost(None)


CHUNKED = [exchange for exchange in recorded() if b"Transfer-Encoding: chunked" in exchange.response[0]]


@pytest.mark.parametrize("exchange", CHUNKED, ids=lambda exchange: exchange.name)
def test_recorded_streams_cut_at_every_byte(play: Play, exchange: Exchange) -> None:
    response = exchange.response[0]
    answer = response.partition(b"\r\n\r\n")[2]
    for at in range(1, len(response)):
        client, pipe = play.ask(exchange.request[0], "chat")
        play.servers[-1].say(response[:at])
        play.servers[-1].say(response[at:])
        assert pipe.out.partition(b"\r\n\r\n")[2] == answer, at
        client.connection_lost(None)
    assert len(play.servers) == 1
