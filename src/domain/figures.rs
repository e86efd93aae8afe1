//! Figures over many verdicts, one a session: means with their samples, members, agents, days, and the worst.

use std::collections::BTreeMap;

use serde::Serialize;

use super::group::MemberKind;
use super::outcome::Outcome;
use super::period::Day;
use super::time::Timestamp;
use super::verdict::MemberReport;

/// The latest verdict of one session, as figures see it.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The rating on 0-10; `None` is no score.
    pub rating: Option<f64>,
    /// Whether it passes, where the group says.
    pub pass: Option<bool>,
    /// The scorecard's score and band.
    pub scored: Option<(f64, &'a str)>,
    /// The version of the group's recipe.
    pub recipe_version: i64,
    /// The last turn's own place in time: the day it counts under.
    pub last_turn_at: Timestamp,
    /// The agent, by id and name.
    pub agent: Option<(&'a str, &'a str)>,
    /// What members said.
    pub members: &'a [MemberReport],
}

/// Numbers and how many there are. The mean and all others are `None` where there are none, and stand to two decimals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub samples: usize,
    /// Their mean.
    pub mean: Option<f64>,
    /// The one in the middle, the mean of both where there are two.
    pub median: Option<f64>,
    /// The lowest.
    pub min: Option<f64>,
    /// The highest.
    pub max: Option<f64>,
}

impl Spread {
    /// The spread of numbers.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let samples = sorted.len();
        let middle = || Some(f64::midpoint(*sorted.get((samples - 1) / 2)?, *sorted.get(samples / 2)?));
        #[allow(clippy::cast_precision_loss, reason = "a count of sessions")]
        let mean = (samples > 0).then(|| sorted.iter().sum::<f64>() / samples as f64);
        Self {
            samples,
            mean: mean.map(hundredths),
            median: if samples == 0 { None } else { middle().map(hundredths) },
            min: sorted.first().copied().map(hundredths),
            max: sorted.last().copied().map(hundredths),
        }
    }
}

/// A value to two decimals, half of the last rounded up. The first rounding takes away the noise of binary fractions: without it
/// 1.025 would be 1.02.
pub fn hundredths(value: f64) -> f64 {
    ((value * 1e8).round() / 1e6).round() / 100.0
}

#[allow(clippy::cast_precision_loss, reason = "a count of sessions")]
pub(super) fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| ((part as f64 / whole as f64 * 1e10).round() / 1e6).round() / 1e4)
}

/// What one member said over many sessions. Numbers are goodness on the scale of ratings, 0-10.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberFigures {
    /// What kind of scorer.
    pub kind: MemberKind,
    /// Its scorer.
    pub ref_id: String,
    /// The name it had last.
    pub name: String,
    /// How many verdicts list it.
    pub listed: usize,
    /// What it scored.
    #[serde(flatten)]
    pub spread: Spread,
    /// The share of those verdicts in which it failed, 0-1.
    pub failure_rate: Option<f64>,
    /// The share in which it declined, 0-1.
    pub decline_rate: Option<f64>,
}

/// A band and how many sessions reached it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BandCount {
    /// The band.
    pub band: String,
    /// How many.
    pub count: usize,
}

/// What scorecards said over many sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScorecardFigures {
    /// Their scores.
    #[serde(flatten)]
    pub spread: Spread,
    /// How many sessions reached each band, the most first.
    pub bands: Vec<BandCount>,
}

/// Everything about one set of sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// The ratings on 0-10.
    #[serde(flatten)]
    pub spread: Spread,
    /// Sessions whose latest verdict has no rating.
    pub unscored: usize,
    /// Sessions that pass, of those that say.
    pub passed: usize,
    /// Sessions that say whether they pass.
    pub pass_samples: usize,
    /// What scorecards said.
    pub scorecard: ScorecardFigures,
    /// What members said, the worst mean first; those who never scored come last.
    pub members: Vec<MemberFigures>,
}

#[derive(Debug, Default)]
struct MemberTally {
    name: String,
    goodness: Vec<f64>,
    failed: usize,
    declined: usize,
}

impl MemberTally {
    fn see(&mut self, report: &MemberReport) {
        report.name.clone_into(&mut self.name);
        match &report.outcome {
            Outcome::Scored { goodness } => self.goodness.push(goodness.get() * 10.0),
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Declined { .. } => self.declined += 1,
        }
    }

    fn figures(self, kind: MemberKind, ref_id: String) -> MemberFigures {
        let listed = self.goodness.len() + self.failed + self.declined;
        MemberFigures {
            kind,
            ref_id,
            name: self.name,
            listed,
            spread: Spread::of(&self.goodness),
            failure_rate: share(self.failed, listed),
            decline_rate: share(self.declined, listed),
        }
    }
}

/// Members by kind and scorer.
type Members = BTreeMap<(MemberKind, String), MemberTally>;

fn see_members(members: &mut Members, reports: &[MemberReport]) {
    for report in reports {
        members.entry((report.kind, report.ref_id.clone())).or_default().see(report);
    }
}

fn members_worst_first(members: Members) -> Vec<MemberFigures> {
    let mut figures: Vec<MemberFigures> =
        members.into_iter().map(|((kind, ref_id), tally)| tally.figures(kind, ref_id)).collect();
    let mean = |it: &MemberFigures| it.spread.mean.unwrap_or(f64::INFINITY);
    figures.sort_by(|a, b| mean(a).total_cmp(&mean(b)).then_with(|| a.name.cmp(&b.name)));
    figures
}

