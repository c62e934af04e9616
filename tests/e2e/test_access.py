"""Tokens in a real Headway: one store for the API and the gate, and the way in where there is no socket."""

import json
import stat
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from headway.client import Answered, Client, address
from headway.core import wire
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, tiny

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
