//! Explaining: why a session has the verdict it has from a group, or none. The answer to "why no score?" for any session.

use serde::Serialize;

use super::assessment::{Assessment, Goal, State};
use super::block::Block;
use super::conversation::Agent;
use super::plan::{LiveGroup, NotNow, Patience, Standing};
use super::quarantine::Held;
use super::sample;
use super::time::Timestamp;

/// Who holds a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The worker.
    pub owner: String,
    /// Since when.
    pub since: Timestamp,
    /// Until when, unless it is renewed.
    pub until: Timestamp,
}

/// The latest verdict of a group on a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Latest {
    /// What was read.
    pub read: Goal,
    /// The rating on 0-10; `None` is no score.
    pub rating: Option<f64>,
    /// Which share of its members gave a score, 0-1.
    pub coverage: f64,
    /// The text people read.
    pub justification: String,
}

/// Everything that is known of one (session, group) pair.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Where the session stands; `None` where nothing of it is stored.
    pub standing: Option<Standing>,
    /// Why it is quarantined, where it is.
    pub held: Option<Held>,
    /// The group as planning sees it; `None` where it does not score sessions live.
    pub group: Option<LiveGroup>,
    /// The agent that held the session; `None` where it names none, and where nobody selects by it.
    pub agent: Option<Agent>,
    /// The obligation, where there is one.
    pub assessment: Option<Assessment>,
    /// Who holds the session.
    pub lease: Option<Lease>,
    /// How many sessions are due before it.
    pub ahead: i64,
    /// Why the group's due sessions are left alone, where they are.
    pub block: Option<Block>,
    /// The latest verdict.
    pub latest: Option<Latest>,
}

/// What became of a session in the eyes of a group, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Decision {
    /// Nothing of the session is stored.
    Unknown,
    /// The session grew beyond the limits; nothing is done for it until an operator releases it.
    Quarantined {
        /// Why.
        reason: String,
        /// Since when.
        since: String,
    },
    /// The group is off, deleted, or scores single traces.
    NotLive,
    /// Its spans were pruned. What arrived since is not judged.
    Pruned {
        /// When.
        at: String,
    },
    /// Fewer turns than the group judges.
    TooFewTurns {
        /// How many it has.
        turns: i64,
        /// How many the group wants.
        min_turns: i64,
    },
    /// The stable hash leaves it out at the group's rate.
    SampledOut {
        /// The hash, in hexadecimal.
        hash: String,
        /// The hash on 0..1.
        unit: f64,
        /// The rate; a unit below it is kept.
        rate: f64,
    },
    /// Not quiet long enough yet.
    Active {
        /// When it will have been, if nothing new arrives.
        until: String,
    },
    /// Its agent is none of those that the group selects.
    OtherAgent {
        /// The agent that held it; null where it names none.
        agent: Option<Agent>,
        /// The agents that are selected, by id or name.
        selected: Vec<String>,
    },
    /// Quiet; the next sweep takes it up.
    Unplanned,
    /// Due; a worker takes it when its turn comes.
    Waiting {
        /// How many sessions are due before it.
        ahead: i64,
    },
    /// A worker holds it.
    Judging {
        /// The worker.
        by: String,
        /// Since when.
        since: String,
    },
    /// Due, but not to be tried for the time being.
    Deferred {
        /// Why.
        reason: String,
        /// Until when; null where somebody has to lift it.
        until: Option<String>,
    },
    /// Given up until new content or a re-sweep asks again.
    Failed {
        /// What went wrong last.
        error: String,
        /// How often it was tried.
        attempts: i64,
    },
    /// Judged at its present content.
    Judged {
        /// The content version that was read.
        revision: i64,
        /// The rating on 0-10.
        rating: f64,
        /// Which share of the group's members gave a score, 0-1: the others failed, or had nothing to say.
        coverage: f64,
    },
    /// Found to be beyond judging at its present content.
    NoScore {
        /// The content version that was read.
        revision: i64,
        /// Why.
        reason: String,
    },
}

