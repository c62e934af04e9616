"""`headway init`: what is on the machine is found by its routes, and what is written loads and only watches."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headway.config.json_schema import FILE
from headway.config.load import load
from headway.config.starter import text, written
from headway.errors import ConfigThere
from headway.host.model_servers import find_servers, identify, listening_ports
from headway.ports import DeviceReading, FoundServer, Reading
from tests.parts.fake_nvml import Box, FakeGpu
from tests.processes import free_port

pytestmark = pytest.mark.contract

Routes = Mapping[str, Any]


def cards(owner: str, *ids: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": one, "object": "model", "owned_by": owner} for one in ids]}


def tags(*names: str) -> dict[str, Any]:
    return {"models": [{"name": one} for one in names]}


PROPS: Routes = {"default_generation_settings": {}}
SERVERS: dict[str, tuple[Routes, str, tuple[str, ...]]] = {
    # name: (routes, kind, models)
    "vLLM": ({"/v1/models": cards("vllm", "Qwen/Qwen3-8B"), "/version": {"version": "0.33.0"}}, "vllm", ("Qwen/Qwen3-8B",)),
    "vLLM with an adapter": ({"/v1/models": cards("vllm", "a", "b")}, "vllm", ("a", "b")),
    "SGLang": ({"/v1/models": cards("sglang", "m"), "/model_info": {}}, "sglang", ("m",)),
    "llama.cpp": ({"/v1/models": cards("llamacpp", "m.gguf"), "/api/tags": tags("m.gguf"), "/props": PROPS}, "llamacpp", ("m.gguf",)),
    "llama.cpp that says nothing of itself": ({"/v1/models": cards("me", "m"), "/props": PROPS}, "llamacpp", ("m",)),
    "Ollama": ({"/v1/models": cards("library", "q:8b"), "/api/version": {"version": "0.9"}, "/api/tags": tags("q:8b")}, "ollama", ("q:8b",)),
    "Ollama without a model": ({"/v1/models": {"object": "list", "data": None}, "/api/version": {"version": "0.9"}, "/api/tags": tags()}, "ollama", ()),
    "ComfyUI": ({"/system_stats": {"system": {"comfyui_version": "0.3"}, "devices": []}}, "comfyui", ()),
    "LM Studio": ({"/v1/models": cards("organization_owner", "x"), "/api/v0/models": cards("organization_owner", "x")}, "lmstudio", ("x",)),
    "LM Studio, newer": ({"/v1/models": cards("organization_owner", "x"), "/api/v1/models": {"models": [{"key": "x"}]}}, "lmstudio", ("x",)),
    "another with OpenAI's list": ({"/v1/models": cards("somebody", "x")}, "openai", ("x",)),
}  # fmt: skip
NOTHING: dict[str, Routes] = {
    "a page": {"/": "<html>"},
    "a list of something else": {"/v1/models": ["x"]},
    "a version of something else": {"/api/version": {"version": "1"}},
    "stats of something else": {"/system_stats": {"system": "up"}},
}


@contextmanager
def serving(routes: Routes) -> Iterator[tuple[int, list[str]]]:
    """A server with these routes, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            found = routes.get(self.path)
            body = found.encode() if isinstance(found, str) else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("routes", "kind", "models"), SERVERS.values(), ids=SERVERS.keys())
def test_a_server_is_known_by_its_routes_and_nothing_wakes_it(
    routes: Routes, kind: str, models: tuple[str, ...]
) -> None:
    with serving(routes) as (port, asked):
        found = identify(port)
    assert found == FoundServer(kind=kind, url=f"http://127.0.0.1:{port}", models=models)
    # what these do: run a generation, wake a sleeper, load a model
    assert not {"/health", "/health_generate", "/slots", "/get_model_info"} & set(asked)


@pytest.mark.parametrize("routes", NOTHING.values(), ids=NOTHING.keys())
def test_what_is_no_model_server_is_none(routes: Routes) -> None:
    with serving(routes) as (port, _):
        assert identify(port) is None


def test_nobody_there_is_none() -> None:
    assert identify(free_port()) is None


def test_a_port_that_is_named_is_looked_at_and_every_listener_is_known() -> None:
    with serving(SERVERS["vLLM"][0]) as (port, _):
        assert port in set(listening_ports())
        assert [found.url for found in find_servers([port])].count(f"http://127.0.0.1:{port}") == 1
        assert all(found.url != f"http://127.0.0.1:{port}" for found in find_servers(without={port}))


# ---------------------------------------------------------------- what is written

CARD = DeviceReading(
    id="local/GPU-1",
    name="NVIDIA \n H100",
    index=0,
    total_bytes=80 << 30,
    used_bytes=3 << 30,
    free_bytes=77 << 30,
    processes=(),
)
NO_CARDS = Reading(at_s=0.0, devices=(), trouble="NVML is not there")


def found(kind: str, *models: str, port: int = 8000) -> FoundServer:
    return FoundServer(kind=kind, url=f"http://127.0.0.1:{port}", models=models)


