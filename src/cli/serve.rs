//! `serve` and `work`: until a signal says stop.

use std::io::ErrorKind;
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{ExitCode, fail, print};
use crate::app::{App, FirstKey, FirstStartError, PROBE_PATIENCE, SWEEP_PATIENCE};
use crate::http::{self, Api, ApiSettings, Connections, Rates, StreamSettings};
use crate::worker;

/// Serves the API and judges quiet conversations.
pub(super) async fn serve(app: App, cancel: CancellationToken) -> ExitCode {
    let given = std::env::var("AFTERWORD_API_KEY").ok().filter(|key| !key.trim().is_empty());
    let address = app.config.server.listen;
    let (project, key) = match app.first_start(given.as_deref(), address.ip().is_loopback()).await {
        Ok(first) => first,
        Err(error @ FirstStartError::Store(_)) => return fail(ExitCode::Database, &error),
        Err(error) => return fail(ExitCode::Config, &error),
    };
    let worker = match app.worker() {
        Ok(worker) => worker,
        Err(error) => return fail(ExitCode::Config, &error),
    };
    let deliverer = match app.deliverer() {
        Ok(deliverer) => deliverer,
        Err(error) => return fail(ExitCode::Config, &error),
    };
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            let hint = match error.kind() {
                ErrorKind::AddrInUse => "Is another afterword running?",
                ErrorKind::PermissionDenied => "Ports below 1024 may need more rights than this user has.",
                _ => "This machine must have that address.",
            };
            let text = format!("can't listen on {address}: {error}. {hint} See server.listen");
            return fail(ExitCode::Failed, &text);
        }
    };
    let bound = listener.local_addr().unwrap_or(address);
    print(&welcome(&project.name, &key, bound, &app));
    let api = Arc::new(Api {
        store: app.store.clone(),
        writer: app.writer(),
        worker: Arc::clone(&worker),
        deliverer: Arc::clone(&deliverer),
        clock: app.any_clock(),
        entropy: Arc::clone(&app.entropy),
        stop: cancel.clone(),
        settings: ApiSettings {
            body_limit_bytes: app.config.server.body_limit_bytes,
            request_timeout: app.config.server.request_timeout.to_std(),
            requests_per_minute: app.config.server.requests_per_minute,
            lookback: app.config.sweep.lookback,
            sweep_patience: SWEEP_PATIENCE.to_std(),
            probe_patience: PROBE_PATIENCE.to_std(),
            secret_overlap: app.config.deliveries.secret_overlap,
            stream: StreamSettings {
                heartbeat: app.config.server.stream_heartbeat.to_std(),
                patience: app.config.server.stream_patience.to_std(),
            },
        },
        streams: Arc::new(Semaphore::new(app.config.server.max_streams)),
        rates: Rates::default(),
    });
    let scheduled = app.scheduled_resweeps();
    let ordering = worker::order_on_schedule(Arc::clone(&worker), scheduled, cancel.clone());
    let connections = Connections {
        most: app.config.server.max_connections,
        head_timeout: app.config.server.head_timeout.to_std(),
        stall_timeout: app.config.server.request_timeout.to_std(),
        grace: app.config.shutdown.grace.to_std(),
    };
    let sweeping = worker::run(worker, app.config.sweep.schedule.clone(), cancel.clone());
    let delivering = deliverer.run(cancel.clone());
    // Whichever ends first takes the other along: a service without its API, or without its sweep, is no service.
    let serving = async {
        http::serve(listener, http::router(api), cancel.clone(), connections).await;
        cancel.cancel();
    };
    tokio::join!(serving, sweeping, ordering, delivering);
    ExitCode::Fine
}

/// Judges quiet conversations and delivers, without an API.
pub(super) async fn work(app: App, cancel: CancellationToken) -> ExitCode {
    let schedule = app.config.sweep.schedule.clone();
    if schedule.is_off() {
        return fail(ExitCode::Config, &"sweep.schedule is off, so a worker would have nothing to do. Set a schedule");
    }
    let worker = match app.worker() {
        Ok(worker) => worker,
        Err(error) => return fail(ExitCode::Config, &error),
    };
    let scheduled = app.scheduled_resweeps();
    let deliverer = match app.deliverer() {
        Ok(deliverer) => deliverer,
        Err(error) => return fail(ExitCode::Config, &error),
    };
    tracing::info!(schedule = schedule.as_str(), "working");
    let ordering = worker::order_on_schedule(Arc::clone(&worker), scheduled, cancel.clone());
    tokio::join!(Box::pin(worker::run(worker, schedule, cancel.clone())), ordering, deliverer.run(cancel));
    ExitCode::Fine
}

/// What a person who starts the service wants to know.
fn welcome(project: &str, key: &FirstKey, bound: std::net::SocketAddr, app: &App) -> String {
    let key = match key {
        FirstKey::Made(key) => {
            format!("API key of project {project}, shown this once: {}\n", key.expose_secret())
        }
        FirstKey::Adopted { prefix } => format!("API key of project {project}: {prefix}…, from AFTERWORD_API_KEY\n"),
        FirstKey::Known => "API keys exist; `afterword key create` makes another\n".to_owned(),
    };
    let schedule = &app.config.sweep.schedule;
    let sweeps = if schedule.is_off() {
        "off: sweeps are made by hand and API alone".to_owned()
    } else {
        schedule.as_str().to_owned()
    };
    let judge = match &app.config.judge.model {
        Some(model) => model.as_str(),
        None => "none configured: judge members wait until judge.base_url and judge.model are set",
    };
    format!(
        "{key}Listening on http://{bound} (API below /api/v1, OTLP at /v1/traces)\nSweeps: {sweeps}\nJudge: {judge}\n"
    )
}
