//! Addresses that may hold secrets: whole for who may change them, and masked for who may only read.

use afterword::scorers::guard::OutgoingSettings;
use serde_json::{Value, json};

use crate::support::server::{Caller, Plan, Server, list, refused};

const RECEIVERS: &str = "/agent-monitoring/receivers";
const CUSTOM: &str = "/agent-monitoring/custom-evaluators";

/// Holders of keys with these scopes.
async fn holder(server: &Server, scopes: &[&str]) -> Caller {
    let body = json!({"name": "k", "scopes": scopes});
    let (status, made) = server.caller.post("/agent-monitoring/keys", &body).await;
    assert_eq!(status, 201, "{made}");
    Caller::new(&server.origin, made["key"]["apiKey"].as_str().unwrap())
}

async fn made(server: &Server, path: &str, key: &str, body: &Value) -> String {
    let (status, made) = server.caller.post(path, body).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made[key]["url"], body["url"], "who writes sees what was written");
    made[key]["_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn who_may_only_read_is_not_shown_what_opens_a_receiver_or_an_external_scorer() {
    let server = Server::start().await;
    let (reader, writer) = (holder(&server, &["read", "operate"]).await, holder(&server, &["read", "manage"]).await);
    let hook = "https://hooks.example.com/services/T0/B0/s3cret";
    let external = "https://desk:s3cret@score.example.com:8443/x?token=s3cret#s3cret";
    let receiver = made(&server, RECEIVERS, "receiver", &json!({"name": "n", "kind": "slack", "url": hook})).await;
    let scorer = made(
        &server,
        CUSTOM,
        "evaluator",
        &json!({"name": "Ext", "url": external, "sampleRate": 1, "severity": "low"}),
    )
    .await;
    let profile = "/monitor/profiles/helper";
    let channels = json!({"channels": [format!("webhook:{hook}"), "pagerduty:s3cret", "email:desk@example.com"]});
    let (status, set) = server.caller.put(profile, &channels).await;
    assert_eq!((status, &set["profile"]["channels"]), (200, &channels["channels"]));

    let paths = [
        RECEIVERS.to_owned(),
        format!("{RECEIVERS}/{receiver}"),
        CUSTOM.to_owned(),
        format!("{CUSTOM}/{scorer}"),
        format!("{CUSTOM}/{scorer}/versions"),
        profile.to_owned(),
    ];
    for path in paths {
        let (status, shown) = reader.get(&path).await;
        assert_eq!(status, 200, "{shown}");
        assert!(!shown.to_string().contains("s3cret") && shown.to_string().contains("example.com"), "{path}: {shown}");
        let (status, whole) = writer.get(&path).await;
        assert!(status == 200 && whole.to_string().contains("s3cret"), "{path}: {whole}");
    }
    let rows = list(reader.get(RECEIVERS).await, "receivers");
    assert!(rows.iter().all(|row| row["url"] == "https://hooks.example.com/***"), "{rows:?}");
    let shown = reader.get(&format!("{CUSTOM}/{scorer}")).await.1;
    assert_eq!(shown["evaluator"]["url"], "https://score.example.com:8443/***");
    let shown = reader.get(profile).await.1["profile"]["channels"].clone();
    assert_eq!(shown, json!(["webhook:https://hooks.example.com/***", "pagerduty:***", "email:desk@example.com"]));
}

#[tokio::test]
async fn a_masked_address_is_not_taken_for_one() {
    let outgoing = Some(OutgoingSettings { allow_private: true, ..OutgoingSettings::default() });
    let server = Server::planned(Plan { outgoing, ..Plan::default() }).await;
    let masked = "https://hooks.example.com/***";
    for (path, body) in [
        (RECEIVERS, json!({"name": "n", "url": masked})),
        (CUSTOM, json!({"name": "Ext", "url": masked, "sampleRate": 1, "severity": "low"})),
    ] {
        let refusal = refused(&server.caller.post(path, &body).await, 400);
        assert!(refusal.contains("masked"), "{refusal}");
    }
    let channels = json!({"channels": [format!("webhook:{masked}")]});
    let refusal = refused(&server.caller.put("/monitor/profiles/helper", &channels).await, 400);
    assert!(refusal.contains("masked"), "{refusal}");
}
