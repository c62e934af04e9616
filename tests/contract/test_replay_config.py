"""`headway replay --config FILE`: the knobs that a daemon with that file would have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.errors import ConfigInvalid
from headway.sim.replay.configured import configured
from headway.sim.replay.report import Setting
from headway.sim.replay.trace import Trace
from tests.contract.test_replay import GAPS, csv_of, log_of, logged, told
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
    "a trace, which names nobody": (ALL + CHAT + CODE, None, (2.0, 1.0, 0.3)),
}


def whose(service: str | None) -> Trace:
    return Trace(name="t", requests=(), service=service)


@pytest.mark.parametrize(("text", "service", "knobs"), KNOBS.values(), ids=KNOBS.keys())
def test_the_knobs_of_a_config(
    text: str, service: str | None, knobs: tuple[float, float, float], tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(text)
    found = configured(Setting(), tmp_path / "c.toml", whose(service))[0].knobs
    assert (found.wait_price, found.max_mean_wait_s, found.max_waiting_share) == knobs


def test_what_is_no_config_or_no_service_of_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[headway]\nwait_price = 'dear'\n")
    with pytest.raises(ConfigInvalid):
        configured(Setting(), tmp_path / "c.toml", whose(None))
    (tmp_path / "c.toml").write_text(CHAT)
    with pytest.raises(ValueError, match="code"):
        configured(Setting(), tmp_path / "c.toml", whose("code"))


def test_a_knob_that_is_set_goes_before_the_configs(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(ALL)
    trace = str(csv_of(agents(1, hours=1), tmp_path / "t.csv.gz"))
    result = told(trace, "--config", str(tmp_path / "c.toml"), "--set", "wait_price=7", "--json")
    assert result.exit_code == 0, result.output
    assert '"wait_price": 7' in result.stdout and '"max_waiting_share": 0.3' in result.stdout


def knobs_of(*words: str) -> dict[str, float]:
    result = told(*words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, float] = json.loads(result.stdout)["policies"][0]["knobs"]
    return found


def test_the_log_says_whose_knobs_they_are(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(ALL + CHAT + CODE)
    log = log_of([logged(one) for one in GAPS], tmp_path / "a.ndjson")
    assert knobs_of(str(log), "--config", str(tmp_path / "c.toml"))["wait_price"] == 9
    other = log_of([logged(one, service="code") for one in GAPS], tmp_path / "b.ndjson")
    assert knobs_of(str(other), "--config", str(tmp_path / "c.toml"))["wait_price"] == 2


def test_a_log_of_a_service_that_the_config_has_not_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CODE)
    log = log_of([logged(one) for one in GAPS], tmp_path / "a.ndjson")
    assert told(str(log), "--config", str(tmp_path / "c.toml")).exit_code == 2


def test_a_least_quiet_counts_as_the_config_says_it(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[headway]\ngap_min = "5s"\n')
    trace = str(csv_of(GAPS, tmp_path / "t.csv.gz"))
    assert knobs_of(trace, "--config", str(tmp_path / "c.toml"))["gap_min"] == 5
    assert knobs_of(trace, "--config", str(tmp_path / "c.toml"), "--set", "gap_min=1min")["gap_min"] == 60


NIGHT = '[window.night]\nkind = "slow_wake"\ncron = "0 22 * * *"\nduration = "8h"\nservices = ["chat"]\n'


@pytest.mark.parametrize(("service", "lines"), [("chat", 1), ("code", 0)])
def test_a_window_over_the_service_is_told_since_it_is_not_played(
    service: str, lines: int, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(CHAT + CODE + NIGHT)
    log = log_of([logged(one, service=service) for one in GAPS], tmp_path / "a.ndjson")
    result = told(str(log), "--config", str(tmp_path / "c.toml"), "--json")
    assert json.loads(result.stdout)["requests"] == 3
    assert len(result.stderr.splitlines()) == lines
