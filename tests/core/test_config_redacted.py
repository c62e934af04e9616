"""What of a config is shown: all of it, but no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.config.redacted import HIDDEN, redacted
from tests.configs import CHAT, TRAIN, loaded

pytestmark = pytest.mark.core

SECRETS = """
[vars]
key = "s3cret-var"
[alerts]
webhook = "https://user:s3cret-password@hooks.example:8443/services/s3cret-path?token=s3cret-query"
"""
ENV = 'env = { TOKEN = "s3cret-env" }\n'


def test_no_value_that_may_be_secret_is_shown_and_its_name_is(tmp_path: Path) -> None:
    shown = redacted(loaded(tmp_path, SECRETS + CHAT + ENV + TRAIN + ENV))
    assert "s3cret" not in json.dumps(shown)
    for holder in (shown["service"]["chat"], shown["job"]["train"]):
        assert holder["env"] == {"TOKEN": HIDDEN}
    assert shown["vars"] == {"key": HIDDEN}
    assert shown["alerts"]["webhook"] == f"https://hooks.example:8443/{HIDDEN}"


def test_everything_else_is_shown_with_its_default(tmp_path: Path) -> None:
    shown = redacted(loaded(tmp_path, CHAT + TRAIN))
    assert shown["job"]["train"]["start"] == ["train"] and shown["service"]["chat"]["queue_max"] == 512
