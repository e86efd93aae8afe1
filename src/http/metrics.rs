//! `GET /metrics`: figures for Prometheus, in its text format 0.0.4. No key is needed, and no label holds anybody's data.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::Api;
use crate::store::Census;
use crate::worker::Vitals;

/// Everything there is to measure. Where the database can't be asked, its figures are left out and `afterword_up` is 0.
pub(super) async fn show(State(api): State<Arc<Api>>) -> impl IntoResponse {
    let census = tokio::time::timeout(api.settings.probe_patience, api.worker.census()).await.ok().and_then(Result::ok);
    let mut page = Page(String::with_capacity(4_096));
    page.census(census);
    page.vitals(api.worker.vitals());
    page.counter(
        "afterword_ingest_spans_total",
        "Spans received, by what became of them.",
        "fate",
        api.writer.counts(),
    );
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0)
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String can't fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, "gauge", help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, label: &str, values: impl IntoIterator<Item = (&'static str, u64)>) {
        self.head(name, "counter", help);
        for (of, value) in values {
            let _ = writeln!(self.0, "{name}{{{label}=\"{of}\"}} {value}");
        }
    }

    fn census(&mut self, census: Option<Census>) {
        self.gauge("afterword_up", "Whether the database answers.", i32::from(census.is_some()));
        let Some(census) = census else { return };
        let due = "Sessions with work that may be claimed, counted up to 100000.";
        self.gauge("afterword_due_sessions", due, census.due);
        #[allow(clippy::cast_precision_loss, reason = "a wait in microseconds is far below 2^53")]
        let oldest = census.oldest_due.get() as f64 / 1e6;
        self.gauge("afterword_oldest_due_seconds", "How long the oldest due session has been due.", oldest);
        self.gauge("afterword_leased_sessions", "Sessions in the hands of workers.", census.leased);
        let deferred = "Sessions whose work is put off, counted up to 100000.";
        self.gauge("afterword_deferred_sessions", deferred, census.deferred);
        let failed = "Session and group pairs given up until new content arrives, counted up to 100000.";
        self.gauge("afterword_failed_assessments", failed, census.failed);
    }

    fn vitals(&mut self, vitals: &Vitals) {
        let stalled = i32::from(vitals.stalled().is_some());
        self.gauge("afterword_sweep_stalled", "Whether a loop of the sweep gives no sign of life.", stalled);
        let verdicts = vitals.endings().filter(|(name, _)| matches!(*name, "rated" | "unrated" | "watched"));
        self.counter(
            "afterword_verdicts_total",
            "Verdicts recorded: with a rating, without, and of scorers that only watch.",
            "kind",
            verdicts,
        );
        let tries = vitals.endings().filter(|(name, _)| !matches!(*name, "rated" | "unrated" | "watched"));
        self.counter("afterword_tries_total", "Tries that ended without a verdict.", "ending", tries);
        self.counter("afterword_judge_calls_total", "Judge calls, by how they ended.", "outcome", vitals.calls());
        let name = "afterword_sweep_duration_seconds";
        self.head(name, "histogram", "How long sweeps took that found something to do, planning and judging apart.");
        for (phase, durations) in vitals.durations() {
            let (count, sum) = durations.total();
            for (bound, at_most) in durations.at_most() {
                let _ = writeln!(self.0, "{name}_bucket{{phase=\"{phase}\",le=\"{bound}\"}} {at_most}");
            }
            let _ = writeln!(self.0, "{name}_bucket{{phase=\"{phase}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(self.0, "{name}_sum{{phase=\"{phase}\"}} {}", sum.as_secs_f64());
            let _ = writeln!(self.0, "{name}_count{{phase=\"{phase}\"}} {count}");
        }
    }
}
