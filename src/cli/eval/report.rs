//! What an evaluation prints: its average and what that rests on, the worst rows, and each check of the gate.

use std::fmt::Write as _;

use super::files::Line;
use crate::cli::table::{Cell, Column, Table, Tone};
use crate::cli::terminal::Style;
use crate::domain::compose::DEFAULT_THRESHOLD;
use crate::domain::dataset::{RunRow, Statistics, breakdown};
use crate::domain::figures::hundredths;
use crate::store::SavedRun;
use crate::worker::GateAnswer;

/// How many rows are shown.
const WORST: usize = 10;

/// The run, for people.
pub(super) fn told(run: &SavedRun, lines: &[Line], rows: &[RunRow], gate: Option<&GateAnswer>, style: Style) -> String {
    let mut table = Table::new([
        Column::text("grader"),
        Column::number("average"),
        Column::number("scored"),
        Column::number("without a score"),
    ]);
    for line in breakdown(&run.spec.grading, rows) {
        let average =
            line.average_rating.map_or_else(|| "-".to_owned(), |average| format!("{:.2}", hundredths(average)));
        table.row([line.name.into(), average.into(), line.scored.to_string().into(), line.unscored.to_string().into()]);
    }
    let mut text = table.render(style);
    let failed = Statistics::of(rows).failed;
    if failed > 0 {
        let _ = writeln!(text, "\nThe agent gave no answer to {failed} of {} cases: they count as 0.", rows.len());
    }
    let worst = worst(lines, rows, style);
    if !worst.is_empty() {
        text.extend(["\n", &worst]);
    }
    if let Some(gate) = gate {
        text.push('\n');
        for check in &gate.checks {
            let _ =
                writeln!(text, "{}  {}: {}", if check.passed { "passed" } else { "FAILED" }, check.check, check.detail);
        }
    }
    let _ = writeln!(text, "\nRun {}", run.id);
    text
}

/// The rows with the lowest ratings, those without one first.
fn worst(lines: &[Line], rows: &[RunRow], style: Style) -> String {
    let mut sorted: Vec<&RunRow> =
        rows.iter().filter(|row| row.verdict.rating.is_none_or(|rating| rating < 10.0)).collect();
    sorted.sort_by(|a, b| {
        let key = |row: &RunRow| row.verdict.rating.unwrap_or(-1.0);
        key(a).total_cmp(&key(b)).then(a.submission.question_index.cmp(&b.submission.question_index))
    });
    if sorted.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::number("rating"),
        Column::text("case"),
        Column::long_text("query"),
        Column::long_text("why"),
    ]);
    for row in sorted.into_iter().take(WORST) {
        let rating = match row.verdict.rating {
            None => Cell::toned("none", Tone::Doubtful),
            Some(rating) => {
                let tone = if rating < DEFAULT_THRESHOLD * 10.0 { Tone::Bad } else { Tone::Plain };
                Cell::toned(format!("{rating:.1}"), tone)
            }
        };
        let query = usize::try_from(row.submission.question_index).ok().and_then(|place| lines.get(place));
        let query = query.map(|line| one_line(&line.query)).unwrap_or_default();
        table.row([
            rating,
            row.submission.case_id.as_str().into(),
            query.into(),
            one_line(&row.verdict.justification).into(),
        ]);
    }
    table.render(style)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
