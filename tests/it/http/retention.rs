//! Retention in a running server: what is kept too long goes, whatever the schedule of sweeps.

use std::sync::Arc;
use std::time::Duration;

use afterword::domain::time::Micros;
use afterword::store::Retention;
use afterword::worker::schedule::Schedule;
use afterword::worker::{self, WorkerSettings};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::server::{Plan, Server, worker_settings};

const DAY: i64 = 86_400;

#[tokio::test]
async fn what_is_too_old_goes_although_the_schedule_is_off() {
    let retention = Retention { spans: Some(Micros::seconds(7 * DAY)), ..Retention::default() };
    let server =
        Server::planned(Plan { worker: WorkerSettings { retention, ..worker_settings() }, ..Plan::default() }).await;
    let say = async |session: &str| {
        server.caller.store(&json!({"name": "helper", "session_id": session, "span_id": session, "input": "?"})).await;
    };
    let spans = async |session: &str| {
        let path = format!("/ingest/sessions/{session}/spans");
        server.caller.get(&path).await.1["spans"].as_array().map_or(0, Vec::len)
    };
    say("old").await;
    server.clock.advance(Micros::seconds(8 * DAY));
    say("young").await;
    assert_eq!((spans("old").await, spans("young").await), (1, 1));
    let (off, stop) = (Schedule::parse("off").unwrap(), CancellationToken::new());
    let running = tokio::spawn(worker::run(Arc::clone(&server.worker), off, stop.clone()));
    let gone = async {
        while spans("old").await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), gone).await.expect("pruned within a minute");
    assert_eq!(spans("young").await, 1);
    stop.cancel();
    running.await.unwrap();
}
