"""The History and Help tabs."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]


def test_what_happens_is_there_at_once_and_can_be_looked_through(world: Stack, visit: Come) -> None:
    one = visit()
    one.open_tab("history")
    lines = one.page.get_by_role("list", name="What happened")
    lines.get_by_text("daemon started").first.wait_for()
    bad = world.post("/api/v1/jobs", {"argv": ["false"], "name": "bad", "gpus": 0, "gpu": 0})["id"]
    world.wait_job(bad, "failed")
    lines.get_by_text(f"bad ({bad}): failed").wait_for()
    one.page.get_by_label("only what went wrong").check()
    lines.get_by_text("daemon started").first.wait_for(state="detached")
    assert "wrong=1" in one.page.url
    lines.locator("li", has_text=f"bad ({bad}): failed").get_by_role("button").click()
    one.page.get_by_label("only what went wrong").uncheck()
    lines.get_by_text(f"bad ({bad}): queued by").wait_for()
    assert lines.get_by_text("daemon started").count() == 0
    one.page.get_by_label("Search").fill("exit code")
    world.wait(lambda: lines.locator("li").count() < 4, "fewer lines")
    one.page.get_by_role("link", name="Jobs that are over").click()
    one.page.locator("tbody tr", has_text=bad).wait_for()


def test_it_is_saved_as_csv_and_json(world: Stack, visit: Come, tmp_path: Path) -> None:
    done = world.post("/api/v1/jobs", {"argv": ["true"], "name": "plain", "gpus": 0, "gpu": 0})["id"]
    world.wait_job(done, "done")
    one = visit()
    one.open_tab(f"history?of={done}")
    one.page.get_by_text(f"plain ({done}): done").wait_for()
    found = {}
    for kind in ("CSV", "JSON"):
        with one.page.expect_download() as download:
            one.page.get_by_role("button", name=f"Save as {kind}").click()
        download.value.save_as(tmp_path / kind)
        found[kind] = (tmp_path / kind).read_text()
    rows = list(csv.DictReader(io.StringIO(found["CSV"])))
    assert [row["code"] for row in rows] == [row["code"] for row in json.loads(found["JSON"])]
    assert rows[-1]["code"] == "job.added" and rows[0]["time"].endswith("Z")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(world: Stack, visit: Come, theme: str) -> None:
    one = visit(color_scheme=theme)
    one.open_tab("history")
    one.page.get_by_text("daemon started").first.wait_for()
    assert one.violations() == []
    one.page.keyboard.press("?")
    one.page.get_by_role("heading", name="Keys").wait_for()
    assert one.violations() == []


def test_help_leads_to_documentation_that_this_daemon_has_itself(world: Stack, visit: Come) -> None:
    one = visit()
    one.page.keyboard.press("?")
    paths = one.page.locator("main a").evaluate_all("all => all.map((one) => one.href)")
    assert len(paths) > 25 and all(path.startswith(world.api_url) for path in paths)
    for path in paths:
        assert one.page.request.get(path).ok, path
    one.refused = {404}  # a text has no icon, and the browser asks for one
    one.page.get_by_role("link", name="agents").click()
    one.page.get_by_text("For agents that work with Headway").wait_for()
    one.page.go_back()
    one.page.get_by_role("heading", name="Keys").wait_for()
    assert one.page.request.get(f"{world.api_url}/help/nothing.md").status == 404
    assert one.page.request.get(f"{world.api_url}/help/..%2Fconfig.toml").status == 404


def test_a_theme_that_was_chosen_stays(world: Stack, visit: Come) -> None:
    one = visit(color_scheme="light")
    dark = "getComputedStyle(document.documentElement).backgroundColor"
    before = one.page.evaluate(dark)
    one.page.get_by_role("button", name="Colours: system").click()
    one.page.get_by_role("button", name="Colours: light").click()
    one.page.get_by_role("button", name="Colours: dark").wait_for()
    assert one.page.evaluate(dark) != before
    one.page.reload()
    one.page.get_by_role("button", name="Colours: dark").wait_for()
    assert one.page.evaluate(dark) != before
