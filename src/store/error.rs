//! What can go wrong with the store, told so that a person knows what to do next.

use sqlx::error::DatabaseError;

/// What went wrong.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database could not be reached, or the connection broke.
    #[error(
        "the database can't be reached: {0}. Check database.url, and that its server runs or that its file can be opened"
    )]
    Unreachable(String),
    /// Another writer was in the way; the same operation may succeed when it is tried again.
    #[error("the database was busy with another writer: {0}")]
    Conflict(String),
    /// There was no connection to use in time. The pool goes on trying where the server refuses it, and so can't tell a server
    /// that is down from one that is asked too much.
    #[error(
        "no connection to the database within database.busy_timeout: it is down or can't be reached (database.url), or all \
         of database.max_connections are in use"
    )]
    NoConnection,
    /// The database can't be written.
    #[error("the database is read-only: {0}. Check the file's permissions, or that this is not a standby server")]
    ReadOnly(String),
    /// No room is left.
    #[error("no room is left for the database: {0}. Free some disk space; nothing already accepted is lost")]
    Full(String),
    /// The database was migrated by a newer version of this program.
    #[error(
        "the database is newer than this program: it holds migration {0}. Use the version of afterword that wrote it, or a newer one"
    )]
    Newer(i64),
    /// The database's address can't be used.
    #[error("database.url: {0}")]
    BadUrl(String),
    /// A stored value can't be read back.
    #[error("a stored value can't be read: {0}")]
    Corrupt(String),
    /// Anything else the database answered.
    #[error("the database refused: {0}")]
    Refused(String),
}

impl StoreError {
    /// Whether the same operation may succeed when it is tried again at once.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Whether it is the surroundings that are at fault, so that a later try may succeed.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Conflict(_) | Self::NoConnection | Self::ReadOnly(_) | Self::Full(_)
        )
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(answer) => classify(answer.as_ref()),
            sqlx::Error::PoolTimedOut => Self::NoConnection,
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                Self::Unreachable(error.to_string())
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnIndexOutOfBounds { .. } => {
                Self::Corrupt(error.to_string())
            }
            // Something else answers at that address; where in the driver that was found out helps nobody.
            sqlx::Error::Protocol(said) => {
                let said = said.split(" (sqlx").next().unwrap_or_default();
                Self::Unreachable(format!("what answers there does not speak as a database does: {said}"))
            }
            sqlx::Error::Configuration(_) => Self::BadUrl(error.to_string()),
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError;
        match error {
            MigrateError::VersionMissing(version) => Self::Newer(version),
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            other => Self::Refused(other.to_string()),
        }
    }
}

/// SQLite answers with result codes (<https://www.sqlite.org/rescode.html>; the low byte is the primary code), PostgreSQL with
/// SQLSTATE (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn classify(answer: &dyn DatabaseError) -> StoreError {
    let text = answer.message().to_owned();
    let code = answer.code().unwrap_or_default().into_owned();
    if answer.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
        return match code.as_str() {
            "40001" | "40P01" | "55P03" => StoreError::Conflict(text),
            "25006" => StoreError::ReadOnly(text),
            "53100" => StoreError::Full(text),
            "3D000" | "28000" | "28P01" => StoreError::Unreachable(text),
            _ if code.starts_with("08") || code.starts_with("57P") || code.starts_with("53") => {
                StoreError::Unreachable(text)
            }
            _ => StoreError::Refused(text),
        };
    }
    match code.parse::<i32>().map(|code| code & 0xff) {
        Ok(5 | 6) => StoreError::Conflict(text),
        Ok(8) => StoreError::ReadOnly(text),
        Ok(10) => StoreError::Unreachable(format!("{text}: its disk fails or is full, or a quota is used up")),
        // 26: the file is something else than a database.
        Ok(14 | 26) => StoreError::Unreachable(text),
        Ok(11) => StoreError::Corrupt(text),
        Ok(13) => StoreError::Full(text),
        _ => StoreError::Refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_down_is_not_told_as_one_that_is_busy_alone() {
        // The pool answers so in both cases: it goes on trying where the connection is refused.
        let error = StoreError::from(sqlx::Error::PoolTimedOut);
        assert!(error.is_outage());
        let text = error.to_string();
        for part in
            ["it is down or can't be reached (database.url)", "database.max_connections", "database.busy_timeout"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
