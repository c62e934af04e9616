"""What runs on the false machine: model servers, jobs, and the short hooks that park them. Each has its habits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headway.core.model import DeviceId
from headway.ports import RunSpec
from headway.sim.machine import Process

if TYPE_CHECKING:
    from headway.sim.world import World

Answered = Callable[[int | None, bytes], None]  # status; None: the connection broke
KILL_S = 0.02
HAND_S = 40.0


@dataclass(slots=True)
class Habit:
    """How the program behind a holder behaves; faults change it for a while. Bytes are per device, times seconds."""

    bytes_: int = 0
    residue_bytes: int = 0
    host_bytes: int = 0  # main memory while it works
    aside_host_bytes: int = 0  # while it sleeps or is parked; a server keeps that when it wakes
    aside_disk_bytes: int = 0
    start_s: float = 3.0  # until a server is ready
    alloc_s: float = 0.2  # until it holds its memory
    aside_s: float = 0.5  # sleep, park
    back_s: float = 0.8  # wake, resume
    stop_s: float = 0.3  # from TERM to the end
    falls_s: float = 0.0  # memory falls that much later than it says
    answer_s: float = 2.0  # one request
    lies: Literal["no", "keeps", "half"] = "no"  # what it holds after it says that it stepped aside
    stays: bool = False  # TERM does nothing
    start: Literal["ok", "fails"] = "ok"
    back: Literal["ok", "hangs", "fails"] = "ok"
    park: Literal["ok", "hangs", "fails", "dies"] = "ok"
    leaves_s: float = 0.0  # something of its tree lives that long after the leader
    work_s: float = 60.0
    save_every_s: float | None = None
    exit_code: int = 0
    silent_after_s: float | None = None  # from then on it shows no sign of work
    healthy: bool = True
    guessed: bool = False  # nobody said what it needs


@dataclass(slots=True)
class Work:
    """What became of one job's work, over all its runs."""

    done_s: float = 0.0
    saved_s: float = 0.0
    finished: int = 0
    told: bool = False  # one of its runs ended well after it was told to end
    starts: int = 0
    lost_s: float = 0.0


