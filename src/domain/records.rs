//! Log records: content that instrumentation sends beside its spans, given to the span that each record tells of.
//!
//! Some instrumentations write what was said into OTLP log records that name their span, which arrive before or after it and
//! in other requests. They are stored as rows of their own, children of the span they name, and joined to it when the
//! conversation is read: so neither has to wait for the other, and a record that arrives late is new content like any other.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::content::has_text;
use super::ids::{SpanId, TraceId};
use super::span::{Origin, SpanBody, StoredSpan, hex};

/// The spans with what log records tell of them. What a span says itself stands; records fill what it leaves open. Records of
/// one span follow each other in time, their messages as one list. Where the span has not arrived, the first of them stands in.
pub fn joined(spans: Vec<StoredSpan>) -> Vec<StoredSpan> {
    if spans.iter().all(|span| span.span.origin != Origin::Log) {
        return spans;
    }
    let (mut records, mut spans): (Vec<StoredSpan>, Vec<StoredSpan>) =
        spans.into_iter().partition(|span| span.span.origin == Origin::Log);
    records.sort_by(|a, b| (a.at, &a.span.span_id).cmp(&(b.at, &b.span.span_id)));
    let places: HashMap<(TraceId, SpanId), usize> = spans
        .iter()
        .enumerate()
        .map(|(n, span)| ((span.span.trace_id.clone(), span.span.span_id.clone()), n))
        .collect();
    let mut told: BTreeMap<(TraceId, Option<SpanId>), Vec<StoredSpan>> = BTreeMap::new();
    for record in records {
        told.entry((record.span.trace_id.clone(), record.span.parent_id.clone())).or_default().push(record);
    }
    for ((trace, of), records) in told {
        match of.and_then(|of| places.get(&(trace, of))) {
            Some(&place) => complete(&mut spans[place], &records),
            None => spans.extend(stand_in(&records)),
        }
    }
    spans
}

/// Gives a span what its records tell. Its digest is of both then: what members read changed.
fn complete(span: &mut StoredSpan, records: &[StoredSpan]) {
    fill(&mut span.span.body, records);
    span.digest = digest(std::iter::once(&*span).chain(records));
}

/// What stands for a span that has not arrived.
fn stand_in(records: &[StoredSpan]) -> Option<StoredSpan> {
    let digest = digest(records);
    let mut first = records.first()?.clone();
    (first.span.body.input, first.span.body.output, first.span.body.tool_calls) = (None, None, Vec::new());
    fill(&mut first.span.body, records);
    first.digest = digest;
    Some(first)
}

fn fill(body: &mut SpanBody, records: &[StoredSpan]) {
    if !has_text(body.input.as_ref()) {
        body.input = in_a_row(records.iter().filter_map(|record| record.span.body.input.as_ref()));
    }
    if !has_text(body.output.as_ref()) {
        body.output = in_a_row(records.iter().filter_map(|record| record.span.body.output.as_ref()));
    }
    if body.tool_calls.is_empty() {
        body.tool_calls = records.iter().flat_map(|record| record.span.body.tool_calls.iter().cloned()).collect();
    }
}

/// Lists of messages as one list; of other values the first.
fn in_a_row<'a>(values: impl Iterator<Item = &'a Value>) -> Option<Value> {
    values.filter(|value| has_text(Some(value))).cloned().reduce(|mut all, next| {
        if let (Value::Array(all), Value::Array(next)) = (&mut all, next) {
            all.extend(next);
        }
        all
    })
}

fn digest<'a>(spans: impl IntoIterator<Item = &'a StoredSpan>) -> String {
    let mut hasher = Sha256::new();
    for span in spans {
        hasher.update((span.digest.len() as u64).to_le_bytes());
        hasher.update(&span.digest);
    }
    hex(&hasher.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::conversation::Conversation;
    use super::super::ids::SessionId;
    use super::super::span::{Span, SpanKind};
    use super::super::time::Timestamp;
    use super::*;

    fn row(origin: Origin, id: &str, parent: Option<&str>, at: i64, input: Value, output: Value) -> StoredSpan {
        let body = SpanBody { input: Some(input), output: Some(output), ..SpanBody::default() };
        let span = Span {
            origin,
            trace_id: TraceId::trusted("t"),
            span_id: SpanId::trusted(id),
            parent_id: parent.map(SpanId::trusted),
            session_tag: None,
            kind: SpanKind::Llm,
            name: id.to_owned(),
            started_at: None,
            ended_at: None,
            body,
        };
        StoredSpan {
            digest: span.digest(id),
            span,
            session: Some(SessionId::trusted("s")),
            at: Timestamp::from_micros(at),
            arrived_at: Timestamp::from_micros(at),
        }
    }

    fn said(role: &str, text: &str) -> Value {
        json!([{"role": role, "content": text}])
    }

    fn records() -> Vec<StoredSpan> {
        vec![
            row(Origin::Log, "l2", Some("chat"), 3, said("user", "and now?"), said("assistant", "done")),
            row(Origin::Log, "l1", Some("chat"), 2, said("system", "be brief"), Value::Null),
        ]
    }

    #[test]
    fn records_of_a_span_are_read_as_its_own_in_order_of_time() {
        let mut spans = records();
        spans.push(row(Origin::Otlp, "chat", None, 1, Value::Null, Value::Null));
        let digest = spans[2].digest.clone();
        let joined = joined(spans);
        assert_eq!(joined.len(), 1);
        let body = &joined[0].span.body;
        let input = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "and now?"}]);
        assert_eq!((body.input.as_ref(), body.output.as_ref()), (Some(&input), Some(&said("assistant", "done"))));
        assert_ne!(joined[0].digest, digest);
    }

    #[test]
    fn what_a_span_says_itself_stands() {
        let mut spans = records();
        spans.push(row(Origin::Otlp, "chat", None, 1, said("user", "own"), Value::Null));
        let joined = joined(spans);
        assert_eq!(joined[0].span.body.input, Some(said("user", "own")));
        assert_eq!(joined[0].span.body.output, Some(said("assistant", "done")));
    }

    #[test]
    fn records_whose_span_has_not_arrived_make_one_turn() {
        let conversation = Conversation::assemble(SessionId::trusted("s"), records());
        assert_eq!(conversation.turns.len(), 1);
        assert_eq!(conversation.turns[0].input.as_deref(), Some("and now?"));
        assert_eq!(conversation.turns[0].output.as_deref(), Some("done"));
    }

    proptest! {
        /// Whatever the order of rows, the same is read.
        #[test]
        fn the_order_of_rows_is_nothing(order in Just((0..3).collect::<Vec<usize>>()).prop_shuffle()) {
            let mut spans = records();
            spans.push(row(Origin::Otlp, "chat", None, 1, Value::Null, Value::Null));
            let expected = joined(spans.clone());
            let shuffled = order.into_iter().map(|n| spans[n].clone()).collect();
            prop_assert_eq!(joined(shuffled), expected);
        }
    }
}
