-- Traces judged by themselves, and judges that score live on their own.

-- A subject that is a single trace is a row of `sessions` whose id is the character 1 and the trace's id: it sorts before every
-- session, whose ids hold no control characters.

-- `live` says whether a group scores anything live; this, whether it does so trace by trace.
ALTER TABLE scorer_groups ADD COLUMN live_traces INTEGER NOT NULL DEFAULT 0;
-- The judge whose own live scoring the row is; null where it is a group that people made.
ALTER TABLE scorer_groups ADD COLUMN judge_id TEXT;
UPDATE scorer_groups SET live = 1, live_traces = 1 WHERE deleted_at IS NULL
    AND json_extract(spec, '$.online.enabled') = 1 AND json_extract(spec, '$.online.scope') = 'trace';
CREATE INDEX scorer_groups_of_traces ON scorer_groups (project_id) WHERE live_traces;
CREATE UNIQUE INDEX scorer_groups_of_judges ON scorer_groups (project_id, judge_id)
    WHERE judge_id IS NOT NULL AND deleted_at IS NULL;

-- Whether its sender opted the span's trace out of live scoring. Spans stored before say so in their body alone.
ALTER TABLE spans ADD COLUMN unmonitored INTEGER NOT NULL DEFAULT 0;

-- The model that answered, on verdicts of a judge by itself.
ALTER TABLE verdicts ADD COLUMN judge_model TEXT;
