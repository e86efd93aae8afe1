-- Groups whose due sessions are left alone for a while: claims skip them, however many wait.
CREATE TABLE blocks (
    project_id TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    -- paused, budget or circuit.
    cause      TEXT NOT NULL,
    since      INTEGER NOT NULL,
    -- Null until somebody lifts it.
    until_at   INTEGER,
    reason     TEXT NOT NULL,
    -- How far its lane was looked through for sessions that another group may have meanwhile.
    looked_at  INTEGER NOT NULL,
    looked_in  TEXT NOT NULL,
    through    INTEGER NOT NULL,
    PRIMARY KEY (project_id, group_id, cause)
) STRICT, WITHOUT ROWID;
