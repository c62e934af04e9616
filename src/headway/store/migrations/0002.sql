-- Small documents that the API keeps and nothing decides from: tokens (hashed), the PIN (hashed), and
-- what was answered to an Idempotency-Key. wall_s is when it was written, for their retention.
CREATE TABLE kept (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    wall_s REAL NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (kind, key)
);
