-- Sessions by recency are read off the index. By the hour alone, a page meant reading and sorting every session of the latest
-- hours. The row that a touch rewrites is in memory already, and so is the end of the index where its entry goes.
DROP INDEX sessions_by_recency;
CREATE INDEX sessions_by_recency ON sessions (project_id, recent_hour DESC, recent_at DESC, session_id);
