"""What a program printed, for a terminal: its text and its colours, and nothing else that would steer it."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor, clearing
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # a title, the clipboard, a link and the like
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # all but tab and the ends of lines, which progress bars use
)
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
OPEN = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)\Z"
)  # may go on in the next piece
OPEN_MAX = 4096  # signs that are waited on; a sequence that is longer is none
RESET = "\x1b[0m"


class Shown:
    """A log piece by piece.

    Args:
        colours: False: without them, too.
    """

    def __init__(self, colours: bool) -> None:
        self._colours, self._painted, self._rest = colours, False, ""
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def text(self, text: str) -> str:
        """The next piece, without the beginning of a sequence that it ends in: that is shown with the next."""
        text = self._rest + text
        cut = OPEN.search(text)
        at = cut.start() if cut is not None and len(text) - cut.start() <= OPEN_MAX else len(text)
        self._rest = text[at:]
        return SEQUENCE.sub(self._kept, text[:at])

    def piece(self, data: bytes) -> str:
        """The same of bytes in UTF-8, wherever they were cut."""
        return self.text(self._decoder.decode(data))

    def end(self) -> str:
        """What gives the terminal its own colour back."""
        return RESET if self._painted else ""

    def _kept(self, found: re.Match[str]) -> str:
        if not (self._colours and COLOUR.fullmatch(found[0])):
            return ""
        self._painted = found[0] not in (RESET, "\x1b[m")
        return found[0]
