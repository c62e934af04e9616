"""Which model servers run on this machine, found by their routes. Asks nothing that wakes a model or costs it work."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from headway.host.linux_net import LISTEN, REACHED, listener_words
from headway.ports import FoundServer

USUAL = {8000: "vllm", 30000: "sglang", 8080: "llamacpp", 11434: "ollama", 8188: "comfyui", 1234: "lmstudio"}
NAMED = ("vllm", "sglang", "llama", "ollama", "comfy", "lmstudio", "lm-studio")  # in a command line
LIMIT_S = 2.0
BODY_MAX_BYTES = 1 << 20
OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "library": "ollama"}
Ask = Callable[[str], Any]


def find_servers(more: Iterable[int] = (), without: Collection[int] = ()) -> list[FoundServer]:
    """Look at the usual ports, at those of programs that are named like a model server, and at `more`.

    Args:
        without: ports that are never asked.
    """
    usual = (p for p in listening_ports() if p not in without and (p in USUAL or _named(p)))
    asked = sorted({*usual, *more})
    return [found for port in asked if (found := identify(port)) is not None]


def identify(port: int) -> FoundServer | None:
    """What answers on 127.0.0.1:`port`; None: nothing that is known as a model server."""

    def ask(path: str) -> Any:
        return get_json(port, path)

    for look in (_by_owner, _ollama, _lmstudio, _comfyui):
        if (found := look(ask)) is not None:
            kind, models = found
            return FoundServer(kind=kind, url=f"http://127.0.0.1:{port}", models=models)
    return None


def _by_owner(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    """Servers that say in their list of models who they are; any other that has such a list is `openai`."""
    cards = _cards(ask("/v1/models"))
    if cards is None or (_names(ask("/api/tags"), "models", "name") and not _llamacpp(ask)):
        return None
    owner = next((str(card.get("owned_by")) for card in cards), "")
    kind = OWNERS.get(owner)
    if kind is None and (_is_lmstudio(ask) or owner == "organization_owner"):
        return None
    kind = kind or ("llamacpp" if _llamacpp(ask) else "openai")
    return kind, tuple(str(card["id"]) for card in cards if card.get("id"))


def _llamacpp(ask: Ask) -> bool:
    props = ask("/props")
    return isinstance(props, dict) and "default_generation_settings" in props


def _ollama(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    version, models = ask("/api/version"), _names(ask("/api/tags"), "models", "name")
    return (
        ("ollama", models)
        if isinstance(version, dict) and "version" in version and models is not None
        else None
    )


def _is_lmstudio(ask: Ask) -> bool:
    return (
        _cards(ask("/api/v0/models")) is not None
        or _names(ask("/api/v1/models"), "models", "key") is not None
    )


def _lmstudio(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    cards = _cards(ask("/api/v0/models"))
    if cards is not None:
        return "lmstudio", tuple(str(card["id"]) for card in cards if card.get("id"))
    models = _names(ask("/api/v1/models"), "models", "key")
    return ("lmstudio", models) if models is not None else None


def _comfyui(ask: Ask) -> tuple[str, tuple[str, ...]] | None:
    stats = ask("/system_stats")
    return ("comfyui", ()) if isinstance(stats, dict) and isinstance(stats.get("system"), dict) else None


def _cards(answer: Any) -> list[dict[str, Any]] | None:
    data = answer.get("data") if isinstance(answer, dict) else None
    return [card for card in data if isinstance(card, dict)] if isinstance(data, list) else None


def _names(answer: Any, table: str, key: str) -> tuple[str, ...] | None:
    rows = answer.get(table) if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and key in row for row in rows):
        return None
    return tuple(str(row[key]) for row in rows)


def get_json(port: int, path: str) -> Any:
    """What a GET there answers; None: nothing, not 200, or no JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        return json.loads(answer.read(BODY_MAX_BYTES)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def listening_ports() -> Iterator[int]:
    """Every TCP port that a connection to 127.0.0.1 can reach."""
    reached = {address for group in REACHED for address in group}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):  # a kernel without IPv6
            continue
        with open(table) as file:
            for line in list(file)[1:]:
                fields = line.split()
                if fields[3] != LISTEN:
                    break  # listeners come first
                address, _, number = fields[1].partition(":")
                if address in reached:
                    yield int(number, 16)


def _named(port: int) -> bool:
    words = (listener_words(port) or "").lower()
    return any(name in words for name in NAMED)
