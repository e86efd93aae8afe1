//! Creates that are carried out once: the same `Idempotency-Key` and request within 24 hours is answered again from what is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::Api;
use super::auth::{Holder, Needs};
use super::body::gather;
use super::error::ApiError;
use super::routes::routes;
use crate::domain::access::Scope;
use crate::domain::ids::{ProjectId, check_id};
use crate::store::Claim;

/// The header that carries the key.
pub(super) const HEADER: &str = "idempotency-key";
/// Told with an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The routes that make things, and the scope that each needs.
static CREATES: LazyLock<BTreeMap<String, Scope>> = LazyLock::new(|| {
    let creates = routes().into_iter().filter(|route| route.creates);
    creates.filter_map(|route| Some((route.path, route.scope?))).collect()
});

/// Carries a create with a key out once. Everything else passes.
pub(super) async fn once(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let scope =
        CREATES.get(path).filter(|_| request.method() == Method::POST && request.headers().contains_key(HEADER));
    match scope {
        None => next.run(request).await,
        Some(scope) => claimed(&api, *scope, request, next).await.unwrap_or_else(ApiError::into_response),
    }
}

async fn claimed(api: &Arc<Api>, scope: Scope, request: Request, next: Next) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Needs(scope));
    let holder = Holder::from_request_parts(&mut parts, api).await?;
    let (project, now) = (holder.key.project.clone(), holder.now);
    // The key was looked up and counted; the handler goes on with that.
    parts.extensions.insert(holder);
    let key = key(&parts)?;
    let body = gather(body, &parts.headers, api.settings.body_limit_bytes).await?;
    let digest = digest(&parts, &body);
    match api.store.claim_request(&project, &key, &digest, now).await? {
        Claim::Fresh => {
            let response = next.run(Request::from_parts(parts, Body::from(body))).await;
            kept(api, &project, &key, response).await
        }
        Claim::Answered(status, body) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::CREATED);
            let headers = [(CONTENT_TYPE, "application/json"), (REPLAYED, "true")];
            Ok((status, headers, body).into_response())
        }
        Claim::Begun => Err(ApiError::conflict(
            "A request with this Idempotency-Key is under way, or was cut off before its answer was known; wait, look whether \
             what it makes is there, and use another key to make it again",
        )),
        Claim::Other => Err(ApiError::conflict(
            "This Idempotency-Key was used for another request within the last 24 hours; use another key",
        )),
    }
}

fn key(parts: &Parts) -> Result<String, ApiError> {
    let key = parts.headers.get(HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    check_id(key).map_err(|problem| ApiError::bad_request(format!("The Idempotency-Key {problem}")))?;
    Ok(key.to_owned())
}

/// The request in short: where it goes and what it brings.
fn digest(parts: &Parts, body: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.update(parts.uri.path());
    for (name, value) in &parts.headers {
        if name == CONTENT_TYPE || name == axum::http::header::CONTENT_ENCODING {
            digest.update([0]);
            digest.update(value.as_bytes());
        }
    }
    digest.update([0, 0]);
    digest.update(body);
    URL_SAFE_NO_PAD.encode(digest.finalize())
}

/// Keeps the answer of a request that made something; one that did not may be sent again.
async fn kept(api: &Api, project: &ProjectId, key: &str, response: Response) -> Result<Response, ApiError> {
    if !response.status().is_success() {
        api.store.release_request(project, key).await?;
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.map_err(|error| ApiError::internal(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    if let Err(error) = api.store.keep_answer(project, key, parts.status.as_u16(), &text).await {
        // It is made, and its key goes on to stand for it: sent again, the request is refused, not carried out twice.
        tracing::warn!(%error, "the answer to a request with an idempotency key could not be kept");
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}
