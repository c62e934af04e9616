"""kill -9 of the model server: the gate closes, who waits is held, it is started again, and nobody else answers."""

import json
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from demo.tiny_model import WORDS
from demo.tiny_server import recorded
from tests.e2e.kills import Load, Witness, linked, moment, process_of, rendering, talk
from tests.e2e.stack import LIMIT_S, Stack
from tests.e2e.tables import Table, config, llama, render, tiny, train
from tests.parts.programs import GIB
from tests.processes import alive, free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid), LIMIT_S, f"the end of {pid}")


def killed_server(stack: Stack, name: str = "chat") -> int:
    """SIGKILL the leader of the service's run; returns its pid."""
    _, pid = process_of(stack, name)
    kill(pid)
    return pid


def test_killed_while_open_and_quiet_it_is_started_again_for_the_next_request(stack: Up) -> None:
    headway = stack(config(tiny("chat", idle_ttl="1h"), train("train", "5GiB", placement="share")))
    linked(headway, "chat")
    with Witness(headway, "chat") as witness:
        headway.wait_job("train", "running")
        first = talk(headway)[1].result(LIMIT_S)
        assert first.right
        job = process_of(headway, "train")
        dead = killed_server(headway)
        headway.wait(lambda: headway.service("chat")["gate"] == "closed", "the gate to close")
        headway.wait_service("chat", "stopped")
        second = talk(headway)[1].result(LIMIT_S)
        assert second.right
        assert process_of(headway, "chat")[1] != dead
        assert process_of(headway, "train") == job
        witness.check([first, second], jobs=("train",))
    (died,) = headway.events("service.died")
    assert (died["holder"], died["facts"]["exit_code"]) == ("chat", -9)


def test_killed_under_load_again_and_again_only_what_it_was_answering_breaks(stack: Up) -> None:
    chance = random.Random(31)
    headway = stack(config(tiny("chat", idle_ttl="1h")))
    linked(headway, "chat")
    kills, clients, pids = 3, 4, set()
    with Witness(headway, "chat") as witness:
        with Load(headway, clients=clients, chunks=5, pace_s=0.02) as load:
            for _ in range(kills):
                whole = load.whole
                headway.wait(lambda: load.whole > whole + 8, "answers")  # noqa: B023
                moment(chance, 0.3)
                pids.add(killed_server(headway))
            whole = load.whole
            headway.wait(lambda: load.whole > whole + 8, "answers of the last one")
        broken = [one for one in load.talks if not one.right]
        begun = set(recorded(headway.home / "chat.record"))
        # the kernel may still take a connection for a process that is dying: nobody knows what became of that one
        dying = [one for one in broken if one.id not in begun]
        assert all(one.status == 502 and "upstream_closed" in str(one.error) for one in dying), dying
        assert len(broken) - len(dying) <= kills * clients, broken
        assert len(dying) <= kills * clients, dying
        assert len(pids) == kills
        witness.check(load.talks)
    assert len(headway.events("service.died")) == kills
    assert not headway.events("service.failed")


def test_killed_while_it_starts_it_is_started_again_and_who_waits_is_answered(stack: Up) -> None:
    headway = stack(config(tiny("chat", "16GiB", "--start-delay", 1), render()))
    linked(headway, "chat")
    job = rendering(headway)
    with Witness(headway, "chat") as witness:
        held = [talk(headway) for _ in range(3)]
        headway.wait_service("chat", "starting")
        headway.wait(lambda: headway.held() == 16 * GIB, "the server's memory")
        dead = killed_server(headway)
        for _, over in held:
            said = over.result(LIMIT_S)
            assert said.right, said
        assert process_of(headway, "chat")[1] != dead
        (failed,) = headway.events("move.failed")
        assert (failed["holder"], failed["facts"]["reason"]) == ("chat", "server_exited")
        headway.wait_job("render", "running")
        assert process_of(headway, "render") == job
        witness.check([one for one, _ in held], jobs=("render",))


