-- Work is claimed lane by lane, in rotation, so that no backlog starves another: a lane is a project and one of its groups.
-- Lower priorities go first: 0 is live work.
ALTER TABLE queue ADD COLUMN lane TEXT NOT NULL DEFAULT '';
ALTER TABLE queue ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
-- Whether it was claimed alone: its last lease expired, so whatever happens now is its own doing.
ALTER TABLE queue ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;

CREATE INDEX queue_by_lane ON queue (priority, project_id, lane, visible_at) WHERE lease_token IS NULL;
