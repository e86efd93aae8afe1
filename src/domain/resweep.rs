//! Re-sweeps: what an operator may order, which sessions that means, and how each of them ends.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::assessment::{Assessment, Goal};
use super::compose::Scorecard;
use super::conversation::Agent;
use super::ids::{GroupId, SessionId};
use super::plan::{LiveGroup, Standing};
use super::problems::{Problems, Reader};
use super::sample;
use super::time::Timestamp;

/// The most sessions that one order names one by one.
pub const MOST_NAMED: usize = 1000;

/// Which of the sessions that match are judged again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Those whose content no verdict covers, as far as the sample keeps them or the order names them.
    Uncovered,
    /// Those whose latest verdict was made by an older version of the group or of one of its scorers.
    Stale,
    /// Those whose latest verdict was composed without members that were waited for in vain.
    Incomplete,
    /// All of them, sampled or not.
    All,
}

impl Mode {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Uncovered => "uncovered",
            Self::Stale => "stale",
            Self::Incomplete => "incomplete",
            Self::All => "all",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Uncovered, Self::Stale, Self::Incomplete, Self::All].into_iter().find(|mode| mode.as_str() == name)
    }
}

/// What is ordered of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Which of the sessions that match.
    pub mode: Mode,
    /// Only sessions whose last turn is not before this moment.
    pub from: Option<Timestamp>,
    /// Only sessions whose last turn is not after this moment.
    pub to: Option<Timestamp>,
    /// Only these sessions; empty is all.
    pub sessions: Vec<SessionId>,
    /// Only sessions of this agent, by id or name.
    pub agent: Option<String>,
    /// Whether judges are asked again although their answers are known.
    pub fresh: bool,
    /// Whether sessions that are not quiet yet are judged all the same.
    pub force: bool,
    /// Whether verdicts raise signals.
    pub signals: bool,
    /// The most sessions judged again.
    pub limit: Option<i64>,
    /// The scorecard in place of the group's own, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorecard_id: Option<String>,
    /// That scorecard as it was when the order was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorecard: Option<Scorecard>,
    /// Why, for people who look at it later.
    pub reason: String,
}

/// An order as it comes from the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The group that judges again.
    pub group: GroupId,
    /// What is ordered.
    pub order: Order,
    /// Whether only to count what it would come to.
    pub is_dry_run: bool,
}

impl Asked {
    /// Reads `{groupId, mode?, from?, to?, sessionIds?, agent?, fresh?, force?, signals?, limit?, scorecardId?, reason, dryRun?}`. A dry run
    /// needs no reason; the mode is `uncovered` where none is given.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn read(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(body, &mut problems);
        let group = reader.given("groupId").and_then(Value::as_str).and_then(|id| GroupId::parse(id).ok());
        reader.problems.unless(group.is_some(), || "groupId must be the id of a scorer group".to_owned());
        let is_dry_run = flag(&mut reader, "dryRun");
        let order = Order {
            mode: mode(&mut reader),
            from: moment(&mut reader, "from"),
            to: moment(&mut reader, "to"),
            sessions: sessions(&mut reader),
            agent: text(&mut reader, "agent"),
            fresh: flag(&mut reader, "fresh"),
            force: flag(&mut reader, "force"),
            signals: flag(&mut reader, "signals"),
            limit: reader
                .read("limit", "a whole number of at least 1", |value| value.as_i64().filter(|limit| *limit >= 1)),
            scorecard_id: text(&mut reader, "scorecardId"),
            scorecard: None,
            reason: text(&mut reader, "reason").unwrap_or_default(),
        };
        problems.unless(is_dry_run || !order.reason.trim().is_empty(), || {
            "reason must say why, in 1-500 characters".to_owned()
        });
        problems.unless(order.from.zip(order.to).is_none_or(|(from, to)| from <= to), || {
            "from must not be after to".to_owned()
        });
        let Some(group) = group else { return Err(problems) };
        problems.into_result(Self { group, order, is_dry_run })
    }
}

fn flag(reader: &mut Reader, key: &str) -> bool {
    reader.read(key, "true or false", Value::as_bool).unwrap_or_default()
}

