-- The ledger says what a call cost, for whom it was made, why, and what came of it.
ALTER TABLE judge_calls ADD COLUMN group_id TEXT COLLATE "C";
ALTER TABLE judge_calls ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'live';
ALTER TABLE judge_calls ADD COLUMN outcome TEXT COLLATE "C" NOT NULL DEFAULT 'unknown';
ALTER TABLE judge_calls ADD COLUMN cost DOUBLE PRECISION;

-- How much was hidden from a member, by kind, as JSON.
ALTER TABLE verdict_members ADD COLUMN redactions TEXT;

-- Judge calls taken from the budget of a project (scope '') or of a group (its id), by UTC day counted from 1970.
CREATE TABLE judge_budgets (
    project_id TEXT COLLATE "C" NOT NULL,
    day        BIGINT NOT NULL,
    scope      TEXT COLLATE "C" NOT NULL,
    used       BIGINT NOT NULL,
    PRIMARY KEY (project_id, day, scope)
);

-- What a project chose for itself, as JSON; what is not here is as the configuration says.
CREATE TABLE project_settings (
    project_id TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    value      TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, name)
);
