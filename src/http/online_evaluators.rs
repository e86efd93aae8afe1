//! Judges that score live by themselves: their profiles within the judge and in the older form, and how they rated.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::groups::{Ratings, considered_since, ratings_of};
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{self, EDIT_TRIES, Kind};
use super::wire::number;
use crate::domain::group::{OnlineProfile, Scope, Severity};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::judge::online::{NEEDS_EXPECTED, name_after, read as read_profile};
use crate::domain::judge::{JudgeEdit, JudgeSpec};
use crate::domain::problems::Problems;
use crate::domain::ratings::Window;
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;
use crate::store::{EventPlace, EventRow, Place, Profile, WantedProfile};

/// What people chose of a profile, numbers written plainly.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Chosen {
    enabled: bool,
    sample_rate: Value,
    scope_mode: &'static str,
    agent_ids: Vec<String>,
    alert_threshold: Option<Value>,
    severity: Severity,
    scope: Scope,
    idle_seconds: i64,
    min_turns: i64,
}

impl From<OnlineProfile> for Chosen {
    fn from(online: OnlineProfile) -> Self {
        Self {
            enabled: online.enabled,
            sample_rate: number(online.sample_rate),
            scope_mode: if online.agents.is_some() { "selected" } else { "all" },
            agent_ids: online.agents.unwrap_or_default(),
            alert_threshold: online.alert_threshold.map(number),
            severity: online.severity,
            scope: online.scope,
            idle_seconds: online.idle_seconds,
            min_turns: online.min_turns,
        }
    }
}

/// A profile as the section of its judge.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Section {
    profile_id: String,
    #[serde(flatten)]
    chosen: Chosen,
}

impl Section {
    pub(super) fn of(profile: Profile) -> Option<Self> {
        let chosen = profile.saved.spec.online?.into();
        Some(Self { profile_id: profile.saved.id.into(), chosen })
    }
}

/// A profile in the older form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Evaluator {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    evaluation_settings_id: String,
    #[serde(flatten)]
    chosen: Option<Chosen>,
    created_at: String,
}

impl From<Profile> for Evaluator {
    fn from(Profile { judge, saved }: Profile) -> Self {
        Self {
            id: saved.id.into(),
            name: saved.spec.name,
            evaluation_settings_id: judge.into(),
            chosen: saved.spec.online.map(Chosen::from),
            created_at: saved.created_at.iso(),
        }
    }
}

/// One of them.
#[derive(Serialize)]
pub(super) struct One {
    evaluator: Evaluator,
}

/// All of them.
#[derive(Serialize)]
pub(super) struct Many {
    evaluators: Vec<Evaluator>,
    #[serde(flatten)]
    next: Next,
}

async fn stored(api: &Api, project: &ProjectId, id: String) -> Result<Profile, ApiError> {
    let profile = api.store.profile(project, &GroupId::trusted(id)).await?;
    profile.ok_or_else(|| ApiError::not_found("Online evaluator not found"))
}

/// `GET /monitor/online-evaluators`: newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let place = |it: &Profile| Place { at: it.saved.created_at, id: it.saved.id.to_string() };
    let (profiles, next) = page::of(api.store.profiles(&project).await?, &asked, place)?;
    Ok(Json(Many { evaluators: profiles.into_iter().map(Evaluator::from).collect(), next }))
}

/// `GET /monitor/online-evaluators/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    Ok(Json(One { evaluator: stored(&api, &project, id).await?.into() }))
}

/// The name that a body gives, where it gives one.
fn given_name(body: &Value, problems: &mut Problems) -> Option<String> {
    let given = body.get("name").filter(|name| !name.is_null())?;
    let name = given.as_str().map(str::trim).filter(|name| (1..=200).contains(&name.chars().count()));
    problems.unless(name.is_some_and(|name| !name.contains('\0')), || "name must be 1-200 characters".to_owned());
    name.map(str::to_owned)
}

