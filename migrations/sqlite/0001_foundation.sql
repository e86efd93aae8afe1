-- Times are microseconds since 1970 UTC. Flags are 0 or 1. Texts compare bytewise.

CREATE TABLE projects (
    project_id TEXT NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    is_default INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    key_hash   TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (project_id),
    key_id     TEXT NOT NULL,
    name       TEXT NOT NULL,
    prefix     TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per trace that has spans. Ingest upserts it first, so that writers of one trace wait for each other.
CREATE TABLE traces (
    project_id TEXT NOT NULL,
    trace_id   TEXT NOT NULL,
    writes     INTEGER NOT NULL,
    PRIMARY KEY (project_id, trace_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE spans (
    project_id  TEXT NOT NULL,
    trace_id    TEXT NOT NULL,
    span_id     TEXT NOT NULL,
    parent_id   TEXT,
    session_id  TEXT,
    session_tag TEXT,
    origin      TEXT NOT NULL,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER,
    at          INTEGER NOT NULL,
    arrived_at  INTEGER NOT NULL,
    latency     INTEGER NOT NULL,
    has_content INTEGER NOT NULL,
    has_error   INTEGER NOT NULL,
    eval_run    INTEGER NOT NULL,
    digest      TEXT NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (project_id, trace_id, span_id)
) STRICT;

CREATE INDEX spans_by_session ON spans (project_id, session_id, at) WHERE session_id IS NOT NULL;
-- Spans of the existing client carry no trace id: their own id is all they are known by.
CREATE UNIQUE INDEX spans_of_client ON spans (project_id, span_id) WHERE origin = 'client';

CREATE TABLE sessions (
    project_id      TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    last_arrival_at INTEGER NOT NULL,
    -- The alarm: when the planner looks at the session next. Null is disarmed.
    check_at        INTEGER,
    turns           INTEGER NOT NULL,
    rootless        INTEGER NOT NULL,
    rootless_at     INTEGER,
    spans           INTEGER NOT NULL,
    errors          INTEGER NOT NULL,
    latency         INTEGER NOT NULL,
    first_at        INTEGER NOT NULL,
    recent_at       INTEGER NOT NULL,
    -- The hour of recent_at, counted from 1970: lists by recency must not cost an index write per touch.
    recent_hour     INTEGER NOT NULL,
    last_turn_at    INTEGER,
    PRIMARY KEY (project_id, session_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_alarm ON sessions (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX sessions_by_recency ON sessions (project_id, recent_hour);

CREATE TABLE scorers (
    project_id TEXT NOT NULL,
    scorer_id  TEXT NOT NULL,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    PRIMARY KEY (project_id, scorer_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE scorer_versions (
    project_id TEXT NOT NULL,
    scorer_id  TEXT NOT NULL,
    version    INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, scorer_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE scorer_groups (
    project_id TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    -- Whether it scores sessions live.
    live       INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    PRIMARY KEY (project_id, group_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE scorer_group_versions (
    project_id TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    version    INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, group_id, version)
) STRICT, WITHOUT ROWID;

-- A changed live profile makes the sessions of the lookback window be considered again: the planner walks them in order
-- of their ids, in small batches, and forgets the row when it is through.
CREATE TABLE reconsiderations (
    project_id    TEXT NOT NULL PRIMARY KEY,
    arrived_since INTEGER NOT NULL,
    position      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE assessments (
    project_id        TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    group_id          TEXT NOT NULL,
    wanted_revision   INTEGER NOT NULL,
    wanted_round      INTEGER NOT NULL,
    covered_revision  INTEGER NOT NULL,
    covered_round     INTEGER NOT NULL,
    not_before        INTEGER NOT NULL,
    attempts          INTEGER NOT NULL,
    deferrals         INTEGER NOT NULL,
    first_deferred_at INTEGER,
    last_error        TEXT,
    covered_digest    TEXT,
    PRIMARY KEY (project_id, session_id, group_id)
) STRICT, WITHOUT ROWID;

-- One row per session that has due work, with the lease.
CREATE TABLE queue (
    project_id  TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    -- When it may be claimed: the earliest due moment, or while it is leased the lease's end.
    visible_at  INTEGER NOT NULL,
    lease_token TEXT,
    lease_owner TEXT,
    leased_at   INTEGER,
    PRIMARY KEY (project_id, session_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX queue_by_visibility ON queue (visible_at);

CREATE TABLE verdicts (
    project_id      TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    group_id        TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    round           INTEGER NOT NULL,
    sequence        INTEGER NOT NULL,
    verdict_id      TEXT NOT NULL,
    group_name      TEXT NOT NULL,
    group_version   INTEGER NOT NULL,
    rating          REAL,
    mean            REAL,
    coverage        REAL NOT NULL,
    gated_by        TEXT,
    justification   TEXT NOT NULL,
    incomplete      INTEGER NOT NULL,
    anchor_trace_id TEXT NOT NULL,
    agent_id        TEXT,
    agent_name      TEXT,
    last_turn_at    INTEGER NOT NULL,
    turns           INTEGER NOT NULL,
    spans           INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (project_id, session_id, group_id, revision, round, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX verdicts_by_turn_time ON verdicts (project_id, group_id, last_turn_at);

CREATE TABLE verdict_members (
    project_id    TEXT NOT NULL,
    session_id    TEXT NOT NULL,
    group_id      TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    round         INTEGER NOT NULL,
    sequence      INTEGER NOT NULL,
    position      INTEGER NOT NULL,
    name          TEXT NOT NULL,
    kind          TEXT NOT NULL,
    ref_id        TEXT NOT NULL,
    version       INTEGER,
    weight        REAL NOT NULL,
    gate          INTEGER NOT NULL,
    scorer_kind   TEXT NOT NULL,
    outcome       TEXT NOT NULL,
    goodness      REAL,
    reason        TEXT,
    permanence    TEXT,
    detail        TEXT NOT NULL,
    justification TEXT,
    evidence      TEXT,
    shown         REAL,
    PRIMARY KEY (project_id, session_id, group_id, revision, round, sequence, position)
) STRICT, WITHOUT ROWID;

-- What judges answered, by everything they were asked: paid once.
CREATE TABLE outcomes (
    project_id  TEXT NOT NULL,
    outcome_key TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    answer      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (project_id, outcome_key)
) STRICT, WITHOUT ROWID;

-- The judge ledger: one row per attempt.
CREATE TABLE judge_calls (
    project_id    TEXT NOT NULL,
    call_id       TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    session_id    TEXT NOT NULL,
    scorer_id     TEXT NOT NULL,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    status        TEXT NOT NULL,
    input_tokens  INTEGER,
    output_tokens INTEGER,
    latency_ms    INTEGER NOT NULL,
    error         TEXT,
    PRIMARY KEY (project_id, call_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX judge_calls_by_time ON judge_calls (project_id, created_at);

CREATE TABLE signals (
    project_id       TEXT NOT NULL,
    signal_id        TEXT NOT NULL,
    pattern_key      TEXT NOT NULL,
    agent_id         TEXT NOT NULL,
    agent_name       TEXT,
    type             TEXT NOT NULL,
    severity         TEXT NOT NULL,
    polarity         TEXT NOT NULL,
    status           TEXT NOT NULL,
    summary          TEXT NOT NULL,
    root_cause       TEXT,
    occurrence_count INTEGER NOT NULL,
    first_seen_at    INTEGER NOT NULL,
    last_seen_at     INTEGER NOT NULL,
    PRIMARY KEY (project_id, signal_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX signals_by_key ON signals (project_id, pattern_key, agent_id, type);
CREATE INDEX signals_by_recency ON signals (project_id, last_seen_at);

CREATE TABLE signal_occurrences (
    project_id    TEXT NOT NULL,
    signal_id     TEXT NOT NULL,
    number        INTEGER NOT NULL,
    session_id    TEXT NOT NULL,
    trace_id      TEXT NOT NULL,
    rating        REAL,
    threshold     REAL,
    justification TEXT,
    seen_at       INTEGER NOT NULL,
    PRIMARY KEY (project_id, signal_id, number)
) STRICT, WITHOUT ROWID;
