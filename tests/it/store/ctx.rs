//! What a contract test stands on: a fresh store, a clock that stands still, and short ways to say a span, a group, a verdict.

use std::sync::Arc;

use afterword::clock::{Clock, ManualClock};
use afterword::domain::assessment::{Assessment, Ending, Goal};
use afterword::domain::compose::Composition;
use afterword::domain::conversation::{Agent, Conversation};
use afterword::domain::group::{GroupSpec, Member, MemberKind, OnlineProfile, Scope, Severity};
use afterword::domain::ids::{GroupId, ProjectId, SessionId, SpanId, TraceId};
use afterword::domain::merge::Fate;
use afterword::domain::quarantine::Limits;
use afterword::domain::scorer::Scorer;
use afterword::domain::span::{Origin, Span, SpanBody, SpanKind};
use afterword::domain::time::{Micros, Timestamp};
use afterword::domain::verdict::{Verdict, Voice};
use afterword::entropy::SeededEntropy;
use afterword::store::{
    Arrival, Caps, Claimed, GatheredGroup, GatheredSession, Gathering, PlanSettings, Recorded, SavedGroup, ScorerDraft,
    SessionEnd, Store, Try,
};
use serde_json::json;

use super::raw::Raw;
use crate::support::{postgres, store_at};

/// When the clock of every test begins.
pub const START: Timestamp = Timestamp::from_micros(1_793_500_000_000_000);
pub const MAX_ATTEMPTS: i64 = 3;
pub const ROOT_GRACE: Micros = Micros::seconds(60);
pub const LIMITS: Limits = Limits { max_turns: 50, max_spans: 500 };
pub const SETTLE: Micros = Micros::seconds(2);
pub const PLAN: PlanSettings = PlanSettings {
    root_grace: ROOT_GRACE,
    trace_settle: SETTLE,
    max_attempts: MAX_ATTEMPTS,
    batch: 100,
    limits: LIMITS,
    max_session_age: Micros::ZERO,
};

pub struct Ctx {
    pub store: Store,
    pub url: String,
    pub clock: Arc<ManualClock>,
    pub project: ProjectId,
    _folder: Option<tempfile::TempDir>,
}

