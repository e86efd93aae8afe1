//! A sweep whose sessions a judge is asked about, over HTTP, at an endpoint that answers after a while: how near it comes to
//! what the endpoint's latency and the calls under way allow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Bench, Report, data, process};
use crate::cli::args::BenchJudgeArgs;
use crate::clock::{Clock as _, stopwatch};
use crate::domain::group::MemberKind;
use crate::domain::ids::{ProjectId, ScorerId};
use crate::domain::judge::JudgeSpec;
use crate::domain::time::Micros;
use crate::scorers::judge::JudgeSettings;
use crate::scorers::{self, Limits};
use crate::store::ScorerDraft;

pub(super) async fn measure(args: &BenchJudgeArgs) -> anyhow::Result<Report> {
    scorers::install_tls();
    let latency = Duration::from_millis(args.latency_ms);
    let endpoint = endpoint(latency, args.in_flight).await?;
    let bench = Bench::with_judges(args.common.seed, endpoint.judges.clone()).await?;
    let project = data::project(&bench).await?;
    let mut members = Vec::new();
    for number in 1..=args.judges {
        let judge = judge(&bench, &project, &format!("Whether it is good in way {number}")).await?;
        members.push(json!({"kind": "judge", "refId": judge}));
    }
    data::group_of(&bench, &project, &json!(members)).await?;
    data::sessions_alike(&bench, &project, 0..args.sessions, args.turns, args.alike).await?;
    bench.clock.advance(Micros::seconds(3_600));

    let cpu = process::cpu_seconds();
    let watch = stopwatch();
    let pass = bench.worker.pass(None, Duration::MAX, &CancellationToken::new()).await?;
    let seconds = watch.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds().zip(cpu).map(|(after, before)| after - before);

    let done = u64::try_from(pass.judged)?;
    anyhow::ensure!(done == args.sessions, "{done} of {} sessions were judged: {pass:?}", args.sessions);
    let questions = args.judges * args.sessions.div_ceil(args.alike);
    let report = Report::of(format!(
        "Sweep of {} quiet sessions, {} of each conversation, by a group of {} judges that answer after {} ms, {} calls under \
         way at most, SQLite, from plan to recorded verdict; one call for each judge and conversation (seed {})",
        args.sessions, args.alike, args.judges, args.latency_ms, args.in_flight, args.common.seed
    ))
    .text("engine", "sqlite")
    .count("sessions", args.sessions, "")
    .count("judges", args.judges, "")
    .count("alike", args.alike, "")
    .count("calls", questions, "")
    .count("in_flight", u64::try_from(args.in_flight)?, "")
    .number("sweep_seconds", seconds, "s");
    endpoint.figures(report, questions, seconds, cpu)
}

/// An endpoint that answers after a while, on loopback.
pub(super) struct Endpoint {
    /// How it is asked.
    pub(super) judges: JudgeSettings,
    latency: Duration,
    in_flight: usize,
    calls: Arc<AtomicU64>,
    slept_micros: Arc<AtomicU64>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Endpoint {
    /// Adds how near so many calls, one for each session or row, made in so many seconds with so much CPU time, came to what
    /// the endpoint allows: by the latency that it was told to have, and by the one that it had, since timers are late.
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn figures(self, report: Report, wanted: u64, seconds: f64, cpu: Option<f64>) -> anyhow::Result<Report> {
        self.serving.abort();
        let calls = self.calls.load(Ordering::SeqCst);
        anyhow::ensure!(calls == wanted, "{calls} calls were made where {wanted} were wanted");
        let latency = self.latency.as_secs_f64();
        let (calls, allowed) = (calls as f64, self.in_flight as f64 / latency);
        let had_ms = self.slept_micros.load(Ordering::SeqCst) as f64 / 1e3 / calls;
        let report = report
            .number("calls_per_s", calls / seconds, "1/s")
            .number("allowed_calls_per_s", allowed, "1/s")
            .number("share_of_allowed", calls / seconds / allowed, "")
            .number("endpoint_latency_ms", had_ms, "ms")
            .number("share_of_allowed_by_that", calls / seconds / allowed * had_ms / latency / 1e3, "");
        Ok(match cpu {
            Some(cpu) => report.number("cpu_ms_per_call", cpu * 1e3 / calls, "ms"),
            None => report,
        })
    }
}

/// Starts one.
pub(super) async fn endpoint(latency: Duration, in_flight: usize) -> anyhow::Result<Endpoint> {
    let stub = Stub { latency, calls: Arc::default(), slept_micros: Arc::default() };
    let (calls, slept_micros) = (Arc::clone(&stub.calls), Arc::clone(&stub.slept_micros));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base_url = format!("http://{}/v1", listener.local_addr()?);
    let served = Router::new().route("/v1/chat/completions", post(complete)).with_state(stub);
    let serving = tokio::spawn(async move { axum::serve(listener, served).await });
    let judges = JudgeSettings {
        base_url: Some(base_url),
        model: "stub".to_owned(),
        limits: Limits { max_concurrency: in_flight, ..Limits::default() },
        ..JudgeSettings::default()
    };
    Ok(Endpoint { judges, latency, in_flight, calls, slept_micros, serving })
}

/// A judge of these criteria; answers its id.
pub(super) async fn judge(bench: &Bench, project: &ProjectId, criteria: &str) -> anyhow::Result<ScorerId> {
    let spec = JudgeSpec::create(&json!({"name": "quality", "judge": {"acceptanceCriteria": criteria}}))?;
    let spec_text = serde_json::to_string(&spec)?;
    let draft = ScorerDraft { kind: MemberKind::Judge, name: spec.name, spec: spec_text };
    Ok(bench.store.create_scorer(project, &draft, bench.clock.now()).await?.id)
}

/// The endpoint.
#[derive(Clone)]
struct Stub {
    latency: Duration,
    calls: Arc<AtomicU64>,
    slept_micros: Arc<AtomicU64>,
}

async fn complete(State(stub): State<Stub>, Json(request): Json<Value>) -> Json<Value> {
    stub.calls.fetch_add(1, Ordering::SeqCst);
    let watch = stopwatch();
    tokio::time::sleep(stub.latency).await;
    stub.slept_micros.fetch_add(u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    let nonce = &request["response_format"]["json_schema"]["schema"]["properties"]["nonce"]["enum"][0];
    let reply = json!({"nonce": nonce, "rating": 8, "justification": "Settled.", "evidence": null}).to_string();
    Json(json!({
        "choices": [{"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 30},
    }))
}
