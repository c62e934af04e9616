"""Where one request goes: to a service, to an answer of the gate's own, or nowhere. Pure.

Only the gate's `holding` forwards, holds or refuses a request that goes to a service; here it's only named.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from headway.core import paths
from headway.core.wire import Service, Table

UPSTREAM = "/upstream/"


@dataclass(frozen=True, slots=True)
class To:
    """Send to `service` as `path`. `demand`: may wake it and counts as use. `local`: the gate's own answer instead,
    for a probe while the service is not open. `asleep`: its server answers that while it sleeps."""

    service: str
    demand: bool
    path: str
    local: paths.Kind | None = None
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class Local:
    """Answered by the gate: `kind` is one of paths.LOCAL; `service` limits the answer to one service."""

    kind: paths.Kind
    service: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answered with an error. `code` is stable; `status` is the HTTP status."""

    code: str
    status: int
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """A request line after the `/upstream/SERVICE` prefix: the service it is bound to, if any, and the rest."""

    service: str | None
    path: str


@dataclass(frozen=True, slots=True)
class Routes:
    """The table, ready to be asked: every model name with its service."""

    services: Mapping[str, Service]
    by_name: Mapping[str, str]
    default: str | None
    extra: tuple[tuple[str, str], ...]


def prepare(table: Table) -> Routes:
    """Index a table. A name that two services answer for belongs to the first in name order."""
    by_name: dict[str, str] = {}
    for key in sorted(table.services):
        row = table.services[key]
        for name in (key, *row.names):
            by_name.setdefault(name, key)
    for name, key in list(by_name.items()):  # Ollama: `x` and `x:latest` are one name
        by_name.setdefault(
            name.removesuffix(":latest") if name.endswith(":latest") else f"{name}:latest", key
        )
    only = next(iter(table.services)) if len(table.services) == 1 else None
    extra = tuple((route.method, route.path) for route in table.routes)
    return Routes(table.services, by_name, table.default or only, extra)


def locate(routes: Routes, path: str, fixed: str | None = None) -> Place:
    """Bind a path to a service: by the port it came to (`fixed`), else by its `/upstream/SERVICE` prefix.

    The prefix counts on the front door only; on a service's own port it is part of the path.
    """
    if fixed is not None:
        return Place(fixed, path)
    if path.startswith(UPSTREAM):
        line, mark, query = path[len(UPSTREAM) :].partition("?")
        name, slash, rest = line.partition("/")
        return Place(unquote(name), f"/{rest}{mark}{query}" if slash or query else "/")
    return Place(None, path)


def route(
    routes: Routes, method: str, path: str, model: str | None, fixed: str | None = None
) -> To | Local | Refuse:
    """Say where a request goes.

    Args:
        method: as sent.
        path: as sent, query included.
        model: the model that its body or query names; None: it names none.
        fixed: the service of the port it came to; None: the front door.
    """
    place = locate(routes, path, fixed)
    row = routes.services.get(place.service) if place.service is not None else None
    if place.service is not None and row is None:
        return Refuse("service_unknown", 404, {"service": place.service, "known": sorted(routes.services)})
    kind = paths.kind_of(method, place.path, routes.extra, row.allow if row is not None else ())
    if row is not None:
        return _to_fixed(row, kind, method, place.path, model)
    return _front_door(routes, method, place.path, kind, model)


def _to_fixed(row: Service, kind: paths.Kind, method: str, path: str, model: str | None) -> To | Refuse:
    if kind == "control":
        return Refuse("control_route", 403, {"service": row.name, "path": path})
    if kind == "inference":
        if model is not None and row.model is not None and not _answers(row, model):
            return _unknown_model(model, {row.name: row})
        return To(row.name, True, path)
    own = kind in paths.LOCAL and kind != "root"  # its first page is the server's: nobody else can answer it
    return To(row.name, False, path, kind if own else None, paths.is_probe(method, path, row.probes))


def _front_door(
    routes: Routes, method: str, path: str, kind: paths.Kind, model: str | None
) -> To | Local | Refuse:
    if kind == "model":
        return Local("model", None, paths.bare(paths.normal(path)).removeprefix("/models/"))
    if kind in paths.LOCAL:
        return Local(kind)
    if model is not None and model not in routes.by_name:
        return _unknown_model(model, routes.services)
    service = routes.by_name[model] if model is not None else routes.default
    if service is None or service not in routes.services:
        if kind == "inference":
            return Refuse("model_required", 400, {"param": "model", "known": sorted(routes.by_name)})
        if kind == "control":
            return Refuse("control_route", 403, {"path": path})
        return Refuse("route_unknown", 404, {"path": path})
    row = routes.services[service]
    if kind == "control" and paths.kind_of(method, path, routes.extra, row.allow) == "control":
        return Refuse("control_route", 403, {"service": service, "path": path})
    return To(service, kind == "inference", path, asleep=paths.is_probe(method, path, row.probes))


def _answers(row: Service, model: str) -> bool:
    known = (row.name, row.model, *row.names)
    return model in known or f"{model}:latest" in known or model.removesuffix(":latest") in known


def _unknown_model(model: str, services: Mapping[str, Service]) -> Refuse:
    known = sorted({name for row in services.values() for name in (row.names or (row.name,))})
    return Refuse("model_not_found", 404, {"model": model, "known": known, "param": "model"})
