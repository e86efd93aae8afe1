//! The two engines behind one face: connections, transactions, arguments and rows.

use sqlx::postgres::{PgArguments, PgPool, PgRow};
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Postgres, Row as _, SqlSafeStr as _, Transaction};

use super::error::StoreError;
use super::lite::{self, Desk, LiteTx};
use super::sql::{Bulk, Kind, Sql};
#[cfg(test)]
use crate::test_support::steps;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// An open database.
#[derive(Debug, Clone)]
pub(crate) enum Db {
    /// One writer and a few readers on one file: SQLite allows no more than one writer at a time.
    Lite {
        writer: SqlitePool,
        reader: SqlitePool,
        desk: Desk,
    },
    Pg(PgPool),
}

/// A transaction. Dropped without [`Tx::commit`], it is rolled back.
#[derive(Debug)]
pub(crate) enum Tx {
    Lite(LiteTx),
    Pg(Transaction<'static, Postgres>),
}

impl Db {
    /// Begins a transaction that may write.
    pub(crate) async fn write(&self) -> Result<Tx> {
        #[cfg(test)]
        let _busy = simulated(steps::enter(steps::At::Begin).await, None)?;
        Ok(match self {
            // IMMEDIATE: a transaction that begins by reading and then writes could not wait for another writer.
            Self::Lite { writer, .. } => Tx::Lite(LiteTx::new(writer.acquire().await?, "BEGIN IMMEDIATE")),
            Self::Pg(pool) => Tx::Pg(pool.begin().await?),
        })
    }

    /// Begins a transaction that only reads, and sees one moment of the database throughout.
    pub(crate) async fn read(&self) -> Result<Tx> {
        #[cfg(test)]
        let _busy = simulated(steps::enter(steps::At::Read).await, None)?;
        Ok(match self {
            Self::Lite { reader, .. } => Tx::Lite(LiteTx::new(reader.acquire().await?, "BEGIN")),
            Self::Pg(pool) => Tx::Pg(pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?),
        })
    }

    /// Runs one reading statement by itself and takes all its rows. A single statement sees one moment anyway, and so saves the
    /// round trips that begin and end a transaction.
    pub(crate) async fn fetch(&self, sql: &'static Sql, args: Vec<Arg>) -> Result<Vec<Row>> {
        #[cfg(test)]
        let _busy = simulated(steps::enter(steps::At::LookUp(sql.name)).await, Some(sql.name))?;
        Ok(match self {
            Self::Lite { reader, desk, .. } => {
                let rows = desk.fetch(reader, sql.sqlite(), args).await?;
                rows.into_iter().map(Row::Lite).collect()
            }
            Self::Pg(pool) => {
                let rows = sqlx::query_with(sql.postgres(), pg_args(args)?).fetch_all(pool).await?;
                rows.into_iter().map(Row::Pg).collect()
            }
        })
    }

    /// As [`Db::fetch`], for a statement of at most one row.
    pub(crate) async fn look_up(&self, sql: &'static Sql, args: Vec<Arg>) -> Result<Option<Row>> {
        Ok(self.fetch(sql, args).await?.into_iter().next())
    }
}

/// A scalar argument.
#[derive(Debug, Clone)]
pub(crate) enum Arg {
    Text(Option<String>),
    Int(Option<i64>),
    Real(Option<f64>),
    Flag(bool),
    Texts(Vec<String>),
}

/// PostgreSQL keeps no zero bytes in text, and one in a span's name or a judge's words must not make the rest unstorable. Both
/// engines get the same sign in its place.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

macro_rules! arg_from {
    ($($from:ty => |$value:ident| $arg:expr;)+) => {$(
        impl From<$from> for Arg {
            fn from($value: $from) -> Self {
                $arg
            }
        }
    )+};
}

arg_from! {
    &str => |v| Self::Text(Some(storable(v.to_owned())));
    &String => |v| Self::Text(Some(storable(v.clone())));
    String => |v| Self::Text(Some(storable(v)));
    Option<String> => |v| Self::Text(v.map(storable));
    i64 => |v| Self::Int(Some(v));
    Option<i64> => |v| Self::Int(v);
    f64 => |v| Self::Real(Some(v));
    Option<f64> => |v| Self::Real(v);
    bool => |v| Self::Flag(v);
    Vec<String> => |v| Self::Texts(v.into_iter().map(storable).collect());
    crate::domain::time::Timestamp => |v| Self::Int(Some(v.micros()));
    Option<crate::domain::time::Timestamp> => |v| Self::Int(v.map(crate::domain::time::Timestamp::micros));
    &crate::domain::ids::ProjectId => |v| Self::Text(Some(v.as_str().to_owned()));
    &crate::domain::ids::SessionId => |v| Self::Text(Some(v.as_str().to_owned()));
    &crate::domain::ids::TraceId => |v| Self::Text(Some(v.as_str().to_owned()));
    &crate::domain::ids::SpanId => |v| Self::Text(Some(v.as_str().to_owned()));
    &crate::domain::ids::GroupId => |v| Self::Text(Some(v.as_str().to_owned()));
    &crate::domain::ids::ScorerId => |v| Self::Text(Some(v.as_str().to_owned()));
}

/// A list of arguments of any kind.
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::store::engine::Arg::from($value)),*] };
}
pub(crate) use args;