impl Ctx {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("store.db").display());
        Self { _folder: Some(folder), ..Self::at(url).await }
    }

    pub async fn postgres() -> Option<Self> {
        Some(Self::at(postgres::database()?).await)
    }

    pub async fn at(url: String) -> Self {
        let store = Store::open(&store_at(&url), Arc::new(SeededEntropy::new(7))).await.unwrap();
        let project = store.project_named("one", START).await.unwrap().id;
        Self { store, url, clock: Arc::new(ManualClock::at(START)), project, _folder: None }
    }

    /// The same store as another tenant sees it.
    pub async fn tenant(&self, name: &str) -> Self {
        let project = self.store.project_named(name, START).await.unwrap().id;
        Self {
            store: self.store.clone(),
            url: self.url.clone(),
            clock: Arc::clone(&self.clock),
            project,
            _folder: None,
        }
    }

    /// A second store on the same database, as another process would open it. Its ids are its own.
    pub async fn second(&self, seed: u64) -> Store {
        Store::open(&store_at(&self.url), Arc::new(SeededEntropy::new(seed))).await.unwrap()
    }

    pub async fn raw(&self) -> Raw {
        Raw::connect(&self.url).await
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock to so many seconds after the start.
    pub fn at_second(&self, second: i64) -> Timestamp {
        self.clock.advance(START + Micros::seconds(second) - self.now());
        self.now()
    }

    pub fn arrival(&self, spans: Vec<Draft>) -> Arrival {
        Arrival {
            project: self.project.clone(),
            spans: spans.into_iter().map(|draft| draft.0).collect(),
            margin: Micros::seconds(60),
            trace_settle: SETTLE,
        }
    }

    pub async fn ingest(&self, spans: Vec<Draft>) -> Vec<Fate> {
        self.store.ingest(&[self.arrival(spans)], self.now()).await.unwrap().remove(0).fates
    }

    /// A session of so many turns, each a trace of one root, all arriving now.
    pub async fn session(&self, session: &str, turns: usize) {
        let roots = (0..turns).map(|n| {
            let trace = format!("{session}-t{n}");
            root(session, &trace).input(&format!("question {n}")).output(&format!("answer {n}"))
        });
        self.ingest(roots.collect()).await;
    }

    /// Plans everything due now; answers how many sessions were looked at, and how many pairs are wanted.
    pub async fn plan(&self) -> (usize, usize) {
        let planned = self.store.plan(None, self.now(), self.now(), PLAN, None).await.unwrap();
        (planned.looked_at, planned.wanted)
    }

    pub async fn claim(&self, limit: usize) -> Vec<Claimed> {
        self.claim_within(limit, Caps::default()).await
    }

    /// The same within caps.
    pub async fn claim_within(&self, limit: usize, caps: Caps) -> Vec<Claimed> {
        let (now, until) = (self.now(), self.now() + Micros::seconds(300));
        self.store.claim(None, "tester", limit, now, until, caps).await.unwrap()
    }

    /// Takes one expired lease over.
    pub async fn claim_expired(&self) -> Option<Claimed> {
        self.store.claim_expired(None, "tester", self.now(), self.now() + Micros::seconds(300)).await.unwrap()
    }

    /// Claims everything due, expired leases included, and gathers it.
    pub async fn gather(&self) -> Gathering {
        let mut claims = self.claim(1000).await;
        while let Some(claim) = self.claim_expired().await {
            claims.push(claim);
        }
        self.store.gather(claims).await.unwrap()
    }

    pub async fn record(&self, ends: &[SessionEnd]) -> Vec<Recorded> {
        self.store.record(ends, self.now(), MAX_ATTEMPTS).await.unwrap()
    }

    /// One whole sweep: everything due is planned, claimed, gathered and rated with `rating`. Answers how many verdicts.
    pub async fn sweep(&self, rating: f64) -> usize {
        self.plan().await;
        let gathering = self.gather().await;
        let ends: Vec<SessionEnd> =
            gathering.sessions.iter().map(|it| judged(&gathering, it, self.now(), rating)).collect();
        let recorded = self.record(&ends).await;
        let rated = recorded.iter().map(|one| match one {
            Recorded::Kept { rated, .. } => *rated,
            Recorded::LeaseLost => 0,
        });
        rated.sum()
    }

    pub async fn judge(&self, name: &str) -> Scorer {
        let spec = json!({"acceptanceCriteria": "polite"}).to_string();
        let draft = ScorerDraft { kind: MemberKind::Judge, name: name.to_owned(), spec };
        self.store.create_scorer(&self.project, &draft, self.now()).await.unwrap()
    }

    pub async fn group(&self, spec: &GroupSpec) -> SavedGroup {
        self.store.create_group(&self.project, spec, self.now(), lookback(self.now())).await.unwrap()
    }

    pub async fn edit(&self, stored: &SavedGroup, change: impl FnOnce(&mut OnlineProfile)) -> SavedGroup {
        let mut spec = stored.spec.clone();
        change(spec.online.as_mut().unwrap());
        let since = lookback(self.now());
        self.store.update_group(&self.project, stored, &spec, self.now(), since).await.unwrap().unwrap()
    }

    /// Works off every session that is to be considered again.
    pub async fn reconsider(&self) {
        while self.store.reconsider(self.now(), 100).await.unwrap() {}
    }

    /// (revision, armed at which second after the start) of a session.
    pub async fn alarm(&self, session: &str) -> (i64, Option<i64>) {
        let rest = format!("FROM sessions WHERE project_id = '{}' AND session_id = '{session}'", self.project);
        let rows = self.raw().await.texts(&["revision", "check_at"], &rest).await;
        let number = |n: usize| rows[0][n].as_deref().map(|text| text.parse::<i64>().unwrap());
        (number(0).unwrap(), number(1).map(|micros| (micros - START.micros()) / 1_000_000))
    }

    /// The assessment of a session by a group, as the next holder of the session would gather it.
    pub async fn assessment(&self, session: &str, group: &GroupId) -> Option<Assessment> {
        let claim = Claimed {
            project: self.project.clone(),
            session: SessionId::trusted(session),
            token: "nobody's".to_owned(),
        };
        let mut gathering = self.store.gather(vec![claim]).await.unwrap();
        let of_session = gathering.sessions.remove(0).assessments;
        of_session.into_iter().find(|(id, _)| id == group).map(|(_, assessment)| assessment)
    }

    pub async fn count(&self, table: &str) -> i64 {
        self.raw().await.number("COUNT(*)", &format!("FROM {table}")).await
    }
}

/// How far back a changed group looks.
pub fn lookback(now: Timestamp) -> Timestamp {
    now + Micros::seconds(-86_400)
}

/// A span about to be sent.
#[derive(Debug, Clone)]
pub struct Draft(pub Span);

/// A root of an OTLP trace that carries its session's id.
pub fn root(session: &str, trace: &str) -> Draft {
    otlp(trace, "root").session(session)
}

pub fn otlp(trace: &str, id: &str) -> Draft {
    Draft(Span {
        origin: Origin::Otlp,
        trace_id: TraceId::trusted(trace),
        span_id: SpanId::trusted(id),
        parent_id: None,
        session_tag: None,
        kind: SpanKind::Agent,
        name: format!("{id} of {trace}"),
        started_at: None,
        ended_at: None,
        body: SpanBody { output: Some(json!(format!("{id} of {trace}"))), ..SpanBody::default() },
    })
}

/// A span of the existing client: no trace id.
pub fn client(id: &str) -> Draft {
    let Draft(span) = otlp(id, id);
    Draft(Span { origin: Origin::Client, ..span })
}

