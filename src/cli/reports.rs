//! `summary` and `recompose`: a group's figures with a bar chart, and what its present recipe makes of past verdicts.

use std::fmt::Write as _;

use anyhow::anyhow;
use serde_json::json;

use super::args::{RecomposeArgs, SummaryArgs};
use super::named;
use super::table::{Cell, Column, Table, Tone};
use super::terminal::Style;
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::figures::{AgentFigures, Figures, Line, Spread, Summary, Trend};
use crate::domain::recompose::{Report, Side};
use crate::store::{Latest, RecomposeEnd, RecomposeOrder};

/// `afterword summary`.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn summary(app: &App, args: &SummaryArgs, style: Style) -> anyhow::Result<String> {
    let now = app.clock.now();
    let period = args.window.lately(now).map_err(anyhow::Error::msg)?;
    let project = named::project(app, &args.project).await?;
    let group = named::group(app, &project, &args.group).await?;
    let (mut summary, mut trend) = (Summary::default(), Trend::default());
    let mut see = |latest: Latest| {
        summary.see(&latest.counted());
        trend.see(&group.spec.name, &latest.counted());
    };
    app.store.each_latest(&project, &group.id, period, &mut see).await?;
    let (figures, agents) = summary.figures();
    let lines = trend.lines();
    if args.json {
        let mut answer = json!(figures);
        answer["groupId"] = json!(group.id);
        answer["groupName"] = json!(group.spec.name);
        answer["from"] = json!(period.from.iso());
        answer["to"] = json!(period.to.iso());
        answer["agents"] = json!(agents);
        answer["trend"] = json!(lines);
        return Ok(format!("{answer}\n"));
    }
    let title = format!("{}, {} to {} (UTC)\n\n", group.spec.name, period.from.iso(), period.to.iso());
    Ok(title + &summary_text(&figures, &agents, &lines, style))
}

fn summary_text(figures: &Figures, agents: &[AgentFigures], lines: &[Line], style: Style) -> String {
    let mut text = String::new();
    let spread = figures.spread;
    if spread.samples == 0 {
        let _ = writeln!(text, "No session has a rating in this period ({} without a score).", figures.unscored);
        return text;
    }
    let _ = writeln!(
        text,
        "{} sessions rated, {} without a score: mean {}, median {}, from {} to {}.",
        spread.samples,
        figures.unscored,
        shown(spread.mean),
        shown(spread.median),
        shown(spread.min),
        shown(spread.max),
    );
    let card = &figures.scorecard;
    if card.spread.samples > 0 {
        let bands: Vec<String> = card.bands.iter().map(|it| format!("{} {}", it.band, it.count)).collect();
        let _ = writeln!(
            text,
            "Scorecard over {}: mean {}, median {}; {}.",
            card.spread.samples,
            shown(card.spread.mean),
            shown(card.spread.median),
            bands.join(", ")
        );
    }
    let mut members = chart(Column::long_text("member"));
    for member in &figures.members {
        let trouble = [(member.failure_rate, "failed"), (member.decline_rate, "declined")];
        let trouble = trouble.into_iter().filter_map(|(rate, what)| {
            rate.filter(|rate| *rate > 0.0).map(|rate| format!("{:.0}% {what}", rate * 100.0))
        });
        row(&mut members, &member.name, member.spread, &trouble.collect::<Vec<_>>().join(", "));
    }
    let _ = write!(text, "\n{}", members.render(style));
    if agents.len() > 1 {
        let mut table = chart(Column::long_text("agent"));
        for agent in agents {
            row(&mut table, agent.agent_name.as_deref().unwrap_or("(none)"), agent.figures.spread, "");
        }
        let _ = write!(text, "\n{}", table.render(style));
    }
    if let Some(own) = lines.first().filter(|line| !line.segments.is_empty()) {
        let mut table = chart(Column::text("day"));
        for (place, segment) in own.segments.iter().enumerate() {
            for (point, note) in segment.points.iter().zip(std::iter::once(true).chain(std::iter::repeat(false))) {
                let version = segment.version.unwrap_or_default();
                let note =
                    if note && place > 0 { format!("recipe version {version} from here") } else { String::new() };
                row(&mut table, &point.day, point.spread, &note);
            }
        }
        let _ = write!(text, "\n{}", table.render(style));
    }
    text
}

fn chart(first: Column) -> Table {
    Table::new([
        first,
        Column::number("mean"),
        Column::text(""),
        Column::number("samples"),
        Column::number("min"),
        Column::number("max"),
        Column::text(""),
    ])
}

