"""`headway replay --config FILE`: the knobs that a daemon with that file would have."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import ConfigInvalid
from headway.sim.replay.configured import configured
from headway.sim.replay.report import Setting
from tests.contract.test_replay import csv_of, told
from tests.traces import agents

pytestmark = pytest.mark.contract

SERVICE = '[service.{name}]\ndriver = "process"\nupstream = "http://127.0.0.1:{port}"\n'
ALL = "[headway]\nwait_price = 2\nmax_waiting_share = 0.3\n"
CHAT = SERVICE.format(name="chat", port=8001) + "wait_price = 9\n"
CODE = SERVICE.format(name="code", port=8002)

KNOBS = {
    # name: (config, whose, (wait_price, max_mean_wait_s, max_waiting_share))
    "nothing said": (CHAT.replace("wait_price = 9\n", ""), None, (4.0, 1.0, 0.15)),
    "the only service there is": (ALL + CHAT, None, (9.0, 1.0, 0.3)),
    "one of two, by its name": (ALL + CHAT + CODE, "chat", (9.0, 1.0, 0.3)),
    "the other, which says nothing": (ALL + CHAT + CODE, "code", (2.0, 1.0, 0.3)),
    "nobody named": (ALL + CHAT + CODE, None, (2.0, 1.0, 0.3)),
}


@pytest.mark.parametrize(("text", "service", "knobs"), KNOBS.values(), ids=KNOBS.keys())
def test_the_knobs_of_a_config(
    text: str, service: str | None, knobs: tuple[float, float, float], tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(text)
    found = configured(Setting(), tmp_path / "c.toml", service).knobs
    assert (found.wait_price, found.max_mean_wait_s, found.max_waiting_share) == knobs


def test_what_is_no_config_or_no_service_of_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[headway]\nwait_price = 'dear'\n")
    with pytest.raises(ConfigInvalid):
        configured(Setting(), tmp_path / "c.toml", None)
    (tmp_path / "c.toml").write_text(CHAT)
    with pytest.raises(ValueError, match="code"):
        configured(Setting(), tmp_path / "c.toml", "code")


def test_a_knob_that_is_set_goes_before_the_configs(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(ALL)
    trace = str(csv_of(agents(1, hours=1), tmp_path / "t.csv.gz"))
    result = told(trace, "--config", str(tmp_path / "c.toml"), "--set", "wait_price=7", "--json")
    assert result.exit_code == 0, result.output
    assert '"wait_price": 7' in result.stdout and '"max_waiting_share": 0.3' in result.stdout
