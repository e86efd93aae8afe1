//! Figures of every scorer of a project, whichever groups it is a member of: a session counts once per scorer.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::{Spread, share};
use super::group::MemberKind;
use super::outcome::Outcome;
use super::signal::group_key;
use super::time::Timestamp;
use super::verdict::MemberReport;

/// What one scorer or group said over many sessions, on 0-10.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorerFigures {
    /// The scorer's id; `scorer-group:<id>` for a group.
    pub scorer: String,
    /// `group`, or the scorer's kind.
    pub kind: &'static str,
    /// The name it had last.
    pub name: String,
    /// Sessions with a word of it, a failure or a decline included.
    pub sessions: usize,
    /// What it scored.
    #[serde(flatten)]
    pub spread: Spread,
    /// The share of sessions in which it failed; of a group, in which it gave no score.
    pub failure_rate: Option<f64>,
    /// The share in which it declined.
    pub decline_rate: Option<f64>,
}

/// What a scorer made of one session.
#[derive(Debug, Clone, Copy)]
enum Word {
    Scored(f64),
    Declined,
    Failed,
}

#[derive(Debug, Default)]
struct Scorer {
    name: String,
    sessions: BTreeMap<String, ((i64, Timestamp), Word)>,
}

/// Collects the latest verdicts of all groups.
#[derive(Debug, Default)]
pub struct Scorers {
    scorers: BTreeMap<(&'static str, String), Scorer>,
}

impl Scorers {
    /// Counts one session's latest verdict by one group: what revision it read, and when it was recorded. Of what a scorer said in
    /// several groups that counts which read most; when it was recorded decides between equals alone.
    pub fn see(
        &mut self,
        group: (&str, &str),
        session: &str,
        at: (i64, Timestamp),
        rating: Option<f64>,
        members: &[MemberReport],
    ) {
        let (id, name) = group;
        self.word("group", group_key(id), name, session, at, rating.map_or(Word::Failed, Word::Scored));
        for member in members {
            let word = match &member.outcome {
                Outcome::Scored { goodness } => Word::Scored(goodness.get() * 10.0),
                Outcome::Declined { .. } => Word::Declined,
                Outcome::Failed { .. } => Word::Failed,
            };
            self.word(MemberKind::as_str(member.kind), member.ref_id.clone(), &member.name, session, at, word);
        }
    }

    fn word(&mut self, kind: &'static str, id: String, name: &str, session: &str, at: (i64, Timestamp), word: Word) {
        let scorer = self.scorers.entry((kind, id)).or_default();
        name.clone_into(&mut scorer.name);
        let place = scorer.sessions.entry(session.to_owned()).or_insert((at, word));
        if place.0 < at {
            *place = (at, word);
        }
    }

    /// The figures, the worst mean first; those who never scored come last.
    pub fn figures(self) -> Vec<ScorerFigures> {
        let figures = self.scorers.into_iter().map(|((kind, scorer), tally)| {
            let words: Vec<Word> = tally.sessions.into_values().map(|(_, word)| word).collect();
            let scored = |word: &Word| if let Word::Scored(value) = word { Some(*value) } else { None };
            let count = |is: fn(&Word) -> bool| share(words.iter().filter(|word| is(word)).count(), words.len());
            ScorerFigures {
                scorer,
                kind,
                name: tally.name,
                sessions: words.len(),
                spread: Spread::of(&words.iter().filter_map(scored).collect::<Vec<_>>()),
                failure_rate: count(|word| matches!(word, Word::Failed)),
                decline_rate: count(|word| matches!(word, Word::Declined)),
            }
        });
        let mut figures: Vec<ScorerFigures> = figures.collect();
        let mean = |it: &ScorerFigures| it.spread.mean.unwrap_or(f64::INFINITY);
        figures.sort_by(|a, b| mean(a).total_cmp(&mean(b)).then_with(|| a.scorer.cmp(&b.scorer)));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outcome::Goodness;

    fn said(outcome: Outcome) -> MemberReport {
        MemberReport::sample("tone", outcome)
    }

    #[test]
    fn a_session_counts_once_per_scorer_by_what_read_most_and_was_recorded_last() {
        let good = |goodness: f64| Outcome::Scored { goodness: Goodness::new(goodness).expect("a goodness") };
        let at = |recorded| (4, Timestamp::from_micros(recorded));
        let mut scorers = Scorers::default();
        scorers.see(("g", "G"), "s1", at(2), Some(8.0), &[said(good(0.2))]);
        scorers.see(("h", "H"), "s1", at(1), None, &[said(good(0.9))]);
        scorers.see(("h", "H"), "s2", at(3), Some(1.0), &[said(Outcome::failed("x"))]);
        // What an older revision said is composed anew, later than everything else.
        scorers.see(("h", "H"), "s1", (3, Timestamp::from_micros(9)), None, &[said(good(0.7))]);
        let figures = scorers.figures();
        let rows: Vec<_> = figures
            .iter()
            .map(|it| (it.scorer.as_str(), it.kind, it.sessions, it.spread.samples, it.spread.mean))
            .collect();
        assert_eq!(
            rows,
            [
                ("scorer-group:h", "group", 2, 1, Some(1.0)),
                ("tone", "judge", 2, 1, Some(2.0)),
                ("scorer-group:g", "group", 1, 1, Some(8.0)),
            ]
        );
        assert_eq!(
            (figures[0].failure_rate, figures[1].failure_rate, figures[1].decline_rate),
            (Some(0.5), Some(0.5), Some(0.0))
        );
    }
}
