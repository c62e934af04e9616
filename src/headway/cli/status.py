"""`headway status`: who holds what, who waits, and why, on one screen."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.lease import show_leases
from headway.cli.tables import (
    age,
    line,
    mode_said,
    paint,
    prod_only_said,
    queue_held_said,
    sized,
    state,
    table,
)
from headway.cli.watching import watch_flag
from headway.client import Client

SHOWN = 10


@click.command()
@json_flag
@pass_session
@watch_flag
def status(session: Session, as_json: bool) -> None:
    """Show devices with their holders, services, and jobs with the reason for each."""
    found = session.client().get("/api/v1/status", queued=50 if as_json else SHOWN)
    if as_json:
        show_json(found)
    else:
        show(found, waiting(session.client(), found))


def waiting(client: Client, found: dict[str, Any]) -> dict[str, Any] | None:
    """The requests that wait; None where the board says that none does."""
    if not any(row["waiting"] for row in found["services"]):
        return None
    page: dict[str, Any] = client.get("/api/v1/waiting")
    return page


def show(found: dict[str, Any], held: dict[str, Any] | None = None) -> None:
    """The board as text, with the requests that wait."""
    counts = ", ".join(f"{n} {state(word)}" for word, n in sorted(found["jobs"].items())) or "no jobs"
    line(f"mode {mode_said(found)}, up {age(found['up_s'])}, {counts}")
    if found["gate"]:
        line(f"clients connect to {found['gate']}/v1")
    if words := prod_only_said(found):
        line(words)
    if words := queue_held_said(found):
        line(words)
    for window in found["windows"]:
        if window["state"] == "open":
            names = ", ".join(window["services"]) or "all services"
            line(f"window {window['id']} ({window['kind']}) for {names}, {age(window['ends_in_s'])} more")
    for trouble in found["troubles"]:
        line(paint(f"! {trouble['sentence']}", "failed"))
    if (host := found.get("host")) is not None:
        cpu = (
            ""
            if host["cpu_percent"] is None
            else f"{host['cpu_percent']:.0f}% of {host['cpus']} processors, "
        )
        line(f"machine: {cpu}{sized(host['free_bytes'])} of {sized(host['memory_bytes'])} main memory free")
    for device in found["devices"]:
        _device(device)
    if found["services"]:
        _services(found["services"])
    if held is not None:
        _waiting(held)
    if found["leases"]:
        line()
        show_leases(found["leases"])
    jobs = found["running"] + found["queued"]
    if jobs:
        line()
        table(
            ("JOB", "NAME", "STATE", "FOR", "WHY"),
            [
                (row["id"], row["name"], state(row["state"]), age(row["in_state_s"]), row["why"])
                for row in jobs
            ],
            state_at=2,
        )
    rest = found["jobs"].get("queued", 0) + found["jobs"].get("held", 0) - len(found["queued"])
    if rest > 0:
        line(f"and {rest} more: headway ps")


def _services(rows: list[dict[str, Any]]) -> None:
    line()
    table(
        ("SERVICE", "STATE", "FOR", "IN FLIGHT", "WAITING", "WHY"),
        [
            (
                row["name"],
                state(row["state"]),
                age(row["in_state_s"]),
                row["active"],
                row["waiting"],
                row["why"],
            )
            for row in rows
        ],
        state_at=1,
    )


def _waiting(held: dict[str, Any]) -> None:
    rows = held["requests"]
    if rows:
        line()
        table(
            ("REQUEST", "FOR", "MODEL", "PLACE", "WAITS", "WHY"),
            [
                (row["id"], row["service"], row["model"], row["position"], age(row["waited_s"]), row["why"])
                for row in rows[:SHOWN]
            ],
        )
    if (rest := held["more"] + max(0, len(rows) - SHOWN)) > 0:
        line(f"and {rest} more {'request waits' if rest == 1 else 'requests wait'}")


def _device(device: dict[str, Any]) -> None:
    line()
    declared = device["confidence"] == "declared"
    if declared:  # nobody measures it: the sizes that were said are all there is
        known = "nothing is measured, sizes are as declared"
    else:
        used, free = sized(device["used_bytes"]), sized(device["free_bytes"])
        known = f"{used} used, {free} free ({device['confidence']})"
    head = f"{device['name']}  {sized(device['total_bytes'])}, {known}"
    gauges = [
        form.format(device[name])
        for name, form in (("util_percent", "{:.0f}% busy"), ("temp_c", "{:.0f} °C"), ("power_w", "{:.0f} W"))
        if device[name] is not None
    ]
    line("  ".join(filter(None, (head, ", ".join(gauges), device["trouble"]))))
    for share in device["holders"]:
        bytes_ = sized(share["need_bytes"] if declared and share["bytes"] is None else share["bytes"])
        word = state(share["state"])
        name = share["name"] if share["name"] == share["id"] else f"{share['name']} ({share['id']})"
        line(f"  {name:<24} {paint(f'{word:<12}', share['state'])} {bytes_:>9}")
    if device["foreign_bytes"]:
        line(f"  {'others':<24} {'':<12} {sized(device['foreign_bytes']):>9}")
    for one in device["strangers"]:
        name = f"pid {one['pid']}" + (f" ({one['name']})" if one["name"] else "")
        line(f"    {name:<22} {'':<12} {sized(one['bytes']):>9}")
