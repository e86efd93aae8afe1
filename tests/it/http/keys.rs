//! API keys through the API: made, listed, rotated, revoked, expired, and held to their limits.

use afterword::domain::time::Micros;
use serde_json::{Value, json};

use crate::support::server::{Caller, Plan, Server, answer, list, refused};

const KEYS: &str = "/agent-monitoring/keys";

/// Makes a key with `caller`'s; answers it as shown, and who holds it.
async fn made(server: &Server, caller: &Caller, body: &Value) -> (Value, Caller) {
    let (status, mut answer) = caller.post(KEYS, body).await;
    assert_eq!(status, 201, "{answer}");
    let key = answer["key"].take();
    let holder = Caller::new(&server.origin, key["apiKey"].as_str().unwrap());
    (key, holder)
}

#[tokio::test]
async fn a_key_is_shown_once_and_revoked_at_once() {
    let server = Server::start().await;
    let body = json!({"name": " ci ", "scopes": ["ingest", "read"], "expiresAt": "2026-02-01T00:00:00Z"});
    let (key, holder) = made(&server, &server.caller, &body).await;
    let text = key["apiKey"].as_str().unwrap();
    assert!(text.len() == 67 && text.starts_with(key["prefix"].as_str().unwrap()), "{key}");
    assert_eq!(
        (&key["name"], &key["scopes"], &key["state"]),
        (&json!("ci"), &json!(["ingest", "read"]), &json!("live"))
    );
    let listed = list(server.caller.get(KEYS).await, "keys");
    assert_eq!(listed.len(), 2);
    let row = listed.iter().find(|row| row["_id"] == key["_id"]).unwrap();
    assert!(row.get("apiKey").is_none() && row["expiresAt"] == "2026-02-01T00:00:00.000Z", "{row}");
    assert!(!json!(listed).to_string().contains(text), "the key itself is told nowhere");

    holder.store(&json!({"name": "a", "session_id": "s"})).await;
    assert_eq!(holder.spans("s").await.len(), 1);
    let path = format!("{KEYS}/{}", key["_id"].as_str().unwrap());
    assert_eq!(server.caller.delete(&path).await.0, 204);
    let refusal = refused(&holder.get("/monitor/patterns").await, 401);
    assert!(refusal.contains("was revoked at 2026-01-01T00:00:00.000Z"), "{refusal}");
    assert_eq!(refused(&server.caller.delete(&path).await, 404), "API key not found");
    let row = list(server.caller.get(KEYS).await, "keys").into_iter().find(|row| row["_id"] == key["_id"]).unwrap();
    assert_eq!((&row["state"], &row["revokedAt"]), (&json!("revoked"), &json!("2026-01-01T00:00:00.000Z")));
}

#[tokio::test]
async fn a_key_ends_at_the_moment_it_was_to_end() {
    let server = Server::start().await;
    let body = json!({"name": "short", "scopes": ["read"], "expiresAt": "2026-01-01T00:01:00Z"});
    let (_, holder) = made(&server, &server.caller, &body).await;
    server.clock.advance(Micros::millis(59_999));
    assert_eq!(holder.get("/monitor/patterns").await.0, 200);
    server.clock.advance(Micros::millis(1));
    let refusal = refused(&holder.get("/monitor/patterns").await, 401);
    assert!(refusal.contains("expired at 2026-01-01T00:01:00.000Z; use another"), "{refusal}");
}

#[tokio::test]
async fn a_rotated_key_ends_at_once_or_after_its_overlap() {
    let server = Server::start().await;
    let body = json!({"name": "r", "scopes": ["read"], "requestsPerMinute": 600});
    let (first, one) = made(&server, &server.caller, &body).await;
    let rotate = |id: &Value| format!("{KEYS}/{}/rotate", id.as_str().unwrap());
    let (status, answer) = server.caller.post(&rotate(&first["_id"]), &json!({"overlapSeconds": 60})).await;
    assert_eq!(status, 201, "{answer}");
    let second = &answer["key"];
    for kept in ["name", "scopes", "requestsPerMinute"] {
        assert_eq!(second[kept], first[kept], "{kept}");
    }
    let two = Caller::new(&server.origin, second["apiKey"].as_str().unwrap());
    assert_eq!((one.get("/monitor/patterns").await.0, two.get("/monitor/patterns").await.0), (200, 200));
    server.clock.advance(Micros::seconds(60));
    refused(&one.get("/monitor/patterns").await, 401);
    assert_eq!(two.get("/monitor/patterns").await.0, 200);
    let (status, answer) = server.caller.press(&rotate(&second["_id"])).await;
    assert_eq!(status, 201, "{answer}");
    refused(&two.get("/monitor/patterns").await, 401);
    let three = Caller::new(&server.origin, answer["key"]["apiKey"].as_str().unwrap());
    assert_eq!(three.get("/monitor/patterns").await.0, 200);
    refused(&server.caller.press(&rotate(&first["_id"])).await, 409);
    refused(&server.caller.press(&rotate(&json!("none"))).await, 404);
    refused(&server.caller.post(&rotate(&first["_id"]), &json!({"overlapSeconds": 1.5})).await, 400);
}

