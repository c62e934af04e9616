"""The messages of the link: what one side writes the other reads, and nothing else."""

import json

import pytest

from headway.core import wire

pytestmark = pytest.mark.core

SERVICE = wire.Service(
    name="chat",
    rev=3,
    gate="closed",
    state="waking",
    engine="small",
    upstream="http://127.0.0.1:9000",
    key_file="/etc/key",
    model="org/model",
    names=("chat", "gpt"),
    port=8501,
    max_active=4,
    queue_max=10,
    max_wait_s={"attended": 1.5, "background": 20.0},
    wake_limit_s=30.0,
    on_cancel="drain",
    word="starting",
    allow=("/free",),
    why={"activity": "train", "held_s": 4.5, "preemptible": True, "note": None},
)
MESSAGES: tuple[wire.Message, ...] = (
    wire.Hello(1, "g1", 4711, "0.1", 2.5, "/requests/2030-01.g1.ndjson"),
    wire.Table(
        1,
        "d1",
        {"chat": SERVICE, "bare": wire.Service("bare", 0, "open")},
        mode="shadow",
        default="chat",
        tokens=(wire.Token("ab" * 32, "tool", "background", 10),),
        hosts=("localhost",),
        origins=("http://localhost:3000",),
        routes=(wire.Route("POST", "/mine/*"),),
        salt="00ff",
    ),
    wire.Open("chat", 4),
    wire.Close("chat", 5),
    wire.Close("chat", 5, 2.0),
    wire.Closed("chat", 5, 0, 1),
    wire.Demand("chat", 1, {"attended": wire.Waiting(2, 0.5, 50)}, None, 9),
    wire.Demand("chat", 0, {}, 3.25, 10),
    wire.List("chat"),
    wire.Held("chat", (wire.HeldEntry("id-1", "attended", "uid:1000", 0.1, 1),)),
    wire.Trouble("chat", "refused"),
    wire.Ping(1),
    wire.Pong(1, 0.25),
    wire.Drain(),
    wire.Bye(),
    wire.Unsupported("zebra"),
)


def test_every_message_class_is_in_this_file() -> None:
    assert {type(message) for message in MESSAGES} == set(wire.TYPES.values())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_what_is_written_is_read(message: wire.Message) -> None:
    line = wire.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert wire.decode(line) == message


def test_class_is_class_on_the_wire() -> None:
    row = json.loads(wire.encode(wire.Held("s", (wire.HeldEntry("i", "attended", "c", 0.0, 1),))))
    assert row["entries"][0]["class"] == "attended"
    assert row["type"] == "held"


def test_unknown_fields_are_ignored_at_every_depth() -> None:
    row = json.loads(wire.encode(MESSAGES[1]))
    row["new"] = 1
    row["services"]["chat"]["new"] = {"a": []}
    assert wire.decode(json.dumps(row).encode()) == MESSAGES[1]


def test_an_unknown_type_is_answered_with_unsupported() -> None:
    assert wire.decode(b'{"type":"frobnicate","x":1}') == wire.Unsupported("frobnicate")


def test_fields_with_defaults_may_be_absent() -> None:
    line = b'{"type":"table","proto":1,"daemon":"d","services":{"a":{"name":"a","rev":0,"gate":"closed"}}}'
    table = wire.read_table(line)
    assert table.whole
    assert table.services["a"].max_wait_s == {"attended": 90.0, "background": 3600.0}
    assert table.services["a"].queue_max == 512


BAD = {
    "not json": b"{",
    "not an object": b"[]",
    "no type": b'{"n":1}',
    "type is no text": b'{"type":1}',
    "missing field": b'{"type":"ping"}',
    "text for a number": b'{"type":"ping","n":"1"}',
    "true is no number": b'{"type":"ping","n":true}',
    "a float is no count": b'{"type":"ping","n":1.5}',
    "NaN": b'{"type":"pong","n":1,"loop_lag_ms":NaN}',
    "infinity by exponent": b'{"type":"pong","n":1,"loop_lag_ms":1e999}',
    "not one of the words": b'{"type":"trouble","service":"a","what":"slow"}',
    "list for an object": b'{"type":"demand","service":"a","active":0,"waiting":[],"last_end_age_s":null,"seq":1}',
    "object for a list": b'{"type":"held","service":"a","entries":{}}',
    "deeply nested": b'{"type":' + b"[" * 100_000,
    "not utf-8": b'{"type":"list","service":"\xff"}',
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_an_error(line: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(line)


def test_routes_json_must_be_a_table() -> None:
    with pytest.raises(wire.WireError):
        wire.read_table(wire.encode(wire.Bye()))


def test_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="Out of range|not JSON compliant"):
        wire.encode(wire.Pong(1, float("nan")))
