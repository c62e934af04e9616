"""The shipped table of pauses: what conversations with models did elsewhere, until their own log says more.

Counts alone, derived from the Claude Code timings of WEKA: github callanjfox/kv-cache-tester, Apache-2.0. The file
says what its keys and bins are.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from headway.core.pauses import Table

FILE = Path(__file__).with_name("pause_priors.json")


@cache
def shipped() -> Table:
    """The table, read once."""
    return Table(json.loads(FILE.read_text("utf-8"))["counts"])
