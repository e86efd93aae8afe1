//! Tests of import files: every form, and every way in which one can be broken.

use std::collections::BTreeSet;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::test_support::shared;

const LIMIT: usize = 1 << 20;

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("compresses");
    encoder.finish().expect("finishes")
}

/// Line, number of spans or the reason, of every piece.
fn told(bytes: impl Into<Vec<u8>>) -> Vec<(u64, Result<usize, String>)> {
    let pieces = pieces(io::Cursor::new(bytes.into()), LIMIT, LIMIT).expect("opens");
    pieces.map(|piece| (piece.line, piece.result.map(|decoded| decoded.spans.len()))).collect()
}

fn chat(session: &str) -> String {
    format!(r#"{{"session_id": "{session}", "messages": [{{"role": "user", "content": "hi"}}]}}"#)
}

fn batch(span: u32) -> String {
    format!(
        r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "{span:032x}", "spanId": "{span:016x}"}}]}}]}}]}}"#
    )
}

#[test]
fn lines_of_every_kind_may_stand_in_one_file() {
    let wrapped = format!(r#"{{"timestamp": "2026-01-01T00:00:00Z", "data": {}}}"#, batch(2));
    let list = format!("[{}, {}]", chat("b"), batch(3));
    let text = format!("\u{feff}{}\r\n\n{}\n{wrapped}\n{list}", batch(1), chat("a"));
    assert_eq!(told(text.clone()), [(1, Ok(1)), (3, Ok(1)), (4, Ok(1)), (5, Ok(2))]);
    assert_eq!(told(gz(text.as_bytes())), told(text));
}

#[test]
fn a_pretty_printed_document_is_read_as_one_and_several_one_by_one() {
    let pretty = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        serde_json::to_string_pretty(&value).expect("JSON")
    };
    let one = pretty(&batch(1));
    assert_eq!(told(one.clone()), [(1, Ok(1))]);
    let lines = one.lines().count() as u64;
    assert_eq!(told(format!("\n{one}\n\n{}\n", pretty(&chat("a")))), [(2, Ok(1)), (2 + lines + 1, Ok(1))]);
    assert_eq!(told(format!("[\n{},\n{}\n]\n", chat("a"), batch(2))), [(1, Ok(2))]);
}

#[test]
fn a_bad_line_is_told_with_its_number_and_costs_no_other() {
    let text = format!(
        "{}\n{{\"session_id\": \"cut\", \"messages\": [{{\"role\": \"us\n{}\n42\n{{\"resourceMetrics\": []}}\n{{}}\n{}\n",
        batch(1),
        chat("a"),
        chat("b")
    );
    let told = told(text);
    let lines: Vec<u64> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7]);
    let reasons: Vec<&str> = told.iter().filter_map(|(_, result)| result.as_ref().err().map(String::as_str)).collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert!(reasons[0].starts_with("is no JSON"), "{}", reasons[0]);
    assert!(reasons[2].contains("holds metrics"), "{}", reasons[2]);
    assert!(reasons[3].contains("resourceSpans"), "{}", reasons[3]);
}

#[test]
fn a_broken_first_line_does_not_swallow_the_rest() {
    let told = told(format!("{{\"session_id\": \"cut\", \"mess\n{}\n", chat("a")));
    assert!(matches!(told.as_slice(), [(1, Err(_)), (2, Ok(1))]), "{told:?}");
}

#[test]
fn a_line_over_the_limit_is_skipped_and_reading_goes_on() {
    let told = told(format!("{}\n{}\n{}", chat("a"), "x".repeat(LIMIT + 1), chat("b")));
    assert!(matches!(told.as_slice(), [(1, Ok(1)), (2, Err(reason)), (3, Ok(1))] if reason.contains("longer than")));
}

#[test]
fn a_document_over_the_limit_is_an_error() {
    let told = told(format!("{{\n\"a\":\n\"{}\"\n}}", "x".repeat(LIMIT)));
    assert!(matches!(told.as_slice(), [(1, Err(reason))] if reason.contains("one value a line")), "{told:?}");
}

#[test]
fn a_bad_chat_line_is_a_refusal() {
    let bytes = b"{\"session_id\": \"s\", \"messages\": []}\n".to_vec();
    let piece = pieces(io::Cursor::new(bytes), LIMIT, LIMIT).expect("opens").next().expect("a piece");
    let decoded = piece.result.expect("the line is JSON");
    assert_eq!(decoded.refused.len(), 1);
    assert!(decoded.refused[0].to_string().contains("session s: messages is empty"), "{}", decoded.refused[0]);
}

#[test]
fn a_cut_gzip_file_delivers_everything_before_the_cut_and_says_so() {
    let text: String = (1..400).map(|n| batch(n) + "\n").collect();
    let whole = gz(text.as_bytes());
    let told = told(&whole[..whole.len() / 2]);
    let (last, before) = told.split_last().expect("pieces");
    assert!(before.len() > 50 && before.iter().all(|(_, result)| *result == Ok(1)), "{}", before.len());
    assert!(matches!(last, (_, Err(reason)) if reason.contains("ends early")), "{last:?}");
}

#[test]
fn a_bad_entry_of_a_list_costs_no_other() {
    let text = format!("[{}, 7, {}]", chat("a"), batch(1));
    let piece = pieces(io::Cursor::new(text.into_bytes()), LIMIT, LIMIT).expect("opens").next().expect("a piece");
    let decoded = piece.result.expect("the list is JSON");
    assert_eq!((decoded.spans.len(), decoded.refused.len()), (2, 1));
    assert_eq!(decoded.refused[0].place, "entry 1");
}

#[test]
fn the_crew_capture_has_its_186_spans_12_traces_and_9_sessions() {
    let Some(path) = shared("data/sideseat/traces-crewai.jsonl.gz") else { return };
    let size = std::fs::metadata(&path).expect("the file is there").len();
    let (mut spans, mut traces, mut sessions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut deliveries, mut bytes_read) = (0, 0);
    for piece in read(&path).expect("opens") {
        assert!(piece.bytes_read >= bytes_read && piece.bytes_read <= size);
        bytes_read = piece.bytes_read;
        let decoded = piece.result.expect("every line is a batch");
        assert_eq!(decoded.refused, []);
        for span in decoded.spans {
            deliveries += 1;
            traces.insert(span.trace_id.clone());
            sessions.extend(span.session_tag.clone());
            let body = serde_json::to_string(&span.body).expect("serialisable");
            spans.insert((span.trace_id.clone(), span.span_id.clone(), span.digest(&body)));
        }
    }
    assert_eq!((deliveries, spans.len(), traces.len(), sessions.len()), (1018, 186, 12, 9));
    assert_eq!(bytes_read, size);
}
