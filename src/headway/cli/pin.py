"""`headway pin` and `headway open`: how a person's browser is let in."""

from __future__ import annotations

import sys

import click

from headway.cli.ask import Group, Session, json_flag, pass_session, show_json, tell
from headway.cli.tables import line
from headway.core.names import PIN_MAX, PIN_MIN

LENGTH = f"{PIN_MIN} to {PIN_MAX} characters"


@click.group(cls=Group)
def pin() -> None:
    """The PIN by which a browser on this machine may change things."""


@pin.command("set")
@pass_session
def set_(session: Session) -> None:
    """Ask for the PIN twice, and set it. Without a terminal it is one line on standard input.

    It has 6 to 128 characters. Every browser that was let in has to give it anew.
    """
    if sys.stdin.isatty():
        value = fits(click.prompt(f"PIN ({LENGTH})", hide_input=True, err=True))
        if click.prompt("The same once more", hide_input=True, err=True) != value:
            raise click.UsageError("these are two different ones: nothing was set.")
    else:
        value = fits(sys.stdin.readline().rstrip("\r\n"))
    session.client().put("/api/v1/pin", {"pin": value})
    tell("The PIN is set.")


def fits(value: str) -> str:
    """The PIN as it was given.

    Raises:
        click.UsageError: it is too short or too long.
    """
    if PIN_MIN <= len(value) <= PIN_MAX:
        return value
    raise click.UsageError(f"a PIN has {LENGTH}, and this one {len(value)}.")


@pin.command("clear")
@pass_session
def clear(session: Session) -> None:
    """Have none. Browsers are let in by `headway open` only."""
    session.client().delete("/api/v1/pin")
    tell("There is no PIN now.")


@click.command("open")
@click.option("-n", "--no-browser", is_flag=True, help="Only print the link.")
@json_flag
@pass_session
def open_(session: Session, no_browser: bool, as_json: bool) -> None:
    """Open Headway in your browser, let in without the PIN. The link works once, within a minute."""
    made = session.client().post("/api/v1/session/tickets")
    if as_json:
        show_json(made)
        return
    line(made["url"])
    if not no_browser and sys.stdout.isatty():
        click.launch(made["url"])
