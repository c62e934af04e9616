"""`headway replay`: what the gap policy would have made of a log of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.ask import show_json, tell
from headway.cli.tables import line, table, whole_table

if TYPE_CHECKING:
    from headway.core.worth import Costs

COMPARED = "fixed:10,fixed:60,never,clairvoyant"
HEAD = ("POLICY", "GPU", "ASLEEP", "MEAN WAIT", "P95", "P99", "WAITED", "SWAPS", "USELESS", "LOST")


@click.command()
@click.argument("log", type=click.Path(exists=True, path_type=Path))
@click.option("--service", metavar="NAME", help="Whose requests, where the log has those of several.")
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A config whose knobs count, as a daemon would take them; --set goes before.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KNOB=VALUE",
    help="wait_price, max_mean_wait, max_waiting_share.",
)
@click.option(
    "--cost",
    metavar="NAME=SECONDS,...",
    help="sleep, wake, resume, park in seconds; hides_park and abandons_sleep are 0 or 1. "
    "[default: sleep=11,wake=2.5,resume=1.75,park=2]",
)
@click.option(
    "--saved-every", type=float, metavar="SECONDS", help="The job keeps only whole intervals of this."
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="The same with other costs or knobs, beside it.",
)
@click.option("--compare", default=COMPARED, show_default=True, metavar="POLICIES")
@click.option("--sweep", metavar="KNOB=LOW:HIGH", help="Play many values of a knob: the frontier.")
@click.option(
    "--plot",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the frontier into a PNG. Needs --sweep.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
@click.pass_context
def replay(ctx: click.Context, /, log: Path, service: str | None, as_json: bool, **options: Any) -> None:
    """Play LOG against the gap policy: who would have waited, and what jobs would have won.

    LOG is Headway's request log (a file, or its folder) or a trace: a .csv or .csv.gz with the columns arrival_s,
    service_s, finish, conversation, out_tokens.
    """
    from headway.sim.replay.configured import configured
    from headway.sim.replay.plot import plot
    from headway.sim.replay.report import Setting, compared, replayed
    from headway.sim.replay.trace import read

    ctx.meta["headway.json"] = as_json
    if options["picture"] and not options["sweep"]:
        ctx.fail("--plot needs --sweep: write for instance `--sweep wait_price=0.5:64`.")
    try:
        setting = configured(Setting(), options["file"], service) if options["file"] else Setting()
        setting = _with(setting, [*options["settings"], *_words(options["cost"])])
        if options["saved_every"] is not None:
            setting = setting.saving(options["saved_every"])
        others = [(words, _with(setting, _words(words))) for words in options["what_if"]]
        policies = _words(options["compare"])
        for word in policies:
            compared(word, setting.costs)
        sweep = _sweep(options["sweep"]) if options["sweep"] else None
        if sweep is not None:
            setting.having(sweep[0], sweep[1])
    except ValueError as error:
        ctx.fail(f"{error}.")
    trace = read(log, service)
    document = replayed(trace, setting, policies, others, sweep)
    if options["picture"]:
        plot(document, options["picture"])
    if as_json:
        show_json(document)
        return
    line(f"{trace.name}: {document['requests']} requests in {document['hours']:.1f} h")
    if trace.skipped:
        tell(f"{trace.skipped} lines were cut short and are left out")
    line(f"costs: {_costs(setting.costs)}")
    if others:
        line("what-if: the same, but for what its name says")
    whole_table(HEAD, [_row(one) for one in document["policies"]])
    for name, points in document["frontier"].items():
        if points:
            line()
            table(
                (name.upper(), "MEAN WAIT", "GPU"),
                [(f"{k:g}", f"{w:.2f} s", f"{g:.3f}") for w, g, k in points],
            )


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _with(setting: Any, words: Sequence[str]) -> Any:
    """A setting with `NAME=VALUE` words applied; ValueError where one makes no sense."""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is not NAME=VALUE")
        setting = setting.having(name.strip(), _number(value))
    return setting


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def _sweep(text: str) -> tuple[str, float, float]:
    name, equals, span = text.partition("=")
    low, colon, high = span.partition(":")
    if not equals or not colon or not 0 < _number(low) < _number(high):
        raise ValueError(f"{text!r} is not KNOB=LOW:HIGH with 0 < LOW < HIGH")
    return name.strip(), _number(low), _number(high)


def _costs(costs: Costs) -> str:
    """What was assumed of a swap, in one line."""
    words = [f"sleep {costs.sleep_s:g} s", f"wake {costs.wake_s:g} s", f"resume {costs.resume_s:g} s"]
    words.append(f"park {costs.park_s:g} s")
    words += [name for name in ("hides_park", "abandons_sleep") if getattr(costs, name)]
    words += [f"saved every {costs.saved_every_s:g} s"] if costs.saved_every_s else []
    return ", ".join(words)


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one["name"],
        f"{one['gpu_share']:.3f}",
        f"{one['asleep_share']:.3f}",
        f"{one['mean_wait_s']:.2f} s",
        f"{one['p95_wait_s']:.1f} s",
        f"{one['p99_wait_s']:.1f} s",
        f"{one['waited_share']:.1%}",
        str(one["swaps"]),
        str(one["useless_swaps"]),
        f"{one['lost_share']:.1%}",
    )
