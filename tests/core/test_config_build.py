"""From a config to specs: every key reaches the record that it is for, and defaults are those of the core."""

import dataclasses
from pathlib import Path

import pytest

from headway.config.build import Built, build
from headway.config.load import doubts, load
from headway.config.reference import reference
from headway.config.schema import Config
from headway.core.model import GIB, JobSpec, MoveRule, Policy, ServiceSpec
from headway.drivers.registry import DRIVERS
from tests.configs import CHAT, RENDER, SIM, TRAIN, loaded, written

pytestmark = pytest.mark.core

DOCS = Path(__file__).parents[2] / "docs"


def rule(source: str, to: str) -> MoveRule:
    return MoveRule(source=source, to=to, limit_s=10.0, frees=to != "awake")


MOVES = {
    "process": (rule("awake", "stopped"), rule("stopped", "awake")),
    "llamacpp": (rule("awake", "stopped"), rule("asleep", "stopped"), rule("asleep", "awake"), rule("stopped", "awake")),
    "vllm": (rule("awake", "asleep"), rule("asleep", "stopped"), rule("asleep", "awake"), rule("stopped", "awake")),
    "restart": (rule("running", "stopped"), rule("stopped", "running")),
    "command": (
        rule("running", "parked"),
        rule("parked", "running"),
        rule("parked", "stopped"),
        rule("running", "stopped"),
        rule("stopped", "running"),
    ),
}  # fmt: skip
MOVES["checkpoint"] = MOVES["command"]


def built(directory: Path, text: str) -> Built:
    return build(loaded(directory, text), MOVES, {"llamacpp"}, {"llamacpp": ("/health",)})


def test_the_example_loads_and_builds() -> None:
    made = build(load(DOCS / "example.toml", {}), MOVES)
    assert made.mode == "live"
    assert [spec.name for spec in made.services] == ["chat", "vision", "writer"]
    assert [(spec.name, hold) for spec, hold in made.recipes] == [
        ("train", False),
        ("render", False),
        ("evaluate", False),
        ("simulate", True),
        ("report", True),
    ]
    assert [device.name for device in made.devices] == ["gpu0", "big", "sim0", "far"]
    assert made.devices[0].index == 0 and made.devices[1].index is None
    assert made.devices[2].reports == str(DOCS / "reports")


def test_the_config_of_the_howto_for_vllm_loads_and_leaves_no_doubt(tmp_path: Path) -> None:
    text = (DOCS / "howto" / "vllm.md").read_text().split("```toml\n")[1].split("```")[0]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vllm").touch(0o755)
    file = written(tmp_path, text + SIM.replace('"reports"\n', '"."\n'))
    (writer,) = build(load(file, {}), {"vllm": DRIVERS["vllm"].moves}).services
    assert (writer.name, writer.driver, writer.wake_limit_s) == ("writer", "vllm", 900.0)
    assert doubts(file, pytest.fail, {"PATH": str(tmp_path / "bin")}) == []


@pytest.mark.parametrize("page", ["jobs.md", "checkpoint.md"])
def test_the_job_of_a_howto_loads(page: str, tmp_path: Path) -> None:
    text = (DOCS / "howto" / page).read_text().split("```toml\n")[1].split("```")[0]
    ((render, _),) = build(loaded(tmp_path, text), {name: one.moves for name, one in DRIVERS.items()}).recipes
    assert render.name == "render" and "parked" in {form.name for form in render.forms}


def test_the_example_uses_every_driver_and_each_has_its_forms() -> None:
    made = build(load(DOCS / "example.toml", {}), {name: driver.moves for name, driver in DRIVERS.items()})
    specs = [*made.services, *(spec for spec, _ in made.recipes)]
    assert {spec.driver: tuple(form.name for form in spec.forms) for spec in specs} == {
        "llamacpp": ("awake", "asleep", "stopped"),
        "process": ("awake", "stopped"),
        "vllm": ("awake", "asleep", "stopped"),
        "restart": ("running", "stopped"),
        "command": ("running", "parked", "stopped"),
        "checkpoint": ("running", "parked", "stopped"),
    }


def forms(spec: ServiceSpec | JobSpec) -> dict[str, int | None]:
    return {form.name: form.declared_bytes for form in spec.forms}


