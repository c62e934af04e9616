"""Whether a seed of the simulation finds what is broken in a copy of the core: how mutations are judged by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutations
from tests.mutations import MUTATIONS, applied, copy_to, first_seed

pytestmark = pytest.mark.sim


def test_seeds_pass_in_a_copy_and_one_fails_in_a_broken_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_to(tmp_path)
    monkeypatch.setattr(mutations, "SEEDS", "1-3")
    assert first_seed(tmp_path) is None
    broken = next(mutation for mutation in MUTATIONS if mutation.name == "infeasible-reserves")
    path = tmp_path / "src" / "headway" / "core" / broken.file
    path.write_text(applied(broken, path.read_text("utf-8")), "utf-8")
    assert (first_seed(tmp_path) or "").startswith("seed ")
