//! The app: configuration turned into a store, a writer, a worker. The one place where settings meet the floors below.

use std::path::PathBuf;
use std::sync::Arc;

use secrecy::SecretString;

use crate::clock::{Clock, SystemClock};
use crate::config::{self, Config};
use crate::domain::access::KeyState;
use crate::domain::assessment::RetryPolicy;
use crate::domain::delivery::DeliveryPolicy;
use crate::domain::ids::GroupId;
use crate::domain::judge::{Model, ModelTable};
use crate::domain::quarantine;
use crate::domain::retry::Backoff;
use crate::domain::time::Micros;
use crate::entropy::{Entropy, OsEntropy};
use crate::ingest::writer::{Writer, WriterSettings};
use crate::notify::{self, Notifier, NotifySettings};
use crate::scorers::code::{CodeScorers, CodeSettings};
use crate::scorers::custom::Customs;
use crate::scorers::external::{ExternalClient, ExternalSettings};
use crate::scorers::guard::{Outgoing, OutgoingSettings};
use crate::scorers::judge::{JudgeClient, JudgeSettings};
use crate::scorers::{self, Limits, Provider};
use crate::store::{Caps, DailyLimits, Project, Retention, Store, StoreError, StoreSettings};
use crate::worker::{DeliverSettings, Deliverer, Scheduled, Worker, WorkerSettings};

/// Everything that a command needs, opened.
#[derive(Debug)]
pub struct App {
    /// The configuration in effect.
    pub config: Config,
    /// The store, brought up to date.
    pub store: Store,
    /// The clock; it follows the database server's.
    pub clock: Arc<SystemClock>,
    /// The randomness.
    pub entropy: Arc<dyn Entropy>,
}

/// How the API of a first start can be reached.
#[derive(Debug)]
pub enum FirstKey {
    /// Keys exist already.
    Known,
    /// The key that the environment names was taken over.
    Adopted {
        /// What it can be recognised by.
        prefix: String,
    },
    /// A key was made; it is to be shown once.
    Made(SecretString),
}

/// Why the API is not opened.
#[derive(Debug, thiserror::Error)]
pub enum FirstStartError {
    /// Others could reach it, and nobody has a key.
    #[error(
        "server.listen lets other machines reach the API, and there is no live API key yet: whoever came first would find it \
         unguarded or shut. Make a key first with `afterword key create`, set AFTERWORD_API_KEY, or listen on 127.0.0.1"
    )]
    NoKey,
    /// Others could reach it, and the key that the environment names can be guessed.
    #[error(
        "server.listen lets other machines reach the API, and AFTERWORD_API_KEY has fewer than {SHORTEST_OPEN_KEY} characters: it \
         could be guessed. Set a longer random one, or listen on 127.0.0.1"
    )]
    Guessable,
    /// The key that the environment names was revoked, or has expired.
    #[error("AFTERWORD_API_KEY names a key that was revoked or has expired. Set another")]
    Over,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The shortest key from the environment that opens the API to other machines, in characters.
const SHORTEST_OPEN_KEY: usize = 24;

impl App {
    /// Opens the store of a configuration.
    ///
    /// # Errors
    /// [`StoreError`] where the database can't be opened or brought up to date.
    pub async fn open(config: Config) -> Result<Self, StoreError> {
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let database = &config.database;
        let settings = StoreSettings {
            url: database.url.expose().to_owned(),
            max_connections: database.max_connections,
            busy_timeout: database.busy_timeout.to_std(),
        };
        let store = Store::open(&settings, Arc::clone(&entropy)).await?;
        let clock = Arc::new(SystemClock::default());
        store.follow_clock(&clock).await?;
        Ok(Self { config, store, clock, entropy })
    }

    /// The clock, as the floors below take it.
    pub fn any_clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// The project made at first start, and how it can be reached. `given` is the key that the environment names; `is_private`
    /// says that nobody but this machine can reach the API. Else a key is never made here: it would be shown to whoever reads the
    /// log, and until it is known nobody could tell who else came first.
    ///
    /// # Errors
    /// [`FirstStartError`].
    pub async fn first_start(
        &self,
        given: Option<&str>,
        is_private: bool,
    ) -> Result<(Project, FirstKey), FirstStartError> {
        let now = self.clock.now();
        let project = self.store.default_project(now).await?;
        if let Some(text) = given {
            if !is_private && text.chars().count() < SHORTEST_OPEN_KEY {
                return Err(FirstStartError::Guessable);
            }
            let prefix = self.store.adopt_key(&project.id, "environment", text, now).await?;
            let is_live = self.store.key_of(text).await?.is_some_and(|key| key.state(now) == KeyState::Live);
            return if is_live { Ok((project, FirstKey::Adopted { prefix })) } else { Err(FirstStartError::Over) };
        }
        if self.store.has_live_keys(now).await? {
            return Ok((project, FirstKey::Known));
        }
        if !is_private {
            return Err(FirstStartError::NoKey);
        }
        let key = self.store.create_key(&project.id, "first", now).await?;
        Ok((project, FirstKey::Made(key.text)))
    }

