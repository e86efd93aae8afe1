//! Tests of merging.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::span::{SpanBody, SpanKind};

#[derive(Debug, Clone)]
struct Draft {
    origin: Origin,
    trace: u8,
    id: u8,
    parent: Option<u8>,
    tag: Option<u8>,
    start: i64,
    end: i64,
    text: Option<u8>,
}

fn incoming(draft: &Draft) -> Incoming {
    let id = |n: u8| SpanId::trusted(format!("s{n:02}"));
    let trace_id = match draft.origin {
        Origin::Client => TraceId::trusted(id(draft.id).as_str()),
        _ => TraceId::trusted(format!("t{}", draft.trace)),
    };
    let span = Span {
        origin: draft.origin,
        trace_id,
        span_id: id(draft.id),
        parent_id: draft.parent.map(id),
        session_tag: draft.tag.map(|tag| SessionId::trusted(format!("session-{tag}"))),
        kind: SpanKind::Agent,
        name: "n".into(),
        started_at: Some(Timestamp::from_micros(draft.start)),
        ended_at: Some(Timestamp::from_micros(draft.end)),
        body: SpanBody { output: draft.text.map(|text| json!(text.to_string())), ..SpanBody::default() },
    };
    let body = serde_json::to_string(&span.body).expect("json");
    Incoming { digest: span.digest(&body), span, body }
}

/// A store that keeps what `merge` says, the way the real one does.
#[derive(Default)]
struct Model {
    rows: BTreeMap<(TraceId, SpanId), Known>,
    sessions: BTreeMap<SessionId, (i64, Change)>,
}

impl Model {
    fn apply(&mut self, batch: &[Incoming], now: i64) -> Vec<Fate> {
        let known: Vec<Known> = self.rows.values().cloned().collect();
        let merged = merge(known, batch, Watch::Traces, Timestamp::from_micros(now));
        for (old_trace, row) in merged.moved {
            self.rows.remove(&(old_trace, row.facts.span_id.clone()));
            self.rows.insert((row.trace_id.clone(), row.facts.span_id.clone()), row);
        }
        for (_, row) in merged.written {
            self.rows.insert((row.trace_id.clone(), row.facts.span_id.clone()), row);
        }
        for (session, change) in merged.sessions {
            let (revision, standing) = self.sessions.entry(session).or_insert((0, Change::NOTHING));
            *revision += 1;
            standing.turns += change.turns;
            standing.rootless += change.rootless;
            standing.spans += change.spans;
            standing.errors += change.errors;
            standing.latency = Micros::new(standing.latency.get() + change.latency.get());
        }
        merged.fates
    }

    /// The counts of each session, found again from nothing.
    fn recount(&self) -> BTreeMap<SessionId, [i64; 5]> {
        let mut by_trace: BTreeMap<&TraceId, Vec<SpanFacts>> = BTreeMap::new();
        for ((trace, _), row) in &self.rows {
            by_trace.entry(trace).or_default().push(row.facts.clone());
        }
        let mut counts: BTreeMap<SessionId, [i64; 5]> = BTreeMap::new();
        for share in by_trace.values().flat_map(|spans| share::of_trace(spans)) {
            let sum = counts.entry(share.0).or_default();
            let of = [share.1.turns, share.1.rootless, share.1.spans, share.1.errors, share.1.latency.get()];
            sum.iter_mut().zip(of).for_each(|(sum, n)| *sum += n);
        }
        counts
    }

    fn counted(&self) -> BTreeMap<SessionId, [i64; 5]> {
        self.sessions
            .iter()
            .map(|(session, (_, c))| (session.clone(), [c.turns, c.rootless, c.spans, c.errors, c.latency.get()]))
            .filter(|(_, counts)| counts.iter().any(|n| *n != 0))
            .collect()
    }

