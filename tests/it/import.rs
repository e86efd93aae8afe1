//! `import` through the real binary: good and bad input, what is stored, what is told, and how it ends.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use afterword::domain::ids::SessionId;
use afterword::domain::time::Timestamp;
use afterword::entropy::SeededEntropy;
use serde_json::{Value, json};

use crate::support::postgres;
use crate::support::program::{Ended, Program, Summary};

/// A line of a chat with that many turns.
pub fn chat(session: &str, turns: usize) -> String {
    let turn = |n: usize| {
        [
            json!({"role": "user", "content": format!("question {n}")}),
            json!({"role": "assistant", "content": format!("answer {n}")}),
        ]
    };
    let messages: Vec<Value> = (1..=turns).flat_map(turn).collect();
    json!({"session_id": session, "messages": messages}).to_string()
}

fn imports(program: &Program, names: &[&str]) -> Ended {
    program.run(std::iter::once(&"import").chain(names))
}

/// The turns of each stored session.
async fn turns(program: &Program) -> BTreeMap<String, i64> {
    let store = program.store().await;
    let project = store.default_project(Timestamp::EARLIEST).await.unwrap().id;
    let rows = store.recent_sessions(&project, Timestamp::EARLIEST, 1_000).await.unwrap();
    store.close().await;
    rows.into_iter().map(|row| (row.session.to_string(), row.turns)).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Good and bad lines; with each bad one what its refusal says.
fn mixed() -> Vec<(String, Option<&'static str>)> {
    let said = json!([{"role": "user", "content": "hello"}]);
    let bad = |line: Value, reason| (line.to_string(), Some(reason));
    vec![
        (chat("good-1", 2), None),
        bad(json!({"session_id": "e", "messages": []}), "messages is empty"),
        bad(json!({"messages": said}), "session_id is missing"),
        bad(json!({"session_id": {}, "messages": said}), "session_id must be text"),
        bad(json!({"session_id": "w", "messages": "hello"}), "messages must be a list"),
        bad(json!({"session_id": "w", "messages": [7]}), "messages[0] must be an object"),
        bad(json!({"session_id": "w", "messages": [{"role": "king"}]}), "unknown role"),
        bad(json!({"session_id": "w", "agent": [], "messages": said}), "agent must be text"),
        bad(json!({"session_id": "x".repeat(10_000), "messages": said}), "is 10000 bytes long, at most 512"),
        bad(json!({"session_id": "a\u{0}b", "messages": said}), "must not contain control characters"),
        bad(json!({"session_id": "", "messages": said}), "must not be empty"),
        bad(json!({"session_id": "w", "created_at": "soon", "messages": said}), "created_at is no time"),
        ("{\"session_id\": \"n\", \"messages\": [NaN]}".to_owned(), Some("is no JSON")),
        ("not JSON at all".to_owned(), Some("is no JSON")),
        ("[]]".to_owned(), Some("is no JSON")),
        bad(json!(7), "a JSON object is wanted"),
        bad(json!({"hello": "world"}), "is neither an OTLP batch"),
        bad(json!({"resourceMetrics": []}), "holds metrics"),
        (json!({"session_id": 42, "messages": said}).to_string(), None),
        (
            json!({"session_id": "odd", "messages": [
                {"role": "user", "content": "zero \u{0} bell \u{7} escape \u{1b}[31m"},
                {"role": "assistant", "content": "\u{0}"},
            ]})
            .to_string(),
            None,
        ),
        (
            r#"{"session_id": "half", "messages": [{"role": "user", "content": "half a pair: \ud83d"}]}"#.to_owned(),
            None,
        ),
        (chat("good-2", 3), None),
    ]
}

async fn mixed_lines_lose_nothing_good(program: Program) {
    let lines = mixed();
    let text: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
    program.file("mixed.jsonl", text.join("\n"));
    let ended = imports(&program, &["mixed.jsonl"]).with_code(5);
    let bad = lines.iter().filter(|(_, reason)| reason.is_some()).count() as u64;
    let count = lines.len() as u64;
    let expected = Summary { lines: count, spans: 8, new: 8, changed: 0, known: 0, refused: bad, bad_times: 0 };
    assert_eq!(ended.summary("mixed.jsonl"), expected);
    for (number, (line, reason)) in (1..).zip(&lines) {
        let place = format!("refused: mixed.jsonl: line {number}: ");
        let told: Vec<&str> = ended.out.lines().filter(|line| line.starts_with(&place)).collect();
        match reason {
            None => assert!(told.is_empty(), "{line}: {told:?}"),
            Some(reason) => assert!(told.len() == 1 && told[0].contains(reason), "{line:.80}: {told:?}"),
        }
    }
    let stored = [("42", 1), ("good-1", 2), ("good-2", 3), ("half", 1), ("odd", 1)];
    assert_eq!(turns(&program).await, stored.map(|(name, turns)| (name.to_owned(), turns)).into());
    let again = imports(&program, &["mixed.jsonl"]).with_code(5);
    assert_eq!(again.summary("mixed.jsonl"), Summary { new: 0, known: 8, ..expected });
}

#[tokio::test]
async fn bad_chat_lines_are_refused_by_number_and_the_good_ones_are_stored_on_sqlite() {
    mixed_lines_lose_nothing_good(Program::on_sqlite()).await;
}

#[tokio::test]
async fn bad_chat_lines_are_refused_by_number_and_the_good_ones_are_stored_on_postgresql() {
    let Some(url) = postgres::database() else { return };
    mixed_lines_lose_nothing_good(Program::on(url)).await;
}

#[test]
fn of_very_many_refusals_the_first_are_told_and_the_rest_is_counted() {
    let program = Program::on_sqlite();
    program.file("bad.jsonl", "nonsense\n".repeat(35));
    let ended = imports(&program, &["bad.jsonl"]).with_code(5);
    assert_eq!(ended.summary("bad.jsonl").refused, 35);
    assert_eq!(ended.out.lines().filter(|line| line.starts_with("refused: bad.jsonl: line ")).count(), 20);
    assert!(ended.out.ends_with("refused: bad.jsonl: and 15 more\n"), "{}", ended.out);
}

/// An OTLP batch of one root span.
fn batch(trace: u8, start: &str, attributes: &[(&str, &str)]) -> Value {
    let attributes: Vec<Value> =
        attributes.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect();
    let span = json!({
        "traceId": format!("{trace:032x}"), "spanId": format!("{trace:016x}"), "name": "turn",
        "startTimeUnixNano": start, "endTimeUnixNano": "1770920963000000000", "attributes": attributes,
    });
    json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
}

const START: &str = "1770920962142514000";

fn turn_of(trace: u8, session: &str) -> Value {
    batch(trace, START, &[("session.id", session), ("input.value", "hello"), ("output.value", "hi")])
}

#[tokio::test]
async fn documents_wrapped_lines_and_compressed_lines_of_otlp_are_all_read() {
    let program = Program::on_sqlite();
    program.file("pretty.json", serde_json::to_string_pretty(&turn_of(1, "doc")).unwrap());
    let wrapped = |trace, session: &str| {
        json!({"timestamp": "2026-02-12T18:29:27Z", "data": turn_of(trace, session)}).to_string()
    };
    program.file("wrapped.jsonl", format!("{}\r\n\n{}", wrapped(2, "doc"), wrapped(3, "lines")));
    program.file("packed.jsonl.gz", gzip(format!("{}\n{}\n", turn_of(4, "packed"), chat("chat", 2)).as_bytes()));
    let ended = imports(&program, &["pretty.json", "wrapped.jsonl", "packed.jsonl.gz"]).with_code(0);
    for (name, lines, spans) in [("pretty.json", 1, 1), ("wrapped.jsonl", 2, 2), ("packed.jsonl.gz", 2, 3)] {
        let expected = Summary { lines, spans, new: spans, changed: 0, known: 0, refused: 0, bad_times: 0 };
        assert_eq!(ended.summary(name), expected, "{name}");
    }
    let stored = [("chat", 2), ("doc", 2), ("lines", 1), ("packed", 1)];
    assert_eq!(turns(&program).await, stored.map(|(name, turns)| (name.to_owned(), turns)).into());
}

#[tokio::test]
async fn a_bad_span_is_named_and_its_neighbours_are_stored() {
    let program = Program::on_sqlite();
    let mut document = turn_of(1, "good");
    for (trace, session) in [(2, "a\u{0}b".to_owned()), (3, "y".repeat(10_240))] {
        let bad = turn_of(trace, &session)["resourceSpans"][0].clone();
        document["resourceSpans"].as_array_mut().unwrap().push(bad);
    }
    document["resourceSpans"].as_array_mut().unwrap().push(turn_of(4, "good")["resourceSpans"][0].clone());
    program.file("spans.json", document.to_string());
    let ended = imports(&program, &["spans.json"]).with_code(5);
    assert_eq!((ended.summary("spans.json").new, ended.summary("spans.json").refused), (2, 2));
    for (trace, reason) in [(2, "control characters"), (3, "is 10240 bytes long")] {
        let place = format!("refused: spans.json: line 1: span {trace:016x} (resourceSpans[{}]", trace - 1);
        let told = ended.out.lines().find(|line| line.starts_with(&place));
        assert!(told.is_some_and(|line| line.contains(reason)), "{place} {reason} in\n{}", ended.out);
    }
    assert_eq!(turns(&program).await, [("good".to_owned(), 2)].into());
}

#[tokio::test]
async fn times_outside_1970_to_2261_are_counted_and_stored_with_the_time_of_arrival() {
    let program = Program::on_sqlite();
    let tags = [("session.id", "times"), ("input.value", "hello")];
    let mut lines: Vec<String> =
        (1..).zip(["9999999999999999999", START]).map(|(n, start)| batch(n, start, &tags).to_string()).collect();
    for (session, time) in
        [("late", json!("2300-01-01T00:00:00Z")), ("early", json!(-1)), ("fine", json!(1_770_920_962))]
    {
        let mut line: Value = serde_json::from_str(&chat(session, 2)).unwrap();
        line["created_at"] = time;
        lines.push(line.to_string());
    }
    program.file("times.jsonl", lines.join("\n"));
    let ended = imports(&program, &["times.jsonl"]).with_code(0);
    let expected = Summary { lines: 5, spans: 8, new: 8, changed: 0, known: 0, refused: 0, bad_times: 5 };
    assert_eq!(ended.summary("times.jsonl"), expected);

    let store = program.store().await;
    let project = store.default_project(Timestamp::EARLIEST).await.unwrap().id;
    for (session, arrived_at_claim) in [("times", vec![true, false]), ("late", vec![true; 2]), ("fine", vec![false; 2])]
    {
        let spans = store.spans_of_session(&project, &SessionId::trusted(session)).await.unwrap();
        let mut found: Vec<bool> = spans.iter().map(|span| span.stored.at == span.stored.arrived_at).collect();
        found.sort_by_key(|is_arrival| !is_arrival);
        assert_eq!(found, arrived_at_claim, "{session}");
    }
    store.close().await;
}

/// As many complete lines as can be unpacked.
fn readable_lines(bytes: &[u8]) -> usize {
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    let mut text = Vec::new();
    let mut buffer = [0; 512];
    while let Ok(read @ 1..) = decoder.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
    }
    text.split(|byte| *byte == b'\n').count() - 1
}

