"""What happens to one request: routed, held, refused, sent again, cancelled, rewritten, answered by the gate itself."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.core import wire
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


def test_a_held_request_is_sent_when_the_service_opens(plays: list[Play]) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    _, pipe = play.ask(ASK)
    assert play.servers == []
    assert said(play, wire.Demand)[-1].waiting["attended"].n == 1
    play.tell(wire.Open("chat", 2))
    play.spin()
    play.servers[0].say(OK)
    assert pipe.out.endswith(b"ok")
    play.spin(0.1)
    assert said(play, wire.Demand)[-1].waiting == {}
    assert play.rows[-1]["held"]


def test_a_refusal_has_the_facts_in_openais_shape(plays: list[Play]) -> None:
    why = {"activity": "train", "note": "run 3", "held_s": 60.0, "expires_in_s": 1200.0, "preemptible": False}
    play = Play("closed", "aside", why=why)
    plays.append(play)
    _, pipe = play.ask(post(b'{"model":"gpt"}', "/v1/chat/completions", "X-Headway-Wait: 0"))
    assert pipe.out.startswith(b"HTTP/1.1 429")
    assert b"Retry-After: 900\r\n" in pipe.out
    row = document(pipe.out)
    assert row["error"]["code"] == row["code"] == "wait_over"
    assert row["holder"] == why
    assert row["position"] == 1
    assert "train" in row["error"]["message"]


def test_a_refusal_says_for_how_long_by_the_clock_of_now(plays: list[Play]) -> None:
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    why = {
        "activity": "l1",
        "since_s": now_s - 60.0,
        "until_s": now_s + 600.0,
        "boot": "b",
        "preemptible": False,
    }
    for boot, known in (("b", True), ("another", False)):
        play = Play("closed", "aside", why=why)
        play.hub.boot = boot
        plays.append(play)
        _, pipe = play.ask(post(b'{"model":"gpt"}', "/v1/chat/completions", "X-Headway-Wait: 0"))
        row, holder = document(pipe.out), document(pipe.out)["holder"]
        assert not row.keys() & {"since_s", "until_s", "boot"}
        if known:
            assert 60.0 <= holder["held_s"] < 80.0 and 580.0 < holder["expires_in_s"] <= 600.0
            assert (
                580 < row["retry_after_s"] <= 600
                and f"Retry-After: {row['retry_after_s']}\r\n".encode() in pipe.out
            )
        else:
            assert holder == {"activity": "l1", "preemptible": False} and row["retry_after_s"] == 15


def test_refusals_in_the_other_shapes(plays: list[Play]) -> None:
    play = Play("closed", "failed")
    plays.append(play)
    anthropic = document(play.ask(post(b'{"model":"gpt"}', "/v1/messages"))[1].out)
    assert (anthropic["type"], anthropic["error"]["type"]) == ("error", "overloaded_error")
    ollama = document(play.ask(post(b'{"model":"gpt"}', "/api/chat"))[1].out)
    assert isinstance(ollama["error"], str)
    assert ollama["code"] == "service_failed"


def test_the_connection_is_usable_after_a_refusal_of_a_whole_request(plays: list[Play]) -> None:
    play = Play("closed", "failed")
    plays.append(play)
    client, pipe = play.ask(ASK)
    assert b"503" in pipe.take()
    assert not pipe.closed
    client.data_received(get("/v1/models"))
    play.spin()
    assert b"200 OK" in pipe.out


def test_a_bound_ends_the_wait(plays: list[Play]) -> None:
    play = Play("closed", "aside", max_wait_s={"attended": 5.0})
    plays.append(play)
    _, pipe = play.ask(ASK)
    play.spin(4.9)
    assert pipe.out == b""
    play.spin(0.2)
    assert pipe.out.startswith(b"HTTP/1.1 429")


def test_stale_connections_are_tried_once_more_on_a_fresh_one(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    client, pipe = play.ask(ASK)
    play.servers[0].say(OK)
    play.spin()
    client.data_received(ASK)
    play.spin()
    first = play.servers[0].pipe.take()
    play.servers[0].leave()
    play.spin()
    assert first.endswith(play.servers[1].pipe.take())
    play.servers[1].leave()
    play.spin()
    assert len(play.servers) == 2
    assert b"HTTP/1.1 502" in pipe.out
    assert b"upstream_closed" in pipe.out


def test_a_fresh_connection_that_breaks_is_not_tried_again(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    _, pipe = play.ask(ASK)
    play.servers[0].leave()
    play.spin()
    assert len(play.servers) == 1
    assert b"HTTP/1.1 502" in pipe.out


def test_an_answer_that_began_is_never_asked_for_again(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    client, pipe = play.ask(ASK)
    play.servers[0].say(OK)
    play.spin()
    client.data_received(ASK)
    play.spin()
    play.servers[0].say(b"HTTP/1.1 2")
    play.servers[0].leave()
    play.spin()
    assert len(play.servers) == 1
    assert b"HTTP/1.1 502" in pipe.out


@pytest.mark.parametrize(
    ("failure", "what"), [(ConnectionRefusedError(), "refused"), (TimeoutError(), "timeout")]
)
def test_a_connection_refused_puts_the_request_back(plays: list[Play], failure: Exception, what: str) -> None:
    play = Play()
    plays.append(play)
    play.refuse = failure
    pipes = [play.ask(post(b'{"model":"gpt","n":%d}' % number))[1] for number in range(3)]
    assert said(play, wire.Trouble)[0] == wire.Trouble("chat", what)  # type: ignore[arg-type]
    assert not play.line.forwarded
    play.tell(wire.Close("chat", 2))
    assert said(play, wire.Closed)[-1] == wire.Closed("chat", 2, 0, 0)
    play.refuse = None
    play.spin(5.0)
    assert play.servers == []
    play.tell(wire.Open("chat", 3))
    play.spin()
    bodies = [server.pipe.take().rpartition(b"\r\n\r\n")[2] for server in play.servers]
    assert bodies == [b'{"model":"gpt","n":%d}' % number for number in range(3)]
    for server in play.servers:
        server.say(OK)
    assert all(pipe.out.endswith(b"ok") for pipe in pipes)


PHASES = ("head", "body", "held", "connecting", "silent", "streaming")


@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_leaves_in_any_phase_is_forgotten(plays: list[Play], phase: str) -> None:
    play = Play("closed" if phase == "held" else "open", "aside" if phase == "held" else "awake")
    plays.append(play)
    client, _ = play.client()
    client.data_received(ASK[:20] if phase == "head" else ASK[:-3] if phase == "body" else ASK)
    if phase not in ("head", "body", "connecting"):
        play.spin()
    if phase == "streaming":
        play.servers[0].say(SSE + b"1\r\na\r\n")
    client.connection_lost(None)
    play.spin()
    assert play.idle
    if phase in ("silent", "streaming"):
        assert play.servers[0].pipe.aborted
    if phase == "held":
        play.tell(wire.Open("chat", 2))
        play.spin()
        assert play.servers == []


def test_on_cancel_drain_lets_the_call_end(plays: list[Play]) -> None:
    play = Play(on_cancel="drain")
    plays.append(play)
    client, _ = play.ask(ASK)
    client.connection_lost(None)
    assert not play.servers[0].pipe.closed
    assert len(play.line.forwarded) == 1
    play.servers[0].say(OK)
    assert play.idle
    assert play.rows[-1]["ended"] == "client_gone"


def test_a_close_cuts_what_does_not_end_in_time(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    _, silent = play.ask(ASK)
    _, streaming = play.ask(ASK)
    play.servers[1].say(SSE)
    play.tell(wire.Close("chat", 2, 3.0))
    play.spin(2.9)
    assert len(play.line.forwarded) == 2
    play.spin(0.2)
    assert silent.out.startswith(b"HTTP/1.1 503")
    assert streaming.aborted
    play.spin(0.1)
    assert said(play, wire.Closed)[-1] == wire.Closed("chat", 2, 0, 0)


def test_continue_is_said_only_after_admission(plays: list[Play]) -> None:
    play = Play("closed", "aside", model="real")
    plays.append(play)
    data = post(b'{"model":"gpt"}', "/v1/chat/completions", "Expect: 100-continue")
    head, body = data[:-15], data[-15:]
    client, pipe = play.ask(head, "chat")
    assert pipe.out == b""
    play.tell(wire.Open("chat", 2))
    play.spin()
    assert pipe.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert play.servers == []
    client.data_received(body)
    play.spin()
    assert play.servers[0].pipe.out.endswith(b'{"model":"real"}')
    assert b"Expect" not in play.servers[0].pipe.out
    play.servers[0].say(OK)


def test_continue_on_the_front_door_comes_at_once_because_the_body_names_the_service(
    plays: list[Play],
) -> None:
    play = Play()
    plays.append(play)
    data = post(b'{"model":"gpt"}', "/v1/chat/completions", "Expect: 100-continue")
    client, pipe = play.ask(data[:-15])
    assert pipe.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.data_received(data[-15:])
    play.spin()
    play.servers[0].say(OK)
    assert pipe.out.startswith(b"HTTP/1.1 200 OK")


def test_an_upload_waits_with_its_reading_paused(plays: list[Play]) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    size = 600_000
    data = post(b"x" * size, "/v1/audio/transcriptions", "Content-Type: audio/wav")
    head = data[:-size]
    client, pipe = play.ask(head, "chat")
    left = size
    while not pipe.paused:
        client.data_received(b"x" * 50_000)
        left -= 50_000
    assert 0 < size - left <= 350_000
    play.tell(wire.Open("chat", 2))
    play.spin()
    assert not pipe.paused
    while left:
        client.data_received(b"x" * min(left, 50_000))
        left -= min(left, 50_000)
    assert play.servers[0].pipe.out.endswith(b"x" * size)
    play.servers[0].say(OK)


def test_the_model_is_replaced_and_nothing_else(plays: list[Play]) -> None:
    play = Play(model="org/real")
    plays.append(play)
    play.ask(post(b'{"a":1.10,"model": "gpt","n":12345678901234567890,"s":"\\u00e9","keep_alive":0}'))
    assert play.servers[0].pipe.out.endswith(
        b'{"a":1.10,"model":"org/real","n":12345678901234567890,"s":"\\u00e9","keep_alive":0}'
    )
    play.servers[0].say(OK)
    play.spin()
    play.ask(post(b'{"model":"gpt","keep_alive":-1}', "/api/chat"))
    assert play.servers[0].pipe.out.endswith(b'{"model":"org/real"}')
    play.servers[0].say(OK)


def test_a_multipart_form_is_routed_and_its_model_part_replaced(plays: list[Play]) -> None:
    play = Play(model="whisper")
    plays.append(play)
    parts = (
        b'--bb\r\nContent-Disposition: form-data; name="file"; filename="model"\r\n\r\n\0\r\n--b\r\n--bb\r\n'
        b'Content-Disposition: form-data; name="model"\r\n\r\n%b\r\n--bb--\r\n'
    )
    media = "Content-Type: multipart/form-data; boundary=bb"
    play.ask(post(parts % b"gpt", "/v1/audio/transcriptions", media))
    assert play.servers[0].pipe.out.endswith(parts % b"whisper")
    play.servers[0].say(OK)


def test_our_token_is_checked_and_replaced(plays: list[Play], tmp_path: Path) -> None:
    (tmp_path / "key").write_text("server-key\n")
    token = wire.Token(hashlib.sha256(b"hw_good").hexdigest(), "tool", "background", 30)
    play = Play("open", "awake", tokens=(token,), key_file=str(tmp_path / "key"))
    plays.append(play)
    _, pipe = play.ask(post(b'{"model":"gpt"}', "/v1/completions", "Authorization: Bearer hw_bad"))
    assert pipe.out.startswith(b"HTTP/1.1 401")
    play.ask(
        post(
            b'{"model":"gpt"}',
            "/v1/completions",
            "Authorization: Bearer hw_good",
            "X-Headway-Class: attended",
        )
    )
    assert b"hw_good" not in play.servers[0].pipe.out
    assert b"Authorization: Bearer server-key\r\n" in play.servers[0].pipe.out
    play.servers[0].say(OK)
    assert (play.rows[-1]["client"], play.rows[-1]["class"]) == ("tool", "background")


def test_another_authorization_passes_and_ids_are_kept(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    _, pipe = play.ask(
        post(b'{"model":"gpt"}', "/v1/completions", "Authorization: Bearer sk-1", "X-Request-Id: abc")
    )
    assert b"Authorization: Bearer sk-1\r\n" in play.servers[0].pipe.out
    assert b"X-Request-Id: abc\r\n" in play.servers[0].pipe.out
    play.servers[0].say(OK)
    assert b"X-Request-Id: abc\r\n" in pipe.out


def test_a_foreign_page_or_host_is_refused_and_a_listed_one_asked_first(plays: list[Play]) -> None:
    play = Play(origins=("http://app.example",), hosts=("box",))
    plays.append(play)
    ask = "POST /v1/completions HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\nContent-Length: 0\r\n\r\n"
    for host, origin, status in (
        ("evil.example", "http://evil.example", b"403"),
        ("localhost", "http://evil.example", b"403"),
        ("localhost", "null", b"403"),
    ):
        assert play.ask(ask.format(host, origin).encode())[1].out[9:12] == status
    fields = ("Origin: http://app.example", "Access-Control-Request-Method: POST")
    _, pipe = play.ask(get("/v1/completions", *fields, method="OPTIONS"))
    assert b"Access-Control-Allow-Origin: http://app.example\r\n" in pipe.out
    assert play.ask(b"GET /v1/models HTTP/1.1\r\nHost: box:1\r\n\r\n")[1].out[9:12] == b"200"
