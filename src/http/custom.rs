//! Custom scorers: made, listed, edited, deleted, tried out, and what they reported lately.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::auth::{Caller, Holder};
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{self, EDIT_TRIES, Kind, Versions, Watched};
use super::wire::number;
use crate::domain::address::masked;
use crate::domain::custom::{BuiltIn, Check, CustomSpec, Language};
use crate::domain::group::Severity;
use crate::domain::ids::ScorerId;
use crate::domain::outcome::Goodness;
use crate::domain::own::{Alarm, FLAGGED, Owner};
use crate::domain::scorer::Scorer;
use crate::scorers::guard::Refusal;
use crate::store::{ReportPlace, ReportRow};

const CUSTOM: Kind = Kind::CUSTOM;

/// How many events are listed where no limit is asked for, and the most that may be asked for.
const DEFAULT_EVENTS: usize = 500;
const MOST_EVENTS: usize = 1_000;

/// A custom scorer as answers show it. The address is there for every kind, empty where there is none: readers insist on it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    url: String,
    sample_rate: Value,
    scope_mode: String,
    agent_ids: Vec<String>,
    enabled: bool,
    invert_match: bool,
    severity: Severity,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<Language>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alert_below: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<BuiltIn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    created_at: String,
    updated_at: String,
    version_count: i64,
}

impl Shown {
    fn of(watched: Watched<CustomSpec>) -> Self {
        let Watched { scorer, spec, .. } = watched;
        let kind = spec.check.kind();
        let mut shown = Self {
            id: scorer.id.to_string(),
            name: spec.name,
            url: String::new(),
            sample_rate: number(spec.sample_rate),
            scope_mode: spec.scope_mode,
            agent_ids: spec.agent_ids,
            enabled: spec.enabled,
            invert_match: false,
            severity: spec.severity,
            kind,
            language: None,
            script: None,
            alert_below: None,
            key: None,
            from: None,
            created_at: scorer.created_at.iso(),
            updated_at: scorer.updated_at.iso(),
            version_count: scorer.version,
        };
        match spec.check {
            Check::Code { language, script, alert_below } => {
                shown.language = Some(language);
                shown.script = Some(script);
                shown.alert_below = Some(number(alert_below));
            }
            Check::External { url, invert_match } => {
                shown.url = url;
                shown.invert_match = invert_match;
            }
            Check::BuiltIn { key, from } => {
                shown.key = Some(key);
                shown.from = from.map(crate::domain::time::Timestamp::iso);
            }
        }
        shown
    }

    /// As it is shown to `holder`.
    fn to(self, holder: &Holder) -> Self {
        if holder.sees_addresses() { self } else { Self { url: masked(&self.url), ..self } }
    }
}

/// One custom scorer.
#[derive(Serialize)]
pub(super) struct One {
    evaluator: Shown,
}

impl One {
    fn of(watched: Watched<CustomSpec>) -> Json<Self> {
        Json(Self { evaluator: Shown::of(watched) })
    }
}

/// All of them.
#[derive(Serialize)]
pub(super) struct Many {
    evaluators: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

/// Refuses what could never be carried out: a script that does not compile, an address that is never called.
async fn check(api: &Api, check: &Check) -> Result<(), ApiError> {
    let refused = match check {
        Check::Code { language, script, .. } => {
            api.worker.check_script(*language, script).await.map_err(|why| format!("script can't be used: {why}"))
        }
        Check::External { url, .. } => api.worker.check_url(url).map_err(|why| match why {
            Refusal::NoUrl => why.to_string(),
            Refusal::Never(..) | Refusal::Private(_) => format!("url can't be called: {why}"),
        }),
        Check::BuiltIn { .. } => Ok(()),
    };
    refused.map_err(ApiError::bad_request)
}

/// `POST /agent-monitoring/custom-evaluators`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let spec = CustomSpec::create(&body)?;
    check(&api, &spec.check).await?;
    let saved = scorers::create_watching(&api, &project, CUSTOM, &spec).await?;
    Ok((StatusCode::CREATED, One::of(saved)))
}

/// `GET /agent-monitoring/custom-evaluators`: newest first.
pub(super) async fn list(State(api): State<Arc<Api>>, holder: Holder, asked: Asked) -> Result<Json<Many>, ApiError> {
    let project = &holder.key.project;
    let saved = api.store.scorers(project, CUSTOM.member).await?;
    let (saved, next) = page::of(saved, &asked, scorers::place)?;
    let saved = scorers::watching(&api, project, CUSTOM, saved).await?;
    Ok(Json(Many { evaluators: saved.into_iter().map(|it| Shown::of(it).to(&holder)).collect(), next }))
}

/// `GET /agent-monitoring/custom-evaluators/:id`.
pub(super) async fn read(State(api): State<Arc<Api>>, holder: Holder, Id(id): Id) -> Result<Json<One>, ApiError> {
    let saved = scorers::read_watching(&api, &holder.key.project, CUSTOM, &id).await?;
    Ok(Json(One { evaluator: Shown::of(saved).to(&holder) }))
}

