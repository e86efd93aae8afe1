//! Ingest: spans into the store, attached to their sessions, revisions raised, alarms armed: one transaction a batch.
//!
//! Where a project has something that scores single traces live, a trace whose root is stored becomes a subject of its own: a
//! row of `sessions` under [`SessionId::of_trace`], armed for when it will have settled. Whether there is such a thing is read
//! in the same transaction: who turns it on and sends a trace then finds it scored.
//!
//! Lock order, always by sorted key: projects (only for spans of the existing client), traces, spans, sessions. The trace
//! rows make writers of one trace wait for each other: without them a child and its root in two transactions would not see
//! each other, and the child would stay without a session. Spans of the existing client carry no trace id, so which trace
//! they join is known only after reading; their writers wait for each other by project, and group commit keeps that short.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::{Result, Row, Tx, Write, args};
use super::sql::statements;
use super::{Store, actions, retrying};
use crate::domain::ids::{ProjectId, SessionId, SpanId, TraceId};
use crate::domain::merge::{self, Change, Fate, Incoming, Known, Merged, Watch};
use crate::domain::share::{self, Share, SpanFacts};
use crate::domain::span::{Origin, Span};
use crate::domain::time::{Micros, Timestamp};

statements! {
    LOCK_PROJECT = "SELECT project_id FROM projects WHERE project_id = $1 FOR NO KEY UPDATE";
    KNOWN_OF_TRACES = "SELECT span_id, parent_id, session_id, at, arrived_at, has_content, has_error, latency,
            trace_id, session_tag, origin, started_at, ended_at, eval_run, digest, unmonitored
        FROM spans WHERE project_id = $1 AND trace_id = ANY($2)";
    // As above, and the traces that spans of the existing client are in.
    KNOWN_OF_CLIENT = "SELECT span_id, parent_id, session_id, at, arrived_at, has_content, has_error, latency,
            trace_id, session_tag, origin, started_at, ended_at, eval_run, digest, unmonitored
        FROM spans WHERE project_id = $1 AND trace_id = ANY($2)
        UNION ALL SELECT span_id, parent_id, session_id, at, arrived_at, has_content, has_error, latency,
            trace_id, session_tag, origin, started_at, ended_at, eval_run, digest, unmonitored
        FROM spans WHERE project_id = $1 AND NOT (trace_id = ANY($2)) AND trace_id IN (
            SELECT trace_id FROM spans WHERE project_id = $1 AND span_id = ANY($3) AND origin = 'client')";
    FACTS_OF_SESSION = "SELECT span_id, parent_id, session_id, at, arrived_at, has_content, has_error, latency, trace_id
        FROM spans WHERE project_id = $1 AND session_id = $2";
    GATE = "SELECT '', EXISTS (SELECT 1 FROM scorer_groups WHERE project_id = $1 AND live_traces)
        UNION ALL SELECT session_id, false FROM quarantines
            WHERE project_id = $1 AND session_id = ANY($2) AND since IS NOT NULL";
    SET_TIMES = "UPDATE sessions SET first_at = $3, recent_at = $4, recent_hour = $5, last_turn_at = $6, rootless_at = $7
        WHERE project_id = $1 AND session_id = $2";
    @bulk {
        UPSERT_TRACES(1; trace_id Text) = "INSERT INTO traces (project_id, trace_id, writes)
            SELECT $1, trace_id, 1 FROM v WHERE true
            ON CONFLICT (project_id, trace_id) DO UPDATE SET writes = traces.writes + 1
            RETURNING trace_id, writes";
        MOVE_SPANS(1; old_trace Text, span_id Text, trace_id Text, session_id Text) = "UPDATE spans
            SET trace_id = v.trace_id, session_id = v.session_id FROM v
            WHERE spans.project_id = $1 AND spans.trace_id = v.old_trace AND spans.span_id = v.span_id";
        UPSERT_SPANS(1; trace_id Text, span_id Text, parent_id Text, session_id Text, session_tag Text, origin Text,
            kind Text, name Text, started_at Int, ended_at Int, at Int, arrived_at Int, latency Int, has_content Flag,
            has_error Flag, eval_run Flag, unmonitored Flag, digest Text, body Text) = "INSERT INTO spans (project_id, trace_id, span_id,
                parent_id, session_id, session_tag, origin, kind, name, started_at, ended_at, at, arrived_at, latency,
                has_content, has_error, eval_run, unmonitored, digest, body)
            SELECT $1, trace_id, span_id, parent_id, session_id, session_tag, origin, kind, name, started_at, ended_at, at,
                arrived_at, latency, has_content, has_error, eval_run, unmonitored, digest, body FROM v WHERE true
            ON CONFLICT (project_id, trace_id, span_id) DO UPDATE SET
                parent_id = excluded.parent_id, session_id = excluded.session_id, session_tag = excluded.session_tag,
                kind = excluded.kind, name = excluded.name, started_at = excluded.started_at, ended_at = excluded.ended_at,
                at = excluded.at, arrived_at = excluded.arrived_at, latency = excluded.latency,
                has_content = excluded.has_content, has_error = excluded.has_error, eval_run = excluded.eval_run,
                unmonitored = excluded.unmonitored, digest = excluded.digest, body = excluded.body";
        UPSERT_SESSIONS(3; session_id Text, turns Int, rootless Int, rootless_at Int, spans Int, errors Int, latency Int,
            first_at Int, recent_at Int, recent_hour Int, last_turn_at Int) = "INSERT INTO sessions (project_id, session_id,
                revision, last_arrival_at, check_at, turns, rootless, rootless_at, spans, errors, latency, first_at,
                recent_at, recent_hour, last_turn_at, began_at)
            SELECT $1, session_id, 1, CAST($2 AS BIGINT), CAST($3 AS BIGINT), turns, rootless, rootless_at, spans, errors, latency,
                first_at, recent_at, recent_hour, last_turn_at, CAST($2 AS BIGINT) FROM v WHERE true
            ON CONFLICT (project_id, session_id) DO UPDATE SET
                revision = sessions.revision + 1,
                last_arrival_at = GREATEST(sessions.last_arrival_at, excluded.last_arrival_at),
                check_at = CASE WHEN sessions.check_at <= excluded.check_at THEN sessions.check_at
                    ELSE excluded.check_at END,
                turns = sessions.turns + excluded.turns,
                rootless = sessions.rootless + excluded.rootless,
                rootless_at = GREATEST(COALESCE(sessions.rootless_at, excluded.rootless_at),
                    COALESCE(excluded.rootless_at, sessions.rootless_at)),
                spans = sessions.spans + excluded.spans,
                errors = sessions.errors + excluded.errors,
                latency = sessions.latency + excluded.latency,
                first_at = LEAST(sessions.first_at, excluded.first_at),
                recent_at = GREATEST(sessions.recent_at, excluded.recent_at),
                recent_hour = GREATEST(sessions.recent_hour, excluded.recent_hour),
                last_turn_at = GREATEST(COALESCE(sessions.last_turn_at, excluded.last_turn_at),
                    COALESCE(excluded.last_turn_at, sessions.last_turn_at))";
        UPSERT_TRACE_SUBJECTS(3; session_id Text, turns Int, spans Int, errors Int, latency Int, first_at Int, recent_at Int,
            last_turn_at Int) = "INSERT INTO sessions (project_id, session_id, revision, last_arrival_at, check_at, turns,
                rootless, rootless_at, spans, errors, latency, first_at, recent_at, recent_hour, last_turn_at)
            SELECT $1, session_id, 1, CAST($2 AS BIGINT), CAST($3 AS BIGINT), turns, 0, NULL, spans, errors, latency,
                first_at, recent_at, 0, last_turn_at FROM v WHERE true
            ON CONFLICT (project_id, session_id) DO UPDATE SET
                revision = sessions.revision + 1,
                last_arrival_at = GREATEST(sessions.last_arrival_at, excluded.last_arrival_at),
                check_at = CASE WHEN sessions.check_at <= excluded.check_at THEN sessions.check_at
                    ELSE excluded.check_at END,
                turns = excluded.turns, spans = excluded.spans, errors = excluded.errors, latency = excluded.latency,
                first_at = excluded.first_at, recent_at = excluded.recent_at, last_turn_at = excluded.last_turn_at";
    }
}

