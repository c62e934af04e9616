"""What a service manager is told, and the unit files that are shipped."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.gate.spec import DRAIN_S
from headway.host.systemd import PER_LIMIT, Systemd
from headway.supervisor import FINAL
from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract

UNITS = ROOT / "deploy" / "systemd"
ASKED = {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}


@pytest.fixture(params=["a path", "an abstract name"])
def manager(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[tuple[str, socket.socket]]:
    """Where systemd listens, and its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.setblocking(False)
        if request.param == "a path":
            heard.bind(str(short_dir / "notify"))
            yield str(short_dir / "notify"), heard
        else:
            heard.bind("")  # the system chooses a name
            yield "@" + heard.getsockname()[1:].decode(), heard


def words(heard: socket.socket) -> list[str]:
    """All that was said and not read yet."""
    found = []
    while True:
        try:
            found.append(heard.recv(4096).decode())
        except BlockingIOError:
            return found


def test_it_is_told_and_signs_of_life_come_often_enough(manager: tuple[str, socket.socket]) -> None:
    address, heard = manager
    environ = {"NOTIFY_SOCKET": address, **ASKED, "HOME": "/"}
    systemd = Systemd(environ)
    assert environ == {"HOME": "/"}, "nothing of it is for what this process starts"
    systemd.say("READY=1")
    assert words(heard) == ["READY=1"]
    for tenth in range(100, 201):  # ten seconds, with a limit of four
        systemd.alive(tenth / 10)
    assert words(heard) == ["WATCHDOG=1"] * (10 * PER_LIMIT // 4 + 1)


SILENT = {
    # name: the environment without the socket's address
    "no watchdog": {},
    "another process's watchdog": {**ASKED, "WATCHDOG_PID": "1"},
    "no number": {"WATCHDOG_USEC": "soon"},
}


@pytest.mark.parametrize("environ", SILENT.values(), ids=SILENT.keys())
def test_signs_of_life_come_only_where_they_were_asked_for(
    manager: tuple[str, socket.socket], environ: dict[str, str]
) -> None:
    address, heard = manager
    systemd = Systemd({"NOTIFY_SOCKET": address, **environ})
    systemd.alive(100.0)
    assert words(heard) == []


def test_nobody_there_is_no_trouble(short_dir: Path) -> None:
    Systemd({}).say("READY=1")
    Systemd({"NOTIFY_SOCKET": str(short_dir / "none")}).say("READY=1")


# ------------------------------------------------------------ the units


def settings(name: str) -> dict[str, str]:
    rows = [line.partition("=") for line in (UNITS / name).read_text().splitlines() if line[:1] not in "#[ "]
    return {key: value for key, _, value in rows}


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace("%h/.local/bin/headway", "/bin/true"))
    done = subprocess.run(
        [program, "--user", "verify", *map(str, tmp_path.iterdir())],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", ("gate", "daemon"))
def test_a_unit_that_is_stopped_or_killed_ends_itself_and_nothing_else(name: str) -> None:
    unit = settings(f"headway-{name}.service")
    assert (unit["Type"], unit["Restart"], unit["KillMode"], unit["OOMPolicy"]) == (
        "notify",
        "always",
        "process",
        "continue",
    )
    assert {int(code) for code in unit["RestartPreventExitStatus"].split()} == set(FINAL)
    assert int(unit["WatchdogSec"]) >= 10 and unit["StartLimitIntervalSec"] == "0"
    assert unit["ExecStart"].endswith(f"/headway {name}")


def test_the_gate_has_the_time_it_takes_to_leave_and_reloads_by_its_signal() -> None:
    unit = settings("headway-gate.service")
    assert int(unit["TimeoutStopSec"]) > DRAIN_S
    assert unit["ExecReload"].endswith("kill -USR2 $MAINPID")
    front = settings("headway-gate.socket")
    assert (front["ListenStream"], front["FileDescriptorName"]) == ("127.0.0.1:8491", "front")


def test_the_page_about_it_names_every_unit() -> None:
    text = (ROOT / "docs" / "howto" / "systemd.md").read_text()
    assert set(re.findall(r"headway-\w+\.(?:service|socket)", text)) == {
        unit.name for unit in UNITS.iterdir()
    }
