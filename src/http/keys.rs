//! API keys: made, listed, rotated and revoked by keys of the same project that may do no less.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Holder;
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id};
use crate::domain::access::{KeyState, LONGEST_OVERLAP, Scope, Scopes};
use crate::domain::group::whole;
use crate::domain::problems::Problems;
use crate::domain::time::{Micros, Timestamp};
use crate::store::{Key, KeyDraft, KeyRow, Place};

/// The most requests a minute that a limit can be.
const MOST_REQUESTS: i64 = 10_000_000;

/// A key as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    prefix: String,
    scopes: Vec<&'static str>,
    /// `live`, `expired` or `revoked`.
    state: &'static str,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<u32>,
    /// The key itself, in the one answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
}

impl Shown {
    fn of(row: KeyRow, now: Timestamp) -> Self {
        Self {
            state: match row.state(now) {
                KeyState::Live => "live",
                KeyState::Expired(_) => "expired",
                KeyState::Revoked(_) => "revoked",
            },
            id: row.id,
            name: row.name,
            prefix: row.prefix,
            scopes: row.scopes.names(),
            created_at: row.created_at.iso(),
            expires_at: row.expires_at.map(Timestamp::iso),
            revoked_at: row.revoked_at.map(Timestamp::iso),
            requests_per_minute: row.requests_per_minute,
            api_key: None,
        }
    }

    fn once(key: Key, now: Timestamp) -> One {
        let api_key = Some(key.text.expose_secret().to_owned());
        One { key: Self { api_key, ..Self::of(key.row, now) } }
    }
}

/// The keys of a project.
#[derive(Serialize)]
pub(super) struct Many {
    keys: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

/// One key.
#[derive(Serialize)]
pub(super) struct One {
    key: Shown,
}

/// `GET /agent-monitoring/keys`: newest first, those that are over too.
pub(super) async fn list(State(api): State<Arc<Api>>, holder: Holder, asked: Asked) -> Result<Json<Many>, ApiError> {
    let keys = api.store.keys(&holder.key.project).await?;
    let (keys, next) = page::of(keys, &asked, |key| Place { at: key.created_at, id: key.id.clone() })?;
    Ok(Json(Many { keys: keys.into_iter().map(|row| Shown::of(row, holder.now)).collect(), next }))
}

/// `POST /agent-monitoring/keys` with `{"name", "scopes", "expiresAt"?, "requestsPerMinute"?}`: the answer shows the key, once.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    holder: Holder,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let draft = draft(&body, holder.now)?;
    may_hand_out(&holder.key, draft.scopes, draft.expires_at, draft.requests_per_minute)?;
    let key = api.store.draw_key(&holder.key.project, &draft, holder.now).await?;
    Ok((StatusCode::CREATED, Json(Shown::once(key, holder.now))))
}

/// `POST /agent-monitoring/keys/:id/rotate` with `{"overlapSeconds"?}`: a new key in the place of that one, which goes on for as
/// long, or ends at once.
pub(super) async fn rotate(
    State(api): State<Arc<Api>>,
    holder: Holder,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let overlap = match body.get("overlapSeconds").filter(|value| !value.is_null()) {
        None => Micros::ZERO,
        Some(value) => {
            let read = whole(value).filter(|seconds| *seconds >= 0).map(Micros::seconds);
            read.filter(|overlap| *overlap <= LONGEST_OVERLAP).ok_or_else(|| {
                let most = LONGEST_OVERLAP.get() / 1_000_000;
                ApiError::bad_request(format!("overlapSeconds must be a whole number, 0-{most}"))
            })?
        }
    };
    let old = find(&api, &holder, &id).await?;
    may_hand_out(&holder.key, old.scopes, old.expires_at, old.requests_per_minute)?;
    let key = api.store.rotate_key(&holder.key.project, &id, overlap, holder.now).await?;
    let key = key.ok_or_else(|| ApiError::conflict("This key is over already: make another"))?;
    Ok((StatusCode::CREATED, Json(Shown::once(key, holder.now))))
}