/// Many rows of arguments, row by row, for a bulk statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows(pub(super) Vec<Vec<Arg>>);

impl Rows {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, row: Vec<Arg>) {
        self.0.push(row);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Vec<Arg>> for Rows {
    fn from_iter<I: IntoIterator<Item = Vec<Arg>>>(rows: I) -> Self {
        Self(rows.into_iter().collect())
    }
}

/// One bulk statement to be run, see [`Tx::write_all`].
pub(crate) struct Write {
    pub(super) bulk: &'static Bulk,
    pub(super) scalars: Vec<Arg>,
    pub(super) rows: Rows,
}

impl Write {
    pub(crate) const fn new(bulk: &'static Bulk, scalars: Vec<Arg>, rows: Rows) -> Self {
        Self { bulk, scalars, rows }
    }

    /// Whether SQLite takes it in one statement.
    fn is_short(&self) -> bool {
        self.rows.0.len() <= lite::MOST_PADDED
    }
}

impl Tx {
    /// Makes the transaction's changes last.
    pub(crate) async fn commit(self) -> Result<()> {
        #[cfg(test)]
        let busy = simulated(!steps::fails_at_commit(), None)?;
        match self {
            Self::Lite(tx) => tx.commit().await?,
            Self::Pg(tx) => tx.commit().await?,
        }
        #[cfg(test)]
        drop(busy);
        #[cfg(test)]
        drop(simulated(steps::committed().await, None)?);
        Ok(())
    }

    /// Takes the transaction's changes back, and lets go of its locks at once: one that is dropped holds them until its
    /// connection is used again, and whoever skips locked rows meanwhile passes them by.
    pub(crate) async fn rollback(self) -> Result<()> {
        #[cfg(test)]
        let _busy = steps::busy(None);
        match self {
            Self::Lite(tx) => tx.rollback().await?,
            Self::Pg(tx) => tx.rollback().await?,
        }
        Ok(())
    }

    /// Runs a statement; answers how many rows it touched.
    pub(crate) async fn execute(&mut self, sql: &'static Sql, args: Vec<Arg>) -> Result<u64> {
        #[cfg(test)]
        let _busy = steps::busy(Some(sql.name));
        Ok(match self {
            Self::Lite(tx) => tx.execute(sql.sqlite().into_sql_str(), args).await?,
            Self::Pg(tx) => sqlx::query_with(sql.postgres(), pg_args(args)?).execute(&mut **tx).await?.rows_affected(),
        })
    }

    /// Runs a statement and takes all its rows.
    pub(crate) async fn fetch(&mut self, sql: &'static Sql, args: Vec<Arg>) -> Result<Vec<Row>> {
        #[cfg(test)]
        let _busy = steps::busy(Some(sql.name));
        Ok(match self {
            Self::Lite(tx) => {
                let rows = tx.fetch(sql.sqlite().into_sql_str(), args).await?;
                rows.into_iter().map(Row::Lite).collect()
            }
            Self::Pg(tx) => {
                let rows = sqlx::query_with(sql.postgres(), pg_args(args)?).fetch_all(&mut **tx).await?;
                rows.into_iter().map(Row::Pg).collect()
            }
        })
    }

