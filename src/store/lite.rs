//! SQLite's side of the engine: few trips to its thread. Each takes about as long as a small statement does.

use std::sync::Arc;

use futures::TryStreamExt as _;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteArguments, SqlitePool, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Either, Executor as _, SqlSafeStr as _, SqlStr, Sqlite};
use tokio::sync::Mutex;

use super::engine::{Arg, Result, Write, encode_error};
use super::sql::Bulk;

/// How many rows one statement takes: few sizes, so that the prepared statements stay few. The largest is for the widest table
/// within SQLite's 32,766 parameters.
const CHUNKS: [usize; 6] = [512, 128, 64, 32, 8, 1];

/// Up to this size a statement is run with rows left empty rather than a few smaller ones.
pub(super) const MOST_PADDED: usize = 64;

/// The size of the next statement where so many rows are left, and how many of them it takes.
fn next_chunk(left: usize) -> (usize, usize) {
    let fits = CHUNKS.into_iter().rev().find(|size| *size >= left && *size <= MOST_PADDED);
    let size = fits.or_else(|| CHUNKS.into_iter().find(|size| *size <= left)).unwrap_or(1);
    (size, size.min(left))
}

/// The statements of a bulk statement over rows, each with its arguments.
pub(super) fn chunks(bulk: &'static Bulk, scalars: &[Arg], rows: Vec<Vec<Arg>>) -> Vec<(String, Vec<Arg>)> {
    let mut left = rows.into_iter();
    let mut chunks = Vec::new();
    while left.len() > 0 {
        let (size, taken) = next_chunk(left.len());
        let mut all = scalars.to_vec();
        let is_filled = taken == size;
        for mut row in left.by_ref().take(taken) {
            all.append(&mut row);
            if !is_filled {
                all.push(Arg::Flag(true));
            }
        }
        if !is_filled {
            all.resize(scalars.len() + size * (bulk.columns.len() + 1), Arg::Int(None));
        }
        chunks.push((bulk.sqlite(size, is_filled), all));
    }
    chunks
}

/// Writes as one text with all their arguments, to be run in one trip.
pub(super) fn joined(writes: Vec<Write>) -> (String, Vec<Arg>) {
    let (mut texts, mut args) = (Vec::new(), Vec::new());
    for write in writes {
        for (text, own) in chunks(write.bulk, &write.scalars, write.rows.0) {
            texts.push(text);
            args.extend(own);
        }
    }
    (texts.join("; "), args)
}

fn bound(args: Vec<Arg>) -> Result<SqliteArguments> {
    let mut list = SqliteArguments::default();
    for arg in args {
        match arg {
            Arg::Text(value) => list.add(value),
            Arg::Int(value) => list.add(value),
            Arg::Real(value) => list.add(value),
            Arg::Flag(value) => list.add(i64::from(value)),
            Arg::Texts(values) => list.add(serde_json::Value::from(values).to_string()),
        }
        .map_err(|error| encode_error(error.as_ref()))?;
    }
    Ok(list)
}

/// A transaction that begins together with its first statement and may end together with its last. The driver's own takes a trip
/// for each; and where SQLite ends one by itself, because the disk is full or fails, the driver goes on counting it, and lets no
/// other begin on that connection.
///
/// That several statements share one text is a way of SQLite's driver alone. Parameters without names are counted on from one
/// statement to the next; those with numbers count from the first.
#[derive(Debug)]
pub(crate) struct LiteTx {
    /// `None` once it has ended.
    connection: Option<PoolConnection<Sqlite>>,
    /// What begins it; `None` once that was sent.
    begin: Option<&'static str>,
}

impl LiteTx {
    pub(super) const fn new(connection: PoolConnection<Sqlite>, begin: &'static str) -> Self {
        Self { connection: Some(connection), begin: Some(begin) }
    }

    /// The text with what begins the transaction before it, where it did not begin yet.
    fn begun(&mut self, text: SqlStr) -> SqlStr {
        match self.begin.take() {
            Some(begin) => AssertSqlSafe(format!("{begin}; {}", text.as_str())).into_sql_str(),
            None => text,
        }
    }

    fn connection(&mut self) -> Result<&mut PoolConnection<Sqlite>> {
        let ended = || super::StoreError::Refused("a transaction that has ended was used".to_owned());
        self.connection.as_mut().ok_or_else(ended)
    }

