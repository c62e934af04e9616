"""The config's tables. docs/reference/config.md is made from these classes: a description here is read by people."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from headway.config.fields import (
    Argv,
    Bytes,
    ClockTime,
    CronWords,
    DeviceWords,
    LoopbackHost,
    Name,
    PathText,
    Port,
    Priority,
    Route,
    Seconds,
    Upstream,
    VarName,
    VarText,
    WebAddress,
    Words,
)
from headway.core.model import GIB, MIB, Mode, Placement, WindowKind


class Table(BaseModel):
    """One table of the file: unknown keys are errors, values keep their type, nothing is changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class ByClass(Table):
    """One duration per class of requests; a class that is left out keeps its default."""

    attended: Seconds
    background: Seconds


class SwitchAfter(ByClass):
    attended: Seconds = 30.0
    """For requests that somebody waits for."""
    background: Seconds = 600.0
    """For requests of class background."""


class MaxWait(ByClass):
    attended: Seconds = 90.0
    """For requests that somebody waits for."""
    background: Seconds = 3600.0
    """For requests of class background."""


class ServiceMemory(Table):
    """Bytes on each of its devices. A form without a size is unknown until it was measured."""

    awake: Bytes | None = None
    """While it answers requests. Unknown: it gets its devices alone."""
    asleep: Bytes | None = None
    """What is left while it sleeps (llamacpp and vllm). Needed for vllm: what it keeps beyond this was not freed."""


class ServiceHost(Table):
    """Bytes of main memory, of all its processes together."""

    awake: Bytes | None = None
    """While it answers requests. Left out: none, so that all it has asleep is counted."""
    asleep: Bytes | None = None
    """While it sleeps; a vLLM at level 1 needs up to twice the size of its weights."""


class JobMemory(Table):
    """Bytes on each of its devices. A form without a size is unknown until it was measured."""

    running: Bytes | None = None
    """While it runs. Unknown: it gets its devices alone."""
    parked: Bytes | None = None
    """What is left after its park command (command only)."""


class JobHost(Table):
    """Bytes of main memory, of all its processes together."""

    running: Bytes | None = None
    """While it runs; it starts only where that is free."""
    parked: Bytes | None = None
    """While it is parked; 0: parking takes none."""


class JobDisk(Table):
    """Bytes on the disk of its `cwd`."""

    parked: Bytes | None = None
    """What its park command writes."""


class HeadwaySettings(Table):
    """The rules that hold for all services and jobs."""

    max_active_jobs: int | None = Field(default=None, ge=0, le=10_000)
    """Jobs that may run at the same time; 0 closes the queue. Left out: one per device."""
    min_residency: Seconds = 10.0
    """How long an awake service keeps its memory before another may take it; each service may set its own."""
    switch_after: SwitchAfter = SwitchAfter()
    """How long requests wait for a busy service before it has to make room."""
    background_max_wait: Seconds = 900.0
    """Background requests never push a running job aside before they have waited this long."""
    wait_price: float = Field(default=4.0, ge=0, le=1e6)
    """Seconds of job time that one second of waiting must earn; each service may set its own, and the next two."""
    max_mean_wait: Seconds = Field(default=1.0, gt=0)
    """The more of this its requests have waited on average, over a day or half of one, the higher that price."""
    max_waiting_share: float = Field(default=0.15, gt=0, le=1)
    """The same for the share of its requests that waited at all."""
    gap_min: Seconds = 0.0
    """A model is never put aside for a job before it was quiet for this long, whatever that is worth."""
    reserve: Bytes = 2 * GIB
    """Device memory kept free, at most; a holder that is alone on a device may use it all."""
    reserve_share: float = Field(default=0.05, ge=0, lt=1)
    """The same as a share of the device; the smaller of the two counts."""
    reserve_after: Seconds = 1800.0
    """A job that has waited this long for room has its place kept: only jobs known to end before it starts pass it."""
    push_back: Seconds = 60.0
    """A job that was pushed aside may not push others for this long."""
    demand_grace: Seconds = 5.0
    """After a start of the daemon: how long to wait for the gate to say who waits, before jobs start."""
    reading_max_age: Seconds = 8.0
    """A reading of a device older than this says nothing, and nothing new starts."""
    free_limit: Seconds = 30.0
    """How long memory may take to become free after a hard stop, before waiting requests are refused."""
    backoff_min: Seconds = 15.0
    """Pause after the first failed start; it doubles with each further one."""
    backoff_max: Seconds = 300.0
    """The longest such pause."""
    crash_starts: int = Field(default=5, ge=0, le=100)
    """So many starts of the daemon, each after an end that nobody asked for, hold the queue: `headway queue release`. \
0: never."""
    crash_within: Seconds = 600.0
    """Starts further apart than this are no crash loop."""
    host_floor: Bytes | None = None
    """Main memory that must stay free for a job or lease to start. Left out: the smaller of 8 GiB and a tenth."""
    disk_floor: Bytes | None = None
    """The same of the disk that Headway's own files are on. Left out: the smaller of 10 GiB and a twentieth."""
    log_max: Bytes = 16 * MIB
    """A log of a job or server that grows larger begins anew, and older parts stay as log.1, log.2, ...; 0: never."""
    log_kept: int = Field(default=3, ge=1, le=100)
    """So many older parts of each log stay."""
    events_kept: int = Field(default=500_000, ge=1, le=100_000_000)
    """So many lines of `headway events` stay (about 250 bytes each); the oldest go first."""
    requests_kept: int = Field(default=500_000, ge=1, le=100_000_000)
    """So many finished requests stay in the history (about 600 bytes each)."""
    look_ahead: int = Field(default=64, ge=1, le=10_000)
    """Queued jobs looked at in each pass."""


