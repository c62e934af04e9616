"""What of a log reaches a terminal: text, colours, and nothing that steers it, wherever a piece is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cli.log_text import OPEN_MAX, RESET, Shown

pytestmark = pytest.mark.core

SHOWN = {
    # name: (what was printed, what is shown, the same without colours)
    "plain text": ("loss 0.3\n", "loss 0.3\n", "loss 0.3\n"),
    "letters of all kinds": ("\u00fcber \u4e2d \U0001f600\tx", "\u00fcber \u4e2d \U0001f600\tx", "\u00fcber \u4e2d \U0001f600\tx"),
    "colours": ("\x1b[1;31mbad\x1b[0m", "\x1b[1;31mbad\x1b[0m", "bad"),
    "colours of 24 bit": ("\x1b[38:2::255:0:0mx", "\x1b[38:2::255:0:0mx", "x"),
    "a progress bar": ("\r10%\r20%", "\r10%\r20%", "\r10%\r20%"),
    "the cursor and clearing": ("\x1b[2J\x1b[Hx\x1b[3A\x1b[?25l", "x", "x"),
    "a private mode that ends like a colour": ("\x1b[>4;2mx", "x", "x"),
    "a title": ("\x1b]0;gone\x07x", "x", "x"),
    "the clipboard": ("\x1b]52;c;cm0gLXJm\x1b\\x", "x", "x"),
    "a device command": ("\x1bPq#0\x1b\\x", "x", "x"),
    "a reset of the terminal": ("\x1bcx\x1b(0y", "xy", "xy"),
    "a bell and backspaces": ("ab\x08\x07c\x7f", "abc", "abc"),
    "controls of eight bits": ("\x9b2Jx\x9d0;t\x9c", "2Jx0;t", "2Jx0;t"),
    "a title that never ends": ("\x1b]0;oops\nnext\n", "0;oops\nnext\n", "0;oops\nnext\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown(name: str) -> None:
    printed, shown, plain = SHOWN[name]
    assert Shown(True).text(printed) == shown
    assert Shown(False).text(printed) == plain


@pytest.mark.parametrize("name", SHOWN)
def test_a_piece_may_be_cut_anywhere(name: str) -> None:
    printed, shown, _ = SHOWN[name]
    data = printed.encode()
    for at in range(len(data) + 1):
        one = Shown(True)
        assert one.piece(data[:at]) + one.piece(data[at:]) == shown, at


@given(st.lists(st.text(alphabet="\x1b[]P0;m?2J\x07\\\n ax\x9b"), max_size=5))
def test_nothing_but_a_colour_begins_with_an_escape(pieces: list[str]) -> None:
    one = Shown(True)
    found = "".join(one.text(piece) for piece in pieces)
    for part in found.split("\x1b")[1:]:
        assert part.startswith("[") and part[1:].lstrip("0123456789;:").startswith("m")
    assert "\x1b" not in "".join(Shown(False).text(piece) for piece in pieces)


def test_a_terminal_gets_its_own_colour_back() -> None:
    one = Shown(True)
    one.text("\x1b[31mred")
    assert one.end() == RESET
    one.text("\x1b[0m")
    assert one.end() == ""
    assert Shown(False).end() == ""


def test_a_title_that_goes_on_for_ever_is_not_waited_for() -> None:
    one = Shown(True)
    assert one.text("\x1b]0;" + "x" * OPEN_MAX).endswith("xxx")