/// Decides what to say of a pair. The order is that of a person's questions: is it judged, is somebody at it, what does it wait
/// for.
pub fn decide(facts: &Facts, now: Timestamp, patience: Patience, max_attempts: i64) -> Decision {
    let Some(standing) = &facts.standing else { return Decision::Unknown };
    if let Some(held) = &facts.held {
        return Decision::Quarantined { reason: held.reason.clone(), since: held.since.iso() };
    }
    let held = facts.lease.as_ref().filter(|lease| lease.until > now);
    let block = facts.block.as_ref().filter(|block| block.holds(now));
    let state = facts.assessment.as_ref().map(|it| (it, it.state(now, held.is_some(), max_attempts)));
    match state {
        Some((_, State::Current)) if standing.pruned_at.is_some() && facts.latest.is_none() => pruned(standing),
        Some((it, State::Current)) if it.covered.revision >= standing.revision => judged(facts, it),
        Some((it, State::Failed)) => Decision::Failed { error: error_of(it), attempts: it.attempts },
        // Whoever takes it up will find so, as soon as it is read.
        Some((_, State::Waiting | State::Deferred)) if let Some(other) = other_agent(facts) => other,
        Some((it, State::Deferred)) => Decision::Deferred { reason: error_of(it), until: Some(it.not_before.iso()) },
        Some((_, State::Judging)) => match held {
            Some(lease) => Decision::Judging { by: lease.owner.clone(), since: lease.since.iso() },
            None => Decision::Waiting { ahead: facts.ahead },
        },
        Some((_, State::Waiting)) if let Some(block) = block => {
            Decision::Deferred { reason: block.reason.clone(), until: block.until.map(Timestamp::iso) }
        }
        Some((_, State::Waiting)) => Decision::Waiting { ahead: facts.ahead },
        Some((_, State::Current | State::Withdrawn)) | None => not_wanted(facts, standing, now, patience),
    }
}

/// A verdict of content that is not the session's any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Superseded {
    /// The content version that was read.
    pub revision: i64,
    /// The rating on 0-10; null is no score.
    pub rating: Option<f64>,
}

impl Superseded {
    /// What it is in words, to be said behind a decision.
    pub fn in_words(&self) -> String {
        let rating = self.rating.map_or_else(|| "no score".to_owned(), |rating| format!("{rating:.1}/10"));
        format!("what was judged at revision {} ({rating}) is superseded", self.revision)
    }
}

/// The latest verdict of a pair that the session has outgrown, beside what is decided of it. None of what was found to read as
/// before: that is judged.
pub fn superseded(facts: &Facts, decision: &Decision) -> Option<Superseded> {
    let (standing, latest) = (facts.standing.as_ref()?, facts.latest.as_ref()?);
    let is_current = matches!(decision, Decision::Judged { .. } | Decision::NoScore { .. });
    let is_outgrown = !is_current && latest.read.revision < standing.revision;
    is_outgrown.then_some(Superseded { revision: latest.read.revision, rating: latest.rating })
}

fn error_of(assessment: &Assessment) -> String {
    assessment.last_error.clone().unwrap_or_else(|| "the session was active again".to_owned())
}

fn judged(facts: &Facts, assessment: &Assessment) -> Decision {
    let revision = assessment.covered.revision;
    match facts.latest.as_ref().and_then(|latest| Some((latest.rating?, latest.coverage))) {
        Some((rating, coverage)) => Decision::Judged { revision, rating, coverage },
        None => Decision::NoScore {
            revision,
            reason: facts.latest.as_ref().map_or_else(|| error_of(assessment), |latest| latest.justification.clone()),
        },
    }
}

/// The sweep asks the same once it has read the conversation.
fn other_agent(facts: &Facts) -> Option<Decision> {
    let group = facts.group.as_ref().filter(|group| !group.selects(facts.agent.as_ref()))?;
    Some(Decision::OtherAgent { agent: facts.agent.clone(), selected: group.agents.clone().unwrap_or_default() })
}

