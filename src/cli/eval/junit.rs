//! JUnit XML of an evaluation, for what shows test results: a test case for each row, and one for each check of the gate.

use std::fmt::Write as _;

use super::files::Line;
use crate::domain::dataset::{RowStatus, RunRow};
use crate::worker::GateAnswer;

/// The rows and the gate as one test suite. A row fails where its rating lies below `fail_under`, is an error where its case
/// failed, and is skipped where it has no score.
pub(super) fn report(
    suite: &str,
    lines: &[Line],
    rows: &[RunRow],
    fail_under: Option<f64>,
    gate: Option<&GateAnswer>,
) -> String {
    let mut cases = String::new();
    let (mut failures, mut errors, mut skipped) = (0, 0, 0);
    for row in rows {
        let why = escaped(&row.verdict.justification);
        let end = match (row.status, row.verdict.rating) {
            (RowStatus::Failed, _) => {
                errors += 1;
                format!("<error message=\"{why}\"/>")
            }
            (_, None) => {
                skipped += 1;
                format!("<skipped message=\"{why}\"/>")
            }
            (_, Some(rating)) if fail_under.is_some_and(|border| rating < border) => {
                failures += 1;
                format!("<failure message=\"rated {rating:.1}\">{why}</failure>")
            }
            _ => String::new(),
        };
        let line = usize::try_from(row.submission.question_index).ok().and_then(|place| lines.get(place));
        let query: String = line.map(|line| line.query.chars().take(120).collect()).unwrap_or_default();
        let name = escaped(&format!("{} {query}", row.submission.case_id));
        #[allow(clippy::cast_precision_loss, reason = "seconds for people")]
        let seconds = row.submission.latency_ms.unwrap_or(0) as f64 / 1e3;
        let suite = escaped(suite);
        let _ =
            writeln!(cases, "  <testcase classname=\"{suite}\" name=\"{name}\" time=\"{seconds:.3}\">{end}</testcase>");
    }
    let checks = gate.map(|gate| gate.checks.as_slice()).unwrap_or_default();
    for check in checks {
        let detail = escaped(&check.detail);
        let end = if check.passed { String::new() } else { format!("<failure message=\"{detail}\"/>") };
        failures += usize::from(!check.passed);
        let _ = writeln!(cases, "  <testcase classname=\"gate\" name=\"{}\">{end}</testcase>", check.check);
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" \
         errors=\"{errors}\" skipped=\"{skipped}\">\n{cases} </testsuite>\n</testsuites>\n",
        escaped(suite),
        rows.len() + checks.len(),
    )
}

/// Text as it may stand in XML, in attributes too. What XML can't hold at all is left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            other if other.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dataset::{RowVerdict, Submission};

    fn row(status: RowStatus, rating: Option<f64>, why: &str) -> RunRow {
        RunRow {
            submission: Submission { case_id: "c".into(), ..Submission::default() },
            is_done: true,
            status,
            verdict: RowVerdict { rating, ..RowVerdict::none(why) },
            scored_at: None,
        }
    }

    #[test]
    fn rows_become_test_cases_and_no_text_breaks_the_file() {
        let rows = [
            row(RowStatus::Scored, Some(9.0), "fine"),
            row(RowStatus::Scored, Some(6.9), "a <b> & \"c\"\n\u{0}"),
            row(RowStatus::Failed, Some(0.0), "boom"),
            row(RowStatus::Skipped, None, "nobody"),
        ];
        let xml = report("s", &[], &rows, Some(7.0), None);
        assert!(xml.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("<failure message=\"rated 6.9\">a &lt;b&gt; &amp; &quot;c&quot; </failure>"), "{xml}");
        assert_eq!(report("s", &[], &rows, None, None).matches("<failure").count(), 0);
    }
}
