//! Shares: what one trace adds to the standing of each session, so that a session's counts follow its spans exactly.

use std::collections::BTreeMap;

use super::ids::{SessionId, SpanId};
use super::time::{Micros, Timestamp};
use super::turns::{self, Node};

/// The light facts of one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanFacts {
    /// The span.
    pub span_id: SpanId,
    /// Its parent, known or not.
    pub parent_id: Option<SpanId>,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// Its place in time.
    pub at: Timestamp,
    /// When its present content arrived.
    pub arrived_at: Timestamp,
    /// Whether there is anything in it that members could read.
    pub content: bool,
    /// Whether it reports an error.
    pub error: bool,
    /// How long it took.
    pub latency: Micros,
}

/// What one trace adds to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Turns led by a root.
    pub turns: i64,
    /// Turns whose root has not arrived: 0 or 1.
    pub rootless: i64,
    /// Spans.
    pub spans: i64,
    /// Spans that report an error.
    pub errors: i64,
    /// How long its roots took together.
    pub latency: Micros,
    /// The place in time of its first span.
    pub first_at: Timestamp,
    /// The place in time of its last span.
    pub recent_at: Timestamp,
    /// The place in time of its last turn led by a root.
    pub last_turn_at: Option<Timestamp>,
    /// The last arrival in a turn whose root has not arrived.
    pub rootless_at: Option<Timestamp>,
}

/// What one trace adds to each session, from all its spans.
pub fn of_trace(spans: &[SpanFacts]) -> BTreeMap<SessionId, Share> {
    let mut by_session: BTreeMap<&SessionId, Vec<&SpanFacts>> = BTreeMap::new();
    for span in spans {
        if let Some(session) = &span.session {
            by_session.entry(session).or_default().push(span);
        }
    }
    by_session.into_iter().map(|(session, spans)| (session.clone(), share(&spans))).collect()
}

/// What a trace comes to by itself, whichever sessions its spans belong to.
pub fn of_whole_trace(spans: &[&SpanFacts]) -> Share {
    share(spans)
}

fn share(spans: &[&SpanFacts]) -> Share {
    let nodes: Vec<Node<'_>> = spans
        .iter()
        .map(|span| Node {
            span_id: &span.span_id,
            parent_id: span.parent_id.as_ref(),
            at: span.at,
            content: span.content,
        })
        .collect();
    let turns = turns::of_trace(&nodes);
    let rooted = || turns.iter().filter(|turn| turn.rooted);
    let is_rootless = turns.iter().any(|turn| !turn.rooted);
    Share {
        turns: count(rooted().count()),
        rootless: i64::from(is_rootless),
        spans: count(spans.len()),
        errors: count(spans.iter().filter(|span| span.error).count()),
        latency: Micros::new(
            spans.iter().filter(|span| span.parent_id.is_none()).fold(0, |sum, span| sum + span.latency.get()),
        ),
        first_at: spans.iter().map(|span| span.at).min().unwrap_or(Timestamp::LATEST),
        recent_at: spans.iter().map(|span| span.at).max().unwrap_or(Timestamp::EARLIEST),
        last_turn_at: rooted().map(|turn| spans[turn.heads[0]].at).max(),
        rootless_at: if is_rootless { spans.iter().map(|span| span.arrived_at).max() } else { None },
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: Option<&str>, session: &str, at: i64) -> SpanFacts {
        SpanFacts {
            span_id: SpanId::trusted(id),
            parent_id: parent.map(SpanId::trusted),
            session: Some(SessionId::trusted(session)),
            at: Timestamp::from_micros(at),
            arrived_at: Timestamp::from_micros(at + 100),
            content: true,
            error: id == "c",
            latency: Micros::new(7),
        }
    }

    #[test]
    fn a_trace_shared_by_two_sessions_is_a_turn_of_both() {
        let shares = of_trace(&[span("r", None, "A", 1), span("c", Some("r"), "A", 2), span("x", Some("r"), "B", 3)]);
        let a = &shares[&SessionId::trusted("A")];
        assert_eq!((a.turns, a.rootless, a.spans, a.errors, a.latency.get()), (1, 0, 2, 1, 7));
        assert_eq!(a.last_turn_at, Some(Timestamp::from_micros(1)));
        let b = &shares[&SessionId::trusted("B")];
        assert_eq!((b.turns, b.rootless, b.spans), (0, 1, 1));
        assert_eq!(b.rootless_at, Some(Timestamp::from_micros(103)));
    }
}
