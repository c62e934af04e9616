"""The page and answers that are lost, broken, refused or late: nothing is done twice, and nothing is said that is untrue."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from tests.e2e.stack import Stack
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]
HIDDEN = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden })
  document.dispatchEvent(new Event("visibilitychange"))
}"""


def done_and_lost(route: Route) -> None:
    """The daemon does it, and its answer never comes."""
    route.fetch()
    route.abort()


@pytest.mark.parametrize(
    ("opens", "button", "path"),
    [("Open a window", "Open it", "windows"), ("Add a job", "Add it", "jobs")],
)
def test_what_was_done_and_never_answered_is_not_done_twice(
    world: Stack, visit: Come, opens: str, button: str, path: str
) -> None:
    def there() -> set[str]:
        rows = world.api(f"/api/v1/{path}")
        return {row["id"] for row in (rows["jobs"] if path == "jobs" else rows)}

    one = visit()
    one.may_be_away = True
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    if path == "jobs":
        one.open_tab("jobs")
    before = there()
    one.page.route(f"**/api/v1/{path}", done_and_lost, times=1)
    one.page.get_by_role("button", name=opens).click()
    dialog = one.page.get_by_role("dialog")
    dialog.get_by_role("button", name=button).click()
    one.said("Nobody answers").wait_for()
    (new,) = there() - before
    dialog.get_by_role("button", name=button).click()
    dialog.wait_for(state="detached")
    assert there() == before | {new}
    world.post(f"/api/v1/{path}/{new}/{'cancel' if path == 'jobs' else 'stop'}")


def test_a_tab_that_nobody_looks_at_lets_its_stream_go_and_has_it_again(world: Stack, visit: Come) -> None:
    one = visit()
    one.page.evaluate(HIDDEN, True)
    expect(one.page.locator("[data-link]")).to_have_attribute("data-link", "away", timeout=60_000)
    one.page.evaluate(HIDDEN, False)
    one.live()


def test_what_the_daemon_cannot_read_is_said_until_it_can(world: Stack, visit: Come) -> None:
    one = visit()
    one.refused = {503}
    words = "the table of events cannot be read"
    problem = {"type": "", "title": "", "status": 503, "code": "store_failed", "detail": words, "facts": {}}
    one.page.route("**/api/v1/history*", lambda route: route.fulfill(status=503, json=problem))
    one.open_tab("history")
    said = one.page.get_by_role("alert").get_by_text(words)
    said.wait_for()
    one.page.unroute("**/api/v1/history*")
    said.wait_for(state="detached")


def test_an_address_that_is_no_encoding_is_an_id_that_nothing_has(world: Stack, visit: Come) -> None:
    one = visit()
    one.refused = {404, 422}
    one.open_tab("jobs/%E0%A4%A")
    one.page.get_by_text(re.compile("[Nn]othing has that id")).first.wait_for()


def test_recipes_that_nobody_told_are_asked_for_again(world: Stack, visit: Come) -> None:
    one = visit()
    one.may_be_away = True
    one.open_tab("jobs")
    one.page.route("**/api/v1/recipes*", lambda route: route.abort(), times=1)
    one.page.get_by_role("button", name="Add a job").click()
    one.page.get_by_role("dialog").get_by_label("Recipe").wait_for()


def test_a_file_that_could_not_be_saved_is_said(world: Stack, visit: Come) -> None:
    one = visit()
    one.may_be_away = True
    one.open_tab("history/requests")
    one.page.get_by_role("button", name="Save as CSV").wait_for()
    one.page.route("**/api/v1/requests*", lambda route: route.abort())
    one.page.get_by_role("button", name="Save as CSV").click()
    one.said("nothing was saved").wait_for()
