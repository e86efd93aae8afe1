//! `resweep` through the real binary: counted, carried out, and told.

use afterword::domain::group::{GroupSpec, Member, MemberKind, OnlineProfile, Scope, Severity};
use afterword::domain::time::Timestamp;
use afterword::store::ScorerDraft;
use serde_json::{Value, json};

use crate::import::chat;
use crate::support::program::{Ended, Program};

/// A group of one pattern that judges every session at once; answers its id.
async fn group(program: &Program) -> String {
    let store = program.store().await;
    let project = store.default_project(Timestamp::EARLIEST).await.unwrap().id;
    let spec = json!({"name": "Answers", "includeTerms": ["answer"], "polarity": "proper"});
    let spec = afterword::domain::pattern::PatternSpec::create(&spec).unwrap();
    let spec = serde_json::to_string(&spec).unwrap();
    let draft = ScorerDraft { kind: MemberKind::Pattern, name: "Answers".to_owned(), spec };
    let pattern = store.create_scorer(&project, &draft, Timestamp::EARLIEST).await.unwrap();
    let spec = GroupSpec {
        name: "Support".to_owned(),
        description: None,
        members: vec![Member::plain(MemberKind::Pattern, pattern.id.as_str())],
        aggregation: None,
        pass_threshold: None,
        output_type: None,
        scorecard_id: None,
        cheap_gates_first: false,
        online: Some(OnlineProfile {
            enabled: true,
            sample_rate: 1.0,
            alert_threshold: None,
            severity: Severity::Low,
            scope: Scope::Session,
            idle_seconds: 0,
            min_turns: 2,
            agents: None,
        }),
    };
    let group = store.create_group(&project, &spec, Timestamp::EARLIEST, Timestamp::EARLIEST).await.unwrap();
    store.close().await;
    group.id.to_string()
}

fn json_of(ended: Ended) -> Value {
    let ended = ended.with_code(0);
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.out))
}

#[tokio::test]
async fn sessions_are_counted_judged_again_and_told() {
    let program = Program::on_sqlite();
    let chats: Vec<String> = (0..70).map(|n| chat(&format!("s{n}"), 2)).collect();
    program.file("chats.jsonl", chats.join("\n"));
    program.run(["import", "chats.jsonl"]).with_code(0);
    let group = group(&program).await;
    program.run(["sweep"]).with_code(0);

    let dry = json_of(program.run(["resweep", "--group", &group, "--mode", "all", "--dry-run", "--json"]));
    let estimate =
        json!({"matched": 70, "sampled": 70, "covered": 70, "toJudge": 70, "pruned": 0, "judgeCalls": 0, "cost": 0.0});
    assert_eq!(dry, json!({"dryRun": true, "estimate": estimate}));
    assert!(!dry.to_string().contains("-0"), "nothing costs nothing, not less: {dry}");
    let none = program.run(["resweep", "--group", &group, "--dry-run"]).with_code(0);
    assert_eq!(none.row("sessions to judge"), ["sessions to judge", "0"]);

    let again = ["resweep", "--group", &group, "--mode", "all", "--reason", "a test", "--json"];
    let done = json_of(program.run(again));
    let row = &done["resweep"];
    assert_eq!((&row["state"], &row["counts"]["judged"]), (&json!("done"), &json!(70)), "{row}");
    assert_eq!((&row["reason"], &row["expected"]), (&json!("a test"), &json!(70)));

    let named = ["resweep", "--group", &group, "--mode", "all", "--session", "s1", "--reason", "one"];
    let ordered = program.run(named.into_iter().chain(["--detach"])).with_code(0);
    assert_eq!(
        (ordered.row("state"), ordered.row("judged")),
        (vec!["state".into(), "running".into()], vec!["judged".into(), "0".into()])
    );
    let swept = json_of(program.run(["sweep", "--json"]));
    assert_eq!(swept["judged"], 1, "any pass carries it out");
}

#[tokio::test]
async fn what_can_t_be_ordered_is_told() {
    let program = Program::on_sqlite();
    program.run(["migrate"]).with_code(0);
    program.run(["resweep", "--group", "g"]).with_code(2);
    program.run(["resweep", "--group", "g", "--reason", "r", "--mode", "some"]).with_code(2);
    let ended = program.run(["resweep", "--group", "g", "--reason", "r"]).with_code(1);
    assert!(ended.err.contains("there is no project \"Default\""), "{}", ended.err);
    let store = program.store().await;
    store.project_named("Default", Timestamp::EARLIEST).await.unwrap();
    store.close().await;
    let ended = program.run(["resweep", "--group", "g", "--reason", "r"]).with_code(1);
    assert!(
        ended.err.contains("there is no scorer group with the id or name \"g\" in that project; it has none"),
        "{}",
        ended.err
    );
    let ended = program.run(["resweep", "--group", "g", "--reason", "r", "--from", "monday"]).with_code(2);
    assert!(ended.err.contains("must be a day"), "{}", ended.err);
}
