-- What was given up is counted without reading what was not.
CREATE INDEX assessments_by_attempts ON assessments (attempts) WHERE attempts > 0;

-- Sessions that swallowed too much. A row without `since` was released: counting began anew at what is stored before.
CREATE TABLE quarantines (
    project_id   TEXT COLLATE "C" NOT NULL,
    session_id   TEXT COLLATE "C" NOT NULL,
    since        BIGINT,
    reason       TEXT NOT NULL,
    turns_before BIGINT NOT NULL,
    spans_before BIGINT NOT NULL,
    PRIMARY KEY (project_id, session_id)
);
