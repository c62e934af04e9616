"""The knobs of a config: a replay with them is what a daemon with that file would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headway.config.load import load
from headway.config.schema import Config
from headway.core.ledger import Knobs
from headway.sim.replay.report import Setting
from headway.sim.replay.trace import Trace


def configured(setting: Setting, path: Path, trace: Trace) -> tuple[Setting, list[str]]:
    """With the knobs that the file says of the service whose requests these are, and what is to be told of it.

    A trace names no service: it is the only one of the file, else the knobs are those of all.

    Raises:
        ConfigInvalid: the file is no config.
        ValueError: it has services, and not that one.
    """
    config = load(path)
    service = trace.service
    if service is None and len(config.service) == 1:
        service = next(iter(config.service))
    if service is not None and config.service and service not in config.service:
        raise ValueError(
            f"{path} has no service {service!r}: name the config that has it, or say the knobs with --set"
        )
    own = config.service.get(service or "")
    said = [config.headway] if own is None else [own, config.headway]

    def knob(name: str) -> float:
        found = (getattr(one, name) for one in said)
        return next(float(value) for value in found if value is not None)

    knobs = Knobs(
        wait_price=knob("wait_price"),
        max_mean_wait_s=knob("max_mean_wait"),
        max_waiting_share=knob("max_waiting_share"),
    )
    setting = replace(setting, knobs=knobs, gap_min_s=config.headway.gap_min)
    return setting, list(_doubts(config, path, service, trace))


def _doubts(config: Config, path: Path, service: str | None, trace: Trace) -> Iterator[str]:
    """Where it is not quite what the daemon would do."""
    if service is None and config.service:
        yield f"{trace.name} names no service: the knobs are those of [headway] in {path}, not of one of its services"
    windows = [
        name
        for name, one in config.window.items()
        if service is None or not one.services or service in one.services
    ]
    if windows:
        yield f"windows are not played: {', '.join(windows)} of {path} may make the daemon do otherwise"
