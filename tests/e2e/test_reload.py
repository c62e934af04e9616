"""A changed config in a running Headway: by command and by SIGHUP, under load, refused, drained, and killed in the middle."""

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.client import Answered
from tests.e2e.loads import begin_chat, call, chat, cli, cli_json, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, sleeper, tiny
from tests.processes import alive

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
BAD_CONFIG = 78
SMALL: Table = {"size": "2GiB", "placement": "share"}


def events(headway: Stack, code: str) -> list[dict[str, object]]:
    return [event["facts"] for event in headway.events(code)]


def applied(headway: Stack, by: str) -> Callable[[], bool]:
    return lambda: any(facts["by"] == by for facts in events(headway, "config.applied"))


def test_everything_of_a_changed_file_counts_at_once_or_is_told_when(stack: Up) -> None:
    headway = up(stack, config(tiny("chat", "8GiB"), sleeper("long", **SMALL)))
    job = headway.wait_job("long", "running")
    assert chat(headway, "chat").status == 200
    headway.configure(
        config(
            tiny("chat", "8GiB", env={"NEW": "1"}, max_active=3, models=["chat", "gpt"]),
            tiny("more", "8GiB"),
            sleeper("long", seconds=700.0, **SMALL),
            sleeper("next", hold=True, **SMALL),
            devices=("sim0", "sim1"),
            gap_min=1.5,
        )
    )
    before = headway.service("chat")["pid"]
    dry = cli(headway, "config", "apply", "-n")
    assert dry.returncode == 0 and "[service.more] is new" in dry.stdout and len(headway.jobs()) == 1
    found = cli_json(headway, "config", "apply")
    when = {change["what"].split(":")[0]: change["when"] for change in found["changes"]}
    assert (
        when["[service.chat] max_active"]
        == when["[headway] gap_min"]
        == when["[service.more] is new"]
        == "now"
    )
    assert when["[service.chat] env.NEW changed"] == when["[job.long] start changed"] == "next_start"
    assert when["[device.sim1] is new"] == "restart"
    assert headway.service("chat")["pid"] == before and headway.job("long")["pid"] == job["pid"]
    assert headway.ask("gpt").text and headway.ask("more").text  # a new name, and a new service
    assert headway.wait_job("next", "held")
    again = cli(headway, "config", "apply")
    assert again.stdout.strip() == "[device.sim1] is new  (when Headway is started again)"
    # the next start is of the new command
    cli(headway, "stop", job["id"])
    headway.wait_job("long", "held")
    cli(headway, "release", job["id"])
    pid = headway.wait_job("long", "running")["pid"]
    assert Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1] == "700.0"


def test_a_bad_file_keeps_the_old_config_and_says_why(stack: Up) -> None:
    headway = up(stack, config(tiny("chat")))
    (headway.home / "config.toml").write_text("mode = \n[service.chat]\n")
    done = cli(headway, "config", "apply")
    assert done.returncode == BAD_CONFIG and "config.toml:1" in done.stderr
    assert "config.toml:1" in str(events(headway, "config.refused")[-1]["problems"])
    daemon = headway.pid("daemon")
    os.kill(headway.pid("up"), signal.SIGHUP)
    headway.wait(lambda: len(events(headway, "config.refused")) == 2, "the second refusal")
    assert headway.pid("daemon") == daemon
    assert chat(headway, "chat").status == 200


def test_a_daemon_and_a_gate_that_are_killed_while_the_file_is_bad_go_on_with_the_last_one(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), sleeper("long", **SMALL)))
    job = headway.wait_job("long", "running")
    headway.configure(config(tiny("chat"), tiny("more"), sleeper("long", **SMALL)))
    assert cli(headway, "config", "apply").returncode == 0
    good = (headway.home / "config.toml").read_text()
    (headway.home / "config.toml").write_text(good + "\n[service.chat]\n")
    gate, daemon = headway.kill("parent"), headway.kill("daemon")
    headway.wait(
        lambda: headway.pids("daemon") not in ([], [daemon]) and headway.daemon_answers(), "a daemon"
    )
    headway.wait(lambda: headway.pids("parent") not in ([], [gate]), "a gate")
    headway.wait(lambda: headway.ask("more").text, "an answer of what was applied before")
    assert headway.job("long")["pid"] == job["pid"]
    assert events(headway, "config.refused")[-1]["by"] == "start"
    assert cli(headway, "config", "apply").returncode == BAD_CONFIG
    (headway.home / "config.toml").write_text(good)
    assert cli(headway, "config", "apply").returncode == 0


def test_a_config_is_applied_only_over_the_one_that_was_seen(stack: Up) -> None:
    headway = up(stack, config(tiny("chat", env={"KEY": "s3cret"})))
    seen = cli_json(headway, "config", "show", "--running")
    assert seen["config"]["service"]["chat"]["env"].keys() == {"KEY"} and "s3cret" not in json.dumps(seen)
    headway.configure(config(tiny("chat", env={"KEY": "another"}), gap_min=1.5))
    assert cli(headway, "config", "apply", "--if-match", seen["etag"].strip('"')).returncode == 0
    assert cli_json(headway, "config", "show", "--running")["config"]["headway"]["gap_min"] == 1.5
    headway.configure(config(tiny("chat"), gap_min=2.5))
    late = cli(headway, "config", "apply", "--if-match", seen["etag"])
    assert late.returncode == 1 and "config show --running" in late.stderr
    now = cli_json(headway, "config", "show", "--running")
    assert now["config"]["headway"]["gap_min"] == 1.5 and now["etag"] != seen["etag"]


