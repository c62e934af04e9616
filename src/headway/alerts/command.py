"""Alerts by a command of the user's: facts as HEADWAY_* variables and as JSON on its standard input."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headway.errors import AlertFailed

LIMIT_S = 30.0


class CommandWay:
    """Implements ports.AlertWay."""

    name = "command"

    def __init__(self, argv: tuple[str, ...], limit_s: float = LIMIT_S) -> None:
        self._argv, self._limit_s = argv, limit_s

    async def tell(self, facts: Mapping[str, Any]) -> None:
        """Run it once. Raises: AlertFailed when it cannot start, takes too long, or ends with another code than 0."""
        env = {f"HEADWAY_{name.upper()}": _words(value) for name, value in facts.items()}
        try:
            child = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, **env},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a word with a NUL in it
            raise AlertFailed(f"the command of [alerts] cannot be started: {error}.") from error
        try:
            async with asyncio.timeout(self._limit_s):
                await child.communicate(json.dumps(dict(facts), default=str).encode())
        except TimeoutError:
            raise AlertFailed(f"the command of [alerts] took longer than {self._limit_s:g} s.") from None
        finally:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # what it started ends with it
                await child.wait()
        if child.returncode:
            raise AlertFailed(f"the command of [alerts] ended with code {child.returncode}.")


def _words(value: Any) -> str:
    """A fact as a variable: several in lines."""
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    return "" if value is None else str(value)
