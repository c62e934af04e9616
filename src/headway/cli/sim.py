"""`headway sim`: the whole of Headway on a false machine in virtual time, with everything that can go wrong."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import click

from headway.cli.ask import FAILED, show_json, tell
from headway.cli.sim_options import FaultNames, Finite, Span
from headway.cli.status import SHOWN, show
from headway.cli.tables import line, sized, state
from headway.core import view
from headway.core.units import duration
from headway.core.words import ENDED

FRAME_S = 0.1  # real time that each frame of a live board stays
HOUR_S = 3600.0
DEMO_HOURS = 0.25
CLEARED = "\r\x1b[K"
TELL_EVERY_S = 60.0  # of a campaign whose output is not a terminal
REPORTS = 5  # failing seeds that are told at length
INTERRUPTED, NOBODY_READS = 130, 141  # as a shell names what SIGINT and SIGPIPE ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say."""

    faults: str | None  # None: all
    hours: float
    demo: bool
    as_json: bool

    @property
    def busy_s(self) -> float:
        from headway.sim.play import REST_S

        return self.hours * HOUR_S - REST_S

    def again(self) -> str:
        """The same options, to be typed again behind a seed."""
        words = " --demo" if self.demo else ""
        if self.faults != ("" if self.demo else None):
            words += f" --faults {'all' if self.faults is None else self.faults or 'none'}"
        return words + (
            f" --hours {self.hours:g}" if self.hours != (DEMO_HOURS if self.demo else 1.0) else ""
        )


