"""The link's connections on the false machine: bytes in order, late, in pieces, and cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.sim.loop import Life

if TYPE_CHECKING:
    from headway.sim.world import World

DELAY_S = 0.0005


class End:
    """One end of a connection: who it belongs to, and what it does with bytes and with the end of them."""

    def __init__(self, life: Life, data: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self.life, self.data, self.lost = life, data, lost


class Wire:
    """A connection between a gate and a daemon. What was sent before a cut may still arrive."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.open = True
        self.stopped_until_s = 0.0
        self._busy_s: dict[int, float] = {}
        self._under_way: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self.ends: tuple[End, End] | None = None

    def send(self, data: bytes, to: int) -> None:
        """Bytes for end 0 (gate) or 1 (daemon)."""
        if not (self.open and data):
            return
        cut = self._world.chance.randrange(len(data)) if self._world.chance.random() < 0.02 else 0
        for piece in (data[:cut], data[cut:]):
            if piece:
                self._deliver(piece, to)

    def _deliver(self, piece: bytes, to: int) -> None:
        assert self.ends is not None
        end, now_s = self.ends[to], self._world.loop.now_s
        at_s = max(now_s + DELAY_S, self._busy_s.get(to, 0.0), self.stopped_until_s)
        self._busy_s[to] = at_s
        under_way = self._under_way[to]
        under_way.append(piece)

        def arrive() -> None:
            next_piece = under_way.popleft()  # of timers for one instant any may be the first
            if self.open:
                end.data(next_piece)

        self._world.loop.later(at_s - now_s, arrive, life=end.life)

    def cut(self) -> None:
        """Both ends see it; what is under way is lost."""
        if not self.open or self.ends is None:
            return
        self.open = False
        for end in self.ends:
            self._world.loop.later(DELAY_S, end.lost, life=end.life)
