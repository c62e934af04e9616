"""What is allowed and yet probably not meant: programs that are not there, devices that nobody can read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headway.config.checks import count_of, index_of
from headway.config.jobs import checkpoint_program
from headway.config.problems import Problem
from headway.config.schema import Config, DeviceConfig, Holder, JobConfig, ServiceConfig, WindowConfig
from headway.core.model import MIB
from headway.ports import Reading

COMMANDS = ("start", "park", "resume", "saved", "progress")


def warnings(config: Config, environ: Mapping[str, str], cards: Reading | None = None) -> Iterator[Problem]:
    """Everything a person should hear about a config that has no problems.

    Args:
        environ: the environment that commands will be started with.
        cards: what NVML shows; None: it was not asked.
    """
    if config.mode == "shadow":
        yield Problem(
            ("mode",), 'is shadow: Headway only watches and starts nothing. mode = "live" lets it act'
        )
    if not config.service and not config.job:
        yield Problem(("service",), "there is none, and no [job.NAME]: only `headway add` will bring work")
    if cards is not None:
        yield from _cards(config, cards)
    yield from of_programs(config, environ)


def of_programs(config: Config, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Of them, those that are true of each table by itself, whatever is wrong with the others."""
    for name, device in config.device.items():
        yield from _reports(name, device)
    for name, service in config.service.items():
        yield from _holder(("service", name), service, environ)
        if service.key_file is not None and not os.access(service.key_file, os.R_OK):
            yield Problem(("service", name, "key_file"), f"{service.key_file} cannot be read")
        yield from _cannot_sleep(name, service, environ)
    for name, job in config.job.items():
        yield from _holder(("job", name), job, environ)
        if job.driver == "checkpoint" and (no := missing(checkpoint_program(job)[0], job.cwd, environ)):
            yield Problem(("job", name, "driver"), f"{no}: it would be stopped instead of parked")
    for name, window in config.window.items():
        yield from _slept_only(name, window, config)
    if (command := config.alerts.command) and (no := missing(command[0], ".", environ)):
        yield Problem(("alerts", "command"), no)
    if (file := config.alerts.webhook_key_file) is not None and not os.access(file, os.R_OK):
        yield Problem(("alerts", "webhook_key_file"), f"{file} cannot be read")


def _cannot_sleep(name: str, service: ServiceConfig, environ: Mapping[str, str]) -> Iterator[Problem]:
    """A vLLM whose command is written out and lacks what its sleep needs; a script may well add it by itself."""
    words = service.start or ()
    if service.driver != "vllm" or not any("vllm" in Path(word).name for word in words):
        return
    if not any(word.startswith("--enable-sleep-mode") for word in words):
        yield Problem(
            ("service", name, "start"),
            "has no --enable-sleep-mode: it would say that it sleeps and keep its memory, and be stopped instead",
        )
    setting = {**environ, **service.env}.get("VLLM_SERVER_DEV_MODE")
    if setting != "1" and "VLLM_SERVER_DEV_MODE=1" not in words:
        yield Problem(
            ("service", name, "env"),
            'has no VLLM_SERVER_DEV_MODE = "1": it could not be asked to sleep, and would be stopped instead',
        )


def _slept_only(name: str, window: WindowConfig, config: Config) -> Iterator[Problem]:
    """What a no_model window cannot stop, since Headway could not start it again."""
    if window.kind != "no_model":
        return
    for sid, service in config.service.items():
        if service.start is not None or (window.services and sid not in window.services):
            continue
        sleeps = service.driver == "vllm"
        yield Problem(
            ("window", name),
            f"{sid} has no start command, so it is "
            + (
                "put to sleep at its deepest level and not stopped"
                if sleeps
                else "not put aside: it cannot sleep"
            ),
        )


def asks_nvml(config: Config) -> bool:
    """Whether any device is a card that NVML reads."""
    return not config.device or any(device.meter == "nvml" for device in config.device.values())


def _cards(config: Config, cards: Reading) -> Iterator[Problem]:
    if not config.device and not cards.devices:
        reason = f": {cards.trouble}" if cards.trouble else ""
        waits = ", ".join(name for name, one in _holders(config) if count_of(one))
        then = f", and {waits} will wait for one" if waits else ""
        yield Problem(
            ("device",), f"there is none, and NVML shows no GPU{reason}. So there is no device{then}"
        )
    for name, device in config.device.items():
        if device.meter != "nvml":
            continue
        shown = next((one for one in cards.devices if _is_card(name, device, one.id, one.index)), None)
        trouble = cards.trouble or (shown.trouble if shown is not None else "NVML does not show this card")
        if trouble:
            yield Problem(("device", name), f"cannot be read: {trouble}")


def _is_card(name: str, device: DeviceConfig, shown_id: str, shown_index: int) -> bool:
    if device.uuid is not None:
        return shown_id.rpartition("/")[2] == device.uuid
    return shown_index == index_of(name, device)


def _holders(config: Config) -> Iterator[tuple[str, Holder]]:
    yield from config.service.items()
    yield from config.job.items()


def _reports(name: str, device: DeviceConfig) -> Iterator[Problem]:
    if device.reports is not None and not Path(device.reports).is_dir():
        yield Problem(
            ("device", name, "reports"),
            f"there is no directory {device.reports}: until there is one, nothing starts on {name}",
        )


def _holder(
    path: tuple[str, str], holder: ServiceConfig | JobConfig, environ: Mapping[str, str]
) -> Iterator[Problem]:
    yield from _sizes(path, holder)
    if not Path(holder.cwd).is_dir():
        yield Problem((*path, "cwd"), f"there is no directory {holder.cwd}")
        return  # a relative program would be looked for there
    for key in COMMANDS:
        argv: Sequence[str] | None = getattr(holder, key, None)
        if argv and (no := missing(argv[0], holder.cwd, {**environ, **holder.env})):
            yield Problem((*path, key), no)


def _sizes(path: tuple[str, str], holder: ServiceConfig | JobConfig) -> Iterator[Problem]:
    """A number without its unit is a count of bytes, and nothing that runs takes so few."""
    for key in ("memory", "host_memory"):
        for form, bytes_ in getattr(holder, key):
            if bytes_ is not None and 0 < bytes_ < MIB:
                yield Problem((*path, key, form), f'is {bytes_} bytes: write "{bytes_}GiB"?')


def missing(program: str, cwd: str, environ: Mapping[str, str]) -> str | None:
    """Why that program could not be executed from there; None when it is found."""
    if "/" in program:
        file = Path(cwd, program)
        if not file.is_file():
            return f"there is no program {file}"
        return None if os.access(file, os.X_OK) else f"{file} is not executable"
    found = shutil.which(program, path=environ.get("PATH", os.defpath))
    return None if found else f'no program "{program}" in PATH'
