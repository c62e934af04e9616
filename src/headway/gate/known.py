"""Heads that were seen before: clients and servers send the same ones again and again, but for the length.

What was read of one is remembered under its bytes, without the digits of its Content-Length.
"""

from typing import Final, Generic, TypeVar

HEADS_KEPT, HEAD_KEPT_BYTES = 1024, 2048
_NAMES: Final = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
_VALUE_AT: Final = len(_NAMES[0])
_DIGITS_MAX: Final = 15

T = TypeVar("T")


def cut(head: bytes) -> tuple[bytes, bytes, int | None]:
    """A head without the digits of its first plainly written Content-Length, that line, and its number.

    Else the whole head, b"" and None.
    """
    at = head.find(_NAMES[0])
    if at < 0:
        at = head.find(_NAMES[1])
        if at < 0:
            return head, b"", None
    value = at + _VALUE_AT
    end = head.find(b"\r", value)
    digits = head[value:end]
    if not digits.isdigit() or end - value > _DIGITS_MAX:
        return head, b"", None
    return head[:value] + head[end:], head[at + 2 : end], int(digits)


class Known(Generic[T]):
    """A bounded memory of what heads mean; full, it begins anew.

    Whole heads and those that were cut are kept apart: `Content-Length: ` without digits is a head too, and a bad one.
    """

    __slots__ = ("cut", "whole")

    def __init__(self) -> None:
        self.cut: dict[bytes, T] = {}
        self.whole: dict[bytes, T] = {}

    def keep(self, key: bytes, value: T, *, cut: bool) -> None:
        """Remember it, unless the head is a long one."""
        if len(key) <= HEAD_KEPT_BYTES:
            kept = self.cut if cut else self.whole
            if len(kept) >= HEADS_KEPT:
                kept.clear()
            kept[key] = value
