//! Counts kept by adding equal counts found again from nothing, whatever arrives in whatever order.

use std::collections::{BTreeMap, BTreeSet};

use afterword::domain::attach::{self, Link};
use afterword::domain::ids::{ProjectId, SessionId, SpanId, TraceId};
use afterword::domain::share::{self, Share, SpanFacts};
use afterword::domain::time::{Micros, Timestamp};
use afterword::entropy::SeededEntropy;

use super::contract;
use super::ctx::{Ctx, Draft, START, client, otlp};
use super::raw::Raw;

struct SpanRow {
    trace: TraceId,
    client: bool,
    tag: Option<SessionId>,
    started_at: Option<Timestamp>,
    eval_run: bool,
    digest: String,
    facts: SpanFacts,
}

/// What a session's row says: revision, last arrival, turns, rootless, spans, errors, latency, first, recent, last turn, last
/// rootless arrival.
type SessionCounts = (i64, i64, [i64; 5], i64, i64, Option<i64>, Option<i64>);

async fn spans(raw: &mut Raw, project: &ProjectId) -> Vec<SpanRow> {
    let columns = [
        "trace_id",
        "span_id",
        "parent_id",
        "session_id",
        "session_tag",
        "origin",
        "started_at",
        "at",
        "arrived_at",
        "latency",
        "CAST(has_content AS INTEGER)",
        "CAST(has_error AS INTEGER)",
        "CAST(eval_run AS INTEGER)",
        "digest",
    ];
    let rows =
        raw.texts(&columns, &format!("FROM spans WHERE project_id = '{project}' ORDER BY trace_id, span_id")).await;
    let read = |row: Vec<Option<String>>| {
        let text = |n: usize| row[n].clone().unwrap();
        let number = |n: usize| text(n).parse::<i64>().unwrap();
        let time = |n: usize| Timestamp::from_micros(number(n));
        SpanRow {
            trace: TraceId::trusted(text(0)),
            client: text(5) == "client",
            tag: row[4].clone().map(SessionId::trusted),
            started_at: row[6].as_ref().map(|_| time(6)),
            eval_run: text(12) == "1",
            digest: text(13),
            facts: SpanFacts {
                span_id: SpanId::trusted(text(1)),
                parent_id: row[2].clone().map(SpanId::trusted),
                session: row[3].clone().map(SessionId::trusted),
                at: time(7),
                arrived_at: time(8),
                content: text(10) == "1",
                error: text(11) == "1",
                latency: Micros::new(number(9)),
            },
        }
    };
    rows.into_iter().map(read).collect()
}

async fn sessions(raw: &mut Raw, project: &ProjectId) -> BTreeMap<SessionId, SessionCounts> {
    let columns = [
        "session_id",
        "revision",
        "last_arrival_at",
        "turns",
        "rootless",
        "spans",
        "errors",
        "latency",
        "first_at",
        "recent_at",
        "last_turn_at",
        "rootless_at",
        "recent_hour",
    ];
    let rows = raw.texts(&columns, &format!("FROM sessions WHERE project_id = '{project}'")).await;
    let read = |row: Vec<Option<String>>| {
        let optional = |n: usize| row[n].as_ref().map(|text| text.parse::<i64>().unwrap());
        let number = |n: usize| optional(n).unwrap();
        assert_eq!(number(12), Timestamp::from_micros(number(9)).hour(), "the hour is that of recent_at");
        let counts = [number(3), number(4), number(5), number(6), number(7)];
        let session = SessionId::trusted(row[0].clone().unwrap());
        (session, (number(1), number(2), counts, number(8), number(9), optional(10), optional(11)))
    };
    rows.into_iter().map(read).collect()
}

/// Where every span must be, found from the links and tags of all spans at once.
fn check_places(spans: &[SpanRow]) {
    let parents =
        spans.iter().filter(|it| it.client).map(|it| (it.facts.span_id.clone(), it.facts.parent_id.clone())).collect();
    let tops = attach::traces(&parents);
    let mut by_trace: BTreeMap<&TraceId, Vec<&SpanRow>> = BTreeMap::new();
    for it in spans {
        if it.client {
            assert_eq!(it.trace, tops[&it.facts.span_id], "the trace of {}", it.facts.span_id);
        }
        by_trace.entry(&it.trace).or_default().push(it);
    }
    for rows in by_trace.values() {
        let links: Vec<Link<'_>> = rows
            .iter()
            .map(|it| Link {
                span_id: &it.facts.span_id,
                parent_id: it.facts.parent_id.as_ref(),
                tag: it.tag.as_ref(),
                started_at: it.started_at,
                eval_run: it.eval_run,
            })
            .collect();
        for (it, session) in rows.iter().zip(attach::sessions(&links)) {
            assert_eq!(it.facts.session.as_ref(), session, "the session of {} {}", it.trace, it.facts.span_id);
        }
    }
}

