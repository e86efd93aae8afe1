//! A PostgreSQL of the tests' own: started once per test process from the machine's binaries, gone when the process is gone.
//!
//! It needs nothing but the standard library, so that a unit test or a bench can include it by path too.
//!
//! The server must not outlive the process, even one that is killed. No exit hook can promise that, so a shell keeps watch: it
//! starts the server, then reads its own stdin, whose other end only this process holds. However the process ends, the kernel
//! closes that end, the shell reads end-of-file, stops the server and removes the folder. The shell is in a process group of
//! its own, so that Ctrl-C at the terminal reaches the tests alone.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

#[path = "address.rs"]
pub mod address;

/// What the keeper runs, given a host and a port; it answers `ready FOLDER` or tells why not.
///
/// Databases sort by the rules of English where the server can, so that a text key that forgets its byte order shows.
/// Durability is off: nothing here outlives the process. `pg_ctl` returns when the server takes connections.
const KEEPER: &str = r#"
trap '' PIPE
trap 'exit 1' HUP INT TERM
folder=$(mktemp -d 2>/dev/null || mktemp -d -p /tmp) || exit 1
trap 'pg_ctl --pgdata "$folder/data" --mode immediate stop >/dev/null 2>&1; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
init() { initdb --pgdata data --username afterword --auth trust --encoding UTF8 --no-sync "$@" >>log 2>&1; }
init --locale C --locale-provider icu --icu-locale en-US || init --locale C || { cat log; exit 1; }
settings="-c fsync=off -c full_page_writes=off -c shared_buffers=32MB -c max_connections=1000 $SETTINGS"
echo "host all all 127.0.0.0/8 trust" >>data/pg_hba.conf
if pg_ctl --pgdata data --log log --wait --timeout 600 start >>log 2>&1 \
    --options "$settings -c listen_addresses=$1 -c port=$2 -c unix_socket_directories='$folder'"
then
    echo "ready $folder"
    cat >/dev/null
    exit 0
fi
cat log
exit 1
"#;

struct Server {
    binaries: PathBuf,
    address: SocketAddr,
    folder: String,
    databases: Mutex<u32>,
    /// Its closing is what stops the server; statics are never dropped, so the end of the process closes it.
    _lifeline: ChildStdin,
}

static SERVER: LazyLock<Option<Server>> = LazyLock::new(|| start("-c synchronous_commit=off"));

/// A server of one test's own, which may be cut down and started again. Its commits outlive that.
pub struct Own(Server);

impl Own {
    /// Starts one. `None`, with a message, where the machine has no PostgreSQL binaries.
    pub fn start() -> Option<Self> {
        start("").map(Self)
    }

    /// The URL of a fresh, empty database there.
    pub fn database(&self) -> String {
        self.0.make_database()
    }

    /// Cuts it down in the middle of whatever it does.
    pub fn cut_down(&self) {
        self.control(&["--wait", "--timeout", "600", "--mode", "immediate", "stop"]);
    }

    /// Starts it again: it recovers first.
    pub fn start_again(&self) {
        self.control(&["--wait", "--timeout", "600", "--log", "log", "start"]);
    }

    fn control(&self, args: &[&str]) {
        let Server { binaries, folder, .. } = &self.0;
        let opts = std::fs::read_to_string(Path::new(folder).join("data/postmaster.opts"));
        let mut command = as_unprivileged(&binaries.join("pg_ctl").to_string_lossy());
        command.current_dir(folder).arg("--pgdata").arg("data").args(args);
        if args.contains(&"start") {
            // What the server was first started with, as it wrote that down itself.
            let opts = opts.expect("a server writes down how it was started");
            let options: Vec<&str> = opts.trim().split(" \"").skip(1).map(|word| word.trim_end_matches('"')).collect();
            let options: Vec<&str> = options.into_iter().skip_while(|word| !word.starts_with("-c")).collect();
            command.args(["--options", &options.join(" ")]);
        }
        let done = command.stdout(Stdio::null()).status().expect("pg_ctl lies beside initdb");
        assert!(done.success(), "pg_ctl {args:?}");
    }
}

