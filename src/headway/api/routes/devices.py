"""Devices, with who holds how much of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from headway.api.pages import Cursor, Limit, link, page
from headway.api.parts import Parts, answer, parts_of
from headway.core import rows, samples, view
from headway.core.device_rows import device_row
from headway.core.model import Device
from headway.errors import NotFound, Refused

router = APIRouter(prefix="/api/v1/devices", tags=["devices"])
Range = Literal["1h", "6h", "24h", "3d", "7d"]
RANGES_S: Mapping[Range, int] = {"1h": 3600, "6h": 21_600, "24h": 86_400, "3d": 259_200, "7d": 604_800}
Moment = Annotated[
    float | None, Query(ge=0, le=1e11, description="seconds since the epoch; both of them, or none")
]


@router.get("", response_model=tuple[rows.DeviceRow, ...])
async def devices(
    request: Request, parts: Annotated[Parts, Depends(parts_of)], after: Cursor = None, limit: Limit = 200
) -> Response:
    """Every device with its holders. The header Link leads to the next page."""
    shown, more = page(parts.named(view.devices(parts.hub.snapshot)), lambda row: row.id, after, limit)
    return answer(tuple[rows.DeviceRow, ...], shown, headers=link(request, more))


@router.get("/{name:path}/memory", response_model=samples.MemoryOverTime)
async def memory(
    name: str,
    parts: Annotated[Parts, Depends(parts_of)],
    range_: Annotated[
        Range | None, Query(alias="range", description="back from now; 1h without a word")
    ] = None,
    from_s: Moment = None,
    to_s: Moment = None,
) -> Response:
    """Who held its memory over time, in at most 300 buckets, and how busy each model server was.

    Kept are looks of each second for a day, means of 10 s for 3 days, of 60 s for 30 days, of 600 s for ever.
    """
    asked, device_ = _asked(range_, from_s, to_s, parts.clock.wall_s()), _known(name, parts)
    rows = await parts.reader.memory(device_.id, asked)
    return answer(samples.MemoryOverTime, samples.over_time(device_, asked, rows))


@router.get("/{name:path}", response_model=rows.DeviceRow)
async def device(name: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """One device by its id or its short name."""
    known = _known(name, parts)
    (row,) = parts.named((device_row(known, parts.hub.snapshot),))
    return answer(rows.DeviceRow, row)


def _known(name: str, parts: Parts) -> Device:
    for found in parts.hub.snapshot.devices.values():
        if name in (found.id, found.name):
            return found
    raise NotFound(f"no device {name!r} is known. `headway status` lists them.", target=name)


def _asked(range_: Range | None, from_s: float | None, to_s: float | None, wall_s: float) -> samples.Span:
    if from_s is None and to_s is None:
        return samples.span(wall_s - RANGES_S[range_ or "1h"], wall_s, wall_s)
    if from_s is None or to_s is None or range_ is not None:
        raise Refused("invalid", "give `range`, or both from_s and to_s.")
    if to_s <= from_s:
        raise Refused("invalid", f"to_s ({to_s:g}) is not after from_s ({from_s:g}).")
    return samples.span(from_s, to_s, wall_s)
