//! The routes: every one of them, with the scope that a key needs for it.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{self, MethodRouter};
use axum::{Extension, Router};

use super::auth::Needs;
use super::error::ApiError;
use super::{
    Api, agents, approvals, backlog, by_hand, custom, datasets, deliveries, evaluate, evaluation_settings, evaluations,
    explain, groups, guard, health, idempotency, judges, keys, kpis, metrics, online_evaluators, openapi, otlp,
    patterns, pause, projects, rail, receivers, recompose, release, reports, resweeps, runs, sample, scorecards,
    scores, secret, sessions, settings, signals, spans, stream, sweep, usage,
};
use crate::domain::access::Scope::{self, Ingest, Manage, Operate, Read};

/// Where the API begins; OTLP and `/health` are found beside it too.
pub(super) const API: &str = "/api/v1";

/// One route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, with `{name}` for what varies.
    pub path: String,
    /// The scope that a key needs for it; `None` where no key is asked for.
    pub scope: Option<Scope>,
    /// Whether it makes something, and honours `Idempotency-Key`. What shows a key once does not: its answer is never kept.
    pub creates: bool,
}

/// Routes as they are declared: what answers, and who may ask.
struct Table {
    router: Router<Arc<Api>>,
    routes: Vec<Route>,
}

macro_rules! methods {
    ($($name:ident $method:ident)+) => {$(
        fn $name<H: Handler<T, Arc<Api>>, T: 'static>(self, scope: Scope, path: &str, handler: H) -> Self {
            self.with(Method::$method, path, scope, routing::$name(handler))
        }
    )+};
}

impl Table {
    fn new() -> Self {
        Self { router: Router::new(), routes: Vec::new() }
    }

    methods! { get GET post POST put PUT patch PATCH delete DELETE }

    fn with(mut self, method: Method, path: &str, scope: Scope, answers: MethodRouter<Arc<Api>>) -> Self {
        self.router = self.router.route(path, answers.route_layer(Extension(Needs(scope))));
        self.routes.push(Route { method, path: path.to_owned(), scope: Some(scope), creates: false });
        self
    }

    /// A `POST` that makes something.
    fn create<H: Handler<T, Arc<Api>>, T: 'static>(self, scope: Scope, path: &str, handler: H) -> Self {
        let mut table = self.post(scope, path, handler);
        if let Some(route) = table.routes.last_mut() {
            route.creates = true;
        }
        table
    }

    /// A route that asks for no key.
    fn open<H: Handler<T, Arc<Api>>, T: 'static>(mut self, path: &str, handler: H) -> Self {
        self.router = self.router.route(path, routing::get(handler));
        self.routes.push(Route { method: Method::GET, path: path.to_owned(), scope: None, creates: false });
        self
    }

    fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.routes.extend(other.routes);
        self
    }

    fn below(mut self, prefix: &str) -> Self {
        self.router = Router::new().nest(prefix, self.router);
        for route in &mut self.routes {
            route.path.insert_str(0, prefix);
        }
        self
    }
}

/// What is answered within `server.request_timeout`.
fn timed() -> Table {
    let api = Table::new()
        .open("/health", health::check)
        .merge(catalogue())
        .merge(results())
        .merge(dataset_runs())
        .merge(access())
        .below(API);
    Table::new()
        .open("/health", health::check)
        .open("/ready", health::ready)
        .open("/metrics", metrics::show)
        .open("/openapi.json", openapi::show)
        .open("/docs", openapi::page)
        .post(Ingest, "/v1/traces", otlp::receive)
        .post(Ingest, "/v1/logs", otlp::receive_logs)
        .merge(api)
}

