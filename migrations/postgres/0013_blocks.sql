-- Groups whose due sessions are left alone for a while: claims skip them, however many wait.
CREATE TABLE blocks (
    project_id TEXT COLLATE "C" NOT NULL,
    group_id   TEXT COLLATE "C" NOT NULL,
    -- paused, budget or circuit.
    cause      TEXT COLLATE "C" NOT NULL,
    since      BIGINT NOT NULL,
    -- Null until somebody lifts it.
    until_at   BIGINT,
    reason     TEXT NOT NULL,
    -- How far its lane was looked through for sessions that another group may have meanwhile.
    looked_at  BIGINT NOT NULL,
    looked_in  TEXT COLLATE "C" NOT NULL,
    through    BOOLEAN NOT NULL,
    PRIMARY KEY (project_id, group_id, cause)
);
