"""The documentation, as text."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import PlainTextResponse

from headway.api.auth import needs
from headway.api.manual import manual, page
from headway.errors import NotFound

router = APIRouter(prefix="/help", tags=["help"])


@router.get("/{name}", response_class=PlainTextResponse, openapi_extra=needs("open"))
async def text(
    name: Annotated[str, Path(description="such as agents.md, howto-jobs.md, reference-cli.md")],
) -> PlainTextResponse:
    """A page of the documentation of this version, in Markdown. `agents.md` is for programs that work with Headway."""
    found = await asyncio.to_thread(page, name)
    if found is None:
        known = sorted(manual())
        raise NotFound(f"there is no page {name!r}. The pages are: {', '.join(known)}.", pages=known)
    return PlainTextResponse(found, headers={"Cache-Control": "no-cache"})
