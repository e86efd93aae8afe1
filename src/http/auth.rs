//! Who asks: the project that the request's key belongs to, and whether the key may do this, now.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use super::Api;
use super::error::ApiError;
use crate::domain::access::{KeyState, Scope};
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;
use crate::store::KeyRow;

/// The scope that a key needs for a route: the table of routes puts it into each request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs(pub(super) Scope);

/// The project of the caller's key. Handlers take it before anything else, so that a stranger learns nothing but that.
pub(super) struct Caller(pub(super) ProjectId);

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        Holder::from_request_parts(parts, api).await.map(|Holder { key, .. }| Self(key.project))
    }
}

/// The caller's key, for what depends on more than its project.
///
/// The key is looked up on each request, so that a key taken back ends at once.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) key: KeyRow,
    /// When it asked.
    pub(super) now: Timestamp,
}

impl Holder {
    /// Whether it is shown addresses whole, with whatever secret they hold: who may change them is.
    pub(super) const fn sees_addresses(&self) -> bool {
        self.key.scopes.has(Scope::Manage)
    }
}

impl FromRequestParts<Arc<Api>> for Holder {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        if let Some(holder) = parts.extensions.get::<Self>() {
            return Ok(holder.clone());
        }
        let text = key(parts).ok_or_else(ApiError::unauthorized)?;
        let key = api.store.key_of(text).await?.ok_or_else(ApiError::unauthorized)?;
        let now = api.clock.now();
        // Whoever holds the key may know what became of it.
        match key.state(now) {
            KeyState::Live => {}
            KeyState::Expired(at) => return Err(ApiError::key_is_over(&key.prefix, "expired", at)),
            KeyState::Revoked(at) => return Err(ApiError::key_is_over(&key.prefix, "was revoked", at)),
        }
        let per_minute = key.requests_per_minute.unwrap_or(api.settings.requests_per_minute);
        api.rates.take(&key.id, per_minute, now).map_err(|wait| ApiError::too_many(per_minute, wait))?;
        match parts.extensions.get::<Needs>() {
            Some(Needs(scope)) if key.scopes.has(*scope) => Ok(Self { key, now }),
            Some(Needs(scope)) => Err(ApiError::forbidden(format!(
                "This key may not do that: it lacks the scope \"{}\" and has {}",
                scope.as_str(),
                key.scopes
            ))),
            None => Err(ApiError::internal("This route does not say who may use it. Please report it")),
        }
    }
}

/// The key: `x-api-key`, else `authorization: Bearer`.
fn key(parts: &Parts) -> Option<&str> {
    let text = |name| parts.headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let bearer = || {
        let (scheme, key) = text(AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    };
    text("x-api-key").or_else(bearer).filter(|key| !key.is_empty())
}
