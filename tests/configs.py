"""Pieces of config files, and loading them in tests."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from headway.config.load import load
from headway.config.schema import Config
from headway.errors import ConfigInvalid

SIM = '[device.sim0]\nmeter = "simulated"\ntotal = "24GiB"\nreports = "reports"\n'
CHAT = '[service.chat]\ndriver = "process"\nstart = ["serve", "{port}"]\n'
TRAIN = '[job.train]\ndriver = "restart"\nstart = ["train"]\n'
NIGHT = '[window.night]\nkind = "no_model"\ncron = "0 22 * * *"\n'
RENDER = '[job.render]\ndriver = "command"\nstart = ["render"]\npark = ["park"]\nresume = ["resume"]\n'


def written(directory: Path, text: str, **more: str) -> Path:
    """A config file with that text, and `conf.d/NAME.toml` for each of `more`."""
    file = directory / "config.toml"
    file.write_text(text)
    (directory / "conf.d").mkdir()
    for name, part in more.items():
        (directory / "conf.d" / f"{name}.toml").write_text(part)
    return file


def loaded(directory: Path, text: str, environ: Mapping[str, str] | None = None, **more: str) -> Config:
    return load(written(directory, text, **more), environ or {})


def refused(directory: Path, text: str, environ: Mapping[str, str] | None = None, **more: str) -> list[str]:
    """The problems, with the directory's own path taken out."""
    with pytest.raises(ConfigInvalid) as caught:
        loaded(directory, text, environ, **more)
    return [problem.replace(f"{directory}/", "") for problem in caught.value.problems]