def test_forms_are_what_the_driver_reaches(tmp_path: Path) -> None:
    made = built(
        tmp_path,
        CHAT
        + 'memory.awake = "16GiB"\n'
        + CHAT.replace("chat", "llama").replace("process", "llamacpp")
        + "memory = {awake = 100, asleep = 5}\n"
        + TRAIN
        + "memory.running = 7\n"
        + RENDER
        + 'placement = "share"\nmemory = {running = 9}\n'
        + TRAIN.replace("train", "cpu")
        + "gpus = 0\n",
    )
    (chat, llama), (train, render, cpu) = made.services, [spec for spec, _ in made.recipes]
    assert forms(chat) == {"awake": 16 * GIB, "stopped": 0}
    assert forms(llama) == {"awake": 100, "asleep": 5, "stopped": 0}
    assert forms(train) == {"running": 7, "stopped": 0}
    assert forms(render) == {"running": 9, "parked": None, "stopped": 0}
    assert forms(cpu) == {"running": 0, "stopped": 0}
    assert (chat.reads_busy, llama.reads_busy, cpu.count) == (False, True, 0)
    assert (chat.asleep_probes, llama.asleep_probes) == ((), ("/health",))
    assert chat.moves == MOVES["process"] and render.moves == MOVES["command"]


def test_forms_have_what_is_said_of_main_memory_and_disk(tmp_path: Path) -> None:
    made = built(
        tmp_path,
        CHAT.replace("process", "llamacpp")
        + 'host_memory = {awake = "2GiB", asleep = "20GiB"}\n'
        + RENDER
        + 'host_memory = {running = 3, parked = 8}\ndisk.parked = "5GiB"\n',
    )
    (chat,), ((render, _),) = made.services, made.recipes
    beside = {form.name: (form.host_bytes, form.disk_bytes) for form in (*chat.forms, *render.forms)}
    assert beside == {
        "awake": (2 * GIB, None),
        "asleep": (20 * GIB, None),
        "running": (3, None),
        "parked": (8, 5 * GIB),
        "stopped": (None, None),
    }


