//! The real binary, run in a folder of its own and against a database of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use afterword::entropy::SeededEntropy;
use afterword::store::Store;

use super::store_at;

/// The program with its surroundings: an empty working folder, no setting of the machine's, one database.
pub struct Program {
    folder: tempfile::TempDir,
    url: String,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// Everything on standard output.
    pub out: String,
    /// Everything on standard error.
    pub err: String,
}

impl Program {
    /// On an SQLite file that does not exist yet.
    pub fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = format!("sqlite://{}", folder.path().join("afterword.db").display());
        Self { folder, url }
    }

    /// On a database that exists already.
    pub fn on(url: String) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), url }
    }

    /// Its database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its working folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the working folder.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("the working folder can be written");
        path
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        self.run_with(&[], args)
    }

    /// Runs a command to its end, with these variables beside the database's.
    pub fn run_with<S: AsRef<OsStr>>(&self, variables: &[(&str, &str)], args: impl IntoIterator<Item = S>) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_afterword"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AFTERWORD") {
                command.env_remove(name);
            }
        }
        // But for the command that prints what is in effect, which is to be the configuration's own.
        if command.get_args().all(|arg| arg != "check-config") {
            command.env("AFTERWORD__DATABASE__BUSY_TIMEOUT", "5m");
        }
        command.env("AFTERWORD__DATABASE__URL", &self.url).envs(variables.iter().copied());
        let output = command.output().expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the binary writes UTF-8");
        Ended {
            code: output.status.code().expect("no signal ended the binary"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Opens its database.
    pub async fn store(&self) -> Store {
        open(&self.url).await
    }
}

/// Opens a database as the program would.
pub async fn open(url: &str) -> Store {
    Store::open(&store_at(url), Arc::new(SeededEntropy::new(7))).await.expect("the database opens")
}

impl Ended {
    /// Fails the test, showing everything, where the run ended otherwise.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\nstdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// The cells of the one line of standard output that begins with `first`, split where two or more spaces are.
    #[track_caller]
    pub fn row(&self, first: &str) -> Vec<String> {
        let mut rows = self.rows().into_iter().filter(|row| row.first().is_some_and(|cell| cell == first));
        let row = rows.next().unwrap_or_else(|| panic!("no row {first} in\n{}", self.out));
        assert_eq!(rows.next(), None, "one row {first} in\n{}", self.out);
        row
    }

    /// Every line of standard output as cells, split where two or more spaces are.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let cells = |line: &str| {
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        self.out.lines().map(cells).filter(|row| !row.is_empty()).collect()
    }
}

/// What one row of an import's summary says.
#[derive(Debug, PartialEq, Eq)]
pub struct Summary {
    pub lines: u64,
    pub spans: u64,
    pub new: u64,
    pub changed: u64,
    pub known: u64,
    pub refused: u64,
    pub bad_times: u64,
}

impl Ended {
    /// What an import said of one of its files.
    #[track_caller]
    pub fn summary(&self, file: &str) -> Summary {
        let head = ["file", "lines", "spans", "new", "changed", "known", "refused", "bad times"];
        assert_eq!(self.rows()[0], head, "{}", self.out);
        let row = self.row(file);
        let numbers: Vec<u64> = row[1..].iter().map(|cell| cell.parse().expect("a count")).collect();
        let [lines, spans, new, changed, known, refused, bad_times] = numbers[..] else {
            panic!("seven counts of {file} in\n{}", self.out)
        };
        Summary { lines, spans, new, changed, known, refused, bad_times }
    }
}
