"""Between the page and its daemon: what the page says when that one hangs, or was started again."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.e2e.stack import Stack
from tests.page.visit import LIMIT_MS, Visit

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
