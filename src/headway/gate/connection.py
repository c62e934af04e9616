"""The bytes of one client connection: sending, why reading is stopped, and whether the client takes what it's sent."""

import asyncio

from headway.gate.upstream import Transport

SEND_QUIET_S = 30.0  # a client that takes no byte of its answer for this long is gone


class Takes:
    """Whether a client takes its answer at all: one that does not keeps a model from those who wait for the memory."""

    __slots__ = ("_left", "_since_s")

    def __init__(self) -> None:
        self._left: int | None = None  # bytes that it has not taken
        self._since_s = 0.0  # since when not one less

    def nothing(self, full: bool, transport: Transport, now_s: float) -> bool:
        """Has it taken no byte for SEND_QUIET_S, though some wait for it?"""
        if not full:
            self._left = None
            return False
        left = transport.get_write_buffer_size()
        if self._left is None or left < self._left:
            self._left, self._since_s = left, now_s
        return now_s - self._since_s >= SEND_QUIET_S


class Connection(asyncio.Protocol):
    """One connection. It is read while no reason to stop is left. `gone`: it was lost."""

    __slots__ = ("_paused", "gone", "transport")

    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.gone = False
        self._paused: set[str] = set()

    def write(self, data: bytes) -> None:
        """Send to the client."""
        if self.transport is not None and not self.gone and not self.transport.is_closing():
            self.transport.write(data)

    def pause(self, why: str) -> None:
        """Stop reading for this reason."""
        if self.transport is not None and not self._paused and not self.gone:
            self.transport.pause_reading()
        self._paused.add(why)

    def unpause(self, why: str) -> None:
        """This reason is over."""
        if why in self._paused:
            self._paused.discard(why)
            if (
                self.transport is not None
                and not self._paused
                and not self.gone
                and not self.transport.is_closing()
            ):
                self.transport.resume_reading()

    def unpause_all(self) -> None:
        """Every reason is over."""
        for why in list(self._paused):
            self.unpause(why)

    @property
    def paused(self) -> bool:
        """Whether the end of the connection would go unnoticed by reading."""
        return bool(self._paused)
