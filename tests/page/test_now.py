"""The Now tab: what it says, that it stays true, and that nothing changes without the PIN."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from tests.e2e.stack import Stack
from tests.e2e.visits import program
from tests.page.visit import Visit
from tests.page.world import PIN, WAITING
from tests.processes import end

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]


def test_it_says_who_holds_the_device_since_when_what_is_next_and_why(world: Stack, visit: Come) -> None:
    for name in WAITING:
        world.post(f"/api/v1/jobs/{name}/release")
    page = visit().page
    device = page.get_by_role("article", name="Device sim0")
    assert device.locator("li", has_text="chat").first.get_by_text("for ").is_visible()
    assert "16 GiB" in device.locator("li", has_text="chat").first.inner_text()
    following = page.get_by_role("region", name="Next").locator("li")
    assert all(name in following.nth(n).inner_text() for n, name in enumerate(WAITING))
    assert "chat" in following.first.locator("p").inner_text(), "why: for whom it waits"
    assert following.nth(2).locator("p").inner_text()
    assert "awake" in page.get_by_role("article", name="Model server chat").inner_text()


def test_it_stays_true_without_being_loaded_again(world: Stack, visit: Come) -> None:
    page = visit().page
    jobs = page.get_by_role("region", name="Jobs under way")
    jobs.locator("li", has_text="talker").get_by_text("running").wait_for()
    world.post("/api/v1/jobs/talker/stop")
    jobs.locator("li", has_text="talker").wait_for(state="detached")
    first = page.get_by_role("region", name="Next").locator("li").first
    for name in WAITING:
        world.post(f"/api/v1/jobs/{name}/release")
    first.get_by_text("render").wait_for()
    world.post("/api/v1/queue/move", {"target": "nightly", "where": "top"})
    first.get_by_text("nightly").wait_for()
    world.post("/api/v1/jobs/nightly/hold")
    first.get_by_text("render").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(world: Stack, visit: Come, theme: str) -> None:
    one = visit(color_scheme=theme)
    assert one.violations() == []
    one.page.get_by_role("button", name="Unlock").click()
    assert one.violations() == []
    one.page.keyboard.press("Escape")
    one.page.get_by_role("dialog").wait_for(state="detached")
    one.page.get_by_label("More for talker").click()
    assert one.violations() == []


def test_nothing_scrolls_sideways_on_a_phone(world: Stack, visit: Come) -> None:
    page = visit(is_mobile=True).page
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_new_daemon_under_an_open_page_is_shown_and_nothing_is_lost(world: Stack, visit: Come) -> None:
    one = visit()
    second = visit()
    one.may_be_away = second.may_be_away = True
    world.kill("daemon")
    one.page.get_by_text("reconnecting").wait_for()
    for tab in (one, second):
        tab.live()
        tab.page.get_by_role("region", name="Jobs under way").locator("li", has_text="talker").wait_for()
    world.post("/api/v1/jobs/talker/stop")
    for tab in (one, second):
        tab.page.get_by_role("region", name="Jobs under way").locator("li", has_text="talker").wait_for(
            state="detached"
        )


def test_a_stream_that_is_refused_is_asked_for_again(world: Stack, visit: Come) -> None:
    """Busy (503) for a while; or, where `[api] read` is "token", not before the PIN was given."""
    one = visit()
    one.refused = {401, 503}
    one.page.route("**/api/v1/events", lambda route: route.fulfill(status=503), times=1)
    one.page.reload()
    one.live()
    for path in ("events", "status?queued=0"):
        one.page.route(f"**/api/v1/{path}", lambda route: route.fulfill(status=401), times=1)
    one.page.reload()
    one.page.get_by_role("button", name="Give the PIN").click()
    one.give_pin(PIN)
    one.live()


def test_a_change_asks_for_the_pin_once_and_is_done_then(world: Stack, visit: Come) -> None:
    one = visit()
    one.refused = {401}
    one.page.get_by_role("button", name="Hold the queue").click()
    one.give_pin("not the PIN")
    one.page.get_by_role("alert").get_by_text("not the PIN").wait_for()
    assert world.api("/api/v1/status")["queue_held_by"] is None
    one.give_pin(PIN)
    one.said("The queue is held").wait_for()
    one.page.get_by_text("queue held", exact=True).wait_for()
    assert world.api("/api/v1/status")["queue_held_by"] == "page"

    one.page.get_by_role("button", name="Release the queue").click()
    one.page.get_by_text("queue held", exact=True).wait_for(state="detached")
    jobs = one.page.get_by_role("region", name="Jobs under way")
    jobs.get_by_label("More for talker").click()
    jobs.get_by_role("button", name="Stop end its").click()
    assert world.wait_job("talker", "held")["wish_by"] == "page"


def test_the_mode_and_prod_only_are_asked_about_before_they_change(world: Stack, visit: Come) -> None:
    one = visit()
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.page.get_by_role("button", name="Prod only").click()
    one.page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
    assert world.api("/api/v1/status")["prod_only_by"] is None
    one.page.get_by_role("button", name="Prod only").click()
    one.page.get_by_role("dialog").get_by_role("button", name="Only models").click()
    one.page.get_by_role("button", name="End prod only").click()
    one.page.get_by_role("button", name="Prod only", exact=True).wait_for()
    one.page.get_by_role("button", name="Only watch").click()
    one.page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
    assert world.api("/api/v1/status")["mode"] == "live"
    one.page.get_by_role("button", name="Only watch").click()
    one.page.get_by_role("dialog").get_by_role("button", name="Only watch").click()
    one.page.get_by_role("button", name="Go live").click()
    one.page.get_by_role("dialog").get_by_role("button", name="Go live").click()
    one.page.get_by_role("button", name="Only watch").wait_for()
    assert world.api("/api/v1/status")["mode"] == "live"


def test_models_leases_claims_and_windows_have_their_verbs(world: Stack, visit: Come) -> None:
    hand = world.by_hand(program(world, "1GiB"))
    asked = {"name": "notebook", "gpu": "2GiB", "ttl_s": 600, "priority": 90}
    lease = world.post("/api/v1/leases", asked)["id"]
    one = visit()
    one.unlock()
    device = one.page.get_by_role("article", name="Device sim0")
    device.get_by_role("button", name=f"Claim pid {hand.pid}").click()
    dialog = one.page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("mine")
    dialog.get_by_role("button", name="Claim it").click()
    leases = one.page.get_by_role("region", name="Leases and claims")
    leases.locator("li", has_text="mine").wait_for()
    assert one.violations() == []
    for name in ("mine", "notebook"):
        leases.locator("li", has_text=name).get_by_role("button", name="Release").click()
        dialog.get_by_role("button", name="Release").click()
        leases.locator("li", has_text=name).wait_for(state="detached")
    end(hand.pid)
    assert world.api("/api/v1/claims") == [] and world.api(f"/api/v1/leases/{lease}")["ended"]

    one.page.get_by_role("button", name="Open a window").click()
    dialog.get_by_label("hours").fill("1.5")
    dialog.get_by_label("chat").check()
    assert one.violations() == []
    dialog.get_by_role("button", name="Open it").click()
    windows = one.page.get_by_role("list", name="Windows")
    windows.get_by_text("slow wake over chat").wait_for()
    windows.get_by_role("button", name="End it").click()
    windows.wait_for(state="detached")

    model = one.page.get_by_role("article", name="Model server chat")
    model.get_by_role("button", name="Sleep").click()
    model.get_by_role("button", name="Wake").click()
    model.get_by_role("button", name="Sleep").wait_for()
    world.wait_service("chat", "awake")


def test_a_device_that_nobody_measures_says_about_what_was_declared(world: Stack, visit: Come) -> None:
    board = world.api("/api/v1/status")
    (device,) = board["devices"]
    device |= {"confidence": "declared", "used_bytes": None, "free_bytes": None, "strangers": []}
    device["holders"] = [{**share, "bytes": None} for share in device["holders"]]
    used = sum(share["need_bytes"] for share in device["holders"]) >> 30
    stream = f"event: snapshot\nid: declared.1\ndata: {json.dumps(board)}\n\n"
    one = visit()
    kind = "text/event-stream"
    one.page.route("**/api/v1/events", lambda route: route.fulfill(body=stream, content_type=kind))
    one.page.reload()
    shown = one.page.get_by_role("article", name="Device sim0")
    shown.get_by_text(f"about {used} GiB of 24 GiB, as declared").wait_for()
    assert f"free about {24 - used} GiB" in " ".join(shown.inner_text().split())
    assert "unknown" not in shown.inner_text()
    assert one.violations() == []


def test_headway_open_lets_a_page_in_without_a_pin(world: Stack, visit: Come) -> None:
    one = visit()
    one.page.goto(world.post("/api/v1/session/tickets")["url"])
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    one.page.get_by_role("button", name="Hold the queue").click()
    one.said("The queue is held").wait_for()


def test_a_page_that_is_not_ours_changes_nothing(world: Stack, visit: Come) -> None:
    """Its Origin, or a Host that is not ours, is refused, with the session's cookie too."""
    one = visit()
    one.unlock()
    one.page.get_by_role("button", name="Lock", exact=True).wait_for()
    cookies = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in one.context.cookies())
    csrf = one.page.evaluate("localStorage.getItem('headway_csrf')")
    ours = {"Cookie": cookies, "X-CSRF-Token": csrf, "Content-Type": "application/json"}

    def answered(path: str, body: object | None, **more: str) -> int:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(world.api_url + path, data, {**ours, **more})
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    hold = "/api/v1/queue/hold"
    assert answered(hold, {}, Origin="http://evil.example") == 403
    assert answered(hold, {}, Host="evil.example") == 403
    assert answered("/", None, Host="evil.example", Accept="text/html") == 403
    assert answered(hold, {}, **{"X-CSRF-Token": "wrong"}) == 403
    assert world.api("/api/v1/status")["queue_held_by"] is None
    assert answered(hold, {}) == 202, "the same one without any of that is ours"
