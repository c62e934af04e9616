"""The chart of memory over time on the Now tab."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.stack import Stack
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]
ASKS = re.compile(r"/devices/.*/memory")
DRAWN = """(chart) => {
    const canvas = chart.querySelector("canvas")
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
    const seen = {}
    for (let at = 0; at < data.length; at += 4) {
        const colour = `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`
        if (data[at + 3] === 255) seen[colour] = (seen[colour] ?? 0) + 1
    }
    return seen
}"""

STRIP = """(chart) => {
    const canvas = chart.querySelector("canvas")
    const over = chart.querySelector(".u-over").getBoundingClientRect()
    const box = canvas.getBoundingClientRect()
    const dots = canvas.width / box.width
    const probe = document.createElement("span")
    probe.style.color = "var(--sunk)"
    document.body.append(probe)
    const track = getComputedStyle(probe).color
    probe.remove()
    const top = Math.round((over.bottom - box.top + 31) * dots)
    const data = canvas.getContext("2d").getImageData(0, top, canvas.width, 1).data
    const at = (x) => `rgb(${data[4 * x]}, ${data[4 * x + 1]}, ${data[4 * x + 2]})`
    const right = canvas.width - Array.from({ length: canvas.width }, (_, n) => at(canvas.width - 1 - n)).indexOf(track)
    const x = Math.round((over.left - box.left + 4) * dots)
    const column = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height).data
    const colour = (y) => column.slice(4 * y, 4 * y + 4).join()
    let [low, high] = [top, top]
    while (colour(low + 1) === colour(top)) low++
    while (colour(high - 1) === colour(top)) high--
    let left = 0
    while (left < canvas.width && data[4 * left + 3] !== 255) left++
    return { left: left / dots, right: right / dots, high: (low - high + 1) / dots,
             plot: { left: over.left - box.left, right: over.right - box.left } }
}"""


@pytest.fixture
def kept(world: Stack) -> Stack:
    """What that Headway saw of its device is in its database: that takes ten seconds at most."""

    def some() -> bool:
        rows = world.client.get("/api/v1/devices/sim0/memory")
        return any("chat" in bucket["bytes"] for bucket in rows["buckets"])

    world.wait(some, "rows of memory")
    return world


def chart(page: Page, words: str = "1 hour") -> Page:
    """Wait until that range is shown."""
    page.get_by_role("img", name=re.compile(f"sim0 over {words}: .*chat")).locator("canvas").wait_for()
    return page


def test_it_shows_who_held_how_much_in_the_colour_of_the_bar(kept: Stack, visit: Come) -> None:
    page = chart(visit().page)
    device = page.get_by_role("article", name="Device sim0")
    fills = (
        device.locator("li", has_text="chat")
        .locator("rect")
        .evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
    )
    assert len(fills) == 2 and fills[0] == fills[1], "in the bar's list, and in the chart's"
    drawn = device.locator(".chart").evaluate(DRAWN)
    assert drawn.get(fills[0], 0) > 20, drawn


def test_the_range_is_in_the_address(kept: Stack, visit: Come) -> None:
    page = chart(visit().page)
    ranges = page.get_by_role("group", name="Memory over time")
    for word, words in (("7d", "7 days"), ("24h", "24 hours")):
        ranges.get_by_role("button", name=words).click()
        chart(page, words)
        assert page.url.endswith(f"#/now?range={word}")
        page.reload()
        chart(page, words)
        expect(ranges.get_by_role("button", pressed=True)).to_have_accessible_name(words)
    ranges.get_by_role("button", name="1 hour").click()
    chart(page)
    assert page.url.endswith("#/now")


def test_a_range_that_there_is_not_is_an_hour(kept: Stack, visit: Come) -> None:
    one = visit()
    one.open_tab("now?range=9y")
    chart(one.page)
    pressed = one.page.get_by_role("group", name="Memory over time").get_by_role("button", pressed=True)
    expect(pressed).to_have_accessible_name("1 hour")


def test_it_goes_on_by_itself(kept: Stack, visit: Come) -> None:
    page = chart(visit().page)
    with page.expect_response(ASKS) as next_one:
        pass
    assert next_one.value.ok


def test_the_table_says_the_same(kept: Stack, visit: Come) -> None:
    page = chart(visit().page)
    page.get_by_text("As a table").click()
    heads = page.get_by_role("region", name="Memory of sim0 over time").get_by_role("columnheader")
    expect(heads.first).to_have_text("from")
    assert {"used", "at most", "chat"} <= set(heads.all_inner_texts())
    rows = page.get_by_role("region", name="Memory of sim0 over time").locator("tbody tr")
    assert any("16 GiB" in text for text in rows.all_inner_texts())


def test_no_data_is_said(kept: Stack, visit: Come) -> None:
    found = {**kept.client.get("/api/v1/devices/sim0/memory"), "buckets": [], "holders": []}
    one = visit()
    one.page.route(ASKS, lambda route: route.fulfill(body=json.dumps(found), content_type="application/json"))
    one.page.reload()
    one.page.get_by_role("article", name="Device sim0").get_by_text("Nothing was measured").wait_for()
    assert one.page.locator(".chart").count() == 0


def test_a_device_that_could_not_be_read_for_a_while_leaves_a_gap(kept: Stack, visit: Come) -> None:
    found = kept.client.get("/api/v1/devices/sim0/memory")
    some = {
        "looks": 20,
        "used_bytes": 16 << 30,
        "peak_bytes": 20 << 30,
        "foreign_bytes": 0,
        "busy": {"chat": 1},
    }
    buckets = [
        {**some, "at_s": found["from_s"] + n * found["step_s"], "bytes": {"chat": 16 << 30}}
        for n in (*range(30), *range(90, 120))
    ]
    body = json.dumps(
        {**found, "buckets": buckets, "holders": [{"id": "chat", "kind": "service", "name": "chat"}]}
    )
    one = visit()
    one.page.route(ASKS, lambda route: route.fulfill(body=body, content_type="application/json"))
    one.page.reload()
    place = chart(one.page).locator(".chart")
    fill = one.page.locator(".key rect").first.evaluate("one => getComputedStyle(one).fill")
    high, wide = place.evaluate(
        "one => [one.querySelector('canvas').height, one.querySelector('.u-over').offsetWidth]"
    )
    drawn = place.evaluate(DRAWN)[fill]
    third = wide / 3 * 136 * 16 / 24  # a third of the time, two thirds of the height
    assert 0.75 * third < drawn < 1.3 * third, (drawn, third, high)


def shown(one: Visit, found: dict[str, Any], holders: list[str], **given: Any) -> Page:
    """The chart with these holders, whatever there was; each held 1 GiB, and was busy half of the time."""
    step_s = found["step_s"]
    bucket = {
        "looks": step_s,
        "used_bytes": len(holders) << 30,
        "peak_bytes": len(holders) << 30,
        "foreign_bytes": 0,
        "busy": dict.fromkeys(holders, 0.5),
        "bytes": dict.fromkeys(holders, 1 << 30),
        **given,
    }
    body = {
        **found,
        "buckets": [{**bucket, "at_s": found["from_s"] + n * step_s} for n in range(10)],
        "holders": [{"id": hid, "kind": "service", "name": hid} for hid in holders],
    }
    one.page.unroute(ASKS)
    one.page.route(ASKS, lambda route: route.fulfill(body=json.dumps(body), content_type="application/json"))
    return one.page


def fills(place: Locator) -> dict[str, str]:
    """The colour of each of a list, by its first word."""
    return {
        line.inner_text().split()[0]: line.locator("rect").first.evaluate("one => getComputedStyle(one).fill")
        for line in place.locator("li:has(rect)").all()
    }


def test_a_holder_keeps_its_colour_and_nobody_in_sight_has_it_too(kept: Stack, visit: Come) -> None:
    found = kept.client.get("/api/v1/devices/sim0/memory")
    one = visit()
    page = chart(one.page)
    bar = fills(page.locator(".legend"))
    job = kept.api("/api/v1/jobs/talker")["id"]
    assert {"chat", "talker"} <= bar.keys() and len(set(bar.values())) == len(bar)
    for turn, button in enumerate(("6 hours", "24 hours", "3 days", "7 days", "1 hour")):
        others = [f"old{turn}-{n}" for n in range(4)]
        shown(one, found, [*others, "chat", job])
        page.get_by_role("group", name="Memory over time").get_by_role("button", name=button).click()
        page.locator(".key").get_by_text(others[0]).wait_for()
        key = fills(page.locator(".key"))
        assert key.keys() >= {*others, "chat", job}
        assert len(set(key.values())) == len(key), "no two share one"
        assert (key["chat"], key[job]) == (bar["chat"], bar["talker"])
        assert fills(page.locator(".legend")) == bar


def test_the_strip_of_a_busy_model_is_as_wide_as_the_plot_and_full_where_it_was_busy(
    kept: Stack, visit: Come
) -> None:
    found = kept.client.get("/api/v1/devices/sim0/memory")
    one = visit()
    shown(one, found, ["chat"])
    one.page.reload()
    place = chart(one.page).locator(".chart")
    ends = place.evaluate(STRIP)
    assert abs(ends["left"] - ends["plot"]["left"]) <= 1 and abs(ends["right"] - ends["plot"]["right"]) <= 1
    assert ends["high"] >= 10, ends


def test_it_says_over_how_long_something_was_measured(kept: Stack, visit: Come) -> None:
    found = kept.client.get("/api/v1/devices/sim0/memory")
    one = visit()
    shown(one, found, ["chat"], looks=60)
    one.page.reload()
    chart(one.page).locator(".key").get_by_text("10 min measured").wait_for()
    looks = (found["to_s"] - found["from_s"]) / 10
    shown(one, found, ["chat"], looks=looks)
    one.page.reload()
    chart(one.page).locator(".key").get_by_text("means over the last 1 hour").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(kept: Stack, visit: Come, theme: str) -> None:
    one = visit(color_scheme=theme)
    chart(one.page)
    assert one.violations() == []
    one.page.get_by_text("As a table").click()
    one.page.get_by_role("region", name="Memory of sim0 over time").wait_for()
    assert one.violations() == []


def test_nothing_scrolls_sideways_on_a_phone(kept: Stack, visit: Come) -> None:
    page = visit(is_mobile=True).page
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_text("Memory over time").click()
    chart(page).get_by_text("As a table").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    place = page.get_by_role("region", name="Memory of sim0 over time")
    hint = page.get_by_text("scrolls sideways")
    hint.wait_for()
    assert place.get_attribute("tabindex") == "0", "the keyboard reaches it"
    place.evaluate("one => one.scrollLeft = one.scrollWidth")
    hint.wait_for(state="detached")


def test_its_colours_follow_the_theme(kept: Stack, visit: Come) -> None:
    page = chart(visit(color_scheme="light").page)
    key = page.locator(".key rect").first
    place = page.locator(".chart")
    fill = "one => getComputedStyle(one).fill"
    light = key.evaluate(fill)
    page.emulate_media(color_scheme="dark")
    expect(key).not_to_have_css("fill", light)
    dark = key.evaluate(fill)
    page.wait_for_function(
        f"([chart, fill]) => ({DRAWN})(chart)[fill] > 20", arg=[place.element_handle(), dark]
    )
