//! Tests of figures: no mean without samples, the worst first, lines broken where versions change.

use super::*;
use crate::domain::outcome::Goodness;

fn said(name: &str, version: i64, outcome: Outcome) -> MemberReport {
    MemberReport { version: Some(version), ..MemberReport::sample(name, outcome) }
}

fn good(goodness: f64) -> Outcome {
    Outcome::Scored { goodness: Goodness::new(goodness).expect("a goodness") }
}

fn counted<'a>(rating: Option<f64>, day: &str, members: &'a [MemberReport]) -> Counted<'a> {
    Counted {
        rating,
        pass: rating.map(|rating| rating >= 5.0),
        scored: rating.map(|rating| (rating * 10.0, if rating >= 6.0 { "Good" } else { "Poor" })),
        recipe_version: 1,
        last_turn_at: Day::parse(day).expect("a day").start(),
        agent: None,
        members,
    }
}

#[test]
fn a_spread_counts_what_it_rests_on_and_says_nothing_of_nothing() {
    let spread = Spread::of(&[2.0, 9.0, 4.0, 4.333]);
    assert_eq!(spread, Spread { samples: 4, mean: Some(4.83), median: Some(4.17), min: Some(2.0), max: Some(9.0) });
    assert_eq!(Spread::of(&[7.0, 1.0, 2.0]).median, Some(2.0));
    assert_eq!(Spread::of(&[]), Spread::default());
}

#[test]
fn members_come_worst_first_with_what_they_could_not_say() {
    let first = [said("Tone", 1, good(0.9)), said("Truth", 1, good(0.2)), said("Never", 1, Outcome::failed("x"))];
    let second = [
        said("Tone", 1, Outcome::Declined { reason: "x".into() }),
        said("Truth", 1, good(0.4)),
        said("Never", 1, Outcome::failed("x")),
    ];
    let mut tally = Tally::default();
    tally.see(&counted(Some(8.0), "2026-01-01", &first));
    tally.see(&counted(None, "2026-01-01", &second));
    let figures = tally.figures();
    assert_eq!((figures.spread.samples, figures.unscored, figures.spread.mean), (1, 1, Some(8.0)));
    assert_eq!((figures.passed, figures.pass_samples), (1, 1));
    let names: Vec<&str> = figures.members.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["Truth", "Tone", "Never"]);
    assert_eq!((figures.members[0].spread.samples, figures.members[0].spread.mean), (2, Some(3.0)));
    assert_eq!((figures.members[1].decline_rate, figures.members[1].failure_rate), (Some(0.5), Some(0.0)));
    assert_eq!((figures.members[2].spread.mean, figures.members[2].failure_rate), (None, Some(1.0)));
    assert_eq!(figures.scorecard.bands, [BandCount { band: "Good".into(), count: 1 }]);
}

#[test]
fn agents_have_figures_of_their_own() {
    let mut summary = Summary::default();
    summary.see(&Counted { agent: Some(("a", "Ann")), ..counted(Some(9.0), "2026-01-01", &[]) });
    summary.see(&Counted { agent: Some(("b", "Bob")), ..counted(Some(2.0), "2026-01-01", &[]) });
    summary.see(&Counted { agent: Some(("b", "Bob")), ..counted(Some(3.0), "2026-01-01", &[]) });
    let (all, agents) = summary.figures();
    assert_eq!((all.spread.samples, all.spread.mean), (3, Some(4.67)));
    let by_agent: Vec<_> =
        agents.iter().map(|it| (it.agent_name.as_deref(), it.figures.spread.samples, it.figures.spread.mean)).collect();
    assert_eq!(by_agent, [(Some("Bob"), 2, Some(2.5)), (Some("Ann"), 1, Some(9.0))]);
}

#[test]
fn a_line_is_broken_where_its_version_changed() {
    let mut trend = Trend::default();
    for (rating, version, day) in
        [(4.0, 1, "2026-01-01"), (6.0, 1, "2026-01-01"), (8.0, 1, "2026-01-02"), (2.0, 2, "2026-01-02")]
    {
        let members = [said("Tone", version, good(rating / 10.0))];
        trend.see("Group", &Counted { recipe_version: version, ..counted(Some(rating), day, &members) });
    }
    trend.see("Group", &counted(None, "2026-01-03", &[said("Tone", 2, Outcome::failed("x"))]));
    let lines = trend.lines();
    assert_eq!(lines.len(), 2);
    for (line, name) in lines.iter().zip(["Group", "Tone"]) {
        assert_eq!(line.name, name);
        let point = |it: &Point| format!("{}: {:?} of {}", it.day, it.spread.mean, it.spread.samples);
        let shape: Vec<(Option<i64>, Vec<String>)> =
            line.segments.iter().map(|it| (it.version, it.points.iter().map(point).collect())).collect();
        assert_eq!(
            shape,
            [
                (Some(1), vec!["2026-01-01: Some(5.0) of 2".to_owned(), "2026-01-02: Some(8.0) of 1".to_owned()]),
                (Some(2), vec!["2026-01-02: Some(2.0) of 1".to_owned()]),
            ]
        );
    }
    assert_eq!((lines[0].kind, lines[1].kind), (None, Some(MemberKind::Judge)));
}

#[test]
fn half_a_hundredth_is_rounded_up_whatever_binary_fractions_make_of_it() {
    for (value, shown) in
        [(1.025, 1.03_f64), (1.005, 1.01), (2.675, 2.68), (8.165, 8.17), (6.664_999, 6.66), (0.0, 0.0), (10.0, 10.0)]
    {
        assert_eq!(hundredths(value).to_bits(), shown.to_bits(), "{value}");
    }
    assert_eq!(Spread::of(&[1.0, 1.0, 1.0, 1.1]).mean, Some(1.03));
    assert_eq!(share(115, 20_000), Some(0.0058));
}