impl Draft {
    pub fn session(mut self, session: &str) -> Self {
        self.0.session_tag = Some(SessionId::trusted(session));
        self
    }

    pub fn parent(mut self, parent: &str) -> Self {
        self.0.parent_id = Some(SpanId::trusted(parent));
        self
    }

    pub fn input(mut self, text: &str) -> Self {
        self.0.body.input = Some(json!(text));
        self
    }

    pub fn output(mut self, text: &str) -> Self {
        self.0.body.output = Some(json!(text));
        self
    }

    pub fn silent(mut self) -> Self {
        self.0.body.output = None;
        self
    }

    pub fn error(mut self, text: &str) -> Self {
        self.0.body.error = Some(text.to_owned());
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.0.name);
        self
    }

    /// When it says it began and ended, in seconds after the start.
    pub fn ran(mut self, from: i64, to: i64) -> Self {
        self.0.started_at = Some(START + Micros::seconds(from));
        self.0.ended_at = Some(START + Micros::seconds(to));
        self
    }

    pub fn unmonitored(mut self) -> Self {
        self.0.body.monitor = Some(false);
        self
    }

    pub fn eval_run(mut self) -> Self {
        self.0.body.source = Some("eval-run".to_owned());
        self
    }
}

/// A group of one judge that judges every session of two turns after two minutes, and alerts below 5.
pub fn live(name: &str) -> GroupSpec {
    live_with(name, "a-judge", |_| ())
}

pub fn live_with(name: &str, judge: &str, change: impl FnOnce(&mut OnlineProfile)) -> GroupSpec {
    let mut online = OnlineProfile {
        enabled: true,
        sample_rate: 1.0,
        alert_threshold: Some(5.0),
        severity: Severity::High,
        scope: Scope::Session,
        idle_seconds: 120,
        min_turns: 2,
        agents: None,
    };
    change(&mut online);
    GroupSpec {
        name: name.to_owned(),
        description: None,
        members: vec![Member::plain(MemberKind::Judge, judge)],
        aggregation: None,
        pass_threshold: None,
        output_type: None,
        scorecard_id: None,
        cheap_gates_first: false,
        online: Some(online),
    }
}

/// A group of one judge that judges every trace by itself, and alerts below 5.
pub fn live_traces(name: &str) -> GroupSpec {
    live_with(name, "a-judge", |online| online.scope = Scope::Trace)
}

/// The id under which a trace is assessed.
pub fn subject(trace: &str) -> String {
    SessionId::of_trace(&TraceId::trusted(trace)).into()
}

/// The end of work on a session that every due group rated with `rating`.
pub fn judged(gathering: &Gathering, session: &GatheredSession, now: Timestamp, rating: f64) -> SessionEnd {
    let due = session.assessments.iter().filter(|(_, assessment)| assessment.is_due(now, MAX_ATTEMPTS));
    let tries = due.map(|(group, assessment)| {
        let group = &gathering.groups[&(session.claim.project.clone(), group.clone())];
        rated(session, group, assessment.wanted.round, rating)
    });
    SessionEnd { claim: session.claim.clone(), tries: tries.collect() }
}

/// A try that ended in a rating of what was gathered.
pub fn rated(session: &GatheredSession, group: &GatheredGroup, round: i64, rating: f64) -> Try {
    let verdict = verdict(session, group, round, Some(rating));
    let ending =
        Ending::Covered { read: verdict.read, digest: format!("digest {}", verdict.read.revision), reason: None };
    Try { group: group.id.clone(), ending, verdict: Some(verdict) }
}

pub fn verdict(session: &GatheredSession, group: &GatheredGroup, round: i64, rating: Option<f64>) -> Verdict {
    let conversation = Conversation::assemble(session.claim.session.clone(), session.spans.clone());
    let count = |n: usize| i64::try_from(n).unwrap();
    Verdict {
        group: group.id.clone(),
        group_name: group.spec.name.clone(),
        group_version: group.version,
        voice: Voice::Group,
        session: session.claim.session.clone(),
        read: Goal { revision: session.standing.as_ref().unwrap().revision, round },
        composition: Composition {
            rating,
            mean: rating.map(|rating| rating / 10.0),
            gated_by: None,
            justification: "because".to_owned(),
            coverage: 1.0,
            pass: None,
            scorecard: None,
        },
        recipe: group.spec.recipe(group.scorecard.clone()),
        members: Vec::new(),
        incomplete: false,
        interim: false,
        anchor_trace: conversation.anchor_trace().unwrap().clone(),
        agent: Some(Agent { id: "agent".to_owned(), name: "Agent".to_owned() }),
        last_turn_at: conversation.last_turn_at().unwrap(),
        turns: count(conversation.turns.len()),
        spans: count(conversation.span_count),
        live: true,
        alert_threshold: group.spec.online.as_ref().and_then(|online| online.alert_threshold),
        severity: Severity::High,
    }
}

pub fn ending(group: &GroupId, ending: Ending) -> Try {
    Try { group: group.clone(), ending, verdict: None }
}
