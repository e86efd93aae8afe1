-- The rail: one row a project, whose lock numbers its verdicts in the order in which they become visible.
CREATE TABLE rails (
    project_id  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    last_number BIGINT NOT NULL,
    -- How many receivers are switched on, so that recording need not look for any where there is none.
    receivers   BIGINT NOT NULL,
    -- Whether a group of the project has troubles, so that a verdict that ends them is noticed without a look.
    troubled    BOOLEAN NOT NULL
);

-- The number of a verdict on its project's rail. Null on verdicts from before.
ALTER TABLE verdicts ADD COLUMN rail_number BIGINT;
CREATE UNIQUE INDEX verdicts_by_rail ON verdicts (project_id, rail_number) WHERE rail_number IS NOT NULL;

-- Where events are sent. Its row's lock orders its deliveries; the lease lets one worker send them.
CREATE TABLE receivers (
    project_id  TEXT COLLATE "C" NOT NULL,
    receiver_id TEXT COLLATE "C" NOT NULL,
    spec        TEXT NOT NULL,
    enabled     BOOLEAN NOT NULL,
    last_number BIGINT NOT NULL,
    -- Failed attempts in a row.
    failures    BIGINT NOT NULL,
    -- When its next delivery may be tried. Null where it is owed none.
    due_at      BIGINT,
    lease_token TEXT COLLATE "C",
    lease_until BIGINT,
    last_error  TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (project_id, receiver_id)
);

CREATE INDEX receivers_by_due ON receivers (due_at) WHERE due_at IS NOT NULL;

-- The outbox: one row per event and receiver, written in the transaction of what happened.
CREATE TABLE deliveries (
    project_id  TEXT COLLATE "C" NOT NULL,
    receiver_id TEXT COLLATE "C" NOT NULL,
    -- Its place in the receiver's order.
    number      BIGINT NOT NULL,
    delivery_id TEXT COLLATE "C" NOT NULL,
    event_type  TEXT COLLATE "C" NOT NULL,
    dedupe_key  TEXT COLLATE "C" NOT NULL,
    session_id  TEXT COLLATE "C",
    -- The event, as JSON.
    event       TEXT NOT NULL,
    -- pending, delivered or dead.
    state       TEXT COLLATE "C" NOT NULL,
    attempts    BIGINT NOT NULL,
    last_status BIGINT,
    last_error  TEXT,
    created_at  BIGINT NOT NULL,
    -- Since when its attempts count: when it was written, or ordered anew.
    owed_since  BIGINT NOT NULL,
    settled_at  BIGINT,
    PRIMARY KEY (project_id, receiver_id, number)
);

CREATE UNIQUE INDEX deliveries_by_id ON deliveries (project_id, delivery_id);
CREATE UNIQUE INDEX deliveries_by_key ON deliveries (project_id, receiver_id, dedupe_key);
CREATE INDEX deliveries_by_time ON deliveries (project_id, created_at);
CREATE INDEX deliveries_pending ON deliveries (project_id, receiver_id, number) WHERE state = 'pending';
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

-- Sessions that receivers know to lie below a group's threshold.
CREATE TABLE alerts (
    project_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    group_id   TEXT COLLATE "C" NOT NULL,
    since      BIGINT NOT NULL,
    PRIMARY KEY (project_id, session_id, group_id)
);

-- Groups whose judging has failed since their last good verdict.
CREATE TABLE troubles (
    project_id TEXT COLLATE "C" NOT NULL,
    group_id   TEXT COLLATE "C" NOT NULL,
    since      BIGINT NOT NULL,
    last_at    BIGINT NOT NULL,
    PRIMARY KEY (project_id, group_id)
);

-- The secret before the present one is valid too until that moment.
ALTER TABLE signing_secrets ADD COLUMN previous TEXT;
ALTER TABLE signing_secrets ADD COLUMN previous_until BIGINT;