def test_killed_while_a_request_streams_the_next_ones_are_held_and_answered(stack: Up) -> None:
    headway = stack(config(tiny("chat", "16GiB", "--start-delay", 0.5), render()))
    linked(headway, "chat")
    rendering(headway)
    with Witness(headway, "chat") as witness:
        cut = [talk(headway, chunks=600, pace_s=0.05) for _ in range(3)]
        headway.wait(lambda: all(one.began for one, _ in cut), "the first words")
        killed_server(headway)
        later = [talk(headway) for _ in range(3)]
        for _, over in cut:
            said = over.result(LIMIT_S)
            assert not said.whole
            assert said.error is not None
            assert said.own
        for _, over in later:
            said = over.result(LIMIT_S)
            assert said.right, said
        headway.wait_job("render", "running")
        witness.check([one for one, _ in (*cut, *later)], jobs=("render",))


class Impostor(BaseHTTPRequestHandler):
    """Another program on the server's port: healthy, and glad to answer anything."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        if self.rfile.read(length):
            self.asked.append(self.path)
        choice = {"index": 0, "delta": {"content": "impostor"}, "finish_reason": None}
        body = f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def impostor(port: int) -> Iterator[list[str]]:
    """Has the port until the end of the `with`; yields the paths of requests with a body that it was sent."""
    asked: list[str] = []
    handler = type("OneImpostor", (Impostor,), {"asked": asked})
    ThreadingHTTPServer.allow_reuse_address = True
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_another_program_on_a_dead_servers_port_never_answers_for_it(stack: Up) -> None:
    port = free_port()
    fixed = tiny("chat", upstream=f"http://127.0.0.1:{port}", idle_ttl="1h")
    fixed.table["start"] = [word.replace("{port}", str(port)) for word in fixed.table["start"]]
    headway = stack(config(fixed, train("train", "5GiB", placement="share")))
    linked(headway, "chat")
    with Witness(headway, "chat") as witness:
        first = talk(headway)[1].result(LIMIT_S)
        assert first.right
        killed_server(headway)
        headway.wait(lambda: headway.service("chat")["gate"] == "closed", "the gate to close")
        with impostor(port) as asked:
            held = [talk(headway) for _ in range(3)]
            headway.wait(lambda: headway.events("service.failed"), "the port to be found taken")
            told = headway.api("/api/v1/why/chat")
            assert str(port) in told["sentence"], told
            assert str(os.getpid()) in told["sentence"], "its owner is named"
            assert not any(one.began for one, _ in held)
        assert asked == []
        for _, over in held:
            said = over.result(LIMIT_S)
            if said.status == 503:  # it may have been told that the service has failed
                assert "impostor" not in str(said.error)
            else:
                assert said.right, said
        later = []

        def answered() -> bool:
            later.append(talk(headway)[1].result(LIMIT_S))
            return later[-1].right

        headway.wait(answered, "the end of the pause after three failures")
        assert all("service_failed" in str(one.error) for one in later[:-1]), later
        witness.check([first, *later, *(one for one, _ in held)], jobs=("train",))


def test_when_only_the_wrapper_dies_its_server_is_ended_before_another_one_starts(stack: Up) -> None:
    headway = stack(config(llama("chat"), render()))
    linked(headway, "chat")
    job = rendering(headway)
    assert headway.ask("chat").text == WORDS
    leader, server = headway.run_pids("chat")[:2]
    kill(leader)
    headway.wait(lambda: headway.service("chat")["gate"] == "closed", "the gate to close")
    answer = headway.ask("chat")
    assert (answer.error, answer.text) == (None, WORDS)
    assert not alive(server), "the server that its wrapper left behind was ended"
    assert leader not in headway.run_pids("chat")
    headway.wait_job("render", "running")
    assert process_of(headway, "render") == job
    assert len(headway.events("service.died")) == 1
    assert not headway.events("job.lost", "memory.not_released")


def test_when_only_the_wrapped_server_dies_both_are_started_again(stack: Up) -> None:
    headway = stack(config(llama("chat", idle_ttl="1h")))
    linked(headway, "chat")
    assert headway.ask("chat").text == WORDS
    leader, server = headway.run_pids("chat")[:2]
    kill(server)
    headway.wait(lambda: headway.service("chat")["gate"] == "closed", "the gate to close")
    answer = headway.ask("chat")
    assert (answer.error, answer.text) == (None, WORDS)
    assert set(headway.run_pids("chat")).isdisjoint((leader, server))
