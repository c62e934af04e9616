"""The vLLM driver against a real vLLM, where one is named: HEADWAY_TEST_VLLM is its `vllm`, HEADWAY_TEST_MODEL a model.

A server on the CPU answers all of the routes and frees nothing; what is checked is that its words are those of the fake.
"""

import asyncio
import contextlib
import os

import pytest

from headway.drivers.registry import ASLEEP_PROBES
from tests.parts.driven import Driven, only, without_run
from tests.parts.running import until_so

VLLM, MODEL = os.environ.get("HEADWAY_TEST_VLLM"), os.environ.get("HEADWAY_TEST_MODEL")
START_LIMIT_S = 600.0

pytestmark = [
    pytest.mark.contract,
    only("vllm"),
    pytest.mark.skipif(not (VLLM and MODEL), reason="HEADWAY_TEST_VLLM and HEADWAY_TEST_MODEL name none"),
]


async def said(driven: Driven, url: str, tokens: int) -> str:
    body = {"model": "tiny", "prompt": "x", "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    async with driven.http.post(f"{url}/v1/completions", json=body) as reply:
        assert reply.status == 200
        return str((await reply.json())["choices"][0]["text"])


async def test_a_real_one_is_busy_sleeps_at_both_levels_and_says_the_same_afterwards(driven: Driven) -> None:
    words = [
        "--host",
        "127.0.0.1",
        "--served-model-name",
        "tiny",
        "--enforce-eager",
        "--max-model-len",
        "512",
    ]
    driven.changed(argv=(str(VLLM), "serve", str(MODEL), "--port", "{port}", *words))
    url = (await driven.driver.move(without_run(driven.task("awake", limit_s=START_LIMIT_S)))).upstream
    assert url is not None

    async def active(count: int) -> bool:
        return (await driven.driver.observe(driven.holder(form="awake"))).engine_active == count

    before = await said(driven, url, 64)
    asks = asyncio.gather(*(said(driven, url, 400) for _ in range(3)))
    await until_so(lambda: active(3), "three requests at work")
    asks.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asks
    await until_so(lambda: active(0), "an idle engine")
    for level in (1, 2):
        driven.changed(options={"sleep_level": level})
        for form, was in (("asleep", "awake"), ("asleep", "asleep"), ("awake", "asleep"), ("awake", "awake")):
            await driven.driver.move(driven.task(form, was=was, limit_s=START_LIMIT_S))
            seen = await driven.driver.observe(driven.holder(form=form))
            assert (seen.form, seen.ready) == (form, form == "awake")
            for path in ASLEEP_PROBES["vllm"]:  # a gate passes these on to a sleeper
                async with driven.http.get(f"{url}{path}") as reply:
                    assert reply.status in (200, 404), path
        assert await said(driven, url, 64) == before
    await driven.driver.move(driven.task("stopped", was="awake"))
    assert (await driven.driver.observe(driven.holder())).form == "stopped"
