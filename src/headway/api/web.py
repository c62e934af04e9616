"""The built page: one HTML file beside this package, and the policy that lets just its own texts run."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import headway

FILE = Path(headway.__file__).parent / "web" / "index.html"
_INLINE = re.compile(r"<(script|style)\b[^>]*>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    html: bytes
    headers: Mapping[str, str]


def built(file: Path = FILE) -> Page | None:
    """The page as it is now. None: this installation has none (HEADWAY_SKIP_UI=1, or a source tree without it)."""
    try:
        html = file.read_bytes()
    except FileNotFoundError:
        return None
    return Page(html, headers(html.decode()))


def headers(html: str) -> dict[str, str]:
    """What a browser is told of a page of ours: its own scripts and styles, by hash, and this daemon; nothing else."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    policy = {
        "default-src": ["'none'"],
        "script-src": hashes["script"] or ["'none'"],
        "style-src": hashes["style"] or ["'none'"],
        "img-src": ["data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
    return {
        "Cache-Control": "no-store",
        "Content-Security-Policy": "; ".join(f"{name} {' '.join(words)}" for name, words in policy.items()),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
