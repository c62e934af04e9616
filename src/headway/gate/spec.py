"""What a gate process is started with, and the files under `run/` that it shares with the daemon and its parent."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headway.errors import HeadwayError

DRAIN_S = 30.0
TUNNEL_QUIET_S = 60.0


class GateSpecInvalid(HeadwayError):
    """The spec file cannot be used."""

    code = "gate_spec_invalid"
    http_status = 422


@dataclass(frozen=True, slots=True)
class Spec:
    """Where a gate listens and where its files are. A port of 0 is chosen by the system.

    `listen` maps "front" or a service's name to (host, port). `drain_s` bounds how long a gate that is told to stop
    waits for requests that were sent, `tunnel_quiet_s` how long one that is replaced keeps a websocket without a byte.
    """

    run_dir: str
    requests_dir: str
    listen: dict[str, tuple[str, int]] = field(default_factory=dict)
    version: str = "0"
    drain_s: float = DRAIN_S
    tunnel_quiet_s: float = TUNNEL_QUIET_S

    @property
    def run(self) -> Path:
        """The folder of sockets, locks and routes.json."""
        return Path(self.run_dir)

    @property
    def gates(self) -> Path:
        """One lock and one socket per living gate."""
        return self.run / "gates"

    @property
    def parent_lock(self) -> Path:
        """Held by the one gate parent."""
        return self.run / "gate-parent.lock"

    @property
    def ports(self) -> Path:
        """The real ports: name -> port."""
        return self.run / "gate-ports.json"

    @property
    def routes(self) -> Path:
        """The daemon's table."""
        return self.run / "routes.json"

    @property
    def link(self) -> Path:
        """The daemon's socket."""
        return self.run / "link.sock"


def read_spec(path: Path) -> Spec:
    """Read a spec file. Raises GateSpecInvalid."""
    try:
        row = json.loads(path.read_bytes())
        listen = {str(name): (str(place[0]), int(place[1])) for name, place in row["listen"].items()}
        limits_s = float(row.get("drain_s", DRAIN_S)), float(row.get("tunnel_quiet_s", TUNNEL_QUIET_S))
        version = str(row.get("version", "0"))
        return Spec(str(row["run_dir"]), str(row["requests_dir"]), listen, version, *limits_s)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise GateSpecInvalid(
            f"{path} cannot be used as a gate's spec: {error!r}. It needs run_dir, requests_dir and listen "
            f"{{name: [host, port]}}; `headway gate` writes one from the config.",
            path=str(path),
        ) from None


def write_spec(path: Path, spec: Spec) -> None:
    """Write a spec file for `python -m headway.gate.main parent --spec PATH`."""
    replace_file(path, json.dumps(asdict(spec)).encode())


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old or the new one, never a part. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
