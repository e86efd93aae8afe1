//! Query plans: tests that read how the engines will run the statements, since small tables hide what large ones cost.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlx::AssertSqlSafe;

use super::engine::Db;
use super::{STATEMENTS, Store, StoreSettings, sql};
use crate::entropy::SeededEntropy;

#[allow(dead_code, reason = "one database is all that is asked of it here")]
#[path = "../../tests/it/support/postgres.rs"]
mod postgres;

/// What SQLite says of how it will run a statement.
async fn plan_of(store: &Store, text: String) -> String {
    let Db::Lite { writer, .. } = &store.db else { panic!("SQLite was asked for") };
    let rows = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}"))).fetch_all(writer).await;
    let detail = |row: &sqlx::sqlite::SqliteRow| sqlx::Row::get::<String, _>(row, 3);
    rows.expect("a plan").iter().map(detail).collect::<Vec<_>>().join("\n  ")
}

#[tokio::test]
async fn rows_of_a_bulk_statement_are_looked_up_in_tables_and_no_table_is_gone_through_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}", folder.path().join("plans.db").display());
    let store = Store::open(&StoreSettings::at(url), Arc::new(SeededEntropy::new(1))).await.expect("a store");
    let goes_through = |line: &str| {
        let line = line.trim();
        let scanned = line.strip_prefix("SCAN ").filter(|of| !of.contains("CONSTANT") && !of.contains("VALUES"));
        let is_own = |of: &str| !["v", "s", "json_each", "held"].contains(&of.split(' ').next().unwrap_or_default());
        line.contains("AUTOMATIC") || line.ends_with("(project_id=?)") || scanned.is_some_and(is_own)
    };
    let mut bad = Vec::new();
    // A project's agents are counted, a thousand at most.
    let looked_up = |bulk: &&&sql::Bulk| !bulk.name.ends_with("agents::NOTE");
    for bulk in STATEMENTS.iter().flat_map(|statements| statements.bulk).filter(looked_up) {
        for (rows, filled) in [(1, true), (64, true), (64, false), (512, true)] {
            let plan = plan_of(&store, bulk.sqlite(rows, filled)).await;
            if plan.lines().any(goes_through) {
                bad.push(format!("{} of {rows} rows, filled {filled}:\n  {plan}", bulk.name));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// By two bounds taken together SQLite finds where they begin, and from there goes through all that equals both.
#[tokio::test]
async fn the_lane_after_a_long_one_is_found_without_going_through_what_waits_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}", folder.path().join("lanes.db").display());
    let store = Store::open(&StoreSettings::at(url), Arc::new(SeededEntropy::new(1))).await.expect("a store");
    let next_lane = |sql: &&&sql::Sql| sql.name.contains("lease::NEXT_LANE");
    let plans = STATEMENTS.iter().flat_map(|statements| statements.single).filter(next_lane);
    let mut looked_at = 0;
    for sql in plans {
        let plan = plan_of(&store, sql.sqlite().to_owned()).await;
        assert!(plan.contains("queue_by_lane") && !plan.contains(")>("), "{}:\n  {plan}", sql.name);
        looked_at += 1;
    }
    assert_eq!(looked_at, 2);
}

/// What planning reads of the alarms, batch by batch.
fn batches() -> impl Iterator<Item = &'static sql::Sql> {
    STATEMENTS.iter().flat_map(|statements| statements.single).copied().filter(|sql| sql.name.contains("plan::DUE"))
}

/// An import leaves as many sessions with one alarm time as it brought: sorting them for each batch would read all of them.
#[tokio::test]
async fn alarms_are_read_in_order_off_their_index_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}", folder.path().join("alarms.db").display());
    let store = Store::open(&StoreSettings::at(url), Arc::new(SeededEntropy::new(1))).await.expect("a store");
    for sql in batches() {
        let plan = plan_of(&store, sql.sqlite().to_owned()).await;
        assert!(
            plan.contains("sessions_by_alarm ((check_at,project_id,session_id)>(?,?,?)")
                && !plan.contains("TEMP B-TREE"),
            "{}:\n  {plan}",
            sql.name
        );
    }
    assert_eq!(batches().count(), 2);
}

