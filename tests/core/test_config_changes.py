"""What differs between two configs, and from when on each difference counts."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from headway.config.changes import HIDDEN, SERVICE_NOW, changes
from headway.config.schema import Config, JobConfig, ServiceConfig
from tests.configs import CHAT, RENDER, SIM, TRAIN

pytestmark = pytest.mark.core


def parsed(text: str) -> Config:
    import tomllib

    return Config.model_validate(tomllib.loads(text))


def told(old: str, new: str, running: Collection[str] = ()) -> list[tuple[str, str]]:
    return [(str(one), one.when) for one in changes(parsed(old), parsed(new), running)]


CASES = {
    # name: (old, new, who goes on, what is told)
    "nothing": (CHAT + TRAIN, TRAIN + CHAT, (), []),
    "the mode": ("", 'mode = "live"\n', (), [("mode: shadow -> live", "now")]),
    "a service is new": (TRAIN, TRAIN + CHAT, (), [("[service.chat] is new", "now")]),
    "a job is gone": (CHAT + TRAIN, CHAT, (), [("[job.train] is gone", "now")]),
    "a limit of a server that runs": (CHAT, CHAT + "max_active = 3\n", ("chat",), [("[service.chat] max_active: not set -> 3", "now")]),
    "a size of a server that runs": (CHAT, CHAT + "memory.awake = 5\n", ("chat",), [("[service.chat] memory.awake: not set -> 5B", "now")]),
    "main memory of a server that runs": (CHAT.replace("process", "llamacpp"), CHAT.replace("process", "llamacpp") + "host_memory.asleep = 5\n", ("chat",), [("[service.chat] host_memory.asleep: not set -> 5B", "now")]),
    "how a server that runs is started": (CHAT, CHAT.replace('"serve"', '"other"'), ("chat",), [("[service.chat] start changed", "next_start")]),
    "how a server that is down is started": (CHAT, CHAT.replace('"serve"', '"other"'), (), [("[service.chat] start changed", "now")]),
    "anything of a job that runs": (TRAIN, TRAIN + "retries = 2\n", ("train",), [("[job.train] retries: 0 -> 2", "next_start")]),
    "anything of a job that waits": (TRAIN, TRAIN + "retries = 2\n", ("other",), [("[job.train] retries: 0 -> 2", "now")]),
    "the port of a service": (CHAT, CHAT + "port = 9000\n", ("chat",), [("[service.chat] port: not set -> 9000", "restart")]),
    "the front door": ("", "[gate]\nport = 9000\n", (), [("[gate] port: 8491 -> 9000", "restart")]),
    "the API": ("", "[api]\nport = 9000\n", (), [("[api] port: 8490 -> 9000", "restart")]),
    "a device": (SIM, SIM.replace("24GiB", "25GiB"), (), [("[device.sim0] total: 24GiB -> 25GiB", "restart")]),
    "a device is new": ("", SIM, (), [("[device.sim0] is new", "restart")]),
    "a rule for all": ("", '[headway]\ngap_min = "9s"\n', (), [("[headway] gap_min: 0s -> 9s", "now")]),
    "a factor": ("", "[headway]\nwait_price = 0.5\n", (), [("[headway] wait_price: 4.0 -> 0.5", "now")]),
    "inside a table inside": ("", "[headway]\nswitch_after.attended = 5\n", (), [("[headway] switch_after.attended: 30s -> 5s", "now")]),
    "a list": (TRAIN, TRAIN + 'tags = ["a", "b"]\n', (), [("[job.train] tags: not set -> [a, b]", "now")]),
    "a truth": (CHAT, CHAT + "pinned = true\n", (), [("[service.chat] pinned: false -> true", "now")]),
    "who is alerted": ("", '[alerts]\ncommand = ["tell", "s3cret"]\n', (), [("[alerts] command changed", "now")]),
    "a variable, whose value may be a secret": (TRAIN, TRAIN + 'env.TOKEN = "s3cret"\n', (), [("[job.train] env.TOKEN changed", "now")]),
    "commands, whose words may be secrets": (RENDER, RENDER.replace('["park"]', '["park", "s3cret"]'), (), [("[job.render] park changed", "now")]),
    "words of one's own": ("", '[vars]\na = "s3cret"\n', (), [("[vars] a changed", "now")]),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "running", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_told(old: str, new: str, running: Collection[str], expected: list[tuple[str, str]]) -> None:
    assert told(old, new, running) == expected


def test_the_names_in_the_tables_are_keys_of_the_config() -> None:
    assert set(ServiceConfig.model_fields) >= SERVICE_NOW
    commands = {
        name
        for table in (ServiceConfig, JobConfig)
        for name, info in table.model_fields.items()
        if "Argv" in str(info.annotation) or "start" in name or name in ("saved", "progress")
    }
    assert commands <= set(HIDDEN), "a command may have a secret among its words"
