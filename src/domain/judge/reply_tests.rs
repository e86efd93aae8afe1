//! Tests of the strict reader: what it takes, what it refuses, and that nothing said in a transcript can set a rating.

use proptest::prelude::*;
use serde_json::json;

use super::super::attacks::ATTACKS;
use super::*;
use crate::domain::scorer::{JudgeOutput, Rubric};
use crate::domain::span::ToolCall;
use crate::domain::transcript::ToolContext;
use crate::domain::transcript::tests::conversation;

const NONCE: &str = "6f1d0c5f9b7e4a2288d3c1b0a9f8e7d6";

fn question(turns: &[(&str, &str)]) -> Question {
    Question::of_session(&Rubric::default(), &conversation(turns), 100_000).expect("a question")
}

fn asked() -> Question {
    question(&[("a", "b"), ("c", "d"), ("e", "f")])
}

fn reading(text: &str) -> Result<Judgement, Unreadable> {
    read(text, NONCE, &asked())
}

fn reply(rating: &Value) -> String {
    json!({"nonce": NONCE, "rating": rating, "justification": "because", "evidence": [1, 3]}).to_string()
}

#[test]
fn a_reply_in_form_is_read_with_or_without_a_fence() {
    let expected = Judgement {
        outcome: Outcome::Scored { goodness: Goodness::new(0.85).expect("a goodness") },
        justification: Some("because".into()),
        evidence: vec![1, 3],
        shown: Some(1.0),
    };
    let plain = reply(&json!(8.5));
    for text in [
        plain.clone(),
        format!("  {plain}\n"),
        format!("```json\n{plain}\n```"),
        format!("```\n{plain}\n```"),
        format!("```JSON\n{plain}```"),
    ] {
        assert_eq!(reading(&text), Ok(expected.clone()), "{text}");
    }
}

#[test]
fn a_label_that_was_not_offered_is_told_without_its_zero_bytes() {
    let rubric = Rubric {
        output: JudgeOutput::Choice,
        choice_scores: [("Good".to_owned(), 1.0)].into_iter().collect(),
        ..Rubric::default()
    };
    let asked = Question::of_session(&rubric, &conversation(&[("a", "b")]), 100_000).expect("a question");
    let text = json!({"nonce": NONCE, "choice": "Go\0od", "justification": "because"}).to_string();
    let outcome = read(&text, NONCE, &asked).expect("read").outcome;
    assert_eq!(outcome.reason(), Some("the judge's choice \"Go\u{fffd}od\" is none of its labels"));
}

#[test]
fn a_rating_outside_the_scale_is_a_failure_that_names_it() {
    for (rating, named) in [(json!(85), "85"), (json!(-1), "-1"), (json!(10.5), "10.5"), (json!(1e300), "1e+300")] {
        let outcome = reading(&reply(&rating)).expect("read").outcome;
        assert!(matches!(&outcome, Outcome::Failed { reason, .. } if reason.contains(named)), "{outcome:?}");
        assert!(!outcome.is_transient());
    }
    for edge in [json!(0), json!(10), json!(10.0)] {
        assert!(reading(&reply(&edge)).expect("read").outcome.goodness().is_some());
    }
}

#[test]
fn null_declines_with_the_reason() {
    assert_eq!(reading(&reply(&Value::Null)).expect("read").outcome, Outcome::Declined { reason: "because".into() });
    let mute = json!({"nonce": NONCE, "rating": null, "justification": " "}).to_string();
    assert_eq!(reading(&mute).expect("read").outcome, Outcome::Declined { reason: "the judge gave no reason".into() });
}

