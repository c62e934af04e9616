"""`headway run` and `headway claim` against a whole Headway: whose turn it is, and what is said to the others."""

import json
import os
from collections.abc import Callable

import pytest

from tests.e2e.loads import chat, cli, cli_json, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, sleeper, tiny, train
from tests.e2e.visits import HEADWAY, Visit, lease, program, wait_lease
from tests.parts.programs import GIB

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
FAILED, USAGE, NO_DAEMON, NOT_YOUR_TURN, NO_PERMISSION, CANNOT_EXECUTE, NOT_FOUND = 1, 2, 69, 75, 77, 126, 127
REQUIRE_S = 30.0


def busy(headway: Stack, size: str = "20GiB", *options: object) -> Visit:
    """Somebody who has the device for long."""
    visit = Visit(headway, "run", "--gpu", size, *options, "holder", "--", *program(headway, size))
    visit.command_pid()
    return visit


def test_a_job_steps_aside_for_a_lease_and_comes_back_after_it(stack: Up) -> None:
    headway = up(stack, config(train()))
    headway.wait_job("train", "running")
    headway.wait(lambda: headway.held() == 14 * GIB, "the job's memory")
    visit = Visit(
        headway,
        "run",
        "--gpu",
        "16GiB",
        "eval",
        "--",
        *program(headway, "16GiB", "--seconds", 1, "--exit", 3),
    )
    visit.command_pid()
    assert headway.held() == 16 * GIB
    row = lease(headway, "eval")
    assert (row["state"], row["pid"], row["devices"], row["need_bytes"]) == (
        "granted",
        visit.pid,
        ["sim0"],
        16 * GIB,
    )
    assert visit.ends() == 3
    headway.wait_job("train", "running")
    events = [event["code"] for event in headway.events(holder=row["id"])]
    assert events.index("lease.added") < events.index("lease.granted") < events.index("lease.ended")


def test_a_model_that_is_idle_steps_aside_for_a_lease_and_answers_after_it(stack: Up) -> None:
    headway = up(stack, config(tiny("chat")))
    chat(headway, "chat")
    visit = busy(headway, "20GiB")
    assert headway.service("chat")["state"] != "awake" and headway.held() == 20 * GIB
    visit.child.terminate()
    assert visit.ends() == 143
    assert chat(headway, "chat").status == 200


def test_the_command_finds_its_device_and_its_lease_in_its_environment(stack: Up) -> None:
    headway = up(stack, config(devices=("sim0", "sim1")))
    headway.wait(lambda: len(headway.api("/api/v1/devices")) == 2, "both devices")
    shown = cli(headway, "run", "--gpu", "1GiB", "--device", "sim1", "--", "/usr/bin/env").stdout
    found = dict(line.split("=", 1) for line in shown.splitlines())
    row = lease(headway, "env")
    assert found["CUDA_VISIBLE_DEVICES"] == "sim1" and found["HEADWAY_LEASE"].startswith(row["id"] + ".")
    assert found["HEADWAY_LEASE"].partition(".")[2] not in json.dumps(headway.api("/api/v1/status"))
    both = cli(headway, "run", "--gpus", "2", "--", "/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES").stdout
    assert sorted(both.strip().split(",")) == ["sim0", "sim1"]


def test_who_is_not_let_in_is_told_by_whom_since_when_and_what_to_do(stack: Up) -> None:
    headway = up(stack, config())
    holder = busy(headway, "20GiB", "--ttl", "2h")
    began = lease(headway, "holder")
    told = cli(headway, "run", "--gpu", "12GiB", "--wait", "0", "--json", "--", "true")
    assert told.returncode == NOT_YOUR_TURN and not told.stdout
    document = json.loads(told.stderr.splitlines()[-1])
    facts = document["facts"]
    assert (document["code"], facts["because"], facts["holder"]) == (
        "not_your_turn",
        "not_preemptible",
        began["id"],
    )
    assert facts["position"] == 1 and facts["held_s"] >= began["held_s"] and 7000 < facts["in_s"] < 7200
    words = cli(headway, "run", "--gpu", "12GiB", "--wait", "0", "--", "true").stderr
    assert "up to 1 h 59 min more" in words and f"headway why {began['id']}" in words
    second = Visit(headway, "run", "--gpu", "12GiB", "--wait", "1s", "--", "true")
    assert second.ends() == NOT_YOUR_TURN
    never = cli(headway, "run", "--gpu", "25GiB", "--json", "--", "true")
    assert (never.returncode, json.loads(never.stderr.splitlines()[-1])["code"]) == (FAILED, "never_fits")
    assert holder.child.poll() is None