class GateConfig(Table):
    """Where clients reach the models: one front door for all services."""

    host: LoopbackHost = "127.0.0.1"
    """Address to listen on; only this machine for now."""
    port: Port = 8491
    """Port of the front door; 0: any free one."""


class ApiConfig(Table):
    """Where the API listens."""

    host: LoopbackHost = "127.0.0.1"
    """Address to listen on; only this machine for now."""
    port: Port = 8490
    """Port; 0: any free one."""
    read: Literal["open", "token"] = "open"
    """open: whoever is on this machine may look. token: only with a token, the PIN or the socket. Changes, and what \
holds people's own words, always need one of them."""
    socket: bool = True
    """false: no Unix socket; programs of this user use the token in run/admin.token, which only they can read."""


class AlertsConfig(Table):
    """Who is told when something needs a person."""

    command: Argv | None = None
    """Run once per alert: facts in HEADWAY_* variables, and as JSON on its standard input."""
    webhook: WebAddress | None = None
    """Gets each alert as a POST of JSON; any answer of 2xx will do."""
    webhook_key_file: PathText | None = None
    """A file whose content the webhook gets as `Authorization: Bearer`."""


class DeviceConfig(Table):
    """One device. Without any [device.NAME], all GPUs that NVML shows are used under the names gpu0, gpu1, ..."""

    meter: Literal["nvml", "simulated", "declared"]
    """nvml reads the card. simulated reads files that programs write. declared never reads: it adds up sizes."""
    total: Bytes | None = Field(default=None, gt=0)
    """Its memory; needed for simulated and declared, read from the card for nvml."""
    reports: PathText | None = None
    """simulated: the directory in which programs report what they use (see below). It must exist."""
    uuid: str | None = Field(default=None, min_length=1)
    """nvml: the card with this UUID."""
    index: int | None = Field(default=None, ge=0, le=1023)
    """nvml: the card with this index. A device called gpuN needs neither."""


class Holder(Table):
    """What services and jobs have in common."""

    env: dict[str, str] = Field(default_factory=dict)
    """Variables added to its environment."""
    cwd: PathText = Field(default=".", validate_default=True)
    """Directory it starts in. A relative path starts at the directory of the config file."""
    gpus: int | None = Field(default=None, ge=0, le=64)
    """Devices it needs; 0: none. Left out: as many as `devices` names, else 1."""
    devices: DeviceWords = ()
    """Names, indexes or UUIDs: it uses all of them, or any `gpus` of them. Left out: any that fit."""
    stop_grace: Seconds = 10.0
    """How long it may take to end after SIGTERM before it is killed."""


