"""kill -9 of the gate's processes and of the supervisor: only what went through the dead one breaks, and it is back."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from demo.tiny_server import recorded
from tests.e2e.kills import Load, Witness, line, linked, moment, process_of, rendering, talk
from tests.e2e.loads import cli
from tests.e2e.stack import LIMIT_S, Part, Stack
from tests.e2e.tables import Table, config, render, sleeper, tiny, train
from tests.processes import alive
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
BACK_S = 10.0  # ten times the second it may take
PARTS: tuple[Part, ...] = ("parent", "child", "daemon")


def always_open() -> Table:
    """A service that stays awake once it is, with a job beside it."""
    return config(tiny("chat", idle_ttl="1h"), train("train", "5GiB", placement="share"))


def opened(stack: Stack) -> None:
    stack.wait_job("train", "running")
    assert talk(stack)[1].result(LIMIT_S).right
    stack.wait_service("chat", "awake")


def killed_together(stack: Stack, *parts: Part) -> None:
    """SIGKILL to all of them before any is waited for."""
    pids = [stack.pid(part) for part in parts]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(alive(pid) for pid in pids), LIMIT_S, f"the end of {parts}")


def pids(stack: Stack, *parts: Part) -> dict[Part, int]:
    return {part: stack.pid(part) for part in parts or PARTS}


def test_a_killed_gate_breaks_its_own_connections_and_answers_who_waits_at_the_listener(stack: Up) -> None:
    headway = stack(always_open())
    opened(headway)
    server, child = process_of(headway, "chat"), headway.pid("child")
    with Witness(headway, "chat") as witness:
        cut, cut_over = talk(headway, chunks=600, pace_s=0.1)
        headway.wait(lambda: cut.began, "the first word")
        os.kill(child, signal.SIGSTOP)  # who connects now waits in the listener's queue
        queued = [talk(headway) for _ in range(20)]
        headway.wait(lambda: connected_to(headway) >= 20, "twenty in the queue")
        os.kill(child, signal.SIGKILL)
        killed_s = time.monotonic()
        for _, over in queued:
            said = over.result(LIMIT_S)
            assert said.right, said
        assert time.monotonic() - killed_s < BACK_S
        broken = cut_over.result(LIMIT_S)
        assert not broken.whole
        assert broken.own
        headway.wait(
            lambda: cut.id in recorded(headway.home / "chat.record", "gone"), "the server to hear of it"
        )
        headway.wait(
            lambda: (row := headway.service("chat"))["active"] == 0 and row["gate"] == "open", "the new gate"
        )
        after = talk(headway)[1].result(LIMIT_S)
        assert after.right
        whole = [one for one, _ in queued]
        witness.check([*whole, after, cut], jobs=("train",), log_cut=True)
    assert process_of(headway, "chat") == server
    assert headway.pid("child") != child
    assert not headway.events("gate.closed", "service.died", "move.failed", "job.lost")


def connected_to(stack: Stack) -> int:
    """Connections of this process to the front door."""
    port = stack.ports["front"]
    mine = psutil.Process().net_connections("tcp")
    return sum(c.status == psutil.CONN_ESTABLISHED and c.raddr and c.raddr.port == port for c in mine)


def test_a_gate_killed_again_and_again_under_load_loses_only_what_it_was_passing_on(stack: Up) -> None:
    chance = random.Random(11)
    headway = stack(always_open())
    opened(headway)
    server, kills, clients = process_of(headway, "chat"), 4, 3
    with Witness(headway, "chat") as witness:
        with Load(headway, clients=clients, chunks=5, pace_s=0.02) as load:
            for _ in range(kills):
                whole = load.whole
                headway.wait(lambda: load.whole > whole + 5, "answers")  # noqa: B023
                moment(chance, 0.5)
                headway.kill("child")
        whole = load.whole
        broken = [one for one in load.talks if not one.right]
        assert whole > kills * 5
        assert len(broken) <= kills * clients, broken
        assert all(one.own and one.status in (0, 200) for one in broken), "cut, never answered with an error"
        witness.check(load.talks, jobs=("train",), log_cut=True)
    assert process_of(headway, "chat") == server
    assert not headway.events("gate.closed", "service.died", "move.failed", "job.lost")


def test_a_gate_killed_while_it_holds_requests_cuts_them_and_holds_new_ones(stack: Up) -> None:
    headway = stack(config(tiny("chat", "16GiB", "--start-delay", 1.5), render()))
    job = rendering(headway)
    with Witness(headway, "chat") as witness:
        held = [talk(headway) for _ in range(3)]
        headway.wait_service("chat", "starting")
        headway.kill("child")
        later = [talk(headway) for _ in range(3)]
        for _, over in held:
            said = over.result(LIMIT_S)
            assert (said.status, said.whole) == (0, False), "its connection broke"
        for _, over in later:
            said = over.result(LIMIT_S)
            assert said.right, said
        sent = recorded(headway.home / "chat.record")
        assert sorted(sent) == sorted(one.id for one, _ in later), "nobody who was cut was sent"
        headway.wait_job("render", "running")
        witness.check([one for one, _ in (*held, *later)], jobs=("render",), log_cut=True)
    assert process_of(headway, "render") == job


def test_a_gate_killed_while_a_close_waits_for_it_lets_the_other_model_in(stack: Up) -> None:
    switch_after = {"attended": 0.5, "background": 600}
    headway = stack(config(tiny("red"), tiny("blue"), switch_after=switch_after))
    linked(headway, "red")
    with Witness(headway, "red", "blue") as witness:
        cut, cut_over = talk(headway, "red", chunks=600, pace_s=0.1)
        headway.wait(lambda: cut.began, "the first word")
        first, first_over = talk(headway, "blue")
        headway.wait_service("red", "draining")
        headway.kill("child")
        second, second_over = talk(headway, "blue")
        assert second_over.result(LIMIT_S).right
        assert not cut_over.result(LIMIT_S).whole
        assert not first_over.result(LIMIT_S).whole
        witness.check([cut, first, second], log_cut=True)


def test_a_killed_gate_parent_breaks_nothing_and_the_next_one_takes_over(stack: Up) -> None:
    headway = stack(always_open())
    opened(headway)
    before, ports = pids(headway), headway.ports
    with Witness(headway, "chat") as witness:
        stream, over = talk(headway, chunks=60, pace_s=0.1)
        headway.wait(lambda: stream.began, "the first word")
        with Load(headway) as load:
            headway.kill("parent")
            answered = load.whole
            headway.wait(lambda: headway.pids("parent") and load.whole > answered + 5, "the next parent")
        assert over.result(LIMIT_S).right
        assert [one for one in load.talks if not one.right] == []
        assert headway.ports == ports
        after = pids(headway)
        assert after["parent"] != before["parent"]
        assert (after["child"], after["daemon"]) == (before["child"], before["daemon"])
        headway.wait(lambda: has_taken_over(headway, after["parent"]), "the listeners in its hands")
        headway.kill("child")  # now its to start again
        last, last_over = talk(headway)
        assert last_over.result(LIMIT_S).right
        witness.check([stream, last, *load.talks], jobs=("train",), log_cut=True)


def has_taken_over(stack: Stack, parent: int) -> bool:
    """Whether that process listens at the front door."""
    port = stack.ports["front"]
    found = psutil.Process(parent).net_connections("tcp")
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)


def test_a_killed_supervisor_breaks_nothing_and_the_next_one_adopts_both(stack: Up) -> None:
    headway = stack(always_open())
    opened(headway)
    before, job = pids(headway), process_of(headway, "train")
    with Witness(headway, "chat") as witness:
        stream, over = talk(headway, chunks=60, pace_s=0.1)
        headway.wait(lambda: stream.began, "the first word")
        with Load(headway) as load:
            headway.kill("up")
            assert pids(headway) == before
            supervisor = headway.up()
            answered = load.whole
            headway.wait(lambda: load.whole > answered + 20, "more answers")
            assert pids(headway) == before, "adopted, not started again"
            headway.kill("daemon")
            headway.wait(lambda: headway.daemon_answers(), "the next daemon")
            headway.kill("parent")
            headway.wait(lambda: headway.pids("parent"), "the next parent")
        assert over.result(LIMIT_S).right
        assert [one for one in load.talks if not one.right] == []
        after = pids(headway)
        assert after["child"] == before["child"]
        assert process_of(headway, "train") == job
        witness.check([stream, *load.talks], jobs=("train",))
    supervisor.terminate()
    headway.wait(
        lambda: supervisor.poll() is not None and not any(headway.pids(part) for part in PARTS), "their end"
    )
    assert supervisor.returncode == 0
    assert alive(job[1]), "what runs goes on"


@pytest.mark.parametrize("supervised", [True, False], ids=["by its supervisor", "by `headway down`"])
def test_a_gate_whose_parent_was_killed_is_ended_with_the_rest(stack: Up, supervised: bool) -> None:
    headway = stack(always_open())
    child = headway.pid("child")
    if supervised:
        killed_together(headway, "parent")
        os.kill(headway.pid("up"), signal.SIGTERM)  # before another parent can have taken it over
    else:
        killed_together(headway, "up", "parent", "daemon")
        assert cli(headway, "down").returncode == 0
    headway.wait(lambda: not alive(child), "its end")


def catches_term(pid: int) -> bool:
    """Whether a process has a handler of its own for SIGTERM."""
    words = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(words["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1)


def test_an_adopted_gate_and_daemon_end_with_their_new_supervisor(stack: Up) -> None:
    headway = stack(always_open())
    before = pids(headway)
    headway.kill("up")
    supervisor = headway.up()
    headway.wait(lambda: catches_term(supervisor.pid), "the next supervisor")
    assert pids(headway) == before
    supervisor.terminate()
    headway.wait(
        lambda: supervisor.poll() is not None and not any(headway.pids(part) for part in PARTS), "their end"
    )
    assert supervisor.returncode == 0


@pytest.mark.parametrize("seed", [21, 22])
def test_daemon_and_gate_killed_at_once_find_each_other_again(stack: Up, seed: int) -> None:
    chance = random.Random(seed)
    late = [sleeper(f"late{number}", size="23GiB", hold=number == 1) for number in range(3)]
    headway = stack(config(tiny("chat", "16GiB", "--start-delay", 0.5), render(), *late))
    job, order = rendering(headway), line(headway)
    answered, lost = [], []
    with Witness(headway, "chat") as witness:
        for phase in ("starting", "awake"):
            held, held_over = talk(headway, chunks=30, pace_s=0.1)
            headway.wait_service("chat", phase)
            moment(chance, 0.5)
            together: list[Part] = ["daemon", "child"]
            chance.shuffle(together)
            killed_together(headway, *together)
            said, over = talk(headway)
            assert over.result(LIMIT_S).right, said
            answered.append(said)
            assert not held_over.result(LIMIT_S).whole
            lost.append(held)
            headway.wait(lambda: headway.daemon_answers() and line(headway) == order, "the same line")
            headway.wait_job("render", "running")
        assert process_of(headway, "render") == job
        witness.check([*answered, *lost], jobs=("render",), log_cut=True)
    assert not headway.events("move.failed", "job.lost", "memory.not_released")