#[test]
fn what_is_no_reply_to_this_call_is_unreadable() {
    let good = reply(&json!(9));
    let object = |body: &Value| body.to_string();
    let rows = [
        (String::new(), Unreadable::Empty),
        ("  \n".into(), Unreadable::Empty),
        ("{}".into(), Unreadable::NoNonce),
        ("[]".into(), Unreadable::NotOneObject),
        ("9".into(), Unreadable::NotOneObject),
        ("null".into(), Unreadable::NotOneObject),
        (format!("{good}{good}"), Unreadable::NotOneObject),
        (format!("{good}\n{good}"), Unreadable::NotOneObject),
        (format!("[{good}]"), Unreadable::NotOneObject),
        (format!("Here it is: {good}"), Unreadable::NotOneObject),
        (format!("{good} I hope this helps."), Unreadable::NotOneObject),
        (format!("```json\n{good}\n```\n```json\n{good}\n```"), Unreadable::NotOneObject),
        (format!("```python\n{good}\n```"), Unreadable::NotOneObject),
        (good[..good.len() - 1].into(), Unreadable::CutShort),
        (good[..12].into(), Unreadable::CutShort),
        (object(&json!({"rating": 9, "justification": "x"})), Unreadable::NoNonce),
        (object(&json!({"nonce": "other", "rating": 9, "justification": "x"})), Unreadable::OtherNonce),
        (object(&json!({"nonce": NONCE.to_uppercase(), "rating": 9, "justification": "x"})), Unreadable::OtherNonce),
        (object(&json!({"nonce": [NONCE], "rating": 9, "justification": "x"})), Unreadable::OtherNonce),
        (object(&json!({"nonce": NONCE, "justification": "x"})), Unreadable::NoRating),
        (object(&json!({"nonce": NONCE, "rating": "9", "justification": "x"})), Unreadable::NoRating),
        (object(&json!({"nonce": NONCE, "rating": true, "justification": "x"})), Unreadable::NoRating),
        (object(&json!({"nonce": NONCE, "rating": 9})), Unreadable::NoJustification),
        (object(&json!({"nonce": NONCE, "rating": 9, "justification": ["x"]})), Unreadable::NoJustification),
        (object(&json!({"nonce": NONCE, "rating": 9, "justification": "x", "evidence": "1"})), Unreadable::NoEvidence),
        (
            object(&json!({"nonce": NONCE, "rating": 9, "justification": "x", "evidence": ["1"]})),
            Unreadable::NoEvidence,
        ),
        (format!(r#"{{"nonce":"{NONCE}","nonce":"{NONCE}","rating":9,"justification":"x"}}"#), Unreadable::Repeated),
        (format!(r#"{{"nonce":"{NONCE}","rating":1,"r\u0061ting":9,"justification":"x"}}"#), Unreadable::Repeated),
        (format!(r#"{{"nonce":"{NONCE}","rating":NaN,"justification":"x"}}"#), Unreadable::NotOneObject),
        (format!(r#"{{"nonce":"{NONCE}","rating":1e999,"justification":"x"}}"#), Unreadable::NotOneObject),
        ("{\"a\":".repeat(5000), Unreadable::NotOneObject),
    ];
    for (text, why) in rows {
        assert_eq!(reading(&text), Err(why), "{text}");
    }
}

#[test]
fn citations_that_lead_nowhere_are_left_out_and_told() {
    let body =
        json!({"nonce": NONCE, "rating": 5, "justification": "x", "evidence": [3, 1, 3, 0, 4, -2, 1.5, 1e30, 2.0]});
    let judgement = reading(&body.to_string()).expect("read");
    assert_eq!(judgement.evidence, [1, 2, 3]);
    assert_eq!(
        judgement.justification.as_deref(),
        Some("x [5 cited turns were not shown to the judge and are left out.]")
    );
}

#[test]
fn a_justification_is_bounded_and_has_no_zero_bytes() {
    let long = json!({"nonce": NONCE, "rating": 5, "justification": format!("a\0{}", "é".repeat(9000))}).to_string();
    let kept = reading(&long).expect("read").justification.expect("a justification");
    assert_eq!(kept.chars().count(), 4001);
    assert!(kept.starts_with("a\u{fffd}") && kept.ends_with('…'));
}

#[test]
fn the_schema_allows_one_nonce() {
    let schema = schema(NONCE, &Answer::Rating(Scale::Rating));
    assert_eq!(schema["properties"]["nonce"]["enum"], json!([NONCE]));
    assert_eq!(schema["additionalProperties"], json!(false));
}

#[test]
fn no_judge_that_echoes_the_transcript_sets_a_rating() {
    for attack in ATTACKS {
        for talk in [[("hello", attack), ("and?", "bye")], [(attack, "ok"), ("and?", attack)]] {
            let question = question(&talk);
            let user = question.render(NONCE, "EDGE").user;
            let lines: Vec<&str> = user.lines().collect();
            let mut echoes = vec![user.clone(), attack.to_owned(), format!("```json\n{attack}\n```")];
            echoes.extend(lines.iter().map(|line| line.trim().to_owned()));
            echoes.extend(lines.iter().filter_map(|line| line.split_once(": ").map(|(_, said)| said.to_owned())));
            for echo in echoes {
                assert!(read(&echo, NONCE, &question).is_err(), "{echo:?} was read");
            }
        }
    }
}

#[test]
fn no_tool_result_that_gives_orders_sets_a_rating() {
    for attack in ATTACKS {
        let mut talk = conversation(&[("hello", "one moment"), ("and?", "bye")]);
        for output in [json!(attack), json!({"result": attack}), serde_json::from_str(attack).unwrap_or(json!(attack))]
        {
            talk.turns[0].tool_calls =
                vec![ToolCall { name: "lookup".into(), output: Some(output), ..ToolCall::default() }];
            let rubric = Rubric { tool_context: ToolContext::Detailed, ..Rubric::default() };
            let question = Question::of_session(&rubric, &talk, 100_000).expect("a question");
            let user = question.render(NONCE, "EDGE").user;
            let results = user.lines().filter_map(|line| line.split_once(" -> ").map(|(_, result)| result.to_owned()));
            let mut echoes: Vec<String> = results.collect();
            assert!(!echoes.is_empty());
            echoes.push(user.clone());
            for echo in echoes {
                assert!(read(&echo, NONCE, &question).is_err(), "{echo:?} was read");
            }
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(Value::from(NONCE)),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let key = prop_oneof!["nonce", "rating", "justification", "evidence", "[a-z]{1,4}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_gives_an_outcome_and_never_a_panic(text in ".{0,200}") {
        prop_assert!(reading(&text).is_err());
    }

    #[test]
    fn any_json_is_read_within_the_scale_or_not_at_all(value in any_json(), cut in 0..400_usize, twice in any::<bool>()) {
        let mut text = value.to_string();
        if twice {
            text = format!("{text}{text}");
        }
        let cut: String = text.chars().take(cut).collect();
        for text in [text, cut] {
            if let Ok(judgement) = reading(&text) {
                prop_assert!(text.contains(NONCE));
                prop_assert!(judgement.evidence.iter().all(|turn| (1..=3).contains(turn)));
            }
        }
    }

    #[test]
    fn a_rating_is_read_as_it_is_or_fails(rating in any::<f64>()) {
        if let Ok(judgement) = reading(&reply(&json!(rating))) {
            match judgement.outcome {
                Outcome::Scored { goodness } => prop_assert!((goodness.get() * 10.0 - rating).abs() < 1e-9),
                Outcome::Failed { .. } => prop_assert!(!(0.0..=10.0).contains(&rating)),
                Outcome::Declined { .. } => prop_assert!(!rating.is_finite()),
            }
        }
    }
}

fn asked_for(output: JudgeOutput) -> Question {
    let choice_scores = [("Good", 1.0), ("So so", 0.4), ("Bad", 0.0)].map(|(label, score)| (label.to_owned(), score));
    let rubric = Rubric { output, choice_scores: choice_scores.into(), ..Rubric::default() };
    Question::of_session(&rubric, &conversation(&[("q", "a")]), 100_000).expect("a question")
}

fn said(output: JudgeOutput, key: &str, value: &Value) -> Result<Outcome, Unreadable> {
    let reply = json!({"nonce": NONCE, key: value, "justification": "why", "evidence": null});
    read(&reply.to_string(), NONCE, &asked_for(output)).map(|judgement| judgement.outcome)
}

#[test]
fn yes_and_no_are_1_and_0_and_null_declines() {
    let of = |value: Value| said(JudgeOutput::PassFail, "pass", &value);
    assert_eq!(of(json!(true)), Ok(Outcome::Scored { goodness: Goodness::GOOD }));
    assert_eq!(of(json!(false)), Ok(Outcome::Scored { goodness: Goodness::BAD }));
    assert_eq!(of(Value::Null), Ok(Outcome::Declined { reason: "why".into() }));
    assert_eq!(of(json!("yes")), Err(Unreadable::NoPass));
    assert_eq!(said(JudgeOutput::PassFail, "rating", &json!(8)), Err(Unreadable::NoPass));
}

#[test]
fn a_choice_is_worth_what_its_label_is_and_a_list_is_the_mean() {
    let of = |value: Value| said(JudgeOutput::Choice, "choice", &value);
    let worth = |goodness: f64| Ok(Outcome::Scored { goodness: Goodness::new(goodness).expect("a goodness") });
    assert_eq!(of(json!("So so")), worth(0.4));
    assert_eq!(of(json!("  gOOd ")), worth(1.0));
    assert_eq!(of(json!(["Good", "so so"])), worth(0.7));
    assert_eq!(of(Value::Null), Ok(Outcome::Declined { reason: "why".into() }));
    assert_eq!(of(json!("Great")), Ok(Outcome::failed("the judge's choice \"Great\" is none of its labels")));
    assert_eq!(of(json!(["Good", "Great"])), Ok(Outcome::failed("the judge's choice \"Great\" is none of its labels")));
    assert_eq!(of(json!([])), Ok(Outcome::failed("the judge's list of choices was empty")));
    assert_eq!((of(json!(1)), of(json!([1]))), (Err(Unreadable::NoChoice), Err(Unreadable::NoChoice)));
}

#[test]
fn the_schema_follows_the_answer() {
    let yes_no = schema(NONCE, asked_for(JudgeOutput::PassFail).answer());
    assert_eq!(yes_no["properties"]["pass"]["type"], json!(["boolean", "null"]));
    assert_eq!(yes_no["required"], json!(["nonce", "pass", "justification", "evidence"]));
    let labels = schema(NONCE, asked_for(JudgeOutput::Choice).answer());
    assert_eq!(labels["properties"]["choice"]["anyOf"][0]["enum"], json!(["Bad", "Good", "So so"]));
}
