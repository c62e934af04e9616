"""The built file itself: its size, that it needs nobody else, and that its policy fits it."""

import base64
import gzip
import hashlib
import re
from pathlib import Path

import pytest

from headway.api.manual import NOTICES, manual
from headway.api.typescript import types
from headway.api.web import FILE, built, headers
from headway.core.phrases import EVENTS
from tests.page.conftest import missing

pytestmark = pytest.mark.core
ROOT = Path(__file__).parents[2]


def test_its_types_are_those_of_the_api() -> None:
    assert (ROOT / "ui" / "src" / "api.ts").read_text() == types(), (
        "run: python -m headway.api.typescript > ui/src/api.ts"
    )


def test_what_the_history_calls_wrong_is_in_the_audit() -> None:
    codes = re.findall(r'^  "([a-z_.]+)",$', (ROOT / "ui" / "src" / "wrong.ts").read_text(), re.MULTILINE)
    assert len(codes) > 20 and set(codes) <= set(EVENTS)


def test_it_links_to_every_page_of_the_documentation() -> None:
    help_tab = (ROOT / "ui" / "src" / "tabs" / "Help.svelte").read_text()
    linked = set(
        re.findall(
            r'^    \["([a-z-]+)", "', help_tab.partition("DOCS")[2].partition("ELSEWHERE")[0], re.MULTILINE
        )
    )
    there = {name.removesuffix(".md") for name in manual()} - {"third-party", "agents"}
    assert linked == there and "help/agents.md" in help_tab and f"help/{NOTICES}" in help_tab


def test_it_is_small_and_loads_nothing() -> None:
    if (word := missing()) and not FILE.exists():
        pytest.skip(word)
    html = FILE.read_bytes()
    assert len(html) <= 300_000 and len(gzip.compress(html)) <= 100_000
    sources = re.findall(rb"""(?:src|href|url)\s*[=(]\s*["']?(https?:)?//[^"')\s]+""", html)
    assert sources == []
    assert b"style=" not in re.sub(rb"<script.*?</script>", b"", html, flags=re.DOTALL)
    assert (FILE.parent / "THIRD-PARTY.md").read_text().count("MIT") >= 1


def test_its_policy_allows_its_own_texts_and_nothing_else(tmp_path: Path) -> None:
    page = "<style>p{}</style><p onclick='x()'><script type='module'>let a = 1\n</script>"
    policy = headers(page)["Content-Security-Policy"]
    for kind, text in (("script", "let a = 1\n"), ("style", "p{}")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert built(tmp_path / "index.html") is None


def test_only_two_places_of_the_page_ask_past_the_one_that_hears_a_broken_answer() -> None:
    """A daemon that goes away may break an answer at its body too: see ui/src/state/ask.ts."""
    source = ROOT / "ui" / "src"
    asks = {
        path.name
        for path in source.rglob("*")
        if path.is_file() and re.search(r"\bfetch\(", path.read_text())
    }
    assert asks == {"ask.ts", "session.svelte.ts"}