class ServiceConfig(Holder):
    """A model server behind the gate."""

    driver: Literal["process", "llamacpp", "vllm"]
    """process starts and stops any server. llamacpp does the same and reads llama.cpp's own state too. vllm puts
    vLLM to sleep and wakes it (see docs/howto/vllm.md)."""
    start: Argv | None = None
    """Command that starts the server, in the foreground. `{port}` becomes a free port. Left out: somebody else
    starts it; Headway then watches it, and cannot put it aside, unless vllm lets it sleep."""
    upstream: Upstream | None = None
    """Where it then answers. Left out: `http://127.0.0.1:{port}`."""
    models: Words | None = None
    """Model names it answers for at the front door. Left out: its own name."""
    model: str | None = Field(default=None, min_length=1)
    """Name put in place of the client's before a request is passed on; the names that clients use are `models`.
    Left out: passed on unchanged."""
    port: Port | None = None
    """A port of its own at the gate, for clients that send no model name; 0: any free one."""
    memory: ServiceMemory = ServiceMemory()
    """What it takes on each of its devices."""
    host_memory: ServiceHost = ServiceHost()
    """What it takes of main memory. Where too little is free for its sleep it is stopped instead."""
    health: Route = "/health"
    """Path that answers 200 once it is ready."""
    max_active: int | None = Field(default=None, ge=1, le=100_000)
    """Requests passed on at the same time. Left out: no limit."""
    queue_max: int = Field(default=512, ge=0, le=100_000)
    """Requests that may wait; more are answered 429."""
    max_wait: MaxWait = MaxWait()
    """How long a request waits while others hold the memory; its own start does not count."""
    min_residency: Seconds | None = None
    """How long it keeps its memory once awake. Left out: as in [headway]."""
    wake_limit: Seconds = Field(default=300.0, gt=0)
    """The longest that a start may take."""
    on_cancel: Literal["cancel", "drain"] = "cancel"
    """When a client leaves: end the call, or read its answer to the end."""
    idle_ttl: Seconds | None = None
    """Put aside after this long without requests, even if nobody needs the memory. Left out: never."""
    pinned: bool = False
    """Comes back whenever nobody who waits can use its memory."""
    sleep_level: int | None = Field(default=None, ge=1, le=2)
    """vllm: 1 keeps the weights in main memory. 2 drops them, and each wake reads them anew. Left out: 1."""
    sleep_limit: Seconds | None = Field(default=None, gt=0)
    """vllm: the longest that falling asleep may take before it is stopped instead. Left out: 1 min."""
    key_file: PathText | None = None
    """File with the key that the server expects; the gate adds it to what it passes on."""
    wait_price: float | None = Field(default=None, ge=0, le=1e6)
    """Left out: as in [headway]. So the next two."""
    max_mean_wait: Seconds | None = Field(default=None, gt=0)
    """On average over its requests, what its waiting may come to before it grows dear."""
    max_waiting_share: float | None = Field(default=None, gt=0, le=1)
    """And the share of its requests that may wait."""