/// `POST /monitor/online-evaluators`: gives a judge a profile. Where it has one, a copy of the judge gets it.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let mut problems = Problems::none();
    let name = given_name(&body, &mut problems);
    let judge_id = body.get("evaluationSettingsId").and_then(Value::as_str);
    problems.unless(judge_id.is_some(), || "evaluationSettingsId must name a judge".to_owned());
    let online = read_profile(None, Some(&Value::Object(body.as_object().cloned().unwrap_or_default())), &mut problems);
    let (Some(judge_id), Some(online)) = (judge_id, problems.into_result(online)?) else {
        return Err(ApiError::bad_request("the body must be a JSON object"));
    };
    for _ in 0..EDIT_TRIES {
        let judge = scorers::read(&api, &project, Kind::JUDGE, judge_id).await?;
        let spec: JudgeSpec = scorers::spec(&judge)?;
        let edit = JudgeEdit { online: Some(online.clone()), spec };
        if edit.lacks_expected() {
            return Err(ApiError::conflict(NEEDS_EXPECTED));
        }
        let wanted = WantedProfile { name: name.clone().unwrap_or_else(|| judge.name.clone()), online: online.clone() };
        let (now, profile) = (api.clock.now(), api.store.profile_of_judge(&project, &judge.id).await?);
        let saved = if profile.is_some() {
            let copy = JudgeSpec { name: wanted.name.clone(), ..edit.spec };
            let draft = scorers::draft(Kind::JUDGE, &copy.name, &copy)?;
            api.store.create_judge(&project, &draft, Some(&wanted), now, considered_since(&api, now)).await?.1
        } else {
            let since = considered_since(&api, now);
            let saved = api.store.update_judge(&project, (&judge, None), None, Some(&wanted), now, since).await?;
            saved.and_then(|(_, profile)| profile)
        };
        if let Some(saved) = saved {
            return Ok((StatusCode::CREATED, Json(One { evaluator: saved.into() })));
        }
    }
    Err(scorers::outrun())
}

/// `PUT /monitor/online-evaluators/:id`: a sparse patch.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    for _ in 0..EDIT_TRIES {
        let profile = stored(&api, &project, id.clone()).await?;
        let judge = scorers::read(&api, &project, Kind::JUDGE, profile.judge.as_str()).await?;
        let mut problems = Problems::none();
        let fields: &Map<String, Value> = problems.object(&patch);
        let name = given_name(&patch, &mut problems).unwrap_or_else(|| profile.saved.spec.name.clone());
        let other = fields.get("evaluationSettingsId").filter(|it| it.as_str() != Some(profile.judge.as_str()));
        problems.unless(other.is_none(), || {
            "evaluationSettingsId can't be changed: delete this evaluator, and make one for the other judge".to_owned()
        });
        let online = read_profile(profile.online(), Some(&Value::Object(fields.clone())), &mut problems);
        let edit = JudgeEdit { spec: scorers::spec(&judge)?, online: problems.into_result(online)? };
        if edit.lacks_expected() {
            return Err(ApiError::conflict(NEEDS_EXPECTED));
        }
        let now = api.clock.now();
        let wanted = edit.online.map(|online| WantedProfile { name, online });
        let (from, since) = ((&judge, Some(&profile)), considered_since(&api, now));
        let saved = api.store.update_judge(&project, from, None, wanted.as_ref(), now, since).await?;
        if let Some((_, Some(saved))) = saved {
            return Ok(Json(One { evaluator: saved.into() }));
        }
    }
    Err(scorers::outrun())
}

/// `DELETE /monitor/online-evaluators/:id`. The judge stays, and its verdicts.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<StatusCode, ApiError> {
    let there_was = api.store.delete_profile(&project, &GroupId::trusted(id), api.clock.now()).await?;
    if there_was { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::not_found("Online evaluator not found")) }
}