fn row(table: &mut Table, name: &str, spread: Spread, note: &str) {
    let tone = match spread.mean {
        None => Tone::Faint,
        Some(mean) if mean < 5.0 => Tone::Bad,
        Some(mean) if mean < 7.0 => Tone::Doubtful,
        Some(_) => Tone::Good,
    };
    table.row([
        Cell::from(name),
        shown(spread.mean).into(),
        Cell::toned(bar(spread.mean), tone),
        spread.samples.to_string().into(),
        shown(spread.min).into(),
        shown(spread.max).into(),
        Cell::toned(note, Tone::Faint),
    ]);
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// How many characters a mean of 10 takes.
const BAR: usize = 20;

/// A bar as long as a mean on 0-10, to an eighth of a character.
fn bar(mean: Option<f64>) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let Some(mean) = mean else { return String::new() };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a mean lies within 0-10"
    )]
    let eighths = (mean.clamp(0.0, 10.0) / 10.0 * (BAR * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// `afterword recompose`.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn recompose(app: &App, args: &RecomposeArgs, style: Style) -> anyhow::Result<String> {
    let now = app.clock.now();
    let period = args.window.or_all(now).map_err(anyhow::Error::msg)?;
    let project = named::project(app, &args.project).await?;
    let group = named::group(app, &project, &args.group).await?;
    let order = RecomposeOrder {
        group: group.id,
        period,
        scorecard: args.scorecard.clone(),
        dry_run: args.dry_run,
        signals: args.signals,
    };
    match app.store.recompose(&project, &order, now).await? {
        RecomposeEnd::Done(report) if args.json => Ok(format!("{}\n", json!(report))),
        RecomposeEnd::Done(report) => Ok(recompose_text(&report, style)),
        RecomposeEnd::NoGroup => Err(anyhow!("the group was deleted meanwhile")),
        RecomposeEnd::NoScorecard => Err(anyhow!("there is no scorecard with that id")),
    }
}

fn recompose_text(report: &Report, style: Style) -> String {
    let title = if report.dry_run { "would happen" } else { "done" };
    let mut counts = Table::new([Column::text(title), Column::number("sessions")]);
    for (what, count) in [
        ("with a verdict in the period", report.sessions),
        ("composed anew", report.recomposed),
        ("already as the recipe says", report.unchanged),
        ("need a real re-score", report.need_rescore),
        ("change their rating", report.rating_changes),
        ("fall below the alert threshold", report.falls_below_threshold),
        ("no longer lie below it", report.rises_above_threshold),
        ("signals raised", report.signals),
    ] {
        counts.row([Cell::from(what), count.to_string().into()]);
    }
    let mut sides = Table::new([
        Column::text(""),
        Column::number("samples"),
        Column::number("mean"),
        Column::number("median"),
        Column::text("bands"),
    ]);
    for (name, side) in [("before", &report.before), ("after", &report.after)] {
        sides.row(side_cells(name, side));
    }
    let mut text = format!("{}\n{}", counts.render(style), sides.render(style));
    if !report.band_changes.is_empty() {
        let mut bands = Table::new([Column::text("from band"), Column::text("to band"), Column::number("sessions")]);
        for change in &report.band_changes {
            let named = |band: &Option<String>| Cell::from(band.as_deref().unwrap_or("(none)"));
            bands.row([named(&change.from), named(&change.to), change.sessions.to_string().into()]);
        }
        let _ = write!(text, "\n{}", bands.render(style));
    }
    text
}

fn side_cells(name: &str, side: &Side) -> [Cell; 5] {
    let bands: Vec<String> = side.bands.iter().map(|(band, count)| format!("{band} {count}")).collect();
    [
        name.into(),
        side.spread.samples.to_string().into(),
        shown(side.spread.mean).into(),
        shown(side.spread.median).into(),
        bands.join(", ").into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::figures::{BandCount, MemberFigures, Point, ScorecardFigures, Segment};
    use crate::domain::group::MemberKind;

    #[test]
    fn bars_are_as_long_as_their_means() {
        assert_eq!(bar(Some(10.0)).chars().count(), BAR);
        assert_eq!(bar(Some(5.0)), "█".repeat(10));
        assert_eq!((bar(Some(0.0)), bar(None)), (String::new(), String::new()));
        assert_eq!(bar(Some(0.3)), "▋");
    }

    #[test]
    fn a_summary_shows_every_mean_with_its_samples() {
        let member = |name: &str, values: &[f64], failure_rate| MemberFigures {
            kind: MemberKind::Judge,
            ref_id: name.to_owned(),
            name: name.to_owned(),
            listed: 4,
            spread: Spread::of(values),
            failure_rate: Some(failure_rate),
            decline_rate: Some(0.0),
        };
        let figures = Figures {
            spread: Spread::of(&[2.0, 9.0, 8.0]),
            unscored: 1,
            passed: 2,
            pass_samples: 3,
            scorecard: ScorecardFigures {
                spread: Spread::of(&[100.0, 50.0, 90.0]),
                bands: vec![BandCount { band: "Good".into(), count: 2 }, BandCount { band: "Poor".into(), count: 1 }],
            },
            members: vec![member("Truth", &[2.0, 4.0], 0.5), member("Never", &[], 1.0)],
        };
        let point = |day: &str, values: &[f64]| Point { day: day.to_owned(), spread: Spread::of(values) };
        let segments = vec![
            Segment { version: Some(1), points: vec![point("2026-01-01", &[2.0, 9.0])] },
            Segment { version: Some(2), points: vec![point("2026-01-02", &[8.0])] },
        ];
        let line = Line { kind: None, ref_id: None, name: "g".into(), segments };
        insta::assert_snapshot!(summary_text(&figures, &[], &[line], Style::PLAIN), @r"
        3 sessions rated, 1 without a score: mean 6.33, median 8.00, from 2.00 to 9.00.
        Scorecard over 3: mean 80.00, median 90.00; Good 2, Poor 1.

        member  mean          samples   min   max
        Truth   3.00  ██████        2  2.00  4.00  50% failed
        Never      -                0     -     -  100% failed

        day         mean                    samples   min   max
        2026-01-01  5.50  ███████████             2  2.00  9.00
        2026-01-02  8.00  ████████████████        1  8.00  8.00  recipe version 2 from here
        ");
        let nothing = Figures { spread: Spread::default(), ..figures };
        let told = summary_text(&nothing, &[], &[], Style::PLAIN);
        assert_eq!(told, "No session has a rating in this period (1 without a score).\n");
    }
}
