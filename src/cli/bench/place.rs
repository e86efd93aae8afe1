//! Where a measurement keeps its data: a file in a temporary folder, or a database of its own on a PostgreSQL server.

use std::str::FromStr as _;

use anyhow::Context as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;

use crate::entropy::Entropy;

/// The database engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// A file in a temporary folder.
    Sqlite,
    /// A database of its own on a server.
    Postgres,
}

impl Engine {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Where the data is kept while it is measured.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Place {
    /// The database engine
    #[arg(long, value_enum, default_value = "sqlite")]
    pub engine: Engine,
    /// The PostgreSQL server, whose user may create databases; one is made and removed again
    #[arg(
        long,
        value_name = "URL",
        env = "AFTERWORD_BENCH_DATABASE",
        hide_env_values = true,
        required_if_eq("engine", "postgres")
    )]
    pub database: Option<String>,
}

/// A place that was made.
pub(super) struct Made {
    /// What the store is opened with.
    pub(super) url: String,
    pub(super) folder: TempDir,
    /// The server and the database there.
    on_server: Option<(PgConnectOptions, String)>,
}

impl Place {
    /// In a file.
    pub(super) const fn file() -> Self {
        Self { engine: Engine::Sqlite, database: None }
    }

    /// Makes an empty one.
    pub(super) async fn make(&self, entropy: &dyn Entropy) -> anyhow::Result<Made> {
        let folder = tempfile::Builder::new().prefix("afterword-bench-").tempdir()?;
        if self.engine == Engine::Sqlite {
            let url = format!("sqlite://{}", folder.path().join("bench.db").display());
            return Ok(Made { url, folder, on_server: None });
        }
        let url = self.database.as_deref().context("--engine postgres needs --database URL")?;
        let server = PgConnectOptions::from_str(url).context("--database is no PostgreSQL URL")?;
        let name = format!("afterword_bench_{}", entropy.hex(8));
        let mut connection = PgConnection::connect_with(&server).await.context("the PostgreSQL server")?;
        // The name is made here, of letters and digits.
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        connection.close().await?;
        let url = server.clone().database(&name).to_url_lossy().to_string();
        Ok(Made { url, folder, on_server: Some((server, name)) })
    }
}

impl Made {
    /// Tidies up as a server's own upkeep would have in time.
    pub(super) async fn vacuum(&self) -> anyhow::Result<()> {
        if let Some((server, name)) = &self.on_server {
            let mut connection = PgConnection::connect_with(&server.clone().database(name)).await?;
            connection.execute("VACUUM ANALYZE").await?;
            connection.close().await?;
        }
        Ok(())
    }

    /// Removes it. What a measurement that failed leaves on a server is called `afterword_bench_…`.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        if let Some((server, name)) = self.on_server {
            let mut connection = PgConnection::connect_with(&server).await?;
            connection.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await?;
            connection.close().await?;
        }
        Ok(())
    }

    /// The size of everything on disk, in megabytes; of a server's nothing is said.
    pub(super) fn disk_mb(&self) -> Option<f64> {
        if self.on_server.is_some() {
            return None;
        }
        let files = std::fs::read_dir(self.folder.path()).into_iter().flatten();
        #[allow(clippy::cast_precision_loss, reason = "megabytes need no exactness")]
        let bytes = files.filter_map(|entry| entry.ok()?.metadata().ok()).map(|file| file.len()).sum::<u64>() as f64;
        Some(bytes / 1e6)
    }
}
