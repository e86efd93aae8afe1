//! Deliveries to receivers that fail, restart, answer late or lead where nobody is called.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afterword::domain::delivery::DeliveryPolicy;
use afterword::domain::event::Event;
use afterword::domain::receiver::ReceiverSpec;
use afterword::domain::time::Micros;
use afterword::entropy::{Entropy, OsEntropy, SeededEntropy};
use afterword::notify::{Notifier, NotifySettings};
use afterword::scorers::guard::{Lookup, Outgoing, OutgoingSettings};
use afterword::store::DeliveryFilter;
use afterword::worker::{DeliverSettings, Deliverer};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::store::ctx::{Ctx, live_with, root};
use crate::support::server::{deliver_settings, notifier};
use crate::support::webhook::{Answer, Taken, Webhook};
use crate::support::{PATIENCE, python};

const EVENTS: usize = 1_000;
/// How late an answer is that nobody waits for.
const NEVER: Duration = Duration::from_hours(10);

fn receiver(url: &str, change: &Value) -> ReceiverSpec {
    ReceiverSpec::create(&json!({"name": "hook", "url": url})).unwrap().patched(change).unwrap()
}

fn allowing() -> OutgoingSettings {
    OutgoingSettings { allow_private: true, ..OutgoingSettings::default() }
}

fn deliverer(ctx: &Ctx, notifier: Notifier) -> Arc<Deliverer> {
    // Half of all attempts fail: sixteen failures in a row are not rare enough among so many.
    let policy =
        DeliveryPolicy { max_attempts: 1_000, give_up_after: Micros::seconds(86_400_000), ..deliver_settings().policy };
    let settings = DeliverSettings { policy, ..deliver_settings() };
    Deliverer::new(ctx.store.clone(), ctx.clock.clone(), Arc::new(SeededEntropy::new(5)), notifier, settings)
}

/// Delivers whatever may be tried now, then moves the clock to when the next delivery may be. Answers whether any is owed.
async fn deliver(ctx: &Ctx, deliverer: &Arc<Deliverer>) -> bool {
    deliverer.drain(&CancellationToken::new()).await.unwrap();
    let due = ctx.store.receivers(&ctx.project).await.unwrap().into_iter().filter_map(|row| row.due_at).min();
    if let Some(due) = due {
        ctx.clock.advance(Micros::new((due - ctx.now()).get().max(0)));
    }
    due.is_some()
}

/// Sessions that fall below the threshold of a group, judged in batches.
async fn fall(ctx: &Ctx, sessions: std::ops::Range<usize>) {
    let names: Vec<String> = sessions.map(|n| format!("s{n:04}")).collect();
    for some in names.chunks(100) {
        let turns = some.iter().flat_map(|name| (0..2).map(move |n| root(name, &format!("{name}-{n}"))));
        ctx.ingest(turns.collect()).await;
        ctx.clock.advance(Micros::seconds(120));
        assert_eq!(ctx.sweep(2.0).await, some.len());
    }
}