    /// Where every span ended up, without anything that depends on when it arrived.
    fn placed(&self) -> Vec<(String, String, Option<String>, String)> {
        let placed = self.rows.values().map(|row| {
            (
                row.trace_id.to_string(),
                row.facts.span_id.to_string(),
                row.facts.session.as_ref().map(ToString::to_string),
                row.digest.clone(),
            )
        });
        placed.collect()
    }
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let draft = (
        0u8..2,
        0u8..3,
        0u8..8,
        proptest::option::of(0u8..10),
        proptest::option::of(0u8..3),
        1i64..5,
        5i64..9,
        proptest::option::of(0u8..3),
    );
    proptest::collection::vec(draft, 1..14).prop_map(|list| {
        list.into_iter()
            .map(|(origin, trace, id, parent, tag, start, end, text)| Draft {
                origin: if origin == 0 { Origin::Client } else { Origin::Otlp },
                trace,
                id: id + 10 * origin,
                parent: parent.map(|parent| parent + 10 * origin),
                tag,
                start,
                end,
                text,
            })
            .collect()
    })
}

proptest! {
    /// Whatever the order of arrival and the cut into batches, every span ends in the same trace and session with the
    /// same content, and the counts kept by adding equal a recount.
    #[test]
    fn the_order_of_arrival_decides_nothing(
        (drafts, shuffled) in drafts().prop_flat_map(|d| (Just(d.clone()), Just(d).prop_shuffle())), cut in 1usize..5,
    ) {
        let spans: Vec<Incoming> = drafts.iter().map(incoming).collect();
        let mut at_once = Model::default();
        at_once.apply(&spans, 1_000);
        let mut bit_by_bit = Model::default();
        let shuffled: Vec<Incoming> = shuffled.iter().map(incoming).collect();
        for (n, batch) in shuffled.chunks(cut).enumerate() {
            bit_by_bit.apply(batch, 1_000 + i64::try_from(n).unwrap());
        }
        prop_assert_eq!(at_once.placed(), bit_by_bit.placed());
        for model in [&at_once, &bit_by_bit] {
            prop_assert_eq!(model.counted(), model.recount());
        }
        let before: Vec<i64> = bit_by_bit.sessions.values().map(|(revision, _)| *revision).collect();
        let fates = bit_by_bit.apply(&shuffled, 9_000);
        prop_assert!(fates.iter().all(|fate| matches!(fate, Fate::Same | Fate::Older)));
        let after: Vec<i64> = bit_by_bit.sessions.values().map(|(revision, _)| *revision).collect();
        prop_assert_eq!(before, after);
    }
}

#[test]
fn spans_that_move_raise_the_revision_of_both_sessions() {
    let draft = |id, parent, tag, start| Draft {
        origin: Origin::Otlp,
        trace: 1,
        id,
        parent,
        tag,
        start,
        end: 9,
        text: Some(1),
    };
    let mut model = Model::default();
    model.apply(&[incoming(&draft(1, Some(0), Some(7), 2)), incoming(&draft(2, Some(0), None, 3))], 100);
    assert_eq!(model.sessions[&SessionId::trusted("session-7")].1.spans, 2);
    model.apply(&[incoming(&draft(0, None, Some(8), 1))], 200);
    let of = |n: &str| {
        let (revision, change) = &model.sessions[&SessionId::trusted(n)];
        (*revision, change.spans, change.turns)
    };
    assert_eq!(of("session-7"), (2, 1, 0));
    assert_eq!(of("session-8"), (1, 2, 1));
}

#[test]
fn changed_content_wins_by_end_then_digest_whatever_the_order() {
    let draft = |end, text| Draft {
        origin: Origin::Otlp,
        trace: 1,
        id: 1,
        parent: None,
        tag: Some(1),
        start: 1,
        end,
        text: Some(text),
    };
    let (early, late) = (incoming(&draft(5, 1)), incoming(&draft(6, 2)));
    let mut forward = Model::default();
    assert_eq!(forward.apply(std::slice::from_ref(&early), 10), [Fate::New]);
    assert_eq!(forward.apply(std::slice::from_ref(&late), 11), [Fate::Changed]);
    let mut backward = Model::default();
    assert_eq!(backward.apply(&[late, early.clone()], 10), [Fate::New, Fate::Older]);
    assert_eq!(forward.placed(), backward.placed());
    assert_eq!(forward.apply(&[early], 12), [Fate::Older]);
}
