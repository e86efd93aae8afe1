//! The golden vectors of composition, which other implementations can read too, hold here.

use serde_json::Value;

use super::by_hand::ByHand;

const VECTORS: &str = include_str!("../../../tests/golden/compose.json");

#[test]
fn every_golden_vector_holds() {
    let vectors: Value = serde_json::from_str(VECTORS).expect("JSON");
    let vectors = vectors["vectors"].as_array().expect("vectors");
    assert!(vectors.len() >= 40, "{}", vectors.len());
    for vector in vectors {
        let (name, expected) = (&vector["name"], vector["verdict"].as_object().expect("a verdict"));
        let verdict = ByHand::read(&vector["document"]).unwrap_or_else(|problem| panic!("{name}: {problem}")).verdict();
        for (key, value) in expected {
            assert!(same(&verdict[key], value), "{name}: {key} is {}, not {value}", verdict[key]);
        }
    }
}

#[test]
fn every_golden_document_that_is_wrong_is_refused() {
    let vectors: Value = serde_json::from_str(VECTORS).expect("JSON");
    let refused = vectors["refused"].as_array().expect("refused");
    assert!(!refused.is_empty());
    for vector in refused {
        let problem = ByHand::read(&vector["document"]).expect_err("a problem").to_string();
        let part = vector["names"].as_str().expect("text");
        assert!(problem.contains(part), "{}: {problem:?} lacks {part:?}", vector["name"]);
    }
}

/// Numbers within 1e-9, everything else exactly.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-9,
        _ => a == b,
    }
}
