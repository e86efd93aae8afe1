//! What is fuzzed, and what must hold whatever comes in: shared by the fuzzers and by the tests that replay the corpus.
//!
//! Each function takes the bytes of one file of `fuzz/corpus/<its name>/` and panics where something does not hold.
#![allow(dead_code, reason = "each fuzzer runs one of them")]

use std::collections::{BTreeMap, BTreeSet};

use afterword::domain::content::Speaker;
use afterword::domain::conversation::Conversation;
use afterword::domain::ids::{SessionId, SpanId, check_id};
use afterword::domain::judge::{Judgement, Question, Unreadable, read};
use afterword::domain::outcome::{Goodness, Outcome};
use afterword::domain::pattern::{Detector, Match, Pattern, PatternSpec, Sides};
use afterword::domain::scorer::{JudgeOutput, Rubric};
use afterword::domain::span::{Span, SpanBody, StoredSpan};
use afterword::domain::time::Timestamp;
use afterword::domain::transcript::ToolContext;
use afterword::ingest::{chat, client, otlp, parse_json};
use serde_json::{Value, json};

/// What the replies of the corpus answer to.
const NONCE: &str = "6f1d0c5f9b7e4a2288d3c1b0a9f8e7d6";
/// The nonce of some other call.
const OTHER_NONCE: &str = "00000000000000000000000000000000";
/// More than the longest justification that is kept: 4,000 characters, `…`, and the words on citations.
const LONGEST_JUSTIFICATION: usize = 4_200;

/// A reply: a first byte that says what was asked (`r` a rating, `v` relevancy, `c` a condition, `p` pass or fail, `l` one of
/// several labels), then its text.
pub fn judge_reply(data: &[u8]) {
    let Some((kind, text)) = data.split_first() else { return };
    let Some(question) = question(*kind) else { return };
    let text = String::from_utf8_lossy(text);
    let Ok(judgement) = read(&text, NONCE, &question) else { return };
    assert_eq!(read(&text, OTHER_NONCE, &question), Err(Unreadable::OtherNonce), "the nonce is another one");
    holds_of_judgement(&judgement, &question);
    if let Some(said) = between_braces(&text) {
        assert_eq!(said["nonce"], NONCE, "the reply carries the nonce");
        agrees(*kind, &said, &judgement.outcome);
    }
}

fn question(kind: u8) -> Option<Question> {
    let line = json!({"session_id": "s", "messages": [
        {"role": "user", "content": "Where is my order?"}, {"role": "assistant", "content": "On its way."},
        {"role": "user", "content": "Since when?"}, {"role": "assistant", "content": "Tuesday."},
    ]});
    let session = SessionId::trusted("s");
    let stored = |span: Span| StoredSpan {
        at: Timestamp::EARLIEST,
        arrived_at: Timestamp::EARLIEST,
        digest: String::new(),
        session: Some(session.clone()),
        span,
    };
    let spans = chat::spans(&line).expect("a chat").into_iter().map(stored).collect();
    let conversation = Conversation::assemble(session.clone(), spans);
    let output = match kind {
        b'p' => JudgeOutput::PassFail,
        b'l' => JudgeOutput::Choice,
        _ => JudgeOutput::Rating,
    };
    let choice_scores = match kind {
        b'l' => BTreeMap::from([("Good".to_owned(), 1.0), ("So so".to_owned(), 0.4), ("Bad".to_owned(), 0.1)]),
        _ => BTreeMap::new(),
    };
    let rubric = Rubric { output, choice_scores, ..Rubric::default() };
    let question = match kind {
        b'r' | b'p' | b'l' => Question::of_session(&rubric, &conversation, 100_000),
        b'v' => Question::of_relevancy(&conversation, 100_000),
        b'c' => Question::of_condition("the agent names a day", &conversation, ToolContext::None, 100_000),
        _ => return None,
    };
    Some(question.expect("room for two turns"))
}