#[tokio::test]
async fn of_a_gzip_file_cut_short_everything_before_the_cut_is_stored() {
    let program = Program::on_sqlite();
    let dice = SeededEntropy::new(1);
    let line = |n: usize| {
        let noise: Vec<u64> = (0..40).map(|_| dice.next()).collect();
        let noise = format!("{noise:x?}");
        json!({"session_id": format!("cut-{n}"), "messages": [{"role": "user", "content": noise}]}).to_string() + "\n"
    };
    let whole = gzip((0..300).map(line).collect::<String>().as_bytes());
    let cut = &whole[..whole.len() * 3 / 5];
    let before = readable_lines(cut) as u64;
    assert!((100..250).contains(&before), "{before} lines before the cut");

    program.file("cut.jsonl.gz", cut);
    let ended = imports(&program, &["cut.jsonl.gz"]).with_code(5);
    let summary = ended.summary("cut.jsonl.gz");
    assert_eq!((summary.new, summary.refused), (before, 1));
    let place = format!("refused: cut.jsonl.gz: line {}: the gzip data ends early", before + 1);
    assert!(ended.out.contains(&place), "{place} in\n{}", ended.out);
    assert_eq!(turns(&program).await.len() as u64, before);

    program.file("whole.jsonl.gz", &whole);
    let whole = imports(&program, &["whole.jsonl.gz"]).with_code(0).summary("whole.jsonl.gz");
    assert_eq!((whole.known, whole.new), (before, 300 - before));
}

