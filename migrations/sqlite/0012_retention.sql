-- When the spans of a session were pruned. What arrives for it afterwards is the rest of a conversation, and is not judged.
ALTER TABLE sessions ADD COLUMN pruned_at INTEGER;

-- Spans that never got a session, and what is kept by its age, are found without reading the rest.
CREATE INDEX spans_without_session ON spans (project_id, arrived_at) WHERE session_id IS NULL;
CREATE INDEX outcomes_by_time ON outcomes (project_id, created_at);
CREATE INDEX signal_occurrences_by_time ON signal_occurrences (project_id, seen_at);
