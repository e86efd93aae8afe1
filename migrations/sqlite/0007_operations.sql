-- What was given up is counted without reading what was not.
CREATE INDEX assessments_by_attempts ON assessments (attempts) WHERE attempts > 0;

-- Sessions that swallowed too much. A row without `since` was released: counting began anew at what is stored before.
CREATE TABLE quarantines (
    project_id   TEXT NOT NULL,
    session_id   TEXT NOT NULL,
    since        INTEGER,
    reason       TEXT NOT NULL,
    turns_before INTEGER NOT NULL,
    spans_before INTEGER NOT NULL,
    PRIMARY KEY (project_id, session_id)
) STRICT, WITHOUT ROWID;
