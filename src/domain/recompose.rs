//! Re-composition: the present recipe applied to what members said before, without asking anybody.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compose::{Composition, Opinion, Recipe, compose};
use super::figures::Spread;
use super::members::Member;
use super::verdict::MemberReport;

/// What a verdict becomes under another recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Recomposed {
    /// The members as they count now, with what they said before.
    pub members: Vec<MemberReport>,
    /// What the group says.
    pub composition: Composition,
}

/// Applies a recipe to what members said. `None` where a member has no outcome here, because it was added since, or is bound to
/// another version or no longer bound: that takes a real re-score. So does a verdict that a failed gate decided
/// (`was_gated`) before everybody had answered, where no gate decides it now: the others were not waited for.
pub fn recompose(said: &[MemberReport], was_gated: bool, members: &[Member], recipe: &Recipe) -> Option<Recomposed> {
    let mut left: Vec<&MemberReport> = said.iter().collect();
    let mut reports = Vec::with_capacity(members.len());
    for member in members {
        let place = left.iter().position(|report| speaks_for(report, member))?;
        let report = left.remove(place).clone();
        reports.push(MemberReport {
            weight: member.weight,
            gate: member.gate,
            pass_threshold: member.pass_threshold,
            category: member.category.unwrap_or_default(),
            pinned: member.version.is_some(),
            ..report
        });
    }
    let opinions: Vec<Opinion> = reports.iter().map(MemberReport::opinion).collect();
    let composition = compose(&opinions, recipe);
    let unheard = reports.iter().any(|report| report.outcome.is_transient());
    let is_open = was_gated && composition.gated_by.is_none() && unheard;
    (!is_open).then_some(Recomposed { members: reports, composition })
}

/// Whether what was reported then is what the member would say now: the same scorer, and where either is bound to a version,
/// that version.
fn speaks_for(report: &MemberReport, member: &Member) -> bool {
    let is_same = report.kind == member.kind && report.ref_id == member.ref_id;
    is_same
        && match member.version {
            Some(version) => report.version == Some(version),
            None => !report.pinned,
        }
}

/// What of a verdict a re-composition is compared by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline<'a> {
    /// The rating on 0-10.
    pub rating: Option<f64>,
    /// The band.
    pub band: Option<&'a str>,
}

impl Headline<'_> {
    fn is_below(self, threshold: Option<f64>) -> bool {
        self.rating.zip(threshold).is_some_and(|(rating, limit)| rating < limit)
    }
}

/// Whether a session lies below the alert threshold now, and did not before.
pub fn falls_below(before: Headline<'_>, after: Headline<'_>, threshold: Option<f64>) -> bool {
    after.is_below(threshold) && !before.is_below(threshold)
}

/// Ratings and bands of the sessions that could be composed anew.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Side {
    /// The ratings.
    #[serde(flatten)]
    pub spread: Spread,
    /// How many sessions are in each band.
    pub bands: BTreeMap<String, usize>,
}

/// How many sessions go from one band to another. `None` is no band.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BandChange {
    /// The band before.
    pub from: Option<String>,
    /// The band after.
    pub to: Option<String>,
    /// How many sessions.
    pub sessions: usize,
}

/// What a re-composition did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The version of the recipe that was applied.
    pub group_version: i64,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Sessions with a verdict in the period.
    pub sessions: usize,
    /// Sessions that got, or would get, another verdict.
    pub recomposed: usize,
    /// Sessions whose verdict is already what the recipe says.
    pub unchanged: usize,
    /// Sessions with a member that has no outcome there: they take a real re-score, and keep their verdict.
    pub need_rescore: usize,
    /// Ratings and bands before.
    pub before: Side,
    /// Ratings and bands after.
    pub after: Side,
    /// Sessions that change their rating.
    pub rating_changes: usize,
    /// Sessions that change their band, by band.
    pub band_changes: Vec<BandChange>,
    /// Sessions that fall below the alert threshold.
    pub falls_below_threshold: usize,
    /// Sessions that no longer lie below it.
    pub rises_above_threshold: usize,
    /// Signals raised, because that was asked for.
    pub signals: usize,
}

/// Collects what a re-composition does.
#[derive(Debug)]
pub struct Ledger {
    report: Report,
    threshold: Option<f64>,
    before: Vec<f64>,
    after: Vec<f64>,
    moves: BTreeMap<(Option<String>, Option<String>), usize>,
}

