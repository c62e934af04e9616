"""The tables of the past: jobs, leases, requests, swaps, and days."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator

from tests.e2e.stack import Stack
from tests.page.conftest import put_in_order
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]
TABLES = {
    "jobs": "Jobs that are over",
    "leases": "Leases that are over",
    "requests": "Requests",
    "swaps": "Swaps",
}


@pytest.fixture(scope="module")
def past(shared_world: Stack) -> Stack:
    """Something of each kind has happened, well and not so well."""
    world = put_in_order(shared_world)
    for name, argv in (("plain", "true"), ("bad", "false")):
        done = world.post("/api/v1/jobs", {"argv": [argv], "name": name, "gpus": 0, "gpu": 0})["id"]
        world.wait_job(done, "done", "failed")
    world.wait(lambda: world.tried(lambda: world.post("/api/v1/services/chat/sleep")), "sleep")
    world.wait_service("chat", "stopped", "asleep")
    lease = world.post("/api/v1/leases", {"name": "notebook", "gpu": "1GiB", "ttl_s": 600})["id"]
    world.wait(lambda: world.api(f"/api/v1/leases/{lease}")["state"] == "granted", "the grant")
    world.client.delete(f"/api/v1/leases/{lease}")
    for _ in range(3):
        assert world.ask("chat").status == 200
    assert world.ask("nosuch").status == 404
    world.wait(lambda: len(world.requests("chat")) >= 3, "the log of the requests")
    world.wait(lambda: len(world.api("/api/v1/swaps")) >= 2, "the swaps")
    return world


def asked(world: Stack) -> None:
    """One request that is answered, and one that is not: the newest of all."""
    known = max((row["id"] for row in world.api("/api/v1/requests", last=1)), default=0)
    assert (world.ask("chat").status, world.ask("nosuch").status) == (200, 404)
    world.wait(lambda: len(world.api("/api/v1/requests", after=known)) >= 2, "the log of the requests")


def opened(one: Visit, name: str) -> Locator:
    one.open_tab(f"history/{name}")
    rows = one.page.get_by_role("region", name=TABLES[name]).locator("tbody tr")
    rows.nth(0).wait_for()
    return rows


def test_each_table_shows_what_was_the_newest_first(past: Stack, world: Stack, visit: Come) -> None:
    one = visit()
    rows = opened(one, "jobs")
    rows.filter(has_text="plain").get_by_text("done").first.wait_for()
    assert "1" in rows.filter(has_text="bad").first.inner_text()
    rows = opened(one, "leases")
    rows.filter(has_text="notebook").first.wait_for()
    assert "released" in rows.filter(has_text="notebook").first.inner_text()
    rows = opened(one, "requests")
    rows.filter(has_text="200").first.wait_for()
    (waited,) = [row for row in world.requests("chat") if row["waited_s"]][-1:]
    assert waited["model"] == "chat"
    rows.filter(has_text="chat").filter(has_text="200").filter(has_text="127.0.0.1").first.wait_for()
    rows = opened(one, "swaps")
    rows.filter(has_text="stopped to awake").filter(has_text="request waited for it").first.wait_for()
    rows.filter(has_text="awake to stopped").filter(has_text="sent to sleep").first.wait_for()
    moves = [f"{row['source']} to {row['to']}" for row in world.api("/api/v1/swaps", last=100)]
    assert moves and all(
        move in row for move, row in zip(reversed(moves), rows.all_inner_texts(), strict=False)
    )


@pytest.mark.parametrize(
    ("name", "gone", "stays"),
    [("jobs", "plain", "bad"), ("requests", "200", "404"), ("swaps", "to awake", None)],
)
def test_what_failed_is_one_click_away(
    past: Stack, world: Stack, visit: Come, name: str, gone: str, stays: str | None
) -> None:
    asked(world)
    one = visit()
    rows = opened(one, name)
    good = rows.and_(one.page.locator("tr:not(.bad)"))  # a stream that was cut began with a 200 as well
    with_it = good.filter(has=one.page.get_by_role("cell", name=re.compile(rf"\b{gone}\b")))  # nor of 1200 ms
    with_it.first.wait_for()
    one.page.get_by_role("checkbox").check()
    with_it.first.wait_for(state="detached")
    assert "wrong=1" in one.page.url, "the address can be kept"
    if stays is not None:
        rows.filter(has_text=stays).first.wait_for()
    one.page.reload()
    assert one.page.get_by_role("checkbox").is_checked()


def test_older_ones_come_page_by_page_and_a_file_has_all_of_them(
    past: Stack, world: Stack, visit: Come, tmp_path: Path
) -> None:
    for _ in range(110):
        assert world.ask("nosuch").status == 404
    world.wait(lambda: len(world.api("/api/v1/requests", last=1000)) > 110, "the log of the requests")
    one = visit()
    rows = opened(one, "requests")
    world.wait(lambda: rows.count() == 100, "a page")
    one.page.get_by_role("button", name="Older ones").click()
    world.wait(lambda: rows.count() > 110, "one more page")
    known = world.api("/api/v1/requests", last=1000)
    assert rows.count() == len(known)
    for kind in ("CSV", "JSON"):
        with one.page.expect_download() as download:
            one.page.get_by_role("button", name=f"Save as {kind}").click()
        download.value.save_as(tmp_path / kind)
    lines = list(csv.DictReader(io.StringIO((tmp_path / "CSV").read_text())))
    assert len(lines) == len(known)
    assert {"time", "model_server", "model", "waited", "status", "tokens"} <= lines[0].keys()
    assert [row["id"] for row in json.loads((tmp_path / "JSON").read_text())] == [
        row["id"] for row in known[::-1]
    ]


@pytest.mark.parametrize("name", ["jobs", "leases", "swaps"])
def test_each_table_is_saved_as_csv_and_json(
    past: Stack, world: Stack, visit: Come, tmp_path: Path, name: str
) -> None:
    one = visit()
    rows = opened(one, name)
    shown: dict[str, Any] = {}
    for kind in ("CSV", "JSON"):
        with one.page.expect_download() as download:
            one.page.get_by_role("button", name=f"Save as {kind}").click()
        download.value.save_as(tmp_path / kind)
        shown[kind] = (tmp_path / kind).read_text()
    assert len(list(csv.DictReader(io.StringIO(shown["CSV"])))) == len(json.loads(shown["JSON"])) >= 1
    assert rows.count() == len(json.loads(shown["JSON"]))


def test_one_model_server_or_job_alone(past: Stack, world: Stack, visit: Come) -> None:
    asked(world)
    one = visit()
    rows = opened(one, "requests")
    rows.filter(has_text="404").first.wait_for()
    rows.filter(has_text="200").first.get_by_role("button", name="chat").click()
    rows.filter(has_text="404").first.wait_for(state="detached")
    assert "of=chat" in one.page.url
    one.page.get_by_role("button", name="of all").click()
    rows.filter(has_text="404").first.wait_for()


def test_a_request_that_ends_meanwhile_is_there_at_once(past: Stack, world: Stack, visit: Come) -> None:
    one = visit()
    rows = opened(one, "swaps")
    before = rows.count()
    world.post("/api/v1/services/chat/sleep")
    world.wait(lambda: rows.count() > before, "one more swap")
    world.ask("chat")
    world.wait(lambda: rows.count() > before + 1, "its way back")


def test_days_are_drawn_and_told_as_a_table(past: Stack, world: Stack, visit: Come, tmp_path: Path) -> None:
    one = visit()
    one.open_tab("history/days?days=7")
    one.page.get_by_role("img", name="Swaps of model servers by day").wait_for()
    assert one.page.get_by_role("img", name="by day").count() == 4
    one.page.get_by_text("As a table").click()
    rows = one.page.get_by_role("region", name="Days").locator("tbody tr")
    assert rows.count() == 1, "nothing is said of days before days were kept"
    one.page.get_by_text("Days are kept since").wait_for()
    budget = world.api("/api/v1/services/chat")["budget"]
    one.page.get_by_text(f"promised: at most {budget['max_share'] * 100:.0f} %").wait_for()
    (today,) = world.api("/api/v1/days", last=1)
    cells = rows.nth(0).locator("th, td").all_inner_texts()
    assert cells[0] == today["day"] and int(cells[3]) >= 3 and int(cells[6]) >= 1 and int(cells[7]) >= 1
    one.page.get_by_role("button", name="90 days").click()
    assert "days=90" in one.page.url
    assert one.page.get_by_role("img", name="by day").first.locator("g").count() == 90
    with one.page.expect_download() as download:
        one.page.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(tmp_path / "days.csv")
    (line,) = csv.DictReader(io.StringIO((tmp_path / "days.csv").read_text()))
    assert line["day"] == today["day"]


def test_a_promise_is_said_and_drawn_where_the_bars_still_are_seen(
    past: Stack, world: Stack, visit: Come
) -> None:
    budget = world.api("/api/v1/services/chat")["budget"]
    (today,) = world.api("/api/v1/days", last=1)
    share, mean_s = budget["max_share"] / 2, budget["max_mean_s"] / 1000
    day = {**today, "requests": 1000, "waited": 1000 * share, "waited_s": 1000 * mean_s}
    one = visit()
    one.page.route(
        "**/api/v1/days?*",
        lambda way: way.fulfill(body=json.dumps([day]), content_type="application/json"),
    )
    one.open_tab("history/days")
    near = one.page.get_by_role("img", name="Requests that waited")
    near.wait_for()
    assert near.locator("line.promise").get_attribute("y1") == "0"
    bar = near.locator("g").last.locator("rect").last
    assert float(bar.get_attribute("height") or 0) == pytest.approx(50)
    far = one.page.get_by_role("img", name="Mean wait")
    assert far.locator("line.promise").count() == 0
    assert one.page.get_by_text("promised: at most").count() == 2
    assert one.page.get_by_text("highest day").count() == 4


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", [*TABLES, "days"])
def test_axe_finds_nothing(past: Stack, world: Stack, visit: Come, name: str, theme: str) -> None:
    one = visit(color_scheme=theme)
    if name == "days":
        one.open_tab("history/days")
        one.page.get_by_role("img", name="by day").first.wait_for()
        one.page.get_by_text("As a table").click()
    else:
        opened(one, name).filter(has_not_text="One moment").first.wait_for()
    assert one.violations() == []


def test_nothing_but_a_table_scrolls_sideways_on_a_phone(past: Stack, world: Stack, visit: Come) -> None:
    one = visit(is_mobile=True)
    one.page.set_viewport_size({"width": 360, "height": 740})
    for name in ("", *(f"/{name}" for name in (*TABLES, "days"))):
        one.open_tab(f"history{name}")
        one.page.locator("main tbody tr, main ol li, main figure").first.wait_for()
        assert one.page.evaluate("document.documentElement.scrollWidth") <= 360, name
