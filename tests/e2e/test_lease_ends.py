"""How a `headway run` ends: by signals, on a terminal, and with every part of it and of Headway killed."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.loads import cli, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config
from tests.e2e.visits import HEADWAY, Terminal, Visit, lease, program, wait_lease
from tests.parts.programs import GIB
from tests.processes import alive

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
NO_DAEMON, NOT_YOUR_TURN = 69, 75
FREED_S = 2.0  # what is promised
OVER = ("released", "gone", "returning")


def guest(headway: Stack, *options: object, size: str = "20GiB") -> Visit:
    visit = Visit(headway, "run", "--gpu", size, "guest", "--", *program(headway, size, *options))
    visit.command_pid()
    return visit


# ---------------------------------------------------------------- signals and exit codes

ENDS = {
    "exit 0": 0,
    "exit 7": 7,
    "exit 75": 75,
    "kill -KILL $$": 128 + 9,
    "kill -SEGV $$": 128 + 11,
    "kill -PIPE $$": 128 + 13,
}


def test_its_exit_code_is_the_commands(stack: Up) -> None:
    headway = up(stack, config())
    for script, code in ENDS.items():
        assert cli(headway, "run", "--gpu", "1GiB", "--", "/bin/sh", "-c", script).returncode == code, script


def test_signals_that_a_process_sends_to_it_reach_the_command(stack: Up) -> None:
    headway = up(stack, config())
    visit = guest(headway, "--tells")
    for name in ("SIGUSR1", "SIGHUP", "SIGINT"):
        os.kill(visit.pid, getattr(signal, name))
        visit.shows(f"got {name}")
    os.kill(visit.pid, signal.SIGTERM)
    assert visit.ends() == 44 and "got SIGTERM" in visit.printed


def test_stdin_reaches_the_command_whole(stack: Up) -> None:
    headway = up(stack, config())
    word = "x" * 100_000
    script = (
        f"head -c 100000 /dev/zero | tr '\\0' x | {' '.join(HEADWAY)} --home {headway.home} run -q -- wc -c"
    )
    done = Visit(headway, "run", "--gpu", "1GiB", "outer", "--", "/bin/sh", "-c", script)
    assert done.ends() == 0 and done.printed.strip() == str(len(word))


# ---------------------------------------------------------------- on a terminal


@contextmanager
def terminal(headway: Stack) -> Iterator[Terminal]:
    one = Terminal(headway, headway.home)
    try:
        yield one
    finally:
        one.close()


def typed(headway: Stack, *words: object) -> str:
    return " ".join([*HEADWAY, "--home", str(headway.home), *map(str, words)])


def test_ctrl_c_ctrl_z_and_the_size_of_the_window_are_the_commands(stack: Up) -> None:
    headway = up(stack, config())
    command = " ".join(program(headway, "1GiB", "--tells"))
    with terminal(headway) as shell:
        shell.types(typed(headway, "run", "--gpu", "1GiB", "guest", "--", command) + "\n")
        shell.shows("holds ")
        shell.types("\x03")
        shell.shows("got SIGINT")
        shell.types("\x1a")
        shell.shows("Stopped")
        shell.shows("ready> ")
        assert lease(headway, "guest")["state"] == "granted"
        shell.types("fg\n")
        shell.shows("tests.parts.visitor")
        shell.resizes(50, 120)
        shell.shows("got SIGWINCH")
        assert shell.shown.count("got SIGWINCH") == 1
        os.kill(lease(headway, "guest")["pid"], signal.SIGTERM)
        shell.shows("ready> ")
        shell.types("echo code=$?\n")
        shell.shows("code=44")


def test_the_command_reads_the_keyboard_and_a_shell_in_it_has_its_own_jobs(stack: Up) -> None:
    headway = up(stack, config())
    with terminal(headway) as shell:
        shell.types(
            typed(headway, "run", "--gpu", "1GiB", "--", "bash", "--norc", "--noediting", "-i") + "\n"
        )
        shell.shows("ready> ")
        shell.types("tty; sleep 600\n")
        shell.shows("/dev/")
        shell.types("\x1a")
        shell.shows("Stopped")
        shell.types("kill -9 %1; wait %1; test -t 0 && echo lease=$HEADWAY_LEASE\n")
        shell.shows("lease=L1.")
        shell.types("exit 5\n")
        shell.shows("exit")
        shell.types("echo code=$?\n")
        shell.shows("code=5")


def test_ctrl_c_while_it_waits_gives_the_place_up(stack: Up) -> None:
    headway = up(stack, config())
    guest(headway)
    with terminal(headway) as shell:
        shell.types(typed(headway, "run", "--gpu", "20GiB", "second", "--", "true") + "\n")
        shell.shows("number 1 in line")
        assert lease(headway, "second")["wait_limit_s"] is None, "for ever, on a terminal"
        shell.types("\x03")
        shell.shows("gave up")
        shell.types("echo code=$?\n")
        shell.shows("code=130")
    wait_lease(headway, "second", "released")
    other = Visit(headway, "run", "--gpu", "20GiB", "third", "--", "true")
    wait_lease(headway, "third", "waiting")
    assert lease(headway, "third")["wait_limit_s"] == 900.0, "not for ever, without one"
    other.child.kill()
    wait_lease(headway, "third", "gone", limit_s=FREED_S)


# ---------------------------------------------------------------- kill -9


def freed(headway: Stack, target: str = "guest") -> None:
    """Within two seconds it is over, and what it held is free again."""
    headway.wait(lambda: lease(headway, target)["state"] in ("released", "gone"), "its end", FREED_S)
    assert headway.held() == 0


def test_a_killed_command_gives_its_lease_back(stack: Up) -> None:
    headway = up(stack, config())
    visit = guest(headway)
    os.kill(visit.command_pid(), signal.SIGKILL)
    freed(headway)
    assert visit.ends() == 128 + 9


def test_killed_itself_its_command_goes_on_and_the_lease_until_that_ends(stack: Up) -> None:
    headway = up(stack, config())
    visit = guest(headway)
    command = visit.command_pid()
    visit.child.kill()
    visit.child.wait()
    refused = cli(headway, "run", "--gpu", "20GiB", "--wait", "3s", "--", "true")
    assert refused.returncode == NOT_YOUR_TURN and alive(command)
    row = lease(headway, "guest")
    assert (row["state"], row["bytes"]) == ("granted", 20 * GIB)
    headway.kill("daemon")
    headway.wait(headway.daemon_answers, "the next daemon")
    headway.wait(lambda: lease(headway, "guest")["bytes"] == 20 * GIB, "its bytes, counted again")
    os.kill(command, signal.SIGKILL)
    freed(headway)


def test_the_lease_lasts_as_long_as_what_the_command_left_behind(stack: Up) -> None:
    headway = up(stack, config())
    visit = guest(headway, "--leaves")
    left = visit.command_pid()
    assert visit.ends() == 0
    refused = cli(headway, "run", "--gpu", "20GiB", "--wait", "3s", "--", "true")
    assert refused.returncode == NOT_YOUR_TURN and lease(headway, "guest")["state"] == "granted"
    headway.wait(lambda: lease(headway, "guest")["bytes"] == 20 * GIB, "its bytes, though it left the tree")
    os.kill(left, signal.SIGKILL)
    freed(headway)


def test_two_of_them_one_after_the_other_need_no_patience(stack: Up) -> None:
    headway = up(stack, config())
    words = f"{' '.join(HEADWAY)} --home {headway.home} run --gpu 20GiB --wait 0 -- true || exit"
    script = headway.home / "script"
    script.write_text("\n".join([words] * 5))
    ran = headway.by_hand(["/bin/sh", str(script)])
    headway.wait(lambda: ran.poll() is not None, "the script")
    assert ran.returncode == 0, headway.logs()


def test_a_daemon_that_is_killed_loses_no_place_and_no_lease(stack: Up) -> None:
    headway = up(stack, config())
    first = guest(headway, "--tells")
    began = lease(headway, "guest")
    second = Visit(
        headway, "run", "--gpu", "20GiB", "--wait", "forever", "second", "--", "sh", "-c", "exit 4"
    )
    asked = wait_lease(headway, "second", "waiting")
    headway.kill("daemon")
    headway.wait(headway.daemon_answers, "the next daemon")
    again = wait_lease(headway, "second", "waiting")
    assert (again["id"], again["age_s"] >= asked["age_s"]) == (asked["id"], True)
    row = lease(headway, "guest")
    assert (row["id"], row["state"], row["fencing"], row["pid"]) == (
        began["id"],
        "granted",
        began["fencing"],
        first.pid,
    )
    os.kill(first.pid, signal.SIGTERM)
    assert (first.ends(), second.ends()) == (44, 4)
    assert len(headway.events("lease.added")) == 2


# ---------------------------------------------------------------- without a daemon


def test_without_a_daemon_it_runs_with_a_warning_and_with_require_it_never_does(
    stacks: Up, tmp_path: Path
) -> None:
    headway = stacks(config())
    ran = cli(headway, "run", "--gpu", "12GiB", "--", "/bin/sh", "-c", "echo ran; exit 6")
    assert (ran.returncode, ran.stdout) == (6, "ran\n") and "warning" in ran.stderr
    waits = Visit(headway, "run", "--require", "--gpu", "12GiB", "--", "/bin/sh", "-c", "echo ran")
    assert waits.ends() == NO_DAEMON and waits.printed == ""


def test_with_require_it_waits_for_a_daemon_that_comes(stacks: Up) -> None:
    headway = stacks(config())
    waits = Visit(
        headway, "run", "--require", "--gpu", "12GiB", "guest", "--", "/bin/sh", "-c", "echo ran; exit 6"
    )
    headway.wait(lambda: "--require" in waits.said, "that it waits")
    headway.up()
    assert waits.ends() == 6 and waits.printed == "ran\n"
    assert headway.events("lease.granted")


def test_a_daemon_that_is_on_its_way_is_waited_for_without_require(stack: Up) -> None:
    headway = up(stack, config())
    guest(headway)
    headway.kill("daemon")
    second = cli(headway, "run", "--gpu", "20GiB", "--wait", "0", "--", "true")
    assert second.returncode == NOT_YOUR_TURN, second.stderr


def test_a_daemon_that_hangs_keeps_nobody_from_working(stack: Up) -> None:
    headway = up(stack, config())
    os.kill(headway.pid("daemon"), signal.SIGSTOP)
    ran = cli(headway, "run", "--gpu", "12GiB", "--", "/bin/sh", "-c", "echo ran; exit 6")
    os.kill(headway.pid("daemon"), signal.SIGCONT)
    assert (ran.returncode, ran.stdout) == (6, "ran\n") and "warning" in ran.stderr


def test_a_refusal_is_no_missing_daemon(stack: Up) -> None:
    headway = up(stack, config())
    url = {"HEADWAY_URL": headway.api_url}  # over TCP nobody may change anything
    visit = Visit(headway, "run", "--gpu", "1GiB", "--", "/bin/sh", "-c", "echo ran", **url)
    assert visit.ends() == 77 and visit.printed == ""
