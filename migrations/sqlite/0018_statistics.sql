-- SQLite keeps no statistics unless it is asked to, and then takes the items of one project for ten: it would go through all of
-- them to find those of one session. These say what is true of large re-sweeps, whatever is stored now.
ANALYZE resweep_items;
DELETE FROM sqlite_stat1 WHERE tbl = 'resweep_items';
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('resweep_items', 'resweep_items', '1000000 1000000 10000 1 1'),
    ('resweep_items', 'resweep_items_of_session', '1000000 1000000 1'),
    ('resweep_items', 'resweep_items_left', '1000000 1000000 10000');
ANALYZE sqlite_schema;
