//! Signals: deduplicated alerts, drafted from verdicts.

use super::conversation::Agent;
use super::group::Severity;
use super::ids::{SessionId, TraceId};
use super::verdict::Verdict;

/// The type of a signal raised by a session's rating.
pub const LOW_SESSION_SCORE: &str = "scorer_group_low_session_score";
/// The type of a signal raised by the rating of a single trace.
pub const LOW_SCORE: &str = "scorer_group_low_score";
/// The type of a signal raised by what a judge by itself rated a session.
pub const JUDGE_LOW_SESSION_SCORE: &str = "online_evaluator_low_session_score";
/// The type of a signal raised by what a judge by itself rated a single trace.
pub const JUDGE_LOW_SCORE: &str = "online_evaluator_low_score";

/// The id under which the verdicts of the coherence check stand, in the place of a group's.
pub const COHERENCE: &str = "coherence";

/// A signal about to be raised, or raised again.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalDraft {
    /// What it is keyed by, beside project and agent: `scorer-group:<id>`, or `online-eval:<id>` of a judge by itself.
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
    /// The session concerned, or the trace in its place.
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
    scored_key(group_id, None)
}

/// The key of everything that a scorer group says, or a judge by itself: that one has a model.
pub fn scored_key(id: &str, judge_model: Option<&str>) -> String {
    match judge_model {
        None => format!("scorer-group:{id}"),
        Some(_) if id == COHERENCE => COHERENCE.to_owned(),
        Some(_) => format!("online-eval:{id}"),
    }
}

/// The signal that a verdict raises: its rating lies strictly below the group's threshold.
pub fn of_verdict(verdict: &Verdict) -> Option<SignalDraft> {
    let rating = verdict.composition.rating?;
    let threshold = verdict.alert_threshold.filter(|threshold| rating < *threshold)?;
    let justification = &verdict.composition.justification;
    let is_trace = verdict.session.is_trace();
    let did = if is_trace { "scored this response".to_owned() } else { format!("rated session {}", verdict.session) };
    let (who, pattern_key) = (verdict.scored_by(), scored_key(verdict.group.as_str(), verdict.judge_model.as_deref()));
    Some(SignalDraft {
        pattern_key,
        signal_type: match (verdict.judge_model.is_some(), is_trace) {
            (false, false) => LOW_SESSION_SCORE,
            (false, true) => LOW_SCORE,
            (true, false) => JUDGE_LOW_SESSION_SCORE,
            (true, true) => JUDGE_LOW_SCORE,
        },
        severity: verdict.severity,
        summary: format!(
            "{who} \"{}\" {did} {rating:.1}/10 (below the {threshold} threshold): {justification}",
            verdict.group_name
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
