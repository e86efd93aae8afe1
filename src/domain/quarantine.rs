//! Quarantine: a session that swallows everything is held, before it costs more than it tells.

use super::group::Severity;
use super::ids::{SessionId, TraceId};
use super::signal::{Polarity, SignalDraft};

/// The type of a signal raised by a session that is held.
pub const SESSION_QUARANTINED: &str = "session_quarantined";

/// How large a session may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Turns; from so many on it is held.
    pub max_turns: i64,
    /// Spans; from so many on it is held.
    pub max_spans: i64,
}

/// How large a session is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Its turns, those whose root has not arrived among them.
    pub turns: i64,
    /// Its spans.
    pub spans: i64,
}

impl Limits {
    /// Why a session of this size is to be held, `released` being its size when an operator last let it go on: from there it
    /// may grow by the limits once more.
    pub fn exceeded_by(&self, size: Size, released: Size) -> Option<String> {
        if size.turns - released.turns >= self.max_turns {
            return Some(format!("it has {} turns (sweep.max_turns is {})", size.turns, self.max_turns));
        }
        (size.spans - released.spans >= self.max_spans)
            .then(|| format!("it has {} spans (sweep.max_spans is {})", size.spans, self.max_spans))
    }
}

/// A session that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Since when.
    pub since: super::time::Timestamp,
    /// Why.
    pub reason: String,
}

/// The signal that tells of it. One signal a project, with each session an occurrence.
pub fn signal(session: &SessionId, reason: &str) -> SignalDraft {
    SignalDraft {
        pattern_key: "session-quarantine".to_owned(),
        signal_type: SESSION_QUARANTINED.to_owned(),
        polarity: Polarity::Failure,
        severity: Severity::High,
        summary: format!(
            "Session {session} is quarantined: {reason}. What arrives for it is dropped until it is released; see that \
             conversations get ids of their own"
        ),
        root_cause: "one session id that many conversations share".to_owned(),
        agent: None,
        session: session.clone(),
        trace: TraceId::trusted(""),
        rating: None,
        threshold: None,
        justification: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_held_at_either_limit_and_again_after_as_much_once_it_was_released() {
        let limits = Limits { max_turns: 10, max_spans: 100 };
        let size = |turns, spans| Size { turns, spans };
        let none = Size::default();
        assert_eq!(limits.exceeded_by(size(9, 99), none), None);
        assert_eq!(limits.exceeded_by(size(10, 99), none).as_deref(), Some("it has 10 turns (sweep.max_turns is 10)"));
        assert_eq!(
            limits.exceeded_by(size(9, 100), none).as_deref(),
            Some("it has 100 spans (sweep.max_spans is 100)")
        );
        assert_eq!(limits.exceeded_by(size(19, 199), size(10, 100)), None);
        assert!(limits.exceeded_by(size(20, 150), size(10, 100)).is_some());
    }
}
