//! The bundled conversations and scorers of the demo are whole: what refers to something finds it.

use std::collections::BTreeSet;

use afterword::domain::group::GroupSpec;
use serde_json::Value;

const CONVERSATIONS: &str = include_str!("../../src/cli/demo/conversations.jsonl");
const SCORERS: &str = include_str!("../../src/cli/demo/scorers.json");

fn conversations() -> Vec<Value> {
    CONVERSATIONS.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn messages<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

fn turns(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message["role"] == "user").count()
}

#[test]
fn every_conversation_begins_with_the_user_and_answers_its_tool_calls() {
    let all = conversations();
    assert!(all.len() >= 24);
    let ids: BTreeSet<&str> = all.iter().map(|one| one["session_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), all.len());
    for one in &all {
        let id = &one["session_id"];
        assert!(!one["demo"]["title"].as_str().unwrap().is_empty(), "{id}");
        for part in [messages(one, "messages"), messages(&one["demo"], "more")].into_iter().filter(|p| !p.is_empty()) {
            assert_eq!(part[0]["role"], "user", "{id}");
            assert!(turns(part) <= 8, "{id}");
            let called = part.iter().flat_map(|message| messages(message, "tool_calls")).map(|call| &call["id"]);
            let answered =
                part.iter().filter(|message| message["role"] == "tool").map(|result| &result["tool_call_id"]);
            assert!(called.eq(answered), "{id}");
        }
    }
}

#[test]
fn the_stages_that_the_demo_shows_are_there() {
    let all = conversations();
    let staged = |stage: &str| all.iter().filter(|one| one["demo"]["stage"] == stage).count();
    assert_eq!(staged("active"), 1);
    assert!(staged("grows") >= 1);
    assert_eq!(staged("idle") + staged("active") + staged("grows"), all.len());
    assert_eq!(all.iter().filter(|one| turns(messages(one, "messages")) == 1).count(), 1);
    for one in &all {
        assert_eq!(
            one["demo"]["stage"] == "grows",
            !messages(&one["demo"], "more").is_empty(),
            "{}",
            one["session_id"]
        );
    }
}

#[test]
fn the_group_is_valid_and_refers_to_the_bundled_scorers() {
    let scorers: Value = serde_json::from_str(SCORERS).unwrap();
    let patterns: BTreeSet<&str> =
        messages(&scorers, "patterns").iter().map(|pattern| pattern["id"].as_str().unwrap()).collect();
    let group = GroupSpec::create(&scorers["group"]).unwrap();
    assert_eq!(group.members.iter().map(|member| member.ref_id.as_str()).collect::<BTreeSet<_>>(), patterns);
    assert!(group.members.iter().any(|member| member.gate));
    assert_eq!(scorers["judge"]["member"]["refId"], scorers["judge"]["id"]);
    for condition in messages(&scorers, "patterns").iter().flat_map(|pattern| messages(pattern, "conditions")) {
        if condition["detector"] == "regex" {
            regex::Regex::new(condition["value"].as_str().unwrap()).unwrap();
        }
    }
}
