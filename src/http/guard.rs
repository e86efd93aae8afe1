//! What stands around every route: a trace of the request, panics caught, and the time limit.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use tracing::Instrument as _;

use super::Api;
use super::error::{ApiError, Outage};
use crate::clock::stopwatch;

/// Traces the request, without anything that it holds, and answers panics as errors.
pub(super) async fn watch(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let span = tracing::debug_span!("request", method = %request.method(), route);
    let since = stopwatch();
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let response = answered.unwrap_or_else(|_| {
        tracing::error!(parent: &span, "a request panicked; please report this");
        ApiError::internal("The server failed at this request; the server's log says where. Please report it")
            .into_response()
    });
    let latency_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
    tracing::debug!(parent: &span, status = response.status().as_u16(), latency_us, "answered");
    response
}

/// Has an outage of the database that a request ran into told in the log, unless it was.
pub(super) async fn tell_outages(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(Outage(error)) = response.extensions_mut().remove() {
        api.store.tell_trouble("answering requests", &error, api.clock.now());
    }
    response
}

/// Tells whether the request's body has arrived, for the error where time runs out.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrival(Arc<AtomicBool>);

impl Arrival {
    /// It has.
    pub(super) fn complete(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers with an error where the request takes too long: 408 while its body is still on its way, else 503. What was handed
/// to the store by then may still be stored.
pub(super) async fn in_time(State(limit): State<Duration>, mut request: Request, next: Next) -> Response {
    let arrival = Arrival::default();
    request.extensions_mut().insert(arrival.clone());
    let has_body = !request.body().is_end_stream();
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) if has_body && !arrival.0.load(Ordering::Relaxed) => ApiError::too_slow(limit).into_response(),
        Err(_) => {
            let seconds = limit.as_secs_f64();
            ApiError::unavailable(format!("The request took longer than {seconds} s (server.request_timeout)"), 5)
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::http::StatusCode;
    use axum::middleware::{from_fn, from_fn_with_state};
    use axum::routing::get;
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;

    async fn answer(router: Router) -> (StatusCode, Value) {
        let response = router.oneshot(Request::new(Body::empty())).await.expect("routers always answer");
        let status = response.status();
        let body = to_bytes(response.into_body(), 10_000).await.expect("a short body");
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    #[tokio::test]
    async fn a_panic_is_answered_in_the_documented_form() {
        let panics = get(async || -> StatusCode { panic!("s3cret") });
        let (status, body) = answer(Router::new().route("/", panics).layer(from_fn(watch))).await;
        assert_eq!((status, &body["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &Value::from("internal")));
        assert!(!body.to_string().contains("s3cret"), "{body}");
    }

    #[tokio::test]
    async fn a_request_that_takes_too_long_is_a_503() {
        let hangs = get(async || -> StatusCode { std::future::pending().await });
        let limit = Duration::from_millis(5);
        let (status, body) = answer(Router::new().route("/", hangs).layer(from_fn_with_state(limit, in_time))).await;
        assert_eq!((status, &body["code"]), (StatusCode::SERVICE_UNAVAILABLE, &Value::from("unavailable")));
        assert!(body["error"].as_str().is_some_and(|text| text.contains("0.005 s")), "{body}");
    }
}
