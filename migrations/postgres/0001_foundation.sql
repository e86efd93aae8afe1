-- Times are microseconds since 1970 UTC. Keys compare bytewise, as on the other engine: COLLATE "C".

CREATE TABLE projects (
    project_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL UNIQUE,
    is_default BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE api_keys (
    key_hash   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    key_id     TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    prefix     TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- One row per trace that has spans. Ingest upserts it first, so that writers of one trace wait for each other.
CREATE TABLE traces (
    project_id TEXT COLLATE "C" NOT NULL,
    trace_id   TEXT COLLATE "C" NOT NULL,
    writes     BIGINT NOT NULL,
    PRIMARY KEY (project_id, trace_id)
);

CREATE TABLE spans (
    project_id  TEXT COLLATE "C" NOT NULL,
    trace_id    TEXT COLLATE "C" NOT NULL,
    span_id     TEXT COLLATE "C" NOT NULL,
    parent_id   TEXT COLLATE "C",
    session_id  TEXT COLLATE "C",
    session_tag TEXT COLLATE "C",
    origin      TEXT COLLATE "C" NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    started_at  BIGINT,
    ended_at    BIGINT,
    at          BIGINT NOT NULL,
    arrived_at  BIGINT NOT NULL,
    latency     BIGINT NOT NULL,
    has_content BOOLEAN NOT NULL,
    has_error   BOOLEAN NOT NULL,
    eval_run    BOOLEAN NOT NULL,
    digest      TEXT COLLATE "C" NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (project_id, trace_id, span_id)
);

CREATE INDEX spans_by_session ON spans (project_id, session_id, at) WHERE session_id IS NOT NULL;
-- Spans of the existing client carry no trace id: their own id is all they are known by.
CREATE UNIQUE INDEX spans_of_client ON spans (project_id, span_id) WHERE origin = 'client';

CREATE TABLE sessions (
    project_id      TEXT COLLATE "C" NOT NULL,
    session_id      TEXT COLLATE "C" NOT NULL,
    revision        BIGINT NOT NULL,
    last_arrival_at BIGINT NOT NULL,
    -- The alarm: when the planner looks at the session next. Null is disarmed.
    check_at        BIGINT,
    turns           BIGINT NOT NULL,
    rootless        BIGINT NOT NULL,
    rootless_at     BIGINT,
    spans           BIGINT NOT NULL,
    errors          BIGINT NOT NULL,
    latency         BIGINT NOT NULL,
    first_at        BIGINT NOT NULL,
    recent_at       BIGINT NOT NULL,
    -- The hour of recent_at, counted from 1970: lists by recency must not cost an index write per touch.
    recent_hour     BIGINT NOT NULL,
    last_turn_at    BIGINT,
    PRIMARY KEY (project_id, session_id)
) WITH (fillfactor = 80);

CREATE INDEX sessions_by_alarm ON sessions (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX sessions_by_recency ON sessions (project_id, recent_hour);

CREATE TABLE scorers (
    project_id TEXT COLLATE "C" NOT NULL,
    scorer_id  TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    PRIMARY KEY (project_id, scorer_id)
);

CREATE TABLE scorer_versions (
    project_id TEXT COLLATE "C" NOT NULL,
    scorer_id  TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    spec       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, scorer_id, version)
);

CREATE TABLE scorer_groups (
    project_id TEXT COLLATE "C" NOT NULL,
    group_id   TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    -- Whether it scores sessions live.
    live       BOOLEAN NOT NULL,
    spec       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    PRIMARY KEY (project_id, group_id)
);

CREATE TABLE scorer_group_versions (
    project_id TEXT COLLATE "C" NOT NULL,
    group_id   TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    spec       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, group_id, version)
);

-- A changed live profile makes the sessions of the lookback window be considered again: the planner walks them in order
-- of their ids, in small batches, and forgets the row when it is through.
CREATE TABLE reconsiderations (
    project_id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    arrived_since BIGINT NOT NULL,
    position      TEXT COLLATE "C" NOT NULL
);

CREATE TABLE assessments (
    project_id        TEXT COLLATE "C" NOT NULL,
    session_id        TEXT COLLATE "C" NOT NULL,
    group_id          TEXT COLLATE "C" NOT NULL,
    wanted_revision   BIGINT NOT NULL,
    wanted_round      BIGINT NOT NULL,
    covered_revision  BIGINT NOT NULL,
    covered_round     BIGINT NOT NULL,
    not_before        BIGINT NOT NULL,
    attempts          BIGINT NOT NULL,
    deferrals         BIGINT NOT NULL,
    first_deferred_at BIGINT,
    last_error        TEXT,
    covered_digest    TEXT,
    PRIMARY KEY (project_id, session_id, group_id)
);

-- One row per session that has due work, with the lease.
CREATE TABLE queue (
    project_id  TEXT COLLATE "C" NOT NULL,
    session_id  TEXT COLLATE "C" NOT NULL,
    -- When it may be claimed: the earliest due moment, or while it is leased the lease's end.
    visible_at  BIGINT NOT NULL,
    lease_token TEXT COLLATE "C",
    lease_owner TEXT COLLATE "C",
    leased_at   BIGINT,
    PRIMARY KEY (project_id, session_id)
);

-- A small table with much traffic: dead rows must not pile up in front of a claim.
ALTER TABLE queue SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);

