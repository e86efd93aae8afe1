//! What is checked at every step: each commit against the model, each question against the answers that are kept, and, when
//! everything has come to rest, that all that is owed was paid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::mail;
use super::model::{self, Group, Model, Row, RowKey, Share};
use super::orders::{self, After, Item, Orders};
use super::pruning;
use super::world::{GRACE, Kind, Seen, World, name_of};
use crate::clock::Clock as _;
use crate::domain::assessment::Ending;
use crate::domain::group::MemberKind;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::Verdict;
use crate::store::{Caps, Claimed, SessionEnd, Try};
use crate::test_support::steps::{At, Stop};

/// What a reader of these sessions sees at this moment.
pub(super) fn seen(model: &Model, orders: &Orders, claims: &[Claimed], at: Timestamp) -> BTreeMap<String, Arc<Seen>> {
    let seen = |claim: &Claimed| {
        let session = model.sessions.get(claim.session.as_str()).cloned();
        let (groups, rubrics) = (model.groups.clone(), model.rubrics.clone());
        let seen = Seen { session, groups, rubrics, orders: orders.open(claim.session.as_str()), at };
        (name_of(claim), Arc::new(seen))
    };
    claims.iter().map(seen).collect()
}

/// A task's transaction was committed.
pub(super) async fn committed(world: &mut World<'_>, task: u64, ran: &[&str]) {
    match world.tasks.get(&task).map(|task| &task.kind) {
        Some(Kind::Send(pieces, now)) => {
            let (pieces, now) = (pieces.clone(), *now);
            world.model.arrive(&pieces, now);
        }
        Some(Kind::Edit) => read_catalogue(world).await,
        Some(Kind::Post(change, now)) => {
            let (change, now) = (change.clone(), *now);
            mail::changed(world, &change, now).await;
        }
        Some(Kind::Prune(now)) => {
            let now = *now;
            pruning::pruned(world, ran, now).await;
        }
        Some(Kind::Order) => orders::look(world, After::Ordering).await,
        Some(Kind::Step) => orders::look(world, After::Step).await,
        Some(Kind::Act(id)) => {
            let id = id.clone();
            orders::look(world, After::Act(&id)).await;
        }
        Some(Kind::Deliver(_)) if ran.contains(&"SETTLE") => mail::settled(world, task),
        Some(Kind::Assess(..)) if ran.contains(&"WATCHING") => mail::out_of_budget(world).await,
        Some(Kind::Record(ends)) if ran.contains(&"FENCE") => {
            let ends = ends.clone();
            recorded(world, &ends).await;
        }
        _ => {}
    }
    if ran.contains(&"INSERT_ANSWER") {
        read_answers(world).await;
    }
    let leases = ["CLAIM", "TAKE_OVER", "RENEW", "REQUEUE", "DEQUEUE", "RELEASE"];
    if leases.iter().any(|statement| ran.contains(statement)) {
        const LEASES: &str = "SELECT session_id, lease_token, CAST(visible_at AS TEXT), lane FROM queue
            WHERE lease_token IS NOT NULL";
        let rows = world.store.rows(LEASES, 4).await;
        let until = |row: &Vec<String>| Timestamp::from_micros(row[2].parse().expect("a moment"));
        world.model.held_until = rows.iter().map(|row| (row[0].clone(), until(row))).collect();
        let leases: BTreeMap<String, String> = rows.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        let before = std::mem::replace(&mut world.model.leases, leases);
        if let Some(Kind::Claim(now, waited)) = world.tasks.get(&task).map(|task| &task.kind)
            && ran.contains(&"CLAIM")
        {
            let is_new = |(session, token): &(&String, &String)| before.get(*session) != Some(*token);
            let new: BTreeSet<String> =
                world.model.leases.iter().filter(is_new).map(|(session, _)| session.clone()).collect();
            orders::claimed(world, &new, waited, *now).await;
            let living = rows.iter().filter(|row| until(row) > *now).map(|row| (row[0].as_str(), row[3].as_str()));
            let is_full = within_caps(world, &new, &living.collect());
            world.tally.capped += u64::from(is_full);
        }
    }
}

