-- Whether the session was still going on when it was judged.
ALTER TABLE verdicts ADD COLUMN interim BOOLEAN NOT NULL DEFAULT false;
