"""Requests that wait, on the card of their model server."""

from collections.abc import Callable

import pytest

from tests.e2e.stack import Stack
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

Come = Callable[..., Visit]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_request_that_waits_is_shown_with_its_place_and_why(
    world: Stack, visit: Come, theme: str
) -> None:
    """A lease holds the device, so that `chat` cannot come back before it is given back."""
    asked = {"name": "notebook", "gpu": "20GiB", "ttl_s": 600, "priority": 90}
    lease = world.post("/api/v1/leases", asked)["id"]
    world.wait(lambda: world.api(f"/api/v1/leases/{lease}")["state"] == "granted", "the grant")
    sent = [world.send("chat") for _ in range(2)]
    one = visit(color_scheme=theme)
    held = one.page.get_by_role("region", name="Requests that wait for chat").locator("li")
    held.nth(1).wait_for()
    first, second = held.all_inner_texts()
    assert first.startswith("1.") and "chat" in first and "for " in first
    assert "notebook" in first and "at most" in first, "who holds the device, and how long it waits at most"
    assert second.startswith("2.")
    assert one.violations() == []
    world.client.delete(f"/api/v1/leases/{lease}")
    assert [answer.result(60).status for answer in sent] == [200, 200]
    held.first.wait_for(state="detached")
