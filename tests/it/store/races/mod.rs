//! Races on PostgreSQL, stepped: a third connection holds a lock at which one operation stops half-way, the other is started,
//! the lock is let go. That an operation waits is a fact read from the server. Deadlocks are not detected for an hour in
//! these databases, so that one would stand still until the test gives up, instead of being mended by a retry.

mod arrivals;
mod pruning;
mod work;

use std::future::Future;

use afterword::store::{Planned, Receipt, Store, StoreError};
use sqlx::{AssertSqlSafe, Connection, PgConnection, query, query_scalar};
use tokio::task::JoinHandle;

use super::ctx::{Ctx, Draft, PLAN};
use crate::support::{PATIENCE, postgres};

/// A fresh database without deadlock detection.
async fn ctx() -> Option<Ctx> {
    let url = postgres::database()?;
    let (_, name) = url.rsplit_once('/').unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let patience = format!("ALTER DATABASE {name} SET deadlock_timeout = '1h'");
    query(AssertSqlSafe(patience)).execute(&mut connection).await.unwrap();
    Some(Ctx::at(url).await)
}

/// The third connection.
struct Gate {
    held: PgConnection,
    watch: PgConnection,
}

impl Gate {
    /// Holds what `sql` locks: `LOCK TABLE … IN SHARE MODE` stops writes to a table, `ACCESS EXCLUSIVE` reads as well.
    async fn hold(ctx: &Ctx, sql: &str) -> Self {
        let mut held = PgConnection::connect(&ctx.url).await.unwrap();
        query("BEGIN").execute(&mut held).await.unwrap();
        query(AssertSqlSafe(sql.to_owned())).execute(&mut held).await.unwrap();
        Self { held, watch: PgConnection::connect(&ctx.url).await.unwrap() }
    }

    /// Returns once so many operations wait for a lock.
    async fn until_waiting(&mut self, expected: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND backend_type = 'client backend'";
        within(async {
            while query_scalar::<_, i64>(waiting).fetch_one(&mut self.watch).await.unwrap() != expected {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    async fn open(mut self) {
        query("COMMIT").execute(&mut self.held).await.unwrap();
    }
}

/// Gives up where something stands still.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("nothing stands still")
}

type Running<T> = JoinHandle<Result<T, StoreError>>;

fn start<T, F>(store: &Store, operation: impl FnOnce(Store) -> F) -> Running<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    tokio::spawn(operation(store.clone()))
}

async fn ended<T>(running: Running<T>) -> T {
    within(running).await.unwrap().unwrap()
}

fn ingest(ctx: &Ctx, spans: Vec<Draft>) -> Running<Vec<Receipt>> {
    let (arrival, now) = (ctx.arrival(spans), ctx.now());
    start(&ctx.store, async move |store| store.ingest(&[arrival], now).await)
}

fn plan(ctx: &Ctx) -> Running<Planned> {
    let now = ctx.now();
    start(&ctx.store, async move |store| store.plan(None, now, now, PLAN, None).await)
}

const NO_SPANS: &str = "LOCK TABLE spans IN SHARE MODE";
const NO_ASSESSMENTS: &str = "LOCK TABLE assessments IN SHARE MODE";
const NO_VERDICTS: &str = "LOCK TABLE verdicts IN SHARE MODE";
