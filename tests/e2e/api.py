"""What a daemon says to somebody who asks over its Unix socket."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from headway.client import Address, Client
from headway.errors import HeadwayError

T = TypeVar("T")
Row = dict[str, Any]
PAGE = 1000


class Api:
    """Asks the daemon of one home. Raises DaemonAway when nobody answers, Answered when it refuses."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.client = Client(Address(path=home / "run" / "headway.sock"))

    def api(self, path: str, **query: Any) -> Any:
        """GET over the Unix socket."""
        return self.client.get(path, **query)

    def post(self, path: str, body: Row | None = None) -> Any:
        """POST over the Unix socket."""
        return self.client.post(path, body)

    def service(self, name: str) -> Row:
        """The row of a service."""
        found: Row = self.api(f"/api/v1/services/{name}")
        return found

    def job(self, target: str) -> Row:
        """The row of a job, by id or name."""
        found: Row = self.api(f"/api/v1/jobs/{target}")
        return found

    def jobs(self, ended: bool = True) -> list[Row]:
        """All jobs: those somewhere, then the line in order, then those that are over."""
        page = self.api("/api/v1/jobs", ended=str(ended).lower(), limit=PAGE)
        found: list[Row] = page["jobs"]
        return found

    def add(self, recipe: str) -> str:
        """Queue a recipe once more; returns the id."""
        return str(self.post("/api/v1/jobs", {"recipe": recipe})["id"])

    def events(self, *codes: str, holder: str | None = None, after: int = 0) -> list[Row]:
        """The audit behind the event with that id, oldest first: all of it, or only those codes."""
        found: list[Row] = []
        while page := self.api(
            "/api/v1/history", target=holder, after=found[-1]["id"] if found else after, limit=PAGE
        ):
            found += page
        return [event for event in found if not codes or event["code"] in codes]

    def last_event(self) -> int:
        """Id of the newest event; 0 before the first."""
        found: list[Row] = self.api("/api/v1/history", last=1)
        return int(found[0]["id"]) if found else 0

    def requests(self, service: str | None = None) -> list[Row]:
        """The gate's log as the daemon has it: one `doc` per request that is over."""
        found: list[Row] = []
        while page := self.api(
            "/api/v1/requests", service=service, after=found[-1]["id"] if found else 0, limit=PAGE
        ):
            found += page
        return [row["doc"] for row in found]

    def tried(self, ask: Callable[[], T]) -> T | None:
        """What the daemon answers; None while it does not, or does not know it."""
        try:
            return ask()
        except HeadwayError:
            return None

    def board(self) -> str:
        """Who is where and why, for a message."""
        status = self.tried(lambda: self.api("/api/v1/status"))
        if status is None:
            return "the daemon does not answer"
        rows = [*status["services"], *status["running"], *status["queued"]]
        lines = [f"{row['name']} ({row['id']}) {row['state']}: {row['code']}: {row['why']}" for row in rows]
        return "\n".join([*lines, *(trouble["sentence"] for trouble in status["troubles"])])