/// Spans that arrived together for one project.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The project, from the key alone.
    pub project: ProjectId,
    /// The spans.
    pub spans: Vec<Span>,
    /// How long after this arrival the planner should look at the sessions, see [`crate::domain::plan::margin`].
    pub margin: Micros,
    /// How long after its last new content a trace is judged by itself, where anything does that.
    pub trace_settle: Micros,
}

/// What became of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// What became of each span, in order.
    pub fates: Vec<Fate>,
}

impl Store {
    /// Stores arrivals in one transaction. When it answers, what arrived survives a crash.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError); nothing of any arrival is stored then.
    pub async fn ingest(&self, arrivals: &[Arrival], now: Timestamp) -> Result<Vec<Receipt>> {
        let prepared: BTreeMap<&ProjectId, Batch> = prepare(arrivals);
        let fates = retrying!(self.ingest_once(&prepared, now))?;
        let mut fates: BTreeMap<&ProjectId, std::vec::IntoIter<Fate>> =
            fates.into_iter().map(|(project, fates)| (project, fates.into_iter())).collect();
        Ok(arrivals
            .iter()
            .map(|arrival| {
                let of_project = fates.get_mut(&arrival.project);
                Receipt { fates: of_project.map(|fates| fates.take(arrival.spans.len()).collect()).unwrap_or_default() }
            })
            .collect())
    }

