"""`headway claim`: what was started by hand is counted."""

from __future__ import annotations

import os

import click

from headway.cli.ask import Session, json_flag, pass_session, quiet_flag, show_json
from headway.cli.tables import line, said
from headway.client import segment


@click.command()
@click.option("--pid", type=click.IntRange(1), help="The process that is counted, with all it starts.")
@click.option("--match", metavar="PATTERN", help="Every process with this in its command line.")
@click.option("--gpu", metavar="SIZE", help="Memory it will take, such as 24GiB. Left out: what is measured.")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="On this GPU (name, index or UUID).")
@click.option("--block", is_flag=True, help="Keep jobs and leases off its GPU. Models are still woken.")
@click.option("--name", help="What to call it.  [default: its program's name]")
@quiet_flag
@json_flag
@pass_session
def claim(
    session: Session,
    pid: int | None,
    match: str | None,
    gpu: str | None,
    devices: tuple[str, ...],
    block: bool,
    name: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Count what somebody started by hand, until its process ends. It is never touched.

    \b
    headway claim --pid 4711 --gpu 24GiB
    headway claim --match 'notebook.*kernel' --block
    """
    if (pid is None) == (match is None):
        raise click.UsageError("give either --pid N or --match PATTERN.")
    body = {"pid": pid, "match": match, "gpu": gpu, "devices": list(devices), "block": block, "name": name}
    client = session.client()
    asked = {key: value for key, value in body.items() if value is not None}
    reply = client.post("/api/v1/claims", {**asked, "asker": os.getpid()})
    if as_json:
        show_json(reply)
        return
    if quiet:
        click.echo(reply["id"])
        return
    row = client.get(f"/api/v1/claims/{segment(reply['id'])}")
    line(f"{row['id']} ({row['name']}) is {said(row)}")
