"""The real llama.cpp server and its wrapper: what it says, what it holds, how it ends."""

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from demo import sim_device, tiny_model
from tests.parts.programs import GIB, LIMIT_S, ask, children, get, healthy, held, program, run
from tests.processes import free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    tiny_model.make_model(path)
    return path


def test_llama_says_the_words_it_was_made_with_and_reports_from_outside(model: Path, tmp_path: Path) -> None:
    port = free_port()
    options = ["--model", model, "--port", port, "--reports", tmp_path, "--bytes", "16GiB"]
    with program("demo.served", *options, "--device", "sim0,sim1") as served:
        wait_for(lambda: healthy(port), LIMIT_S)
        (server,) = children(served.pid)
        assert [(r.device, r.pid, r.bytes) for r in sim_device.living(tmp_path)] == [
            ("sim0", server, 16 * GIB),
            ("sim1", server, 16 * GIB),
        ]
        for stream in (True, False):
            answer = ask(port, stream=stream)
            assert (answer.error, answer.text) == (None, tiny_model.WORDS)
        assert get(port, "/props")[1]["is_sleeping"] is False
        assert len(get(port, "/slots")[1]) == 2
        assert "llamacpp:requests_processing" in get(port, "/metrics")[1]
        served.terminate()
        assert served.wait(LIMIT_S) == 0
        assert not Path(f"/proc/{server}").exists()
        assert sim_device.living(tmp_path) == []
        assert os.listdir(tmp_path) == []


def test_a_killed_server_ends_its_wrapper_with_its_code_and_holds_nothing(
    model: Path, tmp_path: Path
) -> None:
    port = free_port()
    with program(
        "demo.served", "--model", model, "--port", port, "--reports", tmp_path, "--bytes", 1
    ) as served:
        wait_for(lambda: healthy(port), LIMIT_S)
        os.kill(children(served.pid)[0], signal.SIGKILL)
        assert served.wait(LIMIT_S) == 128 + signal.SIGKILL
        assert held(tmp_path) == 0


def test_a_server_asleep_holds_its_residue_until_it_wakes(model: Path, tmp_path: Path) -> None:
    port = free_port()
    options = ["--model", model, "--port", port, "--reports", tmp_path, "--sleep-idle", 1]
    with program("demo.served", *options, "--bytes", "16GiB", "--residue", "400MiB"):
        wait_for(lambda: healthy(port), LIMIT_S)
        assert held(tmp_path) == 16 * GIB
        wait_for(lambda: held(tmp_path) == 400 << 20, LIMIT_S)
        assert get(port, "/props")[1]["is_sleeping"] is True
        assert ask(port).text == tiny_model.WORDS
        wait_for(lambda: held(tmp_path) == 16 * GIB, 5.0)


def test_memory_that_falls_late_never_dips_before(model: Path, tmp_path: Path) -> None:
    port = free_port()
    options = ["--model", model, "--port", port, "--reports", tmp_path, "--bytes", "16GiB"]
    with program("demo.served", *options, "--late-free-s", 2) as served:
        wait_for(lambda: healthy(port), LIMIT_S)
        served.terminate()
        seen = []
        wait_for(lambda: seen.append((healthy(port), held(tmp_path))) or served.poll() is not None, LIMIT_S)  # type: ignore[func-returns-value]
        assert served.returncode == 0
        assert (False, 16 * GIB) in seen, "the server was gone and its memory was not"
        fell = next(i for i, (_, held_bytes) in enumerate(seen) if held_bytes == 0)
        assert {held_bytes for _, held_bytes in seen[:fell]} == {16 * GIB}


def test_a_liar_keeps_its_memory_until_it_is_killed(model: Path, tmp_path: Path) -> None:
    port = free_port()
    options = ["--model", model, "--port", port, "--reports", tmp_path, "--bytes", "16GiB"]
    with program("demo.served", *options, "--keeps-memory") as served:
        wait_for(lambda: healthy(port), LIMIT_S)
        served.terminate()
        wait_for(lambda: not healthy(port) and not children(served.pid), LIMIT_S)
        served.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            served.wait(0.5)
        assert held(tmp_path) == 16 * GIB
        served.kill()
        wait_for(lambda: held(tmp_path) == 0, LIMIT_S)


def test_a_server_without_room_fails_as_real_ones_do(model: Path, tmp_path: Path) -> None:
    sim_device.set_bytes(tmp_path, "sim0", 9 * GIB)
    options = ["--model", model, "--port", free_port(), "--reports", tmp_path, "--bytes", "16GiB"]
    failed = run("demo.served", *options, "--total", "24GiB")
    assert failed.returncode == sim_device.OUT_OF_MEMORY_EXIT
    assert "out of memory on sim0" in failed.stderr
    assert held(tmp_path) == 9 * GIB


def test_a_taken_port_ends_the_server(model: Path, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        failed = run("demo.served", "--model", model, "--port", port, "--reports", tmp_path, "--bytes", 1)
    assert failed.returncode not in (0, None)
    assert held(tmp_path) == 0


def test_a_server_that_still_loads_can_be_ended(model: Path) -> None:
    port = free_port()
    with program("demo.llama_server", "--model", model, "--port", port, "--load-delay", 60) as server:
        assert server.stdout is not None
        assert "opening the port in 60 s" in server.stdout.readline()
        server.terminate()
        assert server.wait(LIMIT_S) == 0


@pytest.mark.parametrize(
    "options", [{"words": "a b a"}, {"words": " "}, {"words": "a b c d e f g", "embd": 8}, {"embd": 20}]
)
def test_a_model_that_cannot_be_made_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need at least one word|embd must be"):
        tiny_model.make_model(tmp_path / "m.gguf", **options)
    assert os.listdir(tmp_path) == []
