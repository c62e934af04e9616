"""Heads that were seen before: clients and servers send the same ones again and again, but for the length.

What was read of one is remembered under its bytes, without the digits of its Content-Length.
"""

from typing import Final, Generic, TypeVar

HEADS_KEPT, HEAD_KEPT_BYTES = 1024, 2048
_NAMES: Final = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
NAME_BYTES: Final = len(b"Content-Length: ")
_DIGITS_MAX: Final = 15

T = TypeVar("T")


def cut(head: bytes) -> tuple[bytes, bytes]:
    """A head without the digits of its first plainly written Content-Length, and that; else the whole head, and b""."""
    at = head.find(_NAMES[0])
    if at < 0:
        at = head.find(_NAMES[1])
        if at < 0:
            return head, b""
    value = at + NAME_BYTES + 2
    end = head.find(b"\r", value)
    if not head[value:end].isdigit() or end - value > _DIGITS_MAX:
        return head, b""
    return head[:value] + head[end:], head[at + 2 : end]


def length_in(row: bytes) -> int | None:
    """The length that such a header line says; None for no line."""
    return int(row[NAME_BYTES:]) if row else None


class Known(Generic[T]):
    """A bounded memory of what heads mean; full, it begins anew.

    Whole heads and those that were cut are kept apart: `Content-Length: ` without digits is a head too, and a bad one.
    """

    __slots__ = ("_cut", "_whole")

    def __init__(self) -> None:
        self._cut: dict[bytes, T] = {}
        self._whole: dict[bytes, T] = {}

    def get(self, key: bytes, row: bytes) -> T | None:
        """What was kept for a head as `cut` returned it."""
        return (self._cut if row else self._whole).get(key)

    def keep(self, key: bytes, row: bytes, value: T) -> None:
        """Remember it, unless the head is a long one."""
        if len(key) <= HEAD_KEPT_BYTES:
            kept = self._cut if row else self._whole
            if len(kept) >= HEADS_KEPT:
                kept.clear()
            kept[key] = value
