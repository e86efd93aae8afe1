//! Merging: what arriving spans change, given what is stored. One pure decision for a batch of one project's spans.
//!
//! Over 400 lines: 200 are tests, properties over batches in every order, beside the one decision that they hold to.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::attach::{self, Link};
use super::ids::{SessionId, SpanId, TraceId};
use super::share::{self, Share, SpanFacts};
use super::span::{Origin, Span};
use super::time::{Micros, Timestamp};

/// What counts as a span's latency at most, 30 days: more is a wrong clock, and the sum of a session's must stay a number.
const LONGEST_LATENCY: Micros = Micros::seconds(30 * 86_400);

/// What is stored of a span, beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its light facts, the session it belongs to among them.
    pub facts: SpanFacts,
    /// The session id it carries itself.
    pub tag: Option<SessionId>,
    /// Where it came from.
    pub origin: Origin,
    /// When it says it began.
    pub started_at: Option<Timestamp>,
    /// When it says it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether it belongs to a dataset run.
    pub eval_run: bool,
    /// Whether its sender opted it out of live scoring at trace scope.
    pub unmonitored: bool,
    /// The digest of its content.
    pub digest: String,
}

/// A span that arrives, with what was computed of it beforehand.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The span.
    pub span: Span,
    /// Its body as stored.
    pub body: String,
    /// The digest of its content.
    pub digest: String,
}

/// What became of one arriving span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was not known before.
    New,
    /// It was known and its content wins.
    Changed,
    /// It was known with the same content.
    Same,
    /// It was known with content that wins over this.
    Older,
    /// Its session is quarantined: it was not stored.
    Dropped,
}

/// What a batch changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Merged {
    /// What became of each arriving span, in order.
    pub fates: Vec<Fate>,
    /// Rows to write whole, each with the index of the arriving span that holds its content.
    pub written: Vec<(usize, Known)>,
    /// Rows whose trace or session changed, each with the trace it is stored under so far. To be carried out before `written`.
    pub moved: Vec<(TraceId, Known)>,
    /// Every session whose content changed, with what to add to its counts.
    pub sessions: BTreeMap<SessionId, Change>,
    /// The traces that were written or changed.
    pub traces: BTreeSet<TraceId>,
    /// Those of them that may be judged by themselves, with what each comes to. Empty where nobody watches traces.
    pub settling: BTreeMap<TraceId, Share>,
}

/// What changes about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// To be added to turns.
    pub turns: i64,
    /// To be added to rootless turns.
    pub rootless: i64,
    /// To be added to spans.
    pub spans: i64,
    /// To be added to errors.
    pub errors: i64,
    /// To be added to latency.
    pub latency: Micros,
    /// The first place in time, if it lies before the stored one.
    pub first_at: Timestamp,
    /// The last place in time, if it lies after the stored one.
    pub recent_at: Timestamp,
    /// The last turn's place in time, if it lies after the stored one.
    pub last_turn_at: Option<Timestamp>,
    /// The last arrival in a turn without a root, if it lies after the stored one.
    pub rootless_at: Option<Timestamp>,
    /// Whether one of the first three times above got less: all four must be found again from all spans of the session. The
    /// fourth alone does not ask for that: every late root takes it away, and too late a time only waits longer.
    pub shrunk: bool,
}

/// Whether anything scores single traces of a project live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Nothing does: sessions alone.
    Sessions,
    /// Something does.
    Traces,
}

/// Decides what a batch of one project's spans changes. `known` holds every stored span of every trace concerned.
pub fn merge(known: Vec<Known>, incoming: &[Incoming], watch: Watch, now: Timestamp) -> Merged {
    let mut table = Table::of(known);
    let fates: Vec<Fate> = incoming.iter().enumerate().map(|(index, span)| table.take(index, span, now)).collect();
    table.join_client_traces();
    let fates = table.turn_away_twins(incoming, fates);
    let traces = table.touched_traces();
    table.attach(&traces);
    let settling = if watch == Watch::Traces { table.settling(&traces) } else { BTreeMap::new() };
    let mut merged = Merged { fates, sessions: table.changes(&traces), traces, settling, ..Merged::default() };
    for row in table.rows {
        if let Some(before) = row.before.filter(|before| {
            before.trace_id != row.after.trace_id
                || (row.source.is_none() && before.facts.session != row.after.facts.session)
        }) {
            merged.moved.push((before.trace_id, row.after.clone()));
        }
        if let Some(index) = row.source {
            merged.written.push((index, row.after));
        }
    }
    merged
}

