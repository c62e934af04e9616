"""What a job that somebody adds without a recipe may not say."""

from __future__ import annotations

from typing import Any

import pytest

from headway.config.adhoc import adhoc
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
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG.keys())
def test_it_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        adhoc({"argv": ["true"], **fields}, MOVES)
    assert refused.value.code == "invalid_job"


def test_variables_of_its_own_are_fine() -> None:
    assert adhoc({"argv": ["true"], "env": {"A_1": "x"}}, MOVES).env == {"A_1": "x"}
