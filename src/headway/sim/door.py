"""How people on the false machine reach the daemon: the API, and its config file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headway.config.pauses import shipped
from headway.core.commands import Configure
from headway.core.configs import Proposed
from headway.daemon.daemon import Settings
from headway.sim.daemons import Answered

if TYPE_CHECKING:
    from headway.sim.world import World

API_LIMIT_S = 120.0
AGAIN_S = 10.0


class Door:
    """Checks every answer that it passes on."""

    def __init__(self, world: World) -> None:
        self._world = world

    def ask(self, verb: str, path: str, body: dict[str, Any] | None, answered: Answered) -> None:
        """One call of the API, answered once: with status 0 if the daemon is away or dies meanwhile."""
        world, said = self._world, False

        def once(status: int, reply: dict[str, Any]) -> None:
            nonlocal said
            if said:
                return
            said = True
            world.seen[f"api {status}"] += 1
            world.trace(f"{verb} {path} {status} {reply.get('code', '')}")
            if status >= 500 and reply.get("code") != "store_silent":
                world.wrong(f"{verb} {path} was answered {status}: {reply}")
            if status >= 400 and not reply.get("code"):
                world.wrong(f"{verb} {path} was refused without a code: {reply}")
            answered(status, reply)

        if world.listening is None:
            once(0, {})
            return
        world.loop.later(API_LIMIT_S, once, 0, {})
        world.listening.ask(verb, path, body, once)

    def settings(self) -> Settings:
        """What a daemon reads from the config as it starts."""
        world = self._world
        return Settings(
            configure=self._configure(),
            policy=world.policy,
            mode="live",
            name="sim",
            salt="salt",
            pace=world.pace,
            pauses=shipped(),
        )

    async def config(self) -> Proposed:
        """What a daemon that runs reads from it."""
        configure = replace(self._configure(), policy=self._world.policy, mode="live")
        return Proposed(
            file="config.toml",
            etag='"sim"',
            configure=configure,
            changes=lambda running: (),
            taken=lambda: None,
        )

    def _configure(self) -> Configure:
        world = self._world
        services = tuple(spec for spec in world.services if spec.name not in world.away)
        return Configure(services=services, recipes=world.recipes)

    def release_queue(self) -> None:
        """Somebody has seen that the whole queue is held, and says it until it is taken."""

        def answered(status: int, reply: dict[str, Any]) -> None:
            if status in (0, 503):
                self._world.loop.later(1.0, self.release_queue)

        self.ask("POST", "/api/v1/queue/release", {}, answered)

    def apply(self, drain: bool = True) -> None:
        """Somebody has the daemon read the config again, until it was taken: a daemon that starts reads it anyway."""

        def answered(status: int, reply: dict[str, Any]) -> None:
            if status == 503:
                self._world.loop.later(AGAIN_S, self.apply, drain)

        self.ask("POST", "/api/v1/config/apply", {"drain": drain}, answered)
