"""What the Jobs tab says of one job and of the next hours."""

import json
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
    assert one.page.locator(".row", has_text="talker").locator("rect.sure").count() == 1
    window = ask(brief, "/api/v1/windows", {"kind": "slow_wake", "for_s": 3600, "services": ["chat"]})["id"]
    words.locator("li", has_text="slow wake").get_by_text("is over in").wait_for()
    assert one.page.locator("svg rect.window.sure").count() == 1
    ask(brief, f"/api/v1/windows/{window}/stop")


def span(hid: str, begins: tuple[float | None, ...], ends: tuple[float | None, ...], **given: object) -> Row:
    times = {
        f"{word}{name}_s": value
        for word, three in (("begins", begins), ("ends", ends))
        for name, value in zip(("_low", "", "_high"), three, strict=True)
    }
    plain = {"id": hid, "kind": "job", "name": hid, "state": "queued", "devices": [], "code": "behind"}
    return {**plain, **times, **given}


def test_what_runs_looks_otherwise_than_what_waits_and_the_axis_reaches_what_is_known(
    world: Stack, visit: Come
) -> None:
    nobody = (None, None, None)
    now, unknown, soon = (-60.0, -60.0, -60.0), (0.0, None, None), (0.0, 0.0, 0.0)
    spans = [
        span("runs", now, unknown, state="running"),
        span("waits", unknown, unknown),
        span("late", (1440.0, None, None), unknown),
        span("planned", (1400.0, 1500.0, 1600.0), (2000.0, 2400.0, 3000.0)),
        span("never", nobody, nobody),
        span("longer", soon, (200_000.0, 200_000.0, 200_000.0)),
    ]

    def told(rows: list[Row]) -> tuple[Visit, Callable[[str], tuple[list[str], list[float], str]]]:
        one, body = visit(), json.dumps({"spans": rows, "more": 0})
        one.page.route(
            "**/api/v1/timeline", lambda way: way.fulfill(body=body, content_type="application/json")
        )
        one.open_tab("jobs")
        one.page.locator(f".row[data-id={rows[0]['id']}]").wait_for()

        def drawn(hid: str) -> tuple[list[str], list[float], str]:
            row = one.page.locator(f".row[data-id={hid}]")
            looks, places = list[str](), list[float]()
            for rect in row.locator("rect").all():
                looks.append((rect.get_attribute("class") or "").split()[1])
                left = float(rect.get_attribute("x") or 0)
                places += [left, left + float(rect.get_attribute("width") or 0)]
            return looks, places, row.locator(".beyond").text_content() or ""

        return one, drawn

    one, drawn = told(spans[:5])
    assert (drawn("runs")[0], drawn("runs")[2]) == (["sure", "perhaps"], "?")
    assert (drawn("waits")[0], drawn("waits")[2]) == (["perhaps"], "?")
    looks, places, beyond = drawn("late")
    assert looks == ["perhaps"] and places[0] < places[1] - 50 and beyond == "?"
    looks, places, beyond = drawn("planned")
    assert (looks, beyond) == (["perhaps", "later", "perhaps"], "")
    assert places[-1] < drawn("runs")[1][-1], "the latest end lies before the edge"
    assert drawn("never") == ([], [], "")
    axis = one.page.locator(".picture").evaluate(
        "one => [one.querySelector('svg'), ...one.querySelectorAll('.axis')]"
        ".map(part => part.getBoundingClientRect().right)"
    )
    assert max(axis[1:]) <= axis[0], "no time is cut"
    two, drawn = told(spans)
    assert drawn("longer")[2] == "▸", "cut by the edge: it goes on"
    two.page.set_viewport_size({"width": 390, "height": 800})
    two.page.get_by_text("scrolls sideways").wait_for()
    assert two.page.get_by_role("region", name="The next hours, drawn").get_attribute("tabindex") == "0"
    assert two.violations() == []


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