fn check_counts(spans: &[SpanRow], sessions: &BTreeMap<SessionId, SessionCounts>) {
    let mut by_trace: BTreeMap<&TraceId, Vec<SpanFacts>> = BTreeMap::new();
    for it in spans {
        by_trace.entry(&it.trace).or_default().push(it.facts.clone());
    }
    let mut shares: BTreeMap<SessionId, Vec<Share>> = BTreeMap::new();
    for (session, share) in by_trace.values().flat_map(|spans| share::of_trace(spans)) {
        shares.entry(session).or_default().push(share);
    }
    assert!(shares.keys().all(|session| sessions.contains_key(session)));
    for (session, (_, last_arrival, counts, first, recent, last_turn, rootless_at)) in sessions {
        let Some(shares) = shares.get(session) else {
            assert_eq!(*counts, [0; 5], "{session} has no spans left");
            continue;
        };
        let sum = |part: fn(&Share) -> i64| shares.iter().map(part).sum::<i64>();
        let counted = [
            sum(|it| it.turns),
            sum(|it| it.rootless),
            sum(|it| it.spans),
            sum(|it| it.errors),
            sum(|it| it.latency.get()),
        ];
        assert_eq!(*counts, counted, "turns, rootless, spans, errors, latency of {session}");
        assert_eq!(*first, shares.iter().map(|it| it.first_at.micros()).min().unwrap(), "first_at of {session}");
        assert_eq!(*recent, shares.iter().map(|it| it.recent_at.micros()).max().unwrap(), "recent_at of {session}");
        let latest_turn = shares.iter().filter_map(|it| it.last_turn_at).max().map(Timestamp::micros);
        assert_eq!(*last_turn, latest_turn, "last_turn_at of {session}");
        // A root that arrives does not lower this one: it may be late, by no more than the last arrival.
        if let Some(rootless) = shares.iter().filter_map(|it| it.rootless_at).max() {
            let stored = rootless_at.unwrap();
            assert!((rootless.micros()..=*last_arrival).contains(&stored), "rootless_at of {session}");
        }
    }
}

/// The counts and times of every session, checked against what is stored.
pub async fn check_counts_of(ctx: &Ctx) {
    let mut raw = ctx.raw().await;
    let spans = spans(&mut raw, &ctx.project).await;
    check_counts(&spans, &sessions(&mut raw, &ctx.project).await);
}

/// The counts, times, traces and sessions of everything stored, checked against the pure rules.
pub async fn check(ctx: &Ctx) {
    let mut raw = ctx.raw().await;
    let spans = spans(&mut raw, &ctx.project).await;
    check_places(&spans);
    check_counts(&spans, &sessions(&mut raw, &ctx.project).await);
}

fn random_span(dice: &SeededEntropy, now: i64) -> Draft {
    let pick = |from: &[&'static str]| from[usize::try_from(dice.below(from.len() as u64)).unwrap()];
    let draft = if dice.below(2) == 0 {
        let ids = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
        let draft = client(pick(&ids));
        if dice.below(3) == 0 { draft } else { draft.parent(pick(&["c0", "c1", "c2", "c3", "c4", "c5", "c6", "gone"])) }
    } else {
        let draft = otlp(pick(&["t0", "t1", "t2"]), pick(&["o0", "o1", "o2", "o3", "o4"]));
        if dice.below(3) == 0 { draft } else { draft.parent(pick(&["o0", "o1", "o2", "o3", "lost"])) }
    };
    let draft = if dice.below(3) == 0 { draft.session(pick(&["A", "B", "C"])) } else { draft };
    let draft = if dice.below(4) == 0 { draft.silent() } else { draft.output(pick(&["x", "y", "z"])) };
    let draft = if dice.below(5) == 0 { draft.error("it broke") } else { draft };
    let draft = if dice.below(25) == 0 { draft.eval_run() } else { draft };
    let start = i64::try_from(dice.below(20_000)).unwrap();
    if dice.below(4) == 0 { draft } else { draft.ran(start.min(now + 5), start + 3) }
}

type Held = BTreeSet<(TraceId, SpanId, String)>;

fn held(spans: &[SpanRow]) -> BTreeMap<SessionId, Held> {
    let mut by_session: BTreeMap<SessionId, Held> = BTreeMap::new();
    for it in spans {
        if let Some(session) = &it.facts.session {
            let span = (it.trace.clone(), it.facts.span_id.clone(), it.digest.clone());
            by_session.entry(session.clone()).or_default().insert(span);
        }
    }
    by_session
}

/// Thirty random batches, looked at after each: every session whose spans changed rose by one revision and arrived now, the
/// others did not, and all counts are those of a recount.
async fn random_batches_leave_what_the_rules_say(ctx: Ctx) {
    for seed in 0..3 {
        let tenant = ctx.tenant(&format!("seed {seed}")).await;
        let mut raw = tenant.raw().await;
        let dice = SeededEntropy::new(seed);
        let (mut before, mut standings) = (BTreeMap::new(), BTreeMap::new());
        for batch in 0..30 {
            let now = tenant.at_second(batch * 400);
            let size = 1 + dice.below(5);
            tenant.ingest((0..size).map(|_| random_span(&dice, batch * 400)).collect()).await;
            let spans = spans(&mut raw, &tenant.project).await;
            let sessions = sessions(&mut raw, &tenant.project).await;
            check_places(&spans);
            check_counts(&spans, &sessions);
            let after = held(&spans);
            for (session, row) in &sessions {
                let (revision, arrival) = standings.get(session).map_or((0, 0), |row: &SessionCounts| (row.0, row.1));
                let changed = before.get(session) != after.get(session);
                let expected = if changed { (revision + 1, now.micros()) } else { (revision, arrival) };
                assert_eq!((row.0, row.1), expected, "seed {seed}, batch {batch}, {session}");
            }
            (before, standings) = (after, sessions);
        }
        assert!(standings.len() == 3 && START < tenant.now());
    }
}

contract!(random_batches_leave_what_the_rules_say);
