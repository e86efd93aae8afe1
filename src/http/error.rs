//! Errors as every route answers them: `{"error", "statusCode", "message", "code"}`, and `details` where fields are wrong.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;

use crate::domain::problems::Problems;
use crate::domain::time::{Micros, Timestamp};
use crate::store::StoreError;

/// An error on its way to the caller.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Option<Value>,
    /// After how many seconds another try may help.
    retry_after: Option<u16>,
    /// The outage that it is for.
    outage: Option<StoreError>,
}

/// Beside an answer: the outage that it is for, to be told in the log by who knows what was told of it before.
#[derive(Debug, Clone)]
pub(super) struct Outage(pub(super) StoreError);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shape<'a> {
    error: &'a str,
    status_code: u16,
    message: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Value>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: None, retry_after: None, outage: None }
    }

    /// 400: something about the request can't be right.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// 400: the body is no JSON, or can't be unpacked.
    pub(super) fn unreadable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unreadable_body", message)
    }

    /// 401.
    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Invalid or missing API key")
    }

    /// 401: the key was one, and is over.
    pub(super) fn key_is_over(prefix: &str, how: &str, at: Timestamp) -> Self {
        let message = format!("The API key {prefix}… {how} at {}; use another", at.iso());
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// 403: the key is good, but not for this.
    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 429: the key asked too often. `wait` is how long until its next request is taken.
    pub(super) fn too_many(per_minute: u32, wait: Micros) -> Self {
        let message = format!("Too many requests: this key may make {per_minute} a minute");
        let seconds = u16::try_from((wait.get().max(1) + 999_999) / 1_000_000).unwrap_or(u16::MAX);
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message) }
    }

    /// 404: `message` says what was not found.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 405.
    pub(super) fn method_not_allowed() -> Self {
        let message = "Method not allowed; the Allow header lists those that this route takes";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    /// 408: the body did not arrive in time.
    pub(super) fn too_slow(limit: std::time::Duration) -> Self {
        let message = format!("The request's body did not arrive within {} s; send it again", limit.as_secs_f64());
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
    }

    /// 409: what is stored stands in the way.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// 412: the request is bound to another state than the present one, whose tag is told.
    pub(super) fn precondition_failed(present: &str) -> Self {
        let message =
            format!("It changed since you read it: its present tag is {present}; read it and send the change again");
        Self::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", message)
    }

    /// 413.
    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!(
            "The body is larger than {limit} bytes after decompression; send less at once, or raise server.body_limit_bytes"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    /// 415.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    /// 422 with what is wrong with each field.
    pub(super) fn invalid(message: impl Into<String>, details: Value) -> Self {
        let error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_fields", message);
        Self { details: Some(details), ..error }
    }

    /// 500: a fault of ours. What it was stands in the log.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// 502: the judge, or what stands between, gave no answer.
    pub(super) fn bad_gateway(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "judge_unavailable", message)
    }

    /// 503: another try may help after `seconds`.
    pub(super) fn unavailable(message: impl Into<String>, seconds: u16) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(seconds), ..error }
    }
}

/// How long callers are asked to wait while another writer is in the way, and while the database is out of order.
const BUSY_SECONDS: u16 = 1;
const OUTAGE_SECONDS: u16 = 5;

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if error.is_conflict() {
            return Self::unavailable(error.to_string(), BUSY_SECONDS);
        }
        if error.is_outage() {
            let told = Self::unavailable(error.to_string(), OUTAGE_SECONDS);
            return Self { outage: Some(error), ..told };
        }
        tracing::error!(%error, "a request failed in the store");
        // What the database said may quote data; whoever runs this server finds it in the log.
        Self::internal("The database refused the operation; nothing was stored. The server's log says why")
    }
}

impl From<Problems> for ApiError {
    fn from(problems: Problems) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", problems.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let shape = Shape {
            error: &self.message,
            status_code: self.status.as_u16(),
            message: &self.message,
            code: self.code,
            details: self.details.as_ref(),
        };
        let mut response = (self.status, Json(shape)).into_response();
        if let Some(outage) = self.outage {
            response.extensions_mut().insert(Outage(outage));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
