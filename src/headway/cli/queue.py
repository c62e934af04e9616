"""`headway queue`: when all of it would be over, who is next, and holding all of it."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json
from headway.cli.tables import age, line, queue_held_said, said
from headway.cli.watching import watch_flag
from headway.client import segment


@click.command()
@click.argument("verb", metavar="[hold|release]", required=False, type=click.Choice(["hold", "release"]))
@json_flag
@pass_session
@watch_flag
def queue(session: Session, verb: str | None, as_json: bool) -> None:
    """Say how long all jobs that run or wait still take, in device hours too, and who is next.

    `hold`: no job starts until `headway queue release`; what runs goes on, and models are woken as ever. A queue that
    Headway holds because its daemon crashed again and again is released in the same way.
    """
    client = session.client()
    if verb is not None and click.get_current_context().params["watch"]:
        raise click.UsageError(f"-w looks again and again, and `{verb}` is said once: leave one of them out.")
    if verb is not None:
        reply = client.post(f"/api/v1/queue/{verb}", {})
        board = client.get("/api/v1/status", queued=0)
        if as_json:
            show_json(reply)
        else:
            line(queue_held_said(board) or "the queue is not held: jobs may start")
        return
    found: dict[str, Any] = client.get("/api/v1/outlook")
    if as_json:
        show_json(found)
        return
    if words := queue_held_said(client.get("/api/v1/status", queued=0)):
        line(words)
    if not found["jobs"]:
        line("no job runs or waits")
        return
    known = found["jobs"] - found["unknown"]
    jobs = "1 job" if found["jobs"] == 1 else f"{found['jobs']} jobs"
    if known:
        between = f"{age(found['low_s'])} to {age(found['high_s'])}"
        line(
            f"{jobs}: about {age(found['left_s'])} of work left ({between}), {found['gpu_hours']:.1f} GPU hours"
        )
    else:
        line(f"{jobs}: nothing says how long they take")
    if found["unknown"] and known:
        line(f"not counted: {found['unknown']}, of which nothing says how long they take")
    if found["next"] is not None:
        row = client.get(f"/api/v1/jobs/{segment(found['next'])}")
        line(f"next: {row['id']} {row['name']}, {said(row)}")
