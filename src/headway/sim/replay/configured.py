"""The knobs of a config: a replay with them is what a daemon with that file would do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headway.config.load import load
from headway.core.ledger import Knobs
from headway.sim.replay.report import Setting


def configured(setting: Setting, path: Path, service: str | None) -> Setting:
    """With the knobs that the file says of the service; of the only one it has, where none is named.

    Raises:
        ConfigInvalid: the file is no config.
        ValueError: it has no such service.
    """
    config = load(path)
    if service is None and len(config.service) == 1:
        service = next(iter(config.service))
    if service is not None and service not in config.service:
        raise ValueError(f"{path} has no service {service!r}")
    said = [config.headway] if service is None else [config.service[service], config.headway]

    def knob(name: str) -> float:
        found = (getattr(one, name) for one in said)
        return next(float(value) for value in found if value is not None)

    knobs = Knobs(
        wait_price=knob("wait_price"),
        max_mean_wait_s=knob("max_mean_wait"),
        max_waiting_share=knob("max_waiting_share"),
    )
    return replace(setting, knobs=knobs)
