//! Why a session has the verdicts it has: each decision a conversation goes through, as the API and the command tell it.

use afterword::domain::time::Micros;
use serde_json::{Value, json};

use crate::support::server::Server;

const IDLE: i64 = 120;

async fn explained(server: &Server, session: &str) -> Vec<Value> {
    let (status, body) = server.caller.get(&format!("/agent-monitoring/sessions/{session}/explain")).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["sessionId"], session);
    body["groups"].as_array().unwrap().clone()
}

async fn decision(server: &Server, session: &str) -> Value {
    explained(server, session).await.remove(0)
}

async fn say(server: &Server, session: &str, turn: usize) {
    let span = json!({"name": "helper", "span_id": format!("{session}-{turn}"), "session_id": session,
                      "input": format!("question {turn}"), "output": "an answer"});
    server.caller.store(&span).await;
}

#[tokio::test]
async fn every_decision_on_the_way_of_a_session_is_told_with_its_reason() {
    let server = Server::start().await;
    let pattern = json!({"name": "Answers", "includeTerms": ["answer"], "polarity": "proper"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1;
    let members = json!([{"kind": "pattern", "refId": pattern["pattern"]["_id"], "weight": 1}]);
    let group = json!({"name": "Support", "members": members,
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                   "idleSeconds": IDLE}});
    let group = server.caller.post("/agent-monitoring/scorer-groups", &group).await.1;
    let id = group["scorerGroup"]["_id"].as_str().unwrap();

    assert_eq!(decision(&server, "s").await["decision"], "unknown");
    say(&server, "s", 1).await;
    let one = decision(&server, "s").await;
    assert_eq!((&one["decision"], &one["turns"], &one["minTurns"]), (&json!("too_few_turns"), &json!(1), &json!(2)));
    assert_eq!((&one["groupId"], &one["groupName"]), (&json!(id), &json!("Support")));
    say(&server, "s", 2).await;
    let active = decision(&server, "s").await;
    assert_eq!((&active["decision"], &active["until"]), (&json!("active"), &json!("2026-01-01T00:02:00.000Z")));
    server.clock.advance(Micros::seconds(IDLE));
    assert_eq!(decision(&server, "s").await["decision"], "unplanned");
    assert_eq!(server.caller.sweep().await, 1);
    let judged = decision(&server, "s").await;
    assert_eq!(
        (&judged["decision"], &judged["rating"], &judged["revision"]),
        (&json!("judged"), &json!(10.0), &json!(2))
    );
    assert_eq!(judged["text"], "judged at revision 2: 10.0/10");
    say(&server, "s", 3).await;
    assert_eq!(judged["superseded"], Value::Null);
    let grown = decision(&server, "s").await;
    let superseded = json!({"revision": 2, "rating": 10.0});
    assert_eq!((&grown["decision"], &grown["superseded"]), (&json!("active"), &superseded));
    let text = grown["text"].as_str().unwrap();
    assert!(text.ends_with("; what was judged at revision 2 (10.0/10) is superseded"), "{text}");

    let off = json!({"online": {"sampleRate": 0}});
    server.caller.put(&format!("/agent-monitoring/scorer-groups/{id}"), &off).await;
    let out = decision(&server, "s").await;
    assert_eq!((&out["decision"], &out["rate"]), (&json!("sampled_out"), &json!(0.0)));
    assert_eq!(out["hash"].as_str().map(str::len), Some(16));
    let off = json!({"online": {"enabled": false}});
    server.caller.put(&format!("/agent-monitoring/scorer-groups/{id}"), &off).await;
    assert_eq!(decision(&server, "s").await["decision"], "not_live");

    let (status, other) = server.caller.get("/agent-monitoring/sessions/s/explain?groupId=another").await;
    assert_eq!((status, &other["groups"]), (200, &json!([])));
    let (_, foreign) = server.stranger.get("/agent-monitoring/sessions/s/explain").await;
    assert_eq!(foreign["groups"], json!([]), "another project has no groups to explain");
}

#[tokio::test]
async fn a_session_of_an_agent_that_is_not_selected_says_so_before_and_after_the_sweep() {
    let server = Server::start().await;
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 5, "severity": "low", "scope": "session",
                        "idleSeconds": IDLE, "scopeMode": "selected", "agentIds": ["billing"]});
    let made =
        server.caller.post("/agent-monitoring/judge-scorers", &json!({"name": "Tone", "online": online})).await.1;
    for turn in 1..=2 {
        say(&server, "s", turn).await;
    }
    assert_eq!(decision(&server, "s").await["decision"], "active", "the next turn may be another agent's");
    server.clock.advance(Micros::seconds(IDLE));
    let before = decision(&server, "s").await;
    assert_eq!(
        (&before["decision"], &before["agent"], &before["selected"]),
        (&json!("other_agent"), &json!({"id": "helper", "name": "helper"}), &json!(["billing"]))
    );
    assert_eq!(before["text"], "its agent helper is none of those selected: billing");
    assert_eq!(server.caller.sweep().await, 0);
    assert_eq!(decision(&server, "s").await, before, "nobody takes it up");

    let path = format!("/agent-monitoring/judge-scorers/{}", made["judgeScorer"]["_id"].as_str().unwrap());
    let chosen = json!({"online": {"agentIds": ["billing", "helper"]}});
    assert_eq!(server.caller.put(&path, &chosen).await.0, 200);
    assert_eq!(decision(&server, "s").await["decision"], "unplanned");
}
