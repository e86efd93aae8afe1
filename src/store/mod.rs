//! Floor 1: the store. Whole operations, each exactly one transaction, on SQLite or PostgreSQL.

mod actions;
mod agents;
mod alerts;
mod backlog;
mod blocks;
mod by_hand;
mod candidates;
mod catalogue;
mod census;
mod datasets;
mod deliveries;
mod engine;
mod error;
mod events;
mod explain;
mod gather;
mod history;
mod idempotency;
mod ingest;
mod interim;
mod keys;
mod kpis;
mod latest;
mod lease;
mod ledger;
mod lite;
mod outage;
mod outbox;
mod place;
mod plan;
mod profiles;
mod projects;
mod prune;
mod purge;
mod quarantine;
#[cfg(test)]
mod query_plans;
mod rail;
mod receivers;
mod recompose;
mod record;
mod resweep_step;
mod resweeps;
mod run_rows;
mod runs;
mod scorecards;
mod secrets;
mod sessions;
mod settings;
mod signals;
#[cfg(test)]
mod simulated;
mod spans;
mod sql;
mod troubles;
mod verdicts;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, SqlSafeStr as _};

use crate::clock::{Clock, SystemClock};
use crate::domain::time::Timestamp;
use crate::entropy::Entropy;

pub use actions::{PendingAction, PendingDetail};
pub use agents::{AgentRow, SavedProfile};
pub use by_hand::ByHand;
pub use candidates::Estimated;
pub use catalogue::{SavedGroup, ScorerDraft};
pub use census::Census;
pub use datasets::SavedDataset;
pub use deliveries::{DeliveryFilter, DeliveryRow, Redelivered};
pub use engine::Result;
pub use error::StoreError;
pub use events::{EventPlace, EventRow};
pub use explain::Explained;
pub use gather::{GatheredGroup, GatheredScorer, GatheredSession, Gathering, PinnedSpecs};
pub use history::{ReportPlace, ReportRow, ScorerHistory};
pub use idempotency::Claim;
pub use ingest::{Arrival, Receipt};
pub use keys::{Key, KeyDraft, KeyRow};
pub use latest::Latest;
pub use lease::{Caps, Claimed};
pub use ledger::{Asked, DailyLimits, JudgeCall, Purpose, UsageRow};
pub use outbox::{HeldReceiver, Owed, Settled, Settlement};
pub use place::Place;
pub use plan::{Alarm, PlanSettings, Planned};
pub use profiles::{Profile, WantedProfile};
pub use projects::{DEFAULT_PROJECT, Project};
pub use prune::{Pruned, Retention, Walked};
pub use purge::Purged;
pub use quarantine::Released;
pub use rail::RailEntry;
pub use receivers::ReceiverRow;
pub use recompose::{RecomposeEnd, RecomposeOrder};
pub use record::{Recorded, SessionEnd, Try};
pub use resweep_step::{StepSettings, Stepped};
pub use resweeps::ResweepRow;
pub use run_rows::{RowClaims, RowEnd, RowLease};
pub use runs::{GateRow, NoGrading, SavedRun};
pub use scorecards::{MovedGroup, SavedScorecard};
pub use secrets::SigningSecrets;
pub use sessions::{Glimpse, SessionOrder, SessionPlace, SessionQuery, SessionRow};
pub use signals::{OccurrenceRow, SignalCounts, SignalFilter, SignalRow, Triage};
pub use spans::{SpanPlace, SpanRow, api_id};
pub use troubles::FailedTry;
pub use verdicts::{RatedVerdict, VerdictRow};

use engine::Db;
use lite::Desk;

/// How to reach the database.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// `sqlite://path` or `postgres://…`.
    pub url: String,
    /// The most connections to a PostgreSQL server.
    pub max_connections: u32,
    /// How long to wait for another writer (SQLite) or for a free connection.
    pub busy_timeout: Duration,
}

impl StoreSettings {
    /// Settings for a URL, everything else at its default.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), max_connections: 10, busy_timeout: Duration::from_secs(5) }
    }
}

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    db: Db,
    entropy: Arc<dyn Entropy>,
    /// The lane that was claimed from last: where the rotation goes on. Each process turns its own.
    last_lane: Arc<Mutex<lease::Lane>>,
    /// What goes wrong now.
    troubles: Arc<outage::Troubles>,
}

/// How many readers an SQLite file gets beside its one writer.
const LITE_READERS: u32 = 4;

/// Tries an operation again while another writer is in the way. The operation is one transaction, so that a try that failed
/// left nothing behind.
macro_rules! retrying {
    ($once:expr) => {{
        let mut tries = 0_u64;
        loop {
            match $once.await {
                Err(error) if $crate::store::StoreError::is_conflict(&error) && tries < 10 => {
                    tries += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(5 * tries)).await;
                }
                other => break other,
            }
        }
    }};
}
pub(crate) use retrying;

