-- Whether the session was still going on when it was judged.
ALTER TABLE verdicts ADD COLUMN interim INTEGER NOT NULL DEFAULT 0;
