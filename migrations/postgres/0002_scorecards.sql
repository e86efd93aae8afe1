-- Scorecards as people save them. The built-in one is not stored.
CREATE TABLE scorecards (
    project_id   TEXT COLLATE "C" NOT NULL,
    scorecard_id TEXT COLLATE "C" NOT NULL,
    version      BIGINT NOT NULL,
    spec         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (project_id, scorecard_id)
);

-- How a verdict was composed, and what its scorecard says. Null on verdicts from before: a weighted average, no scorecard.
ALTER TABLE verdicts ADD COLUMN aggregation TEXT;
ALTER TABLE verdicts ADD COLUMN pass_threshold DOUBLE PRECISION;
-- 1 passes, 0 does not, null is neither.
ALTER TABLE verdicts ADD COLUMN pass BIGINT;
-- The scorecard as it was, as JSON.
ALTER TABLE verdicts ADD COLUMN scorecard TEXT;
ALTER TABLE verdicts ADD COLUMN scorecard_score DOUBLE PRECISION;
ALTER TABLE verdicts ADD COLUMN band TEXT;
ALTER TABLE verdicts ADD COLUMN recomposed BOOLEAN NOT NULL DEFAULT false;

ALTER TABLE verdict_members ADD COLUMN pass_threshold DOUBLE PRECISION;
ALTER TABLE verdict_members ADD COLUMN category TEXT;
ALTER TABLE verdict_members ADD COLUMN pinned BOOLEAN NOT NULL DEFAULT false;