#[tokio::test]
async fn no_key_hands_out_more_than_it_has() {
    let server = Server::start().await;
    let limits = json!({"name": "o", "scopes": ["operate", "read"], "expiresAt": "2026-02-01T00:00:00Z"});
    let (own, operator) = made(&server, &server.caller, &limits).await;
    let full = list(server.caller.get(KEYS).await, "keys").into_iter().find(|row| row["name"] == "t").unwrap();
    let full = format!("{KEYS}/{}", full["_id"].as_str().unwrap());
    for (body, said) in [
        (json!({"name": "x", "scopes": ["manage"], "expiresAt": "2026-01-02T00:00:00Z"}), "can't give manage"),
        (json!({"name": "x", "scopes": ["read"]}), "outlives"),
        (json!({"name": "x", "scopes": ["read"], "expiresAt": "2026-02-01T00:00:01Z"}), "outlives"),
    ] {
        let refusal = refused(&operator.post(KEYS, &body).await, 403);
        assert!(refusal.contains(said), "{refusal}");
    }
    refused(&operator.press(&format!("{full}/rotate")).await, 403);
    refused(&operator.delete(&full).await, 403);
    assert_eq!(server.caller.get(KEYS).await.0, 200);
    let (_, reader) =
        made(&server, &operator, &json!({"name": "x", "scopes": ["read"], "expiresAt": "2026-02-01T00:00:00Z"})).await;
    refused(&reader.get(KEYS).await, 403);
    let own = format!("{KEYS}/{}", own["_id"].as_str().unwrap());
    assert_eq!(operator.delete(&own).await.0, 204, "a key may end itself");
    refused(&operator.get(KEYS).await, 401);
}

#[tokio::test]
async fn a_key_that_is_held_to_a_rate_makes_none_that_may_ask_more_often() {
    let server = Server::start().await;
    let slow = json!({"name": "slow", "scopes": ["operate", "read"], "requestsPerMinute": 600});
    let (_, slow) = made(&server, &server.caller, &slow).await;
    for rate in [json!(601), Value::Null] {
        let body = json!({"name": "x", "scopes": ["read"], "requestsPerMinute": rate});
        let refusal = refused(&slow.post(KEYS, &body).await, 403);
        assert!(refusal.contains("may make 600 requests a minute"), "{refusal}");
    }
    let (free, _) = made(&server, &server.caller, &json!({"name": "free", "scopes": ["read"]})).await;
    let free = format!("{KEYS}/{}", free["_id"].as_str().unwrap());
    refused(&slow.press(&format!("{free}/rotate")).await, 403);
    made(&server, &slow, &json!({"name": "x", "scopes": ["read"], "requestsPerMinute": 600})).await;
    let scopes = json!(["ingest", "read", "manage", "operate"]);
    let full = json!({"name": "full", "scopes": scopes, "requestsPerMinute": 600});
    let (_, full) = made(&server, &server.caller, &full).await;
    let project = full.post("/projects", &json!({"name": "below"})).await.1;
    let below = Caller::new(&server.origin, project["project"]["apiKey"].as_str().unwrap());
    assert_eq!(list(below.get(KEYS).await, "keys")[0]["requestsPerMinute"], 600);
    assert_eq!(slow.delete(&free).await.0, 204, "taking back hands nothing out");
}

#[tokio::test]
async fn what_is_wrong_with_a_new_key_is_told_in_one_answer() {
    let server = Server::start().await;
    let body = json!({"name": "", "scopes": ["admin"], "expiresAt": "2025-12-31T00:00:00Z", "requestsPerMinute": 0});
    let refusal = refused(&server.caller.post(KEYS, &body).await, 400);
    for said in
        ["name must be", "scopes must be a list of any of ingest, read", "expiresAt must be", "requestsPerMinute"]
    {
        assert!(refusal.contains(said), "{said} in {refusal}");
    }
    for scopes in [json!(null), json!([]), json!("read"), json!([1])] {
        let refusal = refused(&server.caller.post(KEYS, &json!({"name": "k", "scopes": scopes})).await, 400);
        assert!(refusal.starts_with("scopes must be"), "{refusal}");
    }
}

#[tokio::test]
async fn a_key_that_asks_too_often_waits_and_nobody_waits_with_it() {
    let server = Server::planned(Plan { requests_per_minute: 60, ..Plan::default() }).await;
    let ask = async |caller: &Caller| caller.request("GET", "/monitor/patterns").send().await.unwrap();
    for _ in 0..10 {
        assert_eq!(ask(&server.caller).await.status(), 200);
    }
    let refusal = ask(&server.caller).await;
    assert_eq!((refusal.status().as_u16(), &refusal.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    let body: Value = refusal.json().await.unwrap();
    assert_eq!(refused(&(429, body), 429), "Too many requests: this key may make 60 a minute");
    // A request that its scope does not allow is a request too.
    assert_eq!(answer(server.caller.client.get(format!("{}/health", server.origin))).await.0, 200);
    assert_eq!(ask(&server.stranger).await.status(), 200);
    server.clock.advance(Micros::seconds(1));
    assert_eq!(ask(&server.caller).await.status(), 200);
    assert_eq!(ask(&server.caller).await.status(), 429);

    server.clock.advance(Micros::seconds(60));
    let body = json!({"name": "slow", "scopes": ["read"], "requestsPerMinute": 6});
    let (_, slow) = made(&server, &server.caller, &body).await;
    assert_eq!(ask(&slow).await.status(), 200);
    let refusal = ask(&slow).await;
    assert_eq!((refusal.status().as_u16(), &refusal.headers()["retry-after"]), (429, &"10".parse().unwrap()));
    for _ in 0..30 {
        assert_eq!(answer(slow.client.get(format!("{}/health", server.origin))).await.0, 200);
    }
}
