-- PostgreSQL keeps statistics of its own; on SQLite this says how items of re-sweeps are found.
SELECT 1;