class Program:
    """One process tree under a shim."""

    def __init__(self, world: World, spec: RunSpec, habit: Habit, asked_s: float) -> None:
        self.world, self.spec, self.habit, self.asked_s = world, spec, habit, asked_s
        self.process: Process = world.machine.process(spec.id)
        self.process.guessed = habit.guessed
        visible = spec.env.get("CUDA_VISIBLE_DEVICES", "")
        self.devices: tuple[DeviceId, ...] = tuple(f"local/{name}" for name in visible.split(",") if name)
        self.alive = True
        self.told_to_end = False
        self.last_line: str | None = None  # of its log

    def begin(self) -> None:
        """The command was executed."""

    def after(self, wait_s: float, call: Callable[[], None]) -> None:
        """Call it then, if it lives."""
        self.world.loop.later(wait_s, lambda: call() if self.alive else None)

    def take(self, asked_s: float) -> bool:
        return self.world.machine.take(self.process, self.devices, self.habit.bytes_, asked_s)

    def give_back(self) -> None:
        """It says that it holds no more than its residue now; what is true is a habit."""
        if self.habit.lies == "keeps":
            return
        left = self.habit.residue_bytes
        if self.habit.lies == "half":
            left = max(left, self.habit.bytes_ // 2)
        self.after(self.habit.falls_s, lambda: self._fell(left))

    def _fell(self, left: int) -> None:
        if self.aside():
            self.world.machine.give_back(self.process, left)

    def aside(self) -> bool:
        return False

    def term(self) -> None:
        self.told_to_end = True
        if not self.habit.stays:
            self.after(self.habit.stop_s, lambda: self.die(-15))

    def kill(self) -> None:
        self.after(KILL_S, lambda: self.die(-9))

    def die(self, code: int) -> None:
        """Its leader ends, with that code."""
        if not self.alive:
            return
        self.alive = False
        self.ended(code)
        left = self.world.machine.ends(self.process, self.habit.falls_s > 0)
        if left:
            self.world.loop.later(self.habit.falls_s, self.world.machine.fell, left)
        self.world.runs.exited(self.spec.id, code, 0.0 if code == -9 else self.habit.leaves_s)

    def ended(self, code: int) -> None:
        """What else ends with it."""


class Server(Program):
    """A model server: loading, awake, asleep."""

    def __init__(self, world: World, spec: RunSpec, habit: Habit, asked_s: float) -> None:
        super().__init__(world, spec, habit, asked_s)
        self.form = "loading"
        self.requests: dict[str, Callable[[str], None]] = {}
        self._answers: list[Answered] = []
        self._moving: str | None = None

    def begin(self) -> None:
        if self.habit.start == "fails":
            self.after(self.habit.start_s / 2, lambda: self.die(1))
            return
        self.after(self.habit.alloc_s, self._load)

    def _load(self) -> None:
        if not self.take(self.asked_s):
            self.die(1)
            return
        self.after(self.habit.start_s, self._ready)

    def _ready(self) -> None:
        self.form = "awake"
        if self.spec.port is not None:
            self.world.machine.ports[self.spec.port] = self.process
            self.world.servers[self.spec.port] = self

    def aside(self) -> bool:
        return self.form == "asleep"

    def ended(self, code: int) -> None:
        for answered in self._answers:
            answered(None, b"")
        for request in list(self.requests.values()):
            request("broken")
        self.requests.clear()
        if self.spec.port is not None and self.world.servers.get(self.spec.port) is self:
            del self.world.servers[self.spec.port]

    # ---------------------------------------------------------------- its routes

    def asked(self, path: str, answered: Answered) -> None:
        """One call of its control routes; `answered` is called once, or never if it hangs."""
        match path:
            case "/sleep":
                self._answers.append(answered)
                self._sleep(answered)
            case "/wake_up":
                self._answers.append(answered)
                self._wake(answered)
            case "/state":
                answered(200, f"{self.form} {len(self.requests)}".encode())
            case _:
                answered(200, b"ok")

    def _sleep(self, answered: Answered) -> None:
        if self.requests:
            self.world.wrong(f"{self.spec.holder} is put to sleep while it answers {sorted(self.requests)}")

        asked_s = self.world.loop.now_s
        if self.habit.park == "hangs":
            return

        def slept() -> None:
            if self.habit.park == "fails":
                answered(500, b"not now")
                return
            self.form = "asleep"
            self.world.machine.beside(self.process, self.habit.aside_host_bytes, 0, asked_s)
            self.give_back()
            answered(200, b"")

        self.after(self.habit.aside_s, slept)

    def _wake(self, answered: Answered) -> None:
        asked_s = self.world.loop.now_s
        if self.habit.back == "hangs":
            return

        def woke() -> None:
            if self.habit.back == "fails" or not self.take(asked_s):
                answered(500, b"out of memory")
                return
            self.form = "awake"
            answered(200, b"")

        self.after(self.habit.back_s, woke)

    # ---------------------------------------------------------------- requests

    def serve(self, request: str, over: Callable[[str], None], anyway: bool) -> None:
        """Answer one request of the gate; `over` hears "done" or "broken".

        Args:
            anyway: the gate forwards whatever the form is, as it does in shadow mode.
        """
        if self.form != "awake" and not anyway:
            self.world.wrong(f"{request} was sent to {self.spec.holder} while it is {self.form}")
        self.requests[request] = over

        def answered() -> None:
            if self.requests.pop(request, None) is not None:
                over("done")

        self.after(self.habit.answer_s * self.world.chance.uniform(0.5, 1.5), answered)

    def cancel(self, request: str) -> None:
        self.requests.pop(request, None)


class HandServer(Server):
    """One that somebody starts by hand, and again a while after it ended."""

    def __init__(self, world: World, spec: RunSpec, habit: Habit, device: DeviceId) -> None:
        super().__init__(world, spec, habit, world.loop.now_s)
        self.process.run_id, self.devices = None, (device,)
        world.by_hand[spec.holder] = self

    def ended(self, code: int) -> None:
        super().ended(code)
        self.world.loop.later(HAND_S, self._again)

    def _again(self) -> None:
        HandServer(self.world, self.spec, self.habit, self.devices[0]).begin()


class JobProgram(Program):
    """A command that works for a while, and may save, park and go on."""

    def __init__(self, world: World, spec: RunSpec, habit: Habit, asked_s: float) -> None:
        super().__init__(world, spec, habit, asked_s)
        self.work = world.work.setdefault(spec.holder, Work())
        self.work.starts += 1
        self.parked = self.frozen = False
        self.began_s = world.loop.now_s
        self._turn, self._since_s = 0, world.loop.now_s
        self.work.done_s = self.work.saved_s

    def begin(self) -> None:
        if self.habit.start == "fails":
            self.after(0.1, lambda: self.die(2))
            return
        self._go()
        self.after(self.habit.alloc_s, self._allocate)

    def _allocate(self) -> None:
        if not self.parked and not self.take(self.asked_s):
            self.last_line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
            self.die(1)
        elif not self.parked:
            self.world.machine.beside(self.process, self.habit.host_bytes, 0, self.asked_s)

    def busy_s(self) -> float:
        """Processor time of this run; one that fell silent has no more."""
        silent_s = self.habit.silent_after_s
        run_s = self.world.loop.now_s - self.began_s
        return run_s if silent_s is None else min(run_s, silent_s)

    def _go(self) -> None:
        self._turn += 1
        turn, self._since_s = self._turn, self.world.loop.now_s
        left_s = max(0.0, self.habit.work_s - self.work.done_s)
        self.after(left_s, lambda: self._finished() if self._turn == turn and not self.parked else None)

    def progress_s(self) -> float:
        """Seconds of work so far, this run's included."""
        running_s = 0.0 if self.parked or self.frozen else self.world.loop.now_s - self._since_s
        done_s = min(self.habit.work_s, self.work.done_s + running_s)
        if self.habit.save_every_s:
            self.work.saved_s = max(self.work.saved_s, done_s - done_s % self.habit.save_every_s)
        return done_s

    def _finished(self) -> None:
        if self.told_to_end:  # nobody can tell this end from one by request
            self.work.told = True
        elif self.habit.exit_code == 0:
            self.work.finished += 1
        self.die(self.habit.exit_code)

    def ended(self, code: int) -> None:
        done_s = self.progress_s()
        self.work.lost_s += 0.0 if code == 0 else done_s - self.work.saved_s
        self.work.done_s = done_s

    def aside(self) -> bool:
        return self.parked

    def freeze(self) -> None:
        if not self.frozen and not self.parked:
            self.work.done_s = self.progress_s()
            self.frozen = True
            self._turn += 1

    def thaw(self) -> None:
        if self.frozen:
            self.frozen = False
            self._go()

    def term(self) -> None:
        self.thaw()  # it comes with a CONT
        super().term()

    def park(self, asked_s: float) -> None:
        if self.frozen:
            self.world.wrong(f"{self.spec.holder} is asked to park while it is frozen, and cannot hear it")
        if self.alive and not self.parked:
            self.work.done_s = self.progress_s()
            self.parked = True
            self._turn += 1
            habit = self.habit
            self.world.machine.beside(self.process, habit.aside_host_bytes, habit.aside_disk_bytes, asked_s)
            self.give_back()

    def resume(self, asked_s: float) -> bool:
        if not self.alive or (self.parked and not self.take(asked_s)):
            return False
        if self.parked:
            self.parked = False
            self.world.machine.beside(self.process, self.habit.host_bytes, 0, asked_s)
            self._go()
        return True


class Hook(Program):
    """A park or resume command of a job."""

    def begin(self) -> None:
        verb, job = self.spec.argv[-1], self.world.runs.job_of(self.spec.holder)
        if self.habit.park == "hangs" or (verb == "resume" and self.habit.back == "hangs"):
            return
        wait_s = self.habit.aside_s if verb == "park" else self.habit.back_s
        if verb == "park" and self.habit.park == "dies" and job is not None:
            job.after(wait_s / 2, lambda: job.die(-11))
        asked_s = self.world.loop.now_s

        def over() -> None:
            if job is None or self.habit.park == "fails":
                self.die(1)
            elif verb == "park":
                job.park(asked_s)
                self.die(0 if job.alive else 1)
            else:
                fails = self.habit.back == "fails"
                self.die(0 if not fails and job.resume(asked_s) else 1)

        self.after(wait_s, over)