    async fn ingest_once<'a>(
        &self,
        batches: &BTreeMap<&'a ProjectId, Batch>,
        now: Timestamp,
    ) -> Result<Vec<(&'a ProjectId, Vec<Fate>)>> {
        let mut tx = self.db.write().await?;
        let mut fates = Vec::with_capacity(batches.len());
        let mut left_to_write = Vec::new();
        for (project, batch) in batches {
            tx.write_all(std::mem::take(&mut left_to_write)).await?;
            let (watch, held) = gate(&mut tx, project, batch).await?;
            let is_dropped = batch.dropped(&held);
            let left = (!held.is_empty()).then(|| batch.without(&is_dropped));
            let batch = left.as_ref().unwrap_or(batch);
            let known = known(&mut tx, project, batch).await?;
            let merged = merge::merge(known, &batch.spans, watch, now);
            left_to_write = write(&mut tx, project, batch, &merged, now).await?;
            let mut stored = merged.fates.into_iter();
            let fate = |dropped: bool| if dropped { Some(Fate::Dropped) } else { stored.next() };
            fates.push((*project, is_dropped.into_iter().filter_map(fate).collect()));
        }
        tx.write_and_commit(left_to_write).await?;
        Ok(fates)
    }
}

/// One project's spans of a batch, with what can be computed before the transaction.
struct Batch {
    spans: Vec<Incoming>,
    margin: Micros,
    trace_settle: Micros,
    /// The traces that spans name themselves, sorted.
    traces: BTreeSet<TraceId>,
    /// The ids, their own and their parents', of spans of the existing client.
    client_ids: BTreeSet<SpanId>,
}

impl Batch {
    const fn new(margin: Micros, trace_settle: Micros) -> Self {
        Self { spans: Vec::new(), margin, trace_settle, traces: BTreeSet::new(), client_ids: BTreeSet::new() }
    }

    fn add(&mut self, incoming: Incoming) {
        let span = &incoming.span;
        if span.origin == Origin::Client {
            self.client_ids.insert(span.span_id.clone());
            self.client_ids.extend(span.parent_id.clone());
        } else {
            self.traces.insert(span.trace_id.clone());
        }
        self.spans.push(incoming);
    }

    /// The session ids that spans carry themselves.
    fn tags(&self) -> BTreeSet<&SessionId> {
        self.spans.iter().filter_map(|incoming| incoming.span.session_tag.as_ref()).collect()
    }

    /// Which spans belong to the sessions held: those that carry their ids, and those without an id that arrive with them in
    /// one trace.
    fn dropped(&self, held: &BTreeSet<SessionId>) -> Vec<bool> {
        let is_held = |span: &Span| span.session_tag.as_ref().map(|tag| held.contains(tag));
        let (mut with_held, mut with_others) = (BTreeSet::new(), BTreeSet::new());
        for span in self.spans.iter().map(|incoming| &incoming.span) {
            match is_held(span) {
                Some(true) => with_held.insert(&span.trace_id),
                Some(false) => with_others.insert(&span.trace_id),
                None => false,
            };
        }
        let joins = |trace: &TraceId| with_held.contains(trace) && !with_others.contains(trace);
        self.spans.iter().map(|it| is_held(&it.span).unwrap_or_else(|| joins(&it.span.trace_id))).collect()
    }

