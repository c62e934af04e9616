"""Devices, with who holds how much of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from headway.api.pages import Cursor, Limit, link, page
from headway.api.parts import Parts, answer, parts_of
from headway.core import rows, view
from headway.errors import NotFound

router = APIRouter(prefix="/api/v1/devices", tags=["devices"])


@router.get("", response_model=tuple[rows.DeviceRow, ...])
async def devices(
    request: Request, parts: Annotated[Parts, Depends(parts_of)], after: Cursor = None, limit: Limit = 200
) -> Response:
    """Every device with its holders. The header Link leads to the next page."""
    shown, more = page(parts.named(view.devices(parts.hub.snapshot)), lambda row: row.id, after, limit)
    return answer(tuple[rows.DeviceRow, ...], shown, headers=link(request, more))


@router.get("/{name:path}", response_model=rows.DeviceRow)
async def device(name: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """One device by its id or its short name."""
    for row in parts.named(view.devices(parts.hub.snapshot)):
        if name in (row.id, row.name):
            return answer(rows.DeviceRow, row)
    raise NotFound(f"no device {name!r} is known. `headway status` lists them.", target=name)