    /// Runs a statement and takes its first row, where there is one.
    pub(crate) async fn fetch_one(&mut self, sql: &'static Sql, args: Vec<Arg>) -> Result<Option<Row>> {
        Ok(self.fetch(sql, args).await?.into_iter().next())
    }

    /// Runs a bulk statement over `rows`, in chunks where the engine wants them, and takes all rows it returns. Nothing is
    /// run where there are no rows.
    pub(crate) async fn bulk(&mut self, bulk: &'static Bulk, scalars: Vec<Arg>, rows: Rows) -> Result<Vec<Row>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        #[cfg(test)]
        let _busy = steps::busy(Some(bulk.name));
        match self {
            Self::Lite(tx) => {
                let mut returned = Vec::new();
                for (text, args) in lite::chunks(bulk, &scalars, rows.0) {
                    let rows = tx.fetch(AssertSqlSafe(text).into_sql_str(), args).await?;
                    returned.extend(rows.into_iter().map(Row::Lite));
                }
                Ok(returned)
            }
            Self::Pg(tx) => {
                let mut all = pg_args(scalars)?;
                for column in columns(bulk, rows.0)? {
                    add_column(&mut all, column)?;
                }
                let returned = sqlx::query_with(bulk.postgres(), all).fetch_all(&mut **tx).await?;
                Ok(returned.into_iter().map(Row::Pg).collect())
            }
        }
    }

    /// Runs bulk statements one after the other, wanting none of their rows. Where SQLite needs a single statement for each, all
    /// of them take one trip to its thread.
    pub(crate) async fn write_all(&mut self, writes: impl IntoIterator<Item = Write>) -> Result<()> {
        let writes: Vec<Write> = writes.into_iter().filter(|write| !write.rows.is_empty()).collect();
        match self {
            Self::Lite(tx) if writes.iter().all(Write::is_short) => {
                #[cfg(test)]
                let _busy: Vec<_> = writes.iter().map(|write| steps::busy(Some(write.bulk.name))).collect();
                tx.run(lite::joined(writes)).await
            }
            _ => {
                for write in writes {
                    self.bulk(write.bulk, write.scalars, write.rows).await?;
                }
                Ok(())
            }
        }
    }

    /// As [`Tx::write_all`] and then [`Tx::commit`]; on SQLite in one trip, where it can be.
    pub(crate) async fn write_and_commit(mut self, writes: Vec<Write>) -> Result<()> {
        match self {
            Self::Lite(tx) if writes.iter().all(Write::is_short) => {
                let writes: Vec<Write> = writes.into_iter().filter(|write| !write.rows.is_empty()).collect();
                #[cfg(test)]
                let busy: Vec<_> = writes.iter().map(|write| steps::busy(Some(write.bulk.name))).collect();
                #[cfg(test)]
                let ending = simulated(!steps::fails_at_commit(), None)?;
                tx.finish(lite::joined(writes)).await?;
                #[cfg(test)]
                drop((busy, ending));
                #[cfg(test)]
                drop(simulated(steps::committed().await, None)?);
                Ok(())
            }
            _ => {
                self.write_all(writes).await?;
                self.commit().await
            }
        }
    }

    /// Takes the locks of rows that a statement names, and reads nothing. SQLite has one writer at a time, which this
    /// transaction is already.
    pub(crate) async fn lock(&mut self, sql: &'static Sql, args: Vec<Arg>) -> Result<()> {
        if matches!(self, Self::Pg(_)) {
            self.fetch(sql, args).await?;
        }
        Ok(())
    }

