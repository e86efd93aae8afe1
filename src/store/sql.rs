//! SQL texts: one for both engines. They are written for PostgreSQL; the few words that SQLite says otherwise are exchanged
//! here, and nowhere else.

use std::fmt::Write as _;
use std::sync::OnceLock;

/// The type of a column of rows handed to a bulk statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int,
    Real,
    Flag,
}

impl Kind {
    const fn postgres(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "bigint",
            Self::Real => "double precision",
            Self::Flag => "boolean",
        }
    }
}

/// A statement with scalar parameters `$1`, `$2`, … and id lists as `= ANY($n)`.
#[derive(Debug)]
pub(crate) struct Sql {
    pub name: &'static str,
    text: &'static str,
    lite: OnceLock<String>,
}

impl Sql {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, lite: OnceLock::new() }
    }

    pub(crate) const fn postgres(&self) -> &'static str {
        self.text
    }

    pub(crate) fn sqlite(&'static self) -> &'static str {
        self.lite.get_or_init(|| to_sqlite(self.text))
    }
}

/// A statement over many rows, which it finds as `v`. Its scalar parameters come first.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub name: &'static str,
    /// How many scalar parameters come before the rows.
    pub scalars: usize,
    pub columns: &'static [(&'static str, Kind)],
    text: &'static str,
    postgres: OnceLock<String>,
    lite: OnceLock<String>,
}

impl Bulk {
    pub(crate) const fn new(
        name: &'static str,
        scalars: usize,
        columns: &'static [(&'static str, Kind)],
        text: &'static str,
    ) -> Self {
        Self { name, scalars, columns, text, postgres: OnceLock::new(), lite: OnceLock::new() }
    }

    /// The rows travel as one array a column: one text, however many rows.
    pub(crate) fn postgres(&'static self) -> &'static str {
        self.postgres.get_or_init(|| {
            let arrays: Vec<String> = (self.scalars + 1..)
                .zip(self.columns)
                .map(|(n, (_, kind))| format!("${n}::{}[]", kind.postgres()))
                .collect();
            format!("WITH v({}) AS (SELECT * FROM UNNEST({})) {}", self.names(), arrays.join(", "), self.text)
        })
    }

    /// The rows travel as one list of values, so the text depends on how many there are. Parameters have no names: SQLite looks
    /// each name up in a list, and thousands of them made binding take longer than inserting. So scalars can't be named where
    /// they are used; they come as a row of their own. Where not all of the rows are `filled`, each has one more parameter, which
    /// says whether it is.
    pub(crate) fn sqlite(&'static self, rows: usize, filled: bool) -> String {
        let tail = self.lite.get_or_init(|| {
            let mut text = rows_first(&to_sqlite(self.text));
            for scalar in (1..=self.scalars).rev() {
                text = text.replace(&format!("${scalar}"), &format!("(SELECT s{scalar} FROM s)"));
            }
            text
        });
        let mut text = String::from("WITH ");
        if self.scalars > 0 {
            let names: Vec<String> = (1..=self.scalars).map(|scalar| format!("s{scalar}")).collect();
            // Writing to a String can't fail.
            let _ = write!(text, "s({}) AS (VALUES ({})), ", names.join(", "), marks(self.scalars));
        }
        let width = self.columns.len();
        let rows = if filled {
            format!("VALUES {}", vec![format!("({})", marks(width)); rows].join(","))
        } else {
            let columns: Vec<String> = (1..=width).map(|column| format!("column{column}")).collect();
            let values = vec![format!("({})", marks(width + 1)); rows].join(",");
            format!("SELECT {} FROM (VALUES {values}) WHERE column{}", columns.join(","), width + 1)
        };
        let _ = write!(text, "v({}) AS ({rows}) {tail}", self.names());
        text
    }

    fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }
}

/// The rows are gone through, and what they name is looked up. Left to itself SQLite, which keeps no statistics, takes the rows
/// of one project for ten, and goes through those instead: each statement would take as long as the project is large.
fn rows_first(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("FROM v JOIN ", "FROM v CROSS JOIN ")
}

