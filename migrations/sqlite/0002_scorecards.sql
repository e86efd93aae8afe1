-- Scorecards as people save them. The built-in one is not stored.
CREATE TABLE scorecards (
    project_id   TEXT NOT NULL,
    scorecard_id TEXT NOT NULL,
    version      INTEGER NOT NULL,
    spec         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (project_id, scorecard_id)
) STRICT, WITHOUT ROWID;

-- How a verdict was composed, and what its scorecard says. Null on verdicts from before: a weighted average, no scorecard.
ALTER TABLE verdicts ADD COLUMN aggregation TEXT;
ALTER TABLE verdicts ADD COLUMN pass_threshold REAL;
-- 1 passes, 0 does not, null is neither.
ALTER TABLE verdicts ADD COLUMN pass INTEGER;
-- The scorecard as it was, as JSON.
ALTER TABLE verdicts ADD COLUMN scorecard TEXT;
ALTER TABLE verdicts ADD COLUMN scorecard_score REAL;
ALTER TABLE verdicts ADD COLUMN band TEXT;
ALTER TABLE verdicts ADD COLUMN recomposed INTEGER NOT NULL DEFAULT 0;

ALTER TABLE verdict_members ADD COLUMN pass_threshold REAL;
ALTER TABLE verdict_members ADD COLUMN category TEXT;
ALTER TABLE verdict_members ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