/// What takes its own time.
fn untimed() -> Table {
    Table::new()
        .post(Operate, "/agent-monitoring/session-sweep/run", sweep::run)
        .post(Operate, "/agent-monitoring/scorer-groups/{id}/recompose", recompose::run)
        .post(Manage, "/ingest/traces/{id}/evaluate", evaluate::evaluate)
        .post(Manage, "/custom-agent-evaluations/runs/{id}/results", runs::append)
        .post(Manage, "/custom-agent-evaluations/runs/{id}/rescore", runs::rescore)
        .post(Operate, "/agent-monitoring/sessions/{id}/judge/{evaluator}", by_hand::judge)
        .post(Operate, "/agent-monitoring/sessions/{id}/coherence-check", by_hand::check_coherence)
        .below(API)
}

/// What is judged, and how.
fn catalogue() -> Table {
    Table::new()
        .get(Read, "/monitor/patterns", patterns::list)
        .create(Manage, "/monitor/patterns", patterns::create)
        .get(Read, "/monitor/patterns/{id}", patterns::read)
        .get(Read, "/agent-monitoring/patterns", patterns::list_with_counts)
        .put(Manage, "/agent-monitoring/patterns/{id}", patterns::update)
        .delete(Manage, "/agent-monitoring/patterns/{id}", patterns::remove)
        .get(Read, "/agent-monitoring/patterns/{id}", patterns::read)
        .get(Read, "/agent-monitoring/patterns/{id}/versions", patterns::versions)
        .get(Read, "/agent-monitoring/judge-scorers", judges::list)
        .create(Manage, "/agent-monitoring/judge-scorers", judges::create)
        .get(Read, "/agent-monitoring/judge-scorers/{id}", judges::read)
        .put(Manage, "/agent-monitoring/judge-scorers/{id}", judges::update)
        .delete(Manage, "/agent-monitoring/judge-scorers/{id}", judges::remove)
        .get(Read, "/agent-monitoring/judge-scorers/{id}/versions", judges::versions)
        .get(Read, "/agent-monitoring/online-evaluators", online_evaluators::list)
        .get(Read, "/monitor/online-evaluators", online_evaluators::list)
        .create(Manage, "/monitor/online-evaluators", online_evaluators::create)
        .get(Read, "/monitor/online-evaluators/{id}", online_evaluators::read)
        .put(Manage, "/monitor/online-evaluators/{id}", online_evaluators::update)
        .delete(Manage, "/monitor/online-evaluators/{id}", online_evaluators::remove)
        .get(Read, "/agent-monitoring/custom-evaluators", custom::list)
        .create(Manage, "/agent-monitoring/custom-evaluators", custom::create)
        .post(Manage, "/agent-monitoring/custom-evaluators/dry-run", custom::dry_run)
        .get(Read, "/agent-monitoring/custom-evaluators/{id}", custom::read)
        .put(Manage, "/agent-monitoring/custom-evaluators/{id}", custom::update)
        .delete(Manage, "/agent-monitoring/custom-evaluators/{id}", custom::remove)
        .get(Read, "/agent-monitoring/custom-evaluators/{id}/events", custom::events)
        .get(Read, "/agent-monitoring/custom-evaluators/{id}/versions", custom::versions)
        .get(Read, "/custom-agent-evaluations/evaluation-settings", evaluation_settings::list)
        .create(Manage, "/custom-agent-evaluations/evaluation-settings", evaluation_settings::create)
        .get(Read, "/custom-agent-evaluations/evaluation-settings/{id}", evaluation_settings::read)
        .get(Read, "/agent-monitoring/scorer-groups", groups::list)
        .create(Manage, "/agent-monitoring/scorer-groups", groups::create)
        .get(Read, "/agent-monitoring/scorer-groups/{id}", groups::read)
        .put(Manage, "/agent-monitoring/scorer-groups/{id}", groups::update)
        .delete(Manage, "/agent-monitoring/scorer-groups/{id}", groups::remove)
        .get(Read, "/agent-monitoring/scorecards", scorecards::list)
        .create(Manage, "/agent-monitoring/scorecards", scorecards::create)
        .get(Read, "/agent-monitoring/scorecards/{id}", scorecards::read)
        .put(Manage, "/agent-monitoring/scorecards/{id}", scorecards::update)
        .delete(Manage, "/agent-monitoring/scorecards/{id}", scorecards::remove)
        .create(Manage, "/agent-monitoring/scorecards/{id}/duplicate", scorecards::duplicate)
}

