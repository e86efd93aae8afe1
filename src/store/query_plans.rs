//! Query plans: tests that read how SQLite will run the statements, since small tables hide what large ones cost.

use std::sync::Arc;

use sqlx::AssertSqlSafe;

use super::engine::Db;
use super::{STATEMENTS, Store, StoreSettings, sql};
use crate::entropy::SeededEntropy;

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
