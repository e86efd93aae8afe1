//! A receiver that does what it is told: takes deliveries on loopback, notes them, and answers as a test wants.
//!
//! It runs on a thread and a runtime of its own, so that a test may block while it answers, and can be stopped and started again
//! at its address.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONNECTION, DATE, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::oneshot;

use super::address;

/// What the receiver answers to one delivery.
#[derive(Debug, Clone)]
pub enum Answer {
    /// This HTTP status.
    Status(u16),
    /// A redirect to this address.
    Redirect(String),
    /// 204, this much later.
    Late(Duration),
    /// 503, and when to try again, as `Retry-After` says it. The receiver's own clock shows midnight, the first of January 2026.
    Busy(&'static str),
    /// 200 and so many bytes of talk.
    Verbose(usize),
    /// 200 and the beginning of an answer that never ends.
    Endless,
}

/// A delivery as it arrived.
#[derive(Debug, Clone)]
pub struct Taken {
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`.
    pub timestamp: String,
    /// `webhook-signature`.
    pub signature: String,
    /// The body, as it was sent.
    pub text: String,
    /// Whether it was answered with success, and in time as far as the receiver knows.
    pub accepted: bool,
}

impl Taken {
    /// The body.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).expect("a JSON body")
    }
}

type Opinion = Arc<dyn Fn(usize) -> Answer + Send + Sync>;
type Seen = Arc<Mutex<Vec<Taken>>>;

/// A receiver. It stops when dropped.
pub struct Webhook {
    address: SocketAddr,
    opinion: Opinion,
    seen: Seen,
    running: Option<(oneshot::Sender<()>, std::thread::JoinHandle<()>)>,
}

impl Webhook {
    /// Starts one that answers the n-th delivery, counted from 0, as `opinion` says.
    pub fn start(opinion: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let mut it = Self { address: address::own(), opinion: Arc::new(opinion), seen: Seen::default(), running: None };
        it.resume();
        it
    }

    /// Where deliveries go.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The address alone.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that arrived so far, in order.
    pub fn taken(&self) -> Vec<Taken> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How much arrived so far.
    pub fn count(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Nobody listens any more, and open connections are cut.
    pub fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            let _ = stop.send(());
            thread.join().expect("the receiver stops");
        }
    }

    /// Listens again at the same address.
    pub fn resume(&mut self) {
        let listener = std::net::TcpListener::bind(self.address).expect("the address is free");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let shared = (Arc::clone(&self.opinion), Arc::clone(&self.seen));
        let app = Router::new().fallback(take).with_state(shared);
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is non-blocking");
                tokio::select! {
                    served = axum::serve(listener, app) => served.expect("the receiver serves until it is stopped"),
                    _ = stopped => (),
                }
            });
        });
        self.running = Some((stop, thread));
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        if let Some((stop, _)) = self.running.take() {
            let _ = stop.send(());
        }
    }
}

async fn take(State((opinion, seen)): State<(Opinion, Seen)>, headers: HeaderMap, body: Bytes) -> Response {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
    let answer = {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = opinion(seen.len());
        seen.push(Taken {
            id: text("webhook-id"),
            timestamp: text("webhook-timestamp"),
            signature: text("webhook-signature"),
            text: String::from_utf8_lossy(&body).into_owned(),
            accepted: matches!(answer, Answer::Status(200..=299) | Answer::Verbose(_) | Answer::Endless),
        });
        answer
    };
    // Each delivery comes by a connection of its own, and so by a look-up of its own.
    let close = [(CONNECTION, "close")];
    match answer {
        Answer::Status(status) => {
            (StatusCode::from_u16(status).expect("a test names a real status"), close).into_response()
        }
        Answer::Redirect(to) => (StatusCode::FOUND, [(LOCATION, to)]).into_response(),
        Answer::Late(delay) => {
            tokio::time::sleep(delay).await;
            (StatusCode::NO_CONTENT, close).into_response()
        }
        Answer::Busy(until) => {
            let date = (DATE, "Thu, 01 Jan 2026 00:00:00 GMT");
            (StatusCode::SERVICE_UNAVAILABLE, [date, (RETRY_AFTER, until)]).into_response()
        }
        Answer::Verbose(length) => (close, "x".repeat(length)).into_response(),
        Answer::Endless => {
            let talk = futures::stream::once(async { Ok::<_, std::io::Error>("well, ") });
            (close, Body::from_stream(talk.chain(futures::stream::pending()))).into_response()
        }
    }
}
