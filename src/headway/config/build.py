"""From a checked Config to the records that the loop is given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from headway.config.calendar import WindowPlan
from headway.config.checks import count_of, index_of, models_of
from headway.config.jobs import checkpoint_program, driver_of, steps_aside
from headway.config.schema import Config, Holder, JobConfig, ServiceConfig, WindowConfig
from headway.core.model import LADDERS, Form, FormName, JobSpec, Mode, MoveRule, Policy, ServiceSpec

LOCAL_UPSTREAM = "http://127.0.0.1:{port}"
Moves = tuple[MoveRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """One device that is to be used. `index` and `uuid` are NVML's; one of them is set for that meter."""

    name: str
    meter: Literal["nvml", "simulated", "declared"]
    total_bytes: int | None = None
    reports: str | None = None  # absolute directory
    uuid: str | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where to listen; port 0 is any free one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """All that a daemon and a gate are made from.

    `pinned_devices` in the specs are as people wrote them (name, index or UUID); the daemon, which alone
    reads the devices, turns them into device ids.
    """

    mode: Mode
    policy: Policy
    services: tuple[ServiceSpec, ...]  # in the order of the file
    recipes: tuple[tuple[JobSpec, bool], ...]  # with `hold`
    devices: tuple[DeviceSettings, ...]  # empty: every GPU that NVML shows
    gate: Listen
    api: Listen
    api_read: Literal["open", "token"]
    api_socket: bool
    alert_command: tuple[str, ...] | None
    log_max_bytes: int = 0  # of each log of a run; 0: no limit
    log_kept: int = 1
    events_kept: int
    requests_kept: int
    alert_webhook: str | None
    alert_key_file: str | None
    windows: tuple[WindowPlan, ...] = ()