#[tokio::test]
async fn alarms_are_read_in_order_off_their_index_on_postgres() {
    let Some(url) = postgres::database() else { return };
    let store = Store::open(&StoreSettings::at(url), Arc::new(SeededEntropy::new(1))).await.expect("a store");
    let Db::Pg(pool) = &store.db else { panic!("PostgreSQL was asked for") };
    let mut connection = pool.acquire().await.expect("a connection");
    // An empty table is read whole, and sorting nothing is free: what would be done to a large one is asked for by forbidding that.
    // A generic plan is what a statement has that is run often.
    for setting in ["enable_seqscan = off", "enable_bitmapscan = off", "plan_cache_mode = force_generic_plan"] {
        sqlx::query(AssertSqlSafe(format!("SET {setting}"))).execute(&mut *connection).await.expect("a setting");
    }
    for (n, sql) in batches().enumerate() {
        let prepare = AssertSqlSafe(format!("PREPARE due_{n} AS {}", sql.postgres()));
        sqlx::raw_sql(prepare).execute(&mut *connection).await.expect("a statement");
        let explain = AssertSqlSafe(format!("EXPLAIN EXECUTE due_{n} (NULL, NULL, NULL, NULL, NULL)"));
        let rows = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.expect("a plan");
        let plan = rows.iter().map(|row| sqlx::Row::get::<String, _>(row, 0)).collect::<Vec<_>>().join("\n  ");
        assert!(plan.contains("sessions_by_alarm") && !plan.contains("Sort"), "{}:\n  {plan}", sql.name);
    }
}

/// Beside a backlog of any length.
#[tokio::test]
async fn leases_are_looked_for_among_what_is_in_work_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::for_simulation(folder.path()).await;
    let names = ["lease::EXPIRED", "lease::HAS_EXPIRED", "lease::IN_FLIGHT", "lease::LEASED"];
    let mut looked_at = 0;
    for sql in STATEMENTS.iter().flat_map(|statements| statements.single) {
        if names.iter().any(|name| sql.name.ends_with(name)) {
            let plan = plan_of(&store, sql.sqlite().to_owned()).await;
            assert!(plan.contains("USING INDEX queue_leased (visible_at"), "{}:\n  {plan}", sql.name);
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, names.len());
}

/// Tables whose statistics the migrations set, with each of their indexes that has a line.
async fn statistics(store: &Store) -> BTreeSet<(String, String)> {
    let rows = store.rows("SELECT tbl, idx FROM sqlite_stat1", 2).await;
    rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

/// SQLite takes the rows of one project for ten where nothing tells it otherwise.
#[tokio::test]
async fn every_index_of_a_large_table_has_its_statistics() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::for_simulation(folder.path()).await;
    let told = statistics(&store).await;
    let large: BTreeSet<&str> = told.iter().map(|(table, _)| table.as_str()).collect();
    let mut indexes = BTreeSet::new();
    for table in &large {
        // The key of a table without row ids has the table's name here.
        for row in store.rows(&format!("SELECT name, origin FROM pragma_index_list('{table}')"), 2).await {
            let is_key = row[1] == "pk" && *table != "spans";
            indexes.insert(((*table).to_owned(), if is_key { (*table).to_owned() } else { row[0].clone() }));
        }
    }
    assert_eq!(told, indexes);
}

#[tokio::test]
async fn no_statement_goes_through_a_large_table_or_all_of_a_projects_rows_in_it() {
    /// What counts all there is, because that is what it is asked for.
    const EXCUSED: [(&str, &str); 2] = [
        ("backlog::LANES", "an operator asks how much waits for each group"),
        ("resweep_step::WAITING", "counts no more than its limit"),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::for_simulation(folder.path()).await;
    let large: BTreeSet<String> = statistics(&store).await.into_iter().map(|(table, _)| table).collect();
    let (mut bad, mut excused) = (Vec::new(), BTreeSet::new());
    // What a deleted project holds goes whole, a batch at a time.
    let is_whole = |sql: &&&sql::Sql| !sql.name.contains("purge::");
    for sql in STATEMENTS.iter().flat_map(|statements| statements.single).filter(is_whole) {
        let plan = plan_of(&store, sql.sqlite().to_owned()).await;
        let words: Vec<&str> = sql.sqlite().split([' ', '\n', '(', ')', ',']).filter(|word| !word.is_empty()).collect();
        // A name in a plan is a table's, or what the statement calls it.
        let is_large = |name: &str| {
            let calls = |pair: &[&str]| large.contains(pair[0]) && pair[1] == name;
            large.contains(name) || words.windows(2).any(calls)
        };
        let goes_through = |line: &str| {
            let mut of = line.split_whitespace();
            let (how, name) = (of.next().unwrap_or_default(), of.next().unwrap_or_default());
            is_large(name) && (how == "SCAN" || line.contains("(project_id=?)") || line.contains("ANY("))
        };
        let by_partial_index = |line: &str| {
            // Few rows are in work, or wait for approval, however large the table is.
            ["queue_leased", "tool_actions_pending"].iter().any(|index| line.contains(index))
        };
        if plan.lines().any(|line| goes_through(line) && !by_partial_index(line)) {
            match EXCUSED.iter().find(|(name, _)| sql.name.ends_with(name)) {
                Some((name, _)) => drop(excused.insert(*name)),
                None => bad.push(format!("{}:\n  {plan}", sql.name)),
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert_eq!(excused, EXCUSED.into_iter().map(|(name, _)| name).collect());
}
