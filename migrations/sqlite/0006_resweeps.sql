-- Re-judgings that an operator ordered. A worker walks the sessions in order of their ids and orders a few at a time.
CREATE TABLE resweeps (
    project_id TEXT NOT NULL,
    resweep_id TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    -- What was asked for.
    spec       TEXT NOT NULL,
    state      TEXT NOT NULL,
    -- The last session looked at, and whether none is left to look at.
    position   TEXT NOT NULL,
    through    INTEGER NOT NULL,
    ordered    INTEGER NOT NULL,
    -- How many sessions it would order as counted beforehand, where counting was quick enough.
    expected   INTEGER,
    note       TEXT,
    created_at INTEGER NOT NULL,
    stepped_at INTEGER NOT NULL,
    ended_at   INTEGER,
    PRIMARY KEY (project_id, resweep_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX resweeps_running ON resweeps (stepped_at) WHERE state = 'running';

-- The sessions that a re-sweep ordered, each with the round it is judged in and how.
CREATE TABLE resweep_items (
    project_id TEXT NOT NULL,
    resweep_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    round      INTEGER NOT NULL,
    fresh      INTEGER NOT NULL,
    forced     INTEGER NOT NULL,
    signals    INTEGER NOT NULL,
    state      TEXT NOT NULL,
    PRIMARY KEY (project_id, resweep_id, session_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX resweep_items_of_session ON resweep_items (project_id, session_id) WHERE state = 'open';
CREATE INDEX resweep_items_left ON resweep_items (project_id, resweep_id) WHERE state = 'open';

-- How many sessions wait for a re-sweep is counted before more are ordered.
CREATE INDEX queue_of_resweeps ON queue (visible_at) WHERE priority = 1;