fn pruned(standing: &Standing) -> Decision {
    Decision::Pruned { at: standing.pruned_at.map_or_else(String::new, Timestamp::iso) }
}

fn not_wanted(facts: &Facts, standing: &Standing, now: Timestamp, patience: Patience) -> Decision {
    let Some(group) = &facts.group else { return Decision::NotLive };
    match standing.eligible(group, now, patience) {
        Ok(()) => other_agent(facts).unwrap_or(Decision::Unplanned),
        Err(NotNow::Pruned) => pruned(standing),
        Err(NotNow::OtherScope) => Decision::NotLive,
        Err(NotNow::TooFewTurns) => {
            Decision::TooFewTurns { turns: standing.turns + standing.rootless, min_turns: group.min_turns }
        }
        Err(NotNow::SampledOut) => {
            let draw = sample::draw(standing.session.bare(), group.id.as_str());
            Decision::SampledOut { hash: format!("{:016x}", draw.hash), unit: draw.unit, rate: group.sample_rate }
        }
        Err(NotNow::Active(until)) => Decision::Active { until: until.iso() },
    }
}

impl Decision {
    /// The decision in words, for people.
    pub fn in_words(&self) -> String {
        match self {
            Self::Unknown => "nothing of this session is stored".to_owned(),
            Self::Quarantined { reason, since } => {
                format!("quarantined since {since}: {reason}; it goes on once it is released (`afterword release`)")
            }
            Self::Pruned { at } => {
                format!("pruned at {at}: its spans are gone, and what arrives since is not judged without them")
            }
            Self::NotLive => "the group does not score sessions live".to_owned(),
            Self::TooFewTurns { turns, min_turns } => {
                format!("has {turns} of the {min_turns} turns that the group wants")
            }
            Self::SampledOut { hash, unit, rate } => {
                format!("sampled out: hash {hash} gives {unit:.6}, which is not below the rate {rate}")
            }
            Self::Active { until } => format!("still active: quiet at {until}, if nothing new arrives"),
            Self::OtherAgent { agent, selected } => other_agent_in_words(agent.as_ref(), selected),
            Self::Unplanned => "quiet; the next sweep takes it up".to_owned(),
            Self::Waiting { ahead: 0 } => "due; next in line".to_owned(),
            Self::Waiting { ahead } => format!("due; {ahead} sessions are due before it"),
            Self::Judging { by, since } => format!("being judged by {by} since {since}"),
            Self::Deferred { reason, until: Some(until) } => format!("put off until {until}: {reason}"),
            Self::Deferred { reason, until: None } => {
                format!("put off until the group is resumed (`afterword resume`): {reason}")
            }
            Self::Failed { error, attempts } => {
                format!("given up after {attempts} attempts, until new content or a re-sweep: {error}")
            }
            Self::Judged { revision, rating, coverage } => {
                let by = if *coverage < 1.0 {
                    format!(", by {:.0} % of its members: the others gave no score", coverage * 100.0)
                } else {
                    String::new()
                };
                format!("judged at revision {revision}: {rating:.1}/10{by}")
            }
            Self::NoScore { revision, reason } => format!("no score at revision {revision}: {reason}"),
        }
    }
}

/// How many of the agents that are selected are named in words.
const NAMED_AGENTS: usize = 5;

fn other_agent_in_words(agent: Option<&Agent>, selected: &[String]) -> String {
    let who = match agent {
        None => "it names no agent, and only some are selected".to_owned(),
        Some(Agent { id, name }) if id == name => format!("its agent {id} is none of those selected"),
        Some(Agent { id, name }) => format!("its agent {name} ({id}) is none of those selected"),
    };
    let named = selected.iter().take(NAMED_AGENTS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match selected.len() {
        0 => format!("{who}: the list of agents is empty"),
        1..=NAMED_AGENTS => format!("{who}: {named}"),
        many => format!("{who}: {named} and {} more", many - NAMED_AGENTS),
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
