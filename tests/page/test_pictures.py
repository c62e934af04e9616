"""The pictures of the documentation are made here: `make pictures` puts them into docs/pictures."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.page.visit import Visit
from tests.page.world import WAITING

pytestmark = pytest.mark.e2e

SIZE = {"width": 1100, "height": 760}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures(world: Stack, visit: Callable[..., Visit], tmp_path: Path, theme: str) -> None:
    place = Path(os.environ.get("HEADWAY_PICTURES") or tmp_path)
    for name in WAITING:
        world.post(f"/api/v1/jobs/{name}/release")
    one = visit(color_scheme=theme)
    one.page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    one.page.get_by_role("region", name="Next").locator("li", has_text="nightly").wait_for()
    one.page.screenshot(path=place / f"now-{theme}.png")
    one.open_tab("jobs/nightly")
    one.page.get_by_role("button", name="Run next").wait_for()
    one.page.screenshot(path=place / f"jobs-{theme}.png")
    assert all((place / f"{name}-{theme}.png").stat().st_size > 10_000 for name in ("now", "jobs"))