/// `GET /agent-monitoring/online-evaluators/:id/ratings?window=24h|7d|30d`.
pub(super) async fn ratings(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Ratings>, ApiError> {
    let window = asked.window()?;
    let profile = stored(&api, &project, id).await?;
    ratings_of(&api, &project, &profile.saved.id, window).await
}

/// What a profile rated.
#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the list is called so on the wire")]
pub(super) struct Events {
    window: &'static str,
    events: Vec<Event>,
    #[serde(flatten)]
    next: Next,
}

/// One trace or session that it rated.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    id: String,
    /// The trace; of a session, that of its last turn.
    trace_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    rating: Value,
    justification: String,
    created_at: String,
    input: String,
    output: String,
}

impl From<EventRow> for Event {
    fn from(row: EventRow) -> Self {
        Self {
            id: row.verdict.into(),
            trace_id: row.trace.into(),
            session_id: (!row.subject.is_trace()).then(|| row.subject.into()),
            rating: number(row.rating),
            justification: row.justification,
            created_at: row.created_at.iso(),
            input: row.input,
            output: row.output,
        }
    }
}

/// How many events are listed where no limit is asked for, and the most that may be asked for.
const DEFAULT_EVENTS: usize = 200;
const MOST_EVENTS: usize = 1_000;

/// `GET /agent-monitoring/online-evaluators/:id/events?window=24h|7d|30d&limit&cursor`: the worst first.
pub(super) async fn events(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Events>, ApiError> {
    let window = asked.window()?;
    let profile = stored(&api, &project, id).await?;
    let since = window.start(api.clock.now());
    let limit = asked.limit(DEFAULT_EVENTS, MOST_EVENTS)?;
    let behind = asked.cursor()?.unwrap_or_else(EventPlace::first);
    let mut rows = api.store.worst_rated(&project, &profile.saved.id, since, &behind, limit + 1).await?;
    let next = Next::cut(&mut rows, limit, EventRow::place);
    Ok(Json(Events { window: window.as_str(), events: rows.into_iter().map(Event::from).collect(), next }))
}

/// How a profile's verdicts compare with what people found. Nothing here records that, so there is nothing to compare.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Calibration {
    window: String,
    since: String,
    /// Verdicts with a rating.
    scored: usize,
    /// Those of them that people have labelled.
    labeled: usize,
    agreement_rate: Option<Value>,
    alpha: Option<Value>,
    alpha_band: Option<Value>,
    /// From how many labelled verdicts on the chance-corrected agreement would be told.
    alpha_min_items: usize,
    with_corrected_score: usize,
    rating_mae: Option<Value>,
    disagreements: [Value; 0],
}

/// `GET /agent-monitoring/online-evaluators/:id/calibration?window=24h|7d|30d|rubric`: `rubric` is since the judge's present
/// version, and at most 30 days.
pub(super) async fn calibration(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Calibration>, ApiError> {
    let window = asked.one_of("window", &["7d", "24h", "30d", "rubric"])?;
    let profile = stored(&api, &project, id).await?;
    let now = api.clock.now();
    let since = match Window::from_name(&window) {
        Some(window) => window.start(now),
        None => rubric_since(&scorers::read(&api, &project, Kind::JUDGE, profile.judge.as_str()).await?, now),
    };
    let ratings = api.store.ratings(&project, &profile.saved.id, since, now).await?;
    Ok(Json(Calibration {
        window,
        since: since.iso(),
        scored: ratings.iter().filter(|rated| rated.rating.is_some()).count(),
        labeled: 0,
        agreement_rate: None,
        alpha: None,
        alpha_band: None,
        alpha_min_items: 10,
        with_corrected_score: 0,
        rating_mae: None,
        disagreements: [],
    }))
}

fn rubric_since(judge: &Scorer, now: Timestamp) -> Timestamp {
    judge.updated_at.max(Window::Month.start(now))
}

/// The profile that an edit of a judge asks for.
pub(super) fn wanted(edit: &JudgeEdit, judge_was: &str, profile: Option<&Profile>) -> Option<WantedProfile> {
    let online = edit.online.clone()?;
    let own = profile.map(|profile| profile.saved.spec.name.as_str());
    Some(WantedProfile { name: name_after(own, judge_was, &edit.spec.name), online })
}
