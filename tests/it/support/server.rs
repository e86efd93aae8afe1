//! A server of the tests' own: the whole API on a loopback port, with a clock that stands still until it is moved.

use std::sync::Arc;
use std::time::Duration;

use afterword::clock::{Clock, ManualClock};
use afterword::domain::assessment::RetryPolicy;
use afterword::domain::delivery::DeliveryPolicy;
use afterword::domain::quarantine::Limits;
use afterword::domain::retry::Backoff;
use afterword::domain::time::{Micros, Timestamp};
use afterword::entropy::{Entropy, OsEntropy};
use afterword::http::{self, Api, ApiSettings, Connections, Rates, StreamSettings};
use afterword::ingest::writer::{Writer, WriterSettings};
use afterword::notify::{Notifier, NotifySettings};
use afterword::scorers::code::{CodeScorers, CodeSettings};
use afterword::scorers::custom::Customs;
use afterword::scorers::external::{ExternalClient, ExternalSettings};
use afterword::scorers::guard::{Outgoing, OutgoingSettings};
use afterword::scorers::judge::{JudgeClient, JudgeSettings};
use afterword::store::{Caps, Retention, Store, StoreSettings};
use afterword::worker::schedule::Schedule;
use afterword::worker::{self, DeliverSettings, Deliverer, Worker, WorkerSettings};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::PATIENCE;
use super::judge::Judge;
use super::openapi::{Came, Sent, problem_of};
use super::witness::{Witness, watched};

/// The largest body that the tests' server takes.
pub const BODY_LIMIT: usize = 100_000;

/// How long after its last new content a trace is judged by itself.
pub const SETTLE: Micros = Micros::seconds(2);

/// How a server is to be.
pub struct Plan<'a> {
    /// The database; a fresh SQLite file where `None`.
    pub database: Option<String>,
    /// How long its store waits for locks and connections.
    pub busy_timeout: Duration,
    /// The judge that judge members ask.
    pub judge: Option<&'a Judge>,
    /// How judges are asked; the address is that of `judge` where there is one.
    pub judges: JudgeSettings,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long a sweep by hand may go on.
    pub sweep_patience: Duration,
    /// How the worker works.
    pub worker: WorkerSettings,
    /// When it sweeps by itself; never where `None`.
    pub schedule: Option<&'static str>,
    /// Whether calls may lead to this machine.
    pub allow_private: bool,
    /// How receivers are called; by `allow_private` alone where `None`.
    pub outgoing: Option<OutgoingSettings>,
    /// How readers of the rail are served.
    pub stream: StreamSettings,
    /// How many of them there may be.
    pub max_streams: usize,
    /// How many requests a minute each key may make; 0 is no limit.
    pub requests_per_minute: u32,
    /// How connections are treated.
    pub connections: Connections,
    /// What sees all that passes, where anything does.
    pub witness: Option<Witness>,
    /// The clock; one that stands at the first of January 2026 where `None`.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self {
            database: None,
            busy_timeout: PATIENCE,
            judge: None,
            judges: JudgeSettings { model: "test".to_owned(), ..JudgeSettings::default() },
            request_timeout: PATIENCE,
            sweep_patience: PATIENCE,
            worker: worker_settings(),
            schedule: None,
            allow_private: false,
            outgoing: None,
            stream: StreamSettings { heartbeat: Duration::from_secs(15), patience: PATIENCE },
            max_streams: 10,
            requests_per_minute: 0,
            connections: Connections { head_timeout: PATIENCE, stall_timeout: PATIENCE, ..Connections::default() },
            witness: None,
            clock: None,
        }
    }
}

/// A running server with two projects. It stops when dropped.
pub struct Server {
    /// Where it listens, without a path.
    pub origin: String,
    /// A caller of the first project.
    pub caller: Caller,
    /// A caller of another project.
    pub stranger: Caller,
    /// What tells receivers; it does so only when it is asked to.
    pub deliverer: Arc<Deliverer>,
    /// Its store.
    pub store: Store,
    /// Its worker.
    pub worker: Arc<Worker>,
    /// Where that store is.
    pub database: String,
    /// The clock that it goes by, unless the plan gave another.
    pub clock: Arc<ManualClock>,
    /// Cancelled, it stops the server.
    pub stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    /// Starts one on a fresh SQLite file.
    pub async fn start() -> Self {
        Self::planned(Plan::default()).await
    }