/// A claim takes no more sessions than may be in work. Answers whether it took as many.
fn within_caps(world: &World<'_>, new: &BTreeSet<String>, living: &BTreeMap<&str, &str>) -> bool {
    let Caps { project, group } = world.caps;
    let mut is_full = false;
    for session in new {
        let lane = living[session.as_str()];
        let of_project = i64::try_from(living.len()).expect("few sessions");
        let of_lane = i64::try_from(living.values().filter(|it| **it == lane).count()).expect("few sessions");
        assert!(project.is_none_or(|cap| of_project <= cap), "{of_project} sessions are in work");
        assert!(group.is_none_or(|cap| of_lane <= cap), "{of_lane} sessions of {lane} are in work");
        is_full |= project == Some(of_project) || group == Some(of_lane);
    }
    is_full
}

async fn read_catalogue(world: &mut World<'_>) {
    let groups = "SELECT group_id, spec, deleted_at, CAST(version AS TEXT) FROM scorer_groups";
    world.model.groups = BTreeMap::new();
    for row in world.store.rows(groups, 4).await {
        let spec = serde_json::from_str(&row[1]).expect("a group");
        let version = row[3].parse().expect("a version");
        world.model.groups.insert(row[0].clone(), Group { spec, version, deleted: !row[2].is_empty() });
    }
    for row in world.store.rows("SELECT scorer_id, CAST(version AS TEXT) FROM scorers", 2).await {
        if let Some(judge) = world.judges.iter().position(|id| *id == row[0]) {
            let version = row[1].parse().expect("a version");
            world.model.rubrics.insert(row[0].clone(), super::script::rubric(judge as u64, version));
        }
    }
}

pub(super) async fn read_answers(world: &mut World<'_>) {
    // What failed for good is kept beside, and does not say what was asked.
    let answers = "SELECT answer, outcome_key FROM outcomes WHERE outcome_key NOT LIKE '% failed %'";
    for row in world.store.rows(answers, 2).await {
        let (_, question) = row[0].split_once("\"q").expect("answers say what was asked");
        let question = format!("q{}", question.split('"').next().unwrap_or_default());
        // What was asked afresh is kept for the order that wanted it.
        let order = row[1].split_once(' ').map(|(_, order)| order.to_owned());
        world.model.kept.entry((question, order)).or_insert(world.step);
    }
}

/// A judge is asked: nothing that is paid for already, and nothing that its process is asking at this moment.
pub(super) fn asked(world: &mut World<'_>, stop: &Stop, question: &str) {
    world.tally.asked_again += u64::from(!world.model.asked.insert(question.to_owned()));
    let task = &world.tasks[&stop.task];
    let Kind::Assess(claim, seen) = &task.kind else { panic!("only assessing asks") };
    // Only taking a slot of the budget lies between looking for an answer and asking.
    let is_known = |order: Option<String>| {
        let kept = world.model.kept.get(&(question.to_owned(), order));
        kept.is_some_and(|kept| !(world.has_budget && task.looked.is_some_and(|looked| looked < *kept)))
    };
    let afresh: Vec<&Item> = seen.orders.iter().filter(|item| item.fresh).collect();
    let may_ask_afresh = afresh.iter().any(|item| !is_known(Some(item.order.clone())));
    let is_known = is_known(None);
    assert!(!is_known || may_ask_afresh, "{question} is asked again although its answer is kept");
    world.tally.afresh += u64::from(is_known);
    let is_alone = afresh.is_empty();
    for other in world.sim.stops() {
        if let At::Ask { system, user } = &other.at
            && other.ticket != stop.ticket
            && super::script::question(system, user) == question
            && is_alone
            && matches!(&world.tasks[&other.task].kind, Kind::Assess(_, seen) if !seen.orders.iter().any(|it| it.fresh))
        {
            assert_ne!(world.tasks[&other.task].process, task.process, "{question} is being asked already");
        }
    }
    let words: Vec<String> = seen.content().words().iter().map(u64::to_string).collect();
    assert!(question.ends_with(&format!(":{}", words.join(","))), "{question} is not about {words:?}");
    let session = claim.session.as_str();
    let wanted = seen.groups.keys().any(|id| seen.is_wanted_by(id, session));
    assert!(wanted, "{question} is asked for {session}, which no group wants judged");
}

/// A session was assessed.
pub(super) fn assessed(world: &mut World<'_>, end: &SessionEnd, failed: bool) {
    for attempt in &end.tries {
        world.tally.withdrawn += u64::from(matches!(attempt.ending, Ending::Withdrawn { .. }));
        let unchanged = attempt.verdict.is_none() && matches!(attempt.ending, Ending::Covered { .. });
        world.tally.unchanged += u64::from(unchanged);
        if let Ending::Erred { error, .. } = &attempt.ending {
            assert!(failed, "a try erred although nothing was in its way: {error}");
        }
    }
}

