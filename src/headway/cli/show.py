"""`headway show`: everything known about one job or service."""

from __future__ import annotations

import shlex
import signal
from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.figures import figures
from headway.cli.tables import age, line, paint, sized, state, table
from headway.cli.watching import watch_flag
from headway.client import segment

LABELS = {
    "in_state_s": "in that state for",
    "bytes": "memory",
    "need_bytes": "memory it needs",
    "counted_bytes": "memory, as declared",
    "wish": "asked to",
    "wish_by": "asked by",
    "failures": "failed starts in a row",
    "lane": "queue",
    "position": "number in line",
    "age_s": "added",
    "ran_s": "ran for",
    "attempts_left": "retries left",
    "active": "in flight",
    "waiting": "requests waiting",
    "waiting_s": "oldest waits for",
    "quiet_s": "quiet for",
    "saved_age_s": "last saved",
    "ended_s": "ended",
    "saves_every_s": "saves every",
    "unsaved_s": "a stop now would lose",
    "lost_s": "work lost so far",
    "lost": "lost stretches",
    "left_s": "left",
    "max_runtime_s": "may run for",
    "argv": "command",
    "exit_code": "exit",
}

FIGURES = ("times", "budget", "engine")  # of a service: in words of their own
AGO = ("age_s", "saved_age_s", "ended_s")

RUNS = 10


@click.command()
@click.argument("target", metavar="ID")
@json_flag
@pass_session
@watch_flag
def show(session: Session, target: str, as_json: bool) -> None:
    """Show one job, service or lease, by its id or name."""
    client = session.client()
    found = client.get(f"/api/v1/holders/{segment(target)}")
    if as_json:
        show_json(found)
        return
    described(found)
    if found.get("runs"):
        line()
        path = f"/api/v1/holders/{segment(found['id'])}/runs?limit={RUNS}"
        runs_said(client.get(path), found["runs"])


def described(row: dict[str, Any]) -> None:
    """One that somebody asked about, and of a service what the gap policy makes of it."""
    gap = row.pop("gap", None)
    known = figures(row)
    describe({key: value for key, value in row.items() if key not in FIGURES} | known)
    if gap is not None:
        line()
        line(f"gaps: {gap['sentence']}")
        if gap["curve"]:
            line("quiet for  " + "  ".join(f"{age(at_s)} {share:.0%}" for at_s, share in gap["curve"]))
        line(
            f"caps       {gap['max_waiting_share']:.0%} of the requests wait, {gap['max_mean_wait_s']:g} s on average"
        )
        line()
        table(
            ("OVER", "REQUESTS", "WAITED", "MEAN WAIT"),
            [
                (one["over"], f"{one['requests']:.0f}", f"{one['share']:.1%}", f"{one['mean_s']:.2f} s")
                for one in gap["waits"]
            ],
        )


def runs_said(runs: list[dict[str, Any]], had: int) -> None:
    """The run history, the newest first, of one that had so many runs."""
    table(
        ("RUN", "STATE", "FOR", "EXIT", "HOST MEMORY", "ERROR"),
        [
            (
                row["number"],
                row["state"],
                age(row["ran_s"]),
                None if row["exit_code"] is None else ending(row["exit_code"]),
                sized(row["peak_host_bytes"]) if row["peak_host_bytes"] is not None else None,
                row["error"] or "",
            )
            for row in runs
        ],
    )
    if had > len(runs):
        line(f"and {had - len(runs)} older ones")


def ending(code: int) -> str:
    """An exit code; the name of the signal where it was ended by one."""
    try:
        return signal.Signals(-code).name if code < 0 else str(code)
    except ValueError:  # a signal that this system does not know
        return f"signal {-code}"


def describe(row: dict[str, Any]) -> None:
    """One `key  value` line per thing that is known and says something."""
    known = {key: value for key, value in row.items() if value not in (None, "", [], {}) and tells(key, row)}
    wide = max(len(called(key)) for key in known)
    for key, value in known.items():
        between = f" ({age(row['left_low_s'])} to {age(row['left_high_s'])})" if key == "left_s" else ""
        line(f"{called(key):<{wide}}  {said(key, value)}{between}")


def tells(key: str, row: dict[str, Any]) -> bool:
    """Does it say anything that is not said already, or true of everybody?"""
    if key in ("code", "started", "left_low_s", "left_high_s"):  # for programs, or said with another one
        return False
    if key == "counted_bytes":
        return row["bytes"] is None
    if key == "note":
        return row["note"] not in row["why"]
    if key in ("wish", "wish_by"):
        return bool(row["wish"] != "run")
    if key == "step_aside":  # nobody asks one without a device
        return bool(row["lane"] != "cpu")
    if key == "ran_s":
        return bool(row["started"])
    if key in ("stalled", "alone", "failures", "attempts_left", "lost_s", "runs"):
        return bool(row[key])
    return True


def called(key: str) -> str:
    return LABELS.get(key) or key.removesuffix("_s").removesuffix("_bytes").replace("_", " ")


def said(key: str, value: Any) -> str:
    if key == "state":
        return paint(state(value), value)
    if key in AGO:
        return f"{age(value)} ago"
    if key.endswith("_s"):
        return age(value)
    if key == "exit_code":
        return ending(value)
    if key == "bytes" or key.endswith("_bytes"):
        return sized(value)
    if key == "argv":
        return shlex.join(value)
    if key == "lost":
        return ", ".join(f"{age(one['lost_s'])} ({one['why']})" for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.0%}" if key == "progress" else str(value)
