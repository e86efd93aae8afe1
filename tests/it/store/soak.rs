//! Everything at once: writers, planners and workers on one database, until all is quiet. Then nothing may be missing,
//! nothing judged twice, and every count be right.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use afterword::domain::assessment::Ending;
use afterword::domain::ids::SessionId;
use afterword::domain::plan::{LiveGroup, NotNow};
use afterword::domain::sample;
use afterword::domain::time::{Micros, Timestamp};
use afterword::entropy::SeededEntropy;
use afterword::store::{Caps, GatheredSession, Gathering, SavedGroup, SessionEnd, Store};

use super::ctx::{Ctx, Draft, MAX_ATTEMPTS, PLAN, client, ending, live_with, otlp, rated, root};
use super::recount;

const WRITERS: u64 = 3;
const SESSIONS: u64 = 9;

/// A tenant that many tasks share.
struct Shared {
    ctx: Ctx,
    writing: AtomicUsize,
}

impl Shared {
    fn tick(&self) {
        self.ctx.clock.advance(Micros::millis(50));
    }
}

/// Turns of a few spans each, cut up, shuffled and sent in small batches, some of them twice.
async fn write(shared: Arc<Shared>, seed: u64) {
    let dice = SeededEntropy::new(seed);
    for turn in 0..12 {
        let session = format!("s{}", dice.below(SESSIONS));
        let trace = format!("{seed}-{turn}");
        let mut spans: Vec<Draft> = if dice.below(3) == 0 {
            let top = format!("{trace}-r");
            let child = client(&format!("{trace}-a")).parent(&top);
            vec![client(&format!("{trace}-b")).parent(&format!("{trace}-a")), client(&top).session(&session), child]
        } else {
            let child = otlp(&trace, "a").parent("root");
            vec![otlp(&trace, "b").parent("a").error("x"), child, root(&session, &trace)]
        };
        let again = spans[usize::try_from(dice.below(3)).unwrap()].clone();
        spans.push(again);
        let first = usize::try_from(dice.below(4)).unwrap();
        spans.rotate_left(first);
        for batch in spans.chunks(1 + usize::try_from(dice.below(3)).unwrap()) {
            shared.tick();
            shared.ctx.ingest(batch.to_vec()).await;
        }
    }
    shared.writing.fetch_sub(1, Ordering::SeqCst);
}

async fn plan(shared: Arc<Shared>) {
    while shared.writing.load(Ordering::SeqCst) > 0 {
        shared.tick();
        shared.ctx.plan().await;
        shared.ctx.store.reconsider(shared.ctx.now(), 3).await.unwrap();
    }
}

/// Somebody turns a group off and on again, and leaves it on.
async fn operate(shared: Arc<Shared>, mut group: SavedGroup) {
    while shared.writing.load(Ordering::SeqCst) > 0 {
        for enabled in [false, true] {
            shared.tick();
            group = shared.ctx.edit(&group, |online| online.enabled = enabled).await;
            tokio::task::yield_now().await;
        }
    }
}

/// What a worker makes of what it gathered: a rating where it is due and quiet, now and then an outage or an error.
fn ends(gathering: &Gathering, now: Timestamp, dice: &SeededEntropy) -> Vec<SessionEnd> {
    let end = |session: &GatheredSession| {
        let due = session.assessments.iter().filter(|(_, assessment)| assessment.is_due(now, MAX_ATTEMPTS));
        let tries = due.map(|(id, assessment)| {
            let group = &gathering.groups[&(session.claim.project.clone(), id.clone())];
            let standing = session.standing.as_ref().unwrap();
            let withdrawn = || Ending::Withdrawn { wanted: assessment.wanted, version: Some(group.version) };
            let Some(live) = LiveGroup::of(id.clone(), &group.spec).filter(|_| group.live) else {
                return ending(id, withdrawn());
            };
            match standing.eligible(&live, now, PLAN.patience()) {
                Err(NotNow::Active(until)) => ending(id, Ending::NotIdle { until }),
                Err(_) => ending(id, withdrawn()),
                Ok(()) if dice.below(6) == 0 => {
                    let until = now + Micros::millis(200);
                    ending(id, Ending::Deferred { until, reason: "429".to_owned(), held: false })
                }
                Ok(()) => {
                    rated(session, group, assessment.wanted.round, f64::from(u8::try_from(dice.below(11)).unwrap()))
                }
            }
        });
        SessionEnd { claim: session.claim.clone(), tries: tries.collect() }
    };
    gathering.sessions.iter().map(end).collect()
}