/// Ends of work were recorded: what is new in history must be what the model says, and what was there must be as it was.
async fn recorded(world: &mut World<'_>, ends: &[(SessionEnd, Arc<Seen>)]) {
    let refused = world.store.rows("SELECT last_error FROM assessments WHERE last_error LIKE '%refused:%'", 1).await;
    assert!(refused.is_empty(), "{refused:?}");
    let history = read_history(world).await;
    for (key, row) in &world.model.verdicts {
        assert_eq!(history.get(key), Some(row), "history changed at {key:?}");
    }
    let new: Vec<(RowKey, Row)> =
        history.into_iter().filter(|(key, _)| !world.model.verdicts.contains_key(key)).collect();
    for (key, row) in &new {
        // Two ends of one session may be handed in at once; only that of the present holder counts.
        let holder = world.model.leases.get(&key.0);
        let ends = ends.iter().filter(|(end, _)| name_of(&end.claim) == key.0 && holder == Some(&end.claim.token));
        let (_, seen, verdict) = ends
            .flat_map(|(end, seen)| end.tries.iter().map(move |attempt| (end, seen, attempt.verdict.as_ref())))
            .find_map(|(end, seen, verdict)| verdict.filter(|it| is_at(it, key)).map(|verdict| (end, seen, verdict)))
            .unwrap_or_else(|| panic!("{key:?} was recorded by nobody who holds the session"));
        admissible(world, key, row, seen);
        rated(world, key, row, seen, verdict);
    }
    for (key, row) in new {
        alert(world, ends, &key, &row);
        let made_with = made_with(&holder(world, ends, &key.0).expect("somebody holds it").1, &key.1);
        world.model.made_with.insert(key.clone(), made_with);
        world.tell(|| format!("verdict {key:?}: {:?}", row.rating));
        world.tally.verdicts += 1;
        world.tally.incomplete += u64::from(row.incomplete);
        world.tally.interim += u64::from(row.interim);
        world.model.waiting.remove(&(key.0.clone(), key.1.clone()));
        world.model.verdicts.insert(key, row);
    }
    for (end, seen) in
        ends.iter().filter(|(end, _)| world.model.leases.get(&name_of(&end.claim)) == Some(&end.claim.token))
    {
        for Try { group, ending, .. } in &end.tries {
            if let Ending::Deferred { held: false, .. } = ending {
                let pair = (name_of(&end.claim), group.to_string());
                world.model.waiting.entry(pair).or_insert(seen.at);
            }
        }
    }
    orders::look(world, After::Recording(ends)).await;
}

/// The end that the present holder of a session hands in.
fn holder<'a>(
    world: &World<'_>,
    ends: &'a [(SessionEnd, Arc<Seen>)],
    session: &str,
) -> Option<&'a (SessionEnd, Arc<Seen>)> {
    let token = world.model.leases.get(session)?;
    ends.iter().find(|(end, _)| name_of(&end.claim) == session && end.claim.token == *token)
}

/// The rubrics of a group's judges.
fn made_with(seen: &Seen, group: &str) -> BTreeMap<String, u64> {
    let members = seen.groups[group].spec.members.iter();
    members.filter_map(|it| Some((it.ref_id.clone(), *seen.rubrics.get(&it.ref_id)?))).collect()
}

fn is_at(verdict: &Verdict, key: &RowKey) -> bool {
    verdict.group.as_str() == key.1 && (verdict.read.revision, verdict.read.round, 0) == (key.2, key.3, key.4)
}

