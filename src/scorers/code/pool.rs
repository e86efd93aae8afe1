//! The pool: starts worker processes, hands them work, ends those that take too long, and says what became of those that died.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::libc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::frames::{self, Reply, Request, Terms};
use super::{CodeSettings, WORKER};

/// How long a process may take to become ready: far longer than it does, even on a busy machine.
const START: Duration = Duration::from_secs(20);
/// How long a process that closed its pipe may take to end.
const END: Duration = Duration::from_secs(1);

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Trouble {
    /// No process could be started; a later try may do better.
    Unavailable(String),
    /// The script ended its process, or would have.
    Ended(String),
}

impl Trouble {
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Unavailable(reason) | Self::Ended(reason) => reason,
        }
    }
}

/// What pools share: one permit for each call that may be under way.
pub(super) fn permits(settings: &CodeSettings) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(settings.workers.max(1)))
}

/// The worker processes.
#[derive(Debug)]
pub(super) struct Pool {
    settings: CodeSettings,
    /// One permit for each call under way.
    permits: Arc<Semaphore>,
    cpython: Option<PathBuf>,
    idle: Mutex<Vec<Worker>>,
}

impl Pool {
    pub(super) fn new(settings: CodeSettings, permits: &Arc<Semaphore>) -> Self {
        Self { settings, permits: Arc::clone(permits), cpython: None, idle: Mutex::default() }
    }

    /// A pool whose processes become CPython. Each takes one call: nothing in CPython keeps one script from the next.
    pub(super) fn of_cpython(settings: CodeSettings, permits: &Arc<Semaphore>, python: PathBuf) -> Self {
        let settings = CodeSettings { recycle_after: 1, ..settings };
        Self { cpython: Some(python), ..Self::new(settings, permits) }
    }

    /// Hands a request to a worker and waits for its reply.
    pub(super) async fn exchange(&self, request: &Request) -> Result<Reply, Trouble> {
        let bytes = frames::encode(request).map_err(|error| Trouble::Ended(error.to_string()))?;
        if bytes.len() > frames::LONGEST_REQUEST {
            let (is, most) = (bytes.len() >> 20, frames::LONGEST_REQUEST >> 20);
            return Err(Trouble::Ended(format!(
                "the conversation is too large for a script: {is} MiB, at most {most}"
            )));
        }
        let _permit = self.permits.acquire().await.map_err(|error| Trouble::Unavailable(error.to_string()))?;
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let was_idle = idle.is_some();
            let mut worker = match idle {
                Some(worker) => worker,
                None => Worker::start(&self.settings, self.cpython.clone()).await?,
            };
            match timeout(self.settings.hard_limit, worker.ask(&bytes)).await {
                Ok(Ok(reply)) => {
                    worker.calls += 1;
                    if worker.calls < self.settings.recycle_after {
                        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
                    }
                    return Ok(reply);
                }
                // It died while it had nothing to do, so no script has seen this request.
                Ok(Err(Lost::BeforeWork)) if was_idle => {}
                Ok(Err(Lost::BeforeWork)) => {
                    let why = worker.epitaph(self.settings.memory).await;
                    return Err(Trouble::Unavailable(format!(
                        "a worker process for scripts ended before its work: {why}"
                    )));
                }
                Ok(Err(Lost::AtWork)) => return Err(Trouble::Ended(worker.epitaph(self.settings.memory).await)),
                Err(_) => {
                    let limit = self.settings.hard_limit;
                    worker.end().await;
                    return Err(Trouble::Ended(format!(
                        "the script ran longer than {limit:?} inside one operation, and its process was ended"
                    )));
                }
            }
        }
    }
}

/// When a worker was lost.
enum Lost {
    /// Before it had read the whole request.
    BeforeWork,
    /// At work.
    AtWork,
}

/// One process. Dropping it ends it.
#[derive(Debug)]
struct Worker {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    errors: ChildStderr,
    calls: u32,
}

