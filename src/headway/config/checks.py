"""What one value alone cannot show: names that must exist, sizes that must fit, keys that exclude each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from headway.config.environment import env_problems
from headway.config.jobs import after_problems, cycle_problems, job_problems
from headway.config.placeholders import OURS as OURS_IN_TEXTS
from headway.config.problems import Problem, did_you_mean
from headway.config.schema import Config, DeviceConfig, Holder, ServiceConfig, WindowConfig
from headway.core.names import is_like_an_id
from headway.core.units import size_text

DeviceTotals = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Known:
    """A device as far as it is known: every word that may name it, and its memory."""

    words: frozenset[str]
    total_bytes: int | None


def crossed(
    config: Config, names: Mapping[str, Collection[str]], devices: DeviceTotals | None
) -> Iterator[Problem]:
    """Every problem between keys and tables.

    Args:
        config: the tables that are right on their own.
        names: by kind, the names of all tables that were written, wrong ones included.
        devices: what the meter shows: names with bytes; None: not read.
    """
    known = _known(config, devices)
    for name, device in config.device.items():
        yield from _device(name, device)
    yield from _same_card(config)
    for name in sorted(set(config.vars) & set(OURS_IN_TEXTS)):
        yield Problem(("vars", name), f"{{{name}}} is filled in by Headway itself: choose another name")
    for kind in ("service", "job"):
        for name in filter(is_like_an_id, getattr(config, kind)):
            yield Problem((kind, name), f"{name} is what the id of a job looks like: choose another name")
    yield from _ports(config)
    if config.headway.backoff_min > config.headway.backoff_max:
        yield Problem(("headway", "backoff_min"), "is longer than backoff_max")
    if config.alerts.webhook_key_file is not None and config.alerts.webhook is None:
        yield Problem(("alerts", "webhook_key_file"), "has no meaning without webhook: leave it out")
    for name, service in config.service.items():
        yield from _service(name, service)
        yield from env_problems(("service", name), service)
        yield from _needs(("service", name), service, service.memory.awake, "awake", known)
    for name, job in config.job.items():
        yield from job_problems(name, job)
        yield from _needs(("job", name), job, job.memory.running, "running", known)
        yield from after_problems(name, job, names)
    for name in sorted(set(names.get("service", ())) & set(names.get("job", ()))):
        yield Problem(("job", name), "a service has this name too: services and jobs share their names")
    for name, window in config.window.items():
        yield from _window(name, window, names.get("service", ()))
    yield from _models(config)
    yield from cycle_problems(config)
    yield from _pinned(config, known)


# ---------------------------------------------------------------- devices


def _known(config: Config, devices: DeviceTotals | None) -> list[Known] | None:
    """The devices that may be used, None if nobody can say yet."""
    seen = devices or {}
    if config.device:
        return [
            Known(
                frozenset(
                    {
                        name,
                        *([d.uuid] if d.uuid else []),
                        *([] if (i := index_of(name, d)) is None else [str(i)]),
                    }
                ),
                d.total if d.total is not None else seen.get(name),
            )
            for name, d in config.device.items()
        ]
    if devices is None:
        return None
    # cards are called gpu0, gpu1, ...; a UUID is resolved by the daemon, which alone reads them
    return [Known(frozenset({name, name.removeprefix("gpu")}), total) for name, total in devices.items()]


def index_of(name: str, device: DeviceConfig) -> int | None:
    """The index that NVML is asked for: as written, or the number in a name such as gpu1."""
    if device.meter != "nvml" or device.uuid is not None:
        return None
    said = re.fullmatch(r"gpu(\d{1,4})", name)
    return device.index if device.index is not None or said is None else int(said[1])


def _device(name: str, device: DeviceConfig) -> Iterator[Problem]:
    path = ("device", name)
    if device.meter == "nvml":
        if device.uuid is not None and device.index is not None:
            yield Problem((*path, "index"), "uuid says which card this is already: leave one out")
        if device.uuid is None and index_of(name, device) is None:
            yield Problem(path, 'which card is it? Give uuid or index, or call it "gpu0", "gpu1", ...')
        if device.total is not None:
            yield Problem((*path, "total"), "is read from the card when meter is nvml: leave it out")
    else:
        for key in ("uuid", "index"):
            if getattr(device, key) is not None:
                yield Problem((*path, key), f"has no meaning when meter is {device.meter}: leave it out")
        if device.total is None:
            yield Problem(
                (*path, "total"), f"is missing: nothing else says how big a {device.meter} device is"
            )
    if device.meter == "simulated" and device.reports is None:
        yield Problem((*path, "reports"), "is missing: programs write there what they use")
    if device.meter != "simulated" and device.reports is not None:
        yield Problem((*path, "reports"), f"has no meaning when meter is {device.meter}: leave it out")


def _same_card(config: Config) -> Iterator[Problem]:
    cards: dict[str, str] = {}
    for name, device in config.device.items():
        if device.meter != "nvml":
            continue
        card = device.uuid or f"index {index_of(name, device)}"
        if (other := cards.setdefault(card, name)) != name:
            yield Problem(("device", name), f"is the same card as [device.{other}]: {card}")


def _needs(
    path: tuple[str, ...], holder: Holder, need: int | None, form: str, known: list[Known] | None
) -> Iterator[Problem]:
    if holder.gpus == 0:
        if need:
            yield Problem(
                (*path, "memory", form), "it needs no device (gpus = 0), so it can hold no device memory"
            )
        if holder.devices:
            yield Problem((*path, "devices"), "it needs no device (gpus = 0)")
        return
    count = count_of(holder)
    if holder.devices and count > len(holder.devices):
        yield Problem((*path, "gpus"), f"is {holder.gpus}, but devices names only {len(holder.devices)}")
        return
    if known is None:
        return
    words = sorted(word for device in known for word in device.words)
    unknown = [word for word in holder.devices if word not in words]
    for word in unknown:
        there = ", ".join(sorted(device_words(known))) or "none"
        yield Problem(
            (*path, "devices"), f'no device "{word}"{did_you_mean(word, words)}; there are: {there}'
        )
    if unknown:
        return
    if count > len(known) and not holder.devices:
        yield Problem((*path, "gpus"), f"needs {count} devices, there are {len(known)}")
        return
    yield from _fits(path, holder, need, form, known)


def _fits(
    path: tuple[str, ...], holder: Holder, need: int | None, form: str, known: list[Known]
) -> Iterator[Problem]:
    usable = [d for d in known if not holder.devices or d.words & set(holder.devices)]
    count = count_of(holder)
    if len(usable) < len(holder.devices):
        yield Problem((*path, "devices"), "names one device twice")
        return
    totals = sorted((d.total_bytes for d in usable if d.total_bytes is not None), reverse=True)
    unread = len(usable) - len(totals)
    if need is None or count <= unread + sum(total >= need for total in totals):
        return
    many = "" if count == 1 else f" on each of {count} devices"
    all_named = bool(holder.devices) and count == len(usable)
    which = "the smallest it names" if all_named else "the largest device"
    size = size_text(totals[-1] if all_named else totals[0])
    yield Problem((*path, "memory", form), f"{size_text(need)}{many} can never fit: {which} has {size}")


def device_words(known: list[Known]) -> Iterator[str]:
    """One word for each device: the one a person would use."""
    yield from (max(device.words, key=lambda word: (not word.isdigit(), word)) for device in known)


def count_of(holder: Holder) -> int:
    """Devices that a holder needs."""
    return holder.gpus if holder.gpus is not None else max(1, len(holder.devices))


# ---------------------------------------------------------------- windows


def _window(name: str, window: WindowConfig, services: Collection[str]) -> Iterator[Problem]:
    path = ("window", name)
    if (window.duration is None) == (window.end is None):
        yield Problem(
            path,
            "says no end: give duration or end" if window.end is None else "give duration or end, not both",
        )
    if re.fullmatch(r"w\d+", name):
        yield Problem(path, "is a name for windows that are opened by hand: choose another")
    for other in window.services:
        if other not in services:
            yield Problem((*path, "services"), f'no service "{other}"{did_you_mean(other, services)}')


# ---------------------------------------------------------------- services


def _service(name: str, service: ServiceConfig) -> Iterator[Problem]:
    path = ("service", name)
    asks = any("{port}" in word for word in service.start or ())
    if service.upstream is None and not asks:
        yield Problem((*path, "upstream"), "is missing: say where it answers, or put {port} into start")
    elif service.upstream is not None and asks != ("{port}" in service.upstream):
        has, lacks = ("start", "upstream") if asks else ("upstream", "start")
        yield Problem(
            (*path, "upstream"), f"{has} has {{port}} but {lacks} has not: use it in both or in none"
        )
    if service.models == ():
        yield Problem((*path, "models"), "is empty: leave it out to answer for its own name")
    if "*" in (service.models or ()):
        yield Problem((*path, "models"), 'names "*", which is not supported yet: list the models')
    if service.pinned and service.idle_ttl is not None:
        yield Problem((*path, "idle_ttl"), "contradicts pinned = true: leave one of them out")
    memory = service.memory
    for key in ("memory", "host_memory") if service.driver == "process" else ():
        if getattr(service, key).asleep is not None:
            yield Problem((*path, key, "asleep"), "driver process knows no sleep: it is awake or stopped")
    if (
        service.driver != "process"
        and memory.asleep is not None
        and memory.awake is not None
        and memory.asleep > memory.awake
    ):
        yield Problem((*path, "memory", "asleep"), "is more than awake")
    yield from _vllm(path, service)


def _vllm(path: tuple[str, str], service: ServiceConfig) -> Iterator[Problem]:
    if service.driver != "vllm":
        for key in ("sleep_level", "sleep_limit"):
            if getattr(service, key) is not None:
                yield Problem((*path, key), f"has no meaning when driver is {service.driver}: leave it out")
    elif service.memory.asleep is None and count_of(service):
        yield Problem(
            (*path, "memory", "asleep"),
            "is missing: a vLLM that sleeps keeps 1 to 3 GiB of each device (7 for a very large one), "
            "and is stopped if it keeps more than is written here",
        )


def _models(config: Config) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name, service in config.service.items():
        for model in models_of(name, service):
            if (other := first.setdefault(model, name)) != name:
                yield Problem(("service", name, "models"), f'[service.{other}] answers for "{model}" already')


def models_of(name: str, service: ServiceConfig) -> tuple[str, ...]:
    """Model names that a service answers for."""
    return (name,) if service.models is None else service.models


def _ports(config: Config) -> Iterator[Problem]:
    first: dict[int, str] = {}
    listeners: list[tuple[tuple[str, ...], int]] = [
        (("gate", "port"), config.gate.port),
        (("api", "port"), config.api.port),
    ]
    listeners += [
        (("service", name, "port"), s.port) for name, s in config.service.items() if s.port is not None
    ]
    for path, port in listeners:
        where = "[" + ".".join(path[:-1]) + "]"
        if port and (other := first.setdefault(port, where)) != where:
            yield Problem(path, f"{port} is the port of {other} already")


def _pinned(config: Config, known: list[Known] | None) -> Iterator[Problem]:
    """Two pinned services that cannot be together would push each other out for ever."""
    pinned = [(name, s) for name, s in config.service.items() if s.pinned and count_of(s)]
    if known is None or any(device.total_bytes is None for device in known):
        return
    for (one, first), (other, second) in combinations(pinned, 2):
        if not any(
            all(_together(first, second, known[i], config) for i in set(a) & set(b))
            for a in _placements(first, known)
            for b in _placements(second, known)
        ):
            yield Problem(
                ("service", other, "pinned"),
                f"it and [service.{one}] are both pinned but cannot be on a device together",
            )


def _placements(service: ServiceConfig, known: list[Known]) -> list[tuple[int, ...]]:
    usable = [i for i, d in enumerate(known) if not service.devices or d.words & set(service.devices)]
    return list(combinations(usable, count_of(service)))


def _together(first: ServiceConfig, second: ServiceConfig, device: Known, config: Config) -> bool:
    if first.memory.awake is None or second.memory.awake is None or device.total_bytes is None:
        return False  # a need that is unknown gets its device alone
    reserve = min(config.headway.reserve, int(config.headway.reserve_share * device.total_bytes))
    return first.memory.awake + second.memory.awake <= device.total_bytes - reserve
