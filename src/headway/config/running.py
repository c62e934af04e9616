"""The config of a running daemon: what is in force, and what its file says now."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from headway.config.build import Built, Moves, build
from headway.config.changes import changes
from headway.config.kept import keep, loaded
from headway.config.load import load
from headway.config.redacted import redacted
from headway.config.schema import Config
from headway.core.commands import Configure
from headway.core.configs import ConfigChange, InForce, Proposed
from headway.core.model import JobSpec


class Running:
    """What is in force. Made from the file as a daemon starts.

    Args:
        moves, reads_busy, asleep_probes: as for `build`.
        place: where the last one in force is kept; None: nowhere.
        again: see `kept.loaded`.

    Attributes:
        problems: those of the file, where the last one in force is gone on with.

    Raises:
        ConfigInvalid: the file has problems.
    """

    def __init__(
        self,
        file: Path,
        moves: Mapping[str, Moves],
        reads_busy: Collection[str],
        asleep_probes: Mapping[str, tuple[str, ...]],
        place: Path | None = None,
        again: bool = False,
    ) -> None:
        self.file, self._moves, self._reads_busy, self._place = file, moves, reads_busy, place
        self._asleep_probes = asleep_probes
        self.config, self.problems = loaded(file, place, again) if place else (load(file), list[str]())
        self.started = self.config  # what only a start of Headway takes is told until there was one
        self.built = self._build(self.config)
        self.recipes: dict[str, JobSpec] = {}
        self._heard: list[Callable[[Built], None]] = []
        self._salt = secrets.token_bytes(16)  # the mark is read by many: it must not help to guess a secret
        self._etag = self._marked()
        self._take_recipes()
        self._keep()

    def heard_by(self, listener: Callable[[Built], None]) -> None:
        """Call it with each config that comes into force from now on."""
        self._heard.append(listener)

    def configure(self) -> Configure:
        """The command that a start begins with."""
        return Configure(services=self.built.services, recipes=self.built.recipes)

    def in_force(self) -> InForce:
        """What counts now, without secrets."""
        return InForce(file=str(self.file), etag=self._etag, config=redacted(self.config))

    async def read(self) -> Proposed:
        """What the file says now; it is read in a thread.

        Raises:
            ConfigInvalid: it has problems.
        """
        config = await asyncio.to_thread(load, self.file)
        built = self._build(config)
        configure = Configure(
            services=built.services, recipes=built.recipes, policy=built.policy, mode=built.mode
        )
        return Proposed(
            file=str(self.file),
            etag=self._etag,
            configure=configure,
            changes=lambda running: self._changes(config, running),
            taken=lambda: self._taken(config, built),
        )

    def _build(self, config: Config) -> Built:
        return build(config, self._moves, self._reads_busy, self._asleep_probes)

    def _changes(self, config: Config, running: Collection[str]) -> list[ConfigChange]:
        found = [one for one in changes(self.config, config, running) if one.when != "restart"]
        found += [one for one in changes(self.started, config) if one.when == "restart"]
        return [ConfigChange(str(one), one.when) for one in found]

    def _taken(self, config: Config, built: Built) -> None:
        self.config, self.built = config, built
        self._etag = self._marked()
        self._take_recipes()
        self._keep()
        for listener in self._heard:
            listener(built)

    def _marked(self) -> str:
        text = self.config.model_dump_json().encode()
        return f'"{hashlib.blake2b(text, digest_size=8, key=self._salt).hexdigest()}"'

    def _keep(self) -> None:
        if self._place is not None:
            keep(self.config, self._place)

    def _take_recipes(self) -> None:
        self.recipes.clear()  # the same dict: who was given it sees the change
        self.recipes |= {spec.name: spec for spec, _ in self.built.recipes}