fn holds_of_judgement(judgement: &Judgement, question: &Question) {
    let Judgement { outcome, justification, evidence, shown } = judgement;
    assert!(evidence.is_sorted_by(|a, b| a < b), "each cited turn once, in order: {evidence:?}");
    assert!(evidence.iter().all(|turn| question.shows_turn(*turn)), "cited turns exist: {evidence:?}");
    assert!(shown.is_some_and(|share| (0.0..=1.0).contains(&share)), "{shown:?}");
    assert!(!outcome.is_transient(), "another try would not read differently: {outcome:?}");
    for text in justification.as_deref().into_iter().chain(outcome.reason()) {
        assert!(!text.contains('\0') && !text.is_empty(), "{text:?}");
        assert!(text.chars().count() <= LONGEST_JUSTIFICATION, "{} characters", text.chars().count());
    }
    let stored = serde_json::to_string(judgement).expect("serialisable");
    let again: Judgement = serde_json::from_str(&stored).expect("read back");
    assert_eq!(again.evidence, *evidence);
    assert_eq!(again.outcome.goodness().is_some(), outcome.goodness().is_some());
}

/// What stands between the first brace and the last, read without care.
fn between_braces(text: &str) -> Option<Value> {
    let (first, last) = (text.find('{')?, text.rfind('}')?);
    serde_json::from_str(text.get(first..=last)?).ok()
}

/// Whether an outcome is what the reply says: within the scale what it says, outside it nothing.
fn agrees(kind: u8, said: &Value, outcome: &Outcome) {
    let expected = match kind {
        b'p' => said["pass"].as_bool().map(f64::from),
        b'l' => {
            let got = outcome.goodness().map(Goodness::get);
            assert!(got.is_none_or(|got| (0.1..=1.0).contains(&got)), "between the labels' scores: {got:?}");
            return;
        }
        kind => said["rating"].as_f64().and_then(|rating| match kind {
            b'r' => (0.0..=10.0).contains(&rating).then_some(rating / 10.0),
            b'v' => (0.0..=5.0).contains(&rating).then_some(rating / 5.0),
            _ => [0.0, 1.0].contains(&rating).then_some(rating),
        }),
    };
    let got = outcome.goodness().map(Goodness::get);
    match (got, expected) {
        (Some(got), Some(expected)) => assert!((got - expected).abs() < 1e-9, "{got} for {said}"),
        (None, None) => {}
        other => panic!("{other:?} for {said}"),
    }
}

/// A pattern and a conversation: the first line is the pattern as JSON, the second what the user said, the rest what the agent
/// said. A first line that is no object is looked for, as a phrase, as an expression, and with case.
pub fn pattern(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let (input, output) = rest.split_once('\n').unwrap_or(("", rest));
    let sides = Sides { input, output, trace: None };
    match serde_json::from_str(first) {
        Ok(body @ Value::Object(_)) => pattern_of(&body, &sides),
        _ => {
            for (detector, case) in [("phrase", false), ("phrase", true), ("regex", false), ("regex", true)] {
                let row = json!({"detector": detector, "value": first, "caseSensitive": case, "sources": ["trace"]});
                pattern_of(&json!({"name": "p", "conditions": [row]}), &sides);
            }
        }
    }
}

fn pattern_of(body: &Value, sides: &Sides<'_>) {
    let spec = match PatternSpec::create(body) {
        Ok(spec) => spec,
        Err(problems) => return assert!(!problems.to_string().is_empty(), "a refusal says why"),
    };
    assert!((1..=200).contains(&spec.name.chars().count()) && (1..=50).contains(&spec.conditions.len()));
    assert!((0.0..=1.0).contains(&spec.sample_rate));
    assert!(spec.conditions.iter().all(|row| (1..=2000).contains(&row.value.chars().count())));
    let stored = serde_json::to_value(&spec).expect("serialisable");
    assert!(!holds_zero_byte(&stored), "{stored}");
    assert_eq!(serde_json::from_value::<PatternSpec>(stored.clone()).expect("read back"), spec);
    assert_eq!(spec.patched(&stored), Ok(spec.clone()), "what is read can be sent back");
    let pattern = Pattern::compile(&spec).expect("what is saved can be used");
    let open = pattern.open_questions(sides);
    assert_eq!(pattern.read(sides, &BTreeMap::new()).is_none(), !open.is_empty(), "open is what no text decides");
    for answer in [false, true] {
        let answers = open.iter().map(|question| (question.row, answer)).collect();
        let found = pattern.read(sides, &answers).expect("every question is answered");
        holds_of_match(&found, sides);
        agrees_with_a_plain_search(&spec, sides, found.matched);
    }
}

