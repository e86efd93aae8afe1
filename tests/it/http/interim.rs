//! Sessions that never become quiet, samples tried beforehand, and re-sweeps on a schedule, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use afterword::clock::{Clock, SystemClock};
use afterword::domain::ids::GroupId;
use afterword::domain::resweep::Asked;
use afterword::domain::time::Micros;
use afterword::store::DEFAULT_PROJECT;
use afterword::worker::schedule::Schedule;
use afterword::worker::{self, Scheduled, WorkerSettings};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::server::{Plan, Server, list, refused, worker_settings};
use crate::support::{PATIENCE, postgres};

const HOUR: i64 = 3_600;

/// A group of one pattern that wants ten minutes of quiet; answers its id.
async fn group(server: &Server) -> String {
    let pattern = json!({"name": "P", "includeTerms": ["sorry"], "polarity": "failure"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone();
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                        "idleSeconds": 600});
    let group = json!({"name": "G", "members": [{"kind": "pattern", "refId": pattern}], "online": online});
    let made = server.caller.post("/agent-monitoring/scorer-groups", &group).await.1;
    made["scorerGroup"]["_id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

async fn say(server: &Server, session: &str, turn: i64) {
    let span = json!({"name": "helper", "session_id": session, "span_id": format!("{session}-{turn}"),
                      "input": format!("{session} asks {turn}"), "output": "an answer"});
    server.caller.store(&span).await;
}

fn told(scores: &[Value]) -> Vec<(i64, bool)> {
    scores.iter().map(|it| (it["turns"].as_i64().unwrap(), it["interim"].as_bool().unwrap())).collect()
}

async fn goes_on_and_on(database: Option<String>) {
    let worker = WorkerSettings { max_session_age: Micros::seconds(HOUR), ..worker_settings() };
    let server = Server::planned(Plan { database, worker, ..Plan::default() }).await;
    group(&server).await;
    // A turn every five minutes for two hours and a half, and sweeps all the time.
    for turn in 0..30 {
        say(&server, "s", turn).await;
        server.caller.sweep().await;
        server.clock.advance(Micros::seconds(300));
    }
    let scores = server.caller.scores("s").await;
    assert_eq!(told(&scores), [(25, true), (13, true)], "after one hour, and after another");
    server.clock.advance(Micros::seconds(600));
    assert_eq!(server.caller.sweep().await, 1);
    let scores = server.caller.scores("s").await;
    assert_eq!(told(&scores), [(30, false), (25, true), (13, true)], "and once it is quiet, for good");
    server.clock.advance(Micros::seconds(10 * HOUR));
    assert_eq!(server.caller.sweep().await, 0);
}

/// What was composed anew was not judged anew: the hour goes on counting from what was judged.
async fn is_composed_anew_meanwhile(database: Option<String>) {
    let worker = WorkerSettings { max_session_age: Micros::seconds(HOUR), ..worker_settings() };
    let server = Server::planned(Plan { database, worker, ..Plan::default() }).await;
    let group = group(&server).await;
    for turn in 0..26 {
        say(&server, "s", turn).await;
        server.caller.sweep().await;
        if turn >= 12 {
            let path = format!("/agent-monitoring/scorer-groups/{group}");
            let threshold = 0.01 * f64::from(i32::try_from(turn).unwrap());
            assert_eq!(server.caller.put(&path, &json!({"passThreshold": threshold})).await.0, 200);
            let (status, report) = server.caller.press(&format!("{path}/recompose")).await;
            assert_eq!((status, &report["recomposed"]), (200, &json!(1)), "{report}");
        }
        server.clock.advance(Micros::seconds(300));
    }
    let scores = server.caller.scores("s").await;
    let judged: Vec<Value> = scores.into_iter().filter(|it| it["recomposed"] == json!(false)).collect();
    assert_eq!(told(&judged), [(25, true), (13, true)], "after one hour, and after another");
}

#[tokio::test]
async fn a_session_that_is_composed_anew_meanwhile_is_judged_as_often_on_sqlite() {
    is_composed_anew_meanwhile(None).await;
}

#[tokio::test]
async fn a_session_that_is_composed_anew_meanwhile_is_judged_as_often_on_postgresql() {
    if let Some(database) = postgres::database() {
        is_composed_anew_meanwhile(Some(database)).await;
    }
}

/// A client that sends its spans again and again with more in them leaves none from the beginning.
async fn grows_old_by_spans_sent_again(database: Option<String>) {
    let worker = WorkerSettings { max_session_age: Micros::seconds(HOUR), ..worker_settings() };
    let server = Server::planned(Plan { database, worker, ..Plan::default() }).await;
    group(&server).await;
    for round in 0..14 {
        for turn in 0..2 {
            let span = json!({"name": "helper", "session_id": "s", "span_id": format!("s-{turn}"),
                              "input": "asks", "output": format!("an answer of {round} words"),
                              "started_at_unix_nano": "1767225600000000000", "latency_ms": 1_000 * (round + 1)});
            server.caller.store(&span).await;
        }
        server.caller.sweep().await;
        server.clock.advance(Micros::seconds(300));
    }
    assert_eq!(told(&server.caller.scores("s").await), [(2, true)], "after one hour");
}

#[tokio::test]
async fn a_session_whose_spans_are_sent_again_and_again_grows_old_on_sqlite() {
    grows_old_by_spans_sent_again(None).await;
}

#[tokio::test]
async fn a_session_whose_spans_are_sent_again_and_again_grows_old_on_postgresql() {
    if let Some(database) = postgres::database() {
        grows_old_by_spans_sent_again(Some(database)).await;
    }
}

#[tokio::test]
async fn a_session_that_never_becomes_quiet_is_judged_in_between_on_sqlite() {
    goes_on_and_on(None).await;
}

#[tokio::test]
async fn a_session_that_never_becomes_quiet_is_judged_in_between_on_postgresql() {
    if let Some(database) = postgres::database() {
        goes_on_and_on(Some(database)).await;
    }
}

#[tokio::test]
async fn without_the_setting_a_session_that_goes_on_is_left_alone() {
    let server = Server::start().await;
    group(&server).await;
    for turn in 0..30 {
        say(&server, "s", turn).await;
        assert_eq!(server.caller.sweep().await, 0);
        server.clock.advance(Micros::seconds(300));
    }
}

#[tokio::test]
async fn a_preview_tells_what_a_rate_would_pick_and_writes_nothing() {
    let server = Server::start().await;
    let group = group(&server).await;
    for n in 0..40 {
        say(&server, &format!("s{n:02}"), 1).await;
        say(&server, &format!("s{n:02}"), 2).await;
    }
    say(&server, "short", 1).await;
    let path = format!("/agent-monitoring/scorer-groups/{group}/sample-preview");
    let preview = async |query: &str| {
        let (status, answer) = server.caller.get(&format!("{path}?{query}")).await;
        assert_eq!(status, 200, "{answer}");
        answer["preview"].clone()
    };
    let all = preview("limit=1000").await;
    assert_eq!((&all["rate"], &all["eligible"], &all["kept"]), (&json!(1.0), &json!(40), &json!(40)));
    let half = preview("rate=0.5&limit=1000").await;
    let kept = half["sessions"].as_array().unwrap();
    let by_hand = (0..40)
        .map(|n| format!("s{n:02}"))
        .filter(|session| afterword::domain::sample::draw(session, &group).unit < 0.5)
        .collect::<Vec<_>>();
    assert_eq!(kept.iter().map(|it| it["sessionId"].as_str().unwrap()).collect::<Vec<_>>(), by_hand);
    assert_eq!(half["kept"], json!(by_hand.len()));
    assert_eq!(preview("rate=0.5&limit=1").await["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(preview("to=2025-01-01").await["eligible"], json!(0));
    for bad in ["rate=2", "rate=x", "limit=0"] {
        refused(&server.caller.get(&format!("{path}?{bad}")).await, 400);
    }
    refused(&server.stranger.get(&path).await, 404);
    assert_eq!(server.caller.scores("s00").await.len(), 0);
}

#[tokio::test]
async fn a_scheduled_re_sweep_is_ordered_once_each_time_however_many_workers_run() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let server = Server::planned(Plan { clock: Some(Arc::clone(&clock)), ..Plan::default() }).await;
    let group = group(&server).await;
    let asked = json!({"groupId": group, "mode": "all", "reason": "scheduled: often"});
    let scheduled = Scheduled {
        name: "often".to_owned(),
        schedule: Schedule::parse("* * * * * *").unwrap(),
        project: DEFAULT_PROJECT.to_owned(),
        group: GroupId::trusted(group),
        window: Micros::seconds(HOUR),
        order: Asked::read(&asked).unwrap().order,
    };
    let stop = CancellationToken::new();
    let workers = [0; 3].map(|_| {
        let ordering = worker::order_on_schedule(Arc::clone(&server.worker), vec![scheduled.clone()], stop.clone());
        tokio::spawn(ordering)
    });
    let ordered = async {
        loop {
            let all = list(server.caller.get("/agent-monitoring/resweeps").await, "resweeps");
            if all.len() >= 3 {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let all = tokio::time::timeout(PATIENCE, ordered).await.expect("one a second");
    stop.cancel();
    for worker in workers {
        worker.await.unwrap();
    }
    let mut moments: Vec<&str> = all.iter().map(|it| it["_id"].as_str().unwrap()).collect();
    let ordered = moments.len();
    moments.dedup();
    assert_eq!(moments.len(), ordered, "{moments:?}");
    assert!(moments.iter().all(|id| id.starts_with("often@") && id.contains(".000Z")), "{moments:?}");
    assert!(all.iter().all(|it| it["reason"] == "scheduled: often"), "{all:?}");
}
