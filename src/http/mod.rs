//! Floor 3: the HTTP API, one resource a file. The project of a request comes from its key alone.

mod agents;
mod approvals;
mod auth;
mod backlog;
mod body;
mod by_hand;
mod custom;
mod datasets;
mod deliveries;
mod error;
mod etag;
mod evaluate;
mod evaluation_settings;
mod evaluations;
mod explain;
mod groups;
mod guard;
mod headline;
mod health;
mod idempotency;
mod judges;
mod keys;
mod kpis;
mod metrics;
mod online_evaluators;
mod openapi;
mod otlp;
mod page;
mod patterns;
mod pause;
mod projects;
mod rail;
mod rates;
mod receivers;
mod recompose;
mod release;
mod reports;
mod request;
mod resweeps;
mod routes;
mod run_wire;
mod runs;
mod sample;
mod scorecards;
mod scorers;
mod scores;
mod secret;
mod serve;
mod sessions;
mod settings;
mod signals;
mod spans;
mod stream;
mod sweep;
mod usage;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::domain::time::Micros;
use crate::entropy::Entropy;
use crate::ingest::writer::Writer;
use crate::store::Store;
use crate::worker::Deliverer;
use crate::worker::Worker;

pub use deliveries::Shown as ShownDelivery;
pub use openapi::document;
pub use rates::Rates;
pub use receivers::Shown as ShownReceiver;
pub use resweeps::Shown as ShownResweep;
pub use routes::{Route, router, routes};
pub use run_wire::RunDetail;
pub use runs::{MOST_ROWS, TOLERANCE};
pub use serve::{Connections, serve};
pub use stream::StreamSettings;

/// How the API behaves.
#[derive(Debug, Clone, Copy)]
pub struct ApiSettings {
    /// The largest body accepted, in bytes, as it was sent and after decompression.
    pub body_limit_bytes: usize,
    /// How long a request may take before it is answered with an error. Sweeps have a limit of their own;
    /// re-compositions, rows of dataset runs and their re-scoring have none.
    pub request_timeout: Duration,
    /// How many requests a minute each key may make, where its own limit says nothing; 0 is no limit.
    pub requests_per_minute: u32,
    /// How far back, by arrival, sessions are considered again when a group's live scoring is switched on or changed.
    pub lookback: Micros,
    /// How long a sweep by hand may go on before it is cut short; with the worker's grace it must end within the 300 seconds
    /// that clients wait.
    pub sweep_patience: Duration,
    /// How long `/ready` and `/metrics` wait for the database before they say that it does not answer.
    pub probe_patience: Duration,
    /// How long calls are signed with the secret before too, once it was rotated.
    pub secret_overlap: Micros,
    /// How readers of the rail are served.
    pub stream: StreamSettings,
}

/// Everything that answering requests takes.
#[derive(Debug)]
pub struct Api {
    /// Where everything is kept.
    pub store: Store,
    /// Where spans are handed in.
    pub writer: Writer,
    /// What sweeps by hand are carried out with.
    pub worker: Arc<Worker>,
    /// What receivers are told with.
    pub deliverer: Arc<Deliverer>,
    /// One permit for each reader that may follow a rail.
    pub streams: Arc<Semaphore>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where fresh span ids come from.
    pub entropy: Arc<dyn Entropy>,
    /// How it behaves.
    pub settings: ApiSettings,
    /// How often each key asked lately.
    pub rates: Rates,
    /// Cancelled when the process stops: it cuts sweeps by hand short.
    pub stop: CancellationToken,
}
