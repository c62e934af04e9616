"""A config for people and programs to read: everything but what may be a secret."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from headway.config.schema import Config

HIDDEN = "(hidden)"


def redacted(config: Config) -> dict[str, Any]:
    """As JSON, with its defaults. Of variables the names are shown, of a webhook its host: some have a key as path."""
    shown = config.model_dump(mode="json", exclude_none=True)
    for holder in (*shown["service"].values(), *shown["job"].values()):
        holder["env"] = dict.fromkeys(holder["env"], HIDDEN)
    shown["vars"] = dict.fromkeys(shown["vars"], HIDDEN)
    if (address := config.alerts.webhook) is not None:
        said = urlsplit(address)
        shown["alerts"]["webhook"] = f"{said.scheme}://{said.netloc.rpartition('@')[2]}/{HIDDEN}"
    return shown
