//! The database behind a store, asked directly: what is stored, whatever the store says of it.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use crate::support::PATIENCE;

/// A connection of the test's own.
pub enum Raw {
    Lite(SqliteConnection),
    Pg(PgConnection),
}

impl Raw {
    pub async fn connect(url: &str) -> Self {
        if url.starts_with("sqlite://") {
            let options = url.parse::<SqliteConnectOptions>().unwrap().busy_timeout(PATIENCE);
            Self::Lite(SqliteConnection::connect_with(&options).await.unwrap())
        } else {
            Self::Pg(PgConnection::connect(url).await.unwrap())
        }
    }

    /// Every column as text: the engines' types differ, their values must not. `rest` begins with `FROM`.
    pub async fn texts(&mut self, columns: &[&str], rest: &str) -> Vec<Vec<Option<String>>> {
        let columns: Vec<String> = columns.iter().map(|column| format!("CAST({column} AS TEXT)")).collect();
        let sql = AssertSqlSafe(format!("SELECT {} {rest}", columns.join(", ")));
        let width = columns.len();
        match self {
            Self::Lite(one) => {
                let rows = sqlx::query(sql).fetch_all(one).await.unwrap();
                rows.iter().map(|row| (0..width).map(|n| row.get(n)).collect()).collect()
            }
            Self::Pg(one) => {
                let rows = sqlx::query(sql).fetch_all(one).await.unwrap();
                rows.iter().map(|row| (0..width).map(|n| row.get(n)).collect()).collect()
            }
        }
    }

    /// The first column of the first row, as a number.
    pub async fn number(&mut self, column: &str, rest: &str) -> i64 {
        let rows = self.texts(&[column], rest).await;
        rows[0][0].as_deref().unwrap().parse().unwrap()
    }

    pub async fn run(&mut self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Lite(one) => drop(sqlx::query(sql).execute(one).await.unwrap()),
            Self::Pg(one) => drop(sqlx::query(sql).execute(one).await.unwrap()),
        }
    }
}
