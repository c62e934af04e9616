"""A head that was seen before means the same as on the first day, whatever came in between."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.core import wire
from headway.gate import heads, known
from headway.gate.heads import BadRequest, BadResponse, read_request, read_response
from tests.parts.gate_play import Play, get, post

pytestmark = pytest.mark.contract

NAMES = (
    "Content-Length",
    "content-length",
    "CONTENT-LENGTH",
    "X-Content-Length",
    "Accept",
    "Upgrade",
    "Connection",
)
VALUES = (
    "5",
    "0",
    "05",
    "",
    "#",
    "5, 5",
    "-1",
    "+5",
    "5 5",
    "1e3",
    "9" * 16,
    "close",
    "websocket, upgrade",
    "upgrade",
)
SPACES = (": ", ":", ":  ", ":\t", " : ")
LINES = st.builds(
    lambda *parts: "".join(parts), st.sampled_from(NAMES), st.sampled_from(SPACES), st.sampled_from(VALUES)
)
REQUESTS = st.builds(
    lambda first, rows: "\r\n".join([first, "Host: localhost", *rows, "", ""]).encode(),
    st.sampled_from(("POST / HTTP/1.1", "GET /v1/x HTTP/1.1", "POST / HTTP/1.0")),
    st.lists(LINES, max_size=3),
)
RESPONSES = st.builds(
    lambda rows: "\r\n".join(["HTTP/1.1 200 OK", *rows, "", ""]).encode(), st.lists(LINES, max_size=3)
)

ONE = wire.Token(hashlib.sha256(b"hw_one").hexdigest(), "one")
PLAIN = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %b\r\n\r\n"


def forget() -> None:
    for kept in (heads._REQUESTS, heads._RESPONSES):
        kept.cut.clear()
        kept.whole.clear()


def meant(read: Callable[[bytes], Any], head: bytes) -> object:
    """All that a head means, or the code it is refused with."""
    try:
        found, *more = read(head)
    except (BadRequest, BadResponse) as error:
        return error.args
    says = {
        name: getattr(found, name)
        for name in dir(found)
        if not name.startswith("_") and name not in ("seen", "length", "framing", "fields", "text", "pass_on")
    }
    fields = {**getattr(found, "fields", {}), b"content-length": b""}  # its length is told beside it
    return says, more, fields


@example([PLAIN % b"5", PLAIN % b"", PLAIN % b"5"])
@example(
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: %d\r\n\r\n"
        % n
        for n in (5, 0)
    ]
)
@given(st.lists(REQUESTS, min_size=1, max_size=6))
def test_a_request_head_means_the_same_after_any_others(sent: list[bytes]) -> None:
    alone = []
    for head in sent:
        forget()
        alone.append(meant(read_request, head))
    forget()
    assert [meant(read_request, head) for head in sent] == alone
    assert [meant(read_request, head) for head in sent] == alone


@example([b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n" % value for value in (b"5", b"", b"5")])
@given(st.lists(RESPONSES, min_size=1, max_size=6))
def test_a_response_head_means_the_same_after_any_others(sent: list[bytes]) -> None:
    alone = []
    for head in sent:
        forget()
        alone.append(meant(read_response, head))
    forget()
    assert [meant(read_response, head) for head in sent] == alone
    assert [meant(read_response, head) for head in sent] == alone


def test_the_memory_is_bounded_in_number_and_size() -> None:
    forget()
    for number in range(3 * known.HEADS_KEPT):
        read_request(b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number)
    assert len(heads._REQUESTS.whole) <= known.HEADS_KEPT
    before = len(heads._REQUESTS.whole)
    read_request(b"GET /long HTTP/1.1\r\nHost: localhost\r\nX-A: %b\r\n\r\n" % (b"a" * known.HEAD_KEPT_BYTES))
    assert len(heads._REQUESTS.whole) == before


def test_heads_that_differ_in_their_length_alone_share_one() -> None:
    forget()
    got = [
        read_request(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % n) for n in (3, 44)
    ]
    assert [length for _, length in got] == [3, 44]
    assert got[0][0] is got[1][0]
    answers = [read_response(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % n) for n in (3, 44)]
    assert [row for _, _, row in answers] == [b"content-length: 3", b"content-length: 44"]
    assert answers[0][0] is answers[1][0]
    assert re.fullmatch(rb"HTTP/1.1 200 OK\r\n", answers[0][0].plain)


def test_the_same_bytes_are_judged_anew_under_another_table() -> None:
    play = Play()
    ask = get("/v1/models", "Origin: http://page.example", "X-Api-Key: hw_one")
    try:
        for tokens, origins, status in (
            ((), (), 403),
            ((), ("http://page.example",), 401),
            ((ONE,), ("http://page.example",), 200),
            ((), ("http://page.example",), 401),
            ((ONE,), (), 403),
        ):
            services = {"chat": play.service}
            play.tell(wire.Table(wire.PROTO, "d", services, tokens=tokens, origins=origins))
            _, pipe = play.ask(ask)
            assert int(pipe.out[9:12]) == status
    finally:
        play.close()


def test_a_model_that_moved_to_another_service_is_found_there_at_once() -> None:
    play = Play()
    try:
        for number, name in enumerate(("chat", "other", "chat")):
            rows = {
                key: wire.Service(
                    key,
                    number + 2,
                    "open",
                    "awake",
                    upstream=f"http://127.0.0.1:{port}",
                    names=("gpt",) if key == name else (),
                )
                for key, port in (("chat", 9000), ("other", 9001))
            }
            play.tell(wire.Table(wire.PROTO, "d", rows))
            play.ask(post(b'{"model":"gpt"}'))
            play.servers[-1].say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            play.spin()
            assert play.rows[-1]["service"] == name
    finally:
        play.close()
