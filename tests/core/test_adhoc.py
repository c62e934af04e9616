"""What a job that somebody adds without a recipe may not say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from headway.config.adhoc import adhoc
from headway.core.names import NAME_PATTERN, is_like_an_id, is_name
from headway.errors import Refused
from tests.core.test_aside import MOVES

pytestmark = pytest.mark.core

WRONG: dict[str, dict[str, Any]] = {
    "its devices are chosen by Headway": {"env": {"CUDA_VISIBLE_DEVICES": "0"}},
    "its id is given by Headway": {"env": {"HEADWAY_JOB_ID": "j1"}},
    "no name of a variable": {"env": {"A=B": "x"}},
    "an empty name of a variable": {"env": {"": "x"}},
    "no value that a process can have": {"env": {"A": "x\0"}},
    "a size without its unit": {"gpu": "12"},
    "a name with a blank": {"name": "my job"},
    "a name with a capital": {"name": "Job"},
    "a name of two lines": {"name": "a\nb"},
    "a name of 65 signs": {"name": "x" * 65},
    "a name that the id of another job looks like": {"name": "j5"},
    "a directory that is relative to nothing": {"cwd": "here"},
    "a command said twice": {"options": {"start": ["false"]}},
    "an option said twice": {"driver": "restart", "options": {"driver": "command"}},
    "a device named twice": {"options": {"devices": ["gpu0", "gpu0"]}},
    "a key that no job has": {"options": {"memroy": {}}},
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG.keys())
def test_it_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        adhoc({"argv": ["true"], **fields}, MOVES)
    assert refused.value.code == "invalid_job"


def test_variables_of_its_own_are_fine() -> None:
    assert adhoc({"argv": ["true"], "env": {"A_1": "x"}}, MOVES).env == {"A_1": "x"}


def test_what_is_refused_is_said_in_our_words_and_not_at_length() -> None:
    wrong: list[dict[str, Any]] = [
        {"options": {"devices": 5}},
        {"name": "x" * 100_000},
        {"options": {"a": 1}},
    ]
    for fields in wrong:
        with pytest.raises(Refused) as refused:
            adhoc({"argv": ["true"], **fields}, MOVES)
        words = str(refused.value)
        assert "Value error" not in words and "Extra inputs" not in words and len(words) < 300, words


@pytest.mark.parametrize("program", ["true", "/opt/A b/Ü Tool!", "j5", "...", "x" * 300])
def test_a_job_without_a_name_gets_one_that_may_be_used(program: str) -> None:
    name = adhoc({"argv": [program]}, MOVES).name
    assert is_name(name) and not is_like_an_id(name)


@pytest.mark.parametrize(
    "word", ["a", "0", "a.b_c-d", "x" * 64, "", "-a", ".", "A", "ä", "a b", "a\n", "x" * 65, "j1"]
)
def test_a_name_is_what_the_schemas_say(word: str) -> None:
    assert is_name(word) is bool(re.fullmatch(NAME_PATTERN.strip("^$"), word))
