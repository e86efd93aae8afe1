//! Who asks: the project that the request's key belongs to.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use super::Api;
use super::error::ApiError;
use crate::domain::ids::ProjectId;

/// The project of the caller's key. Handlers take it before anything else, so that a stranger learns nothing but that.
///
/// The key is looked up on each request, so that a key taken back ends at once.
pub(super) struct Caller(pub(super) ProjectId);

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let key = key(parts).ok_or_else(ApiError::unauthorized)?;
        api.store.project_of_key(key).await?.map(Self).ok_or_else(ApiError::unauthorized)
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
