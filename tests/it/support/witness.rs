//! A witness in front of the API: what passes through, from whatever client, is held against the document.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use serde_json::Value;

use super::openapi::{Came, Sent, problem_of};

/// What it saw: how many requests, and what was wrong with them or their answers.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many requests.
    pub requests: usize,
    /// What the document does not have.
    pub problems: Vec<String>,
}

/// Where it writes that down.
pub type Witness = Arc<Mutex<Seen>>;

/// The router, with the witness in front of it.
pub fn watched(router: Router, witness: Witness) -> Router {
    router.layer(from_fn_with_state(witness, watch))
}

async fn watch(State(witness): State<Witness>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let url = reqwest::Url::parse(&format!("http://here{}", parts.uri)).unwrap();
    let sent = Sent {
        method: parts.method.to_string(),
        path: url.path().to_owned(),
        query: url.query_pairs().into_owned().collect(),
        body: serde_json::from_slice(&body).ok(),
    };
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let came = Came {
        status: parts.status.as_u16(),
        media: parts.headers.get("content-type").map(|media| media.to_str().unwrap().to_owned()),
        body: if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() },
    };
    let mut seen = witness.lock().unwrap();
    seen.requests += 1;
    seen.problems.extend(problem_of(&sent, &came));
    drop(seen);
    Response::from_parts(parts, Body::from(body))
}
