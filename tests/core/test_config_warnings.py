"""What `headway check` says of a config without problems: programs, directories and devices that are not there."""

import os
from pathlib import Path

import pytest

from headway.config.load import doubts
from headway.errors import ConfigInvalid
from headway.ports import DeviceReading, Reading
from tests.configs import CHAT, NIGHT, RENDER, SIM, TRAIN, written

pytestmark = pytest.mark.core

LIVE = 'mode = "live"\n'
NO_CARDS = Reading(at_s=0.0, devices=(), trouble="the NVIDIA library is missing")
CARD = '[device.gpu0]\nmeter = "nvml"\n'


def card(uuid: str = "GPU-a", index: int = 0, trouble: str | None = None) -> DeviceReading:
    return DeviceReading(
        id=f"local/{uuid}", name=f"gpu{index}", index=index, total_bytes=1, used_bytes=None, free_bytes=None,
        processes=None, trouble=trouble,
    )  # fmt: skip


def said(directory: Path, text: str, cards: Reading | None = None) -> list[str]:
    """The warnings, with the directory's own path taken out. `cards` None: NVML must not be asked."""
    directory.joinpath("bin").mkdir()
    for name in ("serve", "train", "render", "park", "resume", "vllm"):
        program = directory / "bin" / name
        program.write_text("")
        program.chmod(0o755)
    (directory / "plain").write_text("")

    def read() -> Reading:
        assert cards is not None, "it was asked for nothing"
        return cards

    found = doubts(written(directory, text), read, {"PATH": str(directory / "bin")})
    return [line.replace(f"{directory}/", "") for line in found]


VLLM = (
    '[service.chat]\ndriver = "vllm"\nstart = ["vllm", "--port", "{port}", "--enable-sleep-mode"]\n'
    'env = {VLLM_SERVER_DEV_MODE = "1"}\nmemory = {asleep = "1GiB"}\n'
)
THEIRS = '[service.chat]\ndriver = "process"\nupstream = "http://127.0.0.1:8000"\n'
REPORTS = SIM.replace('"reports"\n', '"."\n')
CASES = {
    # name: (text, what NVML shows, how its one warning begins, what else it says)
    "shadow": (REPORTS + TRAIN, None, "config.toml mode: is shadow", 'mode = "live"'),
    "nothing to do": (LIVE + REPORTS, None, "config.toml [service]: there is none", "headway add"),
    "no device at all": (LIVE + TRAIN, NO_CARDS, "config.toml [device]: there is none", "the NVIDIA library is missing"),
    "who waits for a device": (LIVE + TRAIN + CHAT, NO_CARDS, "config.toml [device]: there is none", "chat, train will wait"),
    "a card that is not shown": (LIVE + CARD + TRAIN, Reading(at_s=0.0, devices=(card(index=1),)), "config.toml:2 [device.gpu0]: cannot be read", "does not show"),
    "a card in trouble": (LIVE + CARD + TRAIN, Reading(at_s=0.0, devices=(card(trouble="it is lost"),)), "config.toml:2 [device.gpu0]: cannot be read", "it is lost"),
    "no NVML for a named card": (LIVE + CARD + TRAIN, NO_CARDS, "config.toml:2 [device.gpu0]: cannot be read", "library"),
    "no directory of reports": (LIVE + SIM + TRAIN, None, "config.toml:5 [device.sim0] reports: there is no directory", "nothing starts on sim0"),
    "no cuda-checkpoint": (LIVE + REPORTS + TRAIN.replace('"restart"', '"checkpoint"'), None, 'config.toml:7 [job.train] driver: no program "cuda-checkpoint"', "stopped instead"),
    "no such program": (LIVE + REPORTS + TRAIN.replace('"train"]', '"trian"]'), None, 'config.toml:8 [job.train] start: no program "trian"', "PATH"),
    "no such file": (LIVE + REPORTS + TRAIN.replace('"train"]', '"./train.sh"]'), None, "config.toml:8 [job.train] start: there is no program train.sh", ""),
    "not executable": (LIVE + REPORTS + TRAIN.replace('"train"]', '"./plain"]'), None, "config.toml:8 [job.train] start: plain is not executable", ""),
    "no park program": (LIVE + REPORTS + RENDER.replace('["park"]', '["prak"]'), None, "config.toml:9 [job.render] park: no program", ""),
    "no working directory": (LIVE + REPORTS + TRAIN + 'cwd = "gone"\nsaved = ["nobody"]\n', None, "config.toml:9 [job.train] cwd: there is no directory gone", ""),
    "no key": (LIVE + REPORTS + CHAT + 'key_file = "key"\n', None, "config.toml:9 [service.chat] key_file: key cannot be read", ""),
    "vllm without its flag": (LIVE + REPORTS + VLLM.replace(', "--enable-sleep-mode"', ""), None, "config.toml:8 [service.chat] start: has no --enable-sleep-mode", ""),
    "vllm without its routes": (LIVE + REPORTS + VLLM.replace("DEV_MODE", "DEV"), None, "config.toml:9 [service.chat] env: has no VLLM_SERVER_DEV_MODE", ""),
    "a window cannot stop what we cannot start": (LIVE + REPORTS + THEIRS + NIGHT + 'end = "06:30"\n', None, "config.toml:9 [window.night]: chat has no start command", "not put aside"),
    "a window puts a vllm to sleep": (LIVE + REPORTS + THEIRS.replace("process", "vllm") + 'memory = {asleep = "1GiB"}\n' + NIGHT + 'end = "06:30"\n', None, "config.toml:10 [window.night]: chat has no start command", "deepest level"),
    "bytes where GiB were meant": (LIVE + REPORTS + TRAIN + "memory = {running = 16}\n", None, "config.toml:9 [job.train] memory.running: is 16 bytes", 'write "16GiB"?'),
    "the same of main memory": (LIVE + REPORTS + TRAIN + "host_memory = {running = 1048575}\n", None, "config.toml:9 [job.train] host_memory.running: is 1048575 bytes", ""),
    "nobody to alert": (LIVE + REPORTS + TRAIN + '[alerts]\ncommand = ["shout"]\n', None, "config.toml:10 [alerts] command: no program", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "cards", "begins", "says"), CASES.values(), ids=CASES.keys())
