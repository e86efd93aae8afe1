-- When a session's first span arrived. What its spans tell themselves is lost when each is sent again with more in it. Sessions from
-- before go by their spans.
ALTER TABLE sessions ADD COLUMN began_at BIGINT;
