//! Tests of patterns on the wire: the client's bodies, its texts, and what is refused.

use serde_json::json;

use super::*;

/// What the existing client sends when it publishes a pattern.
fn client_body(extra: &Value) -> Value {
    let mut body = json!({
        "name": "Refund refused", "description": null, "category": null, "detectorKind": "contains",
        "matchTarget": ["response"], "matchMode": "any", "includeTerms": [], "excludeTerms": [], "regex": null,
        "semanticPrompt": null, "severity": "medium", "polarity": "failure", "enabled": true, "sampleRate": 1.0,
        "scopeMode": "all", "agentIds": [], "workspaceId": "ws",
    });
    for (key, value) in extra.as_object().expect("an object") {
        body[key] = value.clone();
    }
    body
}

fn rows(spec: &PatternSpec) -> Value {
    serde_json::to_value(&spec.conditions).expect("JSON")
}

#[test]
fn legacy_fields_become_conditions() {
    let spec = PatternSpec::create(&client_body(&json!({"includeTerms": ["a", "b"], "excludeTerms": ["c"]})));
    let row = |connector: &str, negate: bool, value: &str| {
        json!({"connector": connector, "negate": negate, "sources": ["response"], "detector": "phrase",
               "value": value, "caseSensitive": false})
    };
    assert_eq!(
        rows(&spec.expect("a spec")),
        json!([row("and", false, "a"), row("or", false, "b"), row("and", true, "c")])
    );
    let all = PatternSpec::create(&client_body(&json!({"includeTerms": ["a", "b"], "matchMode": "all"})));
    assert_eq!(all.expect("a spec").conditions[1].connector, Connector::And);
    let regex = PatternSpec::create(&client_body(&json!({"detectorKind": "regex", "regex": "re+fund"})));
    let regex = regex.expect("a spec");
    assert_eq!((regex.conditions[0].detector, regex.detector_kind.as_str()), (Detector::Regex, "regex"));
    let semantic = PatternSpec::create(&client_body(&json!({"includeTerms": ["a"], "semanticPrompt": "it dodges"})));
    let semantic = semantic.expect("a spec");
    assert_eq!(
        (semantic.conditions[1].detector, semantic.conditions[1].connector),
        (Detector::Semantic, Connector::Or)
    );
}

#[test]
fn conditions_win_over_legacy_fields_and_the_first_connector_means_nothing() {
    let body = client_body(&json!({"includeTerms": ["x"], "conditions": [{"connector": "nor", "value": "y"}]}));
    let spec = PatternSpec::create(&body).expect("a spec");
    assert_eq!(spec.conditions.len(), 1);
    assert_eq!((spec.conditions[0].connector, spec.conditions[0].value.as_str()), (Connector::And, "y"));
}

#[test]
fn the_texts_are_the_clients_texts() {
    for (extra, text) in [
        (json!({"name": "", "includeTerms": ["x"]}), "Pattern name is required"),
        (json!({"name": null, "includeTerms": ["x"]}), "Pattern name is required"),
        (json!({}), "Add at least one condition (includeTerms, regex, or semanticPrompt)"),
        (json!({"excludeTerms": ["x"]}), "Add at least one condition (includeTerms, regex, or semanticPrompt)"),
        (json!({"includeTerms": ["x"], "severity": "bad"}), "severity must be one of: low, medium, high, critical"),
        (json!({"includeTerms": ["x"], "sampleRate": 1.5}), "sampleRate must be a number between 0 and 1"),
        (json!({"includeTerms": ["x"], "scopeMode": "select"}), "scopeMode must be all or selected"),
    ] {
        let problems = PatternSpec::create(&client_body(&extra)).expect_err("problems");
        assert_eq!(problems.to_string(), text, "{extra}");
    }
}

#[test]
fn what_can_not_be_looked_for_is_refused_with_the_reason() {
    for (extra, part) in [
        (json!({"regex": "([unclosed"}), "regex is not a usable regular expression: unclosed character class"),
        (json!({"regex": "(?=x)"}), "look-around"),
        (json!({"regex": "(a{1000}){1000}"}), "when compiled"),
        (json!({"includeTerms": ["\u{3000}"]}), "includeTerms[0] must be text of 1-2000 characters"),
        (json!({"includeTerms": ["x".repeat(2001)]}), "includeTerms[0] must be text of 1-2000 characters"),
        (json!({"semanticPrompt": 7}), "semanticPrompt must be text of 1-2000 characters"),
        (json!({"conditions": [{"detector": "semantic", "value": " "}]}), "conditions[0].value must be text"),
        (json!({"conditions": [{"value": "x", "sources": ["mail"]}]}), "conditions[0].sources must list"),
        (json!({"conditions": vec![json!({"value": "x"}); 51]}), "conditions must be at most 50, not 51"),
        (json!({"includeTerms": ["x"], "matchTarget": ["mail"]}), "matchTarget must be a list of response"),
    ] {
        let problems = PatternSpec::create(&client_body(&extra)).expect_err("problems").to_string();
        assert!(problems.contains(part), "{problems} lacks {part:?}");
        assert!(!problems.contains("Add at least one"), "{problems}");
        assert!(!problems.contains('\n'), "{problems}");
    }
}

#[test]
fn a_patch_is_sparse_and_a_new_trigger_replaces_all_rows() {
    let stored = PatternSpec::create(&client_body(&json!({"includeTerms": ["a"], "excludeTerms": ["b"]})));
    let stored = stored.expect("a spec");
    let renamed = stored.patched(&json!({"name": "New", "sampleRate": 0.5, "description": "d"})).expect("a spec");
    assert_eq!((renamed.name.as_str(), renamed.conditions.len()), ("New", 2));
    assert_eq!(renamed.patched(&json!({"description": null})).expect("a spec").description, None);
    let patch = json!({"regex": "x+", "detectorKind": "regex", "matchTarget": ["userMessage"]});
    let rewritten = stored.patched(&patch).expect("a spec");
    assert_eq!(rewritten.conditions.len(), 1);
    assert_eq!(rewritten.conditions[0].sources, [Source::UserMessage]);
    assert!(stored.patched(&json!({"excludeTerms": ["z"]})).is_err());
    assert!(stored.patched(&json!({"includeTerms": []})).is_err());
    assert!(stored.patched(&json!({"name": ""})).is_err());
    for nothing in [json!({}), json!({"name": null, "conditions": null, "regex": null, "excludeTerms": []})] {
        assert_eq!(stored.patched(&nothing).expect("a spec"), stored, "{nothing}");
    }
}

#[test]
fn a_stored_spec_reads_back_as_it_was() {
    let spec = PatternSpec::create(&client_body(&json!({"includeTerms": ["a"], "category": "c"}))).expect("a spec");
    let json = serde_json::to_string(&spec).expect("JSON");
    assert!(json.contains("\"matchTarget\":[\"response\"]"));
    assert_eq!(serde_json::from_str::<PatternSpec>(&json).expect("a spec"), spec);
}
