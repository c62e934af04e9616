"""The page in a real Chromium, before a whole Headway."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from headway.api.web import FILE
from tests.e2e.stack import Row, Stack
from tests.page.visit import Visit
from tests.page.world import PIN, WAITING, running, table

ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def missing() -> str | None:
    """What a machine lacks for these tests."""
    if not FILE.exists():
        return "the page is not built: `make page`"
    return None if shutil.which("chromium") else "Chromium is not installed (Debian: apt install chromium)"


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for these tests of a worker. While it is there, its loop is this thread's: no other can run."""
    if word := missing():
        assert not os.environ.get("HEADWAY_CI"), word
        pytest.skip(word)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def shared_world(browser: Browser) -> Iterator[Stack]:
    """One Headway for these tests of a worker: it takes longer to start than a test takes."""
    with running(table()) as headway:
        headway.client.put("/api/v1/pin", {"pin": PIN})
        headway.ask("chat")
        yield headway


@pytest.fixture
def world(shared_world: Stack) -> Stack:
    """That Headway as a test finds it."""
    return put_in_order(shared_world)


def put_in_order(shared_world: Stack) -> Stack:
    """Whatever a test before left: `talker` runs beside the model, the others are held and in their order."""

    def ask(path: str, body: Row | None = None) -> None:
        """A database on a disk that others write to may be silent for a while: a 503, and it is asked again."""
        shared_world.wait(lambda: shared_world.tried(lambda: shared_world.post(path, body)), path)

    ask("/api/v1/queue/hold")
    ask("/api/v1/mode", {"mode": "live"})
    ask("/api/v1/prod-only", {"on": False})
    for name in WAITING:
        ask(f"/api/v1/jobs/{name}/release")
    for name in WAITING:
        ask("/api/v1/queue/move", {"target": name, "where": "bottom"})
    for name in WAITING:
        ask(f"/api/v1/jobs/{name}/hold")
    ask("/api/v1/queue/release")
    ask("/api/v1/jobs/talker/release")
    shared_world.wait_job("talker", "running")
    return shared_world


@pytest.fixture
def visit(browser: Browser, world: Stack) -> Iterator[Callable[..., Visit]]:
    """Opens the page; whatever the browser complains of fails the test at its end."""
    made: list[Visit] = []

    def come(**options: object) -> Visit:
        made.append(Visit(browser, world.api_url, options))
        return made[-1]

    yield come
    print(world.board())  # of a test that failed, as the page below
    for one in made:
        print(one.page.locator("main").inner_text())
    complaints = [word for one in made for word in one.complaints]
    for one in made:
        one.close()
    assert not complaints