/// The URL of a fresh, empty database; each call makes another. `None`, with a message, where the machine has no PostgreSQL
/// binaries; under `AFTERWORD_TEST_ALL=1` their absence fails the test.
pub fn database() -> Option<String> {
    SERVER.as_ref().map(Server::make_database)
}

impl Server {
    fn make_database(&self) -> String {
        let mut count = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        let name = format!("t_{count}");
        // Nobody ever connects to template0. To template1 autovacuum does, and what is connected to is not copied.
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        let made = Command::new(self.binaries.join("psql"))
            .args(["--host", &self.address.ip().to_string(), "--port", &self.address.port().to_string()])
            .args(["--username", "afterword", "--no-psqlrc", "--quiet"])
            .args(["--dbname", "postgres", "--command", &create])
            .output()
            .expect("psql lies beside initdb");
        assert!(made.status.success(), "{create}: {}", String::from_utf8_lossy(&made.stderr));
        format!("postgres://afterword@{}/{name}", self.address)
    }
}

/// Says that a test skips because `what` is absent; under `AFTERWORD_TEST_ALL=1` the absence fails the test.
#[track_caller]
pub fn absent(what: &str) {
    assert!(std::env::var("AFTERWORD_TEST_ALL").as_deref() != Ok("1"), "AFTERWORD_TEST_ALL=1 and {what}");
    eprintln!("skipped: {what}");
}

#[allow(clippy::zombie_processes, reason = "the keeper outlives this process, that is its use")]
fn start(settings: &str) -> Option<Server> {
    let Some(binaries) = find_binaries() else {
        absent("no initdb, pg_ctl, postgres and psql on PATH or in /usr/lib/postgresql (Debian: postgresql)");
        return None;
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let address = address::own();
    let mut keeper = as_unprivileged("sh")
        .args(["-c", KEEPER, "keeper"])
        .args([address.ip().to_string(), address.port().to_string()])
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("SETTINGS", settings)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the keeper's shell starts");
    let lifeline = keeper.stdin.take().expect("stdin is piped");
    let mut answer = BufReader::new(keeper.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    answer.read_line(&mut line).expect("the keeper answers in UTF-8");
    let Some(folder) = line.strip_prefix("ready ") else {
        let mut rest = String::new();
        answer.read_to_string(&mut rest).expect("the keeper answers in UTF-8");
        panic!("PostgreSQL of {} did not start: {line}{rest}", binaries.display());
    };
    let folder = folder.trim_end().to_owned();
    Some(Server { binaries, address, folder, databases: Mutex::new(0), _lifeline: lifeline })
}

/// The folder that holds all the binaries: one on PATH, else the newest of Debian's.
fn find_binaries() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    let version = |folder: &Path| folder.file_name()?.to_str()?.parse::<u32>().ok();
    versions.sort_by_key(|folder| std::cmp::Reverse(version(folder)));
    let complete =
        |folder: &PathBuf| ["initdb", "pg_ctl", "postgres", "psql"].iter().all(|name| folder.join(name).is_file());
    std::env::split_paths(&path).chain(versions.into_iter().map(|folder| folder.join("bin"))).find(complete)
}

/// A command that runs as an ordinary user: PostgreSQL refuses to run as root.
pub fn as_unprivileged(program: &str) -> Command {
    let id = |args: &[&str]| -> Option<String> {
        let output = Command::new("id").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if id(&["-u"]).as_deref() != Some("0") {
        return Command::new(program);
    }
    let (user, group) = ["postgres", "nobody"]
        .iter()
        .find_map(|name| Some((id(&["-u", name])?, id(&["-g", name])?)))
        .expect("a machine whose tests run as root has a user postgres or nobody");
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]).arg(program);
    command
}
