//! Pruning: what is kept too long goes, whole sessions at a time, and nothing else.

use std::collections::BTreeSet;

use super::orders::{self, After};
use super::script;
use super::world::{Done, Kind, World};
use crate::clock::Clock as _;
use crate::domain::time::{Micros, Timestamp};
use crate::store::{Pruned, Retention, Store, StoreError};

/// How long things are kept in a world where they are not kept for ever.
pub(super) const KEPT: Retention = Retention {
    spans: Some(Micros::seconds(9_000)),
    verdicts: Some(Micros::seconds(12_000)),
    ledger: Some(Micros::seconds(9_000)),
    outcomes: Some(Micros::seconds(15_000)),
    occurrences: Some(Micros::seconds(9_000)),
    resweeps: Some(Micros::seconds(9_000)),
    deleted_projects: None,
};

fn before(kept: Option<Micros>, now: Timestamp) -> Timestamp {
    now + Micros::new(-kept.map_or(0, Micros::get))
}

/// Something was pruned: it was too old, and it is all gone.
pub(super) async fn pruned(world: &mut World<'_>, ran: &[&str], now: Timestamp) {
    if ran.contains(&"FORGET_SPANS") {
        sessions_went(world, now).await;
        orders::look(world, After::Pruning).await;
    }
    if ran.contains(&"FORGET_STRAYS") {
        let before = before(world.retention.spans, now);
        for key in gone(world).await {
            let arrived = world.model.arrived[&key];
            assert!(!world.model.belongs(key) && arrived < before, "{key:?} of {arrived:?} was pruned");
            world.model.forget(key);
        }
    }
    if ran.contains(&"FORGET_VERDICTS") {
        verdicts_went(world, before(world.retention.verdicts, now)).await;
    }
    if ran.contains(&"FORGET_OUTCOMES") {
        let known = std::mem::take(&mut world.model.kept);
        super::checks::read_answers(world).await;
        let gone =
            known.keys().filter(|key| !world.model.kept.contains_key(*key)).map(|(question, _)| question.clone());
        world.model.forgotten.extend(gone.collect::<Vec<_>>());
        for (key, step) in known {
            world.model.kept.entry(key).and_modify(|kept| *kept = step);
        }
    }
    orders::forget(world).await;
}

/// The spans that the model has and the store has not.
async fn gone(world: &World<'_>) -> Vec<(u64, u64, bool)> {
    let rows = world.store.rows("SELECT trace_id, span_id FROM spans", 2).await;
    let read = |row: &Vec<String>| {
        let (session, turn) = row[0].split_once('-').expect("a trace of this world");
        (session.parse().expect("a session"), turn.parse().expect("a turn"), row[1] == "child")
    };
    let stored: BTreeSet<(u64, u64, bool)> = rows.iter().map(read).collect();
    let known: BTreeSet<(u64, u64, bool)> = world.model.arrived.keys().copied().collect();
    assert!(stored.is_subset(&known), "spans from nowhere: {:?}", stored.difference(&known));
    known.difference(&stored).copied().collect()
}

async fn sessions_went(world: &mut World<'_>, now: Timestamp) {
    let before = before(world.retention.spans, now);
    let gone = gone(world).await;
    let sessions: BTreeSet<u64> = gone.iter().map(|key| key.0).collect();
    for session in sessions {
        let name = super::model::name(session);
        let left = world
            .model
            .arrived
            .keys()
            .find(|key| key.0 == session && world.model.belongs(**key) && !gone.contains(key));
        assert!(left.is_none(), "{name} was pruned by half: {left:?} is left");
        let until = world.model.held_until.get(&name);
        assert!(until.is_none_or(|until| *until <= now), "{name} was pruned while a worker held it");
        let it = world.model.sessions.get_mut(&name).expect("a session");
        assert!(it.last_arrival < before.micros(), "{name} was pruned although it is not old");
        it.pruned = true;
        it.forget_turns();
        world.tally.pruned += 1;
        world.tell(|| format!("{name} was pruned"));
    }
    for key in gone {
        world.model.forget(key);
    }
}

async fn verdicts_went(world: &mut World<'_>, before: Timestamp) {
    let history = super::checks::read_history(world).await;
    let gone: Vec<_> = world.model.verdicts.keys().filter(|key| !history.contains_key(key)).cloned().collect();
    for key in &gone {
        let row = &world.model.verdicts[key];
        assert!(row.created_at < before, "{key:?} was pruned although it is not old");
        let is_last = world.model.last(&key.0, &key.1).is_some_and(|(last, _)| last == key);
        let has_spans =
            world.model.arrived.keys().any(|span| super::model::name(span.0) == key.0 && world.model.belongs(*span));
        assert!(!is_last || !has_spans, "{key:?} was pruned although it is the last and its session is there");
    }
    world.tally.verdicts_pruned += gone.len() as u64;
    world.model.verdicts.retain(|key, _| !gone.contains(key));
}

/// What is not too old is there; after a whole walk, nothing else is.
pub(super) async fn all_is_kept(world: &World<'_>, walked_at: Option<Timestamp>) {
    let gone = gone(world).await;
    assert!(gone.is_empty(), "lost: {gone:?}");
    let Some(now) = walked_at.filter(|_| world.retention != Retention::default()) else { return };
    let oldest = before(world.retention.spans, now);
    for (name, session) in &world.model.sessions {
        let is_stored =
            world.model.arrived.keys().any(|key| super::model::name(key.0) == *name && world.model.belongs(*key));
        assert!(!is_stored || session.last_arrival >= oldest.micros(), "{name} is still there although it is too old");
    }
    let oldest = before(world.retention.verdicts, now);
    for (key, row) in &world.model.verdicts {
        let is_last = world.model.last(&key.0, &key.1).is_some_and(|(last, _)| last == key);
        assert!(is_last || row.created_at >= oldest, "{key:?} is still there although it is too old");
    }
}

/// One walk over everything that may be too old.
async fn walk(store: Store, retention: Retention, batch: usize, now: Timestamp) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let (_, next): (Pruned, _) = store.prune_sessions(retention, after.as_ref(), batch, now).await?;
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    while store.prune_records(retention, batch, now).await? > 0 {}
    Ok(())
}

impl World<'_> {
    /// A worker prunes.
    pub(super) async fn prune(&mut self, process: usize) {
        if self.retention == Retention::default() {
            return;
        }
        let (store, now) = (self.processes[process].recorder.store.clone(), self.clock.now());
        let (retention, batch) = (self.retention, 1 + script::below(&self.dice, 3));
        let walk = async move { Done::Other(walk(store, retention, batch, now).await) };
        self.start(process, Kind::Prune(now), walk).await;
    }
}
