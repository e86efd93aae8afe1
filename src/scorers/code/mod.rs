//! Code scorers: scripts of users, run where they can do no harm. Each call goes to a process of its own pool that has given up
//! everything but computing; a fresh interpreter runs the script there, and what it returns is believed as little as the script.

#[cfg(target_os = "linux")]
mod cpython;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(all(target_os = "linux", feature = "javascript"))]
mod javascript;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(all(target_os = "linux", feature = "python"))]
mod python;
#[cfg(target_os = "linux")]
mod result;
#[cfg(target_os = "linux")]
pub mod sandbox;
mod span_view;
#[cfg(all(target_os = "linux", feature = "javascript"))]
mod typescript;
#[cfg(target_os = "linux")]
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

pub use self::span_view::SpanView;
pub use crate::domain::custom::Language;
use crate::domain::outcome::Outcome;

/// The first argument of a worker process.
const WORKER: &str = "__scorer-worker";
/// The longest script, in bytes.
pub const LONGEST_SCRIPT: usize = 256 << 10;

/// Whether this build has an engine for a language.
pub const fn has_engine(language: Language) -> bool {
    match language {
        Language::JavaScript | Language::TypeScript => cfg!(feature = "javascript"),
        Language::Python => cfg!(feature = "python"),
    }
}

#[cfg(target_os = "linux")]
fn lacking(language: Language) -> String {
    format!("this build of afterword has no engine for {}", language.as_str())
}

/// How scripts are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSettings {
    /// The most processes, and so the most calls at the same time. At least 1.
    pub workers: usize,
    /// How long a call may run before its interpreter stops it.
    pub soft_limit: Duration,
    /// How long a call may run before its process is ended. Longer than the soft limit.
    pub hard_limit: Duration,
    /// What a script may use beyond what the process uses by itself, in bytes.
    pub memory: u64,
    /// After so many calls a process is replaced. At least 1.
    pub recycle_after: u32,
    /// The CPython that scripts in Python run with, where an operator allows it; without it they run with the interpreter that is
    /// built in. Each call has a process of its own.
    pub cpython: Option<PathBuf>,
    /// The program that workers are: this one.
    pub program: PathBuf,
}

impl CodeSettings {
    /// The defaults, with workers that are processes of `program`.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self {
            workers: 2,
            soft_limit: Duration::from_secs(1),
            hard_limit: Duration::from_secs(3),
            memory: 256 << 20,
            recycle_after: 1_000,
            cpython: None,
            program: program.into(),
        }
    }
}

/// What a handler is called with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CodeInput {
    /// What the user said: at session scope all of it as text.
    pub input: Value,
    /// What the agent said, likewise.
    pub output: Value,
    /// The reference answer of a dataset's row.
    pub expected: Option<Value>,
    /// Free metadata; an empty object where there is none.
    pub metadata: Value,
    /// What `trace` holds: at session scope the spans of the last turn's trace.
    pub spans: Vec<SpanView>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeOutcome {
    /// The score, the decline, or the failure. It is transient only where no worker process could be started.
    pub outcome: Outcome,
    /// The script's own reason, at most 2,000 characters.
    pub reason: Option<String>,
    /// What else the script returned, at most 64 KiB of JSON.
    pub extra: Map<String, Value>,
}

impl CodeOutcome {
    fn without_score(outcome: Outcome) -> Self {
        Self { outcome, reason: None, extra: Map::new() }
    }
}

/// Runs scripts. One for the whole process; its workers start when they are first needed.
#[derive(Debug)]
pub struct CodeScorers {
    #[cfg(target_os = "linux")]
    pool: pool::Pool,
    #[cfg(target_os = "linux")]
    cpython: Option<pool::Pool>,
}

#[cfg(target_os = "linux")]
impl CodeScorers {
    /// A pool without a process yet. Call it, and use it, inside a Tokio runtime that outlives it.
    pub fn new(settings: CodeSettings) -> Self {
        let permits = pool::permits(&settings);
        let cpython = settings.cpython.clone().map(|python| pool::Pool::of_cpython(settings.clone(), &permits, python));
        Self { pool: pool::Pool::new(settings, &permits), cpython }
    }

    /// Whether a script can be saved: it compiles, its top level runs, and it defines a handler. Done by a worker too, for a
    /// script can harm whoever compiles it.
    ///
    /// # Errors
    /// Why it can't be used, with the line where that is known; or why it could not be looked at.
    pub async fn check(&self, language: Language, script: &str) -> Result<(), String> {
        let pool = self.pool_for(language, script)?;
        let request = frames::Request { language, script: script.to_owned(), input: None };
        match pool.exchange(&request).await {
            Ok(frames::Reply::Usable) => Ok(()),
            Ok(frames::Reply::Refused(reason)) => Err(reason),
            Ok(other) => Err(format!("the worker process answered {other:?}")),
            Err(trouble) => Err(trouble.into_reason()),
        }
    }

