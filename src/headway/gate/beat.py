"""The gate's one beat: what must be looked at now and then, and how late the loop is."""

from typing import TYPE_CHECKING

from headway.gate import gone

if TYPE_CHECKING:
    from headway.gate.hub import Hub

BEAT_S = 0.5
LIMITS_EVERY_BEATS = 4


class Beat:
    """Runs twice a second for as long as its loop."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._next_s = 0.0
        self._beats = 0
        self._worst_lag_s = 0.0

    def start(self) -> None:
        """Begin."""
        self._next_s = self._hub.now() + BEAT_S
        self._hub.loop.call_at(self._next_s, self._run)

    def lag_ms(self) -> float:
        """The worst lateness since this was last asked, in milliseconds."""
        lag_s, self._worst_lag_s = self._worst_lag_s, 0.0
        return round(lag_s * 1000, 3)

    def _run(self) -> None:
        hub, now_s = self._hub, self._hub.now()
        self._worst_lag_s = max(self._worst_lag_s, now_s - self._next_s)
        self._next_s = now_s + BEAT_S
        hub.loop.call_at(self._next_s, self._run)
        self._beats += 1
        for exchange in list(hub.waiting):
            exchange.beat(now_s)
        for tunnel in list(hub.tunnels):
            tunnel.rest(now_s)
        for transport in gone.find([client.transport for client in hub.clients if client.paused]):
            transport.abort()
        if self._beats % LIMITS_EVERY_BEATS == 0:
            hub.pool.sweep(now_s)
            for client in list(hub.clients):
                client.check_time(now_s)
