//! What stands around every route: a trace of the request, panics caught, and the time limit.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use tracing::Instrument as _;

use super::Api;
use super::error::ApiError;
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
pub(super) async fn in_time(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let limit = api.settings.request_timeout;
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
