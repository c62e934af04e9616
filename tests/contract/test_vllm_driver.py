"""The vLLM driver against a fake server with the real one's traps: one contract over versions, levels and failures."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from demo import sim_device
from demo.tiny_server import recorded
from headway.core.engines import EngineRead
from headway.errors import DriverFailed, LimitPassed, ServerExited, ServerSilent
from headway.ports import Moved, Seen
from tests.parts.driven import Driven, command, only, without_run
from tests.parts.programs import GIB, held, program
from tests.parts.running import LIMIT_S, living, until_so
from tests.processes import free_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.contract, only("vllm")]

AWAKE, ASLEEP = 16 * GIB, GIB
SLEPT = {1: ["/sleep?level=1&mode=wait"], 2: ["/sleep?level=2&mode=wait"]}
WOKEN = {1: ["/wake_up"], 2: ["/wake_up?tags=weights", "/collective_rpc", "/wake_up?tags=kv_cache"]}


class Server:
    """One fake vLLM under the driver, on a simulated card of 24 GiB."""

    def __init__(self, driven: Driven) -> None:
        self.driven = driven
        self.reports, self.record = driven.directory / "reports", driven.directory / "record"

    async def start(self, *options: object, level: int = 1, flags: str = "--enable-sleep-mode") -> Moved:
        words = ["--port", "{port}", *flags.split(), "--record", self.record, "--reports", self.reports]
        words += ["--bytes", "16GiB", "--residue", "1GiB", "--total", "24GiB", *options]
        self.driven.changed(argv=command("tests.parts.fake_vllm", *words), options={"sleep_level": level})
        return await self.driven.driver.move(without_run(self.driven.task("awake")))

    async def move(self, form: str, was: str, limit_s: float = LIMIT_S) -> Moved:
        return await self.driven.driver.move(self.driven.task(form, was=was, limit_s=limit_s))

    async def look(self, was: str | None = None) -> Seen:
        return await self.driven.driver.observe(self.driven.holder(form=was))

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> str:
        """A POST past the driver: somebody else's."""
        url = f"http://127.0.0.1:{self.driven.state().port}{path}"
        async with self.driven.http.post(url, json=body) as reply:
            return await reply.text()

    async def right(self) -> bool:
        """Whether it says what it was made to say: its weights are its own."""
        answer = json.loads(await self.ask("/v1/completions", {"model": "tiny", "prompt": "x"}))
        text = str(answer["choices"][0]["text"])
        return text.startswith("tiny ") and text.endswith(" word1 word2")

    def held(self) -> int:
        return held(self.reports)

    def calls(self) -> list[str]:
        return recorded(self.record, "call")


@pytest.fixture
async def server(driven: Driven) -> AsyncIterator[Server]:
    yield Server(driven)


async def test_its_figures_come_with_the_look(server: Server) -> None:
    await server.start()
    assert (await server.look("awake")).engine == EngineRead(
        tokens=0.0, first_n=0.0, first_s=0.0, cache_share=0.125, prefix_tokens=0.0, prefix_hits=0.0
    )
    assert await server.right() and await server.right()
    assert (await server.look("awake")).engine == EngineRead(
        tokens=60.0, first_n=2.0, first_s=0.5, cache_share=0.125, prefix_tokens=200.0, prefix_hits=160.0
    )


# ------------------------------------------------------------ sleeping and waking


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("version", ["0.33.0", "0.27.1", "0.14.1", "0.9.2"])
async def test_it_sleeps_and_wakes_and_each_is_said_once(server: Server, version: str, level: int) -> None:
    started = await server.start("--version", version, level=level)
    seen = await server.look("awake")
    assert (seen.form, seen.ready, seen.engine_active, seen.upstream) == ("awake", True, 0, started.upstream)
    assert server.held() == AWAKE
    await server.move("asleep", was="awake")
    assert server.held() == ASLEEP
    for _ in range(3):  # looking wakes nobody, and a daemon that starts anew may ask again
        seen = await server.look("asleep")
        assert (seen.form, seen.ready) == ("asleep", False)
    await server.move("asleep", was="asleep")
    assert server.calls() == SLEPT[level]
    woken = await server.move("awake", was="asleep")
    assert woken.upstream == started.upstream and woken.facts["level"] == level
    assert (await server.look("awake")).form == "awake"
    await server.move("awake", was="awake")
    assert server.calls() == SLEPT[level] + WOKEN[level] and server.held() == AWAKE
    assert await server.right()
    assert recorded(server.record, "asleep") == []