/// One span before and after the batch.
struct Entry {
    before: Option<Known>,
    after: Known,
    /// The arriving span that holds its content, where its content is new.
    source: Option<usize>,
}

struct Table {
    rows: Vec<Entry>,
    /// By what identifies a span: its own id for the client's, trace and span id for the others.
    by_key: HashMap<(Option<TraceId>, SpanId), usize>,
}

fn key(origin: Origin, trace_id: &TraceId, span_id: &SpanId) -> (Option<TraceId>, SpanId) {
    ((origin != Origin::Client).then(|| trace_id.clone()), span_id.clone())
}

impl Table {
    fn of(known: Vec<Known>) -> Self {
        let by_key =
            known.iter().enumerate().map(|(n, row)| (key(row.origin, &row.trace_id, &row.facts.span_id), n)).collect();
        let rows = known.into_iter().map(|row| Entry { before: Some(row.clone()), after: row, source: None }).collect();
        Self { rows, by_key }
    }

    fn take(&mut self, index: usize, incoming: &Incoming, now: Timestamp) -> Fate {
        let span = &incoming.span;
        let key = key(span.origin, &span.trace_id, &span.span_id);
        let Some(&place) = self.by_key.get(&key) else {
            self.by_key.insert(key, self.rows.len());
            self.rows.push(Entry { before: None, after: fresh(incoming, now), source: Some(index) });
            return Fate::New;
        };
        let entry = &mut self.rows[place];
        if entry.after.digest == incoming.digest {
            return Fate::Same;
        }
        if (span.ended_at, &incoming.digest) < (entry.after.ended_at, &entry.after.digest) {
            return Fate::Older;
        }
        let mut row = fresh(incoming, now);
        // Without a start that holds, the first arrival keeps its place in time.
        if span.started_at.is_none_or(|start| start > now) {
            row.facts.at = entry.after.facts.at;
        }
        row.trace_id = entry.after.trace_id.clone();
        entry.after = row;
        entry.source = Some(index);
        Fate::Changed
    }

    /// Gives every span of the client the trace that parent links join it to.
    fn join_client_traces(&mut self) {
        let parents: BTreeMap<SpanId, Option<SpanId>> = self
            .rows
            .iter()
            .filter(|row| row.after.origin == Origin::Client)
            .map(|row| (row.after.facts.span_id.clone(), row.after.facts.parent_id.clone()))
            .collect();
        if parents.is_empty() {
            return;
        }
        let tops = attach::traces(&parents);
        for row in self.rows.iter_mut().filter(|row| row.after.origin == Origin::Client) {
            if let Some(top) = tops.get(&row.after.facts.span_id) {
                row.after.trace_id = top.clone();
            }
        }
    }

