"""What is read from an answer as it passes, and the gate's own figures."""

import json
import re
from collections.abc import Iterator

import pytest

from headway.core import wire
from headway.gate.usage import SCAN_BYTES, Usage
from tests.parts.gate_play import Play, get, post

pytestmark = pytest.mark.contract

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASK = post(b'{"model":"gpt"}')


@pytest.fixture
def plays() -> Iterator[list[Play]]:
    made: list[Play] = []
    yield made
    for play in made:
        assert play.idle, "something is still counted"
        play.close()


def events(*rows: object) -> bytes:
    return b"".join(
        b"data: %b\n\n" % (row if isinstance(row, bytes) else json.dumps(row).encode()) for row in rows
    )


def delta(**more: object) -> dict[str, object]:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": more, "finish_reason": None}],
    }


def call(name: str | None = None, arguments: str = "") -> dict[str, object]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return delta(tool_calls=[{"index": 0, "type": "function", "function": function}])


FILLER = [delta(content=f"word {n}") for n in range(100)]
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
BIG = json.dumps({"a": "{" + "x" * 9000}, separators=(",", ":"))
ANSWERS = {
    # name: (the body, what is read of it)
    "openai stream": (events(*FILLER, {"choices": [{"finish_reason": "stop"}]}, {"usage": {"completion_tokens": 100, "prompt_tokens": 7}}, b"[DONE]"), {"finish": "stop", "output_tokens": 100}),
    "openai stream of tools": (
        events(*FILLER, call("first.tool"), *[call(arguments='{"name":')] * 300, call("get_weather"), *[call(arguments=" x\"")] * 300, END, b"[DONE]"),
        {"finish": "tool_calls", "tool": "get_weather"},
    ),
    "openai answer": (
        json.dumps({"choices": [{"finish_reason": "length", "message": {"content": 'say "finish_reason":"no"', "tool_calls": [{"function": {"arguments": BIG, "name": "big"}}]}}], "usage": {"prompt_tokens": 1, "completion_tokens": 12}, "timings": {"x": [1.0] * 500}}).encode(),
        {"finish": "length", "output_tokens": 12, "tool": "big"},
    ),
    "anthropic stream": (
        events({"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}, "stop_reason": None}},
               {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "Read-File", "input": {}}},
               *[{"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"name":"x'}}] * 200,
               {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 77}}, {"type": "message_stop"}),
        {"finish": "tool_use", "output_tokens": 77, "tool": "Read-File"},
    ),
    "anthropic answer": (json.dumps({"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 3}}).encode(), {"finish": "end_turn", "output_tokens": 3}),
    "ollama stream": (
        b'{"message":{"content":"","tool_calls":[{"function":{"name":"add","arguments":{"name":"no"}}}]},"done":false}\n'
        b'{"done":true,"done_reason":"stop","context":[' + b"1234," * 9000 + b'1],"prompt_eval_count":5,"eval_count":290,"eval_duration":4}\n',
        {"finish": "stop", "output_tokens": 290, "tool": "add"},
    ),
    "responses stream": (
        events({"type": "response.output_item.added", "item": {"type": "function_call", "arguments": "", "call_id": "c", "name": "look_up"}}, {"type": "response.completed", "response": {"usage": {"output_tokens": 8}}}),
        {"output_tokens": 8, "tool": "look_up"},
    ),
    "responses answer": (json.dumps({"output": [{"type": "function_call", "arguments": BIG, "name": "big"}], "usage": {"output_tokens": 8}}).encode(), {"output_tokens": 8, "tool": "big"}),
    "llama.cpp's own": (events({"content": "", "stop": True, "tokens_predicted": 8, "tokens_evaluated": 3}), {"output_tokens": 8}),
    "only words": (json.dumps({"text": '"tool_calls" "function":{"name":"no"} "done_reason":"no" "eval_count":1'}).encode(), {}),
    "an embedding": (b'{"data":[{"embedding":[' + b"0.1," * 5000 + b'1]}],"usage":{"prompt_tokens":4}}', {}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.parametrize("size", (1, 7, 300, SCAN_BYTES, 1 << 20))
def test_what_an_answer_says(body: bytes, expected: dict[str, object], size: int) -> None:
    usage = Usage()
    for at in range(0, len(body), size):
        usage.feed(body[at : at + size])
    assert usage.row() == expected


def test_a_stream_whose_words_are_cut_by_its_chunks_is_read(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    play.ask(ASK)
    server = play.servers[0]
    server.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    body = events(call("get_weather"), END, {"usage": {"completion_tokens": 3}}, b"[DONE]")
    for at in range(0, len(body), 11):
        piece = body[at : at + 11]
        server.say(b"%x\r\n%b\r\n" % (len(piece), piece))
    server.say(b"0\r\n\r\n")
    row = play.rows[-1]
    assert (row["tool"], row["finish"], row["output_tokens"]) == ("get_weather", "tool_calls", 3)


@pytest.mark.parametrize(
    "field", (b"Content-Type: audio/mpeg", b"Content-Type: application/json\r\nContent-Encoding: gzip")
)
def test_an_answer_in_another_form_is_not_looked_into(plays: list[Play], field: bytes) -> None:
    play = Play()
    plays.append(play)
    client, _ = play.ask(ASK)
    play.servers[0].say(b"HTTP/1.1 200 OK\r\n%b\r\nContent-Length: 22\r\n\r\n" % field)
    assert client.exchange is not None and client.exchange.record.usage is None
    play.servers[0].say(b'{"finish_reason":"st"}')
    assert "finish" not in play.rows[-1]


# -------------------------------------------------------------------- metrics


def figures(play: Play) -> dict[str, float]:
    """The gate's own metrics: name and labels -> value."""
    _, pipe = play.ask(get("/metrics"))
    head, _, text = bytes(pipe.out).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    rows = text.decode().splitlines()
    named = re.compile(r'[a-z_]+(\{([a-z]+="(\\.|[^"\\])*",?)+\})? -?[0-9.e+]+\Z')
    assert [row for row in rows if not row.startswith("#") and not named.match(row)] == []
    kinds = {row.split()[2]: row.split()[3] for row in rows if row.startswith("# TYPE ")}
    found = {}
    for row in rows:
        if not row.startswith("#"):
            name, _, value = row.rpartition(" ")
            family = re.sub("_(bucket|sum|count)$", "", name.partition("{")[0])
            assert family in kinds or name.partition("{")[0] in kinds, row
            found[name.removeprefix("headway_gate_")] = float(value)
    return found


def test_the_front_door_says_what_the_gate_did(plays: list[Play]) -> None:
    play = Play("closed", "aside")
    plays.append(play)
    play.hub.dropped = lambda: 4
    client, _ = play.ask(ASK)
    play.ask(post(b'{"model":"gpt"}', "/v1/chat/completions", "X-Headway-Class: background"))
    seen = figures(play)
    assert (
        seen['held{service="chat",class="attended"}'],
        seen['held{service="chat",class="background"}'],
    ) == (1, 1)
    assert (seen['open{service="chat"}'], seen["link_up"], seen["log_lines_dropped_total"]) == (0, 1, 4)
    play.spin(20.0)
    play.tell(wire.Open("chat", 2))
    play.spin()
    seen = figures(play)
    assert (seen['active{service="chat"}'], seen['open{service="chat"}']) == (2, 1)
    assert seen["clients"] >= 2
    for server in play.servers:
        server.say(OK)
    client.data_received(ASK)
    play.spin()
    play.servers[-1].leave()
    play.spin()
    play.servers[-1].leave()
    play.ask(b"GET / HTTP/1.1\r\n\r\n")
    seen = figures(play)
    assert seen['requests_total{service="chat",class="attended",status="200"}'] == 1
    assert seen['requests_total{service="chat",class="background",status="200"}'] == 1
    assert seen['requests_total{service="chat",class="attended",status="502"}'] == 1
    assert seen['requests_total{service="",class="",status="400"}'] == 1
    assert seen['wait_seconds_bucket{service="chat",class="attended",le="15"}'] == 0
    assert seen['wait_seconds_bucket{service="chat",class="attended",le="30"}'] == 1
    assert seen['wait_seconds_count{service="chat",class="attended"}'] == 1
    assert 20.0 <= seen['wait_seconds_sum{service="chat",class="attended"}'] < 21.0


def test_a_services_own_metrics_stay_its_own(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    play.ask(get("/upstream/chat/metrics"))
    assert play.servers[0].pipe.out.startswith(b"GET /metrics HTTP/1.1\r\n")
    play.servers[0].say(OK)


def test_a_name_can_not_break_the_format(plays: list[Play]) -> None:
    play = Play()
    plays.append(play)
    odd = 'a"b\\c\nd'
    play.tell(wire.Table(wire.PROTO, "d", {"chat": play.service, odd: wire.Service(odd, 1, "closed")}))
    assert 'open{service="a\\"b\\\\c\\nd"}' in figures(play)