    /// Starts one.
    pub async fn planned(plan: Plan<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = plan.database.unwrap_or_else(|| format!("sqlite://{}", folder.path().join("a.db").display()));
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let settings = StoreSettings { busy_timeout: plan.busy_timeout, ..StoreSettings::at(&url) };
        let store = Store::open(&settings, Arc::clone(&entropy)).await.unwrap();
        let manual = Arc::new(ManualClock::at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
        let clock = plan.clock.unwrap_or_else(|| manual.clone());
        let now = clock.now();
        let project = store.default_project(now).await.unwrap();
        let other = store.project_named("other", now).await.unwrap();
        let keys = [
            store.create_key(&project.id, "t", now).await.unwrap(),
            store.create_key(&other.id, "t", now).await.unwrap(),
        ];
        let worker = Worker::new(
            store.clone(),
            Arc::clone(&clock),
            Arc::clone(&entropy),
            judges(plan.judge, plan.judges, Arc::clone(&clock)),
            customs(plan.allow_private),
            plan.worker,
        );
        let deliverer = Deliverer::new(
            store.clone(),
            Arc::clone(&clock),
            Arc::clone(&entropy),
            notifier(plan.outgoing.unwrap_or_else(|| rules(plan.allow_private))),
            deliver_settings(),
        );
        let stop = CancellationToken::new();
        if let Some(schedule) = plan.schedule {
            let schedule = Schedule::parse(schedule).unwrap();
            tokio::spawn(worker::run(Arc::clone(&worker), schedule, stop.clone()));
        }
        let api = Api {
            writer: Writer::start(
                &store,
                &clock,
                WriterSettings { spans_per_transaction: 100, writers: 2, trace_settle: SETTLE },
            ),
            store: store.clone(),
            worker: Arc::clone(&worker),
            clock,
            entropy,
            settings: ApiSettings {
                body_limit_bytes: BODY_LIMIT,
                request_timeout: plan.request_timeout,
                requests_per_minute: plan.requests_per_minute,
                lookback: Micros::seconds(86_400),
                sweep_patience: plan.sweep_patience,
                probe_patience: PATIENCE,
                secret_overlap: Micros::seconds(86_400),
                stream: plan.stream,
            },
            deliverer: Arc::clone(&deliverer),
            streams: Arc::new(Semaphore::new(plan.max_streams)),
            stop: stop.clone(),
            rates: Rates::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let router = http::router(Arc::new(api));
        let router = match plan.witness {
            Some(witness) => watched(router, witness),
            None => router,
        };
        let serving = http::serve(listener, router, stop.clone(), plan.connections);
        tokio::spawn(serving);
        let [caller, stranger] = keys.map(|key| Caller::new(&origin, key.text.expose_secret()));
        Self { origin, caller, stranger, deliverer, store, worker, database: url, clock: manual, stop, _folder: folder }
    }
}

fn judges(judge: Option<&Judge>, settings: JudgeSettings, clock: Arc<dyn Clock>) -> Arc<JudgeClient> {
    let base_url = judge.map(|judge| judge.base_url().to_owned()).or(settings.base_url.clone());
    afterword::scorers::install_tls();
    Arc::new(JudgeClient::new(JudgeSettings { base_url, ..settings }, clock).unwrap())
}

fn rules(allow_private: bool) -> OutgoingSettings {
    OutgoingSettings { allow_private, ..OutgoingSettings::default() }
}

/// A notifier with these rules that waits for answers as long as tests do.
pub fn notifier(rules: OutgoingSettings) -> Notifier {
    afterword::scorers::install_tls();
    let public_url = "https://afterword.example".to_owned();
    let settings = NotifySettings { public_url, timeout: PATIENCE, redact: Vec::new() };
    Notifier::new(Outgoing::new(rules).unwrap(), settings)
}

/// How the tests' deliverer works: seconds between attempts, many of them.
pub fn deliver_settings() -> DeliverSettings {
    DeliverSettings {
        policy: DeliveryPolicy {
            backoff: Backoff { first: Micros::seconds(5), longest: Micros::seconds(3_600) },
            max_attempts: 16,
            give_up_after: Micros::seconds(86_400),
        },
        max_concurrency: 8,
        lease: Micros::seconds(20),
        turn: Micros::seconds(60),
        keep: Micros::seconds(86_400),
        grace: Micros::seconds(300),
    }
}

fn customs(allow_private: bool) -> Customs {
    let outgoing = Outgoing::new(rules(allow_private)).unwrap();
    let external = ExternalSettings { deadline: PATIENCE, ..ExternalSettings::default() };
    let code = CodeSettings {
        soft_limit: PATIENCE,
        hard_limit: PATIENCE * 2,
        ..CodeSettings::of(env!("CARGO_BIN_EXE_afterword"))
    };
    Customs { external: Arc::new(ExternalClient::new(outgoing, external)), code: Arc::new(CodeScorers::new(code)) }
}

/// How the tests' worker works, unless a plan says otherwise.
pub fn worker_settings() -> WorkerSettings {
    let backoff = Backoff { first: Micros::seconds(1), longest: Micros::seconds(10) };
    WorkerSettings {
        retention: Retention::default(),
        root_grace: Micros::seconds(60),
        failing_after: Micros::seconds(3_600),
        trace_settle: SETTLE,
        retry: RetryPolicy { errors: backoff, deferrals: backoff, max_attempts: 3, panel_wait: Micros::seconds(600) },
        limits: Limits { max_turns: 2_000, max_spans: 20_000 },
        max_session_age: Micros::ZERO,
        caps: Caps::default(),
        lease: Micros::seconds(60),
        max_in_flight: 16,
        plan_batch: 100,
        claim_batch: 10,
        record_batch: 10,
        grace: Micros::seconds(300),
    }
}

/// Somebody with a key.
#[derive(Clone)]
pub struct Caller {
    /// The HTTP client, for requests that the short forms can't make.
    pub client: reqwest::Client,
    /// The key.
    pub key: String,
    origin: String,
}

/// An answer: its status, and its body, null where there is none.
pub type Answer = (u16, Value);

impl Caller {
    /// Somebody with this key.
    pub fn new(origin: &str, key: &str) -> Self {
        afterword::scorers::install_tls();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { client, key: key.to_owned(), origin: origin.to_owned() }
    }

    /// A request with the key. Paths that begin with a slash are below `/api/v1`; others are whole URLs.
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let url = if path.starts_with('/') { format!("{}/api/v1{path}", self.origin) } else { path.to_owned() };
        self.client.request(method.parse().unwrap(), url).header("x-api-key", &self.key)
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request("GET", path)).await
    }