/// So many parameters without names.
fn marks(count: usize) -> String {
    vec!["?"; count].join(",")
}

/// What SQLite says otherwise: it has one writer, so row locks go; it has no arrays, so id lists are JSON; and its greatest
/// and least of two values are `max` and `min`. A limit that is a bare parameter it plans for anew, parsing the statement
/// again, each time another value is bound (since 3.47); with a sign before it, the parameter is an expression like any other.
fn to_sqlite(text: &str) -> String {
    let mut lite = text.to_owned();
    for lock in [
        " FOR UPDATE OF q SKIP LOCKED",
        " FOR UPDATE SKIP LOCKED",
        " FOR UPDATE OF q",
        " FOR UPDATE OF d",
        " FOR UPDATE",
        " FOR NO KEY UPDATE",
    ] {
        lite = lite.replace(lock, "");
    }
    lite = lite.replace("GREATEST(", "max(").replace("LEAST(", "min(").replace("LIMIT $", "LIMIT +$");
    while let Some(start) = lite.find("= ANY($") {
        let digits = start + "= ANY(".len();
        let end = digits + lite[digits..].find(')').unwrap_or(0);
        let parameter = lite[digits..end].to_owned();
        lite.replace_range(start..=end, &format!("IN (SELECT value FROM json_each({parameter}))"));
    }
    lite
}

/// Declares the statements of one file, and `ALL` of them for the test that prepares each on both engines.
macro_rules! statements {
    (
        $($name:ident = $text:expr;)*
        $(@bulk { $($bulk:ident($scalars:literal; $($column:ident $kind:ident),+ $(,)?) = $bulk_text:expr;)* })?
    ) => {
        $(static $name: $crate::store::sql::Sql =
            $crate::store::sql::Sql::new(concat!(module_path!(), "::", stringify!($name)), $text);)*
        $($(static $bulk: $crate::store::sql::Bulk = $crate::store::sql::Bulk::new(
            concat!(module_path!(), "::", stringify!($bulk)),
            $scalars,
            &[$((stringify!($column), $crate::store::sql::Kind::$kind)),+],
            $bulk_text,
        );)*)?
        /// Every statement of this file.
        pub(crate) static ALL: $crate::store::sql::Statements = $crate::store::sql::Statements {
            single: &[$(&$name),*],
            bulk: &[$($(&$bulk),*)?],
        };
    };
}
pub(crate) use statements;

/// The statements of one file.
pub(crate) struct Statements {
    pub single: &'static [&'static Sql],
    pub bulk: &'static [&'static Bulk],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_gets_its_own_words_and_nothing_else_changes() {
        assert_eq!(
            to_sqlite(
                "SELECT a FROM t WHERE p = $1 AND a = ANY($12) AND GREATEST(b, $2) > 0 LIMIT $3 FOR UPDATE SKIP LOCKED"
            ),
            "SELECT a FROM t WHERE p = $1 AND a IN (SELECT value FROM json_each($12)) AND max(b, $2) > 0 LIMIT +$3"
        );
    }

    #[test]
    fn rows_come_after_the_scalars() {
        static BULK: Bulk =
            Bulk::new("t", 1, &[("a", Kind::Text), ("n", Kind::Int)], "INSERT INTO t SELECT a, n, $1 FROM v");
        assert_eq!(
            BULK.postgres(),
            "WITH v(a, n) AS (SELECT * FROM UNNEST($2::text[], $3::bigint[])) INSERT INTO t SELECT a, n, $1 FROM v"
        );
        assert_eq!(
            BULK.sqlite(2, true),
            "WITH s(s1) AS (VALUES (?)), v(a, n) AS (VALUES (?,?),(?,?)) INSERT INTO t SELECT a, n, (SELECT s1 FROM s) FROM v"
        );
        assert_eq!(
            BULK.sqlite(2, false),
            "WITH s(s1) AS (VALUES (?)), v(a, n) AS (SELECT column1,column2 FROM (VALUES (?,?,?),(?,?,?)) WHERE column3) \
             INSERT INTO t SELECT a, n, (SELECT s1 FROM s) FROM v"
        );
    }
}