impl Worker {
    async fn start(settings: &CodeSettings, cpython: Option<PathBuf>) -> Result<Self, Trouble> {
        let unavailable =
            |why: String| Trouble::Unavailable(format!("no worker process for scripts could start: {why}"));
        let mut command = command(settings, cpython).map_err(|error| unavailable(error.to_string()))?;
        // As a task of its own, which runs on a thread of the runtime: a worker is ended when the thread that started it ends,
        // and callers may be on a thread that does not last.
        let started = tokio::spawn(async move { command.spawn() }).await;
        let started = started.map_err(io::Error::other).and_then(|child| child);
        let mut child = started.map_err(|error| unavailable(error.to_string()))?;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let ((to, from), errors) = pipes.ok_or_else(|| unavailable("it has no pipes".to_owned()))?;
        let mut worker = Self { child, to, from, errors, calls: 0 };
        match timeout(START, worker.receive()).await {
            Ok(Ok(Reply::Ready)) => Ok(worker),
            Ok(Ok(Reply::Refused(reason))) => Err(unavailable(reason)),
            Ok(Ok(other)) => Err(unavailable(format!("it began with {other:?}"))),
            Ok(Err(_)) => Err(unavailable(worker.epitaph(settings.memory).await)),
            Err(_) => Err(unavailable(format!("it was not ready within {START:?}"))),
        }
    }

    async fn ask(&mut self, request: &[u8]) -> Result<Reply, Lost> {
        self.to.write_all(request).await.map_err(|_| Lost::BeforeWork)?;
        self.receive().await.map_err(|_| Lost::AtWork)
    }

    async fn receive(&mut self) -> io::Result<Reply> {
        let length = usize::try_from(self.from.read_u32_le().await?).unwrap_or(usize::MAX);
        if length > frames::LONGEST_REPLY {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the reply is longer than any may be"));
        }
        let mut bytes = vec![0; length];
        self.from.read_exact(&mut bytes).await?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    async fn end(&mut self) {
        // An error says that it has ended already.
        let _ = self.child.kill().await;
    }

    /// What became of a process that closed its pipe, in words for the script's author.
    async fn epitaph(mut self, memory: u64) -> String {
        let status = match timeout(END, self.child.wait()).await {
            Ok(Ok(status)) => Some(status),
            _ => None,
        };
        self.end().await;
        let mut said = Vec::new();
        // It has ended, so there is an end to what it said.
        let _ = self.errors.take(4_096).read_to_end(&mut said).await;
        explain(status, String::from_utf8_lossy(&said).trim(), memory)
    }
}

fn explain(status: Option<ExitStatus>, said: &str, memory: u64) -> String {
    let signal = status.and_then(|status| status.signal());
    if said.contains("memory allocation of") {
        return super::out_of_memory(memory);
    }
    if signal == Some(libc::SIGSEGV) || said.contains("overflowed its stack") {
        return "the script recursed too deep or broke its interpreter, and its process ended".to_owned();
    }
    let said = said.lines().next().map(|line| format!(" ({})", super::result::shorten(line, 300))).unwrap_or_default();
    match signal {
        Some(libc::SIGXCPU) => "the script used too much processor time, and its process was ended".to_owned(),
        Some(signal) => format!("the script's process was ended by signal {signal}{said}"),
        None => format!("the script's process ended without an answer{said}"),
    }
}

fn command(settings: &CodeSettings, cpython: Option<PathBuf>) -> io::Result<Command> {
    let terms = Terms {
        soft_ms: u64::try_from(settings.soft_limit.as_millis()).unwrap_or(u64::MAX),
        cpu_seconds: settings.hard_limit.as_secs() + 2,
        memory: settings.memory,
        cpython,
    };
    let mut command = Command::new(&settings.program);
    command
        .arg(WORKER)
        .arg(serde_json::to_string(&terms)?)
        .env_clear()
        // So that no file says what the local time is.
        .env("TZ", "UTC0")
        .current_dir("/")
        // A signal from the keyboard is for the pool, which ends its workers when their work is done.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
}