    /// The writer that what arrives is handed to.
    pub fn writer(&self) -> Writer {
        let ingest = &self.config.ingest;
        let settings = WriterSettings {
            spans_per_transaction: ingest.group_commit_spans,
            writers: ingest.writers,
            trace_settle: self.config.sweep.trace_settle,
        };
        Writer::start(&self.store, &self.any_clock(), settings)
    }

    /// The worker that judges.
    ///
    /// # Errors
    /// What is wrong with the judge's settings, without secrets.
    pub fn worker(&self) -> Result<Arc<Worker>, String> {
        let judges = Arc::new(judges(&self.config, self.any_clock())?);
        let customs = customs(&self.config)?;
        let settings = worker_settings(&self.config);
        let (clock, entropy) = (self.any_clock(), Arc::clone(&self.entropy));
        Ok(Worker::new(self.store.clone(), clock, entropy, judges, customs, settings))
    }

    /// The deliverer that tells receivers.
    ///
    /// # Errors
    /// TLS can't be set up.
    pub fn deliverer(&self) -> Result<Arc<Deliverer>, String> {
        let (clock, entropy) = (self.any_clock(), Arc::clone(&self.entropy));
        let notifier = notifier(&self.config)?;
        Ok(Deliverer::new(self.store.clone(), clock, entropy, notifier, deliver_settings(&self.config)))
    }
}

impl App {
    /// The re-sweeps that the configuration schedules.
    pub fn scheduled_resweeps(&self) -> Vec<Scheduled> {
        let mut scheduled = Vec::new();
        for one in &self.config.resweep.scheduled {
            // Checked when the configuration was loaded.
            let Ok(order) = one.order() else { continue };
            scheduled.push(Scheduled {
                name: one.name.clone(),
                schedule: one.schedule.clone(),
                project: one.project.clone(),
                group: GroupId::trusted(one.group.clone()),
                window: one.window,
                order,
            });
        }
        scheduled
    }
}

/// The judge that a configuration names, if it names one.
///
/// # Errors
/// What is wrong with the settings, without secrets.
pub fn judges(config: &Config, clock: Arc<dyn Clock>) -> Result<JudgeClient, String> {
    let Config { judge, redact, .. } = config;
    scorers::install_tls();
    let pause = judge.circuit_pause;
    let model = |said: &config::JudgeModel| Model {
        context_tokens: said.context_tokens,
        input_price: said.input_price,
        output_price: said.output_price,
    };
    let settings = JudgeSettings {
        provider: Provider::from_name(&judge.provider).unwrap_or_default(),
        base_url: judge.base_url.clone(),
        api_key: judge.api_key.clone(),
        api_key_header: judge.api_key_header.clone(),
        model: judge.model.clone().unwrap_or_default(),
        timeout: judge.timeout.to_std(),
        deadline: judge.timeout.to_std(),
        max_attempts: judge.max_attempts,
        limits: Limits {
            max_concurrency: judge.max_concurrency,
            requests_per_minute: judge.requests_per_minute,
            circuit_failures: judge.circuit_failures,
            circuit_pause: Backoff { first: pause, longest: Micros::new(pause.get().saturating_mul(20)) },
        },
        models: ModelTable {
            models: judge.models.iter().map(|(name, said)| (name.clone(), model(said))).collect(),
            context_tokens: (judge.context_tokens > 0).then_some(judge.context_tokens),
        },
        reply_tokens: u32::try_from(judge.max_output_tokens).unwrap_or(u32::MAX),
        temperature: Some(judge.temperature),
        daily: DailyLimits { project: limit(judge.daily_calls), group: limit(judge.daily_calls_per_group) },
        redact: redact.kinds.clone(),
        ..JudgeSettings::default()
    };
    JudgeClient::new(settings, clock)
}

/// Where custom scorers are carried out.
///
/// # Errors
/// TLS can't be set up, or the interpreter that scripts are to be run by is not there.
pub fn customs(config: &Config) -> Result<Customs, String> {
    let outgoing = &config.outgoing;
    let rules = OutgoingSettings { allow_private: outgoing.allow_private, ..OutgoingSettings::default() };
    scorers::install_tls();
    let external = ExternalClient::new(Outgoing::new(rules)?, ExternalSettings::default());
    Ok(Customs { external: Arc::new(external), code: Arc::new(code_scorers(&config.code)?) })
}