/// `DELETE /agent-monitoring/keys/:id`: from this moment it opens nothing.
pub(super) async fn revoke(State(api): State<Arc<Api>>, holder: Holder, Id(id): Id) -> Result<StatusCode, ApiError> {
    let old = find(&api, &holder, &id).await?;
    if !holder.key.scopes.cover(old.scopes) {
        return Err(ApiError::forbidden("This key may not revoke one that may do more than itself"));
    }
    if api.store.revoke_key(&holder.key.project, &id, holder.now).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(unknown())
    }
}

async fn find(api: &Api, holder: &Holder, id: &str) -> Result<KeyRow, ApiError> {
    let keys = api.store.keys(&holder.key.project).await?;
    keys.into_iter().find(|row| row.id == id).ok_or_else(unknown)
}

fn unknown() -> ApiError {
    ApiError::not_found("API key not found")
}

/// A key hands out no more than it has: no other scope, no longer life, and no higher rate where it is held to one of its own.
fn may_hand_out(
    own: &KeyRow,
    scopes: Scopes,
    expires_at: Option<Timestamp>,
    rate: Option<u32>,
) -> Result<(), ApiError> {
    if !own.scopes.cover(scopes) {
        let text = format!("This key can't give {scopes}: it has {} itself", own.scopes);
        return Err(ApiError::forbidden(text));
    }
    if let Some(most) = own.requests_per_minute
        && rate.is_none_or(|rate| rate > most)
    {
        let text = format!("This key may make {most} requests a minute, and can't make one without that limit");
        return Err(ApiError::forbidden(text));
    }
    match (own.expires_at, expires_at) {
        (Some(own), None) => Err(outlives(own)),
        (Some(own), Some(wanted)) if wanted > own => Err(outlives(own)),
        _ => Ok(()),
    }
}

fn outlives(own: Timestamp) -> ApiError {
    ApiError::forbidden(format!("This key can't make one that outlives it: it ends at {}", own.iso()))
}

fn draft(body: &Value, now: Timestamp) -> Result<KeyDraft, Problems> {
    let mut problems = Problems::none();
    problems.object(body);
    let given = |key: &str| body.get(key).filter(|value| !value.is_null());
    let name = given("name").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    let is_name = (1..=200).contains(&name.chars().count()) && !name.contains(char::is_control);
    problems.unless(is_name, || "name must be 1-200 characters".to_owned());
    let scopes = given("scopes").and_then(read_scopes);
    problems.unless(scopes.is_some(), || {
        let names: Vec<&str> = Scope::ALL.into_iter().map(Scope::as_str).collect();
        format!("scopes must be a list of any of {}", names.join(", "))
    });
    let expires_at = given("expiresAt").map(|value| value.as_str().and_then(Timestamp::parse).filter(|at| *at > now));
    problems
        .unless(expires_at != Some(None), || "expiresAt must be a moment to come, as 2027-01-31T00:00:00Z".to_owned());
    let limit = given("requestsPerMinute").map(|value| {
        whole(value).filter(|limit| (1..=MOST_REQUESTS).contains(limit)).and_then(|it| u32::try_from(it).ok())
    });
    problems.unless(limit != Some(None), || format!("requestsPerMinute must be a whole number, 1-{MOST_REQUESTS}"));
    problems.into_result(KeyDraft {
        name: name.to_owned(),
        scopes: scopes.unwrap_or(Scopes::of([])),
        expires_at: expires_at.flatten(),
        requests_per_minute: limit.flatten(),
    })
}

fn read_scopes(value: &Value) -> Option<Scopes> {
    let scopes: Vec<Scope> =
        value.as_array()?.iter().map(|name| Scope::from_name(name.as_str()?)).collect::<Option<_>>()?;
    (!scopes.is_empty()).then(|| Scopes::of(scopes))
}
