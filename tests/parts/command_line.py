"""One call of the command line, in this process, against an API over its real socket."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headway.cli.main import cli
from tests.parts.false_api import Served, serving


@pytest.fixture
async def api(home: Path) -> AsyncIterator[Served]:
    """An API at home, where the command line looks for it."""
    (home / "run").mkdir()
    async with serving(home / "run") as served:
        yield served


async def headway(
    home: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    at_home: bool = True,
    typed: str | None = None,
) -> Result:
    """One call, in a thread beside the server's loop.

    Args:
        env: added to an environment in which nothing says where to look.
        at_home: with `--home`.
        typed: standard input.
    """
    runner = CliRunner(env={"NO_COLOR": "1", "HEADWAY_URL": "", "HEADWAY_CONFIG": "", **(env or {})})
    where = ["--home", str(home)] if at_home else []
    return await asyncio.to_thread(runner.invoke, cli, [*where, *words], input=typed, catch_exceptions=False)
