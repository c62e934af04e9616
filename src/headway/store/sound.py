"""Rows of history that another program or a bad disk has damaged: SQLite takes any value in any column."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Float, Integer, Table

DATES = frozenset({"wall_s", "started"})  # seconds since the epoch
DOCUMENTS = frozenset({"facts", "doc"})  # a row without its document still says something


def odd_column(row: Mapping[str, Any], table: Table) -> str | None:
    """The first column that holds what nobody wrote there; None: none does."""
    for column in table.c:
        value = row[column.name]
        if column.name in DOCUMENTS or (value is None and column.nullable):
            continue
        if isinstance(column.type, Integer):
            good = isinstance(value, int)
        elif isinstance(column.type, Float):
            good = is_number(value) and (column.name not in DATES or _is_dated(value))
        else:
            good = isinstance(value, str)
        if not good:
            return column.name
    return None


def document(text: Any) -> dict[str, Any] | None:
    """None: it is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def is_day(name: Any) -> bool:
    """As 2026-05-31."""
    try:
        return isinstance(name, str) and date.fromisoformat(name).isoformat() == name
    except ValueError:
        return False


def _is_dated(wall_s: float) -> bool:
    """Is that in any calendar?"""
    try:
        datetime.fromtimestamp(wall_s, UTC)
    except (OverflowError, ValueError, OSError):
        return False
    return True
