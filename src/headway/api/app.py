"""The control API as one ASGI application. Only async routes; every answer is bytes when it leaves a route."""

from __future__ import annotations

from fastapi import FastAPI

from headway.api import problems
from headway.api.auth import Asgi, Door
from headway.api.parts import Parts
from headway.api.routes import (
    claims,
    devices,
    health,
    history,
    holders,
    jobs,
    leases,
    many,
    queue,
    services,
    status,
)

ROUTERS = (health, status, devices, services, jobs, leases, claims, holders, many, queue, history)


def create_app(parts: Parts) -> Asgi:
    """The application for both sockets; `/docs` is left out because its page comes from other people's servers."""
    app = FastAPI(
        title="Headway",
        version=parts.version,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        description="Who holds the GPUs of this machine, who waits, and why.",
    )
    app.state.parts = parts
    problems.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    return Door(app, parts.allowed_hosts)
