"""The control API as one ASGI application. Only async routes; every answer is bytes when it leaves a route."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from headway.api import problems
from headway.api.auth import Asgi
from headway.api.describe import describe, queries
from headway.api.door import Door
from headway.api.once import Once
from headway.api.parts import Parts
from headway.api.routes import (
    access,
    alerts,
    claims,
    config,
    devices,
    health,
    history,
    holders,
    jobs,
    leases,
    manual,
    many,
    queue,
    recipes,
    servers,
    services,
    status,
    waiting,
    windows,
)

ROUTERS = (
    health,
    status,
    waiting,
    devices,
    services,
    servers,
    jobs,
    recipes,
    leases,
    claims,
    holders,
    many,
    queue,
    windows,
    config,
    history,
    alerts,
    access,
    manual,
)


def create_app(parts: Parts) -> Asgi:
    """The application for both sockets."""
    app = make_app(parts.version)
    app.state.parts = parts
    once = Once(app, parts.access.keeper, parts.clock)
    return Door(once, routes_of(ROUTERS), parts.access, queries(app.openapi()), parts.allowed_hosts)


def make_app(version: str) -> FastAPI:
    """Every route, described; `/docs` is left out because its page comes from other people's servers."""
    app = FastAPI(
        title="Headway",
        version=version,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        description="Who holds the GPUs of this machine, who waits, and why.",
    )
    problems.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    describe(app)
    return app


def routes_of(modules: Iterable[Any]) -> list[APIRoute]:
    """Their routes; Door lets nothing else through to what they do."""
    return [route for module in modules for route in module.router.routes if isinstance(route, APIRoute)]
