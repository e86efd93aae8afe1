//! Signals: deduplicated alerts, drafted from verdicts.

use super::conversation::Agent;
use super::group::Severity;
use super::ids::{SessionId, TraceId};
use super::own::Alarm;
use super::verdict::{Verdict, Voice};

/// The type of a signal raised by a session's rating.
pub const LOW_SESSION_SCORE: &str = "scorer_group_low_session_score";
/// The type of a signal raised by the rating of a single trace.
pub const LOW_SCORE: &str = "scorer_group_low_score";
/// The type of a signal raised by what a judge by itself rated a session.
pub const JUDGE_LOW_SESSION_SCORE: &str = "online_evaluator_low_session_score";
/// The type of a signal raised by what a judge by itself rated a single trace.
pub const JUDGE_LOW_SCORE: &str = "online_evaluator_low_score";

/// The type of a signal raised by a pattern of the project's own. One raised by a built-in pattern has its key for a type.
pub const CUSTOM_PATTERN_MATCH: &str = "custom_pattern_match";
/// The type of a signal raised by a custom scorer by itself.
pub const CUSTOM_EVALUATOR_MATCH: &str = "custom_evaluator_match";

/// The id under which the verdicts of the coherence check stand, in the place of a group's.
pub const COHERENCE: &str = "coherence";

/// Whether what a signal tells of is bad or good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polarity {
    /// Bad.
    Failure,
    /// Good: people want to know of it, and nobody needs to do anything.
    Proper,
}

impl Polarity {
    /// That of a pattern: everything but `proper` is a failure.
    pub fn of_pattern(name: &str) -> Self {
        if name == Self::Proper.as_str() { Self::Proper } else { Self::Failure }
    }

    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Proper => "proper",
        }
    }
}

/// A signal about to be raised, or raised again.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalDraft {
    /// What it is keyed by, beside project and agent: `scorer-group:<id>`, or `online-eval:<id>` of a judge by itself,
    /// `custom-eval:<id>` of a custom scorer, the key of a pattern.
    pub pattern_key: String,
    /// Its type.
    pub signal_type: String,
    /// Whether it tells of something bad or good.
    pub polarity: Polarity,
    /// How bad it is.
    pub severity: Severity,
    /// What happened, in one sentence.
    pub summary: String,
    /// The name of the group, or of the scorer by itself.
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

/// The signal that a verdict raises: its rating lies strictly below the group's threshold, or what a scorer that watches found
/// rings its alarm.
pub fn of_verdict(verdict: &Verdict) -> Option<SignalDraft> {
    let rating = verdict.composition.rating?;
    let told = match &verdict.voice {
        Voice::Watch(alarm) => of_watch(verdict, alarm)?,
        Voice::Group => of_rating(verdict, rating, "Scorer group", [LOW_SESSION_SCORE, LOW_SCORE])?,
        Voice::Judge { .. } => of_rating(verdict, rating, "Judge", [JUDGE_LOW_SESSION_SCORE, JUDGE_LOW_SCORE])?,
    };
    Some(SignalDraft {
        pattern_key: told.pattern_key,
        signal_type: told.signal_type,
        polarity: told.polarity,
        severity: verdict.severity,
        summary: told.summary,
        root_cause: verdict.group_name.clone(),
        agent: verdict.agent.clone(),
        session: verdict.session.clone(),
        trace: verdict.anchor_trace.clone(),
        rating: told.threshold.map(|_| rating),
        threshold: told.threshold,
        justification: verdict.composition.justification.clone(),
    })
}

/// What tells the signals of one verdict from those of another.
struct Told {
    pattern_key: String,
    signal_type: String,
    polarity: Polarity,
    summary: String,
    threshold: Option<f64>,
}

fn of_rating(verdict: &Verdict, rating: f64, who: &str, types: [&str; 2]) -> Option<Told> {
    let threshold = verdict.alert_threshold.filter(|threshold| rating < *threshold)?;
    let is_trace = verdict.session.is_trace();
    let did = if is_trace { "scored this response".to_owned() } else { format!("rated session {}", verdict.session) };
    Some(Told {
        pattern_key: scored_key(verdict.group.as_str(), verdict.voice.judge_model()),
        signal_type: types[usize::from(is_trace)].to_owned(),
        polarity: Polarity::Failure,
        summary: format!(
            "{who} \"{}\" {did} {rating:.1}/10 (below the {threshold} threshold): {}",
            verdict.group_name, verdict.composition.justification
        ),
        threshold: Some(threshold),
    })
}

fn of_watch(verdict: &Verdict, alarm: &Alarm) -> Option<Told> {
    let found = verdict.members.first()?;
    if !alarm.rings(found.outcome.goodness(), found.facts.as_ref()) {
        return None;
    }
    Some(Told {
        pattern_key: alarm.pattern_key.clone(),
        signal_type: alarm.signal_type.clone(),
        polarity: alarm.polarity,
        summary: alarm.says(&verdict.group_name, found),
        threshold: alarm.threshold(),
    })
}
