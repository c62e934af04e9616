"""Viewers over restarts: whoever follows the daemon misses nothing of what happened, and sees nothing twice."""

import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client, address
from headway.errors import HeadwayError
from tests.e2e.kills import moment
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, sleeper

pytestmark = pytest.mark.e2e

KILLS = 3
OVER = ("done", "failed", "cancelled", "lost")


class Mirror:
    """The jobs that are not over, as the event stream alone shows them: each end of it is gone on from."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last_id: str | None = None
        self.jobs: dict[str, str] = {}
        self.snapshots = 0
        self.leave = False
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        while not self.leave:
            try:
                for event in self._client.events(after=self._last_id):
                    self._take(event.name, event.data)
                    self._last_id = event.id or self._last_id
                    if self.leave:
                        return
            except HeadwayError:
                continue

    def _take(self, name: str, data: Any) -> None:
        if name == "snapshot":
            self.snapshots += 1
            self.jobs = {row["id"]: row["state"] for row in (*data["running"], *data["queued"])}
        elif name == "job.updated":
            self.jobs[data["id"]] = data["state"]
        elif name == "holder.gone":
            self.jobs.pop(data["id"], None)
        self.jobs = {hid: state for hid, state in self.jobs.items() if state not in OVER}

    def close(self) -> None:
        self.leave = True
        self._thread.join(40)


def test_a_follower_of_the_audit_and_a_viewer_of_the_board_miss_nothing_over_kills_of_the_daemon(
    stacks: Callable[[Table], Stack],
) -> None:
    headway = stacks(config(sleeper("first", size="2GiB", placement="share")))
    chance = random.Random(5)
    headway.start_gate()
    headway.start_daemon()
    lines = headway.home / "followed"
    follow = (
        f"exec {sys.executable} -m headway.cli.main --home {headway.home} events -f --json -n 1000 > {lines}"
    )
    headway.by_hand(["sh", "-c", follow])
    mirror = Mirror(Client(address(headway.home / "run", {})))
    try:
        for _ in range(KILLS):
            ids = [add(headway) for _ in range(6)]
            for hid in ids[::2]:
                headway.post(f"/api/v1/jobs/{hid}/cancel")
            moment(chance, 0.2)
            headway.kill("daemon")
            moment(chance, 0.3)
            headway.start_daemon()
            add(headway)
        last = add(headway)
        headway.post(f"/api/v1/jobs/{last}/cancel")
        seen = headway.wait(lambda: up_to(lines, last), "the last line of the follower")
        known = headway.client.get("/api/v1/history", limit=1000)
        assert [row["id"] for row in seen] == [row["id"] for row in known if row["id"] <= seen[-1]["id"]]
        assert mirror.snapshots >= KILLS, (
            "a new daemon's revisions are its own: it begins with the whole board"
        )
        headway.wait(lambda: mirror.jobs == board(headway), "the same board")
    finally:
        mirror.close()


def up_to(lines: Path, last: str) -> list[dict[str, Any]] | None:
    """What the follower printed, once that job's end is in it."""
    rows: list[dict[str, Any]] = [
        json.loads(text) for text in lines.read_text().rpartition("\n")[0].splitlines()
    ]
    return rows if any((row["code"], row["holder"]) == ("job.cancelled", last) for row in rows) else None


def add(headway: Stack) -> str:
    return str(
        headway.post("/api/v1/jobs", {"argv": ["sleep", "600"], "name": "one", "hold": True, "gpu": 0})["id"]
    )


def board(headway: Stack) -> dict[str, str]:
    found = headway.client.get("/api/v1/status")
    return {row["id"]: row["state"] for row in (*found["running"], *found["queued"])}