FOUND = {
    "nothing at all": [],
    "one of each": [found(kind, f"m-{kind}") for kind in ("vllm", "sglang", "llamacpp", "ollama", "comfyui", "lmstudio", "openai")],
    "two of a kind": [found("vllm", "a"), found("vllm", "b", port=8001)],
    "the same models twice": [found("vllm", "a", "b"), found("ollama", "b"), found("openai", "a", "c")],
    "names that are hard to write": [found("vllm", 'a "b" \\ \n [x]\n# y', "{models}", "\x7f")],
    "no names": [found("comfyui"), found("ollama"), found("ollama")],
    "an empty name": [found("vllm", "")],
}  # fmt: skip


@pytest.mark.parametrize("example", [False, True])
@pytest.mark.parametrize("servers", FOUND.values(), ids=FOUND.keys())
@pytest.mark.parametrize("reading", [NO_CARDS, Reading(at_s=0.0, devices=(CARD,))], ids=["no card", "a card"])
def test_what_is_written_loads_and_only_watches(
    reading: Reading, servers: list[FoundServer], example: bool, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    written(file, text(reading, servers, str(FILE), example))
    config = load(file, {})
    own = {name: one for name, one in config.service.items() if not (example and name == "chat")}
    assert config.mode == "shadow" and len(own) == len(servers)
    assert [one.upstream for one in own.values()] == [one.url for one in servers]
    assert all(one.start is None for one in own.values())
    assert file.read_text().startswith(f"#:schema {FILE}\n") and FILE.is_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_example_is_right_once_its_comments_are_taken_away() -> None:
    made = text(NO_CARDS, [], "x")
    lines = made[made.index("# [service.chat]") :].splitlines()
    tables = tomllib.loads(
        "\n".join(line.removeprefix("# ") for line in lines if not line.startswith("# ---"))
    )
    assert set(tables) == {"service", "job"}


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("mine")
    with pytest.raises(ConfigThere):
        written(file, "other")
    assert file.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("")
    with pytest.raises(ConfigThere):
        written(tmp_path / "no" / "config.toml", "x")


# ---------------------------------------------------------------- the command line

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(home: Path) -> Run:
    def headway(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60)

    return headway


def test_init_check_and_show_from_nothing(run: Run, home: Path) -> None:
    file = home / "config.toml"
    with serving(SERVERS["vLLM"][0]) as (port, _):
        dry = run("init", "-n", "--port", str(port))
        assert dry.returncode == 0 and "[service.vllm]" in dry.stdout and not file.exists()
        done = run("init", "--port", str(port))
    assert done.returncode == 0 and not done.stdout
    assert run("check").returncode == 0
    shown = tomllib.loads(run("config", "show").stdout)
    assert f"http://127.0.0.1:{port}" in [one["upstream"] for one in shown["service"].values()]
    again = run("init")
    assert (
        again.returncode == 1 and "stays as it is" in again.stderr and file.read_text().startswith("#:schema")
    )


@pytest.mark.parametrize("gpus", [(), (FakeGpu("GPU-1"),)], ids=["none", "one"])
def test_init_says_that_no_gpu_was_found_and_what_to_do(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: tuple[FakeGpu, ...]
) -> None:
    for name, value in Box(tmp_path, *gpus).environment().items():
        monkeypatch.setenv(name, value)
    done = run("init")
    assert done.returncode == 0
    assert any("[device.sim0]" in line and str(home) in line for line in done.stderr.splitlines()) is (
        not gpus
    )


def test_config_show_puts_files_environment_and_vars_together(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "conf.d").mkdir()
    (home / "config.toml").write_text('[vars]\nm = "/m"\n')
    (home / "conf.d" / "a.toml").write_text('[job.train]\ndriver = "restart"\nstart = ["train", "{m}/x"]\n')
    monkeypatch.setenv("HEADWAY_CFG__JOB__TRAIN__RETRIES", "2")
    shown = tomllib.loads(run("config", "show").stdout)
    assert (shown["job"]["train"]["start"], shown["job"]["train"]["retries"]) == (["train", "/m/x"], 2)
    assert (
        "mode" not in shown
        and json.loads(run("config", "show", "--all", "--json").stdout)["mode"] == "shadow"
    )


def test_config_show_writes_sizes_and_durations_as_people_do_and_reads_back_the_same(
    run: Run, home: Path
) -> None:
    table = '[job.train]\ndriver = "restart"\nstart = ["train"]\nmax_runtime = 5400\n'
    (home / "config.toml").write_text(table + "memory = { running = 25769803776 }\n")
    shown = run("config", "show", "--all").stdout
    job = tomllib.loads(shown)["job"]["train"]
    assert (job["max_runtime"], job["memory"]["running"]) == ("1h30min", "24GiB")
    before = run("config", "show", "--all", "--json").stdout
    assert json.loads(before)["job"]["train"]["max_runtime"] == 5400
    (home / "config.toml").write_text(shown)
    assert run("config", "show", "--all", "--json").stdout == before


def test_config_path_schema_and_check(run: Run, home: Path) -> None:
    assert run("config", "path").stdout.strip() == str(home / "config.toml")
    assert run("config", "schema").stdout == FILE.read_text("utf-8")
    (home / "config.toml").write_text("x = 1\n")
    assert run("config", "check").returncode == run("config", "show").returncode == 78


def test_config_apply_without_a_daemon_says_so(run: Run, home: Path) -> None:
    done = run("config", "apply")
    assert done.returncode == 69 and "headway up" in done.stderr
