//! Signals: deduplicated alerts, drafted from verdicts.

use super::conversation::Agent;
use super::group::Severity;
use super::ids::{SessionId, TraceId};
use super::verdict::Verdict;

/// The type of a signal raised by a session's rating.
pub const LOW_SESSION_SCORE: &str = "scorer_group_low_session_score";

/// A signal about to be raised, or raised again.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalDraft {
    /// What it is keyed by, beside project and agent: `scorer-group:<id>`.
    pub pattern_key: String,
    /// Its type.
    pub signal_type: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What happened, in one sentence.
    pub summary: String,
    /// The group's name.
    pub root_cause: String,
    /// The agent concerned.
    pub agent: Option<Agent>,
    /// The session concerned.
    pub session: SessionId,
    /// Its last turn's trace.
    pub trace: TraceId,
    /// The rating that raised it, where one did.
    pub rating: Option<f64>,
    /// The threshold it fell below.
    pub threshold: Option<f64>,
    /// The verdict's text, or what else raised it.
    pub justification: String,
}

/// The key of everything that a scorer group says.
pub fn group_key(group_id: &str) -> String {
    format!("scorer-group:{group_id}")
}

/// The signal that a session's verdict raises: its rating lies strictly below the group's threshold.
pub fn of_verdict(verdict: &Verdict) -> Option<SignalDraft> {
    let rating = verdict.composition.rating?;
    let threshold = verdict.alert_threshold.filter(|threshold| rating < *threshold)?;
    let justification = &verdict.composition.justification;
    Some(SignalDraft {
        pattern_key: group_key(verdict.group.as_str()),
        signal_type: LOW_SESSION_SCORE,
        severity: verdict.severity,
        summary: format!(
            "Scorer group \"{}\" rated session {} {rating:.1}/10 (below the {threshold} threshold): {justification}",
            verdict.group_name, verdict.session,
        ),
        root_cause: verdict.group_name.clone(),
        agent: verdict.agent.clone(),
        session: verdict.session.clone(),
        trace: verdict.anchor_trace.clone(),
        rating: Some(rating),
        threshold: Some(threshold),
        justification: justification.clone(),
    })
}
