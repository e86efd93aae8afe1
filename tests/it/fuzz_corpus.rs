//! The corpus of the fuzzers, replayed: what must hold of anything that comes in holds of every file of it.

#[path = "../../fuzz/targets.rs"]
mod targets;

use std::fs;
use std::path::Path;

/// Runs a target on every file of its corpus.
fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15, "{} files in {}", files.len(), folder.display());
    for file in files {
        println!("{}", file.display());
        target(&fs::read(&file).unwrap());
    }
}

#[test]
fn replies_of_judges_set_no_rating_but_their_own() {
    replay("judge_reply", targets::judge_reply);
}

#[test]
fn patterns_that_are_saved_can_be_used_and_quote_what_is_there() {
    replay("pattern", targets::pattern);
}

#[test]
fn spans_of_an_otlp_batch_can_be_stored() {
    replay("otlp_json", targets::otlp_json);
}

#[test]
fn a_span_of_the_client_can_be_stored() {
    replay("ingest_json", targets::ingest_json);
}

#[test]
fn a_chat_line_becomes_turns_that_growth_leaves_alone() {
    replay("chat_line", targets::chat_line);
}
