//! What late workers must not do: take away what was wanted again since, or record beside the present holder. The simulation
//! found each of these.

use afterword::domain::assessment::Ending;
use afterword::store::{Gathering, Recorded, SavedGroup, SessionEnd};

use super::contract;
use super::ctx::{Ctx, ending, judged, live, root};

contract! {
    a_withdrawal_of_a_group_that_was_enabled_again_meanwhile_leaves_the_session_due,
    a_withdrawal_leaves_what_was_raised_since,
    a_withdrawal_of_what_nobody_wants_stands,
    of_two_ends_of_one_session_only_that_of_the_present_lease_is_recorded,
}

async fn due(ctx: &Ctx) -> SavedGroup {
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    group
}

/// What a worker hands in that finds, in what it gathered, that the group does not want the session.
fn withdrawn(gathering: &Gathering) -> SessionEnd {
    let session = &gathering.sessions[0];
    let (group, assessment) = &session.assessments[0];
    let version = gathering.groups.values().find(|it| it.id == *group).map(|it| it.version);
    let how = Ending::Withdrawn { wanted: assessment.wanted, version };
    SessionEnd { claim: session.claim.clone(), tries: vec![ending(group, how)] }
}

async fn a_withdrawal_of_a_group_that_was_enabled_again_meanwhile_leaves_the_session_due(ctx: Ctx) {
    let group = due(&ctx).await;
    let off = ctx.edit(&group, |online| online.enabled = false).await;
    let gathering = ctx.gather().await;
    ctx.edit(&off, |online| online.enabled = true).await;
    ctx.reconsider().await;
    // Planning finds it wanted already, and disarms its alarm.
    assert_eq!(ctx.plan().await, (1, 1));
    ctx.record(&[withdrawn(&gathering)]).await;
    assert_eq!(ctx.alarm("s").await.1, None);
    assert_eq!(ctx.sweep(8.0).await, 1, "or nobody would ever judge it");
}

async fn a_withdrawal_leaves_what_was_raised_since(ctx: Ctx) {
    due(&ctx).await;
    let gathering = ctx.gather().await;
    ctx.ingest(vec![root("s", "more")]).await;
    ctx.at_second(240);
    assert_eq!(ctx.plan().await, (1, 1));
    ctx.record(&[withdrawn(&gathering)]).await;
    assert_eq!(ctx.sweep(8.0).await, 1);
}

async fn a_withdrawal_of_what_nobody_wants_stands(ctx: Ctx) {
    let group = due(&ctx).await;
    ctx.edit(&group, |online| online.enabled = false).await;
    let gathering = ctx.gather().await;
    ctx.record(&[withdrawn(&gathering)]).await;
    assert_eq!((ctx.count("queue").await, ctx.count("verdicts").await), (0, 0));
    let assessment = ctx.assessment("s", &group.id).await.unwrap();
    assert_eq!(assessment.wanted, assessment.covered);
}

async fn of_two_ends_of_one_session_only_that_of_the_present_lease_is_recorded(ctx: Ctx) {
    due(&ctx).await;
    let first = ctx.gather().await;
    ctx.at_second(120 + 301);
    let second = ctx.gather().await;
    let end = |gathering: &Gathering, rating| judged(gathering, &gathering.sessions[0], ctx.now(), rating);
    let ends = [end(&first, 1.0), end(&second, 9.0), end(&first, 1.0)];
    let kept = Recorded::Kept { rated: 1, unrated: 0 };
    assert_eq!(ctx.record(&ends).await, [Recorded::LeaseLost, kept, Recorded::LeaseLost]);
    let session = afterword::domain::ids::SessionId::trusted("s");
    let verdicts = ctx.store.verdicts_of_session(&ctx.project, &session).await.unwrap();
    assert_eq!(verdicts.iter().map(|it| it.rating).collect::<Vec<_>>(), [Some(9.0)]);
}