    fn without(&self, is_dropped: &[bool]) -> Self {
        let mut left = Self::new(self.margin, self.trace_settle);
        for (incoming, _) in self.spans.iter().zip(is_dropped).filter(|(_, dropped)| !**dropped) {
            left.add(incoming.clone());
        }
        left
    }
}

fn prepare(arrivals: &[Arrival]) -> BTreeMap<&ProjectId, Batch> {
    let mut batches: BTreeMap<&ProjectId, Batch> = BTreeMap::new();
    for arrival in arrivals {
        let batch = batches.entry(&arrival.project).or_insert_with(|| Batch::new(arrival.margin, arrival.trace_settle));
        batch.margin = batch.margin.min(arrival.margin);
        for span in &arrival.spans {
            let body = serde_json::to_string(&span.body).unwrap_or_else(|_| "{}".to_owned());
            batch.add(Incoming { digest: span.digest(&body), body, span: span.clone() });
        }
    }
    batches
}

/// Takes the locks, and reads every stored span of every trace concerned.
async fn known(tx: &mut Tx, project: &ProjectId, batch: &Batch) -> Result<Vec<Known>> {
    let mut traces: BTreeSet<String> = BTreeSet::new();
    // A parent that is not known yet stands for a trace: its children wait there.
    let client_ids: Vec<String> = batch.client_ids.iter().map(ToString::to_string).collect();
    if !client_ids.is_empty() {
        tx.lock(&LOCK_PROJECT, args![project]).await?;
        traces.extend(client_ids.iter().cloned());
    }
    let rows = batch.traces.iter().map(|trace| args![trace]).collect();
    for row in tx.bulk(&UPSERT_TRACES, args![project], rows).await? {
        // The first write of a trace finds no spans: bulk loads of new traces read nothing back.
        if row.int(1)? > 1 {
            traces.insert(row.text(0)?);
        }
    }
    if traces.is_empty() {
        return Ok(Vec::new());
    }
    let traces: Vec<String> = traces.into_iter().collect();
    let rows = if client_ids.is_empty() {
        tx.fetch(&KNOWN_OF_TRACES, args![project, traces]).await?
    } else {
        tx.fetch(&KNOWN_OF_CLIENT, args![project, traces, client_ids]).await?
    };
    rows.iter().map(read_known).collect()
}

/// Whether anything scores the project's traces, and which of the sessions that the spans name are quarantined, both as of this
/// transaction.
async fn gate(tx: &mut Tx, project: &ProjectId, batch: &Batch) -> Result<(Watch, BTreeSet<SessionId>)> {
    let tags: Vec<String> = batch.tags().into_iter().map(ToString::to_string).collect();
    let (mut watch, mut held) = (Watch::Sessions, BTreeSet::new());
    for row in tx.fetch(&GATE, args![project, tags]).await? {
        match row.text(0)? {
            none if none.is_empty() => watch = if row.flag(1)? { Watch::Traces } else { Watch::Sessions },
            session => drop(held.insert(SessionId::trusted(session))),
        }
    }
    Ok((watch, held))
}

/// Writes what became of a batch; what may be written last is answered.
async fn write(tx: &mut Tx, project: &ProjectId, batch: &Batch, merged: &Merged, now: Timestamp) -> Result<Vec<Write>> {
    let new_traces = merged.traces.difference(&batch.traces).map(|trace| args![trace]).collect();
    let moved = merged.moved.iter().map(|(old_trace, row)| {
        args![old_trace, &row.facts.span_id, &row.trace_id, row.facts.session.clone().map(String::from)]
    });
    let written = merged.written.iter().map(|(index, row)| span_row(&batch.spans[*index], row));
    let settling = merged.settling.iter().map(|(trace, share)| trace_row(trace, share));
    let sessions = merged.sessions.iter().map(|(session, change)| session_row(session, change));
    let mut writes = vec![
        Write::new(&UPSERT_TRACES, args![project], new_traces),
        Write::new(&MOVE_SPANS, args![project], moved.collect()),
        Write::new(&UPSERT_SPANS, args![project], written.collect()),
    ];
    writes.extend(actions::follow(project, &batch.spans, merged));
    // Traces sort before all sessions.
    writes.push(Write::new(&UPSERT_TRACE_SUBJECTS, args![project, now, now + batch.trace_settle], settling.collect()));
    writes.push(Write::new(&UPSERT_SESSIONS, args![project, now, now + batch.margin], sessions.collect()));
    let shrunk: Vec<&SessionId> =
        merged.sessions.iter().filter(|(_, change)| change.shrunk).map(|(session, _)| session).collect();
    if shrunk.is_empty() {
        return Ok(writes);
    }
    tx.write_all(writes).await?;
    for session in shrunk {
        find_times_again(tx, project, session).await?;
    }
    Ok(Vec::new())
}