def test_the_line_is_served_in_its_order_and_a_higher_priority_goes_first(stack: Up) -> None:
    headway = up(stack, config())
    holder = busy(headway)
    order = headway.home / "order"
    visits = []
    for name, options in (("first", []), ("second", []), ("urgent", ["--priority", "high"])):
        words = [
            *options,
            "--gpu",
            "20GiB",
            "--wait",
            "forever",
            name,
            "--",
            "/bin/sh",
            "-c",
            f"echo {name} >> {order}",
        ]
        visits.append(Visit(headway, "run", *words))
        wait_lease(headway, name, "waiting")
    board = cli_json(headway, "status")
    assert [row["name"] for row in board["leases"]] == ["holder", "urgent", "first", "second"]
    assert [row["position"] for row in board["leases"]] == [None, 1, 2, 3]
    ids = [row["id"] for row in board["leases"]]
    assert cli(headway, "lease", "ls", "-q").stdout.split() == ids
    os.kill(holder.pid, 15)
    assert [visit.ends() for visit in visits] == [0, 0, 0]
    assert order.read_text().split() == ["urgent", "first", "second"]


def test_a_waiting_one_can_be_cancelled_and_one_that_runs_cannot(stack: Up) -> None:
    headway = up(stack, config())
    holder = busy(headway)
    waiting = Visit(headway, "run", "--gpu", "20GiB", "--wait", "forever", "second", "--", "true")
    wait_lease(headway, "second", "waiting")
    assert cli(headway, "cancel", "second").returncode == 0
    assert waiting.ends() == NOT_YOUR_TURN
    refused = cli(headway, "cancel", "holder", "--json")
    assert json.loads(refused.stderr)["code"] == "lease_stays" and holder.child.poll() is None


def test_a_preemptible_one_is_sent_a_signal_when_a_model_is_asked_for(stack: Up) -> None:
    headway = up(stack, config(tiny("chat")))
    command = program(headway, "20GiB", "--tells")
    visit = Visit(headway, "run", "--gpu", "20GiB", "--preemptible", "guest", "--", *command)
    visit.command_pid()
    assert chat(headway, "chat").status == 200
    assert visit.ends() == 44 and "got SIGTERM" in visit.printed
    assert lease(headway, "guest")["ended"] == "revoked"


def test_what_is_past_its_time_is_told_and_never_ended(stack: Up) -> None:
    headway = up(stack, config())
    visit = Visit(
        headway, "run", "--gpu", "20GiB", "--ttl", "1s", "late", "--", *program(headway, "20GiB", "--tells")
    )
    visit.command_pid()
    wait_lease(headway, "late", "overdue")
    headway.wait(lambda: "past its time" in visit.said, "the words about it")
    second = Visit(headway, "run", "--gpu", "20GiB", "--wait", "forever", "second", "--", "true")
    wait_lease(headway, "late", "leaving")
    headway.wait(lambda: "asked to give its GPU back" in visit.said, "the words about it")
    assert visit.child.poll() is None and "got" not in visit.printed
    os.kill(visit.command_pid(), 9)
    assert (visit.ends(), second.ends()) == (137, 0)


def test_in_shadow_mode_it_runs_at_once_and_the_wait_is_recorded(stack: Up) -> None:
    headway = up(stack, config(sleeper("job")) | {"mode": "shadow"})
    first = busy(headway, "20GiB", "--wait", "0")
    second = Visit(
        headway, "run", "--gpu", "20GiB", "--wait", "0", "second", "--", "/bin/sh", "-c", "env; sleep 600"
    )
    second.shows("HEADWAY_LEASE")
    row = lease(headway, "second")
    assert (row["code"], row["state"], row["would_s"]) == ("shadow", "waiting", None)
    assert lease(headway, "holder")["would_s"] is not None
    first.child.terminate()
    assert first.ends() == 143
    headway.wait(lambda: lease(headway, "second")["would_s"], "the wait it would have had")
    assert headway.events("lease.would", holder=row["id"])
    assert second.child.poll() is None


def test_a_lease_inside_a_lease_waits_for_nobody(stack: Up) -> None:
    headway = up(stack, config())
    inner = f"{' '.join(HEADWAY)} --home {headway.home} run --gpu 20GiB -- sh -c 'exit 9'"
    outer = Visit(headway, "run", "--exclusive", "--", "/bin/sh", "-c", inner)
    assert outer.ends() == 9
    assert [row["name"] for row in cli_json(headway, "lease", "ls", "-a")] == ["sh"]


# ---------------------------------------------------------------- claims