@pytest.mark.parametrize("was", ["awake", "asleep"])
async def test_it_is_stopped_from_either_form_and_nothing_of_it_is_left(server: Server, was: str) -> None:
    await server.start()
    if was == "asleep":
        await server.move("asleep", was="awake")
    pids = server.driven.runs.pids("r1")
    assert len(pids) == 2
    await server.move("stopped", was=was)
    assert (server.held(), living(pids), (await server.look()).form) == (0, [], "stopped")


async def test_it_tells_how_busy_all_its_engines_are(server: Server) -> None:
    await server.start()
    body = {"model": "tiny", "prompt": "x", "stream": True, "chunks": 1000, "pace_s": 0.05}
    asks = asyncio.gather(*(server.ask("/v1/completions", body) for _ in range(3)))

    async def active(count: int) -> bool:
        return (await server.look()).engine_active == count

    await until_so(lambda: active(3), "three requests at work")
    asks.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asks
    await until_so(lambda: active(0), "an idle engine")


async def test_a_sleep_lets_what_still_runs_come_to_its_end(server: Server) -> None:
    await server.start()
    body = {"model": "tiny", "prompt": "x", "chunks": 10, "pace_s": 0.05}
    asked = asyncio.gather(server.ask("/v1/completions", body))
    await wait_until(lambda: recorded(server.record), LIMIT_S)
    await server.move("asleep", was="awake")
    (answer,) = await asked
    assert '"stop"' in answer and "word9" in answer


async def test_one_that_somebody_else_started_sleeps_and_wakes_too(server: Server) -> None:
    port, driven = free_port(), server.driven
    driven.changed(argv=(), upstream=f"http://127.0.0.1:{port}")
    options = ("--port", port, "--enable-sleep-mode", "--record", server.record)
    with program("tests.parts.fake_vllm", *options, environment={**os.environ, **driven.env}):
        await wait_until(lambda: driven.runs.listener(port), LIMIT_S)
        await driven.driver.move(without_run(driven.task("awake")))
        for form, was in (("asleep", "awake"), ("awake", "asleep")):
            await driven.driver.move(without_run(driven.task(form, was=was)))
            assert (await driven.driver.observe(driven.holder(None, was))).form == form
        with pytest.raises(DriverFailed):
            await driven.driver.move(without_run(driven.task("stopped", was="awake")))
    assert server.calls() == SLEPT[1] + WOKEN[1]


# ------------------------------------------------------------ what it may find


@pytest.mark.parametrize("version", ["0.33.0", "0.27.1"])
async def test_an_order_under_way_from_before_a_restart_is_not_given_again(
    server: Server, version: str
) -> None:
    await server.start("--version", version, "--sleep-s", 0.5, "--wake-s", 0.5, "--reload-s", 0.3)
    for form, was, calls in (("asleep", "awake", SLEPT[1]), ("awake", "asleep", SLEPT[1] + WOKEN[1])):
        moving = asyncio.gather(server.move(form, was))
        await wait_until(lambda calls=calls: server.calls() == calls, LIMIT_S)
        moving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await moving
        server.driven.restart()
        await server.move(form, was)
        assert server.calls() == calls
        assert (await server.look()).form == form
    assert server.held() == AWAKE


