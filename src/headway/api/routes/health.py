"""For programs that watch: the plain page, `/healthz`, `/readyz`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headway.api.auth import needs
from headway.api.parts import Parts, answer, parts_of
from headway.core import view

router = APIRouter(tags=["health"])

STUCK_AFTER_S = 5.0  # the loop turns at least once a second

PAGE = """\
Headway {version} shares the GPUs of this machine. Mode: {mode}.

{board}

Read on:  /api/v1/status  /api/v1/jobs  /api/v1/services  /api/v1/devices  /api/v1/history  /openapi.json
Stream:   /api/v1/events (server-sent events: it does not end by itself)
Change:   the command line, e.g. `headway status`, `headway add NAME`, `headway why NAME`
"""


def loop_age_s(parts: Parts) -> float:
    """Seconds since the loop last looked at the world."""
    return max(0.0, parts.clock.now_s() - parts.hub.snapshot.now_s)


@router.get("/", response_class=Response)
async def page(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """One plain text page."""
    shown = parts.overview()
    lines = [f"{row.kind} {row.name}: {row.why}" for row in (*shown.services, *shown.running, *shown.queued)]
    board = "\n".join(lines) or "Nothing is configured yet."
    text = PAGE.format(version=parts.version, mode=shown.mode, board=board)
    return Response(text, media_type="text/plain; charset=utf-8", headers={"Cache-Control": "no-store"})


@router.get("/healthz", openapi_extra=needs("open"))
async def healthz(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Is the loop turning? 503 when it has not for 5 s."""
    age_s = loop_age_s(parts)
    stuck = age_s > STUCK_AFTER_S
    body = {"status": "stuck" if stuck else "ok", "loop_age_s": round(age_s, 3), "rev": parts.hub.revision}
    return answer(dict[str, str | float | int], body, 503 if stuck else 200)


@router.get("/readyz")
async def readyz(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Can it do its whole work? 503 with the reasons when the loop, the store or a meter is in trouble."""
    troubles = [trouble.sentence for trouble in view.troubles(parts.hub.snapshot)]
    if loop_age_s(parts) > STUCK_AFTER_S:
        troubles.insert(0, f"the loop has not turned for {loop_age_s(parts):.0f} s")
    body = {"status": "ok" if not troubles else "not ready", "troubles": troubles}
    return answer(dict[str, str | list[str]], body, 503 if troubles else 200)
