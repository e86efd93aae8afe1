-- What custom scorers need: facts beside a report, what people decided about actions, and the secret that calls are signed with.

-- What a member counted, as JSON.
ALTER TABLE verdict_members ADD COLUMN facts TEXT;

-- What a custom scorer reported lately. Members of other kinds are many, and nobody asks for theirs this way.
CREATE INDEX verdict_members_of_custom ON verdict_members (project_id, ref_id) WHERE kind = 'custom';

-- Actions of which a span tells the status. Most spans have none, so that ingest hardly ever writes here.
CREATE TABLE tool_actions (
    project_id TEXT NOT NULL,
    trace_id   TEXT NOT NULL,
    span_id    TEXT NOT NULL,
    -- 0 is the span itself, others are places in its list of calls, from 1.
    position   INTEGER NOT NULL,
    tool       TEXT NOT NULL,
    status     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (project_id, trace_id, span_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX tool_actions_by_tool ON tool_actions (project_id, tool, at);
CREATE INDEX tool_actions_pending ON tool_actions (project_id, at) WHERE status = 'pending_approval';

CREATE TABLE signing_secrets (
    project_id TEXT NOT NULL PRIMARY KEY REFERENCES projects (project_id),
    secret     TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
