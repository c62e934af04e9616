"""A place in line for devices: asked for, waited for across restarts of the daemon, and given up."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headway.cli.ask import AWAY_LIMIT_S, LOOK_S, Session, tell
from headway.cli.duration import FOREVER
from headway.client import Answered, Client, segment
from headway.errors import DaemonAway, HeadwayError, Refused

Row = dict[str, Any]
POLL_S = 10.0  # the daemon answers when something changed, after this time at the latest
HANGS_S = 10.0
SETTLES_S = 0.5
SOON_S = 15.0  # a daemon that is on its way is given this long before somebody runs without one
UNSAID_S = 900.0  # background_max_wait, where no config says otherwise
HOPELESS = ("never_fits", "no_device")
INSIDE = ("granted", "overdue", "leaving")


class Place:
    """One ask. `mark` is what HEADWAY_LEASE says to the command, once there is a lease."""

    def __init__(self, session: Session, client: Client, body: Row, require: bool, quiet: bool) -> None:
        self.client, self.told = client, False
        self._session, self._body, self._require, self._quiet = session, body, require, quiet
        self._lease: str | None = None
        self._row: Row | None = None
        self._said: str | None = None

    @property
    def mark(self) -> str:
        return f"{self._lease}.{self._body['ask_key']}"

    def wait(self) -> Row | None:
        """Wait for the grant. None: no daemon arbitrates, and the command may run all the same.

        Raises:
            Refused: it is not its turn, or never will be.
            DaemonAway: with `require`, none came.
        """
        away_since_s: float | None = None
        began_s = time.monotonic()
        while True:
            try:
                row = self._look()
                away_since_s = None
            except Answered as error:
                if error.code != "store_silent" or time.monotonic() - began_s > self._patience_s():
                    raise
                self._say(error.code, f"not yet: {error}")
                time.sleep(LOOK_S)
                continue
            except DaemonAway as error:
                if error.facts.get("denied"):
                    raise
                away_since_s = time.monotonic() if away_since_s is None else away_since_s
                if not self._comes_back(time.monotonic() - away_since_s):
                    if self._require:
                        raise
                    tell(f"headway: warning: {error} It runs now, and nobody keeps others off its GPU.")
                    return None
                time.sleep(LOOK_S)
                continue
            if row["state"] in INSIDE:
                return row
            if row["code"] == "shadow":
                self._say("shadow", "the mode is shadow: it runs at once, whoever is there.")
                return row
            if row["ended"]:
                raise self._not_its_turn(row)
            self._tell(row)

    def _patience_s(self) -> float:
        """How long it waits for its turn, whatever keeps it from being asked for."""
        wait_s = self._body.get("wait_s", UNSAID_S)
        return float("inf") if wait_s == FOREVER else float(wait_s)

    def leave(self) -> None:
        """Give up the place. When nobody hears that, the end of this process says the same."""
        if self._lease is not None:
            with suppress(HeadwayError):
                quick(self.client).delete(f"/api/v1/leases/{segment(self._lease)}")

    def _look(self) -> Row:
        """The lease as it is when something changed. One that is not known any more is asked for again."""
        if self._lease is None:
            self._lease = quick(self.client).post("/api/v1/leases", self._body)["id"]
            self._row = None
        path = f"/api/v1/leases/{segment(self._lease)}"
        try:
            if self._row is None:  # most are granted at once, and there is nothing to tell of those
                self._row = self.client.get(path, known="waiting", wait_s=SETTLES_S)
            else:
                self._row = self.client.get(path, known=self._row["state"], wait_s=POLL_S)
        except Answered as error:
            if error.code != "not_found":
                raise
            self._lease = None
            return self._look()
        assert self._row is not None
        return self._row

    def _comes_back(self, away_s: float) -> bool:
        """Is it worth waiting on for a daemon that does not answer?"""
        if self._require:
            self._say("away", "no daemon answers; waiting for one, as --require says.")
            return away_s < AWAY_LIMIT_S
        if self._lease is not None:
            self._say("away", "the daemon is away; waiting for the next one.")
            return away_s < AWAY_LIMIT_S
        if not self._session.is_daemon_due():
            return False
        self._say("away", f"the daemon is on its way; waiting for it, {SOON_S:.0f} s at most.")
        return away_s < SOON_S

    def _tell(self, row: Row) -> None:
        if row["state"] == "waiting":
            self._say(row["code"], f"{row['id']} is number {row['position']} in line: {row['why']}.")

    def _say(self, code: str, words: str) -> None:
        if code != self._said and not self._quiet:
            tell(f"headway: {words}")
            self.told = True
        self._said = code

    def _not_its_turn(self, row: Row) -> HeadwayError:
        why = self.client.get(f"/api/v1/why/{segment(row['id'])}")
        facts = {**why["facts"], "id": row["id"], "ended": row["ended"]}
        if facts.get("because") in HOPELESS:
            return Refused("never_fits", f"{facts.get('why')}. See the GPUs: `headway status`.", **facts)
        words = f"not your turn: {row['why']}."
        if (position := facts.get("position")) is not None:
            words += f" It was number {position} in line."
        holder = facts.get("holder")
        see = f"`headway why {holder}`" if holder else "`headway status`"
        if row["ended"] == "waited_out":
            words += f" To wait longer: `--wait 10min` or `--wait forever`. Who is there: {see}."
        else:
            words += f" What is going on: {see}."
        return Refused("not_your_turn", words, **facts)


def quick(client: Client) -> Client:
    """For what somebody waits for at his keyboard: a daemon that hangs keeps him no longer than this."""
    return Client(client.where, HANGS_S)


def inside_of(client: Client, environ: Mapping[str, str]) -> str | None:
    """The job or lease that we are inside of already; None: of none."""
    if job := environ.get("HEADWAY_JOB_ID"):
        return job
    lease, _, key = environ.get("HEADWAY_LEASE", "").partition(".")
    if not lease or not key:
        return None
    try:
        row = quick(client).get(f"/api/v1/leases/{segment(lease)}")
    except DaemonAway:
        return lease  # it was granted, and nobody says that it is over
    except Answered:
        return None
    return lease if row["state"] in INSIDE or row["code"] == "shadow" else None


def give_back(client: Client, lease: str) -> None:
    """The command ended: its lease is over now, unless something that it started lives on. The daemon sees that too."""
    with suppress(HeadwayError):
        quick(client).delete(f"/api/v1/leases/{segment(lease)}?if_gone=true")


def watch(client: Client, row: Row, pid: int | None) -> None:
    """Tell, from now on, when the lease is past its time or is asked to leave; then `pid` is sent SIGTERM."""

    def look() -> None:
        state, asked = row["state"], False
        while True:
            try:
                now = client.get(f"/api/v1/leases/{segment(row['id'])}", known=state, wait_s=POLL_S)
            except DaemonAway:
                time.sleep(LOOK_S)
                continue
            except HeadwayError:
                return  # nobody knows it any more
            if now["ended"]:
                return
            if now["state"] == "overdue" != state:
                tell(
                    f"headway: {row['id']} is past its time (--ttl). It goes on, and leaves for whoever is next."
                )
            if now["state"] == "leaving" and not asked:
                asked = True
                then = "Its command is sent SIGTERM." if pid is not None else "End it when you can."
                tell(f"headway: {row['id']} is asked to give its GPU back. {then}")
                if pid is not None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGTERM)
            asked = asked and now["state"] == "leaving"
            state = now["state"]

    threading.Thread(target=look, name="watch", daemon=True).start()
