//! Floor 3: the HTTP API, one resource a file. The project of a request comes from its key alone.

mod approvals;
mod auth;
mod body;
mod by_hand;
mod custom;
mod error;
mod evaluation_settings;
mod evaluations;
mod explain;
mod groups;
mod guard;
mod health;
mod judges;
mod metrics;
mod online_evaluators;
mod otlp;
mod patterns;
mod pause;
mod recompose;
mod release;
mod reports;
mod request;
mod resweeps;
mod sample;
mod scorecards;
mod scorers;
mod scores;
mod secret;
mod sessions;
mod settings;
mod signals;
mod spans;
mod sweep;
mod usage;
mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post, put};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::domain::time::Micros;
use crate::entropy::Entropy;
use crate::ingest::writer::Writer;
use crate::store::Store;
use crate::worker::Worker;

use error::ApiError;
pub use resweeps::Shown as ShownResweep;

/// How the API behaves.
#[derive(Debug, Clone, Copy)]
pub struct ApiSettings {
    /// The largest body accepted, in bytes, as it was sent and after decompression.
    pub body_limit_bytes: usize,
    /// How long a request may take before it is answered with an error. Sweeps have a limit of their own, and re-compositions
    /// have none.
    pub request_timeout: Duration,
    /// How far back, by arrival, sessions are considered again when a group's live scoring is switched on or changed.
    pub lookback: Micros,
    /// How long a sweep by hand may go on before it is cut short; with the worker's grace it must end within the 300 seconds
    /// that clients wait.
    pub sweep_patience: Duration,
}

/// Everything that answering requests takes.
#[derive(Debug)]
pub struct Api {
    /// Where everything is kept.
    pub store: Store,
    /// Where spans are handed in.
    pub writer: Writer,
    /// What sweeps by hand are carried out with.
    pub worker: Arc<Worker>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where fresh span ids come from.
    pub entropy: Arc<dyn Entropy>,
    /// How it behaves.
    pub settings: ApiSettings,
    /// Cancelled when the process stops: it cuts sweeps by hand short.
    pub stop: CancellationToken,
}

/// Every route of the API, ready to be served.
pub fn router(api: Arc<Api>) -> Router {
    let timed = Router::new()
        .route("/health", get(health::check))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::show))
        .route("/v1/traces", post(otlp::receive))
        .nest("/api/v1", below_api_v1())
        .layer(from_fn_with_state(api.settings.request_timeout, guard::in_time));
    timed
        .merge(by_hand::routes())
        .route("/api/v1/agent-monitoring/session-sweep/run", post(sweep::run))
        .route("/api/v1/agent-monitoring/scorer-groups/{id}/recompose", post(recompose::run))
        .fallback(async || ApiError::not_found("Not found"))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(from_fn(guard::watch))
        .with_state(api)
}