async fn a_thousand_events(ctx: Ctx) {
    let mut seed = [0; 8];
    OsEntropy.fill(&mut seed);
    let seed = u64::from_le_bytes(seed);
    println!("seed {seed}");
    let dice = SeededEntropy::new(seed);
    let mut webhook = Webhook::start(move |_| match dice.below(40) {
        0 => Answer::Late(NEVER),
        1..20 => Answer::Status(503),
        20 => Answer::Redirect("http://127.0.0.1:9/".to_owned()),
        _ => Answer::Status(204),
    });
    ctx.group(&live_with("g", "j", |_| ())).await;
    let id = ctx.store.create_receiver(&ctx.project, &receiver(&webhook.url(), &json!({})), ctx.now()).await.unwrap();
    let impatient =
        NotifySettings { public_url: String::new(), timeout: Duration::from_millis(100), redact: Vec::new() };
    afterword::scorers::install_tls();
    let deliverer = deliverer(&ctx, Notifier::new(Outgoing::new(allowing()).unwrap(), impatient));

    fall(&ctx, 0..EVENTS / 2).await;
    let first = ctx.store.signing_secrets(&ctx.project, ctx.now()).await.unwrap().present;
    while deliver(&ctx, &deliverer).await {}
    let before_rotation = webhook.count();
    let until = ctx.now() + Micros::seconds(86_400_000);
    let second = ctx.store.rotate_signing_secret(&ctx.project, ctx.now(), until).await.unwrap().present;
    fall(&ctx, EVENTS / 2..EVENTS).await;
    let mut restarts = 0;
    while deliver(&ctx, &deliverer).await {
        if webhook.count() > before_rotation + 150 * (restarts + 1) {
            webhook.stop();
            assert!(deliver(&ctx, &deliverer).await);
            webhook.resume();
            restarts += 1;
        }
    }
    assert!(restarts > 3, "{restarts} restarts");

    let taken = webhook.taken();
    let numbers: Vec<i64> = taken.iter().map(|one| one.body()["number"].as_i64().unwrap()).collect();
    assert!(numbers.is_sorted(), "nothing overtakes what was not taken: {numbers:?}");
    let accepted: Vec<&Taken> = taken.iter().filter(|one| one.accepted).collect();
    let mut arrived: Vec<Value> = accepted.iter().map(|one| one.body()["session"]["id"].clone()).collect();
    arrived.dedup();
    let expected: Vec<Value> = (0..EVENTS).map(|n| json!(format!("s{n:04}"))).collect();
    assert_eq!(arrived, expected, "each arrives, in the order in which it was recorded");
    let mut ids: Vec<&str> = accepted.iter().map(|one| one.id.as_str()).collect();
    ids.dedup();
    assert_eq!(ids.len(), EVENTS, "each has an id that stays the same");
    assert!(taken.len() > EVENTS * 3 / 2, "hardly anything failed: {} attempts", taken.len());

    let (first, second) = (first.expose_secret(), second.expose_secret());
    let lines = taken.iter().enumerate().map(|(n, one)| {
        let (secrets, strangers) =
            if n < before_rotation { (vec![first], vec![second]) } else { (vec![first, second], Vec::new()) };
        // What arrives is as old as it says: the tests' clock is not the machine's.
        let arrived: i64 = one.timestamp.parse().unwrap();
        json!({"id": one.id, "timestamp": one.timestamp, "signature": one.signature, "body": one.text, "arrived": arrived,
               "secrets": secrets, "strangers": strangers})
    });
    verify(&lines.collect::<Vec<_>>());
    let filter = DeliveryFilter { receiver: id, limit: EVENTS, state: "delivered".to_owned(), after: None };
    assert_eq!(ctx.store.deliveries(&ctx.project, &filter).await.unwrap().len(), EVENTS);
}

