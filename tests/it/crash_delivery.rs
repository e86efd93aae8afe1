//! Real crashes between a verdict and its delivery: the binary is killed, and nothing that was owed is lost. And the commands on
//! receivers and deliveries through the real binary.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterword::domain::event::Event;
use afterword::domain::receiver::ReceiverSpec;
use afterword::domain::time::Timestamp;
use afterword::entropy::{Entropy as _, OsEntropy, SeededEntropy};
use afterword::store::{DeliveryFilter, Store};
use serde_json::json;
use tokio::process::{Child, Command};

use crate::import::chat;
use crate::support::program::{Program, open};
use crate::support::webhook::{Answer, Webhook};
use crate::support::{PATIENCE, postgres};

const KILLS: usize = 8;
const SESSIONS: usize = 12;

fn serve(program: &Program) -> Child {
    Command::new(env!("CARGO_BIN_EXE_afterword"))
        .arg("serve")
        .current_dir(program.folder())
        .envs([
            ("AFTERWORD__DATABASE__URL", program.url()),
            ("AFTERWORD__DATABASE__BUSY_TIMEOUT", "5m"),
            ("AFTERWORD__SERVER__LISTEN", "127.0.0.1:0"),
            ("AFTERWORD_API_KEY", "a-key-for-crashing"),
            ("AFTERWORD__SWEEP__SCHEDULE", "* * * * * *"),
            ("AFTERWORD__SWEEP__LEASE", "2s"),
            ("AFTERWORD__JUDGE__TIMEOUT", "1s"),
            ("AFTERWORD__CODE__HARD_LIMIT", "1500ms"),
            ("AFTERWORD__OUTGOING__ALLOW_PRIVATE", "true"),
            // However often a slow machine lets it be tried while nobody answers.
            ("AFTERWORD__DELIVERIES__RETRY_FIRST", "100ms"),
            ("AFTERWORD__DELIVERIES__RETRY_LONGEST", "1s"),
            ("AFTERWORD__DELIVERIES__MAX_ATTEMPTS", "100"),
            ("AFTERWORD__LOG__LEVEL", "off"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// A group in which every conversation of these tests lies below the threshold.
async fn make_group(store: &Store) {
    use afterword::domain::group::GroupSpec;
    use afterword::domain::pattern::PatternSpec;
    use afterword::store::ScorerDraft;
    let (now, epoch) = (Timestamp::from_micros(1_793_500_000_000_000), Timestamp::EARLIEST);
    let project = store.default_project(now).await.unwrap().id;
    let body = json!({"name": "Anything", "regex": ".", "polarity": "failure"});
    let spec = PatternSpec::create(&body).unwrap();
    let draft = ScorerDraft {
        kind: afterword::domain::group::MemberKind::Pattern,
        name: "Anything".to_owned(),
        spec: serde_json::to_string(&spec).unwrap(),
    };
    let pattern = store.create_scorer(&project, &draft, now).await.unwrap();
    let body = json!({"name": "G", "members": [{"kind": "pattern", "refId": pattern.id}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 6, "severity": "high", "scope": "session",
                   "idleSeconds": 0}});
    store.create_group(&project, &GroupSpec::create(&body).unwrap(), now, epoch).await.unwrap();
}

async fn crash(program: Program) {
    let mut seed = [0; 8];
    OsEntropy.fill(&mut seed);
    let seed = u64::from_le_bytes(seed);
    println!("seed {seed}");
    let dice = SeededEntropy::new(seed);
    // While it is on, whoever sends waits for an answer until it is killed.
    let holds = Arc::new(AtomicBool::new(true));
    let held = Arc::clone(&holds);
    let webhook = Webhook::start(move |_| {
        if held.load(Ordering::SeqCst) { Answer::Late(Duration::from_mins(10)) } else { Answer::Status(204) }
    });
    let store = program.store().await;
    make_group(&store).await;
    let now = Timestamp::from_micros(1_793_500_000_000_000);
    let project = store.default_project(now).await.unwrap().id;
    let spec = ReceiverSpec::create(&json!({"name": "hook", "url": webhook.url()})).unwrap();
    let receiver = store.create_receiver(&project, &spec, now).await.unwrap();
    let owed = async || {
        let filter = DeliveryFilter { limit: 10_000, ..DeliveryFilter::default() };
        store.deliveries(&project, &filter).await.unwrap()
    };
    let mut expected = BTreeSet::new();
    for kill in 0..KILLS {
        let mut process = serve(&program);
        let before = owed().await.len();
        for n in 0..SESSIONS {
            let session = format!("c{kill}-{n}");
            program.file(&format!("{session}.jsonl"), chat(&session, 2));
            expected.insert(session);
        }
        let files: Vec<String> = (0..SESSIONS).map(|n| format!("c{kill}-{n}.jsonl")).collect();
        program.run(std::iter::once("import".to_owned()).chain(files)).with_code(0);
        // A random moment after the first verdicts, before any delivery can have been taken.
        let more = 1 + usize::try_from(dice.below(SESSIONS as u64)).unwrap();
        until("verdicts are recorded", async || owed().await.len() >= before + more).await;
        if kill % 2 == 0 {
            tokio::time::sleep(Duration::from_millis(dice.below(700))).await;
        }
        process.kill().await.unwrap();
    }
    let taken_by_nobody = owed().await;
    assert!(taken_by_nobody.iter().all(|row| row.state == "pending"), "nobody answered so far");
    holds.store(false, Ordering::SeqCst);
    let _process = serve(&program);
    until("everything is delivered", async || {
        let rows = owed().await;
        rows.len() == expected.len() && rows.iter().all(|row| row.state == "delivered")
    })
    .await;
    let accepted: Vec<_> = webhook.taken().into_iter().filter(|one| one.accepted).map(|one| one.body()).collect();
    let arrived: BTreeSet<String> =
        accepted.iter().map(|body| body["session"]["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(arrived, expected, "no delivery is lost");
    let numbers: Vec<i64> = accepted.iter().map(|body| body["number"].as_i64().unwrap()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert_eq!(store.receiver(&project, &receiver).await.unwrap().unwrap().pending, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_delivery_is_lost_when_the_process_is_killed_between_verdict_and_delivery_on_sqlite() {
    crash(Program::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_delivery_is_lost_when_the_process_is_killed_between_verdict_and_delivery_on_postgresql() {
    if let Some(url) = postgres::database() {
        crash(Program::on(url)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_are_tried_out_and_deliveries_ordered_again_from_the_command_line() {
    let program = Program::on_sqlite();
    let webhook = Webhook::start(|n| Answer::Status(if n == 0 { 200 } else { 500 }));
    let store = open(program.url()).await;
    let now = Timestamp::from_micros(1_793_500_000_000_000);
    let project = store.default_project(now).await.unwrap().id;
    let spec = ReceiverSpec::create(&json!({"name": "hook", "url": webhook.url()})).unwrap();
    let receiver = store.create_receiver(&project, &spec, now).await.unwrap();
    store.announce(&project, &Event::test("hook"), now).await.unwrap();
    let row =
        store.deliveries(&project, &DeliveryFilter { limit: 1, ..DeliveryFilter::default() }).await.unwrap().remove(0);

    let private = [("AFTERWORD__OUTGOING__ALLOW_PRIVATE", "true")];
    let run = async |args: &[&str], code: i32| {
        let args: Vec<String> = args.iter().map(|it| (*it).to_owned()).collect();
        program.run_with(&private, args).with_code(code)
    };
    let told = run(&["receivers", "test", &receiver], 0).await;
    assert!(told.out.starts_with("Receiver \"hook\" took the test in "), "{}", told.out);
    let told = run(&["receivers", "test", &receiver], 1).await;
    assert!(told.err.contains("it answered 500"), "{}", told.err);
    let told = program.run(["receivers", "test", &receiver]).with_code(1);
    assert!(told.err.contains("private network"), "{}", told.err);
    run(&["receivers", "test", "nobody"], 1).await;
    assert_eq!(run(&["receivers", "list"], 0).await.row(&receiver), [receiver.as_str(), "hook", "on", "1"]);

    let listed = run(&["deliveries", "list", "--state", "pending"], 0).await;
    assert_eq!(listed.row(&row.id)[1..5], [receiver.as_str(), "test", "pending", "0"]);
    let told = run(&["deliveries", "redeliver", &row.id], 1).await;
    assert!(told.err.contains("is still owed"), "{}", told.err);
    let told = run(&["deliveries", "redeliver", "--dead", &receiver], 0).await;
    assert!(told.out.starts_with("0 deliveries are owed once more"), "{}", told.out);
    run(&["deliveries", "redeliver", "nothing"], 1).await;
    run(&["deliveries", "redeliver"], 2).await;
}

/// Waits for a fact.
async fn until(what: &str, fact: impl AsyncFn() -> bool) {
    let waiting = async {
        while !fact().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "in vain: {what}");
}
