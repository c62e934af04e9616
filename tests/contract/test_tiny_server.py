"""The scripted model server does what its script says."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from demo import client, tiny_server
from tests.parts.programs import GIB, LIMIT_S, ask, get, healthy, held, program
from tests.processes import free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.contract


@contextmanager
def tiny(*options: object) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    port = free_port()
    with program("demo.tiny_server", "--port", port, *options) as server:
        wait_for(lambda: healthy(port), LIMIT_S)
        yield port, server


def test_the_scripted_server_names_itself_and_the_request_and_records_it(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with tiny("--name", "left", "--record", record) as (port, server):
        answers = asyncio.run(client.burst(f"http://127.0.0.1:{port}", "left", 20, at_once=10))
        answers.append(ask(port, stream=False))
        assert [(a.error, a.text) for a in answers] == [(None, f"left {a.id} word1 word2") for a in answers]
        assert sorted(tiny_server.recorded(record)) == sorted(a.id for a in answers)
        wait_for(lambda: len(tiny_server.recorded(record, "end")) == len(answers), LIMIT_S)
        assert sorted(tiny_server.recorded(record, "end")) == sorted(a.id for a in answers)
        assert get(port, "/v1/models")[1]["data"][0]["id"] == "left"
        assert get(port, "/stats")[1] == {"name": "left", "pid": server.pid, "began": 21, "in_flight": 0}
        server.terminate()
        assert server.wait(LIMIT_S) == 0


def post(port: int, query: str, **headers: str) -> socket.socket:
    """Send a chat request as bytes, its script in the query; the caller reads or leaves."""
    lines = [
        f"POST /v1/chat/completions?{query} HTTP/1.1",
        "host: x",
        *(f"{k}: {v}" for k, v in headers.items()),
    ]
    connection = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
    connection.sendall(("\r\n".join(lines) + "\r\nx-request-id: one\r\n\r\n").encode())
    return connection


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_client_that_leaves_is_noticed_at_once(tmp_path: Path, stream: str) -> None:
    record = tmp_path / "record"
    with tiny("--record", record) as (port, _):
        with post(port, f"stream={stream}&chunks=2&pace_s=60"):
            wait_for(lambda: tiny_server.recorded(record) == ["one"], LIMIT_S)
            assert get(port, "/stats")[1]["in_flight"] == 1
        wait_for(lambda: tiny_server.recorded(record, "gone") == ["one"], 1.0)
        assert get(port, "/stats")[1]["in_flight"] == 0


def test_an_answer_can_be_an_error_or_be_cut_off(tmp_path: Path) -> None:
    record = tmp_path / "record"
    with tiny("--record", record) as (port, _):
        with post(port, "status=503") as connection:
            assert connection.recv(4096).startswith(b"HTTP/1.1 503 ")
        with post(port, "stream=true&chunks=9&cut_after=2") as connection:
            text = b""
            with suppress(ConnectionResetError):
                while part := connection.recv(4096):
                    text += part
        assert (text.count(b"data: ") <= 2, b"[DONE]" in text) == (True, False)
        assert tiny_server.recorded(record, "gone") == ["one"]
        body = b'4\r\n{"ch\r\n9\r\nunks": 1}\r\n0\r\n\r\n'
        with post(port, "pad=2", **{"transfer-encoding": "chunked", "expect": "100-continue"}) as connection:
            assert connection.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(body)
            assert b'"content": "tiny one.."' in connection.recv(4096)


@pytest.mark.parametrize("lie", ["keeps", "late:2"])
def test_the_scripted_server_can_lie_about_its_memory(tmp_path: Path, lie: str) -> None:
    with tiny("--reports", tmp_path, "--bytes", "4GiB", "--device", "sim1", "--lie", lie) as (port, server):
        assert held(tmp_path, "sim1") == 4 * GIB
        server.terminate()
        wait_for(lambda: not healthy(port), LIMIT_S)
        assert held(tmp_path, "sim1") == 4 * GIB
        if lie == "keeps":
            server.kill()
        server.wait(LIMIT_S)
        assert held(tmp_path, "sim1") == 0
