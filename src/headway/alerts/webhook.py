"""Alerts by a POST of JSON to an address of the user's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from headway.errors import AlertFailed

LIMIT_S = 30.0


class WebhookWay:
    """Implements ports.AlertWay. The address may hold a secret, so no message names it.

    Args:
        key_file: its content is sent as `Authorization: Bearer`; read anew each time. None: no such header.
    """

    name = "webhook"

    def __init__(
        self, http: aiohttp.ClientSession, url: str, key_file: str | None = None, limit_s: float = LIMIT_S
    ) -> None:
        self._http, self._url, self._key_file, self._limit_s = http, url, key_file, limit_s

    async def tell(self, facts: Mapping[str, Any]) -> None:
        """Raises: AlertFailed when nobody answers in time, or with another status than 2xx."""
        headers = {"Content-Type": "application/json"}
        if self._key_file is not None:
            headers["Authorization"] = f"Bearer {await self._key(self._key_file)}"
        body = json.dumps(dict(facts), default=str).encode()
        limit = aiohttp.ClientTimeout(total=self._limit_s)
        try:
            async with self._http.post(
                self._url, data=body, headers=headers, timeout=limit, allow_redirects=False
            ) as reply:
                status = reply.status
        except TimeoutError:
            raise AlertFailed(f"the webhook of [alerts] did not answer within {self._limit_s:g} s.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AlertFailed(
                f"the webhook of [alerts] cannot be reached ({type(error).__name__})."
            ) from error
        if not 200 <= status < 300:
            raise AlertFailed(f"the webhook of [alerts] answered {status}.")

    async def _key(self, file: str) -> str:
        try:
            return (await asyncio.to_thread(Path(file).read_text)).strip()
        except (OSError, ValueError) as error:
            raise AlertFailed(f"the key file of [alerts] cannot be read: {file}.") from error
