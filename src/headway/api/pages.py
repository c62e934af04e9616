"""Long lists in pages, and what a reader saw: cursors as Link headers, marks as ETags."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, TypeVar
from urllib.parse import urlencode

from fastapi import Header, Query, Request

from headway.core.model import HolderId

T = TypeVar("T")
Line = tuple[tuple[float, HolderId], ...]

Cursor = Annotated[str | None, Query(max_length=256, description="where the page before ended: its `next`")]
Limit = Annotated[int, Query(ge=1, le=1000, description="rows of one page")]

IfMatch = Annotated[str | None, Header(description="the ETag of what you saw")]


def link(request: Request, after: object | None) -> dict[str, str]:
    """The header that leads to the next page; none after the last one."""
    if after is None:
        return {}
    query = [
        (key, value) for key, value in request.query_params.multi_items() if key not in ("after", "last")
    ]
    return {"Link": f'<{request.url.path}?{urlencode([*query, ("after", str(after))])}>; rel="next"'}


def link_before(request: Request, before: int | None) -> dict[str, str]:
    """The header that leads to the page of older rows; none where there are none."""
    if before is None:
        return {}
    query = [(key, value) for key, value in request.query_params.multi_items() if key != "before"]
    return {"Link": f'<{request.url.path}?{urlencode([*query, ("before", str(before))])}>; rel="next"'}


def page(
    rows: Sequence[T], name: Callable[[T], str], after: str | None, limit: int
) -> tuple[tuple[T, ...], str | None]:
    """The rows behind the one called `after`, and the cursor of the next page. One that is gone begins anew."""
    start = next((n + 1 for n, row in enumerate(rows) if name(row) == after), 0) if after else 0
    shown = tuple(rows[start : start + limit])
    return shown, name(shown[-1]) if len(rows) > start + limit else None


class OrderMark:
    """The ETag of the queue's order. It is made anew only when a lane has become another tuple."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Line, str]] = {}

    def of(self, queue: Mapping[str, Line]) -> str:
        """Differs whenever the order, or who is in line, does; other than that it never changes."""
        parts = []
        for lane in sorted(queue):
            known = self._known.get(lane)
            if known is None or known[0] is not queue[lane]:
                ids = "\n".join(map(itemgetter(1), queue[lane]))  # of ten thousand: no generator
                known = self._known[lane] = (
                    queue[lane],
                    hashlib.blake2b(ids.encode(), digest_size=8).hexdigest(),
                )
            if queue[lane]:
                parts.append(f"{lane}\n{known[1]}")
        return f'"{hashlib.blake2b(chr(10).join(parts).encode(), digest_size=8).hexdigest()}"'


def matches(if_match: str, etag: str) -> bool:
    """Does an If-Match header allow this ETag? Weak marks never do."""
    return any(one.strip() in ("*", etag) for one in if_match.split(","))