fn holds_of_match(found: &Match, sides: &Sides<'_>) {
    assert!(found.matched || found.what.is_none(), "nothing is quoted where nothing matched");
    let Some(quote) = &found.what else { return };
    assert!(!quote.excerpt.contains('\0') && quote.excerpt.chars().count() <= 80, "{:?}", quote.excerpt);
    let Some(place) = quote.place else { return };
    let side = match place.speaker {
        Speaker::User => sides.input,
        Speaker::Agent => sides.output,
    };
    let from = side.get(place.offset..).expect("a quote begins between two characters");
    let from = from.replace('\0', "\u{fffd}");
    let shown = quote.excerpt.strip_suffix('…').filter(|_| quote.excerpt.chars().count() == 80);
    let stands = |shown: &str| from.starts_with(shown);
    assert!(stands(&quote.excerpt) || shown.is_some_and(stands), "the quote {:?} stands in the text", quote.excerpt);
    assert!(quote.phrase.is_none() || !quote.excerpt.is_empty(), "a phrase that was found is quoted");
}

/// One phrase in plain ASCII is found where a search for it finds it.
fn agrees_with_a_plain_search(spec: &PatternSpec, sides: &Sides<'_>, matched: bool) {
    let [row] = spec.conditions.as_slice() else { return };
    let plain = row.value.is_ascii() && sides.input.is_ascii() && sides.output.is_ascii();
    if row.detector != Detector::Phrase || !plain || row.sources != [afterword::domain::pattern::Source::Trace] {
        return;
    }
    let form = |text: &str| if row.case_sensitive { text.to_owned() } else { text.to_ascii_lowercase() };
    let is_there = [sides.input, sides.output].iter().any(|side| form(side).contains(&form(&row.value)));
    assert_eq!(matched, is_there != row.negate, "{:?} in {sides:?}", row.value);
}

/// An OTLP batch of spans as JSON, or of log records.
pub fn otlp_json(data: &[u8]) {
    for (read, list) in [(otlp::json as fn(&[u8]) -> _, "resourceSpans["), (otlp::json_logs, "resourceLogs[")] {
        let decoded = match read(data) {
            Ok(decoded) => decoded,
            Err(error) => {
                assert!(error.to_string().contains("send an ExportTraceServiceRequest"));
                continue;
            }
        };
        assert_eq!(read(data).as_ref(), Ok(&decoded), "the same bytes are the same spans");
        assert!(decoded.adjusted_times <= decoded.spans.len());
        for refusal in &decoded.refused {
            assert!(refusal.place.contains(list) && !refusal.reason.is_empty(), "{refusal}");
            assert!(!refusal.place.contains(char::is_control), "{refusal:?}");
        }
        decoded.spans.iter().for_each(can_be_stored);
    }
}

/// A body of `POST /ingest/traces`.
pub fn ingest_json(data: &[u8]) {
    let Ok(body) = parse_json(data) else { return };
    match client::span(&body, || "fresh".to_owned()) {
        Ok(read) => {
            can_be_stored(&read.span);
            assert!(body.get("name").is_some(), "a span has a name");
            assert_eq!(read.span.trace_id.as_str(), read.span.span_id.as_str(), "no trace is known yet");
            assert!(!read.adjusted_time || read.span.started_at.is_none());
            let sent = |key: &str| body.get(key).and_then(Value::as_str).filter(|id| !id.is_empty());
            if let Some(id) = sent("span_id") {
                assert_eq!(read.span.span_id.as_str(), id);
            }
            if let Some(id) = sent("session_id") {
                assert_eq!(read.span.session_tag.as_ref().map(SessionId::as_str), Some(id));
            }
        }
        Err(errors) => {
            let told = errors.field_errors.values().flatten().chain(&errors.form_errors);
            assert!(told.clone().count() > 0 && told.clone().all(|problem| !problem.is_empty()), "{errors:?}");
        }
    }
}