/// What came in, and what came of it.
fn results() -> Table {
    Table::new()
        .post(Ingest, "/ingest/traces", spans::receive)
        .get(Read, "/ingest/traces", spans::list)
        .get(Read, "/ingest/traces/{id}", spans::read)
        .get(Read, "/ingest/sessions/{id}/spans", spans::of_session)
        .get(Read, "/agent-monitoring/approvals/pending", approvals::pending)
        .get(Read, "/agent-monitoring/scorer-groups/{id}/ratings", groups::ratings)
        .get(Read, "/agent-monitoring/scorer-groups/{id}/summary", reports::summary)
        .get(Read, "/agent-monitoring/scorer-groups/{id}/trend", reports::trend)
        .get(Read, "/agent-monitoring/scorer-groups/{id}/worst", reports::worst)
        .get(Read, "/agent-monitoring/online-evaluators/{id}/ratings", online_evaluators::ratings)
        .get(Read, "/agent-monitoring/online-evaluators/{id}/events", online_evaluators::events)
        .get(Read, "/agent-monitoring/online-evaluators/{id}/calibration", online_evaluators::calibration)
        .get(Read, "/monitor/online-evaluators/{id}/ratings", online_evaluators::ratings)
        .get(Read, "/monitor/online-evaluators/{id}/events", online_evaluators::events)
        .get(Read, "/monitor/online-evaluators/{id}/calibration", online_evaluators::calibration)
        .get(Read, "/agent-monitoring/scores", reports::scores)
        .get(Read, "/agent-monitoring/traces/{id}/evaluations", evaluations::of_trace)
        .get(Read, "/agent-monitoring/scorer-groups/{id}/sample-preview", sample::preview)
        .post(Operate, "/agent-monitoring/scorer-groups/{id}/pause", pause::pause)
        .post(Operate, "/agent-monitoring/scorer-groups/{id}/resume", pause::resume)
        .get(Read, "/agent-monitoring/backlog", backlog::read)
        .get(Read, "/agent-monitoring/resweeps", resweeps::list)
        .create(Operate, "/agent-monitoring/resweeps", resweeps::create)
        .get(Read, "/agent-monitoring/resweeps/{id}", resweeps::read)
        .post(Operate, "/agent-monitoring/resweeps/{id}/pause", resweeps::pause)
        .post(Operate, "/agent-monitoring/resweeps/{id}/resume", resweeps::resume)
        .post(Operate, "/agent-monitoring/resweeps/{id}/cancel", resweeps::cancel)
        .get(Read, "/agent-monitoring/sessions", sessions::list)
        .post(Operate, "/agent-monitoring/sessions/{id}/release", release::session)
        .get(Read, "/agent-monitoring/sessions/{id}/scores", scores::of_session)
        .get(Read, "/agent-monitoring/sessions/{id}/explain", explain::session)
        .get(Read, "/agent-monitoring/sessions/{id}/rail", rail::of_session)
        .get(Read, "/agent-monitoring/rail/stream", stream::follow)
        .get(Read, "/agent-monitoring/usage", usage::read)
        .get(Read, "/monitor/kpis", kpis::read)
        .get(Read, "/monitor/signals", signals::list)
        .get(Read, "/monitor/signals/{id}", signals::read)
        .get(Read, "/agent-monitoring/signals", signals::list)
        .get(Read, "/agent-monitoring/signals/{id}", signals::read_with_feedback)
        .patch(Manage, "/agent-monitoring/signals/{id}", signals::triage)
}

