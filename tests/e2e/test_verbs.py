"""What people type, in the phases that matter, against a whole Headway."""

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.e2e.loads import begin_chat, chat, cli, cli_json, up
from tests.e2e.stack import PARTS, Row, Stack
from tests.e2e.tables import Table, config, render, sleeper, tiny, train
from tests.parts.programs import GIB

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
NO_DAEMON, TAKEN, BAD_CONFIG, FAILED, USAGE = 69, 73, 78, 1, 2


def frame(stack: Stack) -> int:
    path = stack.home / "render" / "frame"
    return int(path.read_text()) if path.exists() else 0


def says(stack: Stack, *words: str) -> str:
    """What a verb prints; it must succeed."""
    done = cli(stack, *words)
    assert done.returncode == 0, f"headway {' '.join(words)}: {done.returncode}\n{done.stderr}"
    return done.stdout


def refused(stack: Stack, *words: str) -> Row:
    """The error of a verb that must not succeed, as `--json` tells it on stderr."""
    done = cli(stack, *words, "--json")
    assert done.returncode == FAILED, (
        f"headway {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    assert not done.stdout
    error: Row = json.loads(done.stderr)
    return error


def line(stack: Stack) -> list[str]:
    """Names of the queued jobs in their order."""
    return [row["name"] for row in cli_json(stack, "ps", "-s", "queued")]


def test_verbs_on_jobs_that_wait_in_line(stack: Up) -> None:
    names = ("a", "b", "c", "d")
    headway = up(
        stack, config(sleeper("running", size="20GiB"), *(sleeper(name, size="20GiB") for name in names))
    )
    headway.wait_job("running", "running")
    assert line(headway) == ["a", "b", "c", "d"]
    assert "held" in says(headway, "hold", "b", "--reason", "not today")
    assert line(headway) == ["a", "c", "d"]
    assert "not today" in says(headway, "why", "b")
    says(headway, "move", "d", "--top")
    says(headway, "move", "a", "--after", "c")
    assert line(headway) == ["d", "c", "a"]
    says(headway, "release", "b")
    says(headway, "move", "b", "--before", "c")
    assert line(headway) == ["d", "b", "c", "a"]
    says(headway, "move", "d", "--bottom")
    assert line(headway) == ["b", "c", "a", "d"]
    assert "cancelled" in says(headway, "cancel", "c")
    for verb in ("release", "resume", "retry", "hold", "cancel"):
        assert refused(headway, verb, "c")["code"] in ("cancelled", "already_ended")
    says(headway, "stop", "a")  # it never ran: it is held
    assert headway.job("a")["state"] == "held"
    says(headway, "kill", "b")
    assert headway.job("b")["state"] == "held"
    assert line(headway) == ["d"]
    assert headway.job("running")["state"] == "running"
    assert refused(headway, "retry", "running")["code"] == "not_ended"
    assert refused(headway, "pause", "running")["code"] == "cannot_pause"
    assert refused(headway, "move", "d", "--after", "running")["code"] == "not_queued"
    assert refused(headway, "hold", "nobody")["code"] == "not_found"
    assert refused(headway, "show", "j999")["code"] == "not_found"
    assert cli(headway, "move", "d").returncode == USAGE
    assert cli(headway, "hold").returncode == USAGE
    says(headway, "cancel", "running")
    headway.wait_job("running", "cancelled")
    headway.wait_job("d", "running")


def test_verbs_on_a_job_that_runs_and_one_that_is_parked(stack: Up) -> None:
    headway = up(stack, config(render(), train("next", "14GiB")))
    job = headway.wait_job("render", "running")
    headway.wait(lambda: frame(headway) > 2, "the first frames")
    # pause: parked and held, and the next one's turn; resume goes on in the same process
    says(headway, "pause", "render")
    headway.wait_job("render", "parked")
    headway.wait_job("next", "running")
    stood_at = frame(headway)
    assert cli_json(headway, "why", "render")["code"] == "held"
    says(headway, "stop", "next")
    headway.wait_job("next", "held")
    headway.wait(lambda: headway.held() == 0, "free memory")
    assert frame(headway) == stood_at, "what is paused stays paused"
    says(headway, "resume", "render")
    after = headway.wait_job("render", "running")
    assert (after["pid"], after["run"]) == (job["pid"], job["run"])
    headway.wait(lambda: frame(headway) > stood_at, "further frames")
    # hold: it runs on, and waits once it is aside
    # stop ends the process, and the job is held; release starts it anew
    says(headway, "stop", "render")
    headway.wait_job("render", "held")
    headway.wait(lambda: not headway.run_pids("render"), "the end of its processes")
    says(headway, "release", "render")
    again = headway.wait_job("render", "running")
    assert again["run"] != job["run"]
    # kill, and cancel while parked: final
    says(headway, "kill", "render")
    headway.wait_job("render", "held")
    says(headway, "release", "render")
    headway.wait_job("render", "running")
    headway.wait(lambda: headway.held() == 12 * GIB, "its memory")
    says(headway, "pause", "render")
    headway.wait_job("render", "parked")
    says(headway, "cancel", "render")
    headway.wait_job("render", "cancelled")
    headway.wait(lambda: not headway.run_pids("render"), "the end of its processes")
    assert refused(headway, "resume", "render")["code"] in ("cancelled", "already_ended")
    says(headway, "release", "next")
    headway.wait_job("next", "running")


def test_wind_down_retry_and_wait(stack: Up) -> None:
    bad = sleeper("bad", 0.1)
    bad.table["start"] = ["sh", "-c", "exit 3"]
    headway = up(stack, config(bad, sleeper("good", 0.1, after=["bad"])))
    headway.wait_job("bad", "failed")
    assert headway.job("bad")["exit_code"] == 3
    headway.wait_job("good", "done")
    failed = cli(headway, "wait", "bad", "good", "--json")
    assert failed.returncode == FAILED
    assert [row["state"] for row in json.loads(failed.stdout)] == ["failed", "done"]
    assert cli(headway, "wait", "good").returncode == 0
    says(headway, "retry", "bad")
    headway.wait(
        lambda: len(headway.events("job.failed", holder=headway.job("bad")["id"])) == 2, "its second end"
    )
    added = says(
        headway, "add", "--gpu", "1GiB", "--name", "mine", "--", "sh", "-c", "echo hello; sleep 600"
    ).strip()
    headway.wait_job(added, "running")
    headway.wait(lambda: "hello" in says(headway, "log", added), "its first words")
    assert cli(headway, "wait", added, "--timeout", "0.1").returncode == 124
    says(headway, "cancel", added)
    headway.wait_job(added, "cancelled")


def test_verbs_on_a_service(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), train(hold=True)))
    held = begin_chat(headway, "chat", chunks=40, pace_s=0.1, stream=True)
    headway.wait_service("chat", "awake")
    headway.wait(lambda: headway.service("chat")["active"] == 1, "a request in flight")
    for verb in ("cancel", "pause", "winddown"):
        assert refused(headway, verb, "chat")["code"] == "not_for_services"
    says(headway, "hold", "chat")  # it finishes what it has, and then goes aside
    answer = held.result(60)
    assert answer.text.endswith("data: [DONE]\n\n"), "the answer under way came whole"
    headway.wait_service("chat", "stopped")
    refusal = chat(headway, "chat")
    assert (refusal.status, refusal.error["code"]) == (503, "service_held")
    assert "held" in refusal.error["message"]
    says(headway, "release", "chat")
    headway.wait(lambda: chat(headway, "chat", {"X-Headway-Wait": "30"}).status == 200, "an answer")
    says(headway, "release", "train")
    headway.wait_job("train", "running")
    says(headway, "kill", "chat")
    assert headway.service("chat")["state"] == "stopped"
    # wake takes the memory as a request does; sleep lets it go until the next one
    says(headway, "service", "wake", "chat", "-w")
    headway.wait_job("train", "queued")
    says(headway, "service", "sleep", "chat", "-w")
    assert headway.service("chat")["state"] == "stopped", "it cannot sleep"
    headway.wait_job("train", "running")
    headway.wait(lambda: chat(headway, "chat", {"X-Headway-Wait": "30"}).status == 200, "an answer")
    says(headway, "service", "stop", "chat", "-w")
    assert chat(headway, "chat").status == 503, "stopped until it is started"
    says(headway, "service", "start", "chat", "-w")


