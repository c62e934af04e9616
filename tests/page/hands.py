"""A person at the page: with the mouse, or with nothing but a keyboard."""

from typing import Literal

from playwright.sync_api import Locator

from tests.page.visit import LIMIT_MS, Visit

By = Literal["mouse", "keyboard"]
TABS_MAX = 300  # presses of Tab until everything of a page was reached once

WAY = """one => {
  const at = document.activeElement
  if (at === one) return "here"
  return at !== document.body && at.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING ? "back" : "on"
}"""


class Hands:
    """Does one thing in either way. The keyboard walks to what it wants by Tab, as far as that is from where it is."""

    def __init__(self, one: Visit, by: By) -> None:
        self.one, self.page, self.by = one, one.page, by

    def press(self, target: Locator) -> None:
        """A button, a link, a menu."""
        if self.by == "mouse":
            target.click()
            return
        self.reach(target)
        self.page.keyboard.press("Enter")

    def tick(self, target: Locator) -> None:
        """A checkbox, or one of several choices."""
        if self.by == "mouse":
            target.click()
        elif target.get_attribute("type") == "radio":
            group = target.locator("xpath=ancestor::fieldset").locator("input[type=radio]")
            self.reach(group.locator("visible=true").and_(self.page.locator("input:checked")))
            while not target.is_checked():
                self.page.keyboard.press("ArrowDown")
        else:
            self.reach(target)
            self.page.keyboard.press("Space")

    def write(self, target: Locator, text: str) -> None:
        """Words into a field, in place of what is there."""
        if self.by == "mouse":
            target.click()
            target.fill(text)
            return
        self.reach(target)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)

    def choose(self, target: Locator, text: str) -> None:
        """One of a list."""
        if self.by == "mouse":
            target.select_option(label=text)
            return
        self.reach(target)
        self.page.keyboard.press("Home")
        for _ in range(target.locator("option").count()):
            if target.evaluate("one => one.selectedOptions[0].label") == text:
                return
            self.page.keyboard.press("ArrowDown")
        raise AssertionError(f"no option is called {text}")

    def open(self, name: str) -> Locator:
        """A job by its name, from the list of the Jobs tab. Returns its details."""
        if "#/jobs" not in self.page.url:
            self.press(self.page.get_by_role("link", name="Jobs", exact=True))
        row = self.page.locator("tbody tr", has_text=name)
        row.wait_for()
        if self.by == "mouse":
            row.get_by_role("link", name=name).click()
        else:
            self.walk(row)
            self.page.keyboard.press("Enter")
        details = self.page.get_by_role("region", name="Details")
        details.get_by_role("heading", name=name).wait_for()
        return details

    def mark(self, name: str) -> None:
        """Choose a job in the list, for one verb on many."""
        row = self.page.locator("tbody tr", has_text=name)
        row.wait_for()
        if self.by == "mouse":
            row.get_by_role("checkbox").check()
            return
        self.walk(row)
        self.page.keyboard.press("Space")

    def walk(self, row: Locator) -> None:
        """To a row of the list, as its keys say: up to the first, then j until it is there."""
        self.reach(self.page.locator("tbody tr[tabindex='0']"))
        before = None
        while (at := self._here()) != before:
            before = at
            self.page.keyboard.press("k")
        for _ in range(TABS_MAX):
            if row.evaluate("one => one === document.activeElement"):
                return
            self.page.keyboard.press("j")
        raise AssertionError(f"j never came to {row}")

    def _here(self) -> str:
        found: str = self.page.evaluate("document.activeElement.id")
        return found

    def reach(self, target: Locator) -> None:
        """Press Tab, or Shift and Tab where it lies behind, until it has the focus."""
        target.wait_for(timeout=LIMIT_MS)
        for _ in range(TABS_MAX):
            way = target.evaluate(WAY)
            if way == "here":
                return
            self.page.keyboard.press("Shift+Tab" if way == "back" else "Tab")
        raise AssertionError(f"no Tab comes to {target}")
