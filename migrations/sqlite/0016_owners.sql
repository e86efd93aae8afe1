-- A group of one may belong to any kind of scorer: it is the live scoring of that scorer by itself. Both are null where it is a
-- group that people made. Of a built-in pattern the id is its key.
DROP INDEX scorer_groups_of_judges;
ALTER TABLE scorer_groups RENAME COLUMN judge_id TO owner_id;
ALTER TABLE scorer_groups ADD COLUMN owner_kind TEXT;
UPDATE scorer_groups SET owner_kind = 'judge' WHERE owner_id IS NOT NULL;
CREATE UNIQUE INDEX scorer_groups_of_owners ON scorer_groups (project_id, owner_kind, owner_id)
    WHERE owner_id IS NOT NULL AND deleted_at IS NULL;
