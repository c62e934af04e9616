"""`[vars]`: `{name}` is replaced as it stands, and the same way in every text of the other tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.config.load import doubts
from headway.ports import Reading
from tests.configs import CHAT, RENDER, TRAIN, loaded, refused, written

pytestmark = pytest.mark.core

VARS = '[vars]\nmodels = "/srv/models"\nn = 3\nquote = \'a "b" {n}\'\n'
WORDS = {
    # name: (as it is written, as it is read)
    "a word": ("{models}/a.gguf", "/srv/models/a.gguf"),
    "twice in one word": ("{n}{n}", "33"),
    "the braces of JSON survive": ('{{"steps": {n}, "x": {{}}}}'.replace("{{", "{").replace("}}", "}"), '{"steps": 3, "x": {}}'),
    "an unknown one stays": ("{modelz}/x", "{modelz}/x"),
    "what was put in is not looked at again": ("{quote}", 'a "b" {n}'),
    "a blank inside is no place": ("{ n }", "{ n }"),
    "nothing to replace": ("plain", "plain"),
}  # fmt: skip


def quoted(word: str) -> str:
    return f"'{word}'"


@pytest.mark.parametrize(("written_as", "read_as"), WORDS.values(), ids=WORDS.keys())
def test_in_every_command_the_same_way(written_as: str, read_as: str, tmp_path: Path) -> None:
    word = quoted(written_as)
    render = "".join(
        line[:-1] + f", {word}]\n" if "= [" in line else line + "\n" for line in RENDER.splitlines()
    )
    text = VARS + CHAT.replace('["serve"', f'["serve", {word}') + render
    text += f'saved = ["saved", {word}]\nprogress = ["progress", {word}]\nenv = {{X = {word}}}\n'
    text += f'[alerts]\ncommand = ["tell", {word}]\n'
    config = loaded(tmp_path, text)
    chat, job = config.service["chat"], config.job["render"]
    commands = (chat.start, job.start, job.park, job.resume, job.saved, job.progress, config.alerts.command)
    assert [read_as in (command or ()) for command in commands] == [True] * 7
    assert job.env == {"X": read_as}


def test_the_port_of_a_server_is_not_touched(tmp_path: Path) -> None:
    assert loaded(tmp_path, VARS + CHAT).service["chat"].start == ("serve", "{port}")


def test_home_is_expanded_in_values_that_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/ada")
    text = '[vars]\nm = "~/m"\nplain = "a~b"\n' + TRAIN.replace('["train"]', '["train", "{m}/x", "{plain}"]')
    job = loaded(tmp_path, text + 'cwd = "{m}"\n').job["train"]
    assert (job.start, job.cwd) == (("train", "/srv/ada/m/x", "a~b"), "/srv/ada/m")


def test_a_value_from_the_environment_counts(tmp_path: Path) -> None:
    environ = {"HEADWAY_CFG__VARS__models": "/other"}
    text = VARS + TRAIN.replace('["train"]', '["train", "{models}"]')
    assert loaded(tmp_path, text, environ).job["train"].start == ("train", "/other")


REFUSED = {
    "a name that is Headway's": ('[vars]\nport = "1"\n', "config.toml:2 [vars] port: {port} is filled in by"),
    "a name that no place can have": ('[vars]\n"a-b" = "1"\n', "config.toml:2 [vars] a-b: is no name"),
    "a value that is a list": ('[vars]\na = ["1"]\n', "config.toml:2 [vars] a: must be a text or a whole number"),
    "a value that is a truth": ("[vars]\na = true\n", "config.toml:2 [vars] a: must be a text or a whole number"),
    "what it becomes is checked": (
        '[vars]\nhome = "~nobody-here/x"\n' + TRAIN.replace('["train"]', '["{home}/run"]'),
        "config.toml:5 [job.train] start: starts with",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "begins"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(text: str, begins: str, tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, text)
    assert problem.startswith(begins), problem


def test_one_that_stays_and_looks_like_one_of_the_vars_is_told_as_a_warning(tmp_path: Path) -> None:
    file = written(tmp_path, VARS + TRAIN.replace('["train"]', '["sh", "{modles}", "{elsewhere}"]'))
    told = [
        line
        for line in doubts(file, lambda: Reading(at_s=0.0, devices=()), {"PATH": "/bin"})
        if "[vars]" in line
    ]
    assert len(told) == 1 and "config.toml:7 [job.train] start: {modles}" in told[0] and '"models"' in told[0]
