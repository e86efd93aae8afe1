//! Faults: judges that fail for an hour, connections that are cut, a database file that somebody else holds. Nothing is lost,
//! nothing false is recorded, and everything recovers by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterword::domain::assessment::RetryPolicy;
use afterword::domain::retry::Backoff;
use afterword::domain::time::Micros;
use afterword::entropy::SeededEntropy;
use afterword::scorers::judge::JudgeSettings;
use afterword::store::{Store, StoreSettings};
use afterword::worker::WorkerSettings;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use crate::store::raw::Raw;
use crate::support::judge::{Judge, Reply};
use crate::support::server::{Plan, Server, list, worker_settings};
use crate::support::{PATIENCE, postgres, store_at};

const SESSIONS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// How many attempts one answer may cost.
const ATTEMPTS: u32 = 2;
/// How long an answer may take where judges never answer.
const HASTE: Duration = Duration::from_secs(1);

/// A group of one judge and one pattern, and with `idleSeconds` 0.
async fn judge_everything(server: &Server) {
    let judge = server.caller.post("/agent-monitoring/judge-scorers", &json!({"name": "J"})).await.1;
    let pattern = json!({"name": "P", "includeTerms": ["sorry"], "polarity": "failure"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1;
    let group = json!({
        "name": "G",
        "members": [{"kind": "judge", "refId": judge["judgeScorer"]["_id"]},
                    {"kind": "pattern", "refId": pattern["pattern"]["_id"]}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 5, "severity": "low", "scope": "session",
                   "idleSeconds": 0},
    });
    assert_eq!(server.caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
}

async fn say(server: &Server, session: &str, turn: usize) {
    let span = json!({"name": "helper", "session_id": session, "span_id": format!("{session}-{turn}"),
                      "input": format!("{session} asks {turn}"), "output": "an answer"});
    server.caller.store(&span).await;
}

/// Every verdict of a session: its rating and whether it is incomplete, newest first.
async fn verdicts(server: &Server, session: &str) -> Vec<Value> {
    server.caller.scores(session).await
}

/// A worker that waits longer than an hour for its judges, and at most five minutes between tries.
fn patient() -> WorkerSettings {
    let waits = Backoff { first: Micros::seconds(10), longest: Micros::seconds(300) };
    let retry = RetryPolicy { errors: waits, deferrals: waits, max_attempts: 5, panel_wait: Micros::seconds(7_200) };
    WorkerSettings { retry, ..worker_settings() }
}

/// Judges that are asked again at once, so that an hour passes in seconds. A good answer of theirs is never late.
fn hasty() -> JudgeSettings {
    let backoff = Backoff { first: Micros::millis(1), longest: Micros::millis(2) };
    JudgeSettings {
        model: "test".to_owned(),
        max_attempts: ATTEMPTS,
        timeout: Duration::from_secs(25),
        // Shorter than what an endpoint asks to be left alone for: that is waited for by the tests' clock.
        deadline: Duration::from_secs(25),
        backoff,
        ..JudgeSettings::default()
    }
}

/// Sweeps until so many verdicts were recorded, with time going by in between.
async fn sweep_until(server: &Server, verdicts: u64) {
    let sweeping = async {
        let mut judged = server.caller.sweep().await;
        while judged < verdicts {
            server.clock.advance(Micros::seconds(400));
            judged += server.caller.sweep().await;
        }
        assert_eq!(judged, verdicts);
    };
    tokio::time::timeout(PATIENCE, sweeping).await.expect("everything is judged in the end");
}

/// How many calls the judge was waited for in vain, for as long as it may take.
async fn late_calls(server: &Server) -> usize {
    let late = format!("FROM judge_calls WHERE outcome = 'unavailable' AND latency_ms >= {}", HASTE.as_millis());
    usize::try_from(Raw::connect(&server.database).await.number("COUNT(*)", &late).await).unwrap()
}

/// Five sessions are judged; then the judge fails as `fault` says for an hour in which each of them grows; then it is well.
async fn an_hour_of(fault: Reply) {
    // Only a judge that never answers is to be waited for in vain, and then a good answer may be late too.
    let hangs = matches!(fault, Reply::After(..));
    let judges = if hangs { JudgeSettings { timeout: HASTE, ..hasty() } } else { hasty() };
    let broken = Arc::new(AtomicBool::new(false));
    let (switch, fault_said) = (Arc::clone(&broken), format!("{fault:?}"));
    let judge = Judge::start(move |_| if switch.load(Ordering::SeqCst) { fault.clone() } else { Reply::Rating(8.0) });
    let plan = Plan { judge: Some(&judge), judges, worker: patient(), ..Plan::default() };
    let server = Server::planned(plan).await;
    judge_everything(&server).await;
    for session in SESSIONS {
        say(&server, session, 1).await;
        say(&server, session, 2).await;
    }
    sweep_until(&server, 5).await;
    let old: Vec<Vec<Value>> = futures::future::join_all(SESSIONS.map(|session| verdicts(&server, session))).await;

    broken.store(true, Ordering::SeqCst);
    for session in SESSIONS {
        say(&server, session, 3).await;
    }
    let calls_before = judge.requests().len();
    for _ in 0..60 {
        assert_eq!(server.caller.sweep().await, 0, "{fault_said}: no verdict while the judge can't answer");
        server.clock.advance(Micros::seconds(60));
    }
    for (session, old) in SESSIONS.iter().zip(&old) {
        assert_eq!(&verdicts(&server, session).await, old, "{fault_said}: the old verdict is untouched");
    }
    // Waits of 10, 20, 40, 80, 160 seconds and then of 300, each at least half as long: at most 30 tries an hour.
    let calls = judge.requests().len() - calls_before;
    assert!(calls >= 5, "{fault_said}: every session was tried");
    assert!(calls <= SESSIONS.len() * 30 * ATTEMPTS as usize, "{fault_said}: {calls} calls in an hour");

    broken.store(false, Ordering::SeqCst);
    server.clock.advance(Micros::seconds(3_600));
    let (calls_before, late_before) = (judge.requests().len(), late_calls(&server).await);
    sweep_until(&server, 5).await;
    for _ in 0..10 {
        server.clock.advance(Micros::seconds(400));
        assert_eq!(server.caller.sweep().await, 0, "{fault_said}: one verdict each");
    }
    let late = late_calls(&server).await - late_before;
    assert!(hangs || late == 0, "{fault_said}: {late} calls were waited for in vain");
    assert_eq!(judge.requests().len() - calls_before, 5 + late, "{fault_said}: one call each");
    for session in SESSIONS {
        let scores = verdicts(&server, session).await;
        let ratings: Vec<f64> = scores.iter().filter_map(|score| score["rating"].as_f64()).collect();
        assert!(!ratings.is_empty() && ratings.iter().all(|rating| *rating > 8.0), "{fault_said}: {scores:?}");
    }
    assert_eq!(server.caller.get("/monitor/signals").await.1["signals"], json!([]), "{fault_said}: no false alarm");
}

#[tokio::test]
async fn an_hour_of_500s_changes_no_verdict_and_all_is_judged_afterwards() {
    an_hour_of(Reply::Status(500)).await;
}

#[tokio::test]
async fn an_hour_of_429s_changes_no_verdict_and_all_is_judged_afterwards() {
    an_hour_of(Reply::RetryAfter(30)).await;
}

#[tokio::test]
async fn an_hour_of_empty_answers_changes_no_verdict_and_all_is_judged_afterwards() {
    an_hour_of(Reply::Nothing).await;
}

#[tokio::test]
async fn an_hour_of_hangs_changes_no_verdict_and_all_is_judged_afterwards() {
    an_hour_of(Reply::After(Duration::from_hours(1), Box::new(Reply::Rating(1.0)))).await;
}

#[tokio::test]
async fn an_outage_longer_than_the_wait_for_the_panel_gives_a_verdict_of_those_who_answered() {
    let judge = Judge::start(|_| Reply::Status(503));
    let plan = Plan { judge: Some(&judge), judges: hasty(), worker: patient(), ..Plan::default() };
    let server = Server::planned(plan).await;
    judge_everything(&server).await;
    say(&server, "s", 1).await;
    say(&server, "s", 2).await;
    assert_eq!(server.caller.sweep().await, 0);
    server.clock.advance(Micros::seconds(7_200));
    assert_eq!(server.caller.sweep().await, 1);
    let scores = verdicts(&server, "s").await;
    assert_eq!(
        (scores[0]["rating"].as_f64(), scores[0]["incomplete"].as_bool()),
        (Some(10.0), Some(true)),
        "{scores:?}"
    );
}

/// A server that judges by itself, with a group, and a judge that takes a moment.
async fn at_work(database: Option<String>, judge: &Judge, busy_timeout: Duration) -> Server {
    let retry = RetryPolicy {
        errors: Backoff { first: Micros::millis(1), longest: Micros::millis(2) },
        max_attempts: 50,
        ..worker_settings().retry
    };
    let worker = WorkerSettings { lease: Micros::seconds(2), retry, ..worker_settings() };
    let clock: Arc<dyn afterword::clock::Clock> = Arc::new(afterword::clock::SystemClock::default());
    let plan = Plan {
        database,
        busy_timeout,
        judge: Some(judge),
        judges: JudgeSettings { model: "test".to_owned(), ..JudgeSettings::default() },
        worker,
        schedule: Some("* * * * * *"),
        clock: Some(clock),
        ..Plan::default()
    };
    let server = Server::planned(plan).await;
    judge_everything(&server).await;
    server
}

/// Sends a span until it is acknowledged, as an exporter does.
async fn say_at_last(server: &Server, session: &str, turn: usize) {
    let span = json!({"name": "helper", "session_id": session, "span_id": format!("{session}-{turn}"),
                      "input": format!("{session} asks {turn}"), "output": "an answer"});
    loop {
        let (status, body) = server.caller.post("/ingest/traces", &span).await;
        match status {
            200 => return,
            503 => tokio::time::sleep(Duration::from_millis(20)).await,
            other => panic!("a fault of the surroundings is answered with {other}: {body}"),
        }
    }
}

/// Waits until every session has its verdict.
async fn all_judged(server: &Server, sessions: usize) {
    let wait = async {
        for n in 0..sessions {
            while scores_at_last(server, n).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("everything is judged in the end");
}

/// The scores of a session, once they can be read: connections that were cut may fail one after the other.
async fn scores_at_last(server: &Server, session: usize) -> Vec<Value> {
    loop {
        let (status, body) = server.caller.get(&format!("/agent-monitoring/sessions/s{session}/scores")).await;
        match status {
            200 => return list((status, body), "scores"),
            503 => tokio::time::sleep(Duration::from_millis(20)).await,
            other => panic!("a fault of the surroundings is answered with {other}: {body}"),
        }
    }
}

/// What must hold once everything has recovered: each session has one verdict, rated by all its members.
async fn nothing_lost_nothing_twice(server: &Server, judge: &Judge, sessions: usize) {
    let store = Store::open(&store_at(&server.database), Arc::new(SeededEntropy::new(1))).await.unwrap();
    let project = store.default_project(afterword::domain::time::Timestamp::EARLIEST).await.unwrap().id;
    for n in 0..sessions {
        let session = afterword::domain::ids::SessionId::trusted(format!("s{n}"));
        let spans = store.spans_of_session(&project, &session).await.unwrap();
        assert_eq!(spans.len(), 2, "{session}: every acknowledged span is there");
        let verdicts = store.verdicts_of_session(&project, &session).await.unwrap();
        assert_eq!(verdicts.len(), 1, "{session}: {verdicts:?}");
        let scores = scores_at_last(server, n).await;
        assert_eq!(scores[0]["rating"].as_f64(), Some(9.0), "{session}: {scores:?}");
    }
    let calls = judge.requests().len();
    assert!(calls <= 2 * sessions, "{calls} judge calls for {sessions} sessions");
}

#[tokio::test]
async fn connections_cut_in_mid_flight_lose_nothing_and_judge_nothing_twice() {
    const COUNT: usize = 40;
    let Some(database) = postgres::database() else { return };
    let judge = Judge::start(|_| Reply::After(Duration::from_millis(50), Box::new(Reply::Rating(8.0))));
    let server = at_work(Some(database.clone()), &judge, PATIENCE).await;
    let mut axe = PgConnection::connect(&database).await.unwrap();
    let arriving = async {
        for n in 0..COUNT {
            say_at_last(&server, &format!("s{n}"), 1).await;
            say_at_last(&server, &format!("s{n}"), 2).await;
        }
        all_judged(&server, COUNT).await;
    };
    let cutting = async {
        let mut kept = 0;
        for _ in 0..15 {
            // Between two cuts an answer is kept, as long as any is to come. However slow the machine, none is cut off until the
            // worker gives it up.
            let before = kept;
            while kept == before && kept < i64::try_from(COUNT).unwrap() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                kept = sqlx::query_scalar("SELECT count(*) FROM outcomes").fetch_one(&mut axe).await.unwrap();
            }
            let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
            // The sweep comes by every second, so there is a connection again.
            while sqlx::query_scalar::<_, i64>(cut).fetch_one(&mut axe).await.unwrap() == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(arriving, cutting) }).await.expect("it goes on after each cut");
    nothing_lost_nothing_twice(&server, &judge, COUNT).await;
}

#[tokio::test]
async fn a_file_that_another_process_holds_is_waited_for_and_nothing_is_lost() {
    const COUNT: usize = 10;
    let judge = Judge::start(|_| Reply::After(Duration::from_millis(50), Box::new(Reply::Rating(8.0))));
    // What the store waits at a time, as the configuration has it.
    let server = at_work(None, &judge, StoreSettings::at(String::new()).busy_timeout).await;
    let mut other = SqliteConnection::connect(&server.database).await.unwrap();
    other.execute("PRAGMA busy_timeout = 300000").await.unwrap();
    let arriving = async {
        for n in 0..COUNT {
            say_at_last(&server, &format!("s{n}"), 1).await;
            say_at_last(&server, &format!("s{n}"), 2).await;
        }
        all_judged(&server, COUNT).await;
    };
    let holding = async {
        // Longer than the store waits at a time, and longer than a lease: what is in work must outlast it.
        for seconds in [1, 7] {
            other.execute("BEGIN IMMEDIATE").await.unwrap();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            other.execute("COMMIT").await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::join!(arriving, holding);
    nothing_lost_nothing_twice(&server, &judge, COUNT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_cut_down_and_started_again_in_mid_sweep_loses_nothing_and_nothing_is_judged_twice() {
    const WAVES: usize = 3;
    const WAVE: usize = 13;
    let Some(postgres) = postgres::Own::start() else { return };
    let judge = Judge::start(|_| Reply::After(Duration::from_millis(50), Box::new(Reply::Rating(8.0))));
    let server = at_work(Some(postgres.database()), &judge, PATIENCE).await;
    for wave in 0..WAVES {
        let seen = judge.requests().len();
        let arriving = async {
            for n in wave * WAVE..(wave + 1) * WAVE {
                say_at_last(&server, &format!("s{n}"), 1).await;
                say_at_last(&server, &format!("s{n}"), 2).await;
            }
        };
        // Wherever ingest and sweep are by then. Judges are asked about each wave: nobody asked about it before it was sent.
        let cutting = async {
            let more = async {
                while judge.requests().len() < seen + 3 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, more).await.expect("judges are asked");
            postgres.cut_down();
            postgres.start_again();
        };
        tokio::join!(arriving, cutting);
    }
    all_judged(&server, WAVES * WAVE).await;
    nothing_lost_nothing_twice(&server, &judge, WAVES * WAVE).await;
}
