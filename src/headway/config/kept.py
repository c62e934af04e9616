"""The last config that was in force, beside the database: a part that ends and starts again goes on with it while the
file has problems."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from headway.config.load import load
from headway.config.schema import Config
from headway.errors import ConfigInvalid


def keep(config: Config, place: Path) -> None:
    """Write it down, for its user alone. A disk that is full keeps the one before."""
    new = place.with_name(f".{place.name}.{os.getpid()}")
    # with its defaults: some are paths beside the file
    text = config.model_dump_json(exclude_none=True).encode()
    with suppress(OSError):
        if place.exists() and place.read_bytes() == text:
            return
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(text)
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)  # a start on a full disk is tried again and again


def loaded(file: Path, place: Path, again: bool) -> tuple[Config, list[str]]:
    """The config to begin with, and the problems of the file if that is not the file's.

    Args:
        place: where the last one in force is.
        again: it began before, so the file may be in the middle of an edit.

    Raises:
        ConfigInvalid: the file has problems, and there is no other to go on with.
    """
    try:
        return load(file), []
    except ConfigInvalid as error:
        before = _kept(place) if again else None
        if before is None:
            raise
        return before, error.problems


def _kept(place: Path) -> Config | None:
    """None: there is none that this version can read."""
    try:
        return Config.model_validate(json.loads(place.read_bytes()))
    except (OSError, ValueError, RecursionError, ValidationError):
        return None
