"""The page, and for programs that watch: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from headway.api.auth import Peer, needs, peer_of
from headway.api.metrics import MEDIA, render
from headway.api.parts import Parts, answer, parts_of
from headway.api.troubles import STUCK_AFTER_S, loop_age_s, troubles_of
from headway.core import rows

router = APIRouter(tags=["health"])

PAGE = """\
Headway {version} shares the GPUs of this machine. Mode: {mode}.

{board}

Read on:  /api/v1/status  /api/v1/jobs  /api/v1/services  /api/v1/devices  /api/v1/history  /openapi.json  /metrics
Stream:   /api/v1/events (server-sent events: it does not end by itself)
Change:   the command line, e.g. `headway status`, `headway add NAME`, `headway why NAME`
"""
NO_PAGE = """
This installation has no web page. A wheel has one; a source tree makes it with node 20.19 or newer:
`cd ui && npm ci && npm run build`, or `pip install --force-reinstall --no-deps .` without HEADWAY_SKIP_UI.
"""


@dataclass(frozen=True, slots=True)
class Health:
    """Is the loop turning? `link` is about the gates: those that live, and those of them that speak with us."""

    status: Literal["ok", "stuck"]
    loop_age_s: float
    rev: int
    link: Literal["ok", "no_gate", "not_connected"]
    gates_living: int
    gates_connected: int
    version: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """`troubles` says what keeps it from its whole work."""

    status: Literal["ok", "not ready"]
    troubles: tuple[rows.Trouble, ...]


@router.get(
    "/",
    response_class=HTMLResponse,
    responses={200: {"content": {"text/plain": {}}, "description": "The page, or for programs a text."}},
    openapi_extra=needs("open"),
)
async def page(
    request: Request,
    parts: Annotated[Parts, Depends(parts_of)],
    peer: Annotated[Peer, Depends(peer_of)],
) -> Response:
    """The web page for who accepts `text/html`; it asks for the PIN where one is needed. Else the board as text."""
    if "text/html" in request.headers.get("accept", "") and parts.page is not None:
        return HTMLResponse(parts.page.html, headers={**parts.page.headers, "Vary": "Accept"})
    peer.check("look")
    shown = parts.overview()
    lines = [f"{row.kind} {row.name}: {row.why}" for row in (*shown.services, *shown.running, *shown.queued)]
    board = "\n".join(lines) or "Nothing is configured yet."
    text = PAGE.format(version=parts.version, mode=shown.mode, board=board)
    if parts.page is None:
        text += NO_PAGE
    return PlainTextResponse(text, headers={"Cache-Control": "no-store", "Vary": "Accept"})


@router.get(
    "/healthz", response_model=Health, responses={503: {"model": Health}}, openapi_extra=needs("open")
)
async def healthz(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """503 when the loop has not turned for 5 s: end this daemon, and start another."""
    age_s, pulse = loop_age_s(parts), parts.pulse()
    living, connected = pulse.gates_living, pulse.gates_connected
    link: Literal["ok", "no_gate", "not_connected"] = "ok"
    if not living <= connected or not living:
        link = "not_connected" if living else "no_gate"
    stuck = age_s > STUCK_AFTER_S
    body = Health(
        "stuck" if stuck else "ok",
        round(age_s, 3),
        parts.hub.revision,
        link,
        len(living),
        len(connected),
        parts.version,
    )
    return answer(Health, body, 503 if stuck else 200)


@router.get("/readyz", response_model=Readiness, responses={503: {"model": Readiness}})
async def readyz(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """503 with the reasons when the loop, the store, a meter or a gate is in trouble, or something is overdue."""
    troubles = tuple(troubles_of(parts))
    body = Readiness("not ready" if troubles else "ok", troubles)
    return answer(Readiness, body, 503 if troubles else 200)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """Figures of jobs, services, devices, turns and alerts for Prometheus. The gate has its own page of them."""
    return Response(render(parts), media_type=MEDIA, headers={"Cache-Control": "no-store"})