    /// Calls a script's handler. Waits for a free worker first; the limits count from then on.
    pub async fn run(&self, language: Language, script: &str, input: &CodeInput) -> CodeOutcome {
        match self.reply(language, script, input).await {
            Ok(frames::Reply::Returned(said)) => said.into_outcome(),
            Ok(frames::Reply::Found(found, fields)) => match result::Said::of(found, fields) {
                Ok(said) => said.into_outcome(),
                Err(reason) => CodeOutcome::without_score(Outcome::failed(reason)),
            },
            Ok(frames::Reply::Failed(reason) | frames::Reply::Refused(reason)) => {
                CodeOutcome::without_score(Outcome::failed(reason))
            }
            Ok(other) => CodeOutcome::without_score(Outcome::failed(format!("the worker process answered {other:?}"))),
            Err(pool::Trouble::Unavailable(reason)) => CodeOutcome::without_score(Outcome::failed_for_now(reason)),
            Err(pool::Trouble::Ended(reason)) => CodeOutcome::without_score(Outcome::failed(reason)),
        }
    }

    async fn reply(&self, language: Language, script: &str, input: &CodeInput) -> Result<frames::Reply, pool::Trouble> {
        let pool = self.pool_for(language, script).map_err(pool::Trouble::Ended)?;
        let input = serde_json::value::to_raw_value(input).map_err(|error| pool::Trouble::Ended(error.to_string()))?;
        let request = frames::Request { language, script: script.to_owned(), input: Some(input) };
        pool.exchange(&request).await
    }

    /// Who runs a script, where it is one that is run at all.
    fn pool_for(&self, language: Language, script: &str) -> Result<&pool::Pool, String> {
        let cpython = self.cpython.as_ref().filter(|_| language == Language::Python);
        if !has_engine(language) && cpython.is_none() {
            return Err(lacking(language));
        }
        if script.len() > LONGEST_SCRIPT {
            return Err(format!("the script has {} bytes; at most {LONGEST_SCRIPT} are run", script.len()));
        }
        Ok(cpython.unwrap_or(&self.pool))
    }
}

#[cfg(not(target_os = "linux"))]
impl CodeScorers {
    /// Code scorers that refuse to work: there is no sandbox here.
    pub fn new(_settings: CodeSettings) -> Self {
        Self {}
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    #[allow(clippy::unused_async, reason = "as where there is a sandbox")]
    pub async fn check(&self, _language: Language, _script: &str) -> Result<(), String> {
        Err(ELSEWHERE.to_owned())
    }

    /// Fails.
    #[allow(clippy::unused_async, reason = "as where there is a sandbox")]
    pub async fn run(&self, _language: Language, _script: &str, _input: &CodeInput) -> CodeOutcome {
        CodeOutcome::without_score(Outcome::failed(ELSEWHERE))
    }
}

/// Why nothing runs where there is no sandbox.
#[cfg(not(target_os = "linux"))]
const ELSEWHERE: &str = "code scorers run on Linux only, where a script can be kept from doing harm";

/// Becomes a worker process where the arguments say so; the program is to end with the answer. Call it first in `main`.
pub fn worker_process(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != WORKER {
        return None;
    }
    #[cfg(target_os = "linux")]
    return Some(worker::work(&arguments.next().unwrap_or_default().to_string_lossy()));
    #[cfg(not(target_os = "linux"))]
    return Some(ExitCode::FAILURE);
}

#[cfg(target_os = "linux")]
fn too_late(limit: Duration) -> String {
    format!("the script ran longer than {limit:?} and was stopped")
}

#[cfg(all(target_os = "linux", feature = "python"))]
fn wrong_arguments(why: &str) -> String {
    format!("handler must take the five arguments input, output, expected, metadata and trace (*args will do): {why}")
}

#[cfg(target_os = "linux")]
fn out_of_memory(limit: u64) -> String {
    format!("the script ran out of memory: it may use {} MiB", limit >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_reads_back_by_its_name() {
        for language in [Language::JavaScript, Language::TypeScript, Language::Python] {
            assert_eq!(Language::from_name(language.as_str()), Some(language));
            assert_eq!(serde_json::to_value(language).unwrap(), language.as_str());
        }
        assert_eq!(Language::from_name("Python"), None);
    }

    #[test]
    fn only_the_hidden_argument_makes_a_worker() {
        for line in ["afterword", "afterword serve", "afterword serve __scorer-worker"] {
            assert_eq!(worker_process(line.split(' ').map(OsString::from)), None, "{line}");
        }
    }
}
