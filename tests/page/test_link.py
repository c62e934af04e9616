"""Between the page and its daemon: what the page says when that one hangs, or was started again."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.e2e.stack import Stack
from tests.page.visit import LIMIT_MS, Visit
from tests.page.world import PIN

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]


@contextmanager
def hung(world: Stack) -> Iterator[None]:
    """The daemon is there, keeps its connections, and does nothing."""
    pid = world.pid("daemon")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_daemon_that_hangs_is_said_to_and_no_age_counts_on(world: Stack, visit: Come, theme: str) -> None:
    world.post("/api/v1/jobs/nightly/release")  # so that there is an age of seconds
    one = visit(color_scheme=theme)
    following = one.page.get_by_role("region", name="Next").locator("li", has_text="nightly")
    following.wait_for()
    link = one.page.locator("[data-link]")
    with hung(world):
        one.page.locator("[data-link=quiet]").wait_for()
        said, then = link.text_content() or "", following.text_content() or ""
        expect(link).not_to_have_text(said, timeout=LIMIT_MS)
        assert following.text_content() == then
        assert one.violations() == []
    one.live()
    expect(following).not_to_have_text(then, timeout=LIMIT_MS)


def test_a_session_that_a_new_daemon_does_not_know_is_said_to_be_over(world: Stack, visit: Come) -> None:
    """The button says Unlock again, and why; the next change says it too, and leads back in."""
    one = visit()
    one.page.goto(world.post("/api/v1/session/tickets")["url"])
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.may_be_away, one.refused = True, {401, 403}
    world.kill("daemon")
    one.page.get_by_role("button", name="Unlock").wait_for()
    one.live()
    one.said("started again").wait_for()
    one.page.get_by_role("button", name="Hold the queue").click()
    one.page.get_by_role("dialog").get_by_text("started again").wait_for()
    assert one.violations() == []
    one.give_pin(PIN)
    one.said("The queue is held").wait_for()
    one.page.get_by_role("button", name="Lock", exact=True).click()
    one.page.get_by_role("button", name="Unlock").click()
    assert one.page.get_by_role("dialog").get_by_text("session is over").count() == 0, "by one's own wish"


def test_a_session_is_over_where_there_is_no_pin_too(world: Stack, visit: Come) -> None:
    one = visit()
    one.page.goto(world.post("/api/v1/session/tickets")["url"])
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.may_be_away, one.refused = True, {401, 403}
    world.client.delete("/api/v1/pin")
    try:
        world.kill("daemon")
        one.said("started again").wait_for()
        one.page.reload()
        one.live()
        one.page.get_by_role("button", name="Hold the queue").click()
        dialog = one.page.get_by_role("dialog")
        for way in ("headway open", "headway pin set"):
            dialog.get_by_text(way, exact=True).wait_for()
    finally:
        world.wait(lambda: world.tried(lambda: [world.client.put("/api/v1/pin", {"pin": PIN})]), "the PIN")
