//! Opening: statements fit, migrations run once, and what stands in the way is told plainly.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use afterword::clock::{Clock, SystemClock};
use afterword::entropy::SeededEntropy;
use afterword::store::{Store, StoreError};

use super::contract;
use super::ctx::{Ctx, START, root};
use super::raw::Raw;
use crate::support::{address, postgres, store_at};

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(&store_at(url), Arc::new(SeededEntropy::new(1))).await
}

async fn every_statement_fits_the_tables(ctx: Ctx) {
    let checked = ctx.store.check_statements().await.unwrap();
    assert!(checked > 50, "{checked}");
}

async fn a_database_is_opened_as_often_as_one_likes(ctx: Ctx) {
    ctx.session("s", 1).await;
    let again = open(&ctx.url).await.unwrap();
    assert_eq!(again.recent_sessions(&ctx.project, START, 10).await.unwrap().len(), 1);
}

async fn a_migration_of_a_newer_program_is_refused_by_its_number(ctx: Ctx) {
    let mut raw = ctx.raw().await;
    raw.run(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        SELECT 9999, 'from the future', success, checksum, execution_time FROM _sqlx_migrations WHERE version = 1",
    )
    .await;
    let error = open(&ctx.url).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer(9999)), "{error:?}");
    assert!(!error.is_outage());
}

async fn what_is_acknowledged_is_seen_by_the_next_process(ctx: Ctx) {
    ctx.ingest(vec![root("s", "t")]).await;
    let mut raw = ctx.raw().await;
    assert_eq!(raw.number("COUNT(*)", "FROM spans").await, 1);
    ctx.store.close().await;
    let again = open(&ctx.url).await.unwrap();
    assert_eq!(again.recent_sessions(&ctx.project, START, 10).await.unwrap()[0].spans, 1);
}

async fn a_clock_follows_the_database_server_where_there_is_one(ctx: Ctx) {
    let (machine, clock) = (SystemClock::default(), SystemClock::default());
    clock.follow(START);
    ctx.store.follow_clock(&clock).await.unwrap();
    let apart = (clock.now() - machine.now()).get().abs();
    assert_eq!(apart < 60_000_000, ctx.url.starts_with("postgres"), "{apart}");
}

contract!(
    a_clock_follows_the_database_server_where_there_is_one,
    every_statement_fits_the_tables,
    a_database_is_opened_as_often_as_one_likes,
    a_migration_of_a_newer_program_is_refused_by_its_number,
    what_is_acknowledged_is_seen_by_the_next_process,
);

async fn open_many_at_once(url: &str) {
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let url = url.to_owned();
            tokio::spawn(async move { open(&url).await })
        })
        .collect();
    for one in opening {
        one.await.unwrap().unwrap().check_statements().await.unwrap();
    }
    assert_eq!(Raw::connect(url).await.number("COUNT(*)", "FROM _sqlx_migrations").await, migrations("sqlite"));
}

fn migrations(engine: &str) -> i64 {
    i64::try_from(names(engine).len()).unwrap()
}