/// It was to be judged: quiet, long enough, of a group that lives, and either kept by the sample and not what was judged before,
/// or ordered.
fn admissible(world: &World<'_>, key: &RowKey, row: &Row, seen: &Seen) {
    let session = seen.session.as_ref().expect("a session that was read");
    assert_eq!(session.revision(), key.2, "{key:?} is not the revision that was read");
    let group = &seen.groups[&key.1];
    assert!(seen.is_wanted_by(&key.1, &key.0), "{key:?} was not to be judged");
    let round = seen.orders_of(&key.1).map(|item| item.round).max();
    assert!(round.is_none_or(|round| round <= key.3), "{key:?} does not carry out round {round:?}");
    let is_forced = seen.orders_of(&key.1).any(|item| item.force);
    let idle = group.spec.online.as_ref().map_or(0, |online| online.idle_seconds);
    let is_quiet = session.is_quiet(idle, GRACE, seen.at);
    let judged = world.model.last(&key.0, &key.1).map(|(_, row)| row.created_at);
    let since = session.began.max(judged).expect("it began");
    let is_old = world.max_session_age > Micros::ZERO && seen.at - since >= world.max_session_age;
    assert!(is_quiet || is_forced || is_old, "{key:?} was judged while it was active");
    assert_eq!(row.interim, !is_quiet, "{key:?}");
    assert!(!world.model.sessions[&key.0].pruned, "{key:?} is of the rest of a conversation");
    assert!(world.model.groups[&key.1].is_live(), "{key:?} was recorded for a group that is off");
    if let Some((last, _)) = world.model.last(&key.0, &key.1) {
        assert!(last < key, "{key:?} was recorded after {last:?}");
        let session = &world.model.sessions[&key.0];
        let is_same = session.content_at(last.2) == session.content_at(key.2);
        assert!(round.is_some() || !is_same, "{key:?} says again what {last:?} said");
    }
}

/// It says what the model says.
fn rated(world: &World<'_>, key: &RowKey, row: &Row, seen: &Seen, verdict: &Verdict) {
    let spec = &seen.groups[&key.1].spec;
    let content = seen.content();
    assert_eq!(spec.members.len(), verdict.members.len(), "every member is on the verdict");
    let mut missing = false;
    let shares: Vec<Share> = spec
        .members
        .iter()
        .zip(&verdict.members)
        .map(|(member, report)| {
            let goodness = match member.kind {
                MemberKind::Pattern => Some(f64::from(u8::from(!content.heads.iter().any(|head| head.is_bad())))),
                _ => model::judged(seen.rubrics[&member.ref_id], &content.words()).map(|it| f64::from(it) / 10.0),
            };
            let answered = !report.outcome.is_transient();
            missing |= !answered;
            let unreadable = report.outcome.reason().is_some_and(|reason| reason.contains("could not be read"));
            let goodness = goodness.filter(|_| answered && !unreadable);
            let said = report.outcome.goodness().map(crate::domain::outcome::Goodness::get);
            assert_eq!(said, goodness, "{key:?}: {report:?}");
            (goodness, member.weight, member.gate)
        })
        .collect();
    assert_eq!(row.rating, model::rating(&shares), "{key:?} of {shares:?}");
    assert_eq!(row.incomplete, missing, "{key:?} of {shares:?}");
    if missing && !model::gate_failed(&shares) && world.panel_wait.get() > 0 {
        let since = world.model.waiting.get(&(key.0.clone(), key.1.clone()));
        let waited = since.is_some_and(|since| seen.at + world.set_back - *since >= world.panel_wait);
        assert!(waited, "{key:?} is incomplete, but its panel was waited for since {since:?} only");
    }
}

/// A rating below the threshold raises the signal, and receivers hear of each fall and recovery, unless the session has moved on.
fn alert(world: &mut World<'_>, ends: &[(SessionEnd, Arc<Seen>)], key: &RowKey, row: &Row) {
    let Some((_, seen)) = holder(world, ends, &key.0) else { return };
    let group = &seen.groups[&key.1];
    let Some(threshold) = group.spec.online.as_ref().and_then(|online| online.alert_threshold) else { return };
    // What only a re-sweep wanted raises a signal only where that was ordered.
    let session = &world.model.sessions[&key.0];
    let is_news = |last: &RowKey| session.content_at(last.2) != session.content_at(key.2);
    let last = world.model.verdicts.range(..key).rfind(|(it, _)| it.0 == key.0 && it.1 == key.1);
    let is_live = group.wants(&key.1, &key.0, &seen.content()) && last.is_none_or(|(last, _)| is_news(last));
    let is_asked_for = world.orders.open(&key.0).iter().any(|item| item.group == key.1 && item.signals);
    if !is_live && !is_asked_for {
        return;
    }
    // What nobody can read does not move a session on.
    let is_as_read = *session.content_at(key.2) == session.content();
    let Some(rating) = row.rating.filter(|_| is_as_read) else { return };
    if rating < threshold {
        *world.model.alerts.entry(key.1.clone()).or_default() += 1;
    }
    mail::rated(world, key, rating, threshold, row.created_at);
}

