-- Requests that carried an idempotency key, and how they were answered. Without a status one is under way, or was cut off.
CREATE TABLE idempotent_requests (
    project_id  TEXT NOT NULL,
    request_key TEXT NOT NULL,
    digest      TEXT NOT NULL,
    status      INTEGER,
    answer      TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (project_id, request_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotent_requests_by_age ON idempotent_requests (project_id, created_at);