#[tokio::test]
async fn an_import_stops_at_a_file_that_can_t_be_read_and_tells_what_it_did_before() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    program.file("two.jsonl", chat("two", 2));
    let ended = imports(&program, &["one.jsonl", "gone.jsonl", "two.jsonl"]).with_code(1);
    assert_eq!(ended.summary("one.jsonl").new, 2);
    let error = ended.err.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.starts_with("error: gone.jsonl can't be read: "), "{error}");
    assert_eq!(turns(&program).await.into_keys().collect::<Vec<_>>(), ["one"]);
    let folder = imports(&program, &["."]).with_code(1);
    assert!(folder.out.is_empty() && folder.err.contains("error: . can't be read"), "{folder:?}");
    assert!(program.run(["import"]).with_code(2).err.contains("<FILE>"));
}

#[test]
fn into_files_and_pipes_go_plain_lines() {
    let program = Program::on_sqlite();
    program.file("mixed.jsonl", format!("{}\nnonsense\n", chat("one", 2)));
    let ended = imports(&program, &["mixed.jsonl"]).with_code(5);
    for (name, text) in [("stdout", &ended.out), ("stderr", &ended.err)] {
        let is_plain = |c: char| c == '\n' || !c.is_control();
        assert!(text.ends_with('\n') && text.chars().all(is_plain), "{name}: {text:?}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{name}: {text:?}");
    }
    assert!(ended.err.contains("mixed.jsonl: done, "), "{}", ended.err);
}

#[tokio::test]
async fn an_import_goes_into_the_project_that_is_named() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    program.run(["import", "one.jsonl", "--project", "Shop"]).with_code(0);
    assert!(turns(&program).await.is_empty(), "nothing in the Default project");
    let again = program.run(["import", "one.jsonl", "--project", "Shop"]).with_code(0);
    assert_eq!(again.summary("one.jsonl").known, 2);
}
