"""What the verbs of the command line do, done on the page: each once, by whichever hands.

`@deed("hold", "--reason")` says which verb and which of its options the function does.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Locator

from tests.e2e.stack import Row, Stack
from tests.page.hands import Hands

TAG = "deed"
SLEEP = ["sleep", "600"]


@dataclass(frozen=True, slots=True)
class Scene:
    """One Headway, and somebody before its page."""

    world: Stack
    hands: Hands

    def job(self, name: str, **more: Any) -> str:
        """A job of its own, that may run beside the model."""
        body = {"argv": SLEEP, "gpu": "1GiB", "placement": "share", "resumable": True, "tags": [TAG]}
        return str(self.world.post("/api/v1/jobs", {**body, "name": name, **more})["id"])

    def running(self, name: str, **more: Any) -> str:
        """The same, once it runs."""
        made = self.job(name, **more)
        self.world.wait_job(made, "running")
        return made

    def row(self, job: str) -> Row:
        return self.world.job(job)

    def until(self, job: str, **wanted: object) -> None:
        """Wait until its row says so."""
        self.world.wait(
            lambda: {key: self.row(job)[key] for key in wanted} == wanted, f"{wanted}: {self.row(job)}"
        )

    def say(self, details: Locator, verb: str, why: str | None = None, sure: bool = False) -> None:
        """Press a verb of what is open, with a reason; and again where a question comes first."""
        if why is not None:
            self.hands.write(details.get_by_label("Why"), why)
        self.hands.press(details.get_by_role("button", name=re.compile(f"^{verb}\\b")).first)
        if sure:
            self.agree(verb)

    def agree(self, text: str) -> None:
        """To the question that stands open."""
        self.hands.press(self.dialog.get_by_role("button", name=text, exact=True))

    @property
    def dialog(self) -> Locator:
        return self.hands.page.get_by_role("dialog")

    def now(self) -> None:
        self.hands.press(self.hands.page.get_by_role("link", name="Now", exact=True))


Deed = Callable[[Scene], None]
DEEDS: dict[str, Deed] = {}
OPTIONS: dict[str, set[str]] = {}


def deed(verb: str, *options: str) -> Callable[[Deed], Deed]:
    """This function does `headway VERB`, with each of these options."""

    def known(function: Deed) -> Deed:
        DEEDS[f"{verb}: {function.__name__}"] = function
        OPTIONS.setdefault(verb, set()).update(options)
        return function

    return known


# ------------------------------------------------------------------ jobs


@deed("hold", "--reason")
@deed("release", "--reason")
def keep_one_waiting(scene: Scene) -> None:
    scene.world.post("/api/v1/queue/hold")
    job = scene.job("keep")
    details = scene.hands.open("keep")
    scene.say(details, "Hold", "the card is lent out")
    scene.until(job, state="held", wish_by="page")
    assert "the card is lent out" in scene.row(job)["why"]
    scene.say(details, "Release", "it is back")
    scene.until(job, state="queued", wish="run")


@deed("start", "--reason", "--anyway")
def start_one_now(scene: Scene) -> None:
    scene.world.post("/api/v1/queue/hold")
    plain, careless = scene.job("plain"), scene.job("careless", resumable=False, gpu="20GiB", placement="gap")
    details = scene.hands.open("plain")
    scene.say(details, "Start now", "the talk is tomorrow")
    scene.hands.one.said("Start now").wait_for()
    scene.world.wait(lambda: scene.world.events("job.asked", holder=plain), "the wish")
    scene.say(scene.hands.open("careless"), "Start anyway", sure=True)
    scene.until(careless, code="queue_held")


@deed("stop", "--reason")
@deed("kill", "--reason")
@deed("cancel", "--reason")
@deed("retry", "--reason")
@deed("clear", "--reason")
def end_one(scene: Scene) -> None:
    job = scene.running("ends")
    details = scene.hands.open("ends")
    scene.say(details, "Stop", "too loud")
    scene.until(job, state="held")
    assert "too loud" in scene.row(job)["why"]
    scene.say(details, "Release")
    scene.until(job, state="running")
    scene.say(details, "Kill", "at once", sure=True)
    scene.until(job, state="held")
    scene.say(details, "Cancel", "no more", sure=True)
    scene.until(job, state="cancelled")
    scene.hands.one.refused = {404}  # its row and its runs are asked for once more
    scene.say(details, "Forget", "tidy", sure=True)
    details.get_by_text("Nothing has that id any more.").wait_for()
    failed = scene.job("fails", argv=["false"])
    scene.world.wait_job(failed, "failed")
    scene.hands.press(details.get_by_role("button", name="Close"))
    scene.hands.tick(scene.hands.page.get_by_label("those that are over too"))
    scene.say(scene.hands.open("fails"), "Restart", "once more")
    scene.world.wait(lambda: scene.row(failed)["runs"] == 2, "its second run")


@deed("pause", "--reason", "--at-saved-point")
@deed("resume", "--reason")
@deed("winddown", "--reason")
def put_one_aside(scene: Scene) -> None:
    parks = scene.running("parks", driver="command", options={"park": ["true"], "resume": ["true"]})
    details = scene.hands.open("parks")
    scene.say(details, "Pause", "a demo")
    scene.until(parks, state="parked")
    scene.say(details, "Resume", "over")
    scene.until(parks, state="running")
    saves = scene.running("saves", options={"saved": ["sh", "-c", "date +%s"]})
    details = scene.hands.open("saves")
    scene.say(details, "Pause at its saved point", "a demo")
    scene.until(saves, state="held")
    scene.say(details, "Release")
    scene.until(saves, state="running")
    scene.say(details, "Wind down", "the night is over")
    scene.until(saves, state="held")


@deed("move", "--top", "--bottom", "--before", "--after")
def move_one(scene: Scene) -> None:
    scene.world.post("/api/v1/queue/hold")
    ids = [scene.job(name) for name in ("first", "second", "third")]
    first, second, third = ids
    details = scene.hands.open("second")

    def to(where: str, beside: str | None, *wanted: str) -> None:
        scene.hands.press(details.get_by_role("button", name="Move", exact=True))
        scene.hands.choose(scene.dialog.get_by_label("Where"), where)
        if beside is not None:
            options = scene.dialog.get_by_label("of").locator("option")
            options.first.wait_for(state="attached")
            scene.hands.choose(scene.dialog.get_by_label("of"), options.filter(has_text=beside).inner_text())
        scene.hands.press(scene.dialog.get_by_role("button", name="Move"))
        scene.world.wait(
            lambda: [row["id"] for row in scene.world.api("/api/v1/queue")["jobs"]] == list(wanted),
            f"{where}: {wanted}",
        )
        scene.dialog.wait_for(state="detached")

    to("to the front", None, second, first, third)
    to("right after", "third", first, third, second)
    to("right before", "third", first, second, third)
    to("to the end", None, first, third, second)


EDITED = {
    "--priority": ("priority", "70", 70),
    "--retries": ("retries", "2", None),
    "--max-time": ("max runtime", "1h 60min", 7200.0),
    "--stall-after": ("stall after", "10min", None),
    "--oom-exit-code": ("oom exit code", "99", None),
    "--goal": ("goal", "a better one", "a better one"),
    "--tag": ("tags", "deed, night", ["deed", "night"]),
    "--label": ("labels", "model=a, seed=3", {"model": "a", "seed": "3"}),
    "--colour": ("colour", "teal", "teal"),
}


@deed("edit", *EDITED, "--placement", "--after", "--after-ok", "--no")
def edit_one(scene: Scene) -> None:
    scene.world.post("/api/v1/queue/hold")
    other, job = scene.job("other"), scene.job("edited")
    details = scene.hands.open("edited")
    scene.hands.press(details.get_by_role("button", name="Edit", exact=True))
    for label, text, _ in EDITED.values():
        scene.hands.write(scene.dialog.get_by_label(label, exact=True), text)
    scene.hands.choose(scene.dialog.get_by_label("placement", exact=True), "yield")
    scene.hands.write(scene.dialog.get_by_label("after", exact=True), other)
    scene.hands.press(scene.dialog.get_by_role("button", name="Change it"))
    scene.dialog.wait_for(state="detached")
    row = scene.row(job)
    names = {"--max-time": "max_runtime_s", "--tag": "tags", "--label": "labels"}
    for option, (_, _, value) in EDITED.items():
        if value is not None:
            assert row[names.get(option, option.removeprefix("--"))] == value, option
    (event,) = scene.world.events("job.edited", holder=job)
    assert {"retries", "stall_after_s", "oom_exit_code"} <= set(event["facts"]["fields"])
    assert (row["placement"], row["after"]) == ("yield", [other])

    scene.hands.press(details.get_by_role("button", name="Edit", exact=True))
    for label in ("goal", "labels", "colour", "after", "max runtime"):
        scene.hands.tick(scene.dialog.get_by_label(f"none: {label}", exact=True))
    scene.hands.write(scene.dialog.get_by_label("after ok", exact=True), other)
    scene.hands.press(scene.dialog.get_by_role("button", name="Change it"))
    scene.dialog.wait_for(state="detached")
    row = scene.row(job)
    assert (row["goal"], row["labels"], row["colour"], row["max_runtime_s"]) == (None, {}, None, None)
    assert row["after"] == [other] and row["tags"] == ["deed", "night"]


@deed("priority")
@deed("edit", "--all")
@deed("move")
@deed("hold", "--all")
@deed("release", "--all")
@deed("cancel", "--all")
def all_at_once(scene: Scene) -> None:
    """What stands in the list is what is meant: the search and the states say which."""
    scene.world.post("/api/v1/queue/hold")
    ids = [scene.job(f"one{n}") for n in range(3)]
    page = scene.hands.page
    scene.hands.press(page.get_by_role("link", name="Jobs", exact=True))
    scene.hands.write(page.get_by_label("Search"), f"tag={TAG}")
    scene.world.wait(lambda: page.get_by_role("table").get_attribute("aria-rowcount") == "4", "three rows")
    scene.hands.tick(page.get_by_label("Choose all of these"))
    many = page.get_by_role("group", name="Chosen jobs")
    scene.hands.press(many.get_by_role("button", name="Edit", exact=True))
    scene.hands.write(scene.dialog.get_by_label("priority"), "20")
    scene.hands.press(scene.dialog.get_by_role("button", name="Change it"))
    scene.dialog.wait_for(state="detached")
    assert {scene.row(job)["priority"] for job in ids} == {20}
    scene.say(many, "Hold", "all of them")
    scene.world.wait(lambda: {scene.row(job)["state"] for job in ids} == {"held"}, "all held")
    many.wait_for(state="detached")
    scene.hands.mark("one0")
    scene.hands.mark("one2")
    scene.say(many, "Release")
    scene.until(ids[0], state="queued")
    assert (scene.row(ids[1])["state"], scene.row(ids[2])["state"]) == ("held", "queued")
    many.wait_for(state="detached")
    scene.hands.mark("one2")
    scene.hands.press(many.get_by_role("button", name="Move"))
    scene.hands.press(scene.dialog.get_by_role("button", name="Move"))
    scene.world.wait(lambda: scene.world.api("/api/v1/queue")["jobs"][0]["id"] == ids[2], "the order")
    scene.hands.press(many.get_by_role("button", name="Choose none"))
    scene.hands.tick(page.get_by_label("Choose all of these"))
    scene.say(many, "Cancel", sure=True)
    scene.world.wait(lambda: {scene.row(job)["state"] for job in ids} == {"cancelled"}, "all cancelled")


@deed("start", "--all")
@deed("pause", "--all")
@deed("resume", "--all")
@deed("winddown", "--all")
@deed("stop", "--all")
@deed("kill", "--all")
@deed("retry", "--all")
@deed("clear", "--all")
def every_verb_is_there_for_many(scene: Scene) -> None:
    ids = [scene.job(f"two{n}", argv=["false"]) for n in range(2)]
    for job in ids:
        scene.world.wait_job(job, "failed")
    page = scene.hands.page
    scene.hands.press(page.get_by_role("link", name="Jobs", exact=True))
    scene.hands.tick(page.get_by_label("those that are over too"))
    scene.hands.write(page.get_by_label("Search"), "name=two*")
    scene.world.wait(lambda: page.get_by_role("table").get_attribute("aria-rowcount") == "3", "two rows")
    scene.hands.tick(page.get_by_label("Choose all of these"))
    many = page.get_by_role("group", name="Chosen jobs")
    for verb in ("Restart", "Forget"):
        many.get_by_role("button", name=re.compile(f"^{verb} 2 jobs")).wait_for()
    assert many.get_by_role("button", name=re.compile("2 jobs$")).count() == 2, "and no verb of another state"
    scene.say(many, "Restart")
    many.wait_for(state="detached")
    scene.world.wait(lambda: {scene.row(job)["runs"] for job in ids} == {2}, "their second runs")
    for job in ids:
        scene.world.wait_job(job, "failed")
        scene.world.wait(lambda: not scene.row(job)["devices"], "nothing of it left")  # noqa: B023
    many.wait_for(state="detached")
    scene.hands.tick(page.get_by_label("Choose all of these"))
    scene.say(many, "Forget", sure=True)
    page.get_by_text("No job is like that.").wait_for()


@deed(
    "add", "--priority", "--placement", "--after", "--after-ok", "--retries", "--max-time", "--stall-after",
    "--oom-exit-code", "--goal", "--tag", "--label", "--colour", "--hold",
)  # fmt: skip
def add_a_recipe(scene: Scene) -> None:
    other = scene.job("before", hold=True)
    page = scene.hands.page
    scene.hands.press(page.get_by_role("link", name="Jobs", exact=True))
    scene.hands.press(page.get_by_role("button", name="Add a job"))
    scene.hands.choose(scene.dialog.get_by_label("Recipe"), "nightly")
    for label, text, _ in EDITED.values():
        scene.hands.write(scene.dialog.get_by_label(label, exact=True), text)
    scene.hands.choose(scene.dialog.get_by_label("placement", exact=True), "share")
    scene.hands.write(scene.dialog.get_by_label("after", exact=True), other)
    scene.dialog.get_by_label("after ok", exact=True).wait_for()
    scene.hands.tick(scene.dialog.get_by_label("hold", exact=True))
    scene.hands.press(scene.dialog.get_by_role("button", name="Add it"))
    scene.dialog.wait_for(state="detached")
    (row,) = [job for job in scene.world.jobs() if "night" in job["tags"]]
    assert (row["recipe"], row["state"], row["placement"], row["after"]) == (
        "nightly",
        "held",
        "share",
        [other],
    )
    assert (row["labels"], row["priority"], row["max_runtime_s"]) == ({"model": "a", "seed": "3"}, 70, 7200.0)
