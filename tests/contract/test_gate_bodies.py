"""Request bodies: compressed, chunked, too large to be read whole, and those that come before they are asked for."""

import gzip
import json
import zlib
from collections.abc import Iterator

import pytest

from headway.core import wire
from headway.gate import bodies, early
from tests.parts.gate_play import Play, document, get, post, said

pytestmark = pytest.mark.contract

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BODY = b'{"a":[1, 2],"model":"gpt","n":12345678901234567890}'
RENAMED = BODY.replace(b'"gpt"', b'"real"').replace(b"[1, 2]", b"[1, 2]")
RAW_DEFLATE = zlib.compressobj(wbits=-15)
PACKED = {
    "gzip": gzip.compress(BODY, mtime=0),
    "x-gzip": gzip.compress(BODY[:20], mtime=0) + gzip.compress(BODY[20:], mtime=0),
    "deflate": zlib.compress(BODY),
    "Deflate": RAW_DEFLATE.compress(BODY) + RAW_DEFLATE.flush(),
}
CHUNKS = b"5;x=1\r\n%b\r\n%x\r\n%b\r\n0\r\n%b\r\n"


@pytest.fixture
def plays() -> Iterator[list[Play]]:
    made: list[Play] = []
    yield made
    for play in made:
        assert play.idle, "something is still counted"
        play.close()


def sent(play: Play) -> tuple[bytes, bytes]:
    """Head and body that the last server got; then it answers."""
    head, _, body = bytes(play.servers[-1].pipe.take()).partition(b"\r\n\r\n")
    play.servers[-1].say(OK)
    return head, body


def chunks(trailers: bytes = b"") -> bytes:
    return CHUNKS % (BODY[:5], len(BODY) - 5, BODY[5:], trailers)


@pytest.mark.parametrize("coding", PACKED)
def test_a_compressed_body_is_routed_by_the_model_inside_and_passes_as_it_is(
    plays: list[Play], coding: str
) -> None:
    play = Play()
    plays.append(play)
    play.tell(
        wire.Table(wire.PROTO, "d", {"chat": play.service, "other": wire.Service("other", 1, "closed")})
    )
    play.ask(post(PACKED[coding], "/v1/chat/completions", f"Content-Encoding: {coding}"))
    head, body = sent(play)
    assert body == PACKED[coding]
    assert f"\r\nContent-Encoding: {coding}".encode() in head


@pytest.mark.parametrize("coding", PACKED)
def test_a_compressed_body_whose_model_changes_is_sent_unpacked(plays: list[Play], coding: str) -> None:
    play = Play(model="real")
    plays.append(play)
    for fixed in (None, "chat"):
        play.ask(post(PACKED[coding], "/v1/chat/completions", f"Content-Encoding: {coding}"), fixed)
        head, body = sent(play)
        assert body == RENAMED
        assert b"Content-Encoding" not in head and b"Content-Length: %d" % len(RENAMED) in head


def test_a_coding_that_is_not_read_is_refused_only_where_the_model_is_needed(plays: list[Play]) -> None:
    plain, named = Play(), Play(model="real")
    plays += [plain, named]
    ask = post(b"\x28\xb5\x2f\xfdxyz", "/v1/chat/completions", "Content-Encoding: zstd")
    _, pipe = plain.ask(ask)
    assert pipe.out[9:12] == b"415" and document(pipe.out)["error"]["code"] == "content_encoding"
    assert pipe.ended, "its body was not read"
    for play in (plain, named):
        play.ask(ask, "chat")
        assert sent(play)[1] == b"\x28\xb5\x2f\xfdxyz"


