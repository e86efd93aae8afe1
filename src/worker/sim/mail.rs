//! What receivers are owed, in plain lists, how each of them answers, and what people change about them: whatever a verdict
//! means for a receiver must arrive, in order, under one id, and nothing else may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::model::RowKey;
use super::script;
use super::world::{Done, Kind, World};
use crate::clock::Clock as _;
use crate::domain::delivery::DeliveryPolicy;
use crate::domain::event::EventType;
use crate::domain::group::Severity;
use crate::domain::period::Day;
use crate::domain::receiver::{ReceiverKind, ReceiverSpec};
use crate::domain::retry::Backoff;
use crate::domain::time::{Micros, Timestamp};
use crate::store::HeldReceiver;
use crate::test_support::steps::{At, Order, Stop};
use crate::worker::DeliverSettings;

/// How deliveries are tried. No receiver is left alone for longer than a rest jumps ahead.
pub(super) const SETTINGS: DeliverSettings = DeliverSettings {
    policy: DeliveryPolicy {
        backoff: Backoff { first: Micros::seconds(10), longest: Micros::seconds(600) },
        max_attempts: 4,
        give_up_after: Micros::seconds(20_000),
    },
    max_concurrency: 2,
    lease: Micros::seconds(60),
    turn: Micros::seconds(3_600),
    keep: Micros::seconds(100_000),
    grace: Micros::ZERO,
};

/// The most receivers of a world.
const MOST: usize = 2;

/// Something that a receiver is owed.
#[derive(Debug, Clone)]
struct Letter {
    /// What it tells, in words that both sides find.
    tells: String,
    /// Of several that one transaction owes, none comes before another.
    batch: u64,
    owed_since: Timestamp,
    attempts: i64,
    /// The step at which it was delivered or given up.
    settled: Option<u64>,
    dead: bool,
    arrived: bool,
    /// What it came under, once it was tried.
    id: Option<String>,
    number: Option<i64>,
}

#[derive(Debug)]
pub(super) struct Receiver {
    spec: ReceiverSpec,
    letters: Vec<Letter>,
    /// What it was ever owed: the same day's news is owed once.
    told: BTreeSet<String>,
    failures: i64,
    /// It is not tried before.
    not_before: Timestamp,
    /// The greatest number it has seen.
    last_number: i64,
}

/// What there is to know of receivers.
#[derive(Debug, Default)]
pub(super) struct Post {
    receivers: BTreeMap<String, Receiver>,
    /// Sessions that receivers know to lie below the threshold of a group.
    below: BTreeSet<(String, String)>,
}

impl Post {
    /// Whether anybody is owed anything.
    pub(super) fn is_owed(&self) -> bool {
        self.receivers.values().any(|it| it.spec.enabled && it.letters.iter().any(|letter| letter.settled.is_none()))
    }
}

/// A receiver that is being served by a task.
#[derive(Debug)]
pub(super) struct Serving {
    receiver: String,
    spec: ReceiverSpec,
    /// The step at which it began.
    began: u64,
    /// How often it was tried after it had been switched off or deleted.
    late: u64,
    /// The delivery that was tried last, what came of it, and when.
    tried: Option<(String, Option<u16>, Timestamp)>,
}

/// What a task changes about receivers.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Spec,
    /// Whatever it did not take is owed once more, or this one delivery.
    Again(String, Option<String>),
}

fn spec(world: &World<'_>, number: usize) -> ReceiverSpec {
    let chosen = [None, None, Some(vec![EventType::BelowThreshold, EventType::DeliveryDead])];
    ReceiverSpec {
        name: format!("receiver {number}"),
        kind: ReceiverKind::Generic,
        url: format!("http://receiver.invalid/{number}"),
        routing_key: None,
        event_types: chosen[script::below(&world.dice, 3)].clone(),
        minimum_severity: [Severity::Low, Severity::Low, Severity::High][script::below(&world.dice, 3)],
        agent_id: None,
        is_channel: false,
        enabled: true,
    }
}

impl Receiver {
    /// Owes it something, where it wants that and was not told before.
    fn owe(&mut self, tells: &str, severity: Severity, batch: u64, now: Timestamp) {
        let kind = tells.split(' ').next().and_then(EventType::from_name).expect("a type comes first");
        let is_chosen = self.spec.event_types.as_ref().is_none_or(|chosen| chosen.contains(&kind));
        if self.spec.enabled
            && is_chosen
            && severity >= self.spec.minimum_severity
            && self.told.insert(tells.to_owned())
        {
            let tells = tells.to_owned();
            self.letters.push(Letter {
                tells,
                batch,
                owed_since: now,
                attempts: 0,
                settled: None,
                dead: false,
                arrived: false,
                id: None,
                number: None,
            });
        }
    }

