"""One suite over every driver with a real program behind it, and what only one of them does."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from demo import tiny_model
from headway.composition import READS_BUSY
from headway.core.model import LADDERS, MoveRule
from headway.drivers.registry import ASLEEP_PROBES
from headway.errors import (
    CannotStart,
    DriverFailed,
    LimitPassed,
    PortTaken,
    ServerExited,
    ServerSilent,
)
from headway.host.run_files import RunFiles
from headway.ports import RunSpec
from tests.parts.driven import SERVERS, Driven, command, listen_on, only, shell, without_run
from tests.parts.programs import program
from tests.parts.running import LIMIT_S, kill_shim, living, until_so
from tests.processes import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.contract


def seen_up(driven: Driven) -> str | None:
    """What observe says of a holder in its top form: hooks alone cannot be asked."""
    return None if driven.name in ("command", "checkpoint") else driven.top


# ------------------------------------------------------------ all drivers


async def test_the_table_of_moves_goes_down_and_up(driven: Driven) -> None:
    ladder = LADDERS[driven.kind]
    rules: tuple[MoveRule, ...] = driven.driver.moves
    assert {rule.source for rule in rules} | {rule.to for rule in rules} <= set(ladder)
    pairs = [(rule.source, rule.to) for rule in rules]
    assert len(pairs) == len(set(pairs))
    for rule in rules:
        assert rule.limit_s > 0
        assert rule.frees is (ladder.index(rule.to) > ladder.index(rule.source))
        assert rule.creates is (rule.source == "stopped")
    assert (driven.top, "stopped") in pairs and ("stopped", driven.top) in pairs


async def test_start_look_stop_look(driven: Driven) -> None:
    assert (await driven.driver.observe(driven.holder(None))).form == "stopped"
    moved = await driven.driver.move(without_run(driven.task(driven.top)))
    state = driven.state()
    assert state.ran and state.lock_held and living([state.pid or 0])
    seen = await driven.driver.observe(driven.holder())
    assert (seen.form, seen.ready) == (seen_up(driven), True)
    assert seen.upstream == moved.upstream
    if driven.kind == "service":
        assert moved.upstream == f"http://127.0.0.1:{state.port}"
    pids = driven.runs.pids("r1")
    await driven.driver.move(driven.task("stopped", was=driven.top))
    assert not living(pids)
    seen = await driven.driver.observe(driven.holder())
    assert (seen.form, seen.ready) == ("stopped", False)


async def test_a_driver_that_reads_its_engine_s_queue_is_registered_as_one(driven: Driven) -> None:
    """Or else a model is put to sleep while it still answers a client that came by another way."""
    await driven.driver.move(without_run(driven.task(driven.top)))
    seen = await driven.driver.observe(driven.holder())
    assert (seen.engine_active is not None) is (driven.name in READS_BUSY)


async def test_each_form_can_be_asked_for_twice_and_by_a_new_daemon(driven: Driven) -> None:
    await driven.driver.move(without_run(driven.task(driven.top)))
    first, pids = driven.state(), driven.runs.pids("r1")
    await driven.driver.move(driven.task(driven.top))
    driven.restart()
    moved = await driven.driver.move(without_run(driven.task(driven.top)))
    assert driven.state() == first and driven.runs.pids("r1") >= pids and driven.runs.known() == ["r1"]
    assert (await driven.driver.observe(driven.holder())).upstream == moved.upstream
    for _ in range(2):
        await driven.driver.move(driven.task("stopped"))
    driven.restart()
    await driven.driver.move(driven.task("stopped"))
    assert not living(pids)


async def test_a_start_that_was_cut_off_and_asked_for_again_starts_one(driven: Driven) -> None:
    task = without_run(driven.task(driven.top))
    moving = asyncio.gather(driven.driver.move(task))
    await asyncio.sleep(0)  # it has begun
    moving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await moving
    await driven.driver.move(without_run(driven.task(driven.top)))
    assert driven.runs.known() == ["r1"] and driven.state().lock_held
    assert (await driven.driver.observe(driven.holder())).form == seen_up(driven)


async def test_stop_before_anything_ran(driven: Driven) -> None:
    await driven.driver.move(without_run(driven.task("stopped")))
    assert driven.runs.known() == []


async def test_a_run_that_a_killed_launcher_left_is_started(driven: Driven) -> None:
    left = RunSpec(id="r1", holder="h", argv=("false",))
    os.close(RunFiles(driven.runs.directory("r1")).create(left, "token"))
    assert (await driven.driver.observe(driven.holder())).form == "stopped"
    await driven.driver.move(driven.task(driven.top))
    assert (await driven.driver.observe(driven.holder())).form == seen_up(driven)


async def test_a_killed_leader_is_seen_as_stopped(driven: Driven) -> None:
    await driven.driver.move(without_run(driven.task(driven.top)))
    os.kill(driven.state().pid or 0, signal.SIGKILL)
    await wait_until(lambda: driven.state().gone, LIMIT_S)
    seen = await driven.driver.observe(driven.holder())
    assert (seen.form, seen.ready, seen.down) == ("stopped", False, True)


async def test_what_a_killed_shim_left_is_not_stopped_and_ends_before_the_next_start(driven: Driven) -> None:
    await driven.driver.move(without_run(driven.task(driven.top)))
    pids = driven.runs.pids("r1")
    await kill_shim(driven.runs, "r1", driven.state().pid or 0)
    assert (await driven.driver.observe(driven.holder())).form is None
    await driven.driver.move(driven.task(driven.top, "r2", of_run="r1"))
    assert not living(pids)
    assert (await driven.driver.observe(driven.holder("r2"))).form == seen_up(driven)
    assert not (driven.directory / "job" / "copies").exists()


@pytest.mark.parametrize("argv", [("no-such-command",), ("/etc/passwd",)], ids=["missing", "not executable"])
async def test_a_command_that_cannot_run_is_refused_with_its_reason(
    driven: Driven, argv: tuple[str, ...]
) -> None:
    driven.changed(argv=argv)
    with pytest.raises(CannotStart) as refused:
        await driven.driver.move(without_run(driven.task(driven.top)))
    assert "headway" in str(refused.value) or "config" in str(refused.value)
    with pytest.raises(CannotStart):
        await driven.driver.move(driven.task(driven.top))
    assert (await driven.driver.observe(driven.holder())).form == "stopped"


async def test_a_stop_that_takes_longer_than_its_limit_says_so_and_kill_needs_no_grace(
    driven: Driven,
) -> None:
    driven.changed(argv=shell("trap '' TERM; echo up; while :; do sleep 0.05; done"), grace_s=60.0)
    driven.runs.launch(RunSpec(id="r1", holder="h", argv=driven.argv, port=1))
    await wait_until(lambda: driven.runs.log_tail("r1", 1) == ["up"], LIMIT_S)
    with pytest.raises(LimitPassed):
        await driven.driver.move(driven.task("stopped", limit_s=0.3))
    assert driven.runs.pids("r1")
    await driven.driver.move(driven.task("stopped", kill=True))
    assert not driven.runs.pids("r1")


async def test_a_form_outside_the_table_is_refused(driven: Driven) -> None:
    with pytest.raises(DriverFailed):
        await driven.driver.move(driven.task("parked" if driven.kind == "service" else "asleep"))


# ------------------------------------------------------------ servers

servers = only(*SERVERS)


@servers
async def test_a_server_that_ends_while_starting_ends_whole_and_tells_its_last_words(driven: Driven) -> None:
    driven.changed(argv=shell("echo loading; sleep 600 & echo 'no such file'; sleep 0.2; exit 3"))
    with pytest.raises(ServerExited) as ended:
        await driven.driver.move(without_run(driven.task("awake")))
    assert ended.value.facts["exit_code"] == 3 and ended.value.facts["lines"] == ["loading", "no such file"]
    assert driven.state().gone and not driven.runs.pids("r1")


@servers
async def test_a_taken_port_names_its_owner_and_starts_nothing(driven: Driven) -> None:
    port = free_port()
    driven.changed(upstream=f"http://127.0.0.1:{port}")
    with listen_on(port), pytest.raises(PortTaken) as taken:
        await driven.driver.move(without_run(driven.task("awake")))
    assert taken.value.facts["port"] == port and f"pid {os.getpid()} " in taken.value.facts["owner"]
    assert driven.runs.known() == []


@servers
async def test_a_port_that_another_program_takes_meanwhile_ends_the_start(driven: Driven) -> None:
    port = free_port()
    driven.changed(upstream=f"http://127.0.0.1:{port}", argv=("sleep", "600"))
    moving = asyncio.gather(driven.driver.move(without_run(driven.task("awake"))))
    await wait_until(lambda: "r1" in driven.runs.known() and driven.state().ran, LIMIT_S)
    with program("demo.tiny_server", "--port", port) as stranger:
        with pytest.raises(PortTaken) as taken:
            await moving
        assert f"pid {stranger.pid} " in taken.value.facts["owner"]
    assert not driven.runs.pids("r1")


@servers
async def test_another_program_that_says_it_is_healthy_is_not_the_server(driven: Driven) -> None:
    port = free_port()
    driven.runs.launch(RunSpec(id="r1", holder="h", argv=("sleep", "600"), port=port))
    await wait_until(lambda: driven.state().ran, LIMIT_S)
    seen = await driven.driver.observe(driven.holder())
    assert (seen.form, seen.ready, seen.down) == (None, False, True)
    with program("demo.tiny_server", "--port", port):

        async def answered() -> bool:
            async with driven.http.get(f"http://127.0.0.1:{port}/health") as reply:
                return reply.status == 200

        await wait_until(lambda: driven.runs.listener(port), LIMIT_S)
        assert await answered()
        seen = await driven.driver.observe(driven.holder())
        assert (seen.form, seen.ready) == (None, False)


@servers
async def test_a_server_below_a_wrapper_is_ours(driven: Driven) -> None:
    driven.changed(argv=shell('"$0" "$@" & wait', driven.argv))
    await driven.driver.move(without_run(driven.task("awake")))
    assert len(driven.runs.pids("r1")) == 2
    assert (await driven.driver.observe(driven.holder())).form == "awake"


@servers
async def test_a_server_that_loads_longer_than_its_limit_goes_on_loading(driven: Driven) -> None:
    late = "--load-delay" if driven.name == "llamacpp" else "--start-delay"
    driven.changed(argv=(*driven.argv, late, "1.5"))
    with pytest.raises(LimitPassed):
        await driven.driver.move(without_run(driven.task("awake", limit_s=0.5)))
    seen = await driven.driver.observe(driven.holder())
    assert (seen.form, seen.ready) == (None, False)
    await driven.driver.move(driven.task("awake"))
    assert driven.runs.known() == ["r1"]


@servers
async def test_a_server_with_neither_a_command_nor_a_port_is_refused(driven: Driven) -> None:
    driven.changed(argv=())
    with pytest.raises(CannotStart):
        await driven.driver.move(without_run(driven.task("awake")))


@servers
async def test_a_server_that_somebody_else_started(driven: Driven) -> None:
    port = free_port()
    words = [word.replace("{port}", str(port)) for word in driven.argv[2:]]
    driven.changed(argv=(), upstream=f"http://127.0.0.1:{port}")
    with pytest.raises(ServerSilent):
        await driven.driver.move(without_run(driven.task("awake")))
    seen = await driven.driver.observe(driven.holder(None))
    assert (seen.form, seen.down) == ("stopped", True)
    with program(*words):
        await wait_until(lambda: driven.runs.listener(port), LIMIT_S)
        moved = await driven.driver.move(without_run(driven.task("awake")))
        seen = await driven.driver.observe(driven.holder(None))
        assert (seen.form, seen.ready, seen.upstream) == ("awake", True, moved.upstream)
        with pytest.raises(DriverFailed):
            await driven.driver.move(driven.task("stopped"))
    assert driven.runs.known() == []


@only("llamacpp")
async def test_llama_falls_asleep_by_itself_and_wakes_when_told(driven: Driven) -> None:
    driven.changed(argv=(*driven.argv, "--sleep-idle", "1"))
    await driven.driver.move(without_run(driven.task("awake")))

    async def look() -> str | None:
        return (await driven.driver.observe(driven.holder())).form

    async def asleep() -> bool:
        return await look() == "asleep"

    await until_so(asleep, "its sleep under constant looks")
    seen = await driven.driver.observe(driven.holder())
    assert (seen.ready, seen.engine_active) == (False, 0)
    for path in ASLEEP_PROBES["llamacpp"]:  # a gate passes these on meanwhile
        async with driven.http.get(f"{seen.upstream}{path}") as reply:
            assert (reply.status, await look()) == (200, "asleep"), path
    await driven.driver.move(driven.task("awake", was="asleep"))
    seen = await driven.driver.observe(driven.holder())
    assert (seen.form, seen.ready, seen.engine_active) == ("awake", True, 0)
    await until_so(asleep, "its second sleep")
    await driven.driver.move(driven.task("stopped", was="asleep"))
    assert await look() == "stopped"


@only("llamacpp")
async def test_llama_tells_how_busy_it_is(driven: Driven, tmp_path: Path) -> None:
    tiny_model.make_model(tmp_path / "endless.gguf", endless=True, layers=8, embd=512, ff=2048)
    driven.changed(
        argv=command("demo.llama_server", "--model", tmp_path / "endless.gguf", "--port", "{port}")
    )
    moved = await driven.driver.move(without_run(driven.task("awake")))
    body = {"prompt": "x", "max_tokens": 2000, "stream": True}

    async def ask() -> None:
        async with driven.http.post(f"{moved.upstream}/v1/completions", json=body) as reply:
            await reply.read()

    asks = asyncio.gather(*(ask() for _ in range(3)))

    async def busy() -> bool:
        return (await driven.driver.observe(driven.holder())).engine_active == 3

    await until_so(busy, "two requests at work and one behind them")
    asks.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asks

    async def idle() -> bool:
        return (await driven.driver.observe(driven.holder())).engine_active == 0

    await until_so(idle, "an idle engine")
    engine = (await driven.driver.observe(driven.holder())).engine
    assert engine is not None and engine.tokens and engine.busy_s, (
        "what it counted of the answers that were cut"
    )
