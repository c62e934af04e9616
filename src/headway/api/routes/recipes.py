"""What the config can queue by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from headway.api.pages import Cursor, Limit, link, page
from headway.api.parts import Parts, answer, parts_of

router = APIRouter(prefix="/api/v1/recipes", tags=["jobs"])


@dataclass(frozen=True, slots=True)
class RecipeRow:
    """One `[job.NAME]` table. `need_bytes` is for each of its `gpus`; None: unknown, so it gets them alone."""

    name: str
    goal: str | None
    gpus: int
    need_bytes: int | None
    placement: str
    priority: int
    tags: tuple[str, ...]


@router.get("", response_model=tuple[RecipeRow, ...])
async def recipes(
    request: Request, parts: Annotated[Parts, Depends(parts_of)], after: Cursor = None, limit: Limit = 200
) -> Response:
    """What `POST /api/v1/jobs` can queue by name, by that name. The header Link leads to the next page."""
    found = [
        RecipeRow(
            name=name,
            goal=spec.goal,
            gpus=spec.count,
            need_bytes=spec.forms[0].need_bytes,
            placement=spec.placement,
            priority=spec.priority,
            tags=spec.tags,
        )
        for name, spec in sorted(parts.recipes.items())
    ]
    shown, more = page(found, lambda row: row.name, after, limit)
    return answer(tuple[RecipeRow, ...], shown, headers=link(request, more))