def test_sighup_to_headway_up_reads_the_file_again(stack: Up) -> None:
    headway = up(stack, config(tiny("chat")))
    assert chat(headway, "chat").status == 200
    headway.configure(config(tiny("chat"), tiny("more")))
    os.kill(headway.pid("up"), signal.SIGHUP)
    headway.wait(applied(headway, "SIGHUP"), "the config")
    assert headway.ask("more").text
    assert headway.pid("up") and headway.pid("daemon")


def test_what_is_in_use_is_taken_away_only_with_drain_and_its_last_answer_comes_whole(stack: Up) -> None:
    headway = up(stack, config(tiny("chat", "8GiB"), sleeper("long", **SMALL)))
    job = headway.wait_job("long", "running")
    assert chat(headway, "chat").status == 200
    headway.configure(config(tiny("other", "8GiB")))
    refused = cli(headway, "config", "apply")
    assert refused.returncode == 1
    assert (
        "[service.chat]" in refused.stderr and "[job.long]" in refused.stderr and "--drain" in refused.stderr
    )
    assert [row["name"] for row in headway.api("/api/v1/services")] == ["chat"]
    asked = begin_chat(headway, "chat", chunks=10, pace_s=0.2)
    headway.wait(lambda: headway.service("chat")["active"] == 1, "a request in flight")
    pid = headway.service("chat")["pid"]
    assert cli_json(headway, "config", "apply", "--drain")["draining"] == ["chat"]
    assert asked.result(60).words.endswith("word9")
    headway.wait(lambda: not alive(pid), "the end of the server")
    headway.wait(lambda: headway.tried(lambda: headway.service("chat")) is None, "chat is forgotten")
    assert headway.ask("chat").status == 404
    assert headway.job("long")["pid"] == job["pid"] and alive(job["pid"])  # it goes on with the recipe it has
    assert headway.ask("other").text


def test_a_service_that_is_taken_away_and_put_back_starts_at_the_first_try(stack: Up) -> None:
    both = config(tiny("chat", "8GiB"), tiny("other", "8GiB"))
    headway = up(stack, both)
    for times in (1, 2):
        assert chat(headway, "chat").status == 200
        headway.configure(config(tiny("other", "8GiB")))
        cli_json(headway, "config", "apply", "--drain")
        headway.wait(lambda: headway.tried(lambda: headway.service("chat")) is None, "chat is forgotten")
        headway.configure(both)
        if times == 2:  # and a new daemon counts on too
            headway.kill("daemon")
            headway.wait(headway.daemon_answers, "the next daemon")
        cli_json(headway, "config", "apply")
        headway.wait(lambda: headway.tried(lambda: headway.service("chat")), "chat is back")
        headway.wait(lambda: call(headway, "/v1/models/chat").status == 200, "the gate knows it too")
    assert chat(headway, "chat").status == 200
    assert headway.service("chat")["run"] == "chat.3" and events(headway, "move.failed") == []


def test_under_load_a_reload_costs_no_request(stack: Up) -> None:
    headway = up(stack, config(tiny("a", "4GiB"), tiny("b", "4GiB")))
    chat(headway, "a")
    over = threading.Event()
    statuses: list[int] = []

    def load() -> None:
        while not over.is_set():
            statuses.extend(answer.status for answer in (headway.ask("a"), headway.ask("b")))

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 7):
        more = [tiny("c", "4GiB")] if number % 2 else []
        headway.configure(
            config(tiny("a", "4GiB", max_active=number), tiny("b", "4GiB", queue_max=500 + number), *more)
        )
        assert cli(headway, "config", "apply", "--drain").returncode == 0
    over.set()
    for thread in threads:
        thread.join()
    assert len(statuses) > 20 and set(statuses) == {200}


@pytest.mark.parametrize("seed", range(2))
def test_a_kill_in_the_middle_of_an_apply_leaves_the_old_config_or_the_new_one(stack: Up, seed: int) -> None:
    headway = up(stack, config(tiny("chat", "8GiB"), sleeper("long", **SMALL)))
    job = headway.wait_job("long", "running")
    assert chat(headway, "chat").status == 200
    headway.configure(
        config(
            tiny("chat", "8GiB", max_active=7),
            tiny("more", "4GiB"),
            sleeper("long", **SMALL),
            sleeper("next", hold=True, **SMALL),
        )
    )
    daemon, chance = headway.pid("daemon"), random.Random(seed)
    answers: list[object] = []

    def apply() -> None:
        try:
            answers.append(headway.post("/api/v1/config/apply", {}))
        except Exception as error:
            answers.append(error)

    asking = threading.Thread(target=apply)
    asking.start()
    asking.join(chance.uniform(0.0, 0.06))
    os.kill(daemon, signal.SIGKILL)
    asking.join()
    headway.wait(
        lambda: headway.pids("daemon") not in ([], [daemon]) and headway.daemon_answers(), "the next daemon"
    )
    assert not any(isinstance(answer, Answered) for answer in answers), answers
    assert [row["name"] for row in headway.jobs()].count("next") == 1  # once, whichever of both saw it first
    headway.wait(lambda: headway.ask("more").text, "the new service at the gate")
    assert headway.ask("chat").text
    assert headway.job("long")["pid"] == job["pid"] and alive(job["pid"])
