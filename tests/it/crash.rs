//! Real crashes: the binary is killed at random moments while it takes in and judges conversations. What it acknowledged is
//! there afterwards, every conversation has one verdict per revision read, and no judge call is repeated but those under way.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterword::domain::ids::SessionId;
use afterword::entropy::{Entropy as _, OsEntropy, SeededEntropy};
use afterword::store::Store;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::store::raw::Raw;
use crate::support::judge::{Judge, Reply};
use crate::support::postgres;
use crate::support::server::Caller;
use crate::support::{PATIENCE, address, store_at};

const KILLS: usize = 50;
const KEY: &str = "a-key-for-crashing";
const SESSIONS: u64 = 60;
const TURNS: u64 = 3;
/// Sessions, and so judge calls, that one process has in work at the most.
const CONCURRENCY: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_judged_twice_when_the_process_is_killed_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("crash.db").display());
    Crash::start(url, 0).await.run().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_judged_twice_when_four_workers_are_killed_on_postgresql() {
    if let Some(url) = postgres::database() {
        Crash::start(url, 3).await.run().await;
    }
}

/// One service, and workers beside it, on one database.
struct Crash {
    url: String,
    address: String,
    judge: Judge,
    dice: SeededEntropy,
    /// The service first, then the workers.
    processes: Vec<Child>,
    /// The ids of those that were killed.
    dead: Vec<u32>,
}

impl Crash {
    async fn start(url: String, workers: usize) -> Self {
        let mut seed = [0; 8];
        OsEntropy.fill(&mut seed);
        let seed = u64::from_le_bytes(seed);
        println!("seed {seed}");
        let judge = Judge::start(|_| Reply::After(Duration::from_millis(15), Box::new(Reply::Rating(8.0))));
        let mut it = Self {
            url,
            address: address::own().to_string(),
            judge,
            dice: SeededEntropy::new(seed),
            processes: Vec::new(),
            dead: Vec::new(),
        };
        it.processes.push(it.spawn("serve"));
        it.healthy().await;
        for _ in 0..workers {
            it.processes.push(it.spawn("work"));
        }
        it
    }

