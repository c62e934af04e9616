"""What must hold of the whole page, whichever tab is open."""

from collections.abc import Callable

import pytest

from tests.e2e.loads import cli
from tests.e2e.stack import Stack
from tests.page.hands import Hands
from tests.page.visit import Visit
from tests.page.world import PIN, WAITING

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]
TABS = ("now", "jobs", "jobs/talker", "history", "help")


def released(world: Stack) -> None:
    for name in WAITING:
        world.wait(lambda: world.tried(lambda: world.post(f"/api/v1/jobs/{name}/release")), name)  # noqa: B023


def order(world: Stack) -> list[str]:
    return [row["name"] for row in world.api("/api/v1/queue")["jobs"]]


def test_nothing_of_any_tab_scrolls_sideways_on_a_phone(world: Stack, visit: Come) -> None:
    released(world)
    one = visit(is_mobile=True, has_touch=True)
    one.page.set_viewport_size({"width": 360, "height": 740})
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    for tab in TABS:
        one.open_tab(tab)
        one.page.locator("main h2").first.wait_for(state="attached")
        one.page.wait_for_function("document.querySelectorAll('main *').length > 20")
        assert one.page.evaluate("document.documentElement.scrollWidth") <= 360, tab
    one.open_tab("jobs/talker")
    one.page.get_by_role("button", name="Edit", exact=True).tap()
    one.page.get_by_role("dialog").get_by_label("priority").wait_for()
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_what_can_be_opened(world: Stack, visit: Come, theme: str) -> None:
    released(world)
    one = visit(color_scheme=theme)
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    dialog = one.page.get_by_role("dialog")
    one.page.get_by_role("button", name="Claim a program").click()
    dialog.get_by_label("match").wait_for()
    assert one.violations() == []
    one.page.keyboard.press("Escape")
    one.open_tab("jobs")
    one.page.get_by_text("In words").click()
    one.page.get_by_role("list", name="The next hours in words").locator("li").first.wait_for()
    one.page.get_by_label("Choose all of these").check()
    assert one.violations() == []
    many = one.page.get_by_role("group", name="Chosen jobs")
    for name, label in (("Edit", "labels"), ("Move", "Where")):
        many.get_by_role("button", name=name, exact=True).click()
        dialog.get_by_label(label).first.wait_for()
        assert one.violations() == []
        one.page.keyboard.press("Escape")
        dialog.wait_for(state="detached")


def test_a_second_tab_is_in_step_with_what_the_first_one_drags(world: Stack, visit: Come) -> None:
    released(world)
    one, second = visit(), visit()
    for tab in (one, second):
        tab.open_tab("jobs?state=queued")
        tab.page.locator("tbody tr", has_text="nightly").wait_for()
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.page.locator("tbody tr", has_text="nightly").drag_to(
        one.page.locator("tbody tr", has_text="render"), target_position={"x": 100, "y": 5}
    )
    wanted = ["nightly", "render", "train"]
    world.wait(lambda: order(world) == wanted, "the order")
    for tab in (one, second):
        world.wait(
            lambda: tab.page.locator("tbody td.name a").all_inner_texts() == wanted,  # noqa: B023
            "the same order in both tabs",
        )


def test_what_was_typed_and_where_one_was_outlives_a_new_daemon(world: Stack, visit: Come) -> None:
    """The filter, the open job and the form are as before; the PIN is asked for again, and the change is done."""
    released(world)
    one = visit()
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.open_tab("jobs/nightly?q=tag%3Deval")
    details = one.page.get_by_role("region", name="Details")
    details.get_by_role("button", name="Edit", exact=True).click()
    goal = one.page.get_by_role("dialog").get_by_label("goal", exact=True)
    goal.fill("typed before")
    one.may_be_away, one.refused = True, {401, 403}
    world.kill("daemon")
    one.page.get_by_text("reconnecting").wait_for()
    one.live()
    details.get_by_role(
        "button", name="Show the log"
    ).wait_for()  # the log does not put a dialog over the form
    assert goal.input_value() == "typed before"
    one.page.get_by_role("dialog").get_by_role("button", name="Change it").click()
    pin = one.page.get_by_role("dialog", name="Give the PIN")
    pin.get_by_label("PIN").fill(PIN)
    pin.get_by_role("button", name="Let me in").click()
    details.get_by_text("typed before").wait_for()
    assert "q=tag%3Deval" in one.page.url
    assert one.page.locator("tbody td.name a").all_inner_texts() == ["nightly"]