def test_a_body_that_unpacks_to_more_than_is_read_is_refused(
    plays: list[Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BUFFER_MAX_BYTES", 5000)
    play = Play()
    plays.append(play)
    fits, over = (gzip.compress(b'{"model":"gpt","x":"%b"}' % (b"a" * size)) for size in (4900, 5000))
    _, pipe = play.ask(post(over, "/v1/chat/completions", "Content-Encoding: gzip"))
    assert pipe.out[9:12] == b"413"
    play.ask(post(fits, "/v1/chat/completions", "Content-Encoding: gzip"))
    assert sent(play)[1] == fits


@pytest.mark.parametrize("body", (b"nonsense", PACKED["gzip"][:-9], b"", PACKED["gzip"] + b"more"))
def test_nobody_is_woken_for_a_body_that_can_not_be_unpacked(plays: list[Play], body: bytes) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    _, pipe = play.ask(post(body, "/v1/chat/completions", "Content-Encoding: gzip"))
    assert pipe.out[9:12] == b"400" and document(pipe.out)["error"]["code"] == "body_not_json"


@pytest.mark.parametrize("trailers", (b"", b"X-Sum: 1\r\n"), ids=("plain", "trailers"))
@pytest.mark.parametrize("fixed", (None, "chat"))
def test_a_chunked_json_body_keeps_its_chunks(plays: list[Play], fixed: str | None, trailers: bytes) -> None:
    play = Play()
    plays.append(play)
    play.ask(
        post(chunks(trailers), "/v1/chat/completions", "Transfer-Encoding: chunked", length=False), fixed
    )
    head, body = sent(play)
    assert body == chunks(trailers)
    assert b"\r\nTransfer-Encoding: chunked" in head and b"Content-Length" not in head


def test_a_chunked_json_body_whose_model_changes_keeps_its_trailers(plays: list[Play]) -> None:
    play = Play(model="real")
    plays.append(play)
    fields = ("Transfer-Encoding: chunked", "Trailer: X-Sum")
    play.ask(post(chunks(), "/v1/chat/completions", *fields, length=False))
    head, body = sent(play)
    assert body == RENAMED and b"Trailer" not in head and b"Transfer-Encoding" not in head
    play.ask(post(chunks(b"X-Sum: 1\r\n"), "/v1/chat/completions", *fields, length=False))
    head, body = sent(play)
    assert body == b"%x\r\n%b\r\n0\r\nX-Sum: 1\r\n\r\n" % (len(RENAMED), RENAMED)
    assert b"Trailer: X-Sum" in head and b"Content-Length" not in head


# ------------------------------------------------------------ too large to be read whole


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large is smaller here."""
    monkeypatch.setattr(bodies, "BUFFER_MAX_BYTES", 4000)
    monkeypatch.setattr("headway.gate.intake.SMALL_JSON_BYTES", 1000)
    monkeypatch.setattr(early, "WINDOW_BYTES", 1000)


def form(*parts: tuple[str, bytes]) -> bytes:
    rows = [
        b'--bb\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (n.encode(), v) for n, v in parts
    ]
    return b"".join(rows) + b"--bb--\r\n"


FORM = "Content-Type: multipart/form-data; boundary=bb"
LARGE = {
    # name: (body, header, the body with the model "real"; None: its model does not stand early)
    "json, model first": (b'{ "model" : "gpt","x":"%b"}' % (b"a" * 5000), None, b'{ "model" : "real","x":"%b"}' % (b"a" * 5000)),
    "json, model after others": (
        b'{"m":[{"model":"in"}],"\\u00e9":1.0,"model":"gpt","x":"%b"}' % (b"a" * 5000), None,
        b'{"m":[{"model":"in"}],"\\u00e9":1.0,"model":"real","x":"%b"}' % (b"a" * 5000),
    ),
    "form, model first": (form(("model", b"gpt"), ("file", b"\0" * 5000)), FORM, form(("model", b"real"), ("file", b"\0" * 5000))),
    "json, model last": (b'{"x":"%b","model":"gpt"}' % (b"a" * 5000), None, None),
    "form, model last": (form(("file", b"\0" * 5000), ("model", b"gpt")), FORM, None),
    "json, no string": (b'{"model":7,"x":"%b"}' % (b"a" * 5000), None, None),
    "no json": (b"a" * 5000, None, None),
}  # fmt: skip


def ask_in_pieces(play: Play, data: bytes, fixed: str | None) -> bytes:
    client, pipe = play.client(fixed)
    for at in range(0, len(data), 700):
        if not pipe.closed:
            client.data_received(data[at : at + 700])
            play.spin()
    return bytes(pipe.out)


@pytest.mark.parametrize(("body", "field", "renamed"), LARGE.values(), ids=LARGE.keys())
def test_a_body_too_large_to_be_read_is_routed_by_its_beginning_and_passed_as_it_comes(
    plays: list[Play], small: None, body: bytes, field: str | None, renamed: bytes | None
) -> None:
    data = post(body, "/v1/chat/completions", *([field] if field else []))
    for model, expected in ((None, body), ("real", renamed)):
        play = Play(model=model)
        plays.append(play)
        got = ask_in_pieces(play, data, None)
        if renamed is None:
            assert got[9:12] == b"413" and play.servers == []
        else:
            head, passed = sent(play)
            assert passed == expected
            assert b"\r\nContent-Length: %d\r\n" % len(passed) in head
    for model, expected in ((None, body), ("real", renamed or body)):
        play = Play(model=model)
        plays.append(play)
        ask_in_pieces(play, data, "chat")
        assert sent(play)[1] == expected, "on its own port it passes, whatever it says"


@pytest.mark.parametrize("size", (1100, 1400, 3700))
@pytest.mark.parametrize("first", (True, False))
def test_a_long_form_that_could_be_read_whole_passes_as_it_comes_if_its_model_comes_first(
    plays: list[Play], small: None, size: int, first: bool
) -> None:
    def of(model: bytes) -> bytes:
        parts = [("model", model), ("file", b"\0" * (size - 200))]
        return form(*(parts if first else reversed(parts)))

    body = of(b"gpt")
    assert early.WINDOW_BYTES < len(body) < bodies.BUFFER_MAX_BYTES or size == 1100
    data = post(body, "/v1/audio/transcriptions", FORM)
    for step in (len(data), 700, 1):
        play = Play(model="real")
        plays.append(play)
        client, pipe = play.client()
        for at in range(0, len(data), step):
            if step == 700 and at + step >= len(data):
                assert bool(play.servers) == (first and at > early.WINDOW_BYTES), "sent before its end came"
            client.data_received(data[at : at + step])
            play.spin()
        head, passed = sent(play)
        assert passed == of(b"real")
        assert b"\r\nContent-Length: %d\r\n" % len(passed) in head
        play.servers[0].say(OK)
        play.spin()
        assert pipe.out.endswith(b"ok")


def test_a_large_upload_on_the_front_door_is_held_with_its_beginning_only(
    plays: list[Play], small: None
) -> None:
    play = Play("closed", "aside", model="real")
    plays.append(play)
    body = form(("model", b"gpt"), ("file", b"x" * 900_000))
    data = post(body, "/v1/audio/transcriptions", FORM)
    client, pipe = play.client()
    at = 0
    while not pipe.paused:
        client.data_received(data[at : at + 10_000])
        at += 10_000
    assert at < 300_000 and play.servers == []
    assert said(play, wire.Demand)[-1].waiting["attended"].n == 1
    play.tell(wire.Open("chat", 2))
    play.spin()
    assert not pipe.paused
    client.data_received(data[at:])
    assert sent(play)[1] == body.replace(b"\r\ngpt\r\n", b"\r\nreal\r\n")


def test_a_chunked_body_that_grows_too_large_is_refused_and_the_connection_closed(
    plays: list[Play], small: None
) -> None:
    play = Play()
    plays.append(play)
    data = post(b"1388\r\n" + b"a" * 5000, "/v1/chat/completions", "Transfer-Encoding: chunked", length=False)
    assert ask_in_pieces(play, data, None)[9:12] == b"413"


def test_any_other_large_upload_needs_a_service(plays: list[Play], small: None) -> None:
    play = Play()
    plays.append(play)
    wav = post(b"R" * 5000, "/v1/audio/x", "Content-Type: audio/wav", "Content-Encoding: br")
    assert ask_in_pieces(play, wav, None)[9:12] == b"415"
    ask_in_pieces(play, wav, "chat")
    assert sent(play)[1] == b"R" * 5000


# ------------------------------------------------------------ before it is asked for


def test_a_body_sent_without_waiting_for_continue_is_not_passed_on_while_held(plays: list[Play]) -> None:
    play = Play("closed", "aside", model="real")
    plays.append(play)
    data = post(BODY, "/v1/chat/completions", "Expect: 100-continue")
    client, _ = play.ask(data[: -len(BODY)], "chat")
    client.data_received(data[-len(BODY) :])
    play.spin()
    assert play.servers == [] and len(play.line.order) == 1
    play.tell(wire.Open("chat", 2))
    play.spin()
    assert sent(play)[1] == RENAMED


def test_the_bytes_of_a_body_are_let_go_once_it_is_answered(plays: list[Play]) -> None:
    play = Play(salt="00")
    plays.append(play)
    client, _ = play.ask(post(b'{"model":"gpt","messages":[{"role":"user","content":"u"}]}'))
    play.servers[0].say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\n")
    assert client.exchange is not None
    assert client.exchange.intake.what.fields is None and client.exchange.intake.what.body == b""
    play.servers[0].say(b"data: 1\n\n")
    assert play.rows[-1]["conversation"] and play.rows[-1]["in_bytes"] == 58


def test_the_model_in_a_query_is_replaced_too(plays: list[Play]) -> None:
    play = Play(model="org/a b")
    plays.append(play)
    play.ask(get("/props?x=%20&model=gpt&y"), "chat")
    assert sent(play)[0].startswith(b"GET /props?x=%20&model=org/a%20b&y HTTP/1.1\r\n")
    play.ask(get("/props?remodel=gpt"), "chat")
    assert sent(play)[0].startswith(b"GET /props?remodel=gpt HTTP/1.1\r\n")


CONVERSATIONS = {
    # name: (one, another, the same conversation)
    "the answer is no part": ({"messages": [{"role": "user", "content": "a"}]}, {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, True),
    "another system prompt": ({"system": "s", "messages": [{"role": "user", "content": "a"}]}, {"system": "t", "messages": [{"role": "user", "content": "a"}]}, False),
    "a response's input": ({"input": "a"}, {"input": "a", "previous_response_id": "x"}, True),
    "a response's instructions": ({"input": "a", "instructions": "s"}, {"input": "a"}, False),
    "a response's list": ({"input": [{"role": "user", "content": "a"}]}, {"input": [{"role": "user", "content": "b"}]}, False),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "same"), CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_a_conversation_is_its_system_prompt_and_first_words(one: object, other: object, same: bool) -> None:
    first, second = (
        bodies.conversation(
            bodies.read_body(json.dumps(row).encode(), "application/json", form=False), "00", "c"
        )
        for row in (one, other)
    )
    assert first is not None and second is not None
    assert (first == second) is same
