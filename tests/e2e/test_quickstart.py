"""docs/quickstart.md, typed from its first line to its last by somebody who has a fresh home and nothing else."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway.config.load import load
from tests.core.test_history import row
from tests.parts.fake_nvml import Box
from tests.parts.programs import ROOT
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]  # each command is a process of its own

PAGE = ROOT / "docs" / "quickstart.md"
BLOCK = re.compile(r"^```(\w+)( \w+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Block:
    kind: str  # sh, toml, text
    of: str  # install, gpu, or empty: the first part
    text: str


def blocks() -> list[Block]:
    return [Block(kind, of.strip(), text) for kind, of, text in BLOCK.findall(PAGE.read_text("utf-8"))]


@dataclass
class Newcomer:
    """Somebody at two terminals: what he exports stays, and `headway up` has a terminal of its own."""

    user_home: Path
    started: Started
    said: str = ""  # the exports so far

    def types(self, block: Block) -> str:
        """The output of a block, which must end with status 0."""
        if block.text == "headway up\n":
            self.up()
            return ""
        script = f"set -euo pipefail\n{self.said}{block.text}"
        self.said += "".join(
            f"{line}\n" for line in block.text.splitlines() if line.startswith(("export ", "unset "))
        )
        done = subprocess.run(
            ["bash", "-c", script],
            env=self.environment(),
            cwd=self.user_home,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}\n{self.started.output()}"
        return done.stdout

    def up(self) -> None:
        child = self.started.start(
            ["bash", "-c", f"{self.said}exec headway up"], env=self.environment(), cwd=self.user_home
        )
        answered = lambda: child.poll() is not None or self.tries("headway status")  # noqa: E731
        wait_for(answered, LIMIT_S, "headway up")
        assert child.poll() is None, self.started.output()

    def tries(self, command: str) -> bool:
        script = f"{self.said}{command}"
        run = subprocess.run(
            ["bash", "-c", script], env=self.environment(), capture_output=True, timeout=LIMIT_S
        )
        return run.returncode == 0

    def environment(self) -> dict[str, str]:
        around = Box(self.user_home / "no-gpu").environment()
        told = ("HEADWAY_", "XDG_")
        kept = {name: value for name, value in around.items() if not name.startswith(told)}
        return {
            **kept,
            "HOME": str(self.user_home),
            "PATH": f"{self.user_home / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "NO_COLOR": "1",
            "HEADWAY_CFG__GATE__PORT": "0",  # the usual ones may be somebody's here
            "HEADWAY_CFG__API__PORT": "0",
        }


@pytest.fixture
def newcomer(short_dir: Path, started: Started) -> Iterator[Newcomer]:
    program = short_dir / "bin" / "headway"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headway.cli.main "$@"\n')
    program.chmod(0o755)
    made = Newcomer(short_dir, started)
    yield made
    made.tries("headway down --all")


def rows(output: str) -> dict[str, list[str]]:
    """The last table of `headway ps`, by name: the words of each row."""
    table = output[output.rindex("ID  NAME") :].splitlines()[1:]
    return {words[1]: words for words in map(str.split, table)}


def test_the_page_without_a_gpu(newcomer: Newcomer) -> None:
    page = iter([one for one in blocks() if one.kind == "sh" and not one.of])
    step = lambda: newcomer.types(next(page))  # noqa: E731
    runs = lambda name: f"headway ps -s running --select name={name} -q | grep -q ."  # noqa: E731
    aside = ("held", "stopping")  # as fast as they are typed here, the second one may still be true

    assert "no problems" in step()
    step()  # headway up
    assert re.search(r"^sim0 +24 GiB", step(), re.MULTILINE)
    assert step().split() == ["j1", "j2", "j3"]
    wait_for(lambda: newcomer.tries(runs("first")), LIMIT_S, "the first job")
    shown = rows(step())
    assert [shown[name][:4] for name in ("first", "second", "third")] == [
        ["j1", "first", "running", "-"],
        ["j2", "second", "queued", "1"],
        ["j3", "third", "queued", "2"],
    ]
    assert step().startswith("queued: ")
    moved = rows(step())
    assert (moved["third"][3], moved["second"][3]) == ("1", "2")
    has_printed = lambda: newcomer.tries("headway log first | grep -q 'first: step 2'")  # noqa: E731
    wait_for(has_printed, LIMIT_S, "two steps")
    assert rows(step())["first"][2] in aside
    wait_for(lambda: newcomer.tries(runs("third")), LIMIT_S, "the third job")
    assert rows(step())["third"][2] in aside
    wait_for(lambda: newcomer.tries(runs("first")), LIMIT_S, "the first job again")
    went_on = lambda: newcomer.tries("headway log first | grep -q step")  # noqa: E731
    wait_for(went_on, LIMIT_S, "a step of the second run")
    steps = re.findall(r"^first: step (\d+)$", step(), re.MULTILINE)
    assert steps and int(steps[0]) > 2, "it went on from where it was"
    assert re.search(r"^run +j1\.2$", step(), re.MULTILINE)
    assert newcomer.tries("headway log first --run 1 | grep -q 'first: step 1'")
    ended = re.findall(r"^j\d (\w+): (\w+)", step(), re.MULTILINE)
    assert {name for name, _ in ended} == {"first", "second", "third"}
    assert {state for _, state in ended} <= {"cancelled", "stopping"}
    wait_for(lambda: not newcomer.tries("headway status"), LIMIT_S, "the end of headway up")
    assert next(page, None) is None, "all of the page was typed"


def test_the_page_on_a_machine_with_a_gpu(newcomer: Newcomer) -> None:
    """What it types works without one too: then the jobs wait, and say for what."""
    page = [one for one in blocks() if one.of == "gpu"]
    first, *rest = page
    looked = first.text.replace(
        "headway doctor\n", "headway doctor || test $? = 1\n"
    )  # of this machine: either
    output = newcomer.types(Block(first.kind, first.of, looked))
    assert (newcomer.user_home / ".config" / "headway" / "config.toml").exists()
    assert "no problems" in output and " ok" in output
    outputs = [newcomer.types(one) for one in rest[:2]]
    assert outputs[1].startswith("mode shadow")
    a_day(newcomer.user_home / ".local" / "state" / "headway" / "requests")
    outputs += [newcomer.types(one) for one in rest[2:]]
    assert "50 requests in " in outputs[2] and "clairvoyant" in outputs[2]
    assert outputs[3].startswith("j1\n1 job")


def a_day(requests: Path) -> None:
    """What a gate would have written by the next day."""
    rows = [row(1700.0 * n, conversation=f"c{n % 3}") for n in range(50)]
    (requests / "2026-01.g0.ndjson").write_text("".join(f"{json.dumps(one)}\n" for one in rows))


def test_the_config_on_the_page_is_one(tmp_path: Path) -> None:
    (config,) = [one.text for one in blocks() if one.kind == "toml"]
    (tmp_path / "config.toml").write_text(config)
    assert load(tmp_path / "config.toml").service.keys() == {"chat"}


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    kinds = {(one.kind, one.of) for one in blocks()}
    assert kinds == {("sh", "install"), ("sh", ""), ("sh", "gpu"), ("toml", ""), ("text", "")}
    assert PAGE.read_text("utf-8").count("\n```") == 2 * len(blocks())