fn span_row(incoming: &Incoming, row: &Known) -> Vec<super::engine::Arg> {
    let span = &incoming.span;
    args![
        &row.trace_id,
        &row.facts.span_id,
        span.parent_id.clone().map(String::from),
        row.facts.session.clone().map(String::from),
        span.session_tag.clone().map(String::from),
        span.origin.as_str(),
        span.kind.as_str(),
        &span.name,
        row.started_at,
        row.ended_at,
        row.facts.at,
        row.facts.arrived_at,
        row.facts.latency.get(),
        row.facts.content,
        row.facts.error,
        row.eval_run,
        row.unmonitored,
        &row.digest,
        &incoming.body,
    ]
}

fn session_row(session: &SessionId, change: &Change) -> Vec<super::engine::Arg> {
    args![
        session,
        change.turns,
        change.rootless,
        change.rootless_at,
        change.spans,
        change.errors,
        change.latency.get(),
        change.first_at,
        change.recent_at,
        change.recent_at.hour(),
        change.last_turn_at,
    ]
}

/// Its counts are those of the whole trace, found again each time. Lists go by the hour: at hour 0 they never meet it.
fn trace_row(trace: &TraceId, share: &Share) -> Vec<super::engine::Arg> {
    args![
        &SessionId::of_trace(trace),
        share.turns,
        share.spans,
        share.errors,
        share.latency.get(),
        share.first_at,
        share.recent_at,
        share.last_turn_at,
    ]
}

/// Adding can't lower a maximum: where spans left a session or changed their times, its times are found from all its spans.
async fn find_times_again(tx: &mut Tx, project: &ProjectId, session: &SessionId) -> Result<()> {
    let mut by_trace: BTreeMap<String, Vec<SpanFacts>> = BTreeMap::new();
    for row in tx.fetch(&FACTS_OF_SESSION, args![project, session]).await? {
        by_trace.entry(row.text(8)?).or_default().push(read_facts(&row)?);
    }
    let shares: Vec<Share> = by_trace.values().filter_map(|spans| share::of_trace(spans).remove(session)).collect();
    let first_at = shares.iter().map(|share| share.first_at).min().unwrap_or(Timestamp::LATEST);
    let recent_at = shares.iter().map(|share| share.recent_at).max().unwrap_or(Timestamp::EARLIEST);
    let last_turn_at = shares.iter().filter_map(|share| share.last_turn_at).max();
    let rootless_at = shares.iter().filter_map(|share| share.rootless_at).max();
    let times = args![project, session, first_at, recent_at, recent_at.hour(), last_turn_at, rootless_at];
    tx.execute(&SET_TIMES, times).await?;
    Ok(())
}

fn read_facts(row: &Row) -> Result<SpanFacts> {
    Ok(SpanFacts {
        span_id: SpanId::trusted(row.text(0)?),
        parent_id: row.opt_text(1)?.map(SpanId::trusted),
        session: row.opt_text(2)?.map(SessionId::trusted),
        at: row.time(3)?,
        arrived_at: row.time(4)?,
        content: row.flag(5)?,
        error: row.flag(6)?,
        latency: Micros::new(row.int(7)?),
    })
}

fn read_known(row: &Row) -> Result<Known> {
    Ok(Known {
        facts: read_facts(row)?,
        trace_id: TraceId::trusted(row.text(8)?),
        tag: row.opt_text(9)?.map(SessionId::trusted),
        origin: Origin::from_name(&row.text(10)?),
        started_at: row.opt_time(11)?,
        ended_at: row.opt_time(12)?,
        eval_run: row.flag(13)?,
        digest: row.text(14)?,
        unmonitored: row.flag(15)?,
    })
}