fn names(engine: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(engine);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_open_a_new_sqlite_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    open_many_at_once(&format!("sqlite://{}", folder.path().join("new.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_open_a_new_postgres_database_at_once() {
    let Some(url) = postgres::database() else { return };
    open_many_at_once(&url).await;
}

/// Table and column names, with what the two engines call alike; keys and nullability included.
async fn columns_of_sqlite(raw: &mut Raw) -> BTreeMap<(String, String), (String, bool, bool)> {
    let rest = "FROM sqlite_master m, pragma_table_info(m.name) c
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name NOT LIKE '\\_sqlx%' ESCAPE '\\'";
    let rows = raw.texts(&["m.name", "c.name", "c.type", "c.\"notnull\"", "c.pk > 0"], rest).await;
    rows.into_iter()
        .map(|row| {
            let mut row = row.into_iter().flatten();
            let mut next = || row.next().unwrap();
            ((next(), next()), (next(), next() == "1", next() == "1"))
        })
        .collect()
}

async fn columns_of_postgres(raw: &mut Raw) -> BTreeMap<(String, String), (String, bool, bool)> {
    let rest = "FROM information_schema.columns c WHERE table_schema = 'public' AND table_name NOT LIKE '\\_sqlx%'";
    let key = "EXISTS (SELECT 1 FROM information_schema.table_constraints t
        JOIN information_schema.key_column_usage k USING (constraint_name)
        WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_name = c.table_name AND k.column_name = c.column_name)";
    let rows = raw.texts(&["table_name", "column_name", "data_type", "is_nullable = 'NO'", key], rest).await;
    rows.into_iter()
        .map(|row| {
            let mut row = row.into_iter().flatten();
            let mut next = || row.next().unwrap();
            let name = (next(), next());
            let kind = match next().as_str() {
                "text" => "TEXT",
                "bigint" | "boolean" => "INTEGER",
                "double precision" => "REAL",
                other => panic!("{name:?} is {other}"),
            };
            (name, (kind.to_owned(), next() == "true", next() == "true"))
        })
        .collect()
}

#[tokio::test]
async fn the_two_engines_have_the_same_migrations_tables_columns_and_keys() {
    assert_eq!(names("sqlite"), names("postgres"));
    let Some(pg) = Ctx::postgres().await else { return };
    let lite = Ctx::sqlite().await;
    let (lite, pg) = (columns_of_sqlite(&mut lite.raw().await).await, columns_of_postgres(&mut pg.raw().await).await);
    assert!(lite.len() > 100, "{}", lite.len());
    assert_eq!(lite, pg);
}

#[tokio::test]
async fn every_text_key_of_postgres_sorts_bytewise() {
    let Some(ctx) = Ctx::postgres().await else { return };
    let rest = "FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
        WHERE n.nspname = 'public' AND c.relname NOT LIKE '\\_sqlx%' AND a.atttypid = 'text'::regtype
            AND a.attcollation <> (SELECT oid FROM pg_collation WHERE collname = 'C')";
    assert_eq!(ctx.raw().await.texts(&["c.relname", "a.attname"], rest).await, Vec::<Vec<Option<String>>>::new());
}

#[tokio::test]
async fn a_url_of_neither_engine_is_a_bad_url_and_says_what_is_expected() {
    for (url, expected) in [
        ("mysql://localhost/x", "sqlite://"),
        ("afterword.db", "sqlite://"),
        ("sqlite://", "path"),
        ("postgres://host:port/x", "postgres://"),
    ] {
        let error = open(url).await.unwrap_err();
        assert!(matches!(error, StoreError::BadUrl(_)), "{url}: {error:?}");
        assert!(error.to_string().starts_with("database.url") && error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_server_or_folder_that_is_not_there_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("sqlite://{}/no/such/folder/x.db", folder.path().display());
    let closed = address::own();
    for url in [missing, format!("postgres://afterword@{closed}/x")] {
        let error = open(&url).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)), "{url}: {error:?}");
        assert!(error.is_outage());
    }
}

#[tokio::test]
async fn a_server_that_is_no_database_is_told_as_such() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://me@{}/x", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = open(&url).await.unwrap_err();
    let told = error.to_string();
    assert!(
        matches!(error, StoreError::Unreachable(_)) && told.contains("does not speak as a database does"),
        "{told}"
    );
    assert!(!told.contains("sqlx") && told.contains("database.url"), "{told}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    std::fs::write(&path, "Dear Sir or Madam, this is no database at all.".repeat(100)).unwrap();
    let error = open(&format!("sqlite://{}", path.display())).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)) && error.to_string().contains("database.url"), "{error:?}");
}

/// Root may write everything, so the test runs itself again as an ordinary user.
#[tokio::test]
async fn a_file_that_may_only_be_read_is_told_as_such() {
    const VICTIM: &str = "AFTERWORD_TEST_READ_ONLY";
    if let Ok(url) = std::env::var(VICTIM) {
        let error = open(&url).await.unwrap_err();
        println!("\nerror {error:?} {error}");
        return;
    }
    let ctx = Ctx::sqlite().await;
    ctx.store.close().await;
    let path = Path::new(ctx.url.strip_prefix("sqlite://").unwrap());
    let permit = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    permit(path, 0o444);
    permit(&path.with_extension("db.migrate-lock"), 0o666);
    permit(path.parent().unwrap(), 0o555);
    let me = std::env::current_exe().unwrap();
    let mut again = postgres::as_unprivileged(me.to_str().unwrap());
    let ran = again
        .args(["--exact", "--nocapture", "store::opening::a_file_that_may_only_be_read_is_told_as_such"])
        .env(VICTIM, &ctx.url)
        .output();
    permit(path.parent().unwrap(), 0o755);
    let told = String::from_utf8_lossy(&ran.unwrap().stdout).into_owned();
    let line = told.lines().find(|line| line.starts_with("error ")).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains("ReadOnly") && line.contains("permissions"), "{line}");
}

#[tokio::test]
async fn sqlite_keeps_a_write_ahead_log_beside_the_file() {
    let ctx = Ctx::sqlite().await;
    let mode = ctx.raw().await.texts(&["journal_mode"], "FROM pragma_journal_mode").await;
    assert_eq!(mode, [[Some("wal".to_owned())]]);
}
