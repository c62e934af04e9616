-- Memory over time. A row is sums over the looks at one series in step_s seconds from at_s on (wall clock), so that
-- what comes later is added to it, and a daemon that starts anew goes on where the last one was. Rows of 600 s stay
-- for ever; finer ones go after a day to a month. `device` is the id of the series of the device itself: the rows of
-- one step, device and time lie together, which is how they are read and how they go.
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    device TEXT NOT NULL,
    kind TEXT NOT NULL,
    holder TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (device, kind, holder)
);
CREATE TABLE sample (
    step_s INTEGER NOT NULL,
    device INTEGER NOT NULL,
    at_s INTEGER NOT NULL,
    series INTEGER NOT NULL,
    looks INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    peak_bytes INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    PRIMARY KEY (step_s, device, at_s, series)
) WITHOUT ROWID;