/// `PUT /agent-monitoring/custom-evaluators/:id`: a sparse patch.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    for _ in 0..EDIT_TRIES {
        let stored: Watched<CustomSpec> = scorers::read_watching(&api, &project, CUSTOM, &id).await?;
        let spec = stored.spec.patched(&patch)?;
        if spec.check != stored.spec.check {
            check(&api, &spec.check).await?;
        }
        if let Some(saved) = scorers::save_watching(&api, &project, CUSTOM, &stored, &spec).await? {
            return Ok(One::of(saved));
        }
    }
    Err(scorers::outrun())
}

/// `DELETE /agent-monitoring/custom-evaluators/:id`.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<StatusCode, ApiError> {
    scorers::remove(&api, &project, CUSTOM, &id).await
}

/// `GET /agent-monitoring/custom-evaluators/:id/versions`: newest first, a deleted one's too.
pub(super) async fn versions(
    State(api): State<Arc<Api>>,
    holder: Holder,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Versions>, ApiError> {
    let Json(versions) = scorers::versions(&api, &holder.key.project, CUSTOM, &id, &asked).await?;
    Ok(Json(if holder.sees_addresses() { versions } else { versions.with_masked_addresses() }))
}

/// `POST /agent-monitoring/custom-evaluators/dry-run`: always answers 200, whatever comes of it.
pub(super) async fn dry_run(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Json<Value> {
    let spec = match CustomSpec::dry(&body) {
        Ok(spec) => spec,
        Err(problems) => return Json(json!({"ok": false, "error": problems.to_string()})),
    };
    match api.worker.dry_run(&project, &spec).await {
        Err((error, latency_ms)) => Json(json!({"ok": false, "error": error, "latencyMs": latency_ms})),
        Ok(run) => {
            let mut response = json!({"matches": run.matches});
            let only_matches = [FLAGGED, "clean"].contains(&run.opinion.detail.as_str());
            if let Some(goodness) = run.opinion.outcome.goodness().filter(|_| !only_matches) {
                response["score"] = number(goodness.get());
            }
            if let Some(reason) = run.opinion.justification {
                response["reason"] = reason.into();
            }
            Json(json!({"ok": true, "latencyMs": run.latency_ms, "response": response}))
        }
    }
}

/// What a scorer reported lately.
#[derive(Serialize)]
pub(super) struct Events {
    events: Vec<Event>,
    #[serde(flatten)]
    next: Next,
}

/// What it reported for one verdict.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    id: String,
    /// Null where a single trace was scored.
    session_id: Option<String>,
    trace_id: String,
    /// Null where it watched by itself.
    group_id: Option<String>,
    group_name: Option<String>,
    version: Option<i64>,
    outcome: String,
    /// 0-1 where it scored.
    score: Option<Value>,
    /// Whether that is what it alerts by on its own; null where it did not score, or its version is not known any more.
    matched: Option<bool>,
    /// Why it did not.
    reason: Option<String>,
    detail: String,
    justification: Option<String>,
    /// When the conversation's last turn was.
    last_turn_at: String,
    /// When the verdict was recorded.
    created_at: String,
}

impl Event {
    fn of(row: ReportRow, alarms: &BTreeMap<i64, Alarm>) -> Self {
        let goodness = row.goodness.and_then(Goodness::new);
        let alarm = row.version.and_then(|version| alarms.get(&version));
        let matched = alarm.filter(|_| goodness.is_some()).map(|alarm| alarm.rings(goodness, row.facts.as_ref()));
        let (group_id, group_name) = row.group.map(|(id, name)| (String::from(id), name)).unzip();
        Self {
            id: row.verdict.into(),
            session_id: (!row.session.is_trace()).then(|| row.session.into()),
            trace_id: row.trace.into(),
            group_id,
            group_name,
            version: row.version,
            outcome: row.outcome,
            score: row.goodness.map(number),
            matched,
            reason: row.reason,
            detail: row.detail,
            justification: row.justification,
            last_turn_at: row.last_turn_at.iso(),
            created_at: row.created_at.iso(),
        }
    }
}

/// `GET /agent-monitoring/custom-evaluators/:id/events?window=24h|7d|30d&limit&cursor`: what it reported as a member of groups and
/// by itself, for conversations that ended within the window, the latest first.
pub(super) async fn events(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Events>, ApiError> {
    let window = asked.window()?;
    let built_in = Scorer::built_in(CUSTOM.member, &id);
    if built_in.is_none() {
        scorers::read(&api, &project, CUSTOM, &id).await?;
    }
    let history = api.store.scorer_history(&project, CUSTOM.member, &id).await?;
    let versions = built_in.into_iter().chain(history.into_iter().flat_map(|history| history.versions));
    let owner = Owner { kind: CUSTOM.member, id: ScorerId::trusted(id.clone()) };
    let alarms = versions.filter_map(|scorer| Some((scorer.version, Alarm::of(&owner, Some(&scorer))?))).collect();
    let since = window.start(api.clock.now());
    let limit = asked.limit(DEFAULT_EVENTS, MOST_EVENTS)?;
    let behind = asked.cursor()?.unwrap_or_else(ReportPlace::first);
    let mut rows = api.store.reports_of_custom(&project, &id, since, &behind, limit + 1).await?;
    let next = Next::cut(&mut rows, limit, ReportRow::place);
    Ok(Json(Events { events: rows.into_iter().map(|row| Event::of(row, &alarms)).collect(), next }))
}