CREATE INDEX queue_by_visibility ON queue (visible_at);

CREATE TABLE verdicts (
    project_id      TEXT COLLATE "C" NOT NULL,
    session_id      TEXT COLLATE "C" NOT NULL,
    group_id        TEXT COLLATE "C" NOT NULL,
    revision        BIGINT NOT NULL,
    round           BIGINT NOT NULL,
    sequence        BIGINT NOT NULL,
    verdict_id      TEXT COLLATE "C" NOT NULL,
    group_name      TEXT NOT NULL,
    group_version   BIGINT NOT NULL,
    rating          DOUBLE PRECISION,
    mean            DOUBLE PRECISION,
    coverage        DOUBLE PRECISION NOT NULL,
    gated_by        TEXT,
    justification   TEXT NOT NULL,
    incomplete      BOOLEAN NOT NULL,
    anchor_trace_id TEXT COLLATE "C" NOT NULL,
    agent_id        TEXT COLLATE "C",
    agent_name      TEXT,
    last_turn_at    BIGINT NOT NULL,
    turns           BIGINT NOT NULL,
    spans           BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (project_id, session_id, group_id, revision, round, sequence)
);

CREATE INDEX verdicts_by_turn_time ON verdicts (project_id, group_id, last_turn_at);

CREATE TABLE verdict_members (
    project_id    TEXT COLLATE "C" NOT NULL,
    session_id    TEXT COLLATE "C" NOT NULL,
    group_id      TEXT COLLATE "C" NOT NULL,
    revision      BIGINT NOT NULL,
    round         BIGINT NOT NULL,
    sequence      BIGINT NOT NULL,
    position      BIGINT NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    kind          TEXT COLLATE "C" NOT NULL,
    ref_id        TEXT COLLATE "C" NOT NULL,
    version       BIGINT,
    weight        DOUBLE PRECISION NOT NULL,
    gate          BOOLEAN NOT NULL,
    scorer_kind   TEXT NOT NULL,
    outcome       TEXT NOT NULL,
    goodness      DOUBLE PRECISION,
    reason        TEXT,
    permanence    TEXT,
    detail        TEXT NOT NULL,
    justification TEXT,
    evidence      TEXT,
    shown         DOUBLE PRECISION,
    PRIMARY KEY (project_id, session_id, group_id, revision, round, sequence, position)
);

-- What judges answered, by everything they were asked: paid once.
CREATE TABLE outcomes (
    project_id  TEXT COLLATE "C" NOT NULL,
    outcome_key TEXT COLLATE "C" NOT NULL,
    session_id  TEXT COLLATE "C" NOT NULL,
    answer      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (project_id, outcome_key)
);

-- The judge ledger: one row per attempt.
CREATE TABLE judge_calls (
    project_id    TEXT COLLATE "C" NOT NULL,
    call_id       TEXT COLLATE "C" NOT NULL,
    created_at    BIGINT NOT NULL,
    session_id    TEXT COLLATE "C" NOT NULL,
    scorer_id     TEXT COLLATE "C" NOT NULL,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    attempt       BIGINT NOT NULL,
    status        TEXT COLLATE "C" NOT NULL,
    input_tokens  BIGINT,
    output_tokens BIGINT,
    latency_ms    BIGINT NOT NULL,
    error         TEXT,
    PRIMARY KEY (project_id, call_id)
);

CREATE INDEX judge_calls_by_time ON judge_calls (project_id, created_at);

CREATE TABLE signals (
    project_id       TEXT COLLATE "C" NOT NULL,
    signal_id        TEXT COLLATE "C" NOT NULL,
    pattern_key      TEXT COLLATE "C" NOT NULL,
    agent_id         TEXT COLLATE "C" NOT NULL,
    agent_name       TEXT,
    type             TEXT COLLATE "C" NOT NULL,
    severity         TEXT COLLATE "C" NOT NULL,
    polarity         TEXT COLLATE "C" NOT NULL,
    status           TEXT COLLATE "C" NOT NULL,
    summary          TEXT NOT NULL,
    root_cause       TEXT,
    occurrence_count BIGINT NOT NULL,
    first_seen_at    BIGINT NOT NULL,
    last_seen_at     BIGINT NOT NULL,
    PRIMARY KEY (project_id, signal_id)
);

CREATE UNIQUE INDEX signals_by_key ON signals (project_id, pattern_key, agent_id, type);
CREATE INDEX signals_by_recency ON signals (project_id, last_seen_at);

CREATE TABLE signal_occurrences (
    project_id    TEXT COLLATE "C" NOT NULL,
    signal_id     TEXT COLLATE "C" NOT NULL,
    number        BIGINT NOT NULL,
    session_id    TEXT COLLATE "C" NOT NULL,
    trace_id      TEXT COLLATE "C" NOT NULL,
    rating        DOUBLE PRECISION,
    threshold     DOUBLE PRECISION,
    justification TEXT,
    seen_at       BIGINT NOT NULL,
    PRIMARY KEY (project_id, signal_id, number)
);
