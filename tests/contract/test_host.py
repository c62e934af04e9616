"""Memory, peers and clocks of the machine."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from headway.errors import Refused
from headway.host import this_system
from headway.host.linux import LinuxHost
from tests.waiting import wait_for

pytestmark = pytest.mark.contract


def test_free_memory_is_less_than_all_memory_and_free_disk_at_most_all_of_it(tmp_path: Path) -> None:
    total_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    room = this_system(tmp_path).host.room(tmp_path)
    assert 0 < (room.memory_free_bytes or 0) < (room.memory_total_bytes or 0) <= total_bytes
    assert 0 < (room.disk_free_bytes or 0) <= (room.disk_total_bytes or 0)


def test_of_a_disk_that_is_not_there_nothing_is_known(tmp_path: Path) -> None:
    room = this_system(tmp_path).host.room(tmp_path / "gone")
    assert (room.disk_free_bytes, room.disk_total_bytes) == (None, None) and room.memory_free_bytes


def test_the_user_at_the_other_end_of_a_unix_socket(tmp_path: Path) -> None:
    host = this_system(tmp_path).host
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert host.peer_uid(ours) == os.getuid()
    with socket.socket() as tcp:
        assert host.peer_uid(tcp) is None
    assert host.peer_uid(None) is None


def test_the_clock_counts_boottime_and_tells_the_wall_s(tmp_path: Path) -> None:
    clock = this_system(tmp_path).clock
    assert abs(clock.wall_s() - time.time()) < 5
    before_s = clock.now_s()
    assert before_s <= clock.now_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_another_system_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Refused) as refused:
        this_system(tmp_path)
    assert refused.value.code == "unsupported_system" and "WSL2" in str(refused.value)


def test_the_load_of_the_machine() -> None:
    host = LinuxHost()
    first = host.load()
    assert first.cpu_percent is None and first.cpus == os.cpu_count()
    assert 0 < first.free_bytes <= first.memory_bytes
    wait_for(lambda: host.load().cpu_percent is not None, 20.0, "a second look")
    assert 0.0 <= (host.load().cpu_percent or 0.0) <= 100.0