fn text(reader: &mut Reader, key: &str) -> Option<String> {
    let fits = |text: &&str| (1..=500).contains(&text.chars().count()) && !text.contains('\0');
    reader.read(key, "text of 1-500 characters", |value| value.as_str().filter(fits).map(str::to_owned))
}

fn mode(reader: &mut Reader) -> Mode {
    let mode =
        reader.read("mode", "one of: uncovered, stale, incomplete, all", |value| Mode::from_name(value.as_str()?));
    mode.unwrap_or(Mode::Uncovered)
}

fn moment(reader: &mut Reader, key: &str) -> Option<Timestamp> {
    reader.read(key, "a time like 2026-01-31T09:00:00Z", |value| Timestamp::parse(value.as_str()?))
}

fn sessions(reader: &mut Reader) -> Vec<SessionId> {
    let ids = reader.given("sessionIds").map(|value| {
        let ids: Option<Vec<SessionId>> =
            value.as_array().and_then(|items| items.iter().map(|item| SessionId::parse(item.as_str()?).ok()).collect());
        ids.filter(|ids| (1..=MOST_NAMED).contains(&ids.len()))
    });
    reader.problems.unless(ids != Some(None), || format!("sessionIds must list 1-{MOST_NAMED} session ids"));
    ids.flatten().unwrap_or_default()
}

/// A session as an order looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Where it stands.
    pub standing: Standing,
    /// Its last turn's own place in time.
    pub at: Timestamp,
    /// What the group's verdicts cover.
    pub covered: Goal,
    /// Whether the group's latest verdict was made by an older version of the group or of one of its scorers.
    pub is_outdated: bool,
    /// Whether the group's latest verdict is incomplete.
    pub is_incomplete: bool,
}

/// What an order makes of a session that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The group's sample keeps it.
    pub is_sampled: bool,
    /// A verdict covers its content already.
    pub is_covered: bool,
    /// It is to be judged again.
    pub is_wanted: bool,
}

impl Order {
    /// Whether a session's times and turns match.
    pub fn matches(&self, candidate: &Candidate, group: &LiveGroup) -> bool {
        let turns = candidate.standing.turns + candidate.standing.rootless;
        turns >= group.min_turns && self.is_within(candidate)
    }

    /// Whether a session's times match.
    pub fn is_within(&self, candidate: &Candidate) -> bool {
        self.from.is_none_or(|from| candidate.at >= from) && self.to.is_none_or(|to| candidate.at <= to)
    }

    /// Whether a conversation's agent matches.
    pub fn is_of(&self, agent: Option<&Agent>) -> bool {
        let Some(wanted) = &self.agent else { return true };
        agent.is_some_and(|agent| agent.id == *wanted || agent.name == *wanted)
    }

    /// What becomes of a session that matches.
    pub fn choose(&self, candidate: &Candidate, group: &LiveGroup) -> Choice {
        let session = &candidate.standing.session;
        let is_sampled = sample::draw(session.as_str(), group.id.as_str()).kept_at(group.sample_rate);
        let is_covered = candidate.covered.revision >= candidate.standing.revision;
        let is_wanted = match self.mode {
            Mode::Uncovered => !is_covered && (is_sampled || self.sessions.contains(session)),
            Mode::Stale => candidate.is_outdated,
            Mode::Incomplete => candidate.is_incomplete,
            Mode::All => true,
        };
        Choice { is_sampled, is_covered, is_wanted }
    }
}

/// What an order would come to, counted before anything is spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Sessions that match the filter and have turns enough.
    pub matched: i64,
    /// Sessions of that time whose spans were pruned: they can't be judged again.
    pub pruned: i64,
    /// Those of them that the group's sample keeps.
    pub sampled: i64,
    /// Those of them whose content a verdict covers already.
    pub covered: i64,
    /// Those of them that would be judged again, within the limit.
    pub to_judge: i64,
    /// The calls of judges that this takes where each question is answered at once; answers that are known already cost none.
    pub judge_calls: i64,
    /// What those calls come to, at the mean cost of each scorer's calls of late; null where one of them has no such calls.
    pub cost: Option<f64>,
}