/// Where receivers are told of events.
///
/// # Errors
/// TLS can't be set up.
pub fn notifier(config: &Config) -> Result<Notifier, String> {
    let Config { outgoing, deliveries, server, redact, .. } = config;
    let rules = OutgoingSettings { allow_private: outgoing.allow_private, ..OutgoingSettings::default() };
    scorers::install_tls();
    let public_url = match deliveries.public_url.as_str() {
        "" => format!("http://{}", server.listen),
        url => url.to_owned(),
    };
    let settings = NotifySettings { public_url, timeout: notify::TIMEOUT, redact: redact.kinds.clone() };
    Ok(Notifier::new(Outgoing::new(rules)?, settings))
}

/// How a configuration has deliveries sent.
pub fn deliver_settings(config: &Config) -> DeliverSettings {
    let deliveries = &config.deliveries;
    DeliverSettings {
        policy: DeliveryPolicy {
            backoff: Backoff { first: deliveries.retry_first, longest: deliveries.retry_longest },
            max_attempts: deliveries.max_attempts,
            give_up_after: deliveries.give_up_after,
        },
        max_concurrency: deliveries.max_concurrency,
        lease: RECEIVER_LEASE,
        turn: RECEIVER_TURN,
        keep: deliveries.keep,
        grace: config.shutdown.grace,
    }
}

/// How long a receiver is held: well over the time that one attempt may take, and short, since it is what a receiver waits for
/// after its worker died.
const RECEIVER_LEASE: Micros = Micros::seconds(20);

/// How long one receiver is sent to before the others have their turn: one that takes its time with each of thousands of deliveries
/// would hold its place for hours.
const RECEIVER_TURN: Micros = Micros::seconds(10);

/// The code scorers of a configuration. Their workers are processes of this program.
///
/// # Errors
/// That there is no `python3` to be found, where the configuration wants one.
pub fn code_scorers(code: &config::Code) -> Result<CodeScorers, String> {
    let cpython = if code.cpython { Some(python()?) } else { None };
    Ok(CodeScorers::new(CodeSettings {
        workers: code.workers,
        soft_limit: code.soft_limit.to_std(),
        hard_limit: code.hard_limit.to_std(),
        memory: code.memory_mib << 20,
        recycle_after: code.recycle_after,
        cpython,
        program: OWN_PROGRAM.into(),
    }))
}

/// The `python3` of this machine: the system's own before what else is in PATH, for workers that were started as root run as
/// nobody, who may not look into people's folders.
fn python() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/local/bin", "/usr/bin"].map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let found = folders.map(|folder| folder.join("python3")).find(|file| file.is_file());
    found.ok_or_else(|| "code.cpython is on, and there is no python3 in PATH: install one, or switch it off".to_owned())
}

/// This program, under a name that stays true when its file is replaced by an upgrade.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A setting in which 0 is no limit.
fn limit(setting: i64) -> Option<i64> {
    (setting > 0).then_some(setting)
}

/// How long a configuration keeps things.
fn retention(config: &Config) -> Retention {
    let Config { retention, .. } = config;
    let kept = |days: i64| (days > 0).then(|| Micros::seconds(days * 86_400));
    Retention {
        spans: kept(retention.spans_days),
        verdicts: kept(retention.verdicts_days),
        ledger: kept(retention.ledger_days),
        outcomes: kept(retention.outcomes_days),
        occurrences: kept(retention.occurrences_days),
        resweeps: kept(retention.resweeps_days),
        deleted_projects: kept(retention.deleted_projects_days),
    }
}

/// How a configuration has the worker work.
pub fn worker_settings(config: &Config) -> WorkerSettings {
    let sweep = &config.sweep;
    WorkerSettings {
        root_grace: sweep.root_grace,
        failing_after: config.deliveries.failing_after,
        trace_settle: sweep.trace_settle,
        retry: RetryPolicy {
            errors: Backoff { first: sweep.retry_first, longest: sweep.retry_longest },
            deferrals: Backoff { first: sweep.defer_first, longest: sweep.defer_longest },
            max_attempts: sweep.max_attempts,
            panel_wait: sweep.panel_wait,
        },
        limits: quarantine::Limits { max_turns: sweep.max_turns, max_spans: sweep.max_spans },
        max_session_age: sweep.max_session_age,
        caps: Caps { project: limit(sweep.max_in_flight_per_project), group: limit(sweep.max_in_flight_per_group) },
        lease: sweep.lease,
        max_in_flight: sweep.max_in_flight,
        plan_batch: sweep.plan_batch,
        claim_batch: sweep.claim_batch,
        record_batch: sweep.record_batch,
        retention: retention(config),
        grace: config.shutdown.grace,
    }
}

/// How long a pass asked for through the API may go on before it is cut short. The existing client waits 300 s for it, and what
/// is in work by then has the grace of a shutdown to finish.
pub const SWEEP_PATIENCE: Micros = Micros::seconds(260);

/// How long those who look whether all is well are kept waiting for the database.
pub const PROBE_PATIENCE: Micros = Micros::seconds(2);
