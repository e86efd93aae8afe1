//! An operator in a hurry, through the real binary: slips of the pen, the wrong folder, a session that is held, a signal at the wrong
//! moment, a database that goes and comes back.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use afterword::domain::time::Timestamp;
use serde_json::{Value, json};

use crate::import::chat;
use crate::store::ctx::live_with;
use crate::support::program::{Ended, Program};
use crate::support::server::Caller;
use crate::support::{PATIENCE, address, postgres};

const KEY: &str = "a-key-for-an-operator-of-length";

/// Starts a command that goes on beside the test.
fn start(program: &Program, args: &[&str], variables: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_afterword"))
        .args(args)
        .current_dir(program.folder())
        .env("AFTERWORD__DATABASE__URL", program.url())
        .env("TMPDIR", program.folder())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn stop(child: &Child) {
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
}

fn ended(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "waited in vain until {what}");
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_command_about_what_is_stored_makes_no_empty_database_in_the_wrong_folder() {
    let program = Program::on_sqlite();
    for command in [
        &["explain", "one"][..],
        &["summary", "--group", "g"],
        &["recompose", "--group", "g"],
        &["resweep", "--group", "g", "--dry-run"],
        &["sample", "preview", "--group", "g"],
        &["pause", "g"],
        &["resume", "g"],
        &["release", "one"],
        &["deliveries", "list"],
        &["receivers", "list"],
        &["key", "list"],
        &["key", "rotate", "k"],
        &["key", "revoke", "k"],
    ] {
        let ended = program.run(command).with_code(4);
        assert!(ended.out.is_empty(), "{command:?}: {}", ended.out);
        for part in ["there is no database at ", "afterword.db", "database.url", "afterword serve"] {
            assert!(ended.err.contains(part), "{command:?}: {}", ended.err);
        }
    }
    assert_eq!(names(program.folder()), Vec::<String>::new(), "nothing was made");
    program.run(["key", "create"]).with_code(0);
    program.run(["key", "list"]).with_code(0);
}

#[test]
fn a_release_tells_a_session_that_is_not_there_from_one_that_is_not_held() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    program.run(["import", "one.jsonl"]).with_code(0);
    let missing = program.run(["release", "oen"]).with_code(1);
    assert!(missing.err.contains("project Default has no session oen"), "{}", missing.err);
    assert_eq!(program.run(["release", "one"]).with_code(0).out, "Session one was not quarantined.\n");
    program.run(["release", "one", "--project", "Typo"]).with_code(1);
}

#[tokio::test]
async fn a_quarantined_session_is_explained_with_the_command_that_releases_it() {
    let program = Program::on_sqlite();
    program.run(["migrate"]).with_code(0);
    let store = program.store().await;
    let project = store.project_named("Default", Timestamp::EARLIEST).await.unwrap().id;
    let spec = live_with("Quality", "j", |online| online.idle_seconds = 0);
    store.create_group(&project, &spec, Timestamp::EARLIEST, Timestamp::EARLIEST).await.unwrap();
    store.close().await;
    program.file("one.jsonl", chat("one", 3));
    program.run(["import", "one.jsonl"]).with_code(0);
    program.run_with(&[("AFTERWORD__SWEEP__MAX_TURNS", "2")], ["sweep"]).with_code(0);
    let told = program.run(["explain", "one"]).with_code(0);
    assert!(told.row("Quality")[1].contains("(`afterword release`)"), "{}", told.out);
    assert!(program.run(["release", "one"]).with_code(0).out.contains("goes on"));
    assert_eq!(program.run(["release", "one"]).with_code(0).out, "Session one was not quarantined.\n");
}

#[test]
fn every_list_says_in_words_that_it_is_empty_and_has_a_twin_in_json() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    let imported: Value =
        serde_json::from_str(&program.run(["import", "--json", "one.jsonl"]).with_code(0).out).unwrap();
    let expected = json!({"file": "one.jsonl", "lines": 1, "spans": 2, "new": 2, "changed": 0, "known": 0, "refused": [],
                          "badTimes": 0, "passedOver": 0});
    assert_eq!(imported, json!({"files": [expected]}));
    program.file("bad.jsonl", "{}\n");
    let refused = program.run(["import", "--json", "bad.jsonl"]).with_code(5);
    let refused: Value = serde_json::from_str(&refused.out).unwrap();
    assert!(refused["files"][0]["refused"][0].as_str().unwrap().starts_with("line 1: "), "{refused}");
    for (list, key) in [("deliveries", "deliveries"), ("receivers", "receivers"), ("key", "keys")] {
        let words = program.run([list, "list"]).with_code(0).out;
        assert!(words.starts_with("Project Default does not have any "), "{words}");
        let twin: Value = serde_json::from_str(&program.run([list, "list", "--json"]).with_code(0).out).unwrap();
        assert_eq!(twin, json!({key: []}));
    }
}

