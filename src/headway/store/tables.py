"""The tables as queries need them. The schema itself is made by migrations/; a test compares the two."""

from __future__ import annotations

from sqlalchemy import Column, Float, Integer, MetaData, String, Table, Text

schema = MetaData()

holder = Table(
    "holder",
    schema,
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("doc", Text, nullable=False),
)

intent = Table(
    "intent",
    schema,
    Column("holder", String, primary_key=True),
    Column("doc", Text, nullable=False),
)

event = Table(
    "event",
    schema,
    Column("id", Integer, primary_key=True),
    Column("at_s", Float, nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("code", String, nullable=False),
    Column("holder", String),
    Column("facts", Text, nullable=False),
    Column("swap", Integer),  # 1: the end of a move of a model server
)

request = Table(
    "request",
    schema,
    Column("id", Integer, primary_key=True),
    Column("source", String, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("service", String),
    Column("class", String),
    Column("started", Float),
    Column("status", Integer),
    Column("waited_s", Float),
    Column("doc", Text, nullable=False),
    Column("failed", Integer),  # 1: it has no good end
)

log_offset = Table(
    "log_offset",
    schema,
    Column("source", String, primary_key=True),
    Column("offset", Integer, nullable=False),
)

kept = Table(
    "kept",
    schema,
    Column("kind", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("wall_s", Float, nullable=False),
    Column("doc", Text, nullable=False),
)

meta = Table(
    "meta",
    schema,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)

series = Table(
    "series",
    schema,
    Column("id", Integer, primary_key=True),
    Column("device", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("holder", String, nullable=False),
    Column("name", String, nullable=False),
)

sample = Table(
    "sample",
    schema,
    Column("step_s", Integer, primary_key=True),
    Column("device", Integer, primary_key=True),
    Column("at_s", Integer, primary_key=True),
    Column("series", Integer, primary_key=True),
    Column("looks", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("peak_bytes", Integer, nullable=False),
    Column("busy", Integer, nullable=False),
)

day = Table(
    "day",
    schema,
    Column("day", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("n", Float, nullable=False),
)