/// Datasets, and what agents made of them.
fn dataset_runs() -> Table {
    Table::new()
        .get(Read, "/custom-agent-evaluations/datasets", datasets::list)
        .create(Manage, "/custom-agent-evaluations/datasets", datasets::create)
        .get(Read, "/custom-agent-evaluations/datasets/{id}", datasets::read)
        .delete(Manage, "/custom-agent-evaluations/datasets/{id}", datasets::remove)
        .get(Read, "/custom-agent-evaluations/runs", runs::list)
        .create(Manage, "/custom-agent-evaluations/runs", runs::create)
        .get(Read, "/custom-agent-evaluations/runs/{id}", runs::read)
        .get(Read, "/custom-agent-evaluations/runs/{id}/missing-results", runs::missing)
        .post(Manage, "/custom-agent-evaluations/runs/{id}/finalize", runs::finalize)
        // It records, where that is asked for.
        .get(Manage, "/custom-agent-evaluations/runs/{id}/gate", runs::gate)
        .get(Read, "/evaluate/ci/gates", runs::gates)
}

/// What a project chooses for itself, and whom it lets in.
fn access() -> Table {
    Table::new()
        .get(Operate, "/agent-monitoring/signing-secret", secret::read)
        .post(Operate, "/agent-monitoring/signing-secret/rotate", secret::rotate)
        .get(Read, "/agent-monitoring/receivers", receivers::list)
        .create(Manage, "/agent-monitoring/receivers", receivers::create)
        .get(Read, "/agent-monitoring/receivers/{id}", receivers::read)
        .put(Manage, "/agent-monitoring/receivers/{id}", receivers::update)
        .delete(Manage, "/agent-monitoring/receivers/{id}", receivers::remove)
        .post(Operate, "/agent-monitoring/receivers/{id}/test", receivers::test)
        .post(Operate, "/agent-monitoring/receivers/{id}/redeliver", receivers::redeliver)
        .get(Read, "/agent-monitoring/deliveries", deliveries::list)
        .get(Read, "/agent-monitoring/deliveries/{id}", deliveries::read)
        .post(Operate, "/agent-monitoring/deliveries/{id}/redeliver", deliveries::redeliver)
        .get(Read, "/agent-monitoring/settings/redaction", settings::redaction)
        .put(Manage, "/agent-monitoring/settings/redaction", settings::set_redaction)
        .get(Read, "/agent-monitoring/settings/monitoring-defaults", settings::monitoring_defaults)
        .put(Manage, "/agent-monitoring/settings/monitoring-defaults", settings::set_monitoring_defaults)
        .get(Read, "/agents", agents::list)
        .create(Manage, "/agents", agents::create)
        .get(Read, "/monitor/profiles/{id}", agents::profile)
        .put(Manage, "/monitor/profiles/{id}", agents::set_profile)
        .get(Operate, "/projects", projects::list)
        .post(Operate, "/projects", projects::create)
        .delete(Operate, "/projects/{id}", projects::remove)
        .get(Operate, "/agent-monitoring/keys", keys::list)
        .post(Operate, "/agent-monitoring/keys", keys::create)
        .post(Operate, "/agent-monitoring/keys/{id}/rotate", keys::rotate)
        .delete(Operate, "/agent-monitoring/keys/{id}", keys::revoke)
}

/// Every route of the API, ready to be served.
pub fn router(api: Arc<Api>) -> Router {
    let once = from_fn_with_state(Arc::clone(&api), idempotency::once);
    let timed = timed().router.layer(once).layer(from_fn_with_state(api.settings.request_timeout, guard::in_time));
    timed
        .merge(untimed().router)
        .fallback(async || ApiError::not_found("Not found"))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(from_fn_with_state(Arc::clone(&api), guard::tell_outages))
        .layer(from_fn(guard::watch))
        .with_state(api)
}

/// Every route of the API.
pub fn routes() -> Vec<Route> {
    timed().merge(untimed()).routes
}