    fn spawn(&self, command: &str) -> Child {
        let concurrency = CONCURRENCY.to_string();
        Command::new(env!("CARGO_BIN_EXE_afterword"))
            .arg(command)
            .envs([
                ("AFTERWORD__DATABASE__URL", self.url.as_str()),
                ("AFTERWORD__DATABASE__BUSY_TIMEOUT", "5m"),
                ("AFTERWORD__SERVER__LISTEN", &self.address),
                ("AFTERWORD_API_KEY", KEY),
                ("AFTERWORD__SWEEP__SCHEDULE", "* * * * * *"),
                // Far longer than anything takes here: what the dead held is freed by hand, nothing else runs out.
                ("AFTERWORD__SWEEP__LEASE", "20m"),
                ("AFTERWORD__SWEEP__MAX_ATTEMPTS", "100"),
                ("AFTERWORD__JUDGE__BASE_URL", self.judge.base_url()),
                ("AFTERWORD__JUDGE__MODEL", "stub"),
                ("AFTERWORD__JUDGE__TIMEOUT", "10m"),
                ("AFTERWORD__JUDGE__MAX_CONCURRENCY", &concurrency),
                ("AFTERWORD__SWEEP__MAX_IN_FLIGHT", &concurrency),
                ("AFTERWORD__LOG__LEVEL", "off"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    fn caller(&self) -> Caller {
        Caller::new(&format!("http://{}", self.address), KEY)
    }

    async fn healthy(&self) {
        let url = format!("http://{}/health", self.address);
        afterword::scorers::install_tls();
        let client = reqwest::Client::new();
        until("the service answers", async || {
            client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
    }

    async fn run(mut self) {
        let group = self.make_group().await;
        let sent = Arc::new(AtomicU64::new(0));
        let sending = tokio::spawn(send_all(self.caller(), Arc::clone(&sent)));
        let mut calls_lost = 0;
        let mut most_lost = 0;
        for _ in 0..KILLS {
            // A random moment: after so many more acknowledged spans and judge calls. Once all are sent there may be no more calls.
            let progress = || sent.load(Ordering::SeqCst) + self.judge.requests().len() as u64;
            let target = progress() + 1 + self.dice.below(6);
            let is_sent = || sent.load(Ordering::SeqCst) == SESSIONS * TURNS;
            until("something happens", async || is_sent() || progress() >= target).await;
            let victim = usize::try_from(self.dice.below(self.processes.len() as u64)).unwrap();
            let id = self.processes[victim].id().unwrap();
            self.processes[victim].kill().await.unwrap();
            self.dead.push(id);
            self.bury().await;
            if self.processes.len() == 1 {
                let lost = self.lost_calls().await - calls_lost;
                calls_lost += lost;
                most_lost = most_lost.max(lost);
            }
            self.processes[victim] = self.spawn(if victim == 0 { "serve" } else { "work" });
            if victim == 0 {
                self.healthy().await;
            }
        }
        sending.await.unwrap();
        self.check(&group).await;
        assert!(
            most_lost <= CONCURRENCY,
            "a kill lost {most_lost} calls, and at most {CONCURRENCY} sessions were in work"
        );
        if self.processes.len() == 1 {
            assert_eq!(self.lost_calls().await, calls_lost, "a call was repeated that no kill had cut short");
        } else {
            assert!(self.lost_calls().await <= CONCURRENCY * KILLS);
        }
    }

    /// Frees what the dead held, as the end of their leases would. A server may still carry out what they asked for last.
    async fn bury(&self) {
        let mut raw = Raw::connect(&self.url).await;
        for id in &self.dead {
            let freed = "UPDATE queue SET visible_at = 1 WHERE visible_at > 1 AND lease_token IS NOT NULL";
            raw.run(&format!("{freed} AND lease_owner LIKE '{id}-%'")).await;
        }
    }

    /// Calls whose answer nobody kept.
    async fn lost_calls(&self) -> usize {
        self.judge.caught_up().await;
        let mut raw = Raw::connect(&self.url).await;
        let kept = raw.number("COUNT(*)", "FROM outcomes").await;
        self.judge.requests().len() - usize::try_from(kept).unwrap()
    }

    async fn make_group(&self) -> String {
        let caller = self.caller();
        let judge = json!({"name": "Quality", "judge": {"acceptanceCriteria": "The need is met."}});
        let judge = caller.post("/agent-monitoring/judge-scorers", &judge).await.1;
        let group = json!({
            "name": "Crash", "members": [{"kind": "judge", "refId": judge["judgeScorer"]["_id"], "weight": 1}],
            "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 9, "severity": "low", "scope": "session",
                       "idleSeconds": 0},
        });
        let group = caller.post("/agent-monitoring/scorer-groups", &group).await.1;
        group["scorerGroup"]["_id"].as_str().unwrap().to_owned()
    }

    async fn check(&self, group: &str) {
        let store = Store::open(&store_at(&self.url), Arc::new(SeededEntropy::new(1))).await.unwrap();
        let project = store.key_of(KEY).await.unwrap().unwrap().project;
        for n in 0..SESSIONS {
            let session = SessionId::trusted(name(n));
            let spans = store.spans_of_session(&project, &session).await.unwrap();
            assert_eq!(spans.len() as u64, TURNS, "an acknowledged span of {session} is gone");
            until(&format!("{session} is judged at its last turn"), async || {
                self.bury().await;
                let verdicts = store.verdicts_of_session(&project, &session).await.unwrap();
                verdicts.first().is_some_and(|verdict| u64::try_from(verdict.turns) == Ok(TURNS))
            })
            .await;
            let verdicts = store.verdicts_of_session(&project, &session).await.unwrap();
            let mut revisions: Vec<i64> = verdicts.iter().map(|verdict| verdict.read.revision).collect();
            revisions.dedup();
            assert_eq!(revisions.len(), verdicts.len(), "{session} was judged twice at one revision");
            for verdict in &verdicts {
                assert_eq!((verdict.group.as_str(), verdict.rating), (group, Some(8.0)), "{session}");
            }
        }
    }
}

fn name(n: u64) -> String {
    format!("crash-{n:03}")
}

/// Sends every turn of every session until it is acknowledged.
async fn send_all(caller: Caller, sent: Arc<AtomicU64>) {
    let caller = Arc::new(caller);
    let next = Arc::new(Mutex::new(0..SESSIONS));
    let lanes = (0..4).map(|_| {
        let (caller, next, sent) = (Arc::clone(&caller), Arc::clone(&next), Arc::clone(&sent));
        tokio::spawn(async move {
            loop {
                let Some(session) = next.lock().unwrap().next() else { return };
                for turn in 0..TURNS {
                    send(&caller, &span(session, turn)).await;
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.unwrap();
    }
}

fn span(session: u64, turn: u64) -> Value {
    json!({"name": "agent", "span_id": format!("{}-{turn}", name(session)), "session_id": name(session),
           "input": format!("question {turn}"), "output": format!("answer {turn} of {session}")})
}

/// Sends a span until it is acknowledged: the process may be dead, or die before it answers.
async fn send(caller: &Caller, span: &Value) {
    let sending = async {
        loop {
            let answer = caller.request("POST", "/ingest/traces").json(span).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, sending).await.is_ok(), "{span} was never acknowledged");
}

/// Waits for a fact.
async fn until(what: &str, fact: impl AsyncFn() -> bool) {
    let waiting = async {
        while !fact().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "in vain: {what}");
}