@click.command()
@click.argument("seed", required=False, type=click.IntRange(min=0))
@click.option(
    "--seeds", "span", type=Span(), metavar="A-B", help="A campaign: all of these, in several processes."
)
@click.option("--demo", is_flag=True, help="The world of `make demo` instead of one that the seed decides.")
@click.option(
    "--faults",
    type=FaultNames(),
    metavar="NAMES",
    help="Only these, with commas between; `all`, or `none`. [default: all; with --demo none]",
)
@click.option(
    "--hours",
    type=Finite(min=0.2),
    help="Virtual hours of each seed. [default: 1; with --demo 0.25]",
)
@click.option("--board", is_flag=True, help="Show devices, services and jobs on the way.")
@click.option("--trace", is_flag=True, help="Print each line of the trace.")
@click.option("--twice", is_flag=True, help="Play each seed twice, and compare. With --seeds.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Processes. [default: one per core] With --seeds."
)
@click.option("--minutes", type=Finite(min=0.1), help="End after this real time. With --seeds.")
@click.option("--coverage", is_flag=True, help="Too little seen is a failure too, and listed. With --seeds.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
@click.pass_context
def sim(
    ctx: click.Context,
    /,
    seed: int | None,
    span: Any,
    demo: bool,
    faults: str | None,
    hours: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Play SEED: Headway as it is, on a machine that does not exist, for a virtual hour of faults.

    What must never be is looked for after each decision, and what must come to an end once the faults are over. The
    same seed plays the same hour. Exit 1 when something was found, 130 after Ctrl-C.
    """
    only = [name for name in ("twice", "workers", "minutes", "coverage") if options[name]]
    if span is None and only:
        ctx.fail(f"--{only[0]} needs --seeds.")
    if span is not None and (seed is not None or demo or options["board"] or options["trace"]):
        ctx.fail("--seeds stands alone: without SEED, --demo, --board and --trace.")
    if span is None and seed is None and not demo:
        ctx.fail("Which seed? `headway sim 1`, `headway sim --seeds 1-20` or `headway sim --demo`.")
    if as_json and (options["board"] or options["trace"]):
        ctx.fail("--json stands alone: without --board and --trace.")
    usual_faults, usual_hours = ("none", DEMO_HOURS) if demo else ("all", 1.0)
    asked = Asked(
        faults={"all": None, "none": ""}.get(name := faults or usual_faults, name),
        hours=hours or usual_hours,
        demo=demo,
        as_json=as_json,
    )
    try:
        if span is None:
            code = _one(1 if seed is None else seed, asked, options["board"], options["trace"])
        else:
            chosen = {name: options[name] for name in ("twice", "workers", "minutes", "coverage")}
            code = _many(span, asked, **chosen)
    except KeyboardInterrupt:
        tell("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:
        _nobody_reads()
    ctx.exit(code)


def _nobody_reads() -> NoReturn:
    """Leave without a word: what was to be said, and what Python would still write at its end, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    raise SystemExit(NOBODY_READS)


def _aloud(text: str) -> None:
    """For what is called from inside the world, where an OSError would be taken for one of its own."""
    try:
        click.echo(text)
    except BrokenPipeError:
        _nobody_reads()


# ---------------------------------------------------------------- one seed


def _one(seed: int, asked: Asked, board: bool, trace: bool) -> int:
    from headway.sim.campaign import report
    from headway.sim.play import play

    staged: dict[str, Any] = {}
    if asked.demo:
        from headway.sim.demo import Demo

        staged["staged"] = Demo
    if board:
        look: Callable[[Any], None] | None = _frame(live=sys.stdout.isatty() and not trace)
    else:
        look = _progress if sys.stderr.isatty() and not trace else None
    result = play(
        seed,
        asked.faults,
        asked.busy_s,
        board=look,
        told=_aloud if trace else None,
        **staged,
    )
    if look is _progress:
        click.echo(CLEARED, err=True, nl=False)
    code = FAILED if result.violations else 0
    if asked.as_json:
        doc = result.to_doc()
        if not result.violations:  # the last of what went well says nothing
            del doc["last"]
        show_json(doc)
        return code
    line(f"seed {seed}: {duration(result.virtual_s)} of virtual time in {duration(result.took_s)}")
    for name, said in _seen(result.seen, 1):
        line(f"  {name:<10} {said}")
    if result.violations:
        for sentence in report(result, asked.again()):
            line(sentence)
    else:
        line("No violation.")
    return code


def _at_s(world: Any) -> float:
    from headway.sim.loop import BEGIN_S

    return float(world.loop.now_s) - BEGIN_S


def _progress(world: Any) -> None:
    click.echo(f"\r{duration(_at_s(world))} of virtual time ", err=True, nl=False)


def _frame(live: bool) -> Callable[[Any], None]:
    """Shows a world: drawn anew in place on a terminal, else one line at a time."""

    def frame(world: Any) -> None:
        at_s, s = _at_s(world), world.snapshot()
        found = asdict(view.overview(s, world.verdicts(), SHOWN)) if s is not None else None
        if not live:
            line(_short(at_s, found, world))
            return
        sys.stdout.write("\x1b[H\x1b[J")
        line(f"after {duration(at_s)}: {_asking(world)}")
        if found is None:
            line("no daemon: it was killed, and is started again")
        else:
            show(found)
        sys.stdout.flush()
        time.sleep(FRAME_S)

    return frame


def _asking(world: Any) -> str:
    answered = sum(world.clients.outcomes.values())
    return f"{answered} requests answered, {len(world.clients.open)} open"


def _short(at_s: float, found: Mapping[str, Any] | None, world: Any) -> str:
    """One line: devices, services, jobs, requests."""
    if found is None:
        return f"{at_s:>6.0f} s  no daemon; {_asking(world)}"
    devices = [f"{d['name']} {sized(d['used_bytes'])}/{sized(d['total_bytes'])}" for d in found["devices"]]
    services = [f"{row['name']} {state(row['state'])}" for row in found["services"]]
    jobs = [f"{n} {state(word)}" for word, n in sorted(found["jobs"].items())]
    parts = (devices, services, jobs or ["no jobs"], [_asking(world)])
    return f"{at_s:>6.0f} s  " + "; ".join(", ".join(part) for part in parts if part)


def _seen(seen: Mapping[str, int], seeds: int) -> Iterator[tuple[str, str]]:
    """What came up, a line for each kind of thing."""
    from headway.sim.coverage import kills, swaps

    def counted(start: str, names: Iterator[str] | None = None) -> str:
        found = {what.removeprefix(start): n for what, n in seen.items() if what.startswith(start)}
        kept = {name: found[name] for name in names if found.get(name)} if names is not None else found
        return (
            ", ".join(f"{n} {state(what).replace(':', ': ')}" for what, n in sorted(kept.items(), key=_most))
            or "none"
        )

    yield "requests", counted("request ")
    yield "jobs", counted("event job.", iter(ENDED))
    yield "swaps", f"{swaps(seen)} moves of models, {seen.get('moves', 0)} of anything"
    yield "kills", f"{kills(seen, seeds)} of the daemon, {seen.get('fault gate_killed', 0)} of the gate"
    yield "faults", counted("fault ")


def _most(one: tuple[str, int]) -> tuple[int, str]:
    return (-one[1], one[0])


# ---------------------------------------------------------------- a campaign


def _many(
    span: Any, asked: Asked, *, twice: bool, workers: int | None, minutes: float | None, coverage: bool
) -> int:
    from headway.sim.campaign import campaign
    from headway.sim.coverage import gaps, never

    began_s = time.monotonic()
    of = len(span) if isinstance(span, range) else None
    teller = _Teller(asked, began_s, of)
    summary = campaign(
        span,
        faults=asked.faults,
        workers=workers,
        twice=twice,
        busy_s=asked.busy_s,
        limit_s=float("inf") if minutes is None else minutes * 60,
        told=teller.told,
    )
    teller.over()
    missing = list(gaps(summary.seen, summary.seeds)) if coverage else []
    took_s = time.monotonic() - began_s
    good = summary.good and not missing
    code = INTERRUPTED if summary.interrupted else 0 if good else FAILED
    if asked.as_json:
        show_json({**summary.to_doc(), "real_s": took_s, "never": never(summary.seen), "missing": missing})
        return code
    times = ", each twice" if twice else ""
    played = _counted(summary.seeds, "seed")
    line(f"{played}{times}: {duration(summary.virtual_s)} of virtual time in {duration(took_s)}")
    for name, said in _seen(summary.seen, summary.seeds):
        line(f"  {name:<10} {said}")
    for sentence in missing if coverage or asked.faults is not None else _not_seen(never(summary.seen)):
        line(sentence)
    if summary.failed:
        line(f"failed: {', '.join(map(str, sorted(summary.failed)))}")
    if summary.unequal:
        line(f"not the same twice: {', '.join(map(str, sorted(summary.unequal)))}")
    if summary.good:
        line("No violation, but too little was seen." if missing else "No violation.")
    if summary.interrupted:
        line(f"interrupted: {summary.seeds}{f' of {of}' if of is not None else ''} seeds were played")
    return code


def _counted(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _not_seen(lacks: Mapping[str, list[str]]) -> Iterator[str]:
    """One line of numbers; nothing when all was seen."""
    if counts := [_counted(len(names), kind.removesuffix("s")) for kind, names in lacks.items() if names]:
        yield f"not seen: {', '.join(counts)} (--coverage lists them)"


class _Teller:
    """Says how far a campaign is, and each seed that failed as soon as it did.

    Args:
        seeds: how many there are; None: no end.
    """

    def __init__(self, asked: Asked, began_s: float, seeds: int | None) -> None:
        self._asked, self._seeds = asked, seeds
        self._began_s = self._told_s = began_s
        self._played: Counter[int] = Counter()
        self._failed: set[int] = set()
        self._live = sys.stderr.isatty()

    def told(self, result: Any) -> None:
        from headway.sim.campaign import report

        self._played[result.seed] += 1
        if result.violations and result.seed not in self._failed:
            self._failed.add(result.seed)
            if not self._asked.as_json:
                self._clear()
                short = [f"seed {result.seed} failed: {result.violations[0]}"]
                for sentence in (
                    report(result, self._asked.again()) if len(self._failed) <= REPORTS else short
                ):
                    line(sentence)
                sys.stdout.flush()
        now_s = time.monotonic()
        if self._live:
            click.echo(f"\r{self._words(now_s)} ", err=True, nl=False)
        elif now_s - self._told_s >= TELL_EVERY_S:
            self._told_s = now_s
            tell(self._words(now_s))

    def over(self) -> None:
        """No more of them come, whether all were played or not."""
        self._clear()

    def _words(self, now_s: float) -> str:
        of = f" of {self._seeds}" if self._seeds is not None else ""
        return f"{len(self._played)}{of} seeds, {len(self._failed)} failed, {duration(now_s - self._began_s)}"

    def _clear(self) -> None:
        if self._live:
            click.echo(CLEARED, err=True, nl=False)
