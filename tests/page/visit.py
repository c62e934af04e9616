"""One tab of a browser that looks at a Headway."""

from collections.abc import Mapping
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from tests.page.world import PIN

LIMIT_MS = 60_000
AWAY = "net::ERR_"


class Visit:
    """The page, and what the browser complained of while it was open."""

    def __init__(self, browser: Browser, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self.complaints: list[str] = []
        self.may_be_away = False  # a daemon that is being started again: the browser logs each try
        self.refused: set[int] = set()  # answers that the test asks for; the browser logs them too
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.context.set_default_timeout(LIMIT_MS)
        self.page: Page = self.context.new_page()
        self.watch(self.page)
        self.page.goto(f"{url}/")
        self.live()

    def watch(self, page: Page) -> None:
        """Take note of every error in its console."""
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        known = self.may_be_away and AWAY in message.text
        if not known and not any(f"status of {code}" in message.text for code in self.refused):
            self.complaints.append(message.text)

    def live(self) -> None:
        """Wait until the stream has told everything."""
        self.page.locator("[data-link=connected]").wait_for()
        self.page.locator("main h2").first.wait_for(state="attached")

    def open_tab(self, path: str) -> None:
        """Go to `#/PATH` without loading the page again."""
        self.page.evaluate("path => { location.hash = '#/' + path }", path)

    def unlock(self) -> None:
        """Give the PIN by the button of the page."""
        self.page.get_by_role("button", name="Unlock").click()
        self.give_pin(PIN)

    def give_pin(self, pin: str) -> None:
        """Into the dialog that is open."""
        dialog = self.page.get_by_role("dialog")
        expect(dialog.get_by_label("PIN")).to_have_value("")  # the one before was answered, and is taken away
        dialog.get_by_label("PIN").fill(pin)
        dialog.get_by_role("button", name="Let me in").click()

    def said(self, text: str) -> Locator:
        """A note of what became of a change."""
        return self.page.locator(".note", has_text=text)

    def violations(self) -> list[str]:
        """What axe finds, in words."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
            for one in found
            for node in one["nodes"]
        ]

    def close(self) -> None:
        """End the tab."""
        self.context.close()