def test_a_claim_counts_what_was_started_by_hand_until_it_ends(stack: Up) -> None:
    headway = up(stack, config(train()))
    headway.wait_job("train", "running")
    by_hand = Visit(headway, "run", "--gpu", "1GiB", "--", "true")  # a headway that is over does not matter
    assert by_hand.ends() == 0
    hand = headway.by_hand(program(headway, "4GiB"))
    claimed = cli_json(headway, "claim", "--pid", str(hand.pid), "--gpu", "6GiB", "--name", "notebook")
    row = headway.api(f"/api/v1/claims/{claimed['id']}")
    assert (row["state"], row["pid"], row["need_bytes"], row["block"]) == (
        "counted",
        hand.pid,
        6 * GIB,
        False,
    )
    headway.wait(
        lambda: headway.api(f"/api/v1/claims/{claimed['id']}")["bytes"] == 4 * GIB, "its measured bytes"
    )
    assert headway.api("/api/v1/devices")[0]["foreign_bytes"] == 0
    busy_ = cli(headway, "run", "--gpu", "20GiB", "--wait", "0", "--json", "--", "true")
    assert busy_.returncode == NOT_YOUR_TURN
    again = cli(headway, "claim", "--pid", str(hand.pid), "--json")
    assert json.loads(again.stderr)["code"] == "already_counted"
    hand.kill()
    hand.wait()
    headway.wait(
        lambda: headway.api(f"/api/v1/claims/{claimed['id']}")["state"] == "gone", "the end of the claim", 2.0
    )


def test_a_claim_that_blocks_keeps_jobs_and_leases_off_and_lets_a_model_wake(stack: Up) -> None:
    headway = up(
        stack, config(tiny("chat", "8GiB"), sleeper("job", size="2GiB", placement="share", hold=True))
    )
    hand = headway.by_hand(program(headway, "4GiB", "--seconds", 600, "--exit", 5))
    claimed = cli_json(headway, "claim", "--match", "visitor.*--exit 5", "--block")
    assert claimed["facts"]["pids"] == [hand.pid]
    visit = Visit(headway, "run", "--gpu", "2GiB", "--wait", "forever", "second", "--", "true")
    waiting = wait_lease(headway, "second", "waiting")
    headway.wait(lambda: lease(headway, waiting["id"])["code"] == "blocked", "the block")
    headway.post("/api/v1/jobs/job/release")
    headway.wait(lambda: headway.wait_job("job", "queued")["code"] == "blocked", "the block")
    assert chat(headway, "chat").status == 200
    hand.kill()
    assert visit.ends() == 0


# ---------------------------------------------------------------- wrong inputs

WRONG = {
    "no command": (["run"], USAGE),
    "no dashes": (["run", "true"], USAGE),
    "two names": (["run", "a", "b", "--", "true"], USAGE),
    "an empty command": (["run", "--", ""], USAGE),
    "no size": (["run", "--gpu", "12", "--", "true"], USAGE),
    "nothing at all": (["run", "--gpu", "0GiB", "--", "true"], USAGE),
    "size and alone": (["run", "--gpu", "1GiB", "--exclusive", "--", "true"], USAGE),
    "no duration": (["run", "--wait", "90", "--", "true"], USAGE),
    "no time": (["run", "--ttl", "0s", "--", "true"], USAGE),
    "no such priority": (["run", "--priority", "101", "--", "true"], USAGE),
    "a bad name": (["run", "Big Job", "--", "true"], USAGE),
    "fewer devices than asked for": (["run", "--device", "sim0", "--gpus", "2", "--", "true"], USAGE),
    "no such program": (["run", "--", "no-such-program"], NOT_FOUND),
    "no program": (["run", "--", "/etc/passwd"], CANNOT_EXECUTE),
    "a directory": (["run", "--", "/etc"], CANNOT_EXECUTE),
    "no such process": (["claim", "--pid", "4194303"], USAGE),
    "a pattern that nothing has": (["claim", "--match", "no such words anywhere"], USAGE),
    "no pattern": (["claim", "--match", "(("], USAGE),
    "neither": (["claim"], USAGE),
    "both": (["claim", "--pid", "1", "--match", "x"], USAGE),
    "a device that is not there": (["claim", "--pid", "1", "--device", "gpu9"], USAGE),
    "no such lease": (["lease", "release", "L99"], FAILED),
}


def test_wrong_input_is_told_and_changes_nothing(stack: Up) -> None:
    headway = up(stack, config())
    before = headway.last_event()
    for name, (words, code) in WRONG.items():
        done = cli(headway, *words)
        assert (done.returncode, bool(done.stderr.strip()), done.stdout) == (code, True, ""), (
            f"{name}: {done}"
        )
        assert "Traceback" not in done.stderr, name
    assert headway.last_event() == before and cli_json(headway, "lease", "ls", "-a") == []
