//! Made-up conversations: the same seed gives the same texts.

use std::ops::Range;

use serde_json::{Value, json};

use super::Bench;
use crate::domain::group::{GroupSpec, MemberKind};
use crate::domain::ids::{ProjectId, SessionId, SpanId, TraceId};
use crate::domain::pattern::PatternSpec;
use crate::domain::span::{Origin, Span, SpanBody, SpanKind};
use crate::domain::time::Micros;
use crate::entropy::SeededEntropy;
use crate::store::{Arrival, ScorerDraft};

const WORDS: [&str; 48] = [
    "order",
    "parcel",
    "refund",
    "please",
    "today",
    "account",
    "number",
    "invoice",
    "address",
    "delivery",
    "thanks",
    "agent",
    "policy",
    "window",
    "thirty",
    "days",
    "return",
    "label",
    "print",
    "shop",
    "card",
    "charge",
    "twice",
    "customer",
    "email",
    "confirm",
    "status",
    "carrier",
    "tracking",
    "update",
    "morning",
    "week",
    "size",
    "blue",
    "shirt",
    "exchange",
    "stock",
    "warehouse",
    "ticket",
    "reply",
    "waiting",
    "hours",
    "sorry",
    "check",
    "system",
    "shows",
    "paid",
    "sent",
];

/// The project of a measurement.
pub(super) async fn project(bench: &Bench) -> anyhow::Result<ProjectId> {
    use crate::clock::Clock as _;
    Ok(bench.store.default_project(bench.clock.now()).await?.id)
}

/// A live group of two patterns: one that trips, one that wants to be found.
pub(super) async fn pattern_group(bench: &Bench, project: &ProjectId) -> anyhow::Result<()> {
    use crate::clock::Clock as _;
    let now = bench.clock.now();
    let mut members = Vec::new();
    for body in [
        json!({"name": "apologises", "includeTerms": ["sorry", "apologies"]}),
        json!({"name": "confirms", "includeTerms": ["confirm", "sent"], "polarity": "proper"}),
    ] {
        let spec = PatternSpec::create(&body)?;
        let draft =
            ScorerDraft { kind: MemberKind::Pattern, name: spec.name.clone(), spec: serde_json::to_string(&spec)? };
        let scorer = bench.store.create_scorer(project, &draft, now).await?;
        members.push(json!({"kind": "pattern", "refId": scorer.id}));
    }
    group_of(bench, project, &json!(members)).await
}

/// A live group of these members, for every session that was quiet for two minutes.
pub(super) async fn group_of(bench: &Bench, project: &ProjectId, members: &Value) -> anyhow::Result<()> {
    use crate::clock::Clock as _;
    let now = bench.clock.now();
    let group = GroupSpec::create(&json!({
        "name": "bench", "members": members,
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                   "idleSeconds": 120},
    }))?;
    bench.store.create_group(project, &group, now, now).await?;
    Ok(())
}

/// Stores the sessions of these numbers, each of so many turns, each turn a trace of one root, in batches.
pub(super) async fn sessions(
    bench: &Bench,
    project: &ProjectId,
    sessions: Range<u64>,
    turns: u64,
) -> anyhow::Result<()> {
    sessions_alike(bench, project, sessions, turns, 1).await
}

/// The same, with so many neighbours each that hold the same conversation.
pub(super) async fn sessions_alike(
    bench: &Bench,
    project: &ProjectId,
    sessions: Range<u64>,
    turns: u64,
    alike: u64,
) -> anyhow::Result<()> {
    use crate::clock::Clock as _;
    const BATCH: u64 = 500;
    for first in sessions.clone().step_by(usize::try_from(BATCH)?) {
        let now = bench.clock.now();
        let mut spans = Vec::new();
        for session in first..sessions.end.min(first + BATCH) {
            let words = SeededEntropy::new(bench.seed.wrapping_add(session / alike));
            for turn in 0..turns {
                let ago = i64::try_from(turns - turn)?;
                spans.push(turn_of(&words, session, turn, now + Micros::seconds(-20 * ago)));
            }
        }
        let arrival =
            Arrival { project: project.clone(), spans, margin: Micros::seconds(60), trace_settle: Micros::ZERO };
        bench.store.ingest(&[arrival], now).await?;
    }
    Ok(())
}

fn turn_of(random: &SeededEntropy, session: u64, turn: u64, start: crate::domain::time::Timestamp) -> Span {
    let id = format!("{session:016x}{turn:016x}");
    Span {
        origin: Origin::Otlp,
        trace_id: TraceId::trusted(id.as_str()),
        span_id: SpanId::trusted(&id[16..]),
        parent_id: None,
        session_tag: Some(SessionId::trusted(format!("bench-{session:08}"))),
        kind: SpanKind::Agent,
        name: "bench-agent".to_owned(),
        started_at: Some(start),
        ended_at: Some(start + Micros::seconds(2)),
        body: SpanBody {
            input: Some(text(random, 12).into()),
            output: Some(text(random, 40).into()),
            latency_ms: Some(2_000.0),
            ..SpanBody::default()
        },
    }
}

/// So many words.
pub(super) fn text(random: &SeededEntropy, words: usize) -> String {
    let word = |_| WORDS[usize::try_from(random.below(WORDS.len() as u64)).unwrap_or(0)];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}
