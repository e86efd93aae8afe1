-- Datasets: the cases that agents are asked before a release.
CREATE TABLE datasets (
    project_id TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    name       TEXT NOT NULL,
    -- The version in effect. Every edit makes a new one, and runs keep to theirs.
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    PRIMARY KEY (project_id, dataset_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE dataset_versions (
    project_id TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    version    INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, dataset_id, version)
) STRICT, WITHOUT ROWID;

-- Runs: one agent's answers to a dataset, graded by a copy of a recipe, its scorers and its scorecard.
CREATE TABLE runs (
    project_id      TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    dataset_id      TEXT NOT NULL,
    dataset_version INTEGER NOT NULL,
    -- What fills the rating column, and the split: runs that agree in both are compared. Empty is nobody's, and all cases.
    grader          TEXT NOT NULL,
    split           TEXT NOT NULL,
    spec            TEXT NOT NULL,
    state           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    PRIMARY KEY (project_id, run_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_of_dataset ON runs (project_id, dataset_id, created_at);
CREATE INDEX runs_by_age ON runs (project_id, created_at);

-- The rows of a run, each by the key that its sender names it by. A row is leased before it is judged.
CREATE TABLE run_rows (
    project_id     TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    row_key        TEXT NOT NULL,
    question_index INTEGER NOT NULL,
    run_number     INTEGER NOT NULL,
    submission     TEXT NOT NULL,
    -- Whether it is settled; until then it is judged whenever it is sent again.
    done           INTEGER NOT NULL,
    lease_token    TEXT,
    lease_until    INTEGER NOT NULL,
    status         TEXT,
    rating         REAL,
    verdict        TEXT,
    -- Why the last try settled nothing.
    note           TEXT,
    created_at     INTEGER NOT NULL,
    scored_at      INTEGER,
    PRIMARY KEY (project_id, run_id, row_key)
) STRICT, WITHOUT ROWID;

-- Gates that were to be recorded.
CREATE TABLE run_gates (
    project_id TEXT NOT NULL,
    gate_id    TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    passed     INTEGER NOT NULL,
    caller     TEXT,
    verdict    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, gate_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_gates_by_age ON run_gates (project_id, created_at);