def test_shadow_watches_and_live_acts(stack: Up) -> None:
    headway = up(stack, {**config(tiny("chat"), train()), "mode": "shadow"})
    waits = headway.wait(
        lambda: (row := cli_json(headway, "why", "train"))["code"] == "shadow" and row, "shadow"
    )
    assert waits["state"] == "queued"
    down = chat(headway, "chat")
    assert down.status == 503, "it forwards, and nobody is there"
    assert headway.service("chat")["state"] == "stopped"
    assert not headway.events("move.asked")
    assert refused(headway, "service", "wake", "chat")["code"] == "mode_shadow"
    assert "live" in says(headway, "mode", "live")
    headway.wait_job("train", "running")
    says(headway, "hold", "train")  # once it is aside it does not come back, however slow this machine is
    assert chat(headway, "chat").words.startswith("chat ")
    # back in shadow the one that is awake is forwarded to, and nothing is moved any more
    assert "shadow" in says(headway, "mode", "shadow")
    says(headway, "release", "train")
    before_it = headway.last_event()
    assert chat(headway, "chat").words.startswith("chat ")
    headway.wait(lambda: (headway.service("chat")["quiet_s"] or 0) > 2, "a gap that the job would get")
    assert cli_json(headway, "why", "train")["code"] == "shadow"
    assert not headway.events("move.asked", after=before_it)
    says(headway, "mode", "live")
    headway.wait_job("train", "running")