def test_wrong_pins_are_slowed_down_and_the_page_says_for_how_long(world: Stack, visit: Come) -> None:
    one = visit()
    one.refused = {401, 429}
    one.page.get_by_role("button", name="Unlock").click()
    answers = []
    for pin in (*(f"wrong-{number}" for number in range(6)), PIN):
        with one.page.expect_response(
            lambda reply: reply.url.endswith("/api/v1/session") and reply.request.method == "POST"
        ) as found:  # the dialog looks, too, whether there is a session
            one.give_pin(pin)
        answers.append(found.value.status)
    assert answers == [401] * 5 + [429] * 2, "the right one too, until the time is over"
    one.page.get_by_role("dialog").get_by_role("alert").get_by_text(" s").wait_for()
    one.page.keyboard.press("Escape")
    one.page.get_by_role("button", name="Hold the queue").click()
    one.page.get_by_role("dialog", name="Give the PIN").wait_for()
    assert world.api("/api/v1/status")["queue_held_by"] is None
    one.may_be_away = True
    world.kill("daemon")  # the next one counts anew, for the tests after this
    one.page.get_by_text("reconnecting").wait_for()
    one.live()


def test_every_change_without_a_pin_is_refused_and_changes_nothing(world: Stack, visit: Come) -> None:
    """What a page may send, sent without: all that change something, from the API's own document."""
    one = visit()
    one.refused = {401, 404, 405}
    document = world.api("/openapi.json")
    before = world.last_event()
    sent = 0
    for path, methods in document["paths"].items():
        for method in methods.keys() & {"post", "put", "patch", "delete"}:
            if path.startswith("/api/v1/session"):
                continue
            url = path.replace("{verb}", "hold")
            for word in ("target", "name", "window", "id", "token"):
                url = url.replace(f"{{{word}}}", "talker")
            status = one.page.evaluate(
                "async ([url, method]) => (await fetch(url, {method, headers: {'Content-Type': 'application/json'},"
                " body: '{}'})).status",
                [url.lstrip("/"), method.upper()],
            )
            assert status == 401, (method, path, status)
            sent += 1
    assert sent > 15
    assert world.job("talker")["wish"] == "run" and world.api("/api/v1/status")["queue_held_by"] is None
    assert [one["code"] for one in world.events(after=before) if "by" in one["facts"]] == []


def test_top_says_what_now_says(world: Stack, visit: Come) -> None:
    """Both show the same document: whoever stands on one stands on the other."""
    released(world)
    one = visit()
    one.page.get_by_role("region", name="Next").locator("li", has_text="nightly").wait_for()
    board = world.api("/api/v1/status")
    text = cli(world, "top", "-n", "1").stdout
    for row in (*board["services"], *board["running"], *board["queued"]):
        assert row["name"] in text and row["state"].replace("_", " ") in text
        assert one.page.get_by_text(row["name"]).count() > 0
    for device in board["devices"]:
        for share in device["holders"]:
            assert share["name"] in text
            assert (
                one.page.get_by_role("article", name=f"Device {device['name']}")
                .get_by_text(share["name"])
                .count()
            )
    assert [word for word in ("mode live", "clients connect to") if word not in text] == []


def test_every_tab_is_reached_and_left_by_the_keyboard_alone(world: Stack, visit: Come) -> None:
    one = visit()
    hands = Hands(one, "keyboard")
    for tab in ("Jobs", "History", "Help", "Now"):
        hands.press(one.page.get_by_role("link", name=tab, exact=True))
        one.page.get_by_role("heading", name=tab, exact=True, level=2).wait_for(state="attached")
    one.page.keyboard.press("?")
    one.page.get_by_role("heading", name="Keys").wait_for()
    one.open_tab("jobs/talker")
    one.page.get_by_role("region", name="Details").wait_for()
    one.page.keyboard.press("Escape")
    one.page.get_by_role("region", name="Details").wait_for(state="detached")
    one.page.keyboard.press("/")
    one.page.keyboard.type("night")
    one.page.wait_for_url("**q=night**")
