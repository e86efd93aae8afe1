//! The store under simulation: one SQLite file for many sequences, emptied between them, and seen by several processes.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Row as _};

use super::engine::Db;
use super::{Store, StoreSettings};
use crate::entropy::{Entropy, SeededEntropy};

impl Store {
    /// A store on a fresh file below `folder` that does not wait for the disk.
    pub(crate) async fn for_simulation(folder: &std::path::Path) -> Self {
        let url = format!("sqlite://{}", folder.join("sim.db").display());
        // Tasks of one process wait for one another however long the machine stands still.
        let settings = StoreSettings { busy_timeout: Duration::from_mins(5), ..StoreSettings::at(url) };
        let store = Self::open(&settings, Arc::new(SeededEntropy::new(0))).await.expect("a store");
        store.run_sql("PRAGMA synchronous = OFF").await;
        store
    }

    /// The same database as another process sees it: its own ids, its own place in the rotation of lanes.
    pub(crate) fn of_process(&self, entropy: Arc<dyn Entropy>) -> Self {
        Self { db: self.db.clone(), entropy, last_lane: Arc::default(), troubles: Arc::default() }
    }

    /// Empties every table.
    pub(crate) async fn wipe(&self) {
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\'
            AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name = 'projects'";
        let deletes: Vec<String> =
            self.rows(tables, 1).await.into_iter().map(|mut row| format!("DELETE FROM {}", row.remove(0))).collect();
        self.run_sql(&format!("BEGIN; {}; COMMIT", deletes.join("; "))).await;
    }

    /// Runs statements without a step point.
    pub(crate) async fn run_sql(&self, sql: &str) {
        let Db::Lite { writer, .. } = &self.db else { panic!("simulations run on SQLite") };
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(writer).await.expect("a statement that fits");
    }

    /// The rows of a query as texts, null as an empty one, read without a step point.
    pub(crate) async fn rows(&self, sql: &str, columns: usize) -> Vec<Vec<String>> {
        let Db::Lite { writer, .. } = &self.db else { panic!("simulations run on SQLite") };
        let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(writer).await.expect("a query that fits");
        let text = |row: &sqlx::sqlite::SqliteRow, n| row.get_unchecked::<Option<String>, _>(n).unwrap_or_default();
        rows.iter().map(|row| (0..columns).map(|n| text(row, n)).collect()).collect()
    }
}
