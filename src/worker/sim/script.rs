//! What goes into a simulated world: spans, groups and judges, drawn from its seed, and what the judge replies.

use std::sync::Arc;

use serde_json::json;

use super::model::{self, Piece};
use crate::domain::group::{GroupSpec, Member, MemberKind, OnlineProfile, Scope, Severity};
use crate::domain::ids::{SessionId, SpanId, TraceId};
use crate::domain::judge::JudgeSpec;
use crate::domain::span::{Origin, Span, SpanBody, SpanKind};
use crate::domain::time::{Micros, Timestamp};
use crate::entropy::SeededEntropy;

/// When every world begins.
pub(super) const START: Timestamp = Timestamp::from_micros(1_793_500_000_000_000);

pub(super) const SESSIONS: u64 = 4;
pub(super) const JUDGES: u64 = 2;

pub(super) fn span(piece: Piece) -> Span {
    let began = START + Micros::seconds(i64::try_from(piece.turn).expect("few turns") - 10_000);
    let word = piece.word();
    let said = if piece.is_bad() { format!("say w{word} badly") } else { format!("say w{word}") };
    Span {
        origin: Origin::Otlp,
        trace_id: TraceId::trusted(format!("{}-{}", piece.session, piece.turn)),
        span_id: SpanId::trusted(if piece.child { "child" } else { "root" }),
        parent_id: piece.child.then(|| SpanId::trusted("root")),
        session_tag: piece.tagged.then(|| SessionId::trusted(model::name(piece.session))),
        kind: SpanKind::Agent,
        name: "turn".to_owned(),
        started_at: Some(began),
        ended_at: Some(began + Micros::millis(i64::try_from(piece.version).expect("few versions"))),
        body: SpanBody { input: Some(json!(format!("ask w{word}"))), output: Some(json!(said)), ..SpanBody::default() },
    }
}

/// Draws what is sent next: new turns, changed ones, old ones again, children before and after their roots.
pub(super) fn pieces(dice: &SeededEntropy) -> Vec<Piece> {
    let draw = |_| {
        let (child, session, turn) = (dice.below(4) == 0, dice.below(SESSIONS), dice.below(5));
        Piece {
            session,
            turn,
            child,
            // The same span always says the same of its session.
            tagged: !child || (session + turn).is_multiple_of(2),
            version: [0, 0, 0, 1, 1, 2][below(dice, 6)],
        }
    };
    (0..=dice.below(3)).map(draw).collect()
}

/// What is said next by somebody who goes on talking.
pub(super) fn chat(session: u64, number: u64) -> Piece {
    Piece { session, turn: 4, child: false, tagged: true, version: 2 + number }
}

pub(super) fn rubric_text(rubric: u64) -> String {
    let body = json!({"name": "a judge", "judge": {"acceptanceCriteria": format!("the rubric jj{rubric} holds")}});
    serde_json::to_string(&JudgeSpec::create(&body).expect("a judge")).expect("JSON")
}

/// A number below `bound`, for indexes.
pub(super) fn below(dice: &SeededEntropy, bound: usize) -> usize {
    usize::try_from(dice.below(bound as u64)).expect("it is below a usize")
}

/// The rubric of a judge at a version.
pub(super) fn rubric(judge: u64, version: i64) -> u64 {
    judge * 1000 + u64::try_from(version).expect("versions begin at 1")
}

pub(super) fn group(dice: &SeededEntropy, judges: &[String], pattern: &str) -> GroupSpec {
    let one_of = |values: &[f64]| values[below(dice, values.len())];
    let member = |kind, ref_id: &str| Member {
        weight: one_of(&[1.0, 1.0, 2.0, 0.5, 0.0]),
        gate: dice.below(5) == 0,
        ..Member::plain(kind, ref_id)
    };
    let mut members = vec![member(MemberKind::Judge, &judges[below(dice, judges.len())])];
    if dice.below(2) == 0 {
        members.push(member(MemberKind::Pattern, pattern));
    }
    if dice.below(3) == 0 && members[0].ref_id != judges[1] {
        members.push(member(MemberKind::Judge, &judges[1]));
    }
    GroupSpec {
        name: "a group".to_owned(),
        description: None,
        members,
        aggregation: None,
        pass_threshold: None,
        output_type: None,
        scorecard_id: None,
        cheap_gates_first: false,
        online: Some(profile(dice)),
    }
}

pub(super) fn profile(dice: &SeededEntropy) -> OnlineProfile {
    let pick = |values: [i64; 4]| values[below(dice, 4)];
    OnlineProfile {
        enabled: dice.below(8) > 0,
        sample_rate: [1.0, 1.0, 1.0, 0.5, 0.0][below(dice, 5)],
        alert_threshold: (dice.below(3) > 0).then_some(5.0),
        severity: Severity::Medium,
        scope: Scope::Session,
        idle_seconds: pick([0, 30, 120, 600]),
        min_turns: pick([2, 2, 2, 3]),
        agents: None,
    }
}

/// What a call asks: the rubric, and the words of the conversation. The same question has the same name.
pub(super) fn question(system: &str, user: &str) -> String {
    let rubric: String = after(system, "jj").expect("every rubric has its mark");
    let mut words: Vec<String> = Vec::new();
    for line in user.lines() {
        if let Some(word) = after(line, "ask w") {
            words.push(word);
        }
    }
    format!("q{rubric}:{}", words.join(","))
}

fn after(text: &str, mark: &str) -> Option<String> {
    let (_, rest) = text.split_once(mark)?;
    Some(rest.chars().take_while(char::is_ascii_digit).collect())
}

/// The reply of a judge that knows what it thinks.
pub(super) fn reply(system: &str, question: &str) -> String {
    let (rubric, words) = question.trim_start_matches('q').split_once(':').expect("a question");
    let words: Vec<u64> = words.split(',').map(|word| word.parse().expect("a word")).collect();
    let rating = model::judged(rubric.parse().expect("a rubric"), &words);
    let (_, nonce) = system.split_once("The nonce is \"").expect("a nonce");
    let nonce = nonce.split('"').next().expect("a nonce");
    json!({"nonce": nonce, "rating": rating, "justification": question, "evidence": null}).to_string()
}

/// What is shared by all worlds of a thread.
pub(super) type Dice = Arc<SeededEntropy>;