    fn letter(&mut self, id: &str) -> &mut Letter {
        self.letters.iter_mut().find(|letter| letter.id.as_deref() == Some(id)).expect("a letter that was tried")
    }
}

/// A verdict was recorded that counts for the alert of its session.
pub(super) fn rated(world: &mut World<'_>, key: &RowKey, rating: f64, threshold: f64, now: Timestamp) {
    if !world.post.receivers.values().any(|it| it.spec.enabled) {
        return;
    }
    let pair = (key.0.clone(), key.1.clone());
    let kind = if rating < threshold {
        world.post.below.insert(pair).then_some("below_threshold")
    } else {
        world.post.below.remove(&pair).then_some("recovered")
    };
    if let Some(kind) = kind {
        let tells = format!("{kind} {} {} {}.{}", key.0, key.1, key.2, key.3);
        owe(world, &tells, Severity::Medium, None, now);
    }
}

/// The judge calls of a day were found to be used up: that is told once.
pub(super) async fn out_of_budget(world: &mut World<'_>) {
    const TOLD: &str = "SELECT receiver_id, json_extract(event, '$.data.day'), CAST(owed_since AS TEXT) FROM deliveries
        WHERE event_type = 'budget_exhausted'";
    for row in world.store.rows(TOLD, 3).await {
        let since = Timestamp::from_micros(row[2].parse().expect("a number"));
        let step = world.step;
        if let Some(receiver) = world.post.receivers.get_mut(&row[0]) {
            receiver.owe(&format!("budget_exhausted {}", row[1]), Severity::Medium, step, since);
        }
    }
}

fn owe(world: &mut World<'_>, tells: &str, severity: Severity, but: Option<&str>, now: Timestamp) {
    world.tell(|| format!("receivers are owed {tells}"));
    let step = world.step;
    for (_, receiver) in world.post.receivers.iter_mut().filter(|(id, _)| Some(id.as_str()) != but) {
        receiver.owe(tells, severity, step, now);
    }
}

/// What a delivery tells, as it is read by who gets it.
fn read(body: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, data) = (text(&body["type"]), &body["data"]);
    match kind.as_str() {
        "below_threshold" | "recovered" => {
            let (session, group) = (text(&body["session"]["id"]), text(&data["group"]["id"]));
            format!("{kind} {session} {group} {}.{}", data["revision"], data["round"])
        }
        "budget_exhausted" => format!("{kind} {}", text(&data["day"])),
        "delivery_dead" => {
            let day = text(&body["timestamp"]).chars().take(10).collect::<String>();
            format!("{kind} {} {day}", text(&data["receiver"]["id"]))
        }
        other => panic!("nobody expects {other}: {body}"),
    }
}

/// A delivery is on its way.
pub(super) fn posted(world: &mut World<'_>, stop: &Stop, id: &str, body: &Value) {
    let Some(Kind::Deliver(serving)) = world.tasks.get_mut(&stop.task).map(|task| &mut task.kind) else {
        panic!("only who serves a receiver sends");
    };
    let tells = read(body);
    let receiver = world.post.receivers.get_mut(&serving.receiver);
    if receiver.as_ref().is_none_or(|it| !it.spec.enabled) {
        // One attempt may have been about to begin.
        serving.late += 1;
        assert!(serving.late < 2, "{tells} is sent to a receiver that was switched off or deleted");
    }
    let Some(receiver) = receiver else { return };
    assert_eq!(body["id"].as_str(), Some(id));
    let number = body["number"].as_i64().expect("a number");
    let known = receiver.letters.iter().position(|letter| letter.id.as_deref() == Some(id));
    let place = known
        .or_else(|| receiver.letters.iter().position(|letter| letter.id.is_none() && letter.tells == tells))
        .unwrap_or_else(|| panic!("nobody is owed {tells}, or it came under another id: {:?}", receiver.letters));
    let batch = receiver.letters[place].batch;
    let early = receiver.letters.iter().find(|it| it.batch < batch && !it.arrived && !it.dead);
    assert!(early.is_none(), "{tells} overtakes {early:?}");
    let letter = &mut receiver.letters[place];
    assert_eq!(letter.tells, tells, "one id, one event");
    assert!(letter.settled.is_none_or(|settled| serving.began < settled), "{letter:?} is sent although it was settled");
    if letter.number.is_none() {
        assert!(number > receiver.last_number, "{tells}: {number} is not behind {}", receiver.last_number);
        receiver.last_number = number;
    }
    assert_eq!(*letter.number.get_or_insert(number), number, "the number of {tells} changed");
    letter.id = Some(id.to_owned());
}

