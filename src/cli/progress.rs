//! Progress on standard error: a bar on a terminal, now and then a line elsewhere. It counts what is done, never what is hoped.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{DecimalBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::clock::{self, Stopwatch};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things, by their name in the plural.
    Things(&'static str),
}

/// The progress of one piece of work. Dropped unfinished, it says how far the work came.
pub struct Progress {
    what: String,
    unit: Unit,
    total: Option<u64>,
    done: AtomicU64,
    watch: Stopwatch,
    shown: Shown,
    is_finished: bool,
}

enum Shown {
    Bar(ProgressBar),
    Lines(Mutex<Lines>),
}

struct Lines {
    out: Box<dyn Write + Send>,
    pace: Pace,
    detail: String,
}

impl Progress {
    /// Begins. `what` names the work, `total` says how much there is, where that is known.
    pub fn start(what: impl Into<String>, unit: Unit, total: Option<u64>) -> Self {
        let shown = if std::io::stderr().is_terminal() {
            Shown::Bar(bar(unit, total))
        } else {
            Shown::Lines(Mutex::new(Lines::to(Box::new(std::io::stderr()))))
        };
        let progress = Self::new(what.into(), unit, total, shown);
        if let Shown::Bar(bar) = &progress.shown {
            bar.set_prefix(progress.what.clone());
        }
        progress
    }

    fn new(what: String, unit: Unit, total: Option<u64>, shown: Shown) -> Self {
        Self { what, unit, total, done: AtomicU64::new(0), watch: clock::stopwatch(), shown, is_finished: false }
    }

    /// So much more is done.
    pub fn add(&self, more: u64) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        match &self.shown {
            Shown::Bar(bar) => bar.set_position(done),
            Shown::Lines(lines) => {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.pace.is_due(self.watch.elapsed(), done, self.total) {
                    let line = self.line(done, &lines.detail);
                    lines.write(&line);
                }
            }
        }
    }

    /// What to say beside the count from here on.
    pub fn detail(&self, detail: impl Into<String>) {
        match &self.shown {
            Shown::Bar(bar) => bar.set_message(detail.into()),
            Shown::Lines(lines) => lines.lock().unwrap_or_else(PoisonError::into_inner).detail = detail.into(),
        }
    }

    /// Writes a line without disturbing the bar.
    pub fn note(&self, line: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.println(line),
            Shown::Lines(lines) => lines.lock().unwrap_or_else(PoisonError::into_inner).write(line),
        }
    }

    /// The work is done: writes what was counted and how long it took.
    pub fn finish(mut self) {
        self.end("done");
    }

    fn end(&mut self, how: &str) {
        self.is_finished = true;
        let seconds = self.watch.elapsed().as_secs_f64();
        let count = self.count(self.done.load(Ordering::Relaxed));
        let line = format!("{}: {how}, {count} in {seconds:.1} s", self.what);
        match &self.shown {
            Shown::Bar(bar) => {
                bar.finish_and_clear();
                Lines::to(Box::new(std::io::stderr())).write(&line);
            }
            Shown::Lines(lines) => lines.lock().unwrap_or_else(PoisonError::into_inner).write(&line),
        }
    }

    fn line(&self, done: u64, detail: &str) -> String {
        let percent = match self.total {
            Some(total) if total > 0 && done <= total => format!(" ({} %)", u128::from(done) * 100 / u128::from(total)),
            _ => String::new(),
        };
        let gap = if detail.is_empty() { "" } else { ", " };
        format!("{}: {}{percent}{gap}{detail}", self.what, self.count(done))
    }

    fn count(&self, done: u64) -> String {
        match (self.unit, self.total) {
            (Unit::Bytes, None) => DecimalBytes(done).to_string(),
            (Unit::Bytes, Some(total)) => format!("{} of {}", DecimalBytes(done), DecimalBytes(total)),
            (Unit::Things(name), None) => format!("{} {name}", HumanCount(done)),
            (Unit::Things(name), Some(total)) => format!("{} of {} {name}", HumanCount(done), HumanCount(total)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.is_finished {
            self.end("stopped");
        }
    }
}

impl Lines {
    fn to(out: Box<dyn Write + Send>) -> Self {
        Self { out, pace: Pace::default(), detail: String::new() }
    }

    /// Progress that nobody can read is no reason to fail.
    fn write(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}");
    }
}

fn bar(unit: Unit, total: Option<u64>) -> ProgressBar {
    let style = ProgressStyle::with_template(&template(unit, total)).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr()).with_style(style.progress_chars("=> "))
}

