-- Requests that carried an idempotency key, and how they were answered. Without a status one is under way, or was cut off.
CREATE TABLE idempotent_requests (
    project_id  TEXT COLLATE "C" NOT NULL,
    request_key TEXT COLLATE "C" NOT NULL,
    digest      TEXT COLLATE "C" NOT NULL,
    status      BIGINT,
    answer      TEXT,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (project_id, request_key)
);

CREATE INDEX idempotent_requests_by_age ON idempotent_requests (project_id, created_at);
