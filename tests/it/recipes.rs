//! `compose`, `recompose` and `summary` through the real binary.

use afterword::domain::group::{GroupSpec, MemberKind};
use afterword::domain::pattern::PatternSpec;
use afterword::domain::time::Timestamp;
use afterword::store::{SavedGroup, ScorerDraft};
use serde_json::{Value, json};

use crate::import::chat;
use crate::support::program::Program;

#[test]
fn the_golden_vectors_hold_for_the_binary() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/compose.json")).unwrap();
    let vectors: Value = serde_json::from_str(&text).unwrap();
    let program = Program::on_sqlite();
    for vector in vectors["vectors"].as_array().unwrap().iter().step_by(9) {
        program.file("panel.json", vector["document"].to_string());
        let answer: Value =
            serde_json::from_str(&program.run(["compose", "panel.json", "--json"]).with_code(0).out).unwrap();
        assert_eq!(
            answer["rating"].as_f64(),
            vector["verdict"].get("rating").map_or(answer["rating"].as_f64(), Value::as_f64)
        );
    }
    program.file("panel.json", vectors["refused"][0]["document"].to_string());
    let ended = program.run(["compose", "panel.json"]).with_code(1);
    assert!(ended.out.is_empty() && ended.err.contains("panel.json: members must list"), "{}", ended.err);
    assert!(!program.folder().join("afterword.db").exists(), "no database is needed");
}

/// A group of two patterns that judged two imported chats: one clean, one with a word that fails the first.
async fn judged(program: &Program) -> SavedGroup {
    program.file("chats.jsonl", format!("{}\n{}\n", chat("clean", 2), chat("bad", 3)));
    program.run(["migrate"]).with_code(0);
    let store = program.store().await;
    let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    let project = store.default_project(now).await.unwrap().id;
    let mut members = Vec::new();
    for term in ["answer 3", "never said"] {
        let spec = PatternSpec::create(&json!({"name": term, "includeTerms": [term]})).unwrap();
        let spec = serde_json::to_string(&spec).unwrap();
        let draft = ScorerDraft { kind: MemberKind::Pattern, name: term.to_owned(), spec };
        let scorer = store.create_scorer(&project, &draft, now).await.unwrap();
        members.push(json!({"kind": "pattern", "refId": scorer.id}));
    }
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 6, "severity": "high", "scope": "session",
                        "idleSeconds": 0});
    let spec = GroupSpec::create(&json!({"name": "Support", "members": members, "online": online})).unwrap();
    let group = store.create_group(&project, &spec, now, now).await.unwrap();
    store.close().await;
    program.run(["import", "chats.jsonl"]).with_code(0);
    program.run(["sweep"]).with_code(0);
    group
}

#[tokio::test]
async fn a_group_s_figures_are_printed_and_its_past_follows_a_changed_recipe() {
    let program = Program::on_sqlite();
    let group = judged(&program).await;
    let printed = program.run(["summary", "--group", "Support"]).with_code(0).out;
    for part in
        ["2 sessions rated, 0 without a score: mean 7.50, median 7.50, from 5.00 to 10.00.", "answer 3", "██████████"]
    {
        assert!(printed.contains(part), "{printed}");
    }
    let read = |args: &[&str]| -> Value { serde_json::from_str(&program.run(args).with_code(0).out).unwrap() };
    let id = group.id.as_str();
    let figures = read(&["summary", "--group", id, "--json"]);
    assert_eq!(
        (&figures["samples"], &figures["mean"], &figures["groupName"]),
        (&json!(2), &json!(7.5), &json!("Support"))
    );
    assert_eq!(figures["trend"][0]["segments"][0]["points"].as_array().unwrap().len(), 1);

    assert_eq!(read(&["recompose", "--group", id, "--json"])["recomposed"], json!(0));
    let store = program.store().await;
    let now = Timestamp::parse("2026-01-02T00:00:00Z").unwrap();
    let project = store.default_project(now).await.unwrap().id;
    let spec = group.spec.patched(&json!({"aggregation": "minimum"})).unwrap();
    store.update_group(&project, &group, &spec, now, now).await.unwrap().unwrap();
    store.close().await;
    let dry = program.run(["recompose", "--group", id, "--dry-run"]).with_code(0).out;
    assert!(dry.contains("would happen") && dry.contains("fall below the alert threshold"), "{dry}");
    assert_eq!(read(&["summary", "--group", id, "--json"])["mean"], json!(7.5));
    let done = read(&["recompose", "--group", id, "--json"]);
    assert_eq!(
        (&done["recomposed"], &done["after"]["mean"], &done["bandChanges"]),
        (&json!(2), &json!(5.0), &json!([]))
    );
    let after = read(&["summary", "--group", id, "--json"]);
    assert_eq!((&after["samples"], &after["mean"]), (&json!(2), &json!(5.0)), "one verdict a session");

    for (args, part) in [
        (["summary", "--group", "nobody"], "no scorer group with the id or name \"nobody\""),
        (["recompose", "--group", "nobody"], "no scorer group with the id or name \"nobody\""),
    ] {
        assert!(program.run(args).with_code(1).err.contains(part));
    }
    let ended = program.run(["summary", "--group", id, "--project", "none"]).with_code(1);
    assert!(ended.err.contains("there is no project \"none\""), "{}", ended.err);
    assert!(program.run(["summary", "--group", id, "--from", "x"]).with_code(2).err.contains("must be a day"));
    let read_lately = read(&["summary", "--group", id, "--from", "36500d", "--json"]);
    assert_eq!(read_lately["samples"], json!(2), "days back count from now");
}
