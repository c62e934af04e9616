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
    help="wait_price, max_mean_wait, max_waiting_share, gap_min.",
)
@click.option(
    "--cost",
    metavar="NAME=SECONDS,...",
    help="sleep, wake, resume, park in seconds; hides_park and abandons_sleep are 0 or 1. "
    "[default: sleep=11,wake=2.5,resume=1.75,park=2]",
)
@click.option("--saved-every", metavar="SECONDS", help="The job keeps only whole intervals of this.")
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
    help="Draw the frontier into a .png, .svg, .pdf, .jpg or .webp. Needs --sweep.",
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
    from headway.sim.replay.report import Setting, replayed
    from headway.sim.replay.trace import read

    ctx.meta["headway.json"] = as_json
    try:
        sweep = _typed(options)
    except ValueError as error:
        ctx.fail(f"{error}.")
    trace = read(log, service)
    try:
        setting, notes = configured(Setting(), options["file"], trace) if options["file"] else (Setting(), [])
    except ValueError as error:
        ctx.fail(f"{error}.")
    setting, others = _settings(setting, options)
    document = replayed(trace, setting, _words(options["compare"]), others, sweep)
    if options["picture"]:
        plot(document, options["picture"])
    for note in [*notes, *filter(None, [trace.skipped.told()])]:
        tell(note)
    if as_json:
        show_json(document)
        return
    line(f"{trace.name}: {document['requests']} requests in {document['hours']:.1f} h")
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


def _typed(options: Mapping[str, Any]) -> tuple[str, float, float] | None:
    """The sweep. All that was typed is looked at here, before anything is read or played.

    Raises:
        ValueError: something of it makes no sense.
        NoPlot: the picture could not be drawn or written.
    """
    from headway.sim.replay.plot import writable
    from headway.sim.replay.report import Setting, compared
    from headway.sim.replay.values import span

    setting, _ = _settings(Setting(), options)
    for word in _words(options["compare"]):
        compared(word, setting.costs)
    sweep = span(options["sweep"]) if options["sweep"] else None
    if options["picture"]:
        if sweep is None:
            raise ValueError("--plot needs --sweep: write for instance `--sweep wait_price=0.5:64`")
        writable(options["picture"])
    return sweep


def _settings(setting: Any, options: Mapping[str, Any]) -> tuple[Any, list[tuple[str, Any]]]:
    """What was typed, on top of this setting, and each --what-if on top of that; ValueError where a word is wrong."""
    setting = _with(setting, [*options["settings"], *_words(options["cost"])])
    if options["saved_every"] is not None:
        setting = setting.saving(options["saved_every"])
    return setting, [(words, _with(setting, _words(words))) for words in options["what_if"]]


def _with(setting: Any, words: Sequence[str]) -> Any:
    """A setting with `NAME=VALUE` words applied; ValueError where one makes no sense."""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is not NAME=VALUE")
        setting = setting.having(name.strip(), value)
    return setting


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
