//! A judge that says what it is told: an OpenAI-compatible chat completions server on loopback.
//!
//! It runs on a thread and a runtime of its own, so that a test may block, on a client process for instance, while it answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What the judge answers to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A rating on 0-10.
    Rating(f64),
    /// `null` for a rating: it can't tell.
    CantTell,
    /// This text as the message, whatever was asked for.
    Text(String),
    /// A content filter stood in the way.
    Refused,
    /// This HTTP status, with an error body.
    Status(u16),
    /// 429 with the `Retry-After` of so many seconds.
    RetryAfter(u64),
    /// 200 without a body.
    Nothing,
    /// The other reply, this much later.
    After(Duration, Box<Reply>),
    /// The other reply, once the test says so.
    Once(CancellationToken, Box<Reply>),
}

/// A running judge. It stops when dropped.
pub struct Judge {
    base_url: String,
    seen: Arc<Mutex<Vec<Value>>>,
    _stop: oneshot::Sender<()>,
}

type Opinion = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;
type Shared = (Opinion, Arc<Mutex<Vec<Value>>>);

impl Judge {
    /// Starts a judge that answers each request as `opinion` says of its JSON body.
    pub fn start(opinion: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("a bound socket has an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared: Shared = (Arc::new(opinion), Arc::clone(&seen));
        let app = Router::new().route("/v1/chat/completions", post(complete)).with_state(shared);
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is non-blocking");
                tokio::select! {
                    served = axum::serve(listener, app) => served.expect("the judge serves until it is stopped"),
                    _ = stopped => (),
                }
            });
        });
        Self { base_url, seen, _stop: stop }
    }

    /// What goes into `judge.base_url`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns once everything that was sent to it before is among its requests, also by processes that are gone since: what comes
    /// first is taken in first, and a question of a new connection twice over is behind it.
    pub async fn caught_up(&self) {
        afterword::scorers::install_tls();
        for _ in 0..2 {
            let client = reqwest::Client::builder().no_proxy().build().expect("a client");
            client.get(&self.base_url).send().await.expect("the judge answers");
        }
    }

    /// The bodies of all requests so far, in order of arrival. Their number is the number of calls.
    pub fn requests(&self) -> Vec<Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn complete(State((opinion, seen)): State<Shared>, Json(request): Json<Value>) -> Response {
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    let mut reply = opinion(&request);
    loop {
        reply = match reply {
            Reply::After(delay, then) => {
                tokio::time::sleep(delay).await;
                *then
            }
            Reply::Once(said, then) => {
                said.cancelled().await;
                *then
            }
            other => {
                reply = other;
                break;
            }
        };
    }
    let content = match reply {
        Reply::Rating(rating) => verdict(&request, &json!(rating)),
        Reply::CantTell => verdict(&request, &Value::Null),
        Reply::Text(text) => text,
        Reply::Refused => {
            let choice = json!({"message": {"content": ""}, "finish_reason": "content_filter"});
            return Json(json!({"choices": [choice]})).into_response();
        }
        Reply::Status(status) => {
            let status = StatusCode::from_u16(status).expect("a test names a real status");
            return (status, Json(json!({"error": {"message": "told to fail", "type": "test"}}))).into_response();
        }
        Reply::RetryAfter(seconds) => {
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds.to_string())]).into_response();
        }
        Reply::Nothing => return StatusCode::OK.into_response(),
        Reply::After(..) | Reply::Once(..) => unreachable!("unwrapped above"),
    };
    Json(json!({
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": content},
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }))
    .into_response()
}

fn verdict(request: &Value, rating: &Value) -> String {
    let reply = json!({
        "nonce": nonce(request),
        "rating": rating,
        "justification": "Said as told.",
        "evidence": null,
    });
    reply.to_string()
}

/// The nonce that the reply must repeat: from the schema of the structured output, else from the system message.
fn nonce(request: &Value) -> Option<String> {
    let rule = &request["response_format"]["json_schema"]["schema"]["properties"]["nonce"];
    let from_schema = rule["const"].as_str().or_else(|| rule["enum"][0].as_str());
    let system = request["messages"].as_array()?.iter().find(|message| message["role"] == "system");
    let from_text = || system?["content"].as_str()?.split_once(r#""nonce": ""#)?.1.split('"').next();
    from_schema.or_else(from_text).map(str::to_owned)
}