fn template(unit: Unit, total: Option<u64>) -> String {
    let (done, whole) = match unit {
        Unit::Bytes => ("{decimal_bytes}", "{decimal_total_bytes}"),
        Unit::Things(_) => ("{human_pos}", "{human_len}"),
    };
    let name = match unit {
        Unit::Bytes => String::new(),
        Unit::Things(name) => format!(" {name}"),
    };
    match total {
        Some(_) => format!("{{prefix}} [{{bar:20}}] {done} of {whole}{name} ({{percent}} %) {{wide_msg}}"),
        None => format!("{{prefix}} {{spinner}} {done}{name} {{wide_msg}}"),
    }
}

/// When a line is due: not more often than every two seconds, and then where another tenth is done or ten seconds have passed.
#[derive(Debug, Default)]
struct Pace {
    last: Duration,
    tenths: u128,
}

impl Pace {
    const SHORTEST: Duration = Duration::from_secs(2);
    const LONGEST: Duration = Duration::from_secs(10);

    fn is_due(&mut self, elapsed: Duration, done: u64, total: Option<u64>) -> bool {
        let since = elapsed.saturating_sub(self.last);
        let tenths = total.map_or(0, |total| u128::from(done) * 10 / u128::from(total.max(1)));
        let is_due = since >= Self::SHORTEST && (tenths > self.tenths || since >= Self::LONGEST);
        if is_due {
            self.last = elapsed;
            self.tenths = tenths;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Page {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn lines(unit: Unit, total: Option<u64>) -> (Progress, Page) {
        let page = Page::default();
        let shown = Shown::Lines(Mutex::new(Lines::to(Box::new(page.clone()))));
        (Progress::new("import".into(), unit, total, shown), page)
    }

    #[test]
    fn a_line_is_due_at_each_tenth_but_not_more_often_than_every_two_seconds() {
        let mut pace = Pace::default();
        let mut at = |millis, done| pace.is_due(Duration::from_millis(millis), done, Some(100));
        assert!(!at(500, 50), "too soon");
        assert!(at(2_000, 51));
        assert!(!at(3_000, 70), "too soon after the last");
        assert!(at(4_000, 70));
        assert!(!at(9_000, 79), "no further tenth");
        assert!(at(14_000, 79), "ten seconds");
    }

    #[test]
    fn without_a_total_a_line_is_due_every_ten_seconds() {
        let mut pace = Pace::default();
        let mut at = |seconds| pace.is_due(Duration::from_secs(seconds), seconds, None);
        assert_eq!([5, 10, 15, 20].map(&mut at), [false, true, false, true]);
    }

    #[test]
    fn lines_say_what_was_counted() {
        let (progress, _) = lines(Unit::Things("sessions"), Some(10_000));
        assert_eq!(progress.line(1_234, ""), "import: 1,234 of 10,000 sessions (12 %)");
        assert_eq!(progress.line(9_999, "3 refused"), "import: 9,999 of 10,000 sessions (99 %), 3 refused");
        assert_eq!(progress.line(10_001, ""), "import: 10,001 of 10,000 sessions", "more than announced has no share");
        let (bytes, _) = lines(Unit::Bytes, Some(3_000_000));
        assert_eq!(bytes.line(1_500_000, ""), "import: 1.50 MB of 3.00 MB (50 %)");
        let (open, _) = lines(Unit::Things("spans"), None);
        assert_eq!(open.line(7, ""), "import: 7 spans");
    }

    #[test]
    fn the_end_says_whether_the_work_was_done_or_stopped() {
        let (progress, page) = lines(Unit::Things("spans"), Some(20));
        progress.add(15);
        progress.note("line 3: refused");
        progress.add(5);
        progress.finish();
        assert!(page.text().starts_with("line 3: refused\nimport: done, 20 of 20 spans in "), "{}", page.text());

        let (progress, page) = lines(Unit::Things("spans"), Some(20));
        progress.add(15);
        drop(progress);
        assert!(page.text().starts_with("import: stopped, 15 of 20 spans in "), "{}", page.text());
    }

    #[test]
    fn every_bar_has_a_readable_template() {
        for unit in [Unit::Bytes, Unit::Things("spans")] {
            for total in [None, Some(10)] {
                let template = template(unit, total);
                assert!(ProgressStyle::with_template(&template).is_ok(), "{template}");
            }
        }
    }
}