    /// Runs a statement and takes all its rows.
    pub(super) async fn fetch(&mut self, text: SqlStr, args: Vec<Arg>) -> Result<Vec<SqliteRow>> {
        let text = self.begun(text);
        Ok(sqlx::query_with(text, bound(args)?).fetch_all(&mut **self.connection()?).await?)
    }

    /// Runs a statement; answers how many rows it touched.
    pub(super) async fn execute(&mut self, text: SqlStr, args: Vec<Arg>) -> Result<u64> {
        let text = self.begun(text);
        let query = sqlx::query_with(text, bound(args)?);
        let mut results = self.connection()?.fetch_many(query);
        let mut touched = 0;
        // What begins a transaction answers with what the statement before it touched.
        while let Some(result) = results.try_next().await? {
            if let Either::Left(done) = result {
                touched = done.rows_affected();
            }
        }
        Ok(touched)
    }

    /// Runs a text of any number of statements, whose rows nobody wants.
    pub(super) async fn run(&mut self, (text, args): (String, Vec<Arg>)) -> Result<()> {
        if !text.is_empty() {
            let text = self.begun(AssertSqlSafe(text).into_sql_str());
            sqlx::query_with(text, bound(args)?).execute(&mut **self.connection()?).await?;
        }
        Ok(())
    }

    /// The same, and ends the transaction.
    pub(super) async fn finish(mut self, (text, args): (String, Vec<Arg>)) -> Result<()> {
        if self.begin.is_none() || !text.is_empty() {
            let separator = if text.is_empty() { "" } else { "; " };
            self.run((format!("{text}{separator}COMMIT"), args)).await?;
        }
        self.connection = None;
        Ok(())
    }

    pub(super) async fn commit(self) -> Result<()> {
        self.finish((String::new(), Vec::new())).await
    }

    pub(super) async fn rollback(mut self) -> Result<()> {
        if let Some(connection) = self.connection.take().filter(|_| self.begin.is_none()) {
            take_back(connection).await;
        }
        Ok(())
    }
}

impl Drop for LiteTx {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take().filter(|_| self.begin.is_none()) else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(take_back(connection))),
            // Closed, it takes its changes back too.
            Err(_) => drop(connection.detach()),
        }
    }
}

/// Takes back what a connection's transaction changed. One that SQLite ended by itself can't be ended again, and need not be;
/// after any other error the connection is closed, which ends it.
async fn take_back(mut connection: PoolConnection<Sqlite>) {
    if let Err(error) = connection.execute("ROLLBACK").await
        && !error.to_string().contains("no transaction is active")
    {
        tracing::debug!(%error, "a transaction can't be taken back; its connection is closed");
        drop(connection.detach());
    }
}

/// A reader that is kept at hand for single statements. Taken from its pool and given back for each, it would be asked each time
/// whether it is still there, at as many trips again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Desk(Arc<Mutex<Option<PoolConnection<Sqlite>>>>);

impl Desk {
    /// Runs one reading statement: on the reader at hand, or on another of the pool where that one is in use.
    pub(super) async fn fetch(&self, pool: &SqlitePool, text: &'static str, args: Vec<Arg>) -> Result<Vec<SqliteRow>> {
        let query = sqlx::query_with(text, bound(args)?);
        let Ok(mut at_hand) = self.0.try_lock() else { return Ok(query.fetch_all(pool).await?) };
        // Put back only where all went well: one that failed, or was left in the middle, is not used again.
        let mut connection = match at_hand.take() {
            Some(connection) => connection,
            None => pool.acquire().await?,
        };
        let rows = query.fetch_all(&mut *connection).await?;
        if !pool.is_closed() {
            *at_hand = Some(connection);
        }
        Ok(rows)
    }

    /// Gives the reader back to its pool, which can't close without it.
    pub(crate) async fn clear(&self) {
        drop(self.0.lock().await.take());
    }
}

#[cfg(test)]
mod tests {
    use super::next_chunk;

    #[test]
    fn few_rows_are_one_statement_and_many_are_few() {
        assert_eq!([1, 2, 8, 9, 32, 50].map(next_chunk), [(1, 1), (8, 2), (8, 8), (32, 9), (32, 32), (64, 50)]);
        assert_eq!([65, 127, 128, 600].map(next_chunk), [(64, 64), (64, 64), (128, 128), (512, 512)]);
    }
}
