"""Tokens in a real Headway: one store for the API and the gate, and the way in where there is no socket."""

import json
import stat
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from headway.client import Answered, Client, address
from headway.core import wire
from tests.e2e.loads import CHAT, call, cli, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, sleeper, tiny
from tests.processes import free_port

pytestmark = pytest.mark.e2e


def status_of(url: str, secret: str | None = None) -> int:
    request = urllib.request.Request(url)
    if secret:
        request.add_header("Authorization", f"Bearer {secret}")
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_without_a_socket_the_user_comes_by_the_admin_token_and_the_gate_knows_tokens_at_once(
    stacks: Callable[[Table], Stack],
) -> None:
    table = config(tiny("chat", "1GiB"))
    table["api"] = {**dict(table.get("api") or {}), "socket": False, "read": "token"}
    headway = stacks(table)
    headway.start_gate()
    headway.start_daemon(wait=False)
    run = headway.home / "run"
    headway.wait(lambda: (run / "api-port").exists() and (run / "admin.token").exists(), "the admin token")
    assert stat.S_IMODE((run / "admin.token").stat().st_mode) == 0o600
    assert not (run / "headway.sock").exists()
    us = Client(address(run, {}))
    headway.wait(lambda: headway.tried(lambda: us.get("/api/v1/status")) is not None, "an answer")
    assert status_of(f"{headway.api_url}/api/v1/status") == 401

    secret = us.post("/api/v1/tokens", {"name": "ci", "scopes": ["read"]})["token"]
    assert status_of(f"{headway.api_url}/api/v1/status", secret) == 200
    with pytest.raises(Answered):
        Client(address(run, {"HEADWAY_URL": headway.api_url, "HEADWAY_TOKEN": secret})).post(
            "/api/v1/mode", {"mode": "shadow"}
        )
    models = f"{headway.front}/v1/models"
    headway.wait(lambda: status_of(models, secret) == 200, "the gate's word on the token")
    assert status_of(models, "hw_wrong") == 401
    table_ = wire.read_table((run / "routes.json").read_bytes())
    assert [token.name for token in table_.tokens] == ["ci"]

    us.delete("/api/v1/tokens/ci")
    headway.wait(lambda: status_of(models, secret) == 401, "the end of the token at the gate")
    assert secret not in headway.logs() and secret not in json.dumps(us.get("/api/v1/history"))


# ---------------------------------------------------------------- secrets

WORD = "s3cret"  # in each of them
PIN = "s3cret-pin-123456"
ENV = {"HF_TOKEN": "s3cret-environment"}
OPEN = ("look", "open")
NOT_GETS = ("/api/v1/events",)  # it does not end by itself


def told_to_anybody(headway: Stack, targets: list[str]) -> dict[str, str]:
    """What each GET answers to somebody who says not who it is, by its path, and the daemon's and the gate's figures."""
    document = json.loads(text_of(f"{headway.api_url}/openapi.json"))
    found = {}
    for path, methods in document["paths"].items():
        if "get" not in methods or path in NOT_GETS:
            continue
        names = targets if "{" in path else [""]
        for name in names:
            asked = path.replace("{target}", name).replace("{name}", name)
            found[asked] = text_of(headway.api_url + asked)
    for asked in ("/api/v1/history?limit=1000", "/api/v1/requests?limit=1000", "/api/v1/jobs?ended=true"):
        found[asked] = text_of(headway.api_url + asked)
    found["gate /metrics"] = text_of(f"{headway.front}/metrics")
    return found


def text_of(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return str(reply.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode())


def test_no_secret_is_in_an_open_answer_a_log_a_figure_or_a_list_of_processes(
    stack: Callable[[Table], Stack],
) -> None:
    """Of a job's and a server's environment, a token, the PIN, a webhook's address, a prompt and its answer."""
    table = config(tiny("chat", "8GiB", env=ENV), sleeper("train", size="2GiB", placement="share", env=ENV))
    port = free_port()  # nobody listens there: what is logged of the failure counts too
    table["alerts"] = {"webhook": f"http://ada:s3cret-password@127.0.0.1:{port}/s3cret-path?key=s3cret-query"}
    headway = up(stack, table)
    secret = headway.post("/api/v1/tokens", {"name": "ci", "scopes": ["read"]})["token"]
    Client(address(headway.home / "run", {})).put("/api/v1/pin", {"pin": PIN})
    added = headway.post(
        "/api/v1/jobs", {"argv": ["sleep", "600"], "name": "mine", "gpus": 0, "env": ENV, "gpu": 0}
    )["id"]
    for job in ("train", added):
        pid = headway.wait_job(job, "running")["pid"]
        assert "s3cret-environment" in Path(f"/proc/{pid}/environ").read_text(), (
            "it is there, for the job alone"
        )
    (test,) = headway.post("/api/v1/alerts/test")
    assert not test["sent"] and "s3cret" not in str(test)
    prompt = {"model": "chat", "messages": [{"role": "user", "content": "s3cret-prompt"}]}
    assert call(headway, CHAT, "POST", prompt).status == 200
    with pytest.raises(Answered, match="PIN"):
        headway.post("/api/v1/session", {"pin": "s3cret-wrong-pin"})
    assert status_of(f"{headway.api_url}/api/v1/status", secret) == 200

    headway.wait(lambda: text_of(f"{headway.api_url}/api/v1/requests") != "[]", "the request's line")
    places = told_to_anybody(headway, ["train", added, "chat", "sim0"])
    assert len(places) > 30
    for verb in (
        ["status"],
        ["ps"],
        ["show", "train"],
        ["show", "chat"],
        ["events"],
        ["config", "show", "--running"],
    ):
        places[f"headway {' '.join(verb)}"] = cli(headway, *verb, "--json").stdout
    places["logs"] = headway.logs()
    for file in (*headway.home.rglob("logs/**/*"), *headway.home.rglob("requests/**/*")):
        if file.is_file():
            places[str(file)] = file.read_text(errors="replace")
    for process in psutil.process_iter(["pid", "cmdline"]):
        places[f"pid {process.pid}"] = " ".join(process.info["cmdline"] or ())
    leaks = [(place, word) for place, text in places.items() for word in (WORD, secret) if word in text]
    assert not leaks
    document = Client(address(headway.home / "run", {})).get("/api/v1/jobs/train")
    assert "env" not in document
    loose = [
        str(path)
        for path in headway.home.rglob("*")
        if not path.is_symlink()
        and path.stat().st_mode & 0o077
        and path.name not in ("config.toml", "reports")
    ]
    assert not loose
