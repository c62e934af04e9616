-- What people look through by kind has marks of its own, so that pages of it, and only what failed, are found without
-- reading all: swap is 1 for a finished or failed move of a model server, failed is 1 for a request without a good end.
ALTER TABLE event ADD COLUMN swap INTEGER;
ALTER TABLE request ADD COLUMN failed INTEGER;
UPDATE event SET swap = 1
WHERE code IN ('move.done', 'release.verified') AND json_valid(facts)
    AND ('awake' IN (json_extract(facts, '$.form'), json_extract(facts, '$.source'))
        OR 'asleep' IN (json_extract(facts, '$.form'), json_extract(facts, '$.source')));
UPDATE request SET failed = 1 WHERE status IS NULL OR status < 100 OR status >= 400;
CREATE INDEX event_by_swap ON event (id) WHERE swap = 1;
CREATE INDEX event_by_code ON event (code, id);
CREATE INDEX request_by_failed ON request (id) WHERE failed = 1;

-- What came together in each day of the machine's own calendar, added up as it comes: a few rows a day, kept for ever,
-- where history itself is pruned.
CREATE TABLE day (
    day TEXT NOT NULL,
    name TEXT NOT NULL,
    n REAL NOT NULL,
    PRIMARY KEY (day, name)
);