async def test_a_sleep_that_still_lets_requests_end_is_not_asked_for_again(server: Server) -> None:
    await server.start()
    body = {"model": "tiny", "prompt": "x", "chunks": 20, "pace_s": 0.05}
    asked = asyncio.gather(server.ask("/v1/completions", body))
    await wait_until(lambda: recorded(server.record), LIMIT_S)
    moving = asyncio.gather(server.move("asleep", "awake"))
    await wait_until(server.calls, LIMIT_S)
    moving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await moving
    await server.move("asleep", "awake")
    assert (server.calls(), server.held(), asked.done()) == (SLEPT[1], ASLEEP, True)


async def test_a_deep_sleep_that_somebody_else_asked_for_is_reloaded_too(server: Server) -> None:
    await server.start(level=1)
    await server.ask("/sleep?level=2")
    assert (await server.look()).form == "asleep"
    await server.move("awake", was="asleep")
    assert await server.right()


async def test_a_sleeper_that_only_claims_to_have_gone_deeper_is_woken_whole(server: Server) -> None:
    await server.start(level=1)
    await server.move("asleep", was="awake")
    await server.ask("/sleep?level=2")  # does nothing, and the gauge says that it did
    await server.move("awake", was="asleep")
    assert await server.right() and server.held() == AWAKE


async def test_a_wake_that_was_cut_in_its_middle_is_finished(server: Server) -> None:
    await server.start(level=2)
    await server.move("asleep", was="awake")
    await server.ask("/wake_up?tags=weights")
    assert (await server.look()).form == "asleep"
    await server.move("awake", was="asleep")
    assert await server.right() and server.held() == AWAKE


async def test_a_pause_is_no_sleep_and_frees_nothing_until_it_is_asked(server: Server) -> None:
    await server.start()
    await server.ask("/sleep?level=0")
    assert (await server.look()).form == "asleep", "it answers nobody"
    assert server.held() == AWAKE
    await server.move("asleep", was="awake")
    assert server.held() == ASLEEP
    await server.move("awake", was="asleep")
    assert await server.right()


# ------------------------------------------------------------ what may go wrong


@pytest.mark.parametrize("program_", ["tests.parts.fake_vllm", "demo.tiny_server"])
async def test_without_its_development_mode_the_words_say_what_to_add(driven: Driven, program_: str) -> None:
    driven.changed(argv=command(program_, "--port", "{port}"), env={})
    await driven.driver.move(without_run(driven.task("awake")))
    seen = await driven.driver.observe(driven.holder(form="awake"))
    assert (seen.form, seen.ready) == ("awake", True)
    assert seen.engine_active == (None if program_ == "demo.tiny_server" else 0), "unread is not idle"
    with pytest.raises(DriverFailed) as refused:
        await driven.driver.move(driven.task("asleep", was="awake"))
    assert "--enable-sleep-mode" in str(refused.value) and "VLLM_SERVER_DEV_MODE=1" in str(refused.value)
    assert refused.value.facts["status"] == 404
    assert (await driven.driver.observe(driven.holder(form="awake"))).form == "awake"
    await driven.driver.move(driven.task("stopped", was="awake"))


KEPT = {  # name: (option, flags)
    "it was told that sleep is on": (["--trap", "keeps"], "--enable-sleep-mode"),
    "sleep is off, and the route there": ([], ""),
}


@pytest.mark.parametrize(("options", "flags"), KEPT.values(), ids=KEPT.keys())
async def test_memory_that_it_keeps_is_left_to_the_meter(
    server: Server, options: list[str], flags: str
) -> None:
    await server.start(*options, flags=flags)
    await server.move("asleep", was="awake")
    assert server.held() == AWAKE
    await server.move("stopped", was="asleep")
    assert server.held() == 0


async def test_memory_that_falls_late_is_left_to_the_meter(server: Server) -> None:
    await server.start("--trap", "late:0.5")
    await server.move("asleep", was="awake")
    assert server.held() == AWAKE
    await wait_until(lambda: server.held() == ASLEEP, LIMIT_S)