PROGRAMS = {
    # name: (line, the program)
    "left out": ("", ["cuda-checkpoint"]),
    "behind sudo": ('cuda_checkpoint = ["sudo", "-n", "/opt/c"]\n', ["sudo", "-n", "/opt/c"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_job_that_is_checkpointed_knows_its_program(name: str, tmp_path: Path) -> None:
    line, program = PROGRAMS[name]
    config = loaded(tmp_path, TRAIN.replace('"restart"', '"checkpoint"') + line)
    ((train, _),) = build(config, {"checkpoint": DRIVERS["checkpoint"].moves}).recipes
    assert (train.driver, dict(train.options), train.steps_aside) == (
        "checkpoint",
        {"cuda_checkpoint": program},
        True,
    )
    assert {"running", "parked", "stopped"} == {form.name for form in train.forms}


LEVELS = {"": True, "sleep_level = 1": True, "sleep_level = 2": False}


@pytest.mark.parametrize("line", LEVELS)
def test_only_a_sleep_of_level_1_takes_main_memory(line: str, tmp_path: Path) -> None:
    text = CHAT.replace("process", "vllm") + f"memory.asleep = 1\n{line}\n"
    config = loaded(tmp_path, text)
    (chat,) = build(config, {"vllm": DRIVERS["vllm"].moves}).services
    assert next(move for move in chat.moves if move.to == "asleep").to_host is LEVELS[line]


def test_a_service_is_built_whole(tmp_path: Path) -> None:
    made = built(
        tmp_path,
        "[headway]\nmin_residency = 3\n"
        + CHAT
        + 'devices = ["gpu1", 2]\nmodel = "real"\nport = 0\npinned = true\n'
        'max_wait = {attended = "5s"}\nkey_file = "key"\nenv = {A = "b"}\nstop_grace = 1\nqueue_max = 0\n',
    )
    (chat,) = made.services
    assert (chat.pinned_devices, chat.count, chat.upstream) == (("gpu1", "2"), 2, "http://127.0.0.1:{port}")
    assert (chat.models, chat.upstream_model, chat.gate_port, chat.keep_awake) == (("chat",), "real", 0, True)
    assert (chat.max_wait_s, chat.queue_max) == ({"attended": 5.0, "background": 3600.0}, 0)
    assert (chat.key_file, chat.cwd) == (str(tmp_path / "key"), str(tmp_path))
    assert (chat.argv, chat.env, chat.stop_grace_s) == (("serve", "{port}"), {"A": "b"}, 1.0)
    assert chat.min_residency_s == 3.0


def test_a_job_is_built_whole(tmp_path: Path) -> None:
    made = built(
        tmp_path,
        TRAIN + RENDER + 'priority = "high"\nafter = ["train"]\nhold = true\ntags = ["a"]\ncwd = "~"\n',
    )
    render, hold = made.recipes[1]
    assert hold and (render.priority, render.after, render.tags) == (80, ("train",), ("a",))
    assert (render.park, render.resume, render.saved) == (("park",), ("resume",), ())
    assert render.cwd == str(Path.home())


def test_what_an_owner_says_of_a_job_s_limits_arrives(tmp_path: Path) -> None:
    text = (
        'max_runtime = "2h"\nstall_after = "5min"\noom_exit_code = 7\nhealth = ["h"]\nhealth_every = "30s"\n'
        'summary = ["s"]\nlabels = { a = "b" }\ncolour = "teal"\n'
    )
    ((spec, _),) = built(tmp_path, TRAIN + text).recipes
    assert (spec.max_runtime_s, spec.stall_after_s, spec.oom_exit_code) == (7200.0, 300.0, 7)
    assert (spec.health, spec.health_every_s, spec.summary) == (("h",), 30.0, ("s",))
    assert (spec.labels, spec.colour) == ({"a": "b"}, "teal")
    (tmp_path / "other").mkdir()
    made = built(tmp_path / "other", '[headway]\nlog_max = "1MiB"\nlog_kept = 9\n')
    assert (made.log_max_bytes, made.log_kept) == (1 << 20, 9)


def test_defaults_are_those_of_the_core(tmp_path: Path) -> None:
    made = built(tmp_path, CHAT + TRAIN)
    assert made.policy == Policy() and made.mode == "shadow"
    said = {"name", "driver", "forms", "moves", "argv", "cwd", "models", "upstream"}
    for spec, kind in ((made.services[0], ServiceSpec), (made.recipes[0][0], JobSpec)):
        plain = kind(name="", driver="", forms=(), moves=())
        for field in dataclasses.fields(kind):
            if field.name not in said:
                assert getattr(spec, field.name) == getattr(plain, field.name), field.name


def test_every_setting_of_headway_reaches_the_policy(tmp_path: Path) -> None:
    text = "[headway]\n" + "".join(
        f"{name} = 0.5\n" if name.endswith("_share") else f"{name} = 77\n"
        for name in Config.model_fields["headway"].annotation.model_fields  # type: ignore[union-attr]
        if name != "switch_after"
    )
    policy = built(tmp_path, text + "switch_after = {attended = 77, background = 77}\n").policy
    unchanged = [
        f.name for f in dataclasses.fields(Policy) if getattr(policy, f.name) == getattr(Policy(), f.name)
    ]
    assert unchanged == []


def test_the_reference_is_up_to_date() -> None:
    assert (DOCS / "reference" / "config.md").read_text() == reference(), (
        "run: python -m headway.config.reference > docs/reference/config.md"
    )


def test_a_vllm_is_built_with_its_sleep(tmp_path: Path) -> None:
    text = CHAT.replace("process", "vllm") + "memory = {awake = 9, asleep = 2}\n"
    moves = {"vllm": DRIVERS["vllm"].moves}
    plain = build(loaded(tmp_path, text), moves).services[0]
    assert (plain.options, plain.moves) == ({"sleep_level": 1}, moves["vllm"])
    (tmp_path / "deep").mkdir()
    deep = build(loaded(tmp_path / "deep", text + "sleep_level = 2\nsleep_limit = 7\n"), moves).services[0]
    assert deep.options == {"sleep_level": 2}
    assert [m for m in deep.moves if m not in moves["vllm"]] == [
        dataclasses.replace(m, limit_s=7.0, to_host=False) for m in moves["vllm"] if m.to == "asleep"
    ]


def test_a_service_that_somebody_else_starts_has_no_command(tmp_path: Path) -> None:
    made = built(tmp_path, '[service.chat]\ndriver = "llamacpp"\nupstream = "http://127.0.0.1:8080"\n')
    assert made.services[0].argv == () and made.services[0].upstream == "http://127.0.0.1:8080"