impl Ledger {
    /// An empty one. `threshold`: below that rating the group alerts.
    pub fn new(group_version: i64, dry_run: bool, threshold: Option<f64>) -> Self {
        let report = Report { group_version, dry_run, ..Report::default() };
        Self { report, threshold, before: Vec::new(), after: Vec::new(), moves: BTreeMap::new() }
    }

    /// A session that takes a real re-score.
    pub fn need_rescore(&mut self) {
        self.report.sessions += 1;
        self.report.need_rescore += 1;
    }

    /// A session that could be composed anew, changed or not.
    pub fn see(&mut self, before: Headline<'_>, after: Headline<'_>, is_changed: bool) {
        self.report.sessions += 1;
        *(if is_changed { &mut self.report.recomposed } else { &mut self.report.unchanged }) += 1;
        self.before.extend(before.rating);
        self.after.extend(after.rating);
        for (side, headline) in [(&mut self.report.before, before), (&mut self.report.after, after)] {
            if let Some(band) = headline.band {
                *side.bands.entry(band.to_owned()).or_default() += 1;
            }
        }
        self.report.rating_changes += usize::from(before.rating != after.rating);
        if before.band != after.band {
            *self.moves.entry((before.band.map(str::to_owned), after.band.map(str::to_owned))).or_default() += 1;
        }
        let threshold = self.threshold;
        self.report.falls_below_threshold += usize::from(falls_below(before, after, threshold));
        let rises = before.is_below(threshold) && after.rating.is_some() && !after.is_below(threshold);
        self.report.rises_above_threshold += usize::from(rises);
    }

    /// A signal was raised.
    pub fn signal(&mut self) {
        self.report.signals += 1;
    }

