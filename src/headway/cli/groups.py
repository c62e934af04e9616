"""Who is meant by words that may be groups, for the verbs whose route takes ids and names only."""

from __future__ import annotations

from collections.abc import Sequence

from headway.client import Client
from headway.errors import NotFound

PAGE = 1000


def members(client: Client, targets: Sequence[str], ended: bool = False) -> list[str]:
    """The words as they are, and in place of each group its jobs, in the order of the line.

    Args:
        ended: a group has its jobs that are over too.

    Raises:
        NotFound: a group has no member.
        Refused: there is no such kind of group.
    """
    found: list[str] = []
    for target in targets:
        ids = _group(client, target, ended) if "=" in target else [target]
        if not ids:
            raise NotFound(f"nobody is {target}. `headway ps -a` lists all jobs.", target=target)
        found += ids
    return list(dict.fromkeys(found))


def _group(client: Client, words: str, ended: bool) -> list[str]:
    ids: list[str] = []
    cursor = None
    while True:
        asked = {"select": words, "ended": str(ended).lower(), "after": cursor, "limit": PAGE}
        page = client.get("/api/v1/jobs", **asked)
        ids += [row["id"] for row in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            return ids
