"""What is next comes first: who waits for another job, or for somebody to change something, stands behind."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.stack import Stack
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

SLEEP = ["sleep", "600"]


@pytest.fixture
def line(world: Stack) -> Iterator[list[str]]:
    """One that waits for another, one that fits nowhere, and one that could start, in that order of the line."""
    world.post("/api/v1/jobs/talker/stop")
    world.post(
        "/api/v1/jobs", {"argv": SLEEP, "name": "busy", "gpu": "1GiB", "placement": "share", "tags": ["line"]}
    )
    world.wait_job("busy", "running")
    follows = {"argv": SLEEP, "name": "follows", "gpu": "1GiB", "after": ["busy"], "placement": "share"}
    fits = {
        "argv": SLEEP,
        "name": "fits",
        "gpu": "20GiB",
        "placement": "share",
        "resumable": True,
    }  # beside no model
    for body in (follows, {**fits, "name": "huge", "gpu": "900GiB"}, fits):
        world.post("/api/v1/jobs", {**body, "tags": ["line"]})
    yield ["fits", "follows", "huge"]
    for verb in ("cancel", "clear"):
        world.wait(
            lambda: world.tried(lambda: world.post(f"/api/v1/select/{verb}", {"targets": ["tag=line"]})),  # noqa: B023
            verb,
        )


def test_next_begins_with_who_could_start(world: Stack, visit: Callable[..., Visit], line: list[str]) -> None:
    items = visit().page.get_by_role("region", name="Next").locator("li")
    expect(items).to_have_count(len(line))
    assert items.locator("strong").all_inner_texts() == [f"{name} ({world.job(name)['id']})" for name in line]
    assert [one.strip() for one in items.locator("span.number:first-child").all_inner_texts()] == [
        "1.",
        "–",
        "–",
    ]
    assert world.api("/api/v1/outlook")["next"] == world.job("fits")["id"]