/// How a receiver answers a delivery.
pub(super) fn answer(world: &World<'_>) -> Order {
    if world.trouble.receiver > 0 && world.dice.below(100) < world.trouble.receiver {
        return [Order::Answer(500), Order::Fail, Order::Fail, Order::Answer(400)][script::below(&world.dice, 4)]
            .clone();
    }
    Order::Answer(200)
}

/// A receiver answered, or hung up, maybe after having taken the delivery.
pub(super) fn answered(world: &mut World<'_>, stop: &Stop, order: &Order) {
    let At::Post { id, .. } = &stop.at else { return };
    let status = if let Order::Answer(status) = order { Some(*status) } else { None };
    let now = world.clock.now();
    let is_taken = status.map_or_else(|| world.dice.below(2) == 0, |status| status == 200);
    world.tally.replies_lost += u64::from(is_taken && status.is_none());
    if is_taken {
        arrived(world, stop.task, id);
    }
    if let Some(Kind::Deliver(serving)) = world.tasks.get_mut(&stop.task).map(|task| &mut task.kind) {
        serving.tried = Some((id.clone(), status, now));
    }
}

/// A delivery came to its receiver.
pub(super) fn arrived(world: &mut World<'_>, task: u64, id: &str) {
    let Some(Kind::Deliver(serving)) = world.tasks.get(&task).map(|task| &task.kind) else { return };
    let Some(receiver) = world.post.receivers.get_mut(&serving.receiver) else { return };
    let letter = receiver.letter(id);
    world.tally.sent_twice += u64::from(letter.arrived);
    world.tally.delivered += u64::from(!letter.arrived);
    letter.arrived = true;
}

/// What came of an attempt was written down.
pub(super) fn settled(world: &mut World<'_>, task: u64) {
    let step = world.step;
    let Some(Kind::Deliver(serving)) = world.tasks.get(&task).map(|task| &task.kind) else { return };
    let (id, status, at) = serving.tried.clone().expect("something was tried");
    let (of, spec) = (serving.receiver.clone(), serving.spec.clone());
    let Some(receiver) = world.post.receivers.get_mut(&of) else { return };
    let policy = SETTINGS.policy;
    let failures = receiver.failures + 1;
    // Spread by chance over the upper half of the wait.
    let wait = policy.backoff.after(u32::try_from(failures).unwrap_or(u32::MAX), 0.0);
    let letter = receiver.letter(&id);
    letter.attempts += 1;
    let is_over = letter.attempts >= policy.max_attempts || at - letter.owed_since >= policy.give_up_after;
    (letter.settled, letter.dead) = match status {
        Some(200) => (Some(step), false),
        Some(400) => (Some(step), true),
        _ => (is_over.then_some(step), is_over),
    };
    let (dead, tells) = (letter.dead, letter.tells.clone());
    (receiver.failures, receiver.not_before) = match status {
        Some(200 | 400) => (0, receiver.not_before),
        // What failed before an edit does not count.
        _ if receiver.spec != spec => (0, receiver.not_before),
        _ => (failures, at + wait),
    };
    world.tally.dead += u64::from(dead);
    world.tell(|| format!("{tells} to {of}: {status:?}{}", if dead { ", given up" } else { "" }));
    if dead && !tells.starts_with("delivery_dead") {
        owe(world, &format!("delivery_dead {of} {}", Day::of(at).text()), Severity::High, Some(&of), at);
    }
}

/// People changed receivers: they are read as they are now.
pub(super) async fn changed(world: &mut World<'_>, change: &Change, now: Timestamp) {
    let step = world.step;
    if let Change::Again(id, one) = change {
        let Some(receiver) = world.post.receivers.get_mut(id) else { return };
        receiver.not_before = now;
        let is_meant = |letter: &Letter| match one {
            Some(one) => letter.id.as_ref() == Some(one),
            None => letter.dead,
        };
        let (again, rest): (Vec<_>, Vec<_>) =
            receiver.letters.drain(..).partition(|it| it.settled.is_some() && is_meant(it));
        receiver.letters = rest;
        receiver.letters.extend(again.into_iter().map(|letter| Letter {
            batch: step,
            owed_since: now,
            attempts: 0,
            settled: None,
            dead: false,
            arrived: false,
            number: None,
            ..letter
        }));
        return;
    }
    let mut known = std::mem::take(&mut world.post.receivers);
    for mut row in world.store.rows("SELECT receiver_id, spec FROM receivers", 2).await {
        let spec: ReceiverSpec = serde_json::from_str(&row[1]).expect("a receiver");
        let id = row.remove(0);
        let receiver = match known.remove(&id) {
            Some(known) if known.spec == spec => known,
            Some(known) => Receiver { spec, failures: 0, not_before: now, ..known },
            None => Receiver {
                spec,
                letters: Vec::new(),
                told: BTreeSet::new(),
                failures: 0,
                not_before: now,
                last_number: 0,
            },
        };
        world.post.receivers.insert(id, receiver);
    }
}