def test_everything_that_tells_something_tells_it_as_json(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), sleeper("job", size="1GiB"), render(hold=True)))
    job = headway.wait_job("job", "running")["id"]
    assert cli_json(headway, "status")["mode"] == "live"
    assert [row["id"] for row in cli_json(headway, "ps", "-a")] == [job, headway.job("render")["id"]]
    assert cli_json(headway, "show", job)["state"] == "running"
    assert cli_json(headway, "show", "chat")["kind"] == "service"
    assert cli_json(headway, "why", "chat")["code"] == "aside"
    assert cli_json(headway, "mode") == {"mode": "live", "mode_by": None}
    assert cli_json(headway, "check")["ok"] is True
    assert cli_json(headway, "service", "ls")[0]["name"] == "chat"
    assert cli_json(headway, "log", job)["id"] == job
    assert cli_json(headway, "add", "render", "--hold")["accepted"] is True
    several = refused(headway, "hold", "render")
    assert several["code"] == "ambiguous"
    (reply,) = cli_json(headway, "hold", job)
    assert reply["id"] == job
    assert cli_json(headway, "events")


def test_a_bad_config_says_every_problem_and_starts_nothing(stacks: Callable[[Table], Stack]) -> None:
    table = config(tiny("chat", "30GiB", max_activ=3), sleeper("job", priority="huge"), gap_min="soon")
    headway = stacks(table)
    checked = cli(headway, "check", "--json")
    assert checked.returncode == BAD_CONFIG
    problems = json.loads(checked.stdout)["problems"]
    for words in ("max_activ", "huge", "soon", "gap_min"):
        assert any(words in problem for problem in problems), words
    assert all("config.toml:" in problem for problem in problems), "each with its line"
    started = cli(headway, "up")
    assert started.returncode == BAD_CONFIG
    assert all(problem in started.stderr for problem in problems), "all of them at once"
    assert not list((headway.home / "run" / "gates").glob("*")) if (headway.home / "run").exists() else True
    away = cli(headway, "status", "--json")
    assert away.returncode == NO_DAEMON
    assert json.loads(away.stderr)["code"] == "daemon_away"


def test_a_second_headway_in_the_same_home_says_so_and_disturbs_nobody(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), sleeper("job")))
    pids = {part: headway.pid(part) for part in PARTS}
    for verb in ("up", "daemon", "gate"):
        second: subprocess.CompletedProcess[str] = cli(headway, verb)
        assert second.returncode == TAKEN, f"{verb}: {second.returncode} {second.stderr}"
        assert "already" in second.stderr, verb
    assert {part: headway.pid(part) for part in pids} == pids
    assert chat(headway, "chat").words.startswith("chat ")