    /// As [`Tx::lock`], for a bulk statement.
    pub(crate) async fn lock_all(&mut self, bulk: &'static Bulk, scalars: Vec<Arg>, rows: Rows) -> Result<()> {
        if matches!(self, Self::Pg(_)) {
            self.bulk(bulk, scalars, rows).await?;
        }
        Ok(())
    }
}

/// What a simulation makes of a step: a failure, or something being carried out until the guard is dropped.
#[cfg(test)]
fn simulated(goes_on: bool, name: Option<&'static str>) -> Result<steps::Busy> {
    if goes_on { Ok(steps::busy(name)) } else { Err(StoreError::Unreachable("the simulation says so".to_owned())) }
}

pub(super) fn encode_error(error: &(dyn std::error::Error + Send + Sync)) -> StoreError {
    StoreError::Refused(format!("an argument can't be sent: {error}"))
}

fn pg_args(args: Vec<Arg>) -> Result<PgArguments> {
    let mut list = PgArguments::default();
    for arg in args {
        match arg {
            Arg::Text(value) => list.add(value),
            Arg::Int(value) => list.add(value),
            Arg::Real(value) => list.add(value),
            Arg::Flag(value) => list.add(value),
            Arg::Texts(values) => list.add(values),
        }
        .map_err(|error| encode_error(error.as_ref()))?;
    }
    Ok(list)
}

/// One column of a bulk statement, for PostgreSQL's arrays.
enum Column {
    Text(Vec<Option<String>>),
    Int(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Flag(Vec<bool>),
}

fn columns(bulk: &Bulk, rows: Vec<Vec<Arg>>) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = bulk
        .columns
        .iter()
        .map(|(_, kind)| match kind {
            Kind::Text => Column::Text(Vec::with_capacity(rows.len())),
            Kind::Int => Column::Int(Vec::with_capacity(rows.len())),
            Kind::Real => Column::Real(Vec::with_capacity(rows.len())),
            Kind::Flag => Column::Flag(Vec::with_capacity(rows.len())),
        })
        .collect();
    for row in rows {
        for (column, arg) in columns.iter_mut().zip(row) {
            match (column, arg) {
                (Column::Text(list), Arg::Text(value)) => list.push(value),
                (Column::Int(list), Arg::Int(value)) => list.push(value),
                (Column::Real(list), Arg::Real(value)) => list.push(value),
                (Column::Flag(list), Arg::Flag(value)) => list.push(value),
                (_, arg) => {
                    return Err(StoreError::Refused(format!("{}: {arg:?} in a column of another type", bulk.name)));
                }
            }
        }
    }
    Ok(columns)
}

fn add_column(list: &mut PgArguments, column: Column) -> Result<()> {
    match column {
        Column::Text(values) => list.add(values),
        Column::Int(values) => list.add(values),
        Column::Real(values) => list.add(values),
        Column::Flag(values) => list.add(values),
    }
    .map_err(|error| encode_error(error.as_ref()))
}

/// A row of an answer. Columns are read by their place.
#[derive(Debug)]
pub(crate) enum Row {
    Lite(SqliteRow),
    Pg(PgRow),
}

macro_rules! column {
    ($row:expr, $index:expr, $type:ty) => {
        match $row {
            Row::Lite(row) => row.try_get::<$type, _>($index)?,
            Row::Pg(row) => row.try_get::<$type, _>($index)?,
        }
    };
}

impl Row {
    pub(crate) fn text(&self, index: usize) -> Result<String> {
        Ok(column!(self, index, String))
    }

    pub(crate) fn opt_text(&self, index: usize) -> Result<Option<String>> {
        Ok(column!(self, index, Option<String>))
    }

    pub(crate) fn int(&self, index: usize) -> Result<i64> {
        Ok(column!(self, index, i64))
    }

    pub(crate) fn opt_int(&self, index: usize) -> Result<Option<i64>> {
        Ok(column!(self, index, Option<i64>))
    }

    pub(crate) fn opt_real(&self, index: usize) -> Result<Option<f64>> {
        Ok(column!(self, index, Option<f64>))
    }

    pub(crate) fn real(&self, index: usize) -> Result<f64> {
        Ok(column!(self, index, f64))
    }

    pub(crate) fn flag(&self, index: usize) -> Result<bool> {
        Ok(match self {
            Self::Lite(row) => row.try_get::<i64, _>(index)? != 0,
            Self::Pg(row) => row.try_get::<bool, _>(index)?,
        })
    }

    pub(crate) fn time(&self, index: usize) -> Result<crate::domain::time::Timestamp> {
        Ok(crate::domain::time::Timestamp::from_micros(self.int(index)?))
    }

    pub(crate) fn opt_time(&self, index: usize) -> Result<Option<crate::domain::time::Timestamp>> {
        Ok(self.opt_int(index)?.map(crate::domain::time::Timestamp::from_micros))
    }
}
