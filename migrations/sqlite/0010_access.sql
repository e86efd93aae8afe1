-- What a key may do, until when and how often; keys made before this may do everything.
ALTER TABLE api_keys ADD COLUMN scopes TEXT NOT NULL DEFAULT 'ingest read manage operate';
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN revoked_at INTEGER;
-- Null goes by the configuration.
ALTER TABLE api_keys ADD COLUMN requests_per_minute INTEGER;

CREATE INDEX api_keys_by_project ON api_keys (project_id, created_at);

-- The project whose key made it; null where that was done on the command line.
ALTER TABLE projects ADD COLUMN parent_id TEXT;
ALTER TABLE projects ADD COLUMN deleted_at INTEGER;

CREATE INDEX projects_by_parent ON projects (parent_id) WHERE parent_id IS NOT NULL;

-- Agents that people made a note of. Those that only sent spans have no row.
CREATE TABLE agents (
    project_id TEXT NOT NULL,
    agent_id   TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, agent_id)
) STRICT, WITHOUT ROWID;

-- How an agent is watched, as people chose it: JSON.
CREATE TABLE agent_profiles (
    project_id TEXT NOT NULL,
    agent_id   TEXT NOT NULL,
    profile_id TEXT NOT NULL,
    profile    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, agent_id)
) STRICT, WITHOUT ROWID;

-- What triage made of a signal; its status has a column already.
ALTER TABLE signals ADD COLUMN review_status TEXT;
ALTER TABLE signals ADD COLUMN recommended_actions TEXT;
-- A severity that triage chose stays when the signal is raised again.
ALTER TABLE signals ADD COLUMN chosen_severity TEXT;
ALTER TABLE signals ADD COLUMN triaged_at INTEGER;

-- Roots by time, for the list of traces.
CREATE INDEX spans_of_roots ON spans (project_id, at, trace_id, span_id) WHERE parent_id IS NULL;
