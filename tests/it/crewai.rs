//! A real capture with all its repetitions: whatever the order its batches arrive in, the same sessions come of it. And the
//! other captures, which lose no good span on their way in.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use afterword::clock::{Clock, ManualClock};
use afterword::domain::conversation::{Conversation, Turn};
use afterword::domain::ids::ProjectId;
use afterword::domain::merge::Fate;
use afterword::domain::span::Span;
use afterword::domain::time::{Micros, Timestamp};
use afterword::entropy::SeededEntropy;
use afterword::ingest::file;
use afterword::store::{Arrival, SessionRow, Store};
use serde_json::Value;

use crate::support::data::shared;
use crate::support::postgres;
use crate::support::program::{Program, open};

const CAPTURE: &str = "sideseat/traces-crewai.jsonl.gz";

/// How many orders are tried on SQLite.
const ORDERS: u64 = 6;

type Batches = Vec<Vec<Span>>;

fn batches(path: &Path) -> Batches {
    file::read(path).unwrap().map(|piece| piece.result.unwrap().spans).collect()
}

/// All JSON lines of a gzip file.
fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The same deliveries in another order: batches shuffled, some of them sent again, some split, some joined with neighbours.
fn disordered(batches: &Batches, seed: u64) -> Batches {
    let dice = SeededEntropy::new(seed);
    let pick = |bound: usize| usize::try_from(dice.below(bound as u64)).unwrap();
    let mut pieces: Batches = Vec::new();
    for batch in batches {
        let mut batch = batch.clone();
        shuffle(&mut batch, &pick);
        let rest = batch.split_off(pick(batch.len() + 1));
        pieces.extend([batch, rest].into_iter().filter(|piece| !piece.is_empty()));
    }
    for _ in 0..pick(40) {
        pieces.push(pieces[pick(pieces.len())].clone());
    }
    shuffle(&mut pieces, &pick);
    let mut sent: Batches = Vec::new();
    while !pieces.is_empty() {
        let taken = 1 + pick(8.min(pieces.len()));
        sent.push(pieces.drain(..taken).flatten().collect());
    }
    sent
}

fn shuffle<T>(items: &mut [T], pick: &impl Fn(usize) -> usize) {
    for place in (1..items.len()).rev() {
        items.swap(place, pick(place + 1));
    }
}

/// Long after the capture, so that no span of it comes from the future.
fn clock() -> ManualClock {
    ManualClock::at(Timestamp::parse("2027-01-01T00:00:00Z").unwrap())
}

async fn send(store: &Store, project: &ProjectId, batches: &Batches, clock: &ManualClock) -> Vec<Fate> {
    let mut fates = Vec::new();
    for spans in batches {
        clock.advance(Micros::seconds(1));
        let arrival = Arrival {
            project: project.clone(),
            spans: spans.clone(),
            margin: Micros::seconds(60),
            trace_settle: Micros::ZERO,
        };
        let receipts = store.ingest(&[arrival], clock.now()).await.unwrap();
        fates.extend(receipts.into_iter().flat_map(|receipt| receipt.fates));
    }
    fates
}

async fn rows(store: &Store, project: &ProjectId) -> Vec<SessionRow> {
    let mut rows = store.recent_sessions(project, Timestamp::EARLIEST, 1_000).await.unwrap();
    rows.sort_by(|a, b| a.session.cmp(&b.session));
    rows
}

/// What must not depend on the order: everything but how often and when something arrived.
#[derive(Debug, Clone, PartialEq)]
struct Content {
    row: SessionRow,
    turns: Vec<Turn>,
    digest: String,
}

async fn contents(store: &Store, project: &ProjectId) -> BTreeMap<String, Content> {
    let mut contents = BTreeMap::new();
    for row in rows(store, project).await {
        let spans = store.spans_of_session(project, &row.session).await.unwrap();
        let conversation =
            Conversation::assemble(row.session.clone(), spans.into_iter().map(|span| span.stored).collect());
        assert_eq!(i64::try_from(conversation.turns.len()).unwrap(), row.turns, "{}", row.session);
        assert_eq!(i64::try_from(conversation.span_count).unwrap(), row.spans, "{}", row.session);
        let digest = conversation.digest();
        let name = row.session.to_string();
        let row = SessionRow { revision: 0, last_arrival_at: Timestamp::EARLIEST, ..row };
        contents.insert(name, Content { row, turns: conversation.turns, digest });
    }
    contents
}

async fn project_of(store: &Store) -> ProjectId {
    store.default_project(Timestamp::EARLIEST).await.unwrap().id
}

/// A fresh SQLite file that was sent these batches, and what came of them.
async fn sent_to_sqlite(batches: &Batches) -> BTreeMap<String, Content> {
    let program = Program::on_sqlite();
    let store = program.store().await;
    let project = project_of(&store).await;
    let clock = clock();
    send(&store, &project, batches, &clock).await;
    let contents = contents(&store, &project).await;
    replaying_changes_nothing(&store, &project, batches, &clock).await;
    store.close().await;
    contents
}