async def test_a_failed_sleep_is_told_with_its_words(server: Server) -> None:
    await server.start("--trap", "sleep-fails")
    with pytest.raises(DriverFailed) as failed:
        await server.move("asleep", was="awake")
    assert failed.value.facts["status"] == 500 and "Memory usage increased" in failed.value.facts["detail"]
    assert (await server.look()).form == "asleep", "its scheduler stays paused, so it answers nobody"
    await server.move("stopped", was="awake")
    assert server.held() == 0


async def test_a_wake_that_hangs_passes_its_limit_and_is_not_sent_again(server: Server) -> None:
    await server.start("--trap", "wake-hangs")
    await server.move("asleep", was="awake")
    for limit_s in (
        0.5,
        3.0,
    ):  # the second is longer than the engine is waited for: no answer is no sleep's end
        with pytest.raises(LimitPassed):
            await server.move("awake", was="asleep", limit_s=limit_s)
        server.driven.restart()
        seen = await server.look("asleep")
        assert (seen.form, seen.ready) == (None, False)
    assert server.calls() == SLEPT[1] + WOKEN[1]
    await server.move("stopped", was="asleep")
    assert server.held() == 0


@pytest.mark.parametrize("why", ["its own", "no room"])
async def test_a_wake_that_fails_is_told_and_is_never_taken_for_awake(server: Server, why: str) -> None:
    await server.start(*(["--trap", "wake-fails"] if why == "its own" else []))
    await server.move("asleep", was="awake")
    if why == "no room":
        sim_device.set_bytes(server.reports, "sim0", 12 * GIB)
    with pytest.raises(DriverFailed) as failed:
        await server.move("awake", was="asleep")
    assert failed.value.facts["status"] == 500 and "CUDA Error" in str(failed.value)
    assert (await server.look()).form == "asleep"
    assert ASLEEP < sim_device.living(server.reports)[0].bytes < AWAKE, "half of it is mapped"


async def test_an_engine_that_dies_after_its_answer_is_seen_as_stopped(server: Server) -> None:
    await server.start("--trap", "dies-asleep")
    await server.move("asleep", was="awake")
    await wait_until(lambda: server.driven.state().gone, LIMIT_S)
    seen = await server.look("asleep")
    assert (seen.form, seen.down, server.held()) == ("stopped", True, 0)
    with pytest.raises(ServerSilent):
        await server.move("asleep", was="awake")
    with pytest.raises(ServerExited):
        await server.move("awake", was="asleep")
    await server.driven.driver.move(server.driven.task("awake", "r2", of_run="r1"))
    assert server.held() == AWAKE


async def test_a_killed_front_leaves_its_engine_with_the_memory_and_a_stop_ends_both(server: Server) -> None:
    await server.start()
    os.kill(server.driven.state().pid or 0, signal.SIGKILL)
    await wait_until(lambda: server.driven.state().exit, LIMIT_S)
    assert ((await server.look("awake")).form, server.held()) == (None, AWAKE)
    await server.move("stopped", was="awake")
    assert server.held() == 0


async def test_a_neighbour_that_lets_go_while_it_starts_ends_the_start_with_its_words(
    server: Server,
) -> None:
    sim_device.set_bytes(server.reports, "sim0", 4 * GIB)
    starting = asyncio.gather(server.start("--profile-s", 1.0))
    await wait_until(lambda: server.held() == 5 * GIB, LIMIT_S)
    sim_device.clear(server.reports, "sim0")
    with pytest.raises(ServerExited) as ended:
        await starting
    assert "memory profiling" in str(ended.value)


async def test_only_sleep_and_start_keep_everybody_else_off_the_device(driven: Driven) -> None:
    alone = [(rule.source, rule.to) for rule in driven.driver.moves if rule.exclusive]
    assert alone == [("awake", "asleep"), ("stopped", "awake")]
    assert not [rule for rule in driven.driver.moves if rule.overlaps_start]
