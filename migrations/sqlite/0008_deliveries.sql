-- The rail: one row a project, whose lock numbers its verdicts in the order in which they become visible.
CREATE TABLE rails (
    project_id  TEXT NOT NULL PRIMARY KEY,
    last_number INTEGER NOT NULL,
    -- How many receivers are switched on, so that recording need not look for any where there is none.
    receivers   INTEGER NOT NULL,
    -- Whether a group of the project has troubles, so that a verdict that ends them is noticed without a look.
    troubled    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The number of a verdict on its project's rail. Null on verdicts from before.
ALTER TABLE verdicts ADD COLUMN rail_number INTEGER;
CREATE UNIQUE INDEX verdicts_by_rail ON verdicts (project_id, rail_number) WHERE rail_number IS NOT NULL;

-- Where events are sent. Its row's lock orders its deliveries; the lease lets one worker send them.
CREATE TABLE receivers (
    project_id  TEXT NOT NULL,
    receiver_id TEXT NOT NULL,
    spec        TEXT NOT NULL,
    enabled     INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    -- Failed attempts in a row.
    failures    INTEGER NOT NULL,
    -- When its next delivery may be tried. Null where it is owed none.
    due_at      INTEGER,
    lease_token TEXT,
    lease_until INTEGER,
    last_error  TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (project_id, receiver_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX receivers_by_due ON receivers (due_at) WHERE due_at IS NOT NULL;

-- The outbox: one row per event and receiver, written in the transaction of what happened.
CREATE TABLE deliveries (
    project_id  TEXT NOT NULL,
    receiver_id TEXT NOT NULL,
    -- Its place in the receiver's order.
    number      INTEGER NOT NULL,
    delivery_id TEXT NOT NULL,
    event_type  TEXT NOT NULL,
    dedupe_key  TEXT NOT NULL,
    session_id  TEXT,
    -- The event, as JSON.
    event       TEXT NOT NULL,
    -- pending, delivered or dead.
    state       TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    last_status INTEGER,
    last_error  TEXT,
    created_at  INTEGER NOT NULL,
    -- Since when its attempts count: when it was written, or ordered anew.
    owed_since  INTEGER NOT NULL,
    settled_at  INTEGER,
    PRIMARY KEY (project_id, receiver_id, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX deliveries_by_id ON deliveries (project_id, delivery_id);
CREATE UNIQUE INDEX deliveries_by_key ON deliveries (project_id, receiver_id, dedupe_key);
CREATE INDEX deliveries_by_time ON deliveries (project_id, created_at);
CREATE INDEX deliveries_pending ON deliveries (project_id, receiver_id, number) WHERE state = 'pending';
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

-- Sessions that receivers know to lie below a group's threshold.
CREATE TABLE alerts (
    project_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    since      INTEGER NOT NULL,
    PRIMARY KEY (project_id, session_id, group_id)
) STRICT, WITHOUT ROWID;

-- Groups whose judging has failed since their last good verdict.
CREATE TABLE troubles (
    project_id TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    since      INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (project_id, group_id)
) STRICT, WITHOUT ROWID;

-- The secret before the present one is valid too until that moment.
ALTER TABLE signing_secrets ADD COLUMN previous TEXT;
ALTER TABLE signing_secrets ADD COLUMN previous_until INTEGER;
