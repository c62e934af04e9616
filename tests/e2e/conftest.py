"""Whole stacks for a test, ended with it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.e2e.tables import Table
from tests.processes import Started


@pytest.fixture
def stacks(short_dir: Path, started: Started) -> Iterator[Callable[[Table], Stack]]:
    """Makes a Stack from a config; nothing runs before its `up`."""
    made: list[Stack] = []

    def make(config: Table) -> Stack:
        home = short_dir / f"home{len(made)}"
        home.mkdir(mode=0o700)
        made.append(Stack(home, config, started))
        return made[-1]

    yield make
    for stack in reversed(made):
        stack.close()


@pytest.fixture
def stack(stacks: Callable[[Table], Stack]) -> Callable[[Table], Stack]:
    """One Stack from a config, up and answering."""

    def up(config: Table) -> Stack:
        made = stacks(config)
        made.up()
        return made

    return up
