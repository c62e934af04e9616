"""`headway init`: a first config from what is on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.ask import Session, json_flag, pass_session, show_json, tell

INSTEAD = "[device.sim0]"  # what the written config has in place of a GPU


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--example", is_flag=True, help="With a service and a job to start from.")
@click.option("--port", "ports", multiple=True, type=click.IntRange(1, 65535), help="Look there too.")
@click.option("-n", "--dry-run", is_flag=True, help="Print it, and write nothing.")
@json_flag
@pass_session
def init(
    session: Session,
    file: Path | None,
    example: bool,
    ports: tuple[int, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Find GPUs and running model servers, and write a config that only watches (mode shadow).

    Looks at the usual ports of vLLM, SGLang, llama.cpp, Ollama, ComfyUI and LM Studio, and at programs named like
    them; nothing that it asks wakes a model. A file that is there already stays as it is.
    """
    from headway import app

    place = file.absolute() if file else Path(session.paths().config_file)
    made = app.init(place, ports, example, dry_run)
    if as_json:
        show_json({"file": str(place), "written": not dry_run, "config": made})
        return
    if dry_run:
        click.echo(made, nl=False)
        return
    services = sum(line.startswith("[service.") for line in made.splitlines())
    tell(f"{place} is written: {services} service{'' if services == 1 else 's'}, mode shadow.")
    if f"# {INSTEAD}" in made.splitlines():  # written where there is none
        tell(f"No GPU was found. To try Headway without one, uncomment the table {INSTEAD} in {place}.")
    named = f" {file}" if file else ""
    tell(f"Look at it, then `headway check{named}` and `headway up{named}`.")