async fn replaying_changes_nothing(store: &Store, project: &ProjectId, batches: &Batches, clock: &ManualClock) {
    let before = rows(store, project).await;
    let fates = send(store, project, batches, clock).await;
    assert!(fates.iter().all(|fate| *fate == Fate::Same));
    assert_eq!(rows(store, project).await, before, "neither a revision nor a last arrival changed");
}

#[tokio::test]
async fn the_capture_in_its_own_order_is_what_plain_counting_says() {
    let Some(path) = shared(CAPTURE) else { return };
    let mut deliveries = 0;
    let mut spans = BTreeSet::new();
    let mut roots: BTreeMap<String, String> = BTreeMap::new();
    let mut tags: BTreeMap<String, String> = BTreeMap::new();
    for line in lines(&path) {
        let scopes = line["data"]["resourceSpans"].as_array().unwrap().iter();
        let scopes = scopes.flat_map(|resource| resource["scopeSpans"].as_array().unwrap());
        for span in scopes.flat_map(|scope| scope["spans"].as_array().unwrap()) {
            let text = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
            deliveries += 1;
            spans.insert((text("traceId"), text("spanId")));
            if text("parentSpanId").is_empty() {
                roots.insert(text("traceId"), text("spanId"));
            }
            for attribute in span["attributes"].as_array().unwrap() {
                if attribute["key"] == "session.id" {
                    tags.insert(text("traceId"), attribute["value"]["stringValue"].as_str().unwrap().to_owned());
                }
            }
        }
    }
    let sessions: BTreeSet<&String> = tags.values().collect();
    assert_eq!((deliveries, spans.len(), roots.len(), sessions.len()), (1_018, 186, 12, 9));

    let batches = batches(&path);
    assert_eq!((batches.len(), batches.iter().map(Vec::len).sum::<usize>()), (248, deliveries));
    let contents = sent_to_sqlite(&batches).await;
    assert!(contents.keys().eq(sessions.iter().copied()));
    for (name, content) in &contents {
        let traces: BTreeSet<&str> =
            tags.iter().filter(|(_, tag)| *tag == name).map(|(trace, _)| trace.as_str()).collect();
        let heads: BTreeSet<&str> = content.turns.iter().map(|turn| turn.head.as_str()).collect();
        assert_eq!(heads, traces.iter().map(|trace| roots[*trace].as_str()).collect(), "{name}");
        let of_session = spans.iter().filter(|(trace, _)| traces.contains(trace.as_str())).count();
        assert_eq!(content.row.spans, i64::try_from(of_session).unwrap(), "{name}");
    }
}

