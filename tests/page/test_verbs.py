"""Every verb of the command line that changes a job, a model server, a lease or a window is on the page: by mouse and
by keyboard. A new verb, or a new option of one, is done in deeds.py, or named here with why it is not."""

from collections.abc import Callable, Iterator

import click
import pytest
from playwright.sync_api import Browser

import tests.page.deeds_of_others  # noqa: F401  # its deeds are known by that
from headway.cli.main import cli
from tests.e2e.stack import Stack
from tests.e2e.tables import config, sleeper, tiny
from tests.page.deeds import DEEDS, OPTIONS, TAG, Scene
from tests.page.hands import By, Hands
from tests.page.visit import Visit
from tests.page.world import PIN, running
from tests.processes import free_port

NOT_THERE = {
    "it only tells": (
        "status", "top", "ps", "why", "log", "follow", "lease ls", "events", "show", "service ls", "service show",
        "wait", "window ls", "replay", "sim",
    ),
    "it gives a command, or runs one in a terminal": ("run",),
    "it says who may do what: a browser that is let in changes none of that": (
        "token create", "token list", "token revoke", "pin clear", "pin set", "open",
    ),
    "it is about Headway's own processes and files": (
        "init", "check", "doctor", "config apply", "config check", "config path", "config schema", "config show",
        "up", "down", "alert test", "daemon", "gate", "completion",
    ),
}  # fmt: skip
NO_OPTION = {
    "how it is told": ("--json", "--quiet", "--watch"),
    "a page shows who is meant, and goes on to show what comes of it": ("--dry-run", "--wait", "--timeout"),
}
GIVES_A_COMMAND = (
    "--gpu", "--gpus", "--device", "--name", "--saved", "--progress", "--summary", "--health", "--park", "--resume",
    "--step-aside", "--max-wait", "--parked", "--host-memory", "--parked-host", "--parked-disk", "--cwd", "--env",
    "--resumable", "--driver",
)  # fmt: skip  # of `headway add -- CMD`: a recipe has its own


def verbs(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every verb with all the words that name it."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from verbs(below, (*path, name))


@pytest.mark.core
def test_each_verb_of_the_command_line_is_on_the_page_or_said_why_not() -> None:
    done = {key.partition(":")[0] for key in DEEDS}
    left_out = {verb for several in NOT_THERE.values() for verb in several}
    assert not done & left_out
    assert done | left_out == {verb for verb, _ in verbs()}


@pytest.mark.core
def test_each_option_of_a_verb_on_the_page_is_there_too() -> None:
    general = {option for several in NO_OPTION.values() for option in several}
    for verb, command in verbs():
        if verb not in OPTIONS:
            continue
        known = (
            {max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)}
            - general
            - (set(GIVES_A_COMMAND) if verb == "add" else set())
        )
        assert known == OPTIONS[verb], verb


# ------------------------------------------------------------------ done by mouse and by keyboard


@pytest.fixture(scope="module")
def stack_of_verbs(browser: Browser) -> Iterator[Stack]:
    """One Headway of this file's own: much is ended and forgotten in it."""
    nightly = sleeper("nightly", size="1GiB", placement="share", hold=True)
    table = config(tiny("chat", "8GiB"), nightly, max_active_jobs=9, gap_min=3600)
    with running({**table, "api": {"port": free_port()}}) as headway:
        headway.client.put("/api/v1/pin", {"pin": PIN})
        headway.ask("chat")
        yield headway


@pytest.fixture
def world(stack_of_verbs: Stack) -> Iterator[Stack]:
    """It, with none of the jobs that the test before made."""
    stack_of_verbs.wait_service("chat", "awake")
    yield stack_of_verbs
    mine = [row["id"] for row in stack_of_verbs.jobs() if TAG in row["tags"]]
    if mine:
        going = [row["id"] for row in stack_of_verbs.jobs(ended=False) if row["id"] in mine]
        if going:
            stack_of_verbs.post("/api/v1/select/cancel", {"targets": going})
        forget = {"targets": mine}
        stack_of_verbs.wait(
            lambda: stack_of_verbs.tried(lambda: stack_of_verbs.post("/api/v1/select/clear", forget)),
            "none of them",
        )
    stack_of_verbs.post("/api/v1/queue/release")


@pytest.mark.e2e
@pytest.mark.parametrize("by", ["mouse", "keyboard"])
@pytest.mark.parametrize("name", sorted({one.__name__ for one in DEEDS.values()}))
def test_it_can_be_done(world: Stack, visit: Callable[..., Visit], name: str, by: By) -> None:
    deed = next(one for one in DEEDS.values() if one.__name__ == name)
    one = visit()
    one.page.goto(world.post("/api/v1/session/tickets")["url"])
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.live()
    deed(Scene(world, Hands(one, by)))
