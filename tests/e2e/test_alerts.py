"""Alerts of a real daemon reach a webhook: trouble, its end, and a test by the command line."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.e2e.kills import process_of
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, tiny

pytestmark = pytest.mark.e2e


@contextmanager
def hooked() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    got: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_that_dies_and_comes_back_is_told_once_each(stack: Callable[[Table], Stack]) -> None:
    with hooked() as (url, got):
        table = config(tiny("chat", "1GiB"))
        table["alerts"] = {"webhook": url}
        headway = stack(table)
        assert headway.post("/api/v1/alerts/test") == [{"way": "webhook", "sent": True, "error": None}]
        assert headway.ask("chat").status == 200
        os.kill(process_of(headway, "chat")[1], signal.SIGKILL)
        headway.wait(lambda: len(got) >= 2, "the word of its death")
        assert headway.ask("chat").status == 200
        headway.wait(lambda: len(got) >= 3, "the word of its return")
    assert [(one["state"], one["code"], one["holder"]) for one in got] == [
        ("test", "test", None),
        ("trouble", "service.died", "chat"),
        ("recovered", "service.died", "chat"),
    ]