impl Store {
    /// Opens the database and brings its tables up to date. An SQLite file is created where it does not exist.
    ///
    /// # Errors
    /// [`StoreError`]: the URL is not understood, the database can't be reached or written, or it is newer than this program.
    pub async fn open(settings: &StoreSettings, entropy: Arc<dyn Entropy>) -> Result<Self> {
        let db = if let Some(path) = settings.url.strip_prefix("sqlite://") {
            open_lite(path, settings).await?
        } else if settings.url.starts_with("postgres://") || settings.url.starts_with("postgresql://") {
            open_pg(settings).await?
        } else {
            return Err(StoreError::BadUrl("must begin with sqlite:// or postgres://".to_owned()));
        };
        Ok(Self { db, entropy, last_lane: Arc::default(), troubles: Arc::default() })
    }

    /// Closes all connections, once those in use are given back.
    pub async fn close(&self) {
        match &self.db {
            Db::Lite { writer, reader, desk } => {
                // Closed first, so that nobody takes another to hand meanwhile.
                let closing = reader.close();
                desk.clear().await;
                closing.await;
                writer.close().await;
            }
            Db::Pg(pool) => pool.close().await,
        }
    }

    /// Makes `clock` follow the database server's clock, so that many workers agree on the time. An SQLite file has no clock
    /// of its own: there the machine's is the one.
    ///
    /// # Errors
    /// [`StoreError`] where the database can't be asked.
    pub async fn follow_clock(&self, clock: &SystemClock) -> Result<()> {
        if let Db::Pg(pool) = &self.db {
            let asked = clock.now();
            let micros: i64 = sqlx::query_scalar(DATABASE_TIME).fetch_one(pool).await?;
            // Half of the round trip lies between the server's reading and ours.
            let travel = (clock.now() - asked).get() / 2;
            clock.follow(Timestamp::from_micros(micros + travel));
        }
        Ok(())
    }
}

/// How long after its last use a connection to a server is taken to be there still.
const SURE_TO_BE_THERE: Duration = Duration::from_secs(1);

/// The one statement that reads a clock: everything else is handed the time.
const DATABASE_TIME: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";

async fn open_lite(path: &str, settings: &StoreSettings) -> Result<Db> {
    if path.is_empty() {
        return Err(StoreError::BadUrl("sqlite:// needs a path, for example sqlite://afterword.db".to_owned()));
    }
    let path = PathBuf::from(path);
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // FULL: what was acknowledged survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(settings.busy_timeout)
        .foreign_keys(true)
        // Each would be made anew from a whole table, for one statement.
        .pragma("automatic_index", "off")
        .pragma("cache_size", "-16000");
    let pool = || {
        SqlitePoolOptions::new()
            .acquire_timeout(settings.busy_timeout)
            .idle_timeout(None)
            .max_lifetime(None)
            // It would ask a thread of this process whether it is there, before each use.
            .test_before_acquire(false)
    };
    let lock = opening(&path).await;
    // Where the folder can't be written, the database says better than the lock what that means.
    let writer = pool().max_connections(1).connect_with(options.clone()).await?;
    let lock = lock?;
    sqlx::migrate!("migrations/sqlite").run(&writer).await?;
    // Unlocked when the file closes; the file itself stays, since removing it would race with the next process.
    drop(lock);
    let reader = pool().max_connections(LITE_READERS).connect_with(options.read_only(true)).await?;
    Ok(Db::Lite { writer, reader, desk: Desk::default() })
}

/// A lock that processes which open a file together hold one after another: sqlx takes none while it migrates SQLite, and SQLite
/// does not wait for another process that turns the write-ahead log on.
async fn opening(path: &Path) -> Result<std::fs::File> {
    let lock_path = PathBuf::from(format!("{}.migrate-lock", path.display()));
    let in_the_way = |error: std::io::Error| StoreError::Unreachable(format!("{}: {error}", lock_path.display()));
    let lock =
        std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(in_the_way)?;
    tokio::task::spawn_blocking(move || fs4::FileExt::lock(&lock).map(|()| lock))
        .await
        .map_err(|error| StoreError::Unreachable(error.to_string()))?
        .map_err(in_the_way)
}

async fn open_pg(settings: &StoreSettings) -> Result<Db> {
    let options = PgConnectOptions::from_str(&settings.url)
        .map_err(|_| {
            StoreError::BadUrl("not a PostgreSQL URL, expected postgres://user:password@host:port/name".to_owned())
        })?
        .application_name("afterword");
    // One connection first: a pool only says that its time ran out, not why.
    options.connect().await?.close().await?;
    let pool = PgPoolOptions::new()
        .max_connections(settings.max_connections)
        .acquire_timeout(settings.busy_timeout)
        .test_before_acquire(false)
        // A connection that was used a moment ago is there: asking each time would be one more round trip a transaction. Where
        // the server went away in that moment, the transaction fails as it would have a moment later.
        .before_acquire(|connection, meta| {
            Box::pin(async move { Ok(meta.idle_for < SURE_TO_BE_THERE || connection.ping().await.is_ok()) })
        })
        .connect_with(options)
        .await?;
    sqlx::migrate!("migrations/postgres").run(&pool).await?;
    Ok(Db::Pg(pool))
}