/// Answers whether it found anything to do. Where `crashes`, some claims are dropped as a crash would drop them.
async fn work(ctx: &Ctx, store: &Store, dice: &SeededEntropy, crashes: bool) -> bool {
    let now = ctx.now();
    let until = now + Micros::millis(500);
    let mut claims = store.claim(None, "soak", 3, now, until, Caps::default()).await.unwrap();
    // A death while alone counts, and too many give the session up: that has a test of its own.
    let is_alone = claims.is_empty();
    if is_alone {
        claims.extend(store.claim_expired(None, "soak", now, until).await.unwrap());
    }
    if claims.is_empty() {
        return false;
    }
    if crashes && !is_alone && dice.below(8) == 0 {
        return true;
    }
    let held = claims.clone();
    let gathering = store.gather(claims).await.unwrap();
    store.renew(&held, ctx.now() + Micros::millis(500)).await.unwrap();
    store.record(&ends(&gathering, ctx.now(), dice), ctx.now(), MAX_ATTEMPTS).await.unwrap();
    true
}

/// A worker with connections of its own, as another process has them.
async fn worker(shared: Arc<Shared>, seed: u64) {
    let dice = SeededEntropy::new(seed);
    let store = shared.ctx.second(seed).await;
    while shared.writing.load(Ordering::SeqCst) > 0 {
        shared.tick();
        if !work(&shared.ctx, &store, &dice, true).await {
            tokio::task::yield_now().await;
        }
    }
}

async fn soak(ctx: Ctx) {
    let short = |name: &str, rate| {
        live_with(name, "j", |online| {
            online.idle_seconds = 1;
            online.sample_rate = rate;
        })
    };
    let groups = [ctx.group(&short("all", 1.0)).await, ctx.group(&short("half", 0.5)).await];
    let shared = Arc::new(Shared { ctx, writing: AtomicUsize::new(usize::try_from(WRITERS).unwrap()) });
    let mut tasks = Vec::new();
    for seed in 0..WRITERS {
        tasks.push(tokio::spawn(write(Arc::clone(&shared), seed)));
        tasks.push(tokio::spawn(worker(Arc::clone(&shared), 100 + seed)));
    }
    tasks.push(tokio::spawn(plan(Arc::clone(&shared))));
    tasks.push(tokio::spawn(plan(Arc::clone(&shared))));
    tasks.push(tokio::spawn(operate(Arc::clone(&shared), groups[1].clone())));
    for task in tasks {
        task.await.unwrap();
    }
    let ctx = &shared.ctx;
    let dice = SeededEntropy::new(999);
    for _ in 0..20 {
        ctx.clock.advance(Micros::seconds(120));
        ctx.reconsider().await;
        ctx.store.plan(None, ctx.now(), ctx.now(), PLAN, None).await.unwrap();
        while work(ctx, &ctx.store, &dice, false).await {}
    }

    recount::check(ctx).await;
    assert_eq!(ctx.count("queue").await, 0);
    let sessions = ctx.store.recent_sessions(&ctx.project, Timestamp::EARLIEST, 100).await.unwrap();
    assert_eq!(sessions.iter().map(|row| row.spans).sum::<i64>(), i64::try_from(WRITERS * 12 * 3).unwrap());
    let mut wanted_by = [0; 2];
    for row in sessions {
        let session: &SessionId = &row.session;
        let verdicts = ctx.store.verdicts_of_session(&ctx.project, session).await.unwrap();
        for (group, wanted_by) in groups.iter().zip(&mut wanted_by) {
            let rate = group.spec.online.as_ref().unwrap().sample_rate;
            let wanted = row.turns >= 2 && sample::draw(session.as_str(), group.id.as_str()).kept_at(rate);
            let mut read: Vec<i64> =
                verdicts.iter().filter(|it| it.group == group.id).map(|it| it.read.revision).collect();
            assert_eq!(read.first().copied(), wanted.then_some(row.revision), "{session} by {}", group.spec.name);
            let all = read.len();
            read.dedup();
            assert_eq!(read.len(), all, "{session} was judged twice at one revision");
            let assessment = ctx.assessment(session.as_str(), &group.id).await;
            assert_eq!(assessment.map(|it| it.covered.revision), wanted.then_some(row.revision), "{session}");
            *wanted_by += usize::from(wanted);
        }
    }
    assert!(wanted_by.iter().all(|sessions| *sessions > 0), "nothing was tested: {wanted_by:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_at_once_leaves_every_session_judged_on_sqlite() {
    soak(Ctx::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_at_once_leaves_every_session_judged_on_postgres() {
    if let Some(ctx) = Ctx::postgres().await {
        soak(ctx).await;
    }
}
