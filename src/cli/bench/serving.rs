//! The whole API on loopback while it is measured, and how long it takes to answer meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Bench;
use crate::app;
use crate::clock::{Clock, SystemClock, stopwatch};
use crate::domain::time::Micros;
use crate::http::{self, Api, ApiSettings, Connections, Rates, StreamSettings};
use crate::ingest::writer::{Writer, WriterSettings};
use crate::worker::Deliverer;

/// A server, and a key that may do everything there.
pub(super) struct Serving {
    /// Where it listens.
    pub(super) origin: String,
    pub(super) key: String,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl Serving {
    /// Serves a measurement's store by the machine's clock.
    pub(super) async fn start(bench: &Bench) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let now = clock.now();
        let project = bench.store.default_project(now).await?.id;
        let key = bench.store.create_key(&project, "bench", now).await?.text.expose_secret().to_owned();
        let stop = CancellationToken::new();
        let settings = crate::config::Config::default();
        let notifier = app::notifier(&settings).map_err(anyhow::Error::msg)?;
        let (timers, random) = (Arc::clone(&clock), bench.random.clone());
        let deliver = app::deliver_settings(&settings);
        let api = Api {
            deliverer: Deliverer::new(bench.store.clone(), timers, random, notifier, deliver),
            streams: Arc::new(Semaphore::new(settings.server.max_streams)),
            store: bench.store.clone(),
            writer: Writer::start(
                &bench.store,
                &clock,
                WriterSettings {
                    trace_settle: Micros::seconds(2),
                    spans_per_transaction: settings.ingest.group_commit_spans,
                    writers: settings.ingest.writers,
                },
            ),
            worker: Arc::clone(&bench.worker),
            clock,
            entropy: bench.random.clone(),
            settings: ApiSettings {
                body_limit_bytes: settings.server.body_limit_bytes,
                request_timeout: Duration::from_mins(1),
                requests_per_minute: 0,
                lookback: Micros::seconds(86_400),
                sweep_patience: Duration::from_mins(5),
                probe_patience: Duration::from_secs(2),
                secret_overlap: settings.deliveries.secret_overlap,
                stream: StreamSettings {
                    heartbeat: settings.server.stream_heartbeat.to_std(),
                    patience: settings.server.stream_patience.to_std(),
                },
            },
            rates: Rates::default(),
            stop: stop.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let router = http::router(Arc::new(api));
        let ended = tokio::spawn(http::serve(listener, router, stop.clone(), Connections::default()));
        Ok(Self { origin, key, stop, ended })
    }

    /// A client that keeps its connections.
    pub(super) fn client() -> anyhow::Result<reqwest::Client> {
        crate::scorers::install_tls();
        reqwest::Client::builder().no_proxy().timeout(Duration::from_mins(1)).build().context("a client")
    }

    /// Stops it.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.ended.await.context("the server")
    }
}

/// Asks one address over and over, with a pause between, until it is told to stop.
pub(super) struct Poll {
    stop: Arc<AtomicBool>,
    polling: JoinHandle<anyhow::Result<Vec<f64>>>,
}

impl Poll {
    /// Begins to ask.
    pub(super) fn start(url: String, key: String, pause: Duration) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let client = Serving::client()?;
        let polling = tokio::spawn(async move {
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let watch = stopwatch();
                let answer = client.get(&url).header("x-api-key", &key).send().await?;
                let status = answer.status();
                answer.bytes().await?;
                took.push(watch.elapsed().as_secs_f64());
                anyhow::ensure!(status.is_success(), "{url} answered {status}");
                tokio::time::sleep(pause).await;
            }
            Ok(took)
        });
        Ok(Self { stop, polling })
    }

    /// Stops, and answers how long each answer took, in seconds.
    pub(super) async fn stop(self) -> anyhow::Result<Vec<f64>> {
        self.stop.store(true, Ordering::Relaxed);
        self.polling.await?
    }
}

/// The time that this share of all stayed below, in milliseconds.
pub(super) fn percentile_ms(mut took: Vec<f64>, percent: usize) -> f64 {
    took.sort_unstable_by(f64::total_cmp);
    let last = took.len().saturating_sub(1);
    took.get((took.len() * percent / 100).min(last)).copied().unwrap_or(0.0) * 1e3
}