/// Has the Standard Webhooks library verify deliveries.
fn verify(lines: &[Value]) {
    let Some(interpreter) = python::interpreter(&["standardwebhooks==1.0.0"]) else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client/verify.py");
    let mut child = Command::new(interpreter)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for line in lines {
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), format!("{} verified", lines.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_events_arrive_in_order_at_a_receiver_that_fails_half_the_time_on_sqlite() {
    a_thousand_events(Ctx::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_events_arrive_in_order_at_a_receiver_that_fails_half_the_time_on_postgresql() {
    if let Some(ctx) = Ctx::postgres().await {
        a_thousand_events(ctx).await;
    }
}

/// What became of one event at a receiver of this address behind a guard.
async fn told(url: &str, rules: OutgoingSettings) -> Option<String> {
    let ctx = Ctx::sqlite().await;
    ctx.store.create_receiver(&ctx.project, &receiver(url, &json!({})), ctx.now()).await.unwrap();
    ctx.store.announce(&ctx.project, &Event::test("x"), ctx.now()).await.unwrap();
    let _ = deliverer(&ctx, notifier(rules)).drain(&CancellationToken::new()).await;
    let row = ctx.store.deliveries(&ctx.project, &DeliveryFilter { limit: 9, ..DeliveryFilter::default() }).await;
    let row = row.unwrap().remove(0);
    assert_eq!(row.attempts, 1);
    row.last_error
}

#[tokio::test]
async fn a_receiver_on_a_metadata_address_is_never_called() {
    for url in ["http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://[::ffff:169.254.169.254]/"] {
        let why = told(url, allowing()).await.unwrap();
        assert!(why.contains("never called"), "{url}: {why}");
    }
}

#[tokio::test]
async fn a_receiver_on_a_private_address_is_called_only_where_that_is_allowed() {
    let webhook = Webhook::start(|_| Answer::Status(200));
    for url in [webhook.url(), "http://10.0.0.1/".to_owned(), "http://[::1]/".to_owned()] {
        let why = told(&url, OutgoingSettings::default()).await.unwrap();
        assert!(why.contains("private network"), "{url}: {why}");
    }
    assert_eq!(webhook.count(), 0);
    assert_eq!(told(&webhook.url(), allowing()).await, None);
    assert_eq!(webhook.count(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Webhook::start(|_| Answer::Status(200));
    let to = target.url();
    let webhook = Webhook::start(move |_| Answer::Redirect(to.clone()));
    let why = told(&webhook.url(), allowing()).await.unwrap();
    assert!(why.contains("redirects (302)"), "{why}");
    assert_eq!((webhook.count(), target.count()), (1, 0));
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_at_its_second_look_up_is_refused_there() {
    let webhook = Webhook::start(|_| Answer::Status(200));
    let ctx = Ctx::sqlite().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let here = webhook.address().ip();
    let lookup: Lookup = Arc::new(move |_| {
        let first = counter.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move { Ok(vec![if first { here } else { [169, 254, 169, 254].into() }]) })
    });
    let url = format!("http://hook.example:{}/hook", webhook.address().port());
    ctx.store.create_receiver(&ctx.project, &receiver(&url, &json!({})), ctx.now()).await.unwrap();
    let deliverer = deliverer(&ctx, notifier(OutgoingSettings { lookup, ..allowing() }));
    for n in 0..2 {
        let event = Event { dedupe_key: format!("k{n}"), ..Event::test("x") };
        ctx.store.announce(&ctx.project, &event, ctx.now()).await.unwrap();
        ctx.clock.advance(Micros::seconds(1));
        deliverer.drain(&CancellationToken::new()).await.unwrap();
    }
    let rows = ctx.store.deliveries(&ctx.project, &DeliveryFilter { limit: 9, ..DeliveryFilter::default() }).await;
    let rows = rows.unwrap();
    assert_eq!((rows[1].state.as_str(), rows[0].state.as_str()), ("delivered", "pending"));
    let why = rows[0].last_error.as_deref().unwrap();
    assert!(why.contains("169.254.169.254"), "{why}");
    assert_eq!((webhook.count(), asked.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_receiver_holds_up_no_other_and_its_last_delivery_is_told() {
    let ctx = Ctx::sqlite().await;
    let (dead, alive) = (Webhook::start(|_| Answer::Status(500)), Webhook::start(|_| Answer::Status(200)));
    let slow = Webhook::start(|_| Answer::Late(NEVER));
    for (name, url) in [("dead", dead.url()), ("alive", alive.url()), ("slow", slow.url())] {
        let spec = receiver(&url, &json!({"name": name}));
        ctx.store.create_receiver(&ctx.project, &spec, ctx.now()).await.unwrap();
    }
    // The clock is moved faster than attempts are made: what ends them is their number, never their age.
    let give_up_after = Micros::seconds(86_400_000);
    let policy = DeliveryPolicy { max_attempts: 6, give_up_after, ..deliver_settings().policy };
    // Whoever is slow is held all along, however far the clock is moved, and not waited for at the end.
    let (lease, grace) = (Micros::seconds(1_000_000_000), Micros::ZERO);
    let settings = DeliverSettings { policy, lease, grace, ..deliver_settings() };
    let entropy = Arc::new(SeededEntropy::new(5));
    let it = Deliverer::new(ctx.store.clone(), ctx.clock.clone(), entropy, notifier(allowing()), settings);
    let stop = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(&it).run(stop.clone()));
    for n in 0..3 {
        let event = Event { dedupe_key: format!("k{n}"), ..Event::test("x") };
        ctx.store.announce(&ctx.project, &event, ctx.now()).await.unwrap();
        // The clock stands still: what the others wait for never comes, and this one gets all the same.
        until("the one alive is told", || alive.count() == n + 1).await;
    }
    until("all were tried", || dead.count() > 0 && slow.count() > 0).await;
    until("the one alive hears of what was given up", || {
        ctx.clock.advance(Micros::seconds(600));
        alive.taken().iter().any(|one| one.body()["type"] == "delivery_dead")
    })
    .await;
    stop.cancel();
    running.await.unwrap();
    let obituary = alive.taken().into_iter().find(|one| one.body()["type"] == "delivery_dead").unwrap().body();
    assert_eq!(obituary["data"]["receiver"]["name"], "dead", "{obituary}");
    assert_eq!(obituary["data"]["delivery"]["attempts"], 6);
}

/// A context with one receiver that is owed one event, after one attempt.
async fn tried_once(answer: Answer) -> (Ctx, Webhook) {
    let webhook = Webhook::start(move |_| answer.clone());
    let ctx = Ctx::sqlite().await;
    ctx.store.create_receiver(&ctx.project, &receiver(&webhook.url(), &json!({})), ctx.now()).await.unwrap();
    ctx.store.announce(&ctx.project, &Event::test("x"), ctx.now()).await.unwrap();
    deliverer(&ctx, notifier(allowing())).drain(&CancellationToken::new()).await.unwrap();
    (ctx, webhook)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_takes_a_delivery_may_say_as_much_as_it_likes() {
    for answer in [Answer::Verbose(1024 * 1024), Answer::Endless] {
        let (ctx, webhook) = tried_once(answer.clone()).await;
        let row = ctx.store.deliveries(&ctx.project, &DeliveryFilter { limit: 9, ..DeliveryFilter::default() }).await;
        let row = row.unwrap().remove(0);
        assert_eq!((row.state.as_str(), row.last_status, row.last_error), ("delivered", Some(200), None), "{answer:?}");
        assert_eq!(webhook.count(), 1);
    }
}

#[tokio::test]
async fn a_receiver_says_in_either_form_when_to_try_again_and_never_for_longer_than_the_longest_wait() {
    for (asked, wait) in [
        ("600", 600..601),
        ("Thu, 01 Jan 2026 00:10:00 GMT", 600..601),
        ("Fri, 01 Jan 2027 00:00:00 GMT", 3_600..3_601),
        ("99999999999999999999", 3_600..3_601),
        // What makes no sense, or is over, leaves the wait as it would be.
        ("Wed, 31 Dec 2025 23:00:00 GMT", 1..11),
        ("-5", 1..11),
        ("soon", 1..11),
    ] {
        let (ctx, _webhook) = tried_once(Answer::Busy(asked)).await;
        let row = ctx.store.receivers(&ctx.project).await.unwrap().remove(0);
        let waits = (row.due_at.unwrap() - ctx.now()).get() / 1_000_000;
        assert!(wait.contains(&waits), "{asked}: {waits} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_takes_its_time_has_its_turn_and_lets_the_others_have_theirs() {
    let ctx = Ctx::sqlite().await;
    let (slow, quick) =
        (Webhook::start(|_| Answer::Late(Duration::from_millis(100))), Webhook::start(|_| Answer::Status(200)));
    ctx.store.create_receiver(&ctx.project, &receiver(&slow.url(), &json!({})), ctx.now()).await.unwrap();
    let announce = async |n: usize| {
        let event = Event { dedupe_key: format!("k{n}"), ..Event::test("x") };
        ctx.store.announce(&ctx.project, &event, ctx.now()).await.unwrap();
        ctx.clock.advance(Micros::seconds(1));
    };
    for n in 0..15 {
        announce(n).await;
    }
    ctx.store.create_receiver(&ctx.project, &receiver(&quick.url(), &json!({})), ctx.now()).await.unwrap();
    announce(15).await;
    let settings = DeliverSettings { max_concurrency: 1, turn: Micros::millis(300), ..deliver_settings() };
    let entropy = Arc::new(SeededEntropy::new(5));
    let it = Deliverer::new(ctx.store.clone(), ctx.clock.clone(), entropy, notifier(allowing()), settings);
    let stop = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(&it).run(stop.clone()));
    until("the quick one is told", || quick.count() == 1).await;
    assert!((1..15).contains(&slow.count()), "{} were sent before", slow.count());
    until("the slow one is told everything", || slow.count() == 16).await;
    stop.cancel();
    running.await.unwrap();
    let numbers: Vec<i64> = slow.taken().iter().map(|one| one.body()["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=16).collect::<Vec<_>>(), "in order, each once");
}

/// Waits for a fact.
async fn until(what: &str, fact: impl Fn() -> bool) {
    let waiting = async {
        while !fact() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "in vain: {what}");
}