pub(super) async fn read_history(world: &World<'_>) -> BTreeMap<RowKey, Row> {
    const VERDICTS: &str = "SELECT session_id, group_id, CAST(revision AS TEXT), CAST(round AS TEXT), CAST(sequence AS TEXT),
            CAST(rating AS TEXT), CAST(incomplete AS TEXT), CAST(created_at AS TEXT), CAST(group_version AS TEXT), CAST(interim AS TEXT),
            concat_ws('|', verdict_id, mean, coverage, gated_by, justification, anchor_trace_id, last_turn_at,
                turns, spans, (SELECT group_concat(concat_ws(',', position, outcome, goodness, detail)) FROM
                verdict_members m WHERE m.session_id = v.session_id AND m.group_id = v.group_id
                    AND m.revision = v.revision AND m.round = v.round AND m.sequence = v.sequence))
        FROM verdicts v";
    let number = |text: &String| text.parse::<i64>().expect("a number");
    let read = |row: Vec<String>| {
        let key = (row[0].clone(), row[1].clone(), number(&row[2]), number(&row[3]), number(&row[4]));
        let rating = (!row[5].is_empty()).then(|| row[5].parse().expect("a rating"));
        let created_at = Timestamp::from_micros(number(&row[7]));
        let (incomplete, interim, group_version) = (row[6] == "1", row[9] == "1", number(&row[8]));
        (key, Row { rating, incomplete, interim, group_version, created_at, text: row[10].clone() })
    };
    world.store.rows(VERDICTS, 11).await.into_iter().map(read).collect()
}

/// Who judges a session that goes on and on has judged it lately.
pub(super) fn is_judged_meanwhile(world: &World<'_>, session: u64) {
    let name = model::name(session);
    let it = &world.model.sessions[&name];
    for (id, group) in &world.model.groups {
        // An alarm rings when the session would be quiet if it had ended.
        let idle = group.spec.online.as_ref().map_or(0, |online| online.idle_seconds);
        let latest = Micros::new(world.max_session_age.get() + Micros::seconds(idle + 100).get());
        let judged = world.model.last(&name, id).map(|(_, row)| row.created_at);
        let since = it.began.max(judged).expect("it began");
        let is_wanted = !it.pruned && group.wants(id, &name, &it.content());
        let for_long = world.clock.now() - since;
        assert!(!is_wanted || for_long <= latest, "{name} goes on and {id} has not judged it for {for_long:?}");
    }
}

/// Whether nothing is left to do, now or later.
pub(super) async fn is_at_rest(world: &World<'_>) -> bool {
    const LEFT: &str = "SELECT CAST((SELECT COUNT(*) FROM queue) + (SELECT COUNT(*) FROM reconsiderations)
        + (SELECT COUNT(*) FROM sessions WHERE check_at IS NOT NULL)
        + (SELECT COUNT(*) FROM receivers WHERE due_at IS NOT NULL)
        + (SELECT COUNT(*) FROM resweeps WHERE state = 'running') AS TEXT)";
    world.store.rows(LEFT, 1).await[0][0] == "0"
}

/// Every pair that is to be judged has a verdict on its present content; signals were raised as often as they should.
pub(super) async fn all_is_paid(world: &World<'_>) {
    for (name, session) in &world.model.sessions {
        for (id, group) in &world.model.groups {
            if session.pruned || !group.wants(id, name, &session.content()) {
                continue;
            }
            let last = world.model.last(name, id);
            let (key, _) = last.unwrap_or_else(|| panic!("{name} was never judged by {id}"));
            let present = session.content();
            assert_eq!(*session.content_at(key.2), present, "{name} has grown since {id} judged it last, at {key:?}");
        }
    }
    let alerts = "SELECT pattern_key, CAST(SUM(occurrence_count) AS TEXT) FROM signals GROUP BY pattern_key";
    let raised: BTreeMap<String, i64> = world
        .store
        .rows(alerts, 2)
        .await
        .into_iter()
        .map(|row| (row[0].trim_start_matches("scorer-group:").to_owned(), row[1].parse().expect("a number")))
        .collect();
    assert_eq!(raised, world.model.alerts, "signals");
    mail::all_has_arrived(world);
    orders::all_is_done(world);
    pruning::all_is_kept(world, None).await;
    let ledger = "SELECT CAST(COUNT(*) AS TEXT) FROM judge_calls WHERE kind <> 'live'";
    assert_eq!(world.store.rows(ledger, 1).await[0][0], "0");
}
