-- Datasets: the cases that agents are asked before a release.
CREATE TABLE datasets (
    project_id TEXT COLLATE "C" NOT NULL,
    dataset_id TEXT COLLATE "C" NOT NULL,
    name       TEXT NOT NULL,
    -- The version in effect. Every edit makes a new one, and runs keep to theirs.
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    PRIMARY KEY (project_id, dataset_id)
);

CREATE TABLE dataset_versions (
    project_id TEXT COLLATE "C" NOT NULL,
    dataset_id TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    spec       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, dataset_id, version)
);

-- Runs: one agent's answers to a dataset, graded by a copy of a recipe, its scorers and its scorecard.
CREATE TABLE runs (
    project_id      TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    dataset_id      TEXT COLLATE "C" NOT NULL,
    dataset_version BIGINT NOT NULL,
    -- What fills the rating column, and the split: runs that agree in both are compared. Empty is nobody's, and all cases.
    grader          TEXT COLLATE "C" NOT NULL,
    split           TEXT COLLATE "C" NOT NULL,
    spec            TEXT NOT NULL,
    state           TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    ended_at        BIGINT,
    PRIMARY KEY (project_id, run_id)
);

CREATE INDEX runs_of_dataset ON runs (project_id, dataset_id, created_at);
CREATE INDEX runs_by_age ON runs (project_id, created_at);

-- The rows of a run, each by the key that its sender names it by. A row is leased before it is judged.
CREATE TABLE run_rows (
    project_id     TEXT COLLATE "C" NOT NULL,
    run_id         TEXT COLLATE "C" NOT NULL,
    row_key        TEXT COLLATE "C" NOT NULL,
    question_index BIGINT NOT NULL,
    run_number     BIGINT NOT NULL,
    submission     TEXT NOT NULL,
    -- Whether it is settled; until then it is judged whenever it is sent again.
    done           BOOLEAN NOT NULL,
    lease_token    TEXT,
    lease_until    BIGINT NOT NULL,
    status         TEXT,
    rating         DOUBLE PRECISION,
    verdict        TEXT,
    -- Why the last try settled nothing.
    note           TEXT,
    created_at     BIGINT NOT NULL,
    scored_at      BIGINT,
    PRIMARY KEY (project_id, run_id, row_key)
);

-- Gates that were to be recorded.
CREATE TABLE run_gates (
    project_id TEXT COLLATE "C" NOT NULL,
    gate_id    TEXT COLLATE "C" NOT NULL,
    run_id     TEXT COLLATE "C" NOT NULL,
    dataset_id TEXT COLLATE "C" NOT NULL,
    passed     BOOLEAN NOT NULL,
    caller     TEXT,
    verdict    TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, gate_id)
);

CREATE INDEX run_gates_by_age ON run_gates (project_id, created_at);
