-- Alarms in the order in which planning reads them, whole: sessions that one import brought share their time, by the hundred thousand
-- if it was a large one, and each batch would sort them all.
DROP INDEX sessions_by_alarm;
CREATE INDEX sessions_by_alarm ON sessions (check_at, project_id, session_id) WHERE check_at IS NOT NULL;
-- What is in work: counted for every claim under a cap, and looked through for leases that ran out, beside a backlog of any length.
CREATE INDEX queue_leased ON queue (visible_at) WHERE lease_token IS NOT NULL;