def build(
    config: Config,
    moves: Mapping[str, Moves],
    reads_busy: Collection[str] = (),
    asleep_probes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Built:
    """Turn a config into specs.

    Args:
        config: as `load` returned it.
        moves: each driver's table, by driver name.
        reads_busy: names of drivers that can read an engine's own queue.
        asleep_probes: what servers answer while they sleep, by driver name.

    Raises:
        KeyError: a driver in the config has no table.
    """
    residency_s = config.headway.min_residency

    def made(name: str, service: ServiceConfig) -> ServiceSpec:
        driver = service.driver
        spec = _service(name, service, moves[driver], driver in reads_busy, residency_s)
        return replace(spec, asleep_probes=asleep_probes.get(driver, ()))

    return Built(
        mode=config.mode,
        policy=policy(config),
        services=tuple(made(name, service) for name, service in config.service.items()),
        recipes=tuple(
            (job_spec(name, job, moves[driver_of(job)]), job.hold) for name, job in config.job.items()
        ),
        devices=tuple(
            DeviceSettings(
                name=name,
                meter=device.meter,
                total_bytes=device.total,
                reports=device.reports,
                uuid=device.uuid,
                index=index_of(name, device),
            )
            for name, device in config.device.items()
        ),
        gate=Listen(host=config.gate.host, port=config.gate.port),
        api=Listen(host=config.api.host, port=config.api.port),
        api_read=config.api.read,
        api_socket=config.api.socket,
        alert_command=config.alerts.command,
        log_max_bytes=config.headway.log_max,
        log_kept=config.headway.log_kept,
        events_kept=config.headway.events_kept,
        requests_kept=config.headway.requests_kept,
        alert_webhook=config.alerts.webhook,
        alert_key_file=config.alerts.webhook_key_file,
        windows=tuple(_plan(name, window) for name, window in config.window.items()),
    )


def _plan(name: str, window: WindowConfig) -> WindowPlan:
    hour, _, minute = (window.end or "").partition(":")
    return WindowPlan(
        name=name,
        kind=window.kind,
        services=window.services,
        cron=window.cron,
        duration_s=window.duration,
        until=(int(hour), int(minute)) if window.end is not None else None,
    )


def policy(config: Config) -> Policy:
    """The settings of [headway] as the rules read them."""
    said = config.headway
    return Policy(
        reserve_max_bytes=said.reserve,
        reserve_share=said.reserve_share,
        reading_max_age_s=said.reading_max_age,
        demand_grace_s=said.demand_grace,
        max_active_jobs=said.max_active_jobs,
        switch_after_s=said.switch_after.model_dump(),
        background_max_wait_s=said.background_max_wait,
        reserve_after_s=said.reserve_after,
        push_back_s=said.push_back,
        wait_price=said.wait_price,
        max_mean_wait_s=said.max_mean_wait,
        max_waiting_share=said.max_waiting_share,
        gap_min_s=said.gap_min,
        free_limit_s=said.free_limit,
        backoff_min_s=said.backoff_min,
        backoff_max_s=said.backoff_max,
        crash_starts=said.crash_starts,
        crash_within_s=said.crash_within,
        host_floor_bytes=said.host_floor,
        disk_floor_bytes=said.disk_floor,
        depth=said.look_ahead,
    )


def _service(
    name: str, service: ServiceConfig, moves: Moves, reads_busy: bool, residency_s: float
) -> ServiceSpec:
    declared = {"awake": service.memory.awake, "asleep": service.memory.asleep}
    host = {"awake": service.host_memory.awake, "asleep": service.host_memory.asleep}
    forms = _forms("service", moves, declared, service, host)
    if service.sleep_level == 2:  # it keeps nothing of its weights
        moves = tuple(replace(m, to_host=False) for m in moves)
    if service.sleep_limit is not None:
        sleep_limit_s = service.sleep_limit
        moves = tuple(replace(m, limit_s=sleep_limit_s) if m.to == "asleep" else m for m in moves)
    return ServiceSpec(
        name=name,
        driver=service.driver,
        forms=forms,
        moves=_between(forms, moves),
        count=count_of(service),
        pinned_devices=service.devices,
        argv=service.start or (),
        env=dict(service.env),
        cwd=service.cwd,
        stop_grace_s=service.stop_grace,
        min_residency_s=residency_s if service.min_residency is None else service.min_residency,
        upstream=LOCAL_UPSTREAM if service.upstream is None else service.upstream,
        models=models_of(name, service),
        upstream_model=service.model,
        gate_port=service.port,
        reads_busy=reads_busy,
        max_active=service.max_active,
        queue_max=service.queue_max,
        max_wait_s=service.max_wait.model_dump(),
        wake_limit_s=service.wake_limit,
        on_cancel=service.on_cancel,
        idle_ttl_s=service.idle_ttl,
        keep_awake=service.pinned,
        health_path=service.health,
        key_file=service.key_file,
        wait_price=service.wait_price,
        max_mean_wait_s=service.max_mean_wait,
        max_waiting_share=service.max_waiting_share,
        options={"sleep_level": service.sleep_level or 1} if service.driver == "vllm" else {},
    )


def job_spec(name: str, job: JobConfig, moves: Moves) -> JobSpec:
    """The spec of one recipe."""
    declared = {"running": job.memory.running, "parked": job.memory.parked}
    host = {"running": job.host_memory.running, "parked": job.host_memory.parked}
    forms = _forms("job", moves, declared, job, host, {"parked": job.disk.parked})
    return JobSpec(
        name=name,
        driver=driver_of(job),
        forms=forms,
        moves=_between(forms, moves),
        count=count_of(job),
        pinned_devices=job.devices,
        argv=job.start,
        env=dict(job.env),
        cwd=job.cwd,
        stop_grace_s=job.stop_grace,
        min_residency_s=job.min_residency,
        placement=job.placement,
        priority=job.priority,
        park=job.park or (),
        resume=job.resume or (),
        saved=job.saved or (),
        progress=job.progress or (),
        resumable=job.resumable,
        steps_aside=steps_aside(job),
        after=job.after,
        after_ok=job.after_ok,
        retries=job.retries,
        max_runtime_s=job.max_runtime,
        oom_exit_code=job.oom_exit_code,
        stall_after_s=job.stall_after,
        health=job.health or (),
        health_every_s=job.health_every,
        summary=job.summary or (),
        max_wait_s=job.max_wait,
        goal=job.goal,
        tags=job.tags,
        labels=dict(job.labels),
        colour=job.colour,
        options=_options(job),
    )


def _options(job: JobConfig) -> dict[str, Any]:
    return {"cuda_checkpoint": list(checkpoint_program(job))} if driver_of(job) == "checkpoint" else {}


def _forms(
    kind: Literal["service", "job"],
    moves: Moves,
    declared: Mapping[str, int | None],
    holder: Holder,
    host: Mapping[str, int | None],
    disk: Mapping[str, int | None] = MappingProxyType({}),
) -> tuple[Form, ...]:
    """The rungs that the driver's table knows, high to low."""
    reached = {form for move in moves for form in (move.source, move.to)}
    ladder = [form for form in LADDERS[kind] if form in reached]
    return tuple(
        Form(
            name=form,
            declared_bytes=_bytes(form, ladder, declared, holder),
            host_bytes=host.get(form),
            disk_bytes=disk.get(form),
        )
        for form in ladder
    )


def _bytes(
    form: FormName, ladder: list[FormName], declared: Mapping[str, int | None], holder: Holder
) -> int | None:
    """What the form takes on each device: nothing at the bottom, and nothing of a holder without devices."""
    return 0 if form == ladder[-1] or count_of(holder) == 0 else declared.get(form)


def _between(forms: tuple[Form, ...], moves: Moves) -> Moves:
    names = {form.name for form in forms}
    return tuple(move for move in moves if move.source in names and move.to in names)