    /// A span of the client and one of another origin must not share a row, though their ids may be the same by malice. The
    /// one that is stored there stays, else the one that names its trace itself; the other is treated as older content.
    fn turn_away_twins(&mut self, incoming: &[Incoming], mut fates: Vec<Fate>) -> Vec<Fate> {
        let mut holders: HashMap<(&TraceId, &SpanId), usize> = HashMap::new();
        let mut turned_away: HashSet<usize> = HashSet::new();
        for (n, row) in self.rows.iter().enumerate() {
            let place = (&row.after.trace_id, &row.after.facts.span_id);
            if let Some(other) = holders.insert(place, n) {
                let claim = |n: usize| {
                    let row: &Entry = &self.rows[n];
                    let stays = row.before.as_ref().is_some_and(|before| before.trace_id == row.after.trace_id);
                    (stays, row.after.origin != Origin::Client)
                };
                let (loser, winner) = if claim(other) > claim(n) { (n, other) } else { (other, n) };
                turned_away.insert(loser);
                holders.insert(place, winner);
            }
        }
        if turned_away.is_empty() {
            return fates;
        }
        for (fate, span) in fates.iter_mut().zip(incoming.iter().map(|incoming| &incoming.span)) {
            let place = self.by_key.get(&key(span.origin, &span.trace_id, &span.span_id));
            if place.is_some_and(|place| turned_away.contains(place)) {
                *fate = Fate::Older;
            }
        }
        let mut n = 0..;
        self.rows.retain_mut(|row| {
            if !n.next().is_some_and(|n| turned_away.contains(&n)) {
                return true;
            }
            row.source = None;
            row.before.clone().map(|before| row.after = before).is_some()
        });
        self.by_key.clear();
        fates
    }

    /// The traces, old and new, of every row whose content or trace changed.
    fn touched_traces(&self) -> BTreeSet<TraceId> {
        let mut traces = BTreeSet::new();
        for row in &self.rows {
            let old = row.before.as_ref().map(|before| &before.trace_id);
            if row.source.is_some() || old.is_some_and(|old| *old != row.after.trace_id) {
                traces.insert(row.after.trace_id.clone());
                traces.extend(old.cloned());
            }
        }
        traces
    }

    fn attach(&mut self, traces: &BTreeSet<TraceId>) {
        for rows in self.by_trace(traces, |row| Some(&row.after)).values() {
            let links: Vec<Link<'_>> = rows
                .iter()
                .map(|&n| {
                    let row = &self.rows[n].after;
                    Link {
                        span_id: &row.facts.span_id,
                        parent_id: row.facts.parent_id.as_ref(),
                        tag: row.tag.as_ref(),
                        started_at: row.started_at,
                        eval_run: row.eval_run,
                    }
                })
                .collect();
            let sessions: Vec<Option<SessionId>> =
                attach::sessions(&links).into_iter().map(Option::<&_>::cloned).collect();
            for (&n, session) in rows.iter().zip(sessions) {
                self.rows[n].after.facts.session = session;
            }
        }
    }

    /// Those of `traces` that may be judged by themselves: the root is stored, something can be read, no span belongs to a
    /// dataset run, and none is opted out.
    fn settling(&self, traces: &BTreeSet<TraceId>) -> BTreeMap<TraceId, Share> {
        let mut settling = BTreeMap::new();
        for (trace, rows) in self.by_trace(traces, |row| Some(&row.after)) {
            let rows = || rows.iter().map(|&n| &self.rows[n].after);
            if rows().any(|row| row.eval_run || row.unmonitored) {
                continue;
            }
            let facts: Vec<&SpanFacts> = rows().map(|row| &row.facts).collect();
            let share = share::of_whole_trace(&facts);
            if share.turns > 0 {
                settling.insert(trace, share);
            }
        }
        settling
    }

    /// The rows of each of `traces`, by the side of the entry that `side` picks.
    fn by_trace(
        &self,
        traces: &BTreeSet<TraceId>,
        side: impl Fn(&Entry) -> Option<&Known>,
    ) -> BTreeMap<TraceId, Vec<usize>> {
        let mut by_trace: BTreeMap<TraceId, Vec<usize>> = BTreeMap::new();
        for (n, entry) in self.rows.iter().enumerate() {
            if let Some(row) = side(entry).filter(|row| traces.contains(&row.trace_id)) {
                by_trace.entry(row.trace_id.clone()).or_default().push(n);
            }
        }
        by_trace
    }