/// A line of a file of chats.
pub fn chat_line(data: &[u8]) {
    let Ok(line) = parse_json(data) else { return };
    let decoded = match chat::decode(&line) {
        Ok(decoded) => decoded,
        Err(refusal) => return assert!(!refusal.reason.is_empty() && !refusal.place.is_empty()),
    };
    let spans = &decoded.spans;
    assert!(!spans.is_empty(), "a chat that is taken has a turn");
    assert!(decoded.adjusted_times <= spans.len());
    spans.iter().for_each(can_be_stored);
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "each span has an id of its own");
    for span in spans {
        assert_eq!(span.session_tag, spans[0].session_tag, "a line is one conversation");
        let parent = span.parent_id.as_ref().map_or(span.trace_id.as_str(), SpanId::as_str);
        assert!(parent == span.trace_id.as_str() && ids.contains(parent), "{} hangs on its turn", span.span_id);
    }
    grown_changes_only_its_last_turn(&line, spans);
}

fn grown_changes_only_its_last_turn(line: &Value, spans: &[Span]) {
    let mut grown = line.clone();
    let messages = grown["messages"].as_array_mut().expect("a chat that is taken has messages");
    messages.push(json!({"role": "user", "content": "And now?"}));
    let later = chat::decode(&grown).expect("a line may grow").spans;
    let last = spans.last().map(|span| &span.trace_id);
    let before: Vec<&Span> = spans.iter().filter(|span| Some(&span.trace_id) != last).collect();
    assert!(before.iter().zip(&later).all(|(before, later)| *before == later), "turns that are over stay as they are");
    assert!(later.len() >= spans.len());
}

/// A span that is taken can be written to either database and read back.
fn can_be_stored(span: &Span) {
    let ids = [Some(span.trace_id.as_str()), Some(span.span_id.as_str()), span.body.agent_id.as_deref()];
    let parent = span.parent_id.as_ref().map(SpanId::as_str);
    let session = span.session_tag.as_ref().map(SessionId::as_str);
    for id in ids.into_iter().chain([parent, session]).flatten() {
        assert_eq!(check_id(id), Ok(()), "{id:?}");
    }
    assert!(!span.name.contains('\0'), "{:?}", span.name);
    let within =
        |time: Option<Timestamp>| time.is_none_or(|time| (Timestamp::EARLIEST..=Timestamp::LATEST).contains(&time));
    assert!(within(span.started_at) && within(span.ended_at), "{:?} to {:?}", span.started_at, span.ended_at);
    let counts = [span.body.input_tokens, span.body.output_tokens];
    assert!(counts.iter().flatten().all(|count| *count >= 0), "{counts:?}");
    let stored = serde_json::to_string(&span.body).expect("serialisable");
    let again: SpanBody = serde_json::from_str(&stored).expect("what is stored is read back");
    let parts = |body: &SpanBody| {
        let values = [&body.input, &body.output, &body.metadata].map(Option::is_some);
        (values, body.tool_calls.len(), body.attributes.len(), body.pattern_ids.len())
    };
    assert_eq!(parts(&again), parts(&span.body), "nothing is lost: {stored}");
    assert!(!holds_zero_byte(&serde_json::from_str(&stored).expect("JSON")), "{stored}");
    assert_eq!(span.digest(&stored).len(), 32);
}

fn holds_zero_byte(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_zero_byte),
        Value::Object(object) => object.iter().any(|(key, value)| key.contains('\0') || holds_zero_byte(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
