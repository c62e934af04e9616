"""Runs and drivers with real programs behind them."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from demo import tiny_model
from headway.drivers.registry import DRIVERS
from headway.host import this_system
from headway.ports import Runs
from tests.parts.driven import Driven, made
from tests.parts.running import end_all


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    made = this_system(tmp_path / "runs").runs
    yield made
    await end_all(made)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    tiny_model.make_model(path)
    return path


@pytest.fixture(params=sorted(DRIVERS.keys() - {"lease"}))  # that one runs nothing: test_lease_driver.py
async def driven(
    request: pytest.FixtureRequest, tmp_path: Path, http: aiohttp.ClientSession, model: Path
) -> AsyncIterator[Driven]:
    (tmp_path / "reports").mkdir()
    world = made(request.param, tmp_path, http, model)
    yield world
    await end_all(world.runs)
