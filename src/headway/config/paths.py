"""Where Headway keeps its files: below one `--home`, or where XDG and systemd say."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from headway.errors import HeadwayError

SOCKET_PATH_MAX = 100  # bytes; the smallest limit of a Unix socket's path is 104 with its end (macOS)
_LONGEST_SOCKET = "gates/123456789012.sock"
ETC = Path("/etc/headway/config.toml")


class HomeUnusable(HeadwayError):
    """A directory of ours cannot be used: too long a path, not ours, or not a directory."""

    code = "home_unusable"
    http_status = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Every place, absolute. Nothing exists before `create`."""

    config_file: Path
    state_dir: Path  # database, runs, request log, logs: survives a restart of the machine
    run_dir: Path  # sockets, routes.json, gates, journal: mode 0700
    home: Path | None = None  # what --home said, for processes that are to look in the same places

    @classmethod
    def find(cls, home: Path | None = None, environ: Mapping[str, str] = os.environ) -> Paths:
        """`home` (from --home) moves everything; else systemd's variables, else XDG's, else their defaults.

        HEADWAY_CONFIG names another config file. Creates nothing.

        Raises:
            HomeUnusable: the sockets' paths would be too long for the system.
        """
        named = environ.get("HEADWAY_CONFIG")
        if home is not None:
            home = home.expanduser().absolute()
            found = cls(config_file=home / "config.toml", state_dir=home, run_dir=home / "run", home=home)
        else:
            state_dir = _state_dir(environ)
            found = cls(
                config_file=Path(named).expanduser().absolute() if named else _config_file(environ),
                state_dir=state_dir,
                run_dir=_run_dir(environ, state_dir),
            )
        length = len(os.fsencode(found.run_dir / _LONGEST_SOCKET))
        if length >= SOCKET_PATH_MAX:
            raise HomeUnusable(
                f"sockets in {found.run_dir} would have paths of up to {length} bytes, and less than "
                f"{SOCKET_PATH_MAX} work everywhere. Choose a shorter directory: `headway --home DIR ...`.",
                run_dir=str(found.run_dir),
                length=length,
            )
        return found

    @property
    def database(self) -> Path:
        return self.state_dir / "headway.db"

    @property
    def runs_dir(self) -> Path:
        return self.state_dir / "runs"

    @property
    def requests_dir(self) -> Path:
        return self.state_dir / "requests"

    @property
    def logs_dir(self) -> Path:
        return self.state_dir / "logs"

    @property
    def gates_dir(self) -> Path:
        return self.run_dir / "gates"

    @property
    def kept_config(self) -> Path:
        return self.state_dir / "config.last.json"

    @property
    def api_socket(self) -> Path:
        return self.run_dir / "headway.sock"

    @property
    def admin_token(self) -> Path:
        """Where the daemon leaves the way in for its own user, when it has no socket."""
        return self.run_dir / "admin.token"

    def create(self) -> None:
        """Make every directory that is missing, mode 0700. Safe to call twice.

        Raises:
            HomeUnusable: the run directory is somebody else's, or others could enter it.
        """
        for directory in (
            self.state_dir,
            self.run_dir,
            self.runs_dir,
            self.requests_dir,
            self.logs_dir,
            self.gates_dir,
        ):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise HomeUnusable(
                    f"{directory} cannot be made ({error.strerror}). Choose another: `headway --home DIR ...`.",
                    directory=str(directory),
                ) from None
        self._own_run_dir()

    def _own_run_dir(self) -> None:
        """Whoever can enter the run directory can speak as a gate or a daemon, so only we may."""
        found = self.run_dir.stat()
        if found.st_uid != os.geteuid():
            raise HomeUnusable(
                f"{self.run_dir} belongs to user {found.st_uid}. Choose another: `headway --home DIR ...`.",
                run_dir=str(self.run_dir),
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            self.run_dir.chmod(0o700)


def _first(environ: Mapping[str, str], name: str) -> Path | None:
    """systemd's variables may name several directories; the first is ours."""
    value = environ.get(name, "").split(":")[0]
    return Path(value) if value and Path(value).is_absolute() else None


def _xdg(environ: Mapping[str, str], name: str) -> Path | None:
    """XDG: a path that is not absolute is to be ignored."""
    value = environ.get(name, "")
    return Path(value) / "headway" if value and Path(value).is_absolute() else None


def _state_dir(environ: Mapping[str, str]) -> Path:
    found = _first(environ, "STATE_DIRECTORY") or _xdg(environ, "XDG_STATE_HOME")
    return found or platformdirs.user_state_path("headway", appauthor=False)


def _run_dir(environ: Mapping[str, str], state_dir: Path) -> Path:
    return _first(environ, "RUNTIME_DIRECTORY") or _xdg(environ, "XDG_RUNTIME_DIR") or state_dir / "run"


def _config_file(environ: Mapping[str, str]) -> Path:
    """The user's own file if there is one, else the machine's, else where the user's would be."""
    systemd = _first(environ, "CONFIGURATION_DIRECTORY")
    if systemd is not None:
        return systemd / "config.toml"
    own = _xdg(environ, "XDG_CONFIG_HOME") or platformdirs.user_config_path("headway", appauthor=False)
    return own / "config.toml" if (own / "config.toml").exists() or not ETC.exists() else ETC
