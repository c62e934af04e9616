"""What the Jobs tab says of one job and of the next hours."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.stack import Row, Stack
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]
BRIEF = {"gpu": "1GiB", "placement": "share", "resumable": True, "max_runtime_s": 3600.0, "tags": ["brief"]}


def ask(world: Stack, path: str, body: Row | None = None) -> Row:
    """A database on a busy disk may be silent for a while: then it is asked again."""
    found = world.wait(lambda: world.tried(lambda: world.post(path, body)), path)
    assert found is not None
    return dict(found)


@pytest.fixture
def brief(world: Stack) -> Iterator[Stack]:
    """`brief` waits for `talker`, which says nothing of its length, and may itself take an hour."""
    ask(world, "/api/v1/queue/hold")
    body = {"argv": ["true"], "name": "brief", "after": ["talker"], **BRIEF}
    made = ask(world, "/api/v1/jobs", body)["id"]
    yield world
    world.tried(lambda: world.post(f"/api/v1/jobs/{made}/cancel"))
    world.wait(
        lambda: world.tried(lambda: world.post("/api/v1/select/clear", {"targets": [made]})),
        "it is forgotten",
    )


def test_the_next_hours_are_drawn_and_said_and_what_nobody_knows_is_said_to_be_so(
    brief: Stack, visit: Come
) -> None:
    one = visit()
    one.open_tab("jobs")
    words = one.page.get_by_role("list", name="The next hours in words")
    one.page.get_by_text("In words").click()
    words.locator("li", has_text="talker").get_by_text("nothing says how long it takes").wait_for()
    words.locator("li", has_text="brief").get_by_text("begins not by time alone").wait_for()
    ask(brief, "/api/v1/queue/release")
    words.locator("li", has_text="brief").get_by_text("nobody knows when").wait_for()
    assert one.page.locator("svg rect.perhaps").count() > 0
    window = ask(brief, "/api/v1/windows", {"kind": "slow_wake", "for_s": 3600, "services": ["chat"]})["id"]
    words.locator("li", has_text="slow wake").get_by_text("is over in").wait_for()
    assert one.page.locator("svg rect.window.sure").count() == 1
    ask(brief, f"/api/v1/windows/{window}/stop")


def test_it_says_of_a_job_why_what_would_help_its_memory_and_its_runs(world: Stack, visit: Come) -> None:
    asked = {"argv": ["sh", "-c", "exit 3"], "name": "thrice", "tags": ["details"], "labels": {"seed": "7"}}
    body = {**asked, "gpu": "1GiB", "placement": "share", "hold": True}
    made = ask(world, "/api/v1/jobs", body)["id"]
    one = visit()
    one.open_tab(f"jobs/{made}")
    details = one.page.get_by_role("region", name="Details")
    details.get_by_text(f"headway release {made}").wait_for()
    details.get_by_text("1 GiB declared, not measured yet").wait_for()
    details.get_by_text("seed=7").wait_for()
    ask(world, f"/api/v1/jobs/{made}/release")
    world.wait_job(made, "failed")
    details.get_by_text("Runs (1)").click()
    cells = details.locator(".runs tbody td")
    cells.first.wait_for()
    assert cells.nth(0).inner_text() == "1" and cells.nth(3).inner_text() == "3"
    ask(world, f"/api/v1/jobs/{made}/retry")
    details.get_by_text("Runs (2)").wait_for()
    world.wait_job(made, "failed")


def test_tags_are_counted_columns_sort_both_ways_and_words_that_mean_nothing_are_told(
    world: Stack, visit: Come
) -> None:
    one = visit()
    one.open_tab("jobs?state=held,running")
    names = one.page.locator("tbody tr td.name a")
    names.first.wait_for()
    one.page.get_by_role("button", name="Job", exact=True).click()
    up = names.all_inner_texts()
    assert up == sorted(up) and len(up) > 3
    one.page.get_by_role("button", name="Job ▾").click()
    assert names.all_inner_texts() == up[::-1]
    one.page.get_by_role("group", name="Tags").get_by_role("button", name="eval").click()
    world.wait(lambda: names.all_inner_texts() == ["nightly"], "only what has the tag")
    assert "sort=-name" in one.page.url and "q=tag%3Deval" in one.page.url
    one.refused = {422}
    one.page.get_by_label("Search").fill("planet=mars")
    one.page.get_by_text("selects nothing that is known").wait_for()
