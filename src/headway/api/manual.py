"""The documentation that came with this very version: a machine without a network has it too."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import headway
from headway.api.web import FILE

PACKAGE = Path(headway.__file__).parent
FOLDERS = ("", "howto", "reference")
NOTICES = "third-party.md"


@cache
def manual() -> dict[str, Path]:
    """The pages by the name under which they are served: `quickstart.md`, `howto-jobs.md`, `third-party.md`."""
    in_wheel, in_tree = PACKAGE / "docs", PACKAGE.parents[1] / "docs"
    root = in_wheel if in_wheel.is_dir() else in_tree
    found = {
        "-".join(file.relative_to(root).parts): file
        for folder in FOLDERS
        for file in sorted((root / folder).glob("*.md"))
    }
    notices = FILE.parent / "THIRD-PARTY.md"
    return {**found, NOTICES: notices} if notices.is_file() else found


def page(name: str) -> str | None:
    """One of them as text. None: there is no such page."""
    file = manual().get(name)
    return None if file is None else file.read_text(encoding="utf-8")
