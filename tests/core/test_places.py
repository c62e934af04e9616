"""Where files are: `--home`, systemd, XDG, in that order; directories are private."""

import os
import stat
from pathlib import Path

import pytest

from headway.config.paths import SOCKET_PATH_MAX, HomeUnusable, Paths

pytestmark = pytest.mark.core


def test_home_moves_everything(home: Path) -> None:
    environ = {
        "XDG_RUNTIME_DIR": "/run/user/1",
        "STATE_DIRECTORY": "/var/lib/headway",
        "HEADWAY_CONFIG": "/etc/x",
    }
    paths = Paths.find(home, environ)
    paths.create()
    everything = (
        paths.config_file,
        paths.state_dir,
        paths.run_dir,
        paths.database,
        paths.runs_dir,
        paths.requests_dir,
        paths.logs_dir,
        paths.gates_dir,
        paths.api_socket,
    )
    assert all(path.is_relative_to(home) for path in everything)


CASES = {
    # name: (environment, state, run, config)
    "xdg": (
        {"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/c"},
        "/s/headway",
        "/r/headway",
        "/c/headway/config.toml",
    ),
    "no runtime directory": ({"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, "/s/headway", "/s/headway/run", None),
    "relative is ignored, as XDG says": ({"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "r"}, "/s/headway", "/s/headway/run", None),
    "systemd wins": (
        {
            "STATE_DIRECTORY": "/var/lib/headway:/var/lib/more",
            "RUNTIME_DIRECTORY": "/run/headway",
            "CONFIGURATION_DIRECTORY": "/etc/headway",
            "XDG_STATE_HOME": "/s",
            "XDG_RUNTIME_DIR": "/r",
            "XDG_CONFIG_HOME": "/c",
        },
        "/var/lib/headway",
        "/run/headway",
        "/etc/headway/config.toml",
    ),
    "a config by name": ({"XDG_STATE_HOME": "/s", "HEADWAY_CONFIG": "/x/y.toml"}, "/s/headway", "/s/headway/run", "/x/y.toml"),
}  # fmt: skip


@pytest.mark.parametrize(("environ", "state", "run", "config"), CASES.values(), ids=CASES.keys())
def test_without_home(environ: dict[str, str], state: str, run: str, config: str | None) -> None:
    paths = Paths.find(None, environ)
    assert (paths.state_dir, paths.run_dir) == (Path(state), Path(run))
    assert config is None or paths.config_file == Path(config)


def test_directories_are_private_whatever_the_umask(home: Path) -> None:
    old = os.umask(0)
    try:
        paths = Paths.find(home / "deep", {})
        paths.create()
        paths.create()
    finally:
        os.umask(old)
    made = (
        paths.state_dir,
        paths.run_dir,
        paths.runs_dir,
        paths.requests_dir,
        paths.logs_dir,
        paths.gates_dir,
    )
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


def test_a_run_directory_that_others_may_enter_is_closed(home: Path) -> None:
    paths = Paths.find(home, {})
    paths.run_dir.mkdir()
    paths.run_dir.chmod(0o755)
    paths.create()
    assert stat.S_IMODE(paths.run_dir.stat().st_mode) == 0o700


def test_a_file_in_the_way_is_told(home: Path) -> None:
    (home / "runs").write_text("")
    with pytest.raises(HomeUnusable, match="runs cannot be made"):
        Paths.find(home, {}).create()


def test_sockets_must_have_short_paths() -> None:
    longest = SOCKET_PATH_MAX - 1 - len("/run/gates/123456789012.sock")
    Paths.find(Path("/" + "h" * (longest - 1)), {})
    with pytest.raises(HomeUnusable, match="shorter"):
        Paths.find(Path("/" + "h" * longest), {})