    /// The report.
    pub fn report(self) -> Report {
        let moves = self.moves.into_iter().map(|((from, to), sessions)| BandChange { from, to, sessions });
        Report {
            before: Side { spread: Spread::of(&self.before), ..self.report.before },
            after: Side { spread: Spread::of(&self.after), ..self.report.after },
            band_changes: moves.collect(),
            ..self.report
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::compose::{Aggregation, Category, Scorecard};
    use crate::domain::group::MemberKind;
    use crate::domain::outcome::{Goodness, Outcome};

    fn report(member: &Member, version: i64, outcome: Outcome) -> MemberReport {
        MemberReport {
            kind: member.kind,
            version: Some(version),
            weight: member.weight,
            gate: member.gate,
            pass_threshold: member.pass_threshold,
            category: member.category.unwrap_or_default(),
            pinned: member.version.is_some(),
            detail: "d".into(),
            ..MemberReport::sample(&member.ref_id, outcome)
        }
    }

    fn good(goodness: f64) -> Outcome {
        Outcome::Scored { goodness: Goodness::new(goodness).expect("a goodness") }
    }

    fn judge(id: &str) -> Member {
        Member::plain(MemberKind::Judge, id)
    }

    #[test]
    fn other_weights_gates_and_aggregations_apply_to_what_was_said() {
        let said = [report(&judge("a"), 1, good(0.9)), report(&judge("b"), 1, good(0.3))];
        let of = |members: &[Member], recipe: &Recipe| {
            recompose(&said, false, members, recipe).map(|it| it.composition.rating)
        };
        let recipe = Recipe::default();
        assert_eq!(of(&[judge("a"), judge("b")], &recipe), Some(Some(6.0)));
        assert_eq!(of(&[Member { weight: 3.0, ..judge("a") }, judge("b")], &recipe), Some(Some(7.5)));
        assert_eq!(of(&[judge("a"), Member { gate: true, ..judge("b") }], &recipe), Some(Some(0.0)));
        assert_eq!(of(&[judge("b")], &recipe), Some(Some(3.0)), "a member that was taken out says nothing");
        let lowest = Recipe { aggregation: Aggregation::Minimum, ..recipe };
        assert_eq!(of(&[judge("a"), judge("b")], &lowest), Some(Some(3.0)));
    }

    #[test]
    fn a_member_without_an_outcome_takes_a_real_re_score() {
        let said =
            [report(&judge("a"), 3, good(0.9)), report(&Member { version: Some(1), ..judge("p") }, 1, good(0.1))];
        let of = |member: Member| recompose(&said, false, &[member], &Recipe::default()).is_some();
        assert!(of(judge("a")) && of(Member { version: Some(3), ..judge("a") }));
        assert!(!of(judge("new")) && !of(Member { version: Some(2), ..judge("a") }));
        assert!(of(Member { version: Some(1), ..judge("p") }) && !of(judge("p")), "no longer bound is another scorer");
        assert!(!of(Member::plain(MemberKind::Pattern, "a")));
    }

    #[test]
    fn a_gate_that_decided_early_is_not_taken_away_from_under_those_who_were_not_heard() {
        let gate = Member { gate: true, ..judge("a") };
        let said =
            [report(&gate, 1, good(0.1)), report(&judge("b"), 1, Outcome::failed_for_now("the budget is spent"))];
        let of = |was_gated: bool, first: &Member| {
            recompose(&said, was_gated, &[first.clone(), judge("b")], &Recipe::default())
                .map(|it| it.composition.rating)
        };
        assert_eq!(of(true, &gate), Some(Some(0.0)));
        assert_eq!(of(true, &judge("a")), None, "no partial panel");
        assert_eq!(of(false, &judge("a")), Some(Some(1.0)), "they were waited for in vain");
    }

    #[test]
    fn the_ledger_tells_bands_thresholds_and_means_before_and_after() {
        let mut ledger = Ledger::new(7, true, Some(5.0));
        let side = |rating: f64, band| Headline { rating: Some(rating), band: Some(band) };
        ledger.see(side(8.0, "Good"), side(4.9, "Poor"), true);
        ledger.see(side(4.0, "Poor"), side(5.0, "Poor"), true);
        ledger.see(side(4.0, "Poor"), side(4.0, "Poor"), false);
        ledger.see(side(4.0, "Poor"), Headline { rating: None, band: None }, true);
        assert!(falls_below(side(8.0, "Good"), side(4.9, "Poor"), Some(5.0)));
        assert!(!falls_below(side(4.0, "Poor"), side(4.9, "Poor"), Some(5.0)));
        ledger.need_rescore();
        let report = ledger.report();
        assert_eq!((report.sessions, report.recomposed, report.unchanged, report.need_rescore), (5, 3, 1, 1));
        assert_eq!((report.falls_below_threshold, report.rises_above_threshold, report.rating_changes), (1, 1, 3));
        assert_eq!((report.before.spread.mean, report.before.spread.samples), (Some(5.0), 4));
        assert_eq!((report.after.spread.mean, report.after.spread.samples), (Some(4.63), 3));
        let change = |from: &str, to: Option<&str>| BandChange {
            from: Some(from.into()),
            to: to.map(str::to_owned),
            sessions: 1,
        };
        assert_eq!(report.band_changes, [change("Good", Some("Poor")), change("Poor", None)]);
        assert_eq!((report.before.bands["Poor"], report.after.bands["Poor"]), (3, 3));
    }

    fn member() -> impl Strategy<Value = Member> {
        let category = prop_oneof![Just(Category::Accuracy), Just(Category::Experience), Just(Category::Diagnostic)];
        (
            0.0..=1000.0,
            any::<bool>(),
            proptest::option::of(0.0..=1.0),
            proptest::option::of(category),
            proptest::option::of(1_i64..4),
        )
            .prop_map(|(weight, gate, pass_threshold, category, version)| Member {
                weight,
                gate,
                pass_threshold,
                version,
                category,
                ..judge("")
            })
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![
            4 => (0.0..=1.0).prop_map(good),
            1 => Just(Outcome::Declined { reason: "x".into() }),
            1 => Just(Outcome::failed("x")),
        ]
    }

    proptest! {
        #[test]
        fn an_unchanged_recipe_changes_nothing(
            panel in proptest::collection::vec((member(), outcome()), 1..=20),
            aggregation in proptest::sample::select(Aggregation::ALL.to_vec()),
            pass_threshold in proptest::option::of(0.0..=1.0),
        ) {
            let recipe = Recipe { aggregation, pass_threshold, scorecard: Scorecard::default() };
            let named = |(place, (member, outcome)): (usize, (Member, Outcome))| (Member { ref_id: place.to_string(), ..member }, outcome);
            let (members, outcomes): (Vec<Member>, Vec<Outcome>) = panel.into_iter().enumerate().map(named).unzip();
            let said: Vec<MemberReport> =
                members.iter().zip(outcomes).map(|(it, outcome)| report(it, it.version.unwrap_or(1), outcome)).collect();
            let opinions: Vec<Opinion> = said.iter().map(MemberReport::opinion).collect();
            let before = compose(&opinions, &recipe);
            let again = recompose(&said, before.gated_by.is_some(), &members, &recipe).expect("everybody spoke");
            prop_assert_eq!(again, Recomposed { members: said, composition: before });
        }
    }
}
