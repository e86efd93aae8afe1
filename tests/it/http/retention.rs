//! Retention in a running server: what is kept too long goes, whatever the schedule of sweeps.

use std::sync::Arc;
use std::time::Duration;

use afterword::domain::time::Micros;
use afterword::store::Retention;
use afterword::worker::schedule::Schedule;
use afterword::worker::{self, WorkerSettings};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::store::raw::Raw;
use crate::support::PATIENCE;
use crate::support::server::{Caller, Plan, Server, worker_settings};

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
    tokio::time::timeout(PATIENCE, gone).await.expect("pruned in the end");
    assert_eq!(spans("young").await, 1);
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn what_a_deleted_project_held_is_gone_for_good_in_the_end() {
    let retention = Retention { deleted_projects: Some(Micros::seconds(30 * DAY)), ..Retention::default() };
    let server =
        Server::planned(Plan { worker: WorkerSettings { retention, ..worker_settings() }, ..Plan::default() }).await;
    let (status, made) = server.caller.post("/projects", &json!({"name": "pilot"})).await;
    assert_eq!(status, 201, "{made}");
    let project = made["project"]["_id"].as_str().unwrap().to_owned();
    let pilot = Caller::new(&server.origin, made["project"]["apiKey"].as_str().unwrap());
    for caller in [&pilot, &server.caller] {
        caller.store(&json!({"name": "helper", "session_id": "s", "span_id": "s", "input": "a secret"})).await;
    }
    assert_eq!(server.caller.delete(&format!("/projects/{project}")).await.0, 204);
    server.clock.advance(Micros::seconds(31 * DAY));
    let (off, stop) = (Schedule::parse("off").unwrap(), CancellationToken::new());
    let running = tokio::spawn(worker::run(Arc::clone(&server.worker), off, stop.clone()));
    let mut raw = Raw::connect(&server.database).await;
    let gone = async {
        while raw.number("COUNT(*)", &format!("FROM projects WHERE project_id = '{project}'")).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        raw.number("COUNT(*)", &format!("FROM spans WHERE project_id = '{project}'")).await
    };
    assert_eq!(tokio::time::timeout(PATIENCE, gone).await.expect("purged in the end"), 0);
    assert_eq!(server.caller.spans("s").await.len(), 1);
    stop.cancel();
    running.await.unwrap();
}
