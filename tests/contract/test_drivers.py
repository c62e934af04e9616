"""One suite over every driver with a real program behind it, and what only one of them does."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from demo import tiny_model
from headway.core.model import LADDERS, Job, MoveRule
from headway.drivers.jobs_told import JobTeller
from headway.drivers.registry import DRIVERS
from headway.errors import (
    CannotStart,
    DriverFailed,
    HookFailed,
    LimitPassed,
    PortTaken,
    ServerExited,
    ServerSilent,
)
from headway.host.run_files import RunFiles
from headway.ports import RunSpec, Task
from tests.parts.driven import Driven, command, listen_on, shell, without_run
from tests.parts.programs import GIB, held, program
from tests.parts.running import LIMIT_S, end_all, kill_shim, living, until_so
from tests.processes import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.contract


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    tiny_model.make_model(path)
    return path


def made(name: str, directory: Path, http: aiohttp.ClientSession, model: Path) -> Driven:
    """The driver with the program of the demo that fits it."""
    job = (
        "--dir",
        directory / "job",
        "--reports",
        directory / "reports",
        "--bytes",
        "1GiB",
        "--total",
        "24GiB",
    )
    tell = command("demo.jobs.render_ctl", "--dir", directory / "job")
    programs = {
        "process": command("demo.tiny_server", "--port", "{port}"),
        "llamacpp": command("demo.llama_server", "--model", model, "--port", "{port}"),
        "restart": command("demo.jobs.train", *job, "--steps", 10**6),
        "command": command("demo.jobs.render", *job, "--frames", 10**6),
    }
    assert programs.keys() == DRIVERS.keys(), "each driver has a row here"
    return Driven(name, directory, http, programs[name], park=(*tell, "park"), resume=(*tell, "resume"))


@pytest.fixture(params=sorted(DRIVERS))
async def driven(
    request: pytest.FixtureRequest, tmp_path: Path, http: aiohttp.ClientSession, model: Path
) -> AsyncIterator[Driven]:
    (tmp_path / "reports").mkdir()
    world = made(request.param, tmp_path, http, model)
    yield world
    await end_all(world.runs)


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("driven", names, indirect=True)


def seen_up(driven: Driven) -> str | None:
    """What observe says of a holder in its top form: hooks alone cannot be asked."""
    return None if driven.name == "command" else driven.top


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
    driven.restart()
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


@pytest.mark.parametrize(
    "argv", [("no-such-command",), ("/etc/passwd",), ()], ids=["missing", "not executable", "empty"]
)
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
        await driven.driver.move(driven.task("asleep" if driven.kind == "service" else "frozen"))


# ------------------------------------------------------------ servers

servers = only("process", "llamacpp")


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
    late = "--start-delay" if driven.name == "process" else "--load-delay"
    driven.changed(argv=(*driven.argv, late, "1.5"))
    with pytest.raises(LimitPassed):
        await driven.driver.move(without_run(driven.task("awake", limit_s=0.5)))
    seen = await driven.driver.observe(driven.holder())
    assert (seen.form, seen.ready) == (None, False)
    await driven.driver.move(driven.task("awake"))
    assert driven.runs.known() == ["r1"]


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


# ------------------------------------------------------------ jobs

jobs = only("restart", "command")


@jobs
async def test_a_job_finds_its_environment(driven: Driven) -> None:
    driven.changed(argv=("env",), env={"MINE": "1", "CUDA_VISIBLE_DEVICES": "all"})
    moved = await driven.driver.move(without_run(driven.task("running")))
    await wait_until(lambda: driven.state().gone, LIMIT_S)
    found = dict(line.partition("=")[::2] for line in driven.runs.log_tail("r1", 500))
    directory = driven.runs.directory("r1")
    wanted = {
        "MINE": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "HEADWAY_JOB_ID": "h",
        "HEADWAY_RUN_DIR": str(directory),
        "HEADWAY_PROGRESS_FILE": str(directory / "progress"),
        "HEADWAY_PID": str(moved.facts["pid"]),
    }
    assert {name: found[name] for name in wanted} == wanted


@jobs
async def test_a_job_with_an_empty_command_is_refused(driven: Driven) -> None:
    driven.changed(argv=())
    with pytest.raises(CannotStart):
        await driven.driver.move(without_run(driven.task("running")))
    assert driven.runs.known() == []


@jobs
async def test_a_job_whose_leader_left_leftovers_is_neither_running_nor_stopped(driven: Driven) -> None:
    driven.changed(argv=shell("sleep 600 & exit 0"))
    await driven.driver.move(without_run(driven.task("running")))
    await wait_until(lambda: driven.state().exit, LIMIT_S)
    assert (await driven.driver.observe(driven.holder())).form is None
    await driven.driver.move(driven.task("stopped", was="running"))
    assert (await driven.driver.observe(driven.holder())).form == "stopped"


@only("command")
async def test_a_job_parks_and_goes_on_as_the_same_process(driven: Driven) -> None:
    reports = driven.directory / "reports"
    await driven.driver.move(without_run(driven.task("running")))
    await wait_until(lambda: (driven.directory / "job" / "control.sock").exists(), LIMIT_S)
    pid = driven.state().pid
    assert held(reports, "GPU-1") == GIB
    await driven.driver.move(driven.task("parked", was="running"))
    assert held(reports, "GPU-1") == 0
    await driven.driver.move(driven.task("parked", was="running", hook_id="r1.hook2"))
    driven.restart()
    await driven.driver.move(driven.task("running", was="parked", hook_id="r1.hook3"))
    assert held(reports, "GPU-1") == GIB and driven.state().pid == pid
    assert driven.runs.known() == ["r1", "r1.hook1", "r1.hook2", "r1.hook3"]
    assert {driven.state(f"r1.hook{n}").kind for n in (1, 2, 3)} == {"hook"}


async def with_hook(driven: Driven, script: str) -> Task:
    """A living job whose park command is `script`, and the task to park it."""
    driven.changed(argv=("sleep", "600"), park=shell(script), resume=shell(script))
    await driven.driver.move(without_run(driven.task("running")))
    return driven.task("parked", was="running")


@only("command")
async def test_a_hook_that_fails_tells_its_code_and_its_last_lines(driven: Driven) -> None:
    task = await with_hook(driven, "echo asking; echo 'nobody there' >&2; exit 4")
    for _ in range(2):  # the second time its recorded exit is taken
        with pytest.raises(HookFailed) as failed:
            await driven.driver.move(task)
        assert failed.value.facts["exit_code"] == 4
        assert failed.value.facts["lines"] == ["asking", "nobody there"]
    assert driven.runs.known() == ["r1", "r1.hook1"]


@only("command")
async def test_a_hook_finds_the_job_s_environment_and_pid(driven: Driven) -> None:
    task = await with_hook(driven, 'echo "$HEADWAY_PID $HEADWAY_JOB_ID $HEADWAY_RUN_DIR"')
    await driven.driver.move(task)
    assert driven.runs.log_tail("r1.hook1", 1) == [f"{driven.state().pid} h {driven.runs.directory('r1')}"]


@only("command")
async def test_a_hook_under_way_is_found_by_the_next_daemon(driven: Driven) -> None:
    go, ran = driven.directory / "go", driven.directory / "ran"
    task = await with_hook(driven, f"echo >> {ran}; while [ ! -e {go} ]; do sleep 0.02; done")
    first = asyncio.gather(driven.driver.move(task))
    await wait_until(ran.exists, LIMIT_S)
    first.cancel()
    driven.restart()
    second = asyncio.gather(driven.driver.move(task))
    await wait_until(lambda: driven.state("r1.hook1").lock_held, LIMIT_S)
    assert not second.done()
    go.touch()
    await second
    assert ran.read_text() == "\n" and (await driven.driver.move(task)).facts == {"hook": "r1.hook1"}


@only("command")
async def test_a_hook_that_hangs_is_ended_at_its_limit_and_the_job_lives(driven: Driven) -> None:
    task = replace(await with_hook(driven, "trap '' TERM; sleep 600; sleep 600"), limit_s=0.5)
    with pytest.raises(LimitPassed):
        await driven.driver.move(task)
    assert not driven.runs.pids("r1.hook1") and driven.runs.pids("r1")


@only("command")
async def test_a_hook_whose_end_nobody_knows_has_failed(driven: Driven) -> None:
    task = await with_hook(driven, "sleep 600")
    moving = asyncio.gather(driven.driver.move(task))
    await wait_until(lambda: "r1.hook1" in driven.runs.known() and driven.state("r1.hook1").ran, LIMIT_S)
    await kill_shim(driven.runs, "r1.hook1", driven.state("r1.hook1").pid or 0)
    with pytest.raises(HookFailed):
        await moving


@only("command")
async def test_nobody_parks_a_job_that_ended(driven: Driven) -> None:
    task = await with_hook(driven, f"echo > {driven.directory}/ran")
    os.kill(driven.state().pid or 0, signal.SIGKILL)
    await wait_until(lambda: driven.state().gone, LIMIT_S)
    with pytest.raises(HookFailed):
        await driven.driver.move(task)
    assert not (driven.directory / "ran").exists()


# ------------------------------------------------------------ what jobs tell


def job_saying(driven: Driven, saved: str = "", progress: str = "") -> Job:
    holder = driven.holder()
    assert isinstance(holder, Job)
    said = replace(
        holder.spec, saved=shell(saved) if saved else (), progress=shell(progress) if progress else ()
    )
    return replace(holder, spec=said)


@only("restart")
async def test_a_job_tells_its_saved_point_and_its_progress(driven: Driven) -> None:
    driven.changed(argv=(*driven.argv, "--step-s", "0.01", "--save-every", "5"))
    await driven.driver.move(without_run(driven.task("running")))
    teller = JobTeller(driven.runs)
    saved = command("demo.jobs.train", "--dir", driven.directory / "job", "--saved")
    holder = driven.holder()
    assert isinstance(holder, Job)
    job = replace(holder, spec=replace(holder.spec, saved=saved))

    async def told() -> bool:
        said = await teller.ask(job)
        return said.saved_age_s is not None and (said.progress or 0) > 0

    await until_so(told, "a saved point")


@only("restart")
async def test_what_a_job_says_is_read_or_left_out(driven: Driven) -> None:
    teller = JobTeller(driven.runs, limit_s=0.5)
    said = await teller.ask(job_saying(driven, saved="echo noise; echo step-4", progress="echo 40 %"))
    assert (said.saved_point, said.saved_age_s, said.progress) == ("step-4", None, 0.4)
    for script in ("exit 1", "echo 3; exit 2", "sleep 600 & sleep 600", "cat /dev/zero"):
        said = await teller.ask(job_saying(driven, saved=script, progress=script))
        assert (said.saved_point, said.saved_age_s, said.progress) == (None, None, None), script