#[tokio::test]
async fn an_import_that_a_signal_stops_tells_how_far_it_came() {
    let program = Program::on_sqlite();
    program.run(["migrate"]).with_code(0);
    let pipe = program.folder().join("endless.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = start(&program, &["import", "endless.jsonl"], &[]);
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    for number in 0..600 {
        pipe.write_all((chat(&format!("s{number}"), 2).trim_end().to_owned() + "\n").as_bytes()).unwrap();
    }
    let store = program.store().await;
    let project = store.project_named("Default", Timestamp::EARLIEST).await.unwrap().id;
    let first = afterword::domain::ids::SessionId::trusted("s0");
    until("the first sessions are stored", async || {
        !store.spans_of_session(&project, &first).await.unwrap().is_empty()
    })
    .await;
    store.close().await;
    stop(&child);
    let told = tokio::task::spawn_blocking(move || ended(child)).await.unwrap().with_code(1);
    drop(pipe);
    assert!(told.err.contains("the import was stopped by a signal. What was imported so far stays"), "{}", told.err);
    assert!(told.summary("endless.jsonl").new >= 1_000, "{}", told.out);
}

#[test]
fn an_import_reads_standard_input_where_it_is_asked_to() {
    let program = Program::on_sqlite();
    let file = program.file("one.jsonl", chat("one", 2) + "\n" + &chat("two", 2));
    let output = Command::new(env!("CARGO_BIN_EXE_afterword"))
        .args(["import", "-", "--json"])
        .current_dir(program.folder())
        .env("AFTERWORD__DATABASE__URL", program.url())
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["files"][0]["file"], &told["files"][0]["new"]), (&json!("standard input"), &json!(4)), "{told}");
}

#[tokio::test]
async fn a_demo_that_a_signal_stops_leaves_nothing_behind() {
    let program = Program::on_sqlite();
    let child = start(&program, &["demo"], &[]);
    let is_of_demo = |name: &String| name.starts_with("afterword-demo-");
    until("the demo has a folder", async || names(program.folder()).iter().any(is_of_demo)).await;
    stop(&child);
    let told = ended(child);
    assert!(told.code == 1 && told.err.contains("stopped by a signal") || told.code == 0, "{told:?}");
    assert_eq!(names(program.folder()), Vec::<String>::new());
}

#[tokio::test]
async fn a_database_that_is_away_is_told_once_however_many_requests_fail() {
    let Some(server) = postgres::Own::start() else { return };
    let program = Program::on(server.database());
    let address = address::own().to_string();
    let variables = [
        ("AFTERWORD__SERVER__LISTEN", address.as_str()),
        ("AFTERWORD_API_KEY", KEY),
        ("AFTERWORD__SWEEP__SCHEDULE", "* * * * * *"),
        ("AFTERWORD__DATABASE__BUSY_TIMEOUT", "200ms"),
    ];
    let child = start(&program, &["serve"], &variables);
    afterword::scorers::install_tls();
    let caller = Caller::new(&format!("http://{address}"), KEY);
    let client = reqwest::Client::new();
    let status =
        async |path: &str| client.get(format!("http://{address}{path}")).send().await.map(|it| it.status().as_u16());
    until("the service is ready", async || status("/ready").await.is_ok_and(|status| status == 200)).await;
    server.cut_down();
    for number in 0..10 {
        let (status, told) = caller.post("/ingest/traces", &json!({"name": format!("n{number}")})).await;
        assert_eq!((status, &told["code"]), (503, &json!("unavailable")), "{told}");
        assert_eq!(caller.get("/agent-monitoring/sessions").await.0, 503);
    }
    server.start_again();
    until("the service is ready again", async || status("/ready").await.is_ok_and(|status| status == 200)).await;
    stop(&child);
    let told = ended(child).with_code(0);
    let loud: Vec<&str> = told.err.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).collect();
    assert!(loud.len() == 1 && loud[0].contains("the database fails"), "{}", told.err);
    assert!(!told.err.contains("sqlx"), "{}", told.err);
}
