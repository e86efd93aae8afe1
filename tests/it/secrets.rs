//! Secrets: a busy run of the real program that logs everything it can, and no secret in anything it printed or answered.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::support::judge::{Judge, Reply};
use crate::support::program::Program;
use crate::support::server::Caller;
use crate::support::{PATIENCE, address, postgres};

const API_KEY: &str = "planted-api-key-4f1c9e7b2a60d835";
const JUDGE_KEY: &str = "planted-judge-key-9b33e1";
const PASSWORD: &str = "planted-database-password";
const HOOK: &str = "planted-hook-token-71c2";

fn start(url: &str, address: &str, judge: &Judge, folder: &std::path::Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_afterword"))
        .arg("serve")
        .current_dir(folder)
        .envs([
            ("AFTERWORD__DATABASE__URL", url),
            ("AFTERWORD__DATABASE__BUSY_TIMEOUT", "5m"),
            ("AFTERWORD__SERVER__LISTEN", address),
            ("AFTERWORD_API_KEY", API_KEY),
            ("AFTERWORD__SWEEP__SCHEDULE", "* * * * * *"),
            ("AFTERWORD__SWEEP__DEFER_FIRST", "1s"),
            ("AFTERWORD__JUDGE__BASE_URL", judge.base_url()),
            ("AFTERWORD__JUDGE__MODEL", "stub"),
            ("AFTERWORD__JUDGE__API_KEY", JUDGE_KEY),
            ("AFTERWORD__OUTGOING__ALLOW_PRIVATE", "true"),
            ("AFTERWORD__LOG__LEVEL", "trace,sqlx=trace"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Waits for a fact.
async fn until(what: &str, fact: impl AsyncFn() -> bool) {
    let waiting = async {
        while !fact().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "in vain: {what}");
}

/// Everything that a project can have done: keys and secrets made, scorers of each kind at work, errors provoked. Answers the
/// secrets that were made, and all other answers.
async fn keep_busy(origin: &str) -> (Vec<String>, String) {
    let caller = Caller::new(origin, API_KEY);
    let mut told = String::new();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let made = caller.post("/agent-monitoring/keys", &json!({"name": "k", "scopes": ["read", "ingest"]})).await.1;
    let rotated = format!("/agent-monitoring/keys/{}/rotate", made["key"]["_id"].as_str().unwrap());
    let rotated = caller.press(&rotated).await.1;
    let signing = [
        caller.get("/agent-monitoring/signing-secret").await.1,
        caller.press("/agent-monitoring/signing-secret/rotate").await.1,
    ];
    let mut secrets = vec![text(&made["key"]["apiKey"]), text(&rotated["key"]["apiKey"])];
    secrets.extend(signing.iter().map(|answer| text(&answer["signingSecret"])));

    let judge = caller.post("/agent-monitoring/judge-scorers", &json!({"name": "J"})).await.1;
    // Nothing listens there: the call is signed, made, and fails.
    let url = format!("http://127.0.0.1:9/{HOOK}?token={HOOK}");
    let external = caller.post("/agent-monitoring/custom-evaluators", &json!({"name": "E", "url": url})).await.1;
    let members = json!([
        {"kind": "judge", "refId": judge["judgeScorer"]["_id"]},
        {"kind": "custom", "refId": external["evaluator"]["_id"]},
    ]);
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 9, "severity": "low", "scope": "session", "idleSeconds": 0});
    let group = json!({"name": "G", "members": members, "online": online});
    assert_eq!(caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
    for session in ["one", "two", "three"] {
        for turn in ["first", "second"] {
            let span = json!({"name": "a", "session_id": session, "span_id": format!("{session}-{turn}"), "input": turn, "output": "x"});
            caller.store(&span).await;
        }
    }
    until("a call to the judge is told in the usage", async || {
        caller.get("/agent-monitoring/usage").await.1.to_string().contains("stub")
    })
    .await;
    let wrong = [
        caller.get("/agent-monitoring/scorer-groups/none").await,
        caller.post("/monitor/patterns", &json!({"name": ""})).await,
        caller.post("/agent-monitoring/custom-evaluators/dry-run", &json!({"url": "http://127.0.0.1:9/x"})).await,
        Caller::new(origin, &secrets[0]).get("/monitor/patterns").await,
        Caller::new(origin, &secrets[1]).post("/monitor/patterns", &json!({})).await,
        Caller::new(origin, "wrong").get("/monitor/patterns").await,
        caller.get("/agent-monitoring/keys").await,
        caller.get("/agent-monitoring/sessions").await,
    ];
    for (_, answer) in wrong {
        told += &answer.to_string();
    }
    (secrets, told)
}

async fn no_secret_shows(url: String) {
    let folder = tempfile::tempdir().unwrap();
    let asked = AtomicUsize::new(0);
    let judge = Judge::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) % 3 {
        0 => Reply::Status(500),
        1 => Reply::Text("no verdict".to_owned()),
        _ => Reply::Rating(3.0),
    });
    let address = address::own().to_string();
    let process = start(&url, &address, &judge, folder.path());
    let pid = Pid::from_raw(i32::try_from(process.id().unwrap()).unwrap());
    let printed = tokio::spawn(process.wait_with_output());
    let origin = format!("http://{address}");
    let client = Caller::new(&origin, "none").client;
    until("the service answers", async || client.get(format!("{origin}/health")).send().await.is_ok()).await;
    let (mut secrets, told) = keep_busy(&origin).await;
    kill(pid, Signal::SIGTERM).unwrap();
    let output = tokio::time::timeout(PATIENCE, printed).await.expect("it stops").unwrap().unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && printed.lines().count() > 200, "{printed}");
    assert!(printed.contains("TRACE"), "everything is logged");

    let keys_of_signatures: Vec<String> =
        secrets.iter().filter_map(|it| it.strip_prefix("whsec_").map(str::to_owned)).collect();
    secrets.extend(keys_of_signatures);
    secrets.extend([API_KEY, JUDGE_KEY, PASSWORD].map(str::to_owned));
    for secret in &secrets {
        let line = printed.lines().chain(told.lines()).find(|line| line.contains(secret.as_str()));
        assert_eq!(line, None, "{secret} is told");
    }
    let line = printed.lines().find(|line| line.contains(HOOK));
    assert_eq!(line, None, "an address that a user chose may hold a token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_shows_in_all_that_a_busy_run_prints_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    no_secret_shows(format!("sqlite://{}", folder.path().join("a.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_shows_in_all_that_a_busy_run_prints_on_postgresql() {
    let Some(url) = postgres::database() else { return };
    no_secret_shows(url.replace("afterword@", &format!("afterword:{PASSWORD}@"))).await;
}

#[test]
fn no_secret_shows_in_what_a_wrong_start_prints() {
    for url in [
        format!("postgres://afterword:{PASSWORD}@127.0.0.1:1/afterword"),
        format!("postgres://afterword:{PASSWORD}@127.0.0.1:port/afterword"),
        format!("mysql://afterword:{PASSWORD}@127.0.0.1/afterword"),
    ] {
        let program = Program::on(url);
        let variables = [
            ("AFTERWORD_API_KEY", API_KEY),
            ("AFTERWORD__JUDGE__API_KEY", JUDGE_KEY),
            ("AFTERWORD__LOG__LEVEL", "trace,sqlx=trace"),
            ("AFTERWORD__DATABASE__BUSY_TIMEOUT", "1s"),
        ];
        for command in ["serve", "migrate", "check-config"] {
            let ended = program.run_with(&variables, [command]);
            let printed = ended.out + &ended.err;
            for secret in [API_KEY, JUDGE_KEY, PASSWORD] {
                assert!(!printed.contains(secret), "{command}: {printed}");
            }
        }
    }
}