    /// What changes about each session: the shares of the touched traces after, less those before. A session is named where
    /// its spans or their content changed.
    fn changes(&self, traces: &BTreeSet<TraceId>) -> BTreeMap<SessionId, Change> {
        let mut changes: BTreeMap<SessionId, Change> = BTreeMap::new();
        let shares = |side: fn(&Entry) -> Option<&Known>| -> BTreeMap<TraceId, BTreeMap<SessionId, Share>> {
            let of = |rows: &Vec<usize>| {
                let facts: Vec<SpanFacts> =
                    rows.iter().filter_map(|&n| side(&self.rows[n]).map(|row| row.facts.clone())).collect();
                share::of_trace(&facts)
            };
            self.by_trace(traces, side).iter().map(|(trace, rows)| (trace.clone(), of(rows))).collect()
        };
        let before = shares(|entry| entry.before.as_ref());
        let after = shares(|entry| Some(&entry.after));
        let concerned = self.changed_sessions();
        let none = BTreeMap::new();
        for trace in traces {
            let (before, after) = (before.get(trace).unwrap_or(&none), after.get(trace).unwrap_or(&none));
            for session in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
                if concerned.contains(session) {
                    let change = changes.entry(session.clone()).or_insert(Change::NOTHING);
                    change.add(before.get(session), after.get(session));
                }
            }
        }
        changes
    }

    /// The sessions whose conversation this batch touches.
    fn changed_sessions(&self) -> BTreeSet<SessionId> {
        let mut changed = BTreeSet::new();
        for row in &self.rows {
            let old = row.before.as_ref().and_then(|before| before.facts.session.as_ref());
            let new = row.after.facts.session.as_ref();
            let trace_moved = row.before.as_ref().is_some_and(|before| before.trace_id != row.after.trace_id);
            if row.source.is_some() || old != new || trace_moved {
                changed.extend(old.cloned());
                changed.extend(new.cloned());
            }
        }
        changed
    }
}

impl Change {
    const NOTHING: Self = Self {
        turns: 0,
        rootless: 0,
        spans: 0,
        errors: 0,
        latency: Micros::ZERO,
        first_at: Timestamp::LATEST,
        recent_at: Timestamp::EARLIEST,
        last_turn_at: None,
        rootless_at: None,
        shrunk: false,
    };

    fn add(&mut self, before: Option<&Share>, after: Option<&Share>) {
        for (share, sign) in [(before, -1), (after, 1)] {
            if let Some(share) = share {
                self.turns += sign * share.turns;
                self.rootless += sign * share.rootless;
                self.spans += sign * share.spans;
                self.errors += sign * share.errors;
                self.latency = Micros::new(self.latency.get() + sign * share.latency.get());
            }
        }
        if let Some(after) = after {
            self.first_at = self.first_at.min(after.first_at);
            self.recent_at = self.recent_at.max(after.recent_at);
            self.last_turn_at = self.last_turn_at.max(after.last_turn_at);
            self.rootless_at = self.rootless_at.max(after.rootless_at);
        }
        self.shrunk |= match (before, after) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(before), Some(after)) => {
                after.first_at > before.first_at
                    || after.recent_at < before.recent_at
                    || after.last_turn_at < before.last_turn_at
            }
        };
    }
}

/// The row of a span that is not known yet.
fn fresh(incoming: &Incoming, now: Timestamp) -> Known {
    let span = &incoming.span;
    let latency = match (span.started_at, span.ended_at) {
        (Some(start), Some(end)) if end > start => (end - start).min(LONGEST_LATENCY),
        _ => Micros::ZERO,
    };
    Known {
        trace_id: span.trace_id.clone(),
        facts: SpanFacts {
            span_id: span.span_id.clone(),
            parent_id: span.parent_id.clone(),
            session: None,
            at: span.started_at.filter(|start| *start <= now).unwrap_or(now),
            arrived_at: now,
            content: span.has_content(),
            error: span.body.error.is_some(),
            latency,
        },
        tag: span.session_tag.clone(),
        origin: span.origin,
        started_at: span.started_at,
        ended_at: span.ended_at,
        eval_run: span.is_eval_run(),
        unmonitored: span.body.monitor == Some(false),
        digest: incoming.digest.clone(),
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