    /// `POST` of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        answer(self.request("POST", path).json(body)).await
    }

    /// `PUT` of JSON.
    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        answer(self.request("PUT", path).json(body)).await
    }

    /// `DELETE`, with the JSON content type and no body, as the existing client does.
    pub async fn delete(&self, path: &str) -> Answer {
        answer(self.request("DELETE", path).header("content-type", "application/json")).await
    }

    /// A `POST` without a body, with the JSON content type.
    pub async fn press(&self, path: &str) -> Answer {
        answer(self.request("POST", path).header("content-type", "application/json")).await
    }

    /// Stores a span that must be accepted; answers its id.
    pub async fn store(&self, span: &Value) -> String {
        let (status, stored) = self.post("/ingest/traces", span).await;
        assert_eq!(status, 200, "{stored}");
        stored["trace_id"].as_str().unwrap().to_owned()
    }

    /// The spans of a session.
    pub async fn spans(&self, session: &str) -> Vec<Value> {
        list(self.get(&format!("/ingest/sessions/{session}/spans")).await, "spans")
    }

    /// The scores of a session.
    pub async fn scores(&self, session: &str) -> Vec<Value> {
        list(self.get(&format!("/agent-monitoring/sessions/{session}/scores")).await, "scores")
    }

    /// Sweeps by hand; answers how many verdicts were recorded.
    pub async fn sweep(&self) -> u64 {
        let (status, swept) = self.press("/agent-monitoring/session-sweep/run").await;
        assert_eq!(status, 200, "{swept}");
        swept["judged"].as_u64().unwrap()
    }
}

/// Sends a request, and reads the answer as JSON. Every answer must be one that the document has, and every request that a route
/// took one that it has too.
pub async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let (sent, came) = exchanged(request).await;
    if let Some(problem) = problem_of(&sent, &came) {
        panic!("{problem}");
    }
    (came.status, came.body)
}

/// The same for a request that is no route's own: some of what it says no route may read.
pub async fn answer_to_anything(request: reqwest::RequestBuilder) -> Answer {
    let (sent, came) = exchanged(request).await;
    if let Some(problem) = problem_of(&Sent { query: Vec::new(), body: None, ..sent }, &came) {
        panic!("{problem}");
    }
    (came.status, came.body)
}

async fn exchanged(request: reqwest::RequestBuilder) -> (Sent, Came) {
    let (client, request) = request.build_split();
    let request = request.unwrap();
    let is_plain = request.headers().get("content-encoding").is_none();
    let body = request.body().and_then(reqwest::Body::as_bytes).filter(|_| is_plain);
    let sent = Sent {
        method: request.method().to_string(),
        path: request.url().path().to_owned(),
        query: request.url().query_pairs().into_owned().collect(),
        body: body.and_then(|body| serde_json::from_slice(body).ok()),
    };
    let response = client.execute(request).await.unwrap();
    let status = response.status().as_u16();
    let media = response.headers().get("content-type").map(|media| media.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
    (sent, Came { status, media, body })
}

/// A list in a good answer.
pub fn list((status, mut body): Answer, name: &str) -> Vec<Value> {
    assert_eq!(status, 200, "{body}");
    match body[name].take() {
        Value::Array(items) => items,
        other => panic!("{name} is no list but {other}"),
    }
}

/// Checks that an answer is an error in the documented form, and gives its text.
#[track_caller]
pub fn refused((status, body): &Answer, expected: u16) -> String {
    assert_eq!(*status, expected, "{body}");
    assert_eq!(body["statusCode"], expected, "{body}");
    assert!(body["error"].is_string() && body["error"] == body["message"], "{body}");
    assert!(body["code"].as_str().is_some_and(|code| !code.is_empty()), "{body}");
    body["error"].as_str().unwrap().to_owned()
}