fn below_api_v1() -> Router<Arc<Api>> {
    let group = get(groups::read).put(groups::update).delete(groups::remove);
    let custom = get(custom::read).put(custom::update).delete(custom::remove);
    let judge = get(judges::read).put(judges::update).delete(judges::remove);
    let scorecard = get(scorecards::read).put(scorecards::update).delete(scorecards::remove);
    Router::new()
        .route("/health", get(health::check))
        .route("/ingest/traces", post(spans::receive))
        .route("/ingest/traces/{id}", get(spans::read))
        .route("/ingest/sessions/{id}/spans", get(spans::of_session))
        .route("/monitor/patterns", get(patterns::list).post(patterns::create))
        .route("/monitor/patterns/{id}", get(patterns::read))
        .route("/agent-monitoring/patterns", get(patterns::list))
        .route("/agent-monitoring/patterns/{id}", put(patterns::update).delete(patterns::remove).get(patterns::read))
        .route("/agent-monitoring/patterns/{id}/versions", get(patterns::versions))
        .route("/agent-monitoring/judge-scorers", get(judges::list).post(judges::create))
        .route("/agent-monitoring/judge-scorers/{id}", judge)
        .route("/agent-monitoring/judge-scorers/{id}/versions", get(judges::versions))
        .merge(online_evaluators::routes())
        .route("/agent-monitoring/custom-evaluators", get(custom::list).post(custom::create))
        .route("/agent-monitoring/custom-evaluators/dry-run", post(custom::dry_run))
        .route("/agent-monitoring/custom-evaluators/{id}", custom)
        .route("/agent-monitoring/custom-evaluators/{id}/events", get(custom::events))
        .route("/agent-monitoring/custom-evaluators/{id}/versions", get(custom::versions))
        .route("/agent-monitoring/approvals/pending", get(approvals::pending))
        .route("/agent-monitoring/signing-secret", get(secret::read))
        .route("/agent-monitoring/signing-secret/rotate", post(secret::rotate))
        .route("/custom-agent-evaluations/evaluation-settings/{id}", get(evaluation_settings::read))
        .route("/agent-monitoring/scorer-groups", get(groups::list).post(groups::create))
        .route("/agent-monitoring/scorer-groups/{id}", group)
        .route("/agent-monitoring/scorer-groups/{id}/sample-preview", get(sample::preview))
        .route("/agent-monitoring/scorer-groups/{id}/pause", post(pause::pause))
        .route("/agent-monitoring/scorer-groups/{id}/resume", post(pause::resume))
        .route("/agent-monitoring/scorer-groups/{id}/ratings", get(groups::ratings))
        .route("/agent-monitoring/resweeps", get(resweeps::list).post(resweeps::create))
        .route("/agent-monitoring/resweeps/{id}", get(resweeps::read))
        .route("/agent-monitoring/resweeps/{id}/pause", post(resweeps::pause))
        .route("/agent-monitoring/resweeps/{id}/resume", post(resweeps::resume))
        .route("/agent-monitoring/resweeps/{id}/cancel", post(resweeps::cancel))
        .route("/agent-monitoring/scorer-groups/{id}/summary", get(reports::summary))
        .route("/agent-monitoring/scorer-groups/{id}/trend", get(reports::trend))
        .route("/agent-monitoring/scorer-groups/{id}/worst", get(reports::worst))
        .route("/agent-monitoring/scores", get(reports::scores))
        .route("/agent-monitoring/scorecards", get(scorecards::list).post(scorecards::create))
        .route("/agent-monitoring/scorecards/{id}", scorecard)
        .route("/agent-monitoring/scorecards/{id}/duplicate", post(scorecards::duplicate))
        .route("/agent-monitoring/traces/{id}/evaluations", get(evaluations::of_trace))
        .route("/agent-monitoring/sessions", get(sessions::list))
        .route("/agent-monitoring/sessions/{id}/scores", get(scores::of_session))
        .route("/agent-monitoring/sessions/{id}/explain", get(explain::session))
        .route("/agent-monitoring/sessions/{id}/release", post(release::session))
        .route("/agent-monitoring/settings/redaction", get(settings::redaction).put(settings::set_redaction))
        .route("/agent-monitoring/usage", get(usage::read))
        .route("/monitor/signals", get(signals::list))
        .route("/monitor/signals/{id}", get(signals::read))
        .route("/agent-monitoring/signals", get(signals::list))
        .route("/agent-monitoring/signals/{id}", get(signals::read_with_feedback))
}

/// Serves requests until `cancel` is cancelled; what is under way then has `grace` to be answered.
///
/// # Errors
/// Where the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    cancel: CancellationToken,
    grace: Duration,
) -> io::Result<()> {
    let served = axum::serve(listener, router).with_graceful_shutdown(cancel.clone().cancelled_owned()).into_future();
    let out_of_grace = async {
        cancel.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = served => served,
        () = out_of_grace => {
            tracing::warn!("requests still under way after {grace:?} were cut off by the stop");
            Ok(())
        }
    }
}