/// Collects the verdicts of a set of sessions.
#[derive(Debug, Default)]
pub struct Tally {
    ratings: Vec<f64>,
    unscored: usize,
    passed: usize,
    pass_samples: usize,
    scores: Vec<f64>,
    bands: BTreeMap<String, usize>,
    members: Members,
}

impl Tally {
    /// Counts one session's latest verdict.
    pub fn see(&mut self, verdict: &Counted<'_>) {
        match verdict.rating {
            Some(rating) => self.ratings.push(rating),
            None => self.unscored += 1,
        }
        self.passed += usize::from(verdict.pass == Some(true));
        self.pass_samples += usize::from(verdict.pass.is_some());
        if let Some((score, band)) = verdict.scored {
            self.scores.push(score);
            *self.bands.entry(band.to_owned()).or_default() += 1;
        }
        see_members(&mut self.members, verdict.members);
    }

    /// The figures.
    pub fn figures(self) -> Figures {
        let mut bands: Vec<BandCount> = self.bands.into_iter().map(|(band, count)| BandCount { band, count }).collect();
        bands.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.band.cmp(&b.band)));
        Figures {
            spread: Spread::of(&self.ratings),
            unscored: self.unscored,
            passed: self.passed,
            pass_samples: self.pass_samples,
            scorecard: ScorecardFigures { spread: Spread::of(&self.scores), bands },
            members: members_worst_first(self.members),
        }
    }
}

/// The figures of one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentFigures {
    /// The agent's id; `None` for conversations that name none.
    pub agent_id: Option<String>,
    /// Its name.
    pub agent_name: Option<String>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A group's figures, all together and by agent.
#[derive(Debug, Default)]
pub struct Summary {
    all: Tally,
    agents: BTreeMap<Option<String>, (Option<String>, Tally)>,
}

impl Summary {
    /// Counts one session's latest verdict.
    pub fn see(&mut self, verdict: &Counted<'_>) {
        self.all.see(verdict);
        let (name, tally) = self.agents.entry(verdict.agent.map(|(id, _)| id.to_owned())).or_default();
        *name = verdict.agent.map(|(_, name)| name.to_owned());
        tally.see(verdict);
    }

    /// The figures of all, and those of each agent, the worst mean first.
    pub fn figures(self) -> (Figures, Vec<AgentFigures>) {
        let mut agents: Vec<AgentFigures> = self
            .agents
            .into_iter()
            .map(|(agent_id, (agent_name, tally))| AgentFigures { agent_id, agent_name, figures: tally.figures() })
            .collect();
        let mean = |it: &AgentFigures| it.figures.spread.mean.unwrap_or(f64::INFINITY);
        agents.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
        (self.all.figures(), agents)
    }
}

/// One day of a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The UTC day of the sessions' last turns.
    pub day: String,
    /// The mean on 0-10, and what it rests on.
    #[serde(flatten)]
    pub spread: Spread,
}

/// An unbroken piece of a line: one version of what was asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Segment {
    /// The version: of the group's recipe, or of the scorer.
    pub version: Option<i64>,
    /// Its days, those without a score left out.
    pub points: Vec<Point>,
}

/// What one scorer said, day by day.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The member's kind; `None` for the group itself.
    pub kind: Option<MemberKind>,
    /// The member's scorer; `None` for the group itself.
    pub ref_id: Option<String>,
    /// The name it had last.
    pub name: String,
    /// Its pieces, by version.
    pub segments: Vec<Segment>,
}

#[derive(Debug, Default)]
struct LineTally {
    name: String,
    values: BTreeMap<(Option<i64>, Day), Vec<f64>>,
}

/// A group's lines, its own and those of its members, day by day, broken where versions change.
#[derive(Debug, Default)]
pub struct Trend {
    lines: BTreeMap<Option<(MemberKind, String)>, LineTally>,
}

impl Trend {
    /// Counts one session's latest verdict; `group` is the name of the group.
    pub fn see(&mut self, group: &str, verdict: &Counted<'_>) {
        let day = Day::of(verdict.last_turn_at);
        let own = self.lines.entry(None).or_default();
        group.clone_into(&mut own.name);
        if let Some(rating) = verdict.rating {
            own.values.entry((Some(verdict.recipe_version), day)).or_default().push(rating);
        }
        for report in verdict.members {
            let line = self.lines.entry(Some((report.kind, report.ref_id.clone()))).or_default();
            report.name.clone_into(&mut line.name);
            if let Some(goodness) = report.outcome.goodness() {
                line.values.entry((report.version, day)).or_default().push(goodness.get() * 10.0);
            }
        }
    }

    /// The lines, the group's first.
    pub fn lines(self) -> Vec<Line> {
        let line = |(scorer, tally): (Option<(MemberKind, String)>, LineTally)| {
            let mut segments: Vec<Segment> = Vec::new();
            for ((version, day), values) in tally.values {
                if segments.last().is_none_or(|segment| segment.version != version) {
                    segments.push(Segment { version, points: Vec::new() });
                }
                if let Some(segment) = segments.last_mut() {
                    segment.points.push(Point { day: day.text(), spread: Spread::of(&values) });
                }
            }
            let (kind, ref_id) = scorer.unzip();
            Line { kind, ref_id, name: tally.name, segments }
        };
        self.lines.into_iter().map(line).collect()
    }
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
