"""What a model server costs and says of itself, on its card."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.stack import Stack
from tests.e2e.tables import config
from tests.e2e.test_vllm import vllm
from tests.page.visit import Visit
from tests.page.world import running

pytestmark = pytest.mark.e2e


@pytest.fixture
def engine(browser: Browser) -> Iterator[Stack]:
    """A Headway with a server that tells its figures, as vLLM does."""
    with running(config(vllm("chat"))) as headway:
        yield headway


def test_a_card_shows_what_was_measured_and_nothing_else(engine: Stack, browser: Browser) -> None:
    one = Visit(browser, engine.api_url, {})
    try:
        card = one.page.get_by_role("article", name="Model server chat")
        card.get_by_text("stopped").first.wait_for()
        for name in ("tokens/s", "first token after", "takes to wake", "mean wait"):
            assert card.get_by_text(name).count() == 0, "nothing was measured yet"
        engine.ask("chat")
        engine.post("/api/v1/services/chat/sleep")
        engine.wait_service("chat", "asleep")
        engine.ask("chat")
        figures = (
            "first token after",
            "KV cache in use",
            "from the prefix cache",
            "takes to sleep",
            "takes to wake",
        )
        for name in (*figures, "takes to start", "mean wait"):
            card.get_by_text(name).first.wait_for()
        words = card.inner_text()
        assert "13 %" in words and "80 %" in words and "of at most" in words
        assert one.violations() == []
    finally:
        print(one.page.locator("main").inner_text())
        one.close()
    assert not one.complaints