def test_a_doubt_is_said(tmp_path: Path, text: str, cards: Reading | None, begins: str, says: str) -> None:
    (found,) = said(tmp_path, text, cards)
    assert found.startswith(begins) and says in found


FINE = {
    # name: (text, what NVML shows)
    "simulated, with its programs": (LIVE + REPORTS + CHAT + TRAIN + RENDER, None),
    "a card by its name": (LIVE + CARD + TRAIN, Reading(at_s=0.0, devices=(card(),))),
    "a card by UUID": (LIVE + '[device.big]\nmeter = "nvml"\nuuid = "GPU-b"\n' + TRAIN, Reading(at_s=0.0, devices=(card(), card("GPU-b", 1)))),
    "every card that there is": (LIVE + TRAIN, Reading(at_s=0.0, devices=(card(),))),
    "a program in its own PATH": (LIVE + REPORTS + TRAIN.replace('"train"]', '"sh"]') + f'env = {{PATH = "{os.defpath}"}}\n', None),
    "a vllm that can sleep": (LIVE + REPORTS + VLLM, None),
    "a script that starts a vllm": (LIVE + REPORTS + CHAT.replace("process", "vllm") + 'memory = {asleep = "1GiB"}\n', None),
    "small, and no slip": (LIVE + REPORTS + TRAIN + "memory = {running = 0}\nhost_memory = {running = 1048576}\n", None),
    "a program beside it": (LIVE + REPORTS + TRAIN.replace('"train"]', '"./bin/train"]'), None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "cards"), FINE.values(), ids=FINE.keys())
def test_nothing_is_said_where_nothing_is_doubtful(tmp_path: Path, text: str, cards: Reading | None) -> None:
    assert said(tmp_path, text, cards) == []


def test_problems_come_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid):
        said(tmp_path, "mode = 3\n")


def test_what_is_doubtful_is_said_beside_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        said(tmp_path, SIM + TRAIN.replace('"train"]', '"trian"]') + CHAT + "no_key = 1\n")
    (problem,), (gone, program) = caught.value.problems, caught.value.warnings
    assert "no_key" in problem
    assert "there is no directory" in gone and 'no program "trian"' in program


def test_of_a_table_with_a_problem_nothing_is_doubted(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        said(tmp_path, LIVE + REPORTS + TRAIN.replace('"train"]', '"trian"]') + "priority = 1000\n")
    assert len(caught.value.problems) == 1 and caught.value.warnings == []
