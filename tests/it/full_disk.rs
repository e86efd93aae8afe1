//! A disk that takes no more, and room again: what was acknowledged stays, what was not is told so, and the sweep goes on by itself.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::process::{Child, Command};

use crate::support::program::Program;
use crate::support::server::Caller;
use crate::support::{PATIENCE, address};

const KEY: &str = "a-key-for-a-full-disk-of-length";
/// How large a file may grow, in units of 512 bytes, before its disk counts as full.
const ROOM: &str = "4000";

/// Serves with files that may not grow beyond the room; the signal that tells so is ignored, so that writing fails as on a full disk.
fn serve(program: &Program, address: &str) -> Child {
    let script = format!("trap '' XFSZ; ulimit -S -f {ROOM}; exec \"$0\" serve");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_afterword")])
        .current_dir(program.folder())
        .envs([
            ("AFTERWORD__DATABASE__URL", program.url()),
            ("AFTERWORD__DATABASE__BUSY_TIMEOUT", "5m"),
            ("AFTERWORD__SERVER__LISTEN", address),
            ("AFTERWORD_API_KEY", KEY),
            ("AFTERWORD__SWEEP__SCHEDULE", "* * * * * *"),
            ("AFTERWORD__LOG__LEVEL", "off"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "waited in vain until {what}");
}

fn span(session: usize, turn: usize) -> serde_json::Value {
    let filler = "Where is my parcel? ".repeat(500);
    json!({"name": "helper", "session_id": format!("s{session}"), "span_id": format!("s{session}-{turn}"),
           "input": format!("{session} asks {turn}: {filler}"), "output": "an answer"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_clearly_loses_nothing_and_once_there_is_room_all_goes_on() {
    let program = Program::on_sqlite();
    let address = address::own().to_string();
    let process = serve(&program, &address);
    let caller = Caller::new(&format!("http://{address}"), KEY);
    afterword::scorers::install_tls();
    let client = reqwest::Client::new();
    let health = format!("http://{address}/health");
    until("the service answers", async || client.get(&health).send().await.is_ok_and(|it| it.status().is_success()))
        .await;
    let pattern = json!({"name": "P", "includeTerms": ["sorry"], "polarity": "failure"});
    let pattern = caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone();
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                        "idleSeconds": 1});
    let group = json!({"name": "G", "members": [{"kind": "pattern", "refId": pattern}], "online": online});
    assert_eq!(caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);

    // Until the disk takes no more.
    let mut sessions = 0;
    let refused = loop {
        assert!(sessions < 2_000, "the disk is never full");
        let (status, body) = caller.post("/ingest/traces", &span(sessions, 1)).await;
        if status != 200 {
            break (status, body);
        }
        sessions += 1;
    };
    assert_eq!(refused.0, 503, "{}", refused.1);
    assert!(!refused.1["error"].as_str().unwrap().is_empty(), "{}", refused.1);
    assert!(sessions > 10, "{sessions} were stored");

    let pid = process.id().unwrap().to_string();
    let room = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().await.unwrap();
    assert!(room.success(), "prlimit (Debian: util-linux)");
    until("spans are taken again", async || caller.post("/ingest/traces", &span(sessions, 1)).await.0 == 200).await;
    for session in 0..=sessions {
        assert_eq!(caller.post("/ingest/traces", &span(session, 2)).await.0, 200);
    }
    for session in 0..=sessions {
        let name = format!("s{session}");
        until("it is judged", async || !caller.scores(&name).await.is_empty()).await;
        assert_eq!(caller.spans(&name).await.len(), 2, "{name}: every acknowledged span is there");
        assert_eq!(caller.scores(&name).await.len(), 1, "{name}");
    }
}
