//! What people change while sessions are judged: groups made, edited, disabled, enabled and deleted, rubrics rewritten.

use super::model;
use super::script;
use super::world::{Done, Kind, World};
use crate::clock::Clock as _;
use crate::domain::group::MemberKind;
use crate::domain::ids::GroupId;
use crate::domain::time::Timestamp;
use crate::store::{SavedGroup, ScorerDraft};

/// Whatever arrived at any time is considered again.
const EVER: Timestamp = Timestamp::EARLIEST;

/// The judges, the pattern and the first group, before anything else happens.
pub(super) async fn found(world: &mut World<'_>) {
    let pattern = serde_json::json!({"name": "badly", "includeTerms": ["badly"]});
    let pattern = crate::domain::pattern::PatternSpec::create(&pattern).expect("a pattern");
    let pattern = serde_json::to_string(&pattern).expect("JSON");
    let (store, project, now) = (world.bench.store.of_process(world.dice.clone()), &world.project, world.clock.now());
    let draft = |kind, name: String, spec| ScorerDraft { kind, name, spec };
    let mut ids = Vec::new();
    for judge in 0..script::JUDGES {
        let spec = script::rubric_text(script::rubric(judge, 1));
        ids.push(draft(MemberKind::Judge, format!("judge {judge}"), spec));
    }
    ids.push(draft(MemberKind::Pattern, "badly".to_owned(), pattern));
    let mut made = Vec::new();
    for draft in ids {
        made.push(world.outside(store.create_scorer(project, &draft, now)).await.expect("a scorer").id.to_string());
    }
    world.pattern = made.pop().expect("the pattern comes last");
    for (judge, id) in (0..).zip(&made) {
        world.model.rubrics.insert(id.clone(), script::rubric(judge, 1));
    }
    world.judges = made;
    for _ in 0..=world.dice.below(2) {
        make(world).await;
    }
    if world.dice.below(2) == 0 {
        world.change_receivers().await;
    }
}

async fn make(world: &mut World<'_>) {
    let spec = script::group(&world.dice, &world.judges, &world.pattern);
    let (store, project, now) = (world.store.clone(), world.project.clone(), world.clock.now());
    world.tell(|| format!("a group {:?} of {:?}", spec.online, spec.members));
    let make = async move { Done::Other(store.create_group(&project, &spec, now, EVER).await.map(|_| ())) };
    world.start(0, Kind::Edit, make).await;
}

/// One edit.
pub(super) async fn edit(world: &mut World<'_>) {
    let alive: Vec<String> =
        world.model.groups.iter().filter(|(_, group)| !group.deleted).map(|(id, _)| id.clone()).collect();
    match world.dice.below(12) {
        0 if alive.len() < 3 => make(world).await,
        1 => rewrite(world).await,
        2 if alive.len() > 1 => {
            let (store, project, now) = (world.store.clone(), world.project.clone(), world.clock.now());
            let id = GroupId::trusted(alive[0].clone());
            world.tell(|| format!("group {id} is deleted"));
            let delete = async move { Done::Other(store.delete_group(&project, &id, now).await.map(|_| ())) };
            world.start(0, Kind::Edit, delete).await;
        }
        _ => {
            if let Some(id) = alive.get(script::below(&world.dice, alive.len().max(1))) {
                change(world, id.clone()).await;
            }
        }
    }
}

async fn change(world: &mut World<'_>, id: String) {
    let (store, project, now) = (world.store.clone(), world.project.clone(), world.clock.now());
    let group = GroupId::trusted(id.clone());
    let Some(stored) = world.outside(store.group(&project, &group)).await.expect("a group") else { return };
    let SavedGroup { spec, .. } = &stored;
    let mut spec = spec.clone();
    let drawn = script::profile(&world.dice);
    if let Some(online) = &mut spec.online {
        match world.dice.below(7) {
            0 => online.idle_seconds = drawn.idle_seconds,
            1 => online.min_turns = drawn.min_turns,
            2 => online.sample_rate = drawn.sample_rate,
            // The very edge: the session whose unit this is stays out.
            3 => {
                let session = world.dice.below(script::SESSIONS);
                online.sample_rate = model::unit(&model::name(session), &id);
            }
            4 | 5 => online.enabled = !online.enabled,
            _ => spec.members = script::group(&world.dice, &world.judges, &world.pattern).members,
        }
    }
    world.tell(|| format!("group {id} becomes {:?} of {:?}", spec.online, spec.members));
    let change = async move { Done::Other(store.update_group(&project, &stored, &spec, now, EVER).await.map(|_| ())) };
    world.start(0, Kind::Edit, change).await;
}

/// A judge gets a new rubric: what it said under the old one stays, and is not asked for again.
async fn rewrite(world: &mut World<'_>) {
    let place = script::below(&world.dice, world.judges.len());
    let (judge, id) = (place as u64, world.judges[place].clone());
    let (store, project, now) = (world.store.clone(), world.project.clone(), world.clock.now());
    let stored = world.outside(store.scorer(&project, MemberKind::Judge, &id)).await.expect("a look").expect("a judge");
    let spec = script::rubric_text(script::rubric(judge, stored.version + 1));
    let draft = ScorerDraft { kind: MemberKind::Judge, name: stored.name.clone(), spec };
    world.tell(|| format!("judge {judge} is rewritten"));
    let rewrite = async move { Done::Other(store.update_scorer(&project, &stored, &draft, now).await.map(|_| ())) };
    world.start(0, Kind::Edit, rewrite).await;
}