class JobConfig(Holder):
    """A recipe for a job, and one entry in the queue made from it when it is first seen."""

    driver: Literal["auto", "restart", "command", "checkpoint"] = "auto"
    """How it steps aside. restart stops it and starts it anew. command lets it live, and frees its memory by park and
    resume. checkpoint does the same to a CUDA program that knows nothing of it (see docs/howto/checkpoint.md). auto:
    command with `park` and `resume`, restart with `saved` or `resumable`; else `step_aside` is none."""
    start: Argv
    """Command that does the work, in the foreground."""
    park: Argv | None = None
    """command: makes it give back its memory; exit 0 once that is done."""
    resume: Argv | None = None
    """command: makes it go on; exit 0 once that is done."""
    cuda_checkpoint: Argv | None = None
    """checkpoint: NVIDIA's program, if need be behind sudo. Left out: cuda-checkpoint, in PATH."""
    saved: Argv | None = None
    """Prints the point that it would restart from."""
    progress: Argv | None = None
    """Prints how far it is: a number, a percentage, or JSON such as {"done": 3, "total": 10}."""
    resumable: bool = False
    """It goes on from where it was when started again, without a `saved` command."""
    memory: JobMemory = JobMemory()
    """What it takes on each of its devices."""
    host_memory: JobHost = JobHost()
    """What it takes of main memory. Where too little is free to park it is stopped instead."""
    disk: JobDisk = JobDisk()
    """What it writes when it steps aside; the same holds of that."""
    placement: Placement = "gap"
    """gap: only while no model is awake beside it. share: beside one, if it fits. yield: beside one, if it fits, and
    frozen while it answers. window: like gap, and only while a window is open."""
    step_aside: Literal["auto", "none"] = "auto"
    """auto: as its driver says. none: it would lose its work, so where a service uses its device it starts in windows
    only, elsewhere at any time; `headway start --anyway` overrides that."""
    priority: Priority = 50
    """0 to 100, or background (20), normal (50), high (80); higher goes first."""
    after: Words = ()
    """Jobs that must have ended before."""
    after_ok: Words = ()
    """Jobs that must have ended well before."""
    hold: bool = False
    """Its first entry waits for `headway release`."""
    retries: int = Field(default=0, ge=0, le=1000)
    """Further attempts after a failure. One that fails three times right after its start is held instead."""
    max_runtime: Seconds | None = Field(default=None, gt=0)
    """Running time over all its runs. After that it winds down for up to 10 min (with `saved`), else parks or stops,
    and is held. Left out: no limit."""
    oom_exit_code: int | None = Field(default=None, ge=1, le=255)
    """Exit code that means out of memory; what PyTorch, JAX, llama.cpp and others print is known without it. It is
    then tried once more with its devices to itself."""
    stall_after: Seconds | None = Field(default=None, gt=0)
    """Told as stalled after so long without progress, output and processor time. Left out: never."""
    health: Argv | None = None
    """Run now and then while it runs; exit 0 if all is well. Told after three failures in a row."""
    health_every: Seconds = Field(default=60.0, ge=1)
    """How often that is run."""
    summary: Argv | None = None
    """Prints its best result so far in one line; also run once when it is over."""
    max_wait: Seconds = 86400.0
    """After this long in line it goes to the front; memory, placement and gaps count as before."""
    min_residency: Seconds = 60.0
    """How long it runs before another job may push it aside; requests may at once."""
    goal: str | None = None
    """What it is for, in your words."""
    tags: Words = ()
    """Words to find it by."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Words with values, for you and your programs."""
    colour: str | None = Field(default=None, pattern=r"^(#[0-9a-fA-F]{6}|[a-z]{3,20})$")
    """Its colour on the page: a name such as teal, or #20b2aa."""


class WindowConfig(Table):
    """A period with other rules, again and again (see docs/howto/windows.md). Give `duration` or `end`."""

    kind: WindowKind
    """slow_wake: jobs may take a minute to step aside, and a model is put aside for them sooner. no_model: the
    services are put aside, and requests for them are refused until its end."""
    services: Words = ()
    """Services it is for. Left out: all."""
    cron: CronWords
    """When it begins, in five cron words (minute, hour, day, month, weekday), by local time."""
    duration: Seconds | None = Field(default=None, gt=0)
    """How long it is open."""
    end: ClockTime | None = None
    """The time of day at which it ends, such as "06:30"."""


class Config(Table):
    """The whole config."""

    mode: Mode = "shadow"
    """shadow only watches and says what it would do. live does it."""
    vars: dict[VarName, VarText] = Field(default_factory=dict)
    """Words of your own: `{name}` becomes the value of `name`, in every text of the other tables."""
    headway: HeadwaySettings = HeadwaySettings()
    gate: GateConfig = GateConfig()
    api: ApiConfig = ApiConfig()
    alerts: AlertsConfig = AlertsConfig()
    device: dict[Name, DeviceConfig] = Field(default_factory=dict)
    service: dict[Name, ServiceConfig] = Field(default_factory=dict)
    job: dict[Name, JobConfig] = Field(default_factory=dict)
    window: dict[Name, WindowConfig] = Field(default_factory=dict)


NAMED = ("device", "service", "job", "window")  # tables that have names: [service.NAME]
