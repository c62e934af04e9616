"""The Jobs tab: the order by mouse and by keyboard, the list, one job with its log, and adding one."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.stack import Stack
from tests.page.talker import MARKUP
from tests.page.visit import Visit
from tests.page.world import PIN, WAITING

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]


@pytest.fixture
def queue(world: Stack) -> Iterator[Stack]:
    """With all that waits in line: render, train, nightly."""
    for name in WAITING:
        world.post(f"/api/v1/jobs/{name}/release")
    yield world


def order(world: Stack) -> list[str]:
    return [row["name"] for row in world.api("/api/v1/queue")["jobs"]]


def shown(one: Visit) -> list[str]:
    return one.page.locator("tbody tr[draggable=true] td.name a").all_inner_texts()


def opened(visit: Come, query: str = "", **options: object) -> Visit:
    one = visit(**options)
    one.open_tab(f"jobs{query}")
    one.page.locator("tbody tr td.name").first.wait_for()
    return one


def until(world: Stack, one: Visit, wanted: list[str]) -> None:
    world.wait(lambda: order(world) == wanted, f"the order {wanted}, and not {order(world)}")
    world.wait(lambda: shown(one) == wanted, f"{wanted} on the page, and not {shown(one)}")


def test_the_order_by_keyboard_by_buttons_and_by_drag_is_the_apis(queue: Stack, visit: Come) -> None:
    one = opened(visit)
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    row = one.page.locator("tbody tr", has_text="nightly")
    row.focus()
    row.press("Alt+ArrowUp")
    until(queue, one, ["render", "nightly", "train"])
    row.press("Alt+Home")
    until(queue, one, ["nightly", "render", "train"])
    row.press("Alt+End")
    until(queue, one, ["render", "train", "nightly"])
    one.page.locator("tbody tr", has_text="render").press("j")
    one.page.locator("tr:focus", has_text="train").wait_for()
    one.page.keyboard.press("Enter")
    one.page.get_by_role("button", name="Run next").click()
    until(queue, one, ["train", "render", "nightly"])
    one.page.get_by_role("button", name="Close the details").click()
    one.page.locator("tbody tr", has_text="nightly").drag_to(
        one.page.locator("tbody tr", has_text="train"), target_position={"x": 100, "y": 5}
    )
    until(queue, one, ["nightly", "train", "render"])


def test_a_move_in_an_order_that_was_not_seen_is_refused_in_words(queue: Stack, visit: Come) -> None:
    """Somebody else is quicker: the page moves nothing, says so, and shows the new order."""
    one = opened(visit)
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.refused = {412}

    def quicker(route: object) -> None:
        queue.post("/api/v1/queue/move", {"target": "nightly", "where": "top"})
        route.continue_()  # type: ignore[attr-defined]

    one.page.route("**/api/v1/queue/move", quicker, times=1)
    one.page.locator("tbody tr", has_text="train").press("Alt+ArrowUp")
    one.page.locator(".note.wrong").wait_for()
    until(queue, one, ["nightly", "render", "train"])


def test_a_log_needs_the_pin_and_is_text_in_colours(world: Stack, visit: Come) -> None:
    one = opened(visit)
    one.page.get_by_role("link", name="talker").click()
    one.page.get_by_role("button", name="Show the log").click()
    one.give_pin(PIN)
    log = one.page.get_by_role("log", name="Log")
    log.get_by_text(MARKUP, exact=False).wait_for()
    assert log.locator("b, img, script").count() == 0
    assert log.locator(".red").inner_text() == "red" and log.locator(".green.bold").inner_text() == "green"
    assert "\x1b" not in log.inner_text() and "title" not in log.inner_text()


def test_a_job_that_would_lose_its_work_is_started_anyway_only_when_that_is_said(
    world: Stack, visit: Come
) -> None:
    world.post("/api/v1/queue/hold")  # so that it does not take the model's place under the other tests
    held = {"argv": ["sleep", "60"], "name": "careless", "gpu": "20GiB", "driver": "auto", "hold": True}
    made = world.post("/api/v1/jobs", held)["id"]
    assert world.job(made)["step_aside"] == "none"
    one = opened(visit, f"/{made}")
    one.unlock()
    details = one.page.get_by_role("region", name="Details")
    details.get_by_role("button", name="Start anyway").click()
    assert "lost" in one.page.get_by_role("dialog").inner_text()
    one.page.get_by_role("dialog").get_by_role("button", name="Start anyway").click()
    one.said("Start anyway").wait_for()
    world.wait(lambda: world.job(made)["code"] == "queue_held", "nothing but the queue's hold in its way")
    world.post(f"/api/v1/jobs/{made}/cancel")


def test_the_keys_work_on_a_page_that_was_just_opened(queue: Stack, visit: Come) -> None:
    one = opened(visit, "?state=queued")
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.page.evaluate("document.activeElement.blur()")
    for wanted in ("render", "train"):
        one.page.keyboard.press("j")
        one.page.locator("tr:focus", has_text=wanted).wait_for()
    one.page.keyboard.press("Alt+ArrowUp")
    until(queue, one, ["train", "render", "nightly"])
    one.page.keyboard.press("/")
    one.page.keyboard.type("night")
    one.page.wait_for_url("**q=night**")
    one.page.keyboard.press("Escape")
    one.page.wait_for_url(lambda url: "q=" not in url)
    one.page.keyboard.press("?")
    one.page.get_by_role("heading", name="Keys").wait_for()


def test_now_says_how_many_jobs_failed_and_leads_to_them(world: Stack, visit: Come) -> None:
    made = world.post("/api/v1/jobs", {"argv": ["false"], "name": "broken", "gpus": 0, "gpu": 0})["id"]
    world.wait_job(made, "failed")
    one = visit()
    one.page.get_by_role("link", name="in the last 24 h").click()
    one.page.locator("tbody tr", has_text="broken").wait_for()
    states = one.page.get_by_role("group", name="States")
    known = world.api("/api/v1/status")["ended"]["failed"]
    states.get_by_role("button", name=f"failed {known}", exact=True).wait_for()
    world.post("/api/v1/select/clear", {"targets": [made]})
    rest = f"failed {known - 1}" if known > 1 else "failed"
    states.get_by_role("button", name=rest, exact=True).wait_for()


def test_a_recipe_is_added_with_the_fields_of_the_api(world: Stack, visit: Come) -> None:
    one = opened(visit)
    one.unlock()
    one.page.get_by_role("button", name="Add a job").click()
    dialog = one.page.get_by_role("dialog")
    dialog.get_by_label("Recipe").select_option("nightly")
    dialog.get_by_label("priority").fill("70")
    dialog.get_by_label("tags").fill("night, page")
    dialog.get_by_label("hold").check()
    dialog.get_by_role("button", name="Add it").click()
    dialog.wait_for(state="detached")
    row = one.page.locator("tbody tr", has_text="page")
    row.wait_for()
    (made,) = [job for job in world.jobs() if "page" in job["tags"]]
    assert (made["priority"], made["tags"], made["state"]) == (70, ["night", "page"], "held")

    row.get_by_role("link", name="nightly").click()
    one.page.get_by_role("button", name="Edit", exact=True).click()
    one.page.get_by_role("dialog").get_by_label("goal", exact=True).fill("to be changed")
    one.page.get_by_role("dialog").get_by_role("button", name="Change it").click()
    one.page.get_by_text("to be changed").wait_for()
    one.page.keyboard.press("Escape")
    row.get_by_role("checkbox").check()
    one.page.get_by_role("group", name="Chosen jobs").get_by_role("button", name="Cancel").click()
    one.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    row.wait_for(state="detached")
    assert world.job(made["id"])["state"] == "cancelled"


def test_a_long_list_is_read_in_pages_and_only_what_is_seen_is_drawn(world: Stack, visit: Come) -> None:
    ids = [
        world.post("/api/v1/jobs", {"recipe": "nightly", "tags": ["long"], "hold": True})["id"]
        for _ in range(60)
    ]
    one = opened(visit, "?q=tag%3Dlong")
    table = one.page.get_by_role("table")
    world.wait(lambda: table.get_attribute("aria-rowcount") == "61", "all rows")
    assert one.page.locator("tbody tr td.name").count() < 50
    one.page.locator("div.table").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    one.page.get_by_role("checkbox", name=f"({ids[-1]})").wait_for()
    one.page.get_by_role("button", name="held").click()
    assert "state=held" in one.page.url
    world.post("/api/v1/select/cancel", {"targets": ["tag=long"]})
    one.page.get_by_text("No job is like that.").wait_for()
    world.post("/api/v1/select/clear", {"targets": ["tag=long"]})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(queue: Stack, visit: Come, theme: str) -> None:
    one = opened(visit, "/talker", color_scheme=theme)
    one.unlock()
    one.page.get_by_role("log", name="Log").get_by_text("red").wait_for()
    assert one.violations() == []
    one.page.get_by_role("button", name="Add a job").click()
    one.page.get_by_role("dialog").get_by_label("priority").wait_for()
    assert one.violations() == []


def test_nothing_scrolls_sideways_on_a_phone(queue: Stack, visit: Come) -> None:
    one = opened(visit, is_mobile=True)
    one.page.set_viewport_size({"width": 360, "height": 740})
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 360
    one.page.get_by_role("link", name="talker").click()
    one.page.get_by_role("region", name="Details").wait_for()
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 360
