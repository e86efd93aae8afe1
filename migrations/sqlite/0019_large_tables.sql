-- What is in work: counted for every claim under a cap, and looked through for leases that ran out, beside a backlog of any length.
CREATE INDEX queue_leased ON queue (visible_at) WHERE lease_token IS NOT NULL;

-- SQLite keeps no statistics unless it is asked to, and then takes the rows of one project for ten: it would go through all of them
-- where an index leads to the few that are asked for. These say what is true of large tables, whatever is stored now: rows in all,
-- then how many there are to each value of the first column, of the first two, and so on. An index that comes later gets its line.
-- The tables are analyzed first, since that is what makes the table of statistics.
ANALYZE sessions;
DELETE FROM sqlite_stat1 WHERE tbl IN ('spans', 'traces', 'sessions', 'queue', 'assessments', 'verdicts', 'verdict_members',
    'judge_calls', 'outcomes', 'tool_actions', 'signal_occurrences', 'deliveries', 'run_rows');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('spans', 'sqlite_autoindex_spans_1', '10000000 10000000 5 1'),
    ('spans', 'spans_by_session', '10000000 10000000 20 1'),
    ('spans', 'spans_of_client', '10000000 10000000 1'),
    ('spans', 'spans_of_roots', '3000000 3000000 2 1 1'),
    ('spans', 'spans_without_session', '1000000 1000000 2'),
    ('traces', 'traces', '3000000 3000000 1'),
    ('sessions', 'sessions', '1000000 1000000 1'),
    ('sessions', 'sessions_by_alarm', '100000 100'),
    ('sessions', 'sessions_by_recency', '1000000 1000000 2000 2 1'),
    ('queue', 'queue', '100000 100000 1'),
    ('queue', 'queue_by_visibility', '100000 100'),
    ('queue', 'queue_by_lane', '100000 100000 100000 20000 100'),
    ('queue', 'queue_of_resweeps', '50000 100'),
    ('queue', 'queue_leased', '500 2'),
    ('assessments', 'assessments', '2000000 2000000 2 1'),
    ('assessments', 'assessments_by_attempts', '1000 500'),
    ('verdicts', 'verdicts', '3000000 3000000 3 2 2 1 1'),
    ('verdicts', 'verdicts_by_turn_time', '3000000 3000000 500000 2'),
    ('verdicts', 'verdicts_by_rail', '3000000 3000000 1'),
    ('verdict_members', 'verdict_members', '10000000 10000000 10 6 6 4 3 1'),
    ('verdict_members', 'verdict_members_of_custom', '1000000 1000000 100000'),
    ('judge_calls', 'judge_calls', '3000000 3000000 1'),
    ('judge_calls', 'judge_calls_by_time', '3000000 3000000 2'),
    ('outcomes', 'outcomes', '3000000 3000000 1'),
    ('outcomes', 'outcomes_by_time', '3000000 3000000 2'),
    ('tool_actions', 'tool_actions', '1000000 1000000 3 1 1'),
    ('tool_actions', 'tool_actions_by_tool', '1000000 1000000 50000 2'),
    ('tool_actions', 'tool_actions_pending', '1000 1000 2'),
    ('signal_occurrences', 'signal_occurrences', '1000000 1000000 1000 1'),
    ('signal_occurrences', 'signal_occurrences_by_time', '1000000 1000000 2'),
    ('deliveries', 'deliveries', '1000000 1000000 200000 1'),
    ('deliveries', 'deliveries_by_id', '1000000 1000000 1'),
    ('deliveries', 'deliveries_by_key', '1000000 1000000 200000 1'),
    ('deliveries', 'deliveries_by_time', '1000000 1000000 2'),
    ('deliveries', 'deliveries_pending', '10000 10000 2000 1'),
    ('deliveries', 'deliveries_settled', '1000000 2'),
    ('run_rows', 'run_rows', '1000000 1000000 1000 1');
ANALYZE sqlite_schema;