/// Nothing that a receiver is owed is left behind.
pub(super) fn all_has_arrived(world: &World<'_>) {
    for (id, receiver) in world.post.receivers.iter().filter(|(_, it)| it.spec.enabled) {
        let left = receiver.letters.iter().find(|it| it.settled.is_none() || !(it.arrived || it.dead));
        assert!(left.is_none(), "{id} never got {left:?}");
    }
}

impl World<'_> {
    /// A worker looks for receivers that are owed something.
    pub(super) async fn deliver(&mut self, process: usize) {
        let (store, now) = (self.processes[process].recorder.store.clone(), self.clock.now());
        let limit = 1 + script::below(&self.dice, SETTINGS.max_concurrency);
        let claim = async move { Done::Receivers(store.claim_receivers(limit, now, now + SETTINGS.lease).await) };
        self.start(process, Kind::ClaimReceivers, claim).await;
    }

    /// It serves those that it found.
    pub(super) async fn serve(&mut self, process: usize, held: Vec<HeldReceiver>) {
        for receiver in held {
            if let Some(known) = self.post.receivers.get(&receiver.id) {
                let until = known.not_before;
                assert!(self.latest >= until, "{} is served although it is left alone until {until:?}", receiver.id);
            }
            let (of, spec) = (receiver.id.clone(), receiver.spec.clone());
            let serving = Serving { receiver: of, spec, began: self.step, late: 0, tried: None };
            let (deliverer, cancel) = {
                let process = &self.processes[process];
                (Arc::clone(&process.deliverer), process.cancel.clone())
            };
            let serve = async move { Done::Other(deliverer.serve(receiver, &cancel).await) };
            self.start(process, Kind::Deliver(serving), serve).await;
        }
    }

    /// Somebody changes something about receivers.
    pub(super) async fn change_receivers(&mut self) {
        let ids: Vec<String> = self.post.receivers.keys().cloned().collect();
        let (store, project, now) = (self.store.clone(), self.project.clone(), self.clock.now());
        if ids.len() < MOST && (ids.is_empty() || self.dice.below(3) == 0) {
            let spec = spec(self, script::below(&self.dice, 1000));
            self.tell(|| format!("a receiver {spec:?}"));
            let make = async move { Done::Other(store.create_receiver(&project, &spec, now).await.map(|_| ())) };
            self.start(0, Kind::Post(Change::Spec, now), make).await;
            return;
        }
        let Some(id) = ids.get(script::below(&self.dice, ids.len().max(1))).cloned() else { return };
        match self.dice.below(8) {
            0 => {
                self.tell(|| format!("receiver {id} is deleted"));
                let delete = async move { Done::Other(store.delete_receiver(&project, &id).await.map(|_| ())) };
                self.start(0, Kind::Post(Change::Spec, now), delete).await;
            }
            1..=3 => {
                self.tell(|| format!("receiver {id} is switched"));
                let switch = |spec: &ReceiverSpec| Ok::<_, ()>(ReceiverSpec { enabled: !spec.enabled, ..spec.clone() });
                let edit =
                    async move { Done::Other(store.edit_receiver(&project, &id, switch, now).await.map(|_| ())) };
                self.start(0, Kind::Post(Change::Spec, now), edit).await;
            }
            4 | 5 => {
                let again = Change::Again(id.clone(), None);
                self.tell(|| format!("receiver {id} is owed again what was given up"));
                let order = async move { Done::Other(store.redeliver_dead(&project, &id, now).await.map(|_| ())) };
                self.start(0, Kind::Post(again, now), order).await;
            }
            _ => {
                let sent: Vec<String> =
                    self.post.receivers[&id].letters.iter().filter_map(|letter| letter.id.clone()).collect();
                let Some(one) = sent.get(script::below(&self.dice, sent.len().max(1))).cloned() else { return };
                let again = Change::Again(id, Some(one.clone()));
                self.tell(|| format!("delivery {one} is owed again"));
                let order = async move { Done::Other(store.redeliver(&project, &one, now).await.map(|_| ())) };
                self.start(0, Kind::Post(again, now), order).await;
            }
        }
    }
}