impl Estimate {
    /// Counts a session that matches.
    pub fn count(&mut self, choice: Choice) {
        self.matched += 1;
        self.sampled += i64::from(choice.is_sampled);
        self.covered += i64::from(choice.is_covered);
        self.to_judge += i64::from(choice.is_wanted);
    }

    /// The estimate of a limited order, where one session asks so many questions and costs so much.
    #[must_use]
    pub fn within(self, limit: Option<i64>, questions: i64, cost: Option<f64>) -> Self {
        let to_judge = limit.map_or(self.to_judge, |limit| self.to_judge.min(limit));
        #[allow(clippy::cast_precision_loss, reason = "an estimate of fewer sessions than a float counts exactly")]
        let cost = cost.map(|cost| cost * to_judge as f64);
        Self { to_judge, judge_calls: to_judge.saturating_mul(questions), cost, ..self }
    }
}

/// The state of a re-sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It goes on.
    Running,
    /// It orders no more until it is resumed; what it ordered already is judged.
    Paused,
    /// It was ended; what was ordered and not yet judged is not judged.
    Cancelled,
    /// Everything it ordered has ended.
    Done,
}

/// What people may do with a re-sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Let it rest.
    Pause,
    /// Let it go on.
    Resume,
    /// End it.
    Cancel,
}

impl State {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Done => "done",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Running, Self::Paused, Self::Cancelled, Self::Done].into_iter().find(|state| state.as_str() == name)
    }

    /// The state after an act; `None` where it has ended and the act would change that. Doing again what was done is no error.
    pub const fn after(self, act: Act) -> Option<Self> {
        match (self, act) {
            (Self::Running | Self::Paused, Act::Pause) => Some(Self::Paused),
            (Self::Running | Self::Paused, Act::Resume) => Some(Self::Running),
            (Self::Running | Self::Paused | Self::Cancelled, Act::Cancel) => Some(Self::Cancelled),
            _ => None,
        }
    }
}

/// How a session that a re-sweep ordered ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemEnd {
    /// A verdict, or the finding that none is possible, covers the round.
    Judged,
    /// Errors of our own ended the trying.
    Failed,
    /// The group no longer wants it.
    Withdrawn,
}

impl ItemEnd {
    /// Its name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Judged => "judged",
            Self::Failed => "failed",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// How the order of `round` ended with an assessment that stands like this; `None` where it goes on.
    pub fn of(assessment: &Assessment, round: i64, max_attempts: i64) -> Option<Self> {
        if assessment.covered.round >= round {
            Some(Self::Judged)
        } else if assessment.wanted.round < round {
            Some(Self::Withdrawn)
        } else if assessment.attempts >= max_attempts {
            Some(Self::Failed)
        } else {
            None
        }
    }
}

/// How a session is judged in the round that was ordered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Terms {
    /// Where judges are asked again, the order that asks: its answers are kept apart from those known before, so that a crash
    /// does not make it ask twice.
    pub fresh: Option<String>,
    /// Whether it is judged although it is not quiet.
    pub force: bool,
    /// Whether the verdict raises a signal.
    pub signals: bool,
    /// The scorecard in place of the group's own.
    pub scorecard: Option<Scorecard>,
}

/// How many sessions of a re-sweep stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Ordered so far.
    pub ordered: i64,
    /// Ordered and not yet ended.
    pub open: i64,
    /// Judged, or found to be beyond judging.
    pub judged: i64,
    /// Given up after errors of our own.
    pub failed: i64,
    /// No longer wanted by the group.
    pub withdrawn: i64,
    /// Ordered and cancelled before they were judged.
    pub cancelled: i64,
}

/// How long a running re-sweep will go on, in seconds, at the pace since it was ordered; `None` before the first session has
/// ended or where nobody knows how many there are.
pub fn eta_seconds(counts: Counts, expected: Option<i64>, elapsed_seconds: i64) -> Option<i64> {
    let ended = counts.judged + counts.failed + counts.withdrawn;
    let left = expected?.max(counts.ordered) - ended - counts.cancelled;
    (ended > 0).then(|| elapsed_seconds.max(1).saturating_mul(left.max(0)) / ended)
}

#[cfg(test)]
#[path = "resweep_tests.rs"]
mod tests;