/// Every statement of the store.
static STATEMENTS: [&sql::Statements; 46] = [
    &backlog::ALL,
    &blocks::ALL,
    &interim::ALL,
    &actions::ALL,
    &agents::ALL,
    &alerts::ALL,
    &by_hand::ALL,
    &catalogue::ALL,
    &census::ALL,
    &datasets::ALL,
    &deliveries::ALL,
    &history::ALL,
    &idempotency::ALL,
    &ingest::ALL,
    &keys::ALL,
    &kpis::ALL,
    &latest::ALL,
    &ledger::ALL,
    &outbox::ALL,
    &plan::ALL,
    &profiles::ALL,
    &projects::ALL,
    &prune::ALL,
    &purge::ALL,
    &quarantine::ALL,
    &rail::ALL,
    &receivers::ALL,
    &recompose::ALL,
    &record::ALL,
    &scorecards::ALL,
    &secrets::ALL,
    &sessions::ALL,
    &settings::ALL,
    &signals::ALL,
    &spans::ALL,
    &troubles::ALL,
    &verdicts::ALL,
    &events::ALL,
    &explain::ALL,
    &gather::ALL,
    &lease::ALL,
    &candidates::ALL,
    &resweep_step::ALL,
    &resweeps::ALL,
    &run_rows::ALL,
    &runs::ALL,
];

impl Store {
    /// Has the database prepare every statement of the store, so that a table that does not fit is found before work begins.
    /// Answers how many there are.
    ///
    /// # Errors
    /// [`StoreError`] naming the first statement that does not fit.
    pub async fn check_statements(&self) -> Result<usize> {
        let mut checked = 0;
        for statements in STATEMENTS {
            let single = statements.single.iter().map(|sql| (sql.name, sql.sqlite().to_owned(), sql.postgres()));
            let bulk = statements.bulk.iter().map(|bulk| (bulk.name, bulk.sqlite(2, false), bulk.postgres()));
            for (name, lite, postgres) in single.chain(bulk) {
                let prepared = match &self.db {
                    Db::Lite { writer, .. } => writer.prepare(AssertSqlSafe(lite).into_sql_str()).await.map(drop),
                    Db::Pg(pool) => pool.prepare(postgres.into_sql_str()).await.map(drop),
                };
                prepared.map_err(|error| StoreError::Refused(format!("statement {name} does not fit: {error}")))?;
                checked += 1;
            }
        }
        Ok(checked)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::ids::{SessionId, SpanId, TraceId};
    use crate::domain::span::{Origin, Span, SpanBody, SpanKind};
    use crate::domain::time::Micros;
    use crate::entropy::SeededEntropy;

    fn span(n: usize) -> Span {
        Span {
            origin: Origin::Otlp,
            trace_id: TraceId::trusted(format!("t{n}")),
            span_id: SpanId::trusted("s"),
            parent_id: None,
            session_tag: Some(SessionId::trusted("session")),
            kind: SpanKind::Agent,
            name: "turn".into(),
            started_at: None,
            ended_at: None,
            body: SpanBody { output: Some(json!("x".repeat(20_000))), ..SpanBody::default() },
        }
    }

    /// The limit on pages belongs to the connection, so only a test inside the store can set it.
    #[tokio::test]
    async fn a_full_database_says_so_and_keeps_what_it_accepted() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}", folder.path().join("full.db").display());
        let store = Store::open(&StoreSettings::at(url), Arc::new(SeededEntropy::new(1))).await.expect("a store");
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let project = store.default_project(now).await.expect("a project").id;
        let Db::Lite { writer, .. } = &store.db else { panic!("SQLite was asked for") };
        sqlx::query("PRAGMA max_page_count = 100").execute(writer).await.expect("a limit");
        let mut accepted = 0;
        let error = loop {
            let arrival = Arrival {
                project: project.clone(),
                spans: vec![span(accepted)],
                margin: Micros::ZERO,
                trace_settle: Micros::ZERO,
            };
            match store.ingest(&[arrival], now).await {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Full(_)), "{error:?}");
        assert!(error.is_outage() && error.to_string().contains("Free some disk space"), "{error}");
        assert!(accepted > 0);
        let kept = store.spans_of_session(&project, &SessionId::trusted("session")).await.expect("spans");
        assert_eq!(kept.len(), accepted);
    }
}
