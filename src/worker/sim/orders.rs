//! Re-sweeps: what operators order, pause, resume and cancel, which sessions an order may choose, and how each of them may end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::{RowKey, unit};
use super::script;
use super::world::{Done, Kind, Seen, World, name_of};
use crate::clock::Clock as _;
use crate::domain::group::GroupSpec;
use crate::domain::ids::{GroupId, SessionId};
use crate::domain::resweep::{Act, Mode, Order};
use crate::domain::time::Timestamp;
use crate::store::SessionEnd;

/// A session that an order chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) order: String,
    pub(super) group: String,
    pub(super) round: i64,
    pub(super) fresh: bool,
    pub(super) force: bool,
    pub(super) signals: bool,
}

/// What somebody ordered.
#[derive(Debug)]
struct Ordered {
    group: String,
    order: Order,
    state: String,
    /// The group as it was.
    spec: Option<GroupSpec>,
    /// The sessions that it meant when it was given, and the last verdict that each had.
    meant: BTreeMap<String, Option<RowKey>>,
    /// What became of each session.
    items: BTreeMap<String, (Item, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Orders(BTreeMap<String, Ordered>);

impl Orders {
    /// The orders of a session that are open.
    pub(super) fn open(&self, session: &str) -> Vec<Item> {
        let of_session = self.0.values().filter_map(|ordered| ordered.items.get(session));
        of_session.filter(|(_, state)| state == "open").map(|(item, _)| item.clone()).collect()
    }

    fn ids(&self, states: &[&str]) -> Vec<String> {
        self.0.iter().filter(|(_, it)| states.contains(&it.state.as_str())).map(|(id, _)| id.clone()).collect()
    }
}

/// What the store was read after.
#[derive(Debug, Clone, Copy)]
pub(super) enum After<'a> {
    Ordering,
    Step,
    Act(&'a str),
    Recording(&'a [(SessionEnd, Arc<Seen>)]),
    Pruning,
}

/// Looks at how orders stand, and whether that may have come of what just happened.
pub(super) async fn look(world: &mut World<'_>, after: After<'_>) {
    const ORDERS: &str = "SELECT resweep_id, group_id, spec, state FROM resweeps";
    const ITEMS: &str = "SELECT resweep_id, session_id, CAST(round AS TEXT), state FROM resweep_items";
    for row in world.store.rows(ORDERS, 4).await {
        if let Some(known) = world.orders.0.get_mut(&row[0]) {
            known.state.clone_from(&row[3]);
            continue;
        }
        let order: Order = serde_json::from_str(&row[2]).expect("an order");
        // Since the clock was set back, something may have arrived after the end of the time that is meant.
        let is_within = |at: i64| order.to.is_none_or(|to| at <= to.micros());
        let sessions = world.model.sessions.iter().filter(|(_, it)| is_within(it.last_arrival)).map(|(name, _)| name);
        let meant = sessions.filter(|session| is_meant(world, &order, &row[1], session));
        let last = |session: &String| world.model.last(session, &row[1]).map(|(key, _)| key.clone());
        let meant = meant.map(|session| (session.clone(), last(session))).collect();
        let spec = world.model.groups.get(&row[1]).map(|group| group.spec.clone());
        let (group, state) = (row[1].clone(), row[3].clone());
        let ordered = Ordered { group, order, state, spec, meant, items: BTreeMap::new() };
        world.orders.0.insert(row[0].clone(), ordered);
    }
    for row in world.store.rows(ITEMS, 4).await {
        let (id, session, round, state) = (&row[0], &row[1], row[2].parse().expect("a round"), &row[3]);
        let ordered = &world.orders.0[id];
        match ordered.items.get(session) {
            Some((_, known)) if known == state => {}
            Some((item, known)) => {
                assert_eq!(known, "open", "{item:?} of {session} had ended");
                may_end(world, item, session, state, after);
                world.tally.reordered += u64::from(state == "judged");
                world
                    .orders
                    .0
                    .get_mut(id)
                    .expect("it is there")
                    .items
                    .get_mut(session)
                    .expect("it is there")
                    .1
                    .clone_from(state);
            }
            None => {
                assert!(matches!(after, After::Step), "{session} was chosen by no step");
                let Order { fresh, force, signals, .. } = ordered.order;
                let item = Item { order: id.clone(), group: ordered.group.clone(), round, fresh, force, signals };
                may_choose(world, ordered, session, &item);
                world.tell(|| format!("{session} is to be judged again: {item:?}"));
                let ordered = world.orders.0.get_mut(id).expect("it is there");
                ordered.items.insert(session.clone(), (item, state.clone()));
            }
        }
    }
}

/// Re-sweeps that ended long ago were pruned.
pub(super) async fn forget(world: &mut World<'_>) {
    let left = world.store.rows("SELECT resweep_id FROM resweeps", 1).await.concat();
    for (id, ordered) in &world.orders.0 {
        let is_over = ordered.state == "done" || ordered.state == "cancelled";
        assert!(is_over || left.contains(id), "{id} was pruned while it went on");
    }
    world.orders.0.retain(|id, _| left.contains(id));
}

/// Whether an order means a session as it is now.
fn is_meant(world: &World<'_>, order: &Order, group: &str, session: &str) -> bool {
    let (Some(of), Some(it)) = (world.model.groups.get(group), world.model.sessions.get(session)) else { return false };
    let Some(online) = of.spec.online.as_ref().filter(|_| of.is_live()) else { return false };
    let turns = i64::try_from(it.content().heads.len()).expect("few turns");
    let is_named = order.sessions.iter().any(|named| named.as_str() == session);
    if turns < online.min_turns || it.pruned || !(order.sessions.is_empty() || is_named) {
        return false;
    }
    let last = world.model.last(session, group);
    match order.mode {
        Mode::All => true,
        Mode::Uncovered => {
            last.is_none_or(|(key, _)| key.2 < it.revision()) && (is_named || unit(session, group) < online.sample_rate)
        }
        Mode::Incomplete => last.is_some_and(|(_, row)| row.incomplete),
        Mode::Stale => last.is_some_and(|(key, row)| {
            let rubrics = &world.model.made_with[key];
            row.group_version < of.version || rubrics.iter().any(|(id, rubric)| world.model.rubrics[id] != *rubric)
        }),
    }
}

/// A step chose a session.
fn may_choose(world: &World<'_>, ordered: &Ordered, session: &str, item: &Item) {
    let Ordered { group, order, items, .. } = ordered;
    assert!(is_meant(world, order, group, session), "{session} was chosen, which {order:?} does not mean");
    let chosen = i64::try_from(items.len()).expect("few sessions");
    assert!(order.limit.is_none_or(|limit| chosen < limit), "{order:?} chose more than its limit");
    let same = world.orders.open(session).into_iter().find(|it| it.group == *group && it.round == item.round);
    assert!(same.is_none(), "two orders of one round: {same:?} and {item:?}");
}

/// An order of a session came to an end.
fn may_end(world: &World<'_>, item: &Item, session: &str, state: &str, after: After<'_>) {
    let group = &world.model.groups[&item.group];
    match (state, after) {
        ("cancelled", After::Act(id)) => assert_eq!(id, item.order, "another order was cancelled"),
        ("judged", After::Recording(_)) => {
            let last = world.model.last(session, &item.group);
            assert!(last.is_some_and(|(key, _)| key.3 >= item.round), "{item:?} of {session} was judged by {last:?}");
        }
        ("withdrawn", After::Recording(ends)) => {
            let of_session = ends.iter().filter(|(end, _)| name_of(&end.claim) == session);
            let may = |seen: &Seen| !seen.groups.get(&item.group).is_some_and(|group| group.can_judge(&seen.content()));
            let is_due = of_session.map(|(_, seen)| seen).any(|seen| may(seen));
            assert!(is_due || !group.is_live(), "{item:?} of {session} was withdrawn although its group can judge it");
        }
        ("withdrawn", After::Pruning) => assert!(world.model.sessions[session].pruned, "{session} was not pruned"),
        _ => panic!("{item:?} of {session} is {state} after {after:?}"),
    }
}

/// Every order that was carried out chose all that it meant.
pub(super) fn all_is_done(world: &World<'_>) {
    for (id, ordered) in &world.orders.0 {
        let Ordered { group, order, state, spec, meant, items } = ordered;
        assert!(state == "done" || state == "cancelled", "{id} is {state}");
        let is_edited = world.model.groups.get(group).map(|group| &group.spec) != spec.as_ref();
        if state == "cancelled" || order.limit.is_some() || is_edited {
            continue;
        }
        for (session, before) in meant {
            let last = world.model.last(session, group).map(|(key, _)| key);
            let it = &world.model.sessions[session];
            // What reads the same as before may have been found covered meanwhile.
            let is_covered = last.is_some_and(|last| *it.content_at(last.2) == it.content());
            let has_changed = last != before.as_ref() || (order.mode == Mode::Uncovered && is_covered);
            let is_missing = !items.contains_key(session) && !world.model.sessions[session].pruned;
            assert!(!is_missing || (order.mode != Mode::All && has_changed), "{order:?} left out {session}");
        }
    }
}

/// What a claim finds: session, whether it waits, whether live scoring wants it, and whether it does now.
async fn wanted(world: &World<'_>, now: Timestamp) -> Vec<Vec<String>> {
    const WANTED: &str = "SELECT q.session_id, CAST(q.lease_token IS NULL AND q.visible_at <= ?1 AS TEXT),
            CAST(MAX(a.wanted_revision > a.covered_revision) AS TEXT),
            CAST(MAX(a.wanted_revision > a.covered_revision AND a.not_before <= ?1) AS TEXT)
        FROM queue q JOIN assessments a ON a.session_id = q.session_id GROUP BY q.session_id";
    world.store.rows(&WANTED.replace("?1", &now.micros().to_string()), 4).await
}

/// The sessions that wait for live scoring.
pub(super) async fn waiting(world: &World<'_>, now: Timestamp) -> BTreeSet<String> {
    let rows = wanted(world, now).await.into_iter().filter(|row| row[1] == "1" && row[3] == "1");
    rows.map(|mut row| row.remove(0)).collect()
}

/// Sessions that only re-sweeps want are claimed while none waits that live scoring wants. What began to wait since the claim
/// `waited` may have come too late for it.
pub(super) async fn claimed(world: &World<'_>, fresh: &BTreeSet<String>, waited: &BTreeSet<String>, now: Timestamp) {
    let has_blocks = !world.store.rows("SELECT group_id FROM blocks", 1).await.is_empty();
    if has_blocks || world.caps != crate::store::Caps::default() {
        return;
    }
    let rows = wanted(world, now).await;
    let ordered = rows.iter().find(|row| fresh.contains(&row[0]) && row[2] == "0");
    let waits = rows.iter().find(|row| row[1] == "1" && row[3] == "1" && waited.contains(&row[0]));
    assert!(ordered.is_none() || waits.is_none(), "{ordered:?} was claimed before {waits:?}");
}

impl World<'_> {
    /// Somebody orders a re-sweep.
    pub(super) async fn order_resweep(&mut self) {
        let dice = &self.dice;
        let groups: Vec<String> = self.model.groups.keys().cloned().collect();
        let Some(group) = groups.get(script::below(dice, groups.len().max(1))).cloned() else { return };
        let modes = [Mode::Uncovered, Mode::Stale, Mode::Incomplete, Mode::All, Mode::All];
        let one_in = |n| dice.below(n) == 0;
        let named = (0..script::SESSIONS).filter(|_| one_in(2)).map(|n| SessionId::trusted(super::model::name(n)));
        let order = Order {
            mode: modes[script::below(dice, modes.len())],
            from: None,
            to: one_in(2).then(|| self.clock.now()),
            sessions: if one_in(4) { named.collect() } else { Vec::new() },
            agent: None,
            fresh: one_in(4),
            force: one_in(4),
            signals: one_in(3),
            limit: one_in(4).then(|| 1 + i64::try_from(dice.below(2)).expect("a small number")),
            scorecard_id: None,
            scorecard: None,
            reason: "to see".to_owned(),
        };
        self.tell(|| format!("{group} is ordered {order:?}"));
        let (store, project, now) = (self.store.clone(), self.project.clone(), self.clock.now());
        let group = GroupId::trusted(group);
        let keep =
            async move { Done::Other(store.order_resweep(&project, &group, &order, None, now).await.map(|_| ())) };
        self.start(0, Kind::Order, keep).await;
    }

    /// A worker goes on with re-sweeps.
    pub(super) async fn step_resweeps(&mut self, process: usize) {
        let worker = Arc::clone(&self.processes[process].worker);
        let step = async move { Done::Other(worker.step_resweeps(None).await.map(|_| ())) };
        self.start(process, Kind::Step, step).await;
    }

    /// Somebody pauses, resumes or cancels a re-sweep.
    pub(super) async fn act(&mut self) {
        let ids = self.orders.ids(&["running", "paused"]);
        let Some(id) = ids.get(script::below(&self.dice, ids.len().max(1))).cloned() else { return };
        let act = [Act::Pause, Act::Resume, Act::Cancel, Act::Cancel][script::below(&self.dice, 4)];
        self.change_resweep(id, act).await;
    }

    async fn change_resweep(&mut self, id: String, act: Act) {
        let (store, project, now) = (self.store.clone(), self.project.clone(), self.clock.now());
        self.tell(|| format!("{act:?} {id}"));
        let of = id.clone();
        let change = async move { Done::Other(store.change_resweep(&project, &of, act, now).await.map(|_| ())) };
        self.start(0, Kind::Act(id), change).await;
    }

    /// What rests goes on, so that it comes to an end.
    pub(super) async fn resume_resweeps(&mut self) {
        for id in self.orders.ids(&["paused"]) {
            self.change_resweep(id, Act::Resume).await;
        }
    }
}