#[tokio::test]
async fn whatever_order_the_capture_arrives_in_the_same_sessions_come_of_it() {
    let Some(path) = shared(CAPTURE) else { return };
    let batches = batches(&path);
    let expected = sent_to_sqlite(&batches).await;
    for seed in 1..=ORDERS {
        println!("order of seed {seed}");
        let found = sent_to_sqlite(&disordered(&batches, seed)).await;
        assert!(found.keys().eq(expected.keys()), "seed {seed}: {:?}", found.keys());
        for (name, content) in &expected {
            assert_eq!(&found[name], content, "seed {seed}, session {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_connections_that_send_the_capture_at_once_come_to_the_same_sessions_on_postgresql() {
    let Some(path) = shared(CAPTURE) else { return };
    let batches = batches(&path);
    let expected = sent_to_sqlite(&batches).await;
    for seed in 1..=2 {
        let Some(url) = postgres::database() else { return };
        println!("order of seed {seed}");
        let (one, other) = (open(&url).await, open(&url).await);
        let project = project_of(&one).await;
        // One of them sends everything, the other everything again in another order.
        let sendings = [(one.clone(), disordered(&batches, seed)), (other.clone(), disordered(&batches, seed + 100))];
        let clock = Arc::new(clock());
        let tasks = sendings.map(|(store, batches)| {
            let (project, clock) = (project.clone(), Arc::clone(&clock));
            tokio::spawn(async move { send(&store, &project, &batches, &clock).await })
        });
        let mut fates = Vec::new();
        for task in tasks {
            fates.extend(task.await.unwrap());
        }
        assert_eq!(fates.iter().filter(|fate| **fate == Fate::New).count(), 186, "seed {seed}");
        let found = contents(&other, &project).await;
        assert!(found.keys().eq(expected.keys()), "seed {seed}: {:?}", found.keys());
        for (name, content) in &expected {
            assert_eq!(&found[name], content, "seed {seed}, session {name}");
        }
        replaying_changes_nothing(&one, &project, &batches, &clock).await;
        one.close().await;
        other.close().await;
    }
}

/// How many spans an OTLP document holds, wherever its lists of spans are.
fn count_spans(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => {
            let here = fields.get("spans").and_then(Value::as_array).map_or(0, |spans| spans.len() as u64);
            here + fields.iter().filter(|(key, _)| *key != "spans").map(|(_, value)| count_spans(value)).sum::<u64>()
        }
        Value::Array(items) => items.iter().map(count_spans).sum(),
        _ => 0,
    }
}

/// Imports one file into a database of its own and checks that every span it holds is stored, but for those named.
fn loses_nothing(path: &Path, not_spans: u64, refused: u64) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let program = Program::on_sqlite();
    let ended = program.run(["import".as_ref(), path]).with_code(if refused == 0 { 0 } else { 5 });
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let values: Vec<Value> = match serde_json::from_str(&text) {
        Ok(document) => vec![document],
        Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    };
    let summary = ended.summary(name);
    assert_eq!(summary.lines, values.len() as u64, "{name}");
    assert_eq!(summary.spans + not_spans, values.iter().map(count_spans).sum::<u64>(), "{name}");
    assert_eq!(summary.new + summary.changed + summary.known, summary.spans, "{name}");
    assert_eq!(summary.refused, refused, "{name}");
    for refusal in ended.out.lines().filter(|line| line.starts_with("refused: ")) {
        assert!(refusal.starts_with(&format!("refused: {name}: line ")), "{refusal}");
    }
    assert_eq!(program.run(["import".as_ref(), path]).summary(name).known, summary.spans, "{name}");
}

#[test]
fn the_reference_trace_loads() {
    let Some(path) = shared("opentelemetry-proto/trace.json") else { return };
    loses_nothing(&path, 0, 0);
}

#[test]
fn the_other_captures_import_whole() {
    for name in ["crewai-error-session.jsonl", "crewai-tool_use-session.jsonl", "vercel-small.jsonl"] {
        let Some(path) = shared(&format!("sideseat/{name}")) else { return };
        loses_nothing(&path, 0, 0);
    }
}

#[test]
fn strange_documents_lose_no_good_span() {
    let Some(folder) = shared("handmade-gaps") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (not_spans, refused) = match name {
            // No traces; those of log records have a test of their own.
            "MANIFEST.md" | "trap-invalid-utf8.json.bin" | "semconv-log-events.logs.json" => continue,
            // The twin that announces a span is no span.
            "logfire-pending-span.json" => (1, 0),
            // One span has no id at all.
            "trap-id-shapes.json" => (1, 1),
            _ => (0, 0),
        };
        loses_nothing(&path, not_spans, refused);
        seen += 1;
    }
    assert!(seen >= 19, "{seen} documents");
}

#[test]
fn log_records_are_imported_beside_their_spans_and_others_are_passed_over() {
    let records = "handmade-gaps/semconv-log-events.logs.json";
    let (Some(spans), Some(records)) = (shared("handmade-gaps/semconv-log-events.spans.json"), shared(records)) else {
        return;
    };
    let program = Program::on_sqlite();
    let ended = program.run(["import".as_ref(), records.as_path(), spans.as_path()]).with_code(0);
    assert_eq!(ended.summary("semconv-log-events.logs.json").new, 2);
    assert_eq!(ended.summary("semconv-log-events.spans.json").new, 2);
    let again = program.run(["import".as_ref(), records.as_path()]).with_code(0);
    assert_eq!(again.summary("semconv-log-events.logs.json").known, 2);
    for name in ["logs.json", "events.json"] {
        let Some(file) = shared(&format!("opentelemetry-proto/{name}")) else { return };
        let ended = program.run(["import".as_ref(), file.as_path()]).with_code(0);
        assert_eq!(ended.summary(name).spans, 0);
        let note = format!("{name}: log records that tell nothing of a conversation were passed over: ");
        assert!(ended.out.contains(&note), "{}", ended.out);
    }
}

#[test]
fn bytes_that_are_no_utf8_cost_their_characters_and_not_their_span() {
    let Some(path) = shared("handmade-gaps/trap-invalid-utf8.json.bin") else { return };
    let ended = Program::on_sqlite().run(["import".as_ref(), path.as_path()]).with_code(0);
    assert_eq!(ended.summary("trap-invalid-utf8.json.bin").new, 1);
}

#[test]
fn what_is_no_trace_is_refused_with_its_place() {
    for (path, entries) in
        [("sideseat/raw_otel_langchain_spans.json", 12), ("sideseat/raw_otel_strands_bedrock_runtime_logs.json", 50)]
    {
        let Some(file) = shared(path) else { return };
        let ended = Program::on_sqlite().run(["import".as_ref(), file.as_path()]).with_code(5);
        let name = file.file_name().unwrap().to_str().unwrap();
        let summary = ended.summary(name);
        assert_eq!((summary.spans, summary.refused), (0, entries), "{path}");
        assert!(ended.out.contains(&format!("refused: {name}: line 1: ")), "{}", ended.out);
    }
}
