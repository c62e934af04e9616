-- The first schema. A holder and an intent are whole JSON documents: the records in memory are what
-- is decided from, and a new field of theirs is no reason for a migration. What people search or
-- page through has columns. Ids of history are never used twice (AUTOINCREMENT): a reader that
-- remembers the last one it saw misses nothing and sees nothing twice.
CREATE TABLE holder (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    doc TEXT NOT NULL
);

-- The move under way of a holder: what a daemon that starts after a crash must look for first.
CREATE TABLE intent (
    holder TEXT NOT NULL PRIMARY KEY,
    doc TEXT NOT NULL
);

-- The audit. at_s is boottime (durations), wall_s seconds since the epoch (people).
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    wall_s REAL NOT NULL,
    code TEXT NOT NULL,
    holder TEXT,
    facts TEXT NOT NULL
);
CREATE INDEX event_by_holder ON event (holder, id);

-- Finished requests, one row per line of the gates' logs; the line itself is doc. A line has one
-- place, so one that is read twice is stored once.
CREATE TABLE request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,
    "offset" INTEGER NOT NULL,
    service TEXT,
    class TEXT,
    started REAL,
    status INTEGER,
    waited_s REAL,
    doc TEXT NOT NULL,
    UNIQUE (source, "offset")
);
CREATE INDEX request_by_service ON request (service, id);

-- How far each log has been read, saved with what was learned from it.
CREATE TABLE log_offset (
    source TEXT NOT NULL PRIMARY KEY,
    "offset" INTEGER NOT NULL
);

CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
