//! Tenancy: two projects with the same ids, at the same time, never meet.

use afterword::domain::ids::SessionId;
use afterword::domain::merge::Fate;
use afterword::domain::time::Timestamp;
use afterword::store::SignalFilter;

use super::contract;
use super::ctx::{Ctx, client, judged, live, otlp, root};
use super::recount;

/// A judge and a group under the very ids of another project.
async fn same_ids(from: &Ctx, to: &Ctx) {
    let mut raw = from.raw().await;
    for (table, columns) in [
        ("scorers", "scorer_id, kind, name, version, created_at, updated_at, deleted_at"),
        ("scorer_versions", "scorer_id, version, spec, created_at"),
        ("scorer_groups", "group_id, name, version, live, spec, created_at, updated_at, deleted_at"),
    ] {
        raw.run(&format!(
            "INSERT INTO {table} (project_id, {columns}) SELECT '{}', {columns} FROM {table} WHERE project_id = '{}'",
            to.project, from.project
        ))
        .await;
    }
}

async fn the_same_ids_in_two_projects_never_meet(ctx: Ctx) {
    let tenants = [ctx.tenant("a").await, ctx.tenant("b").await];
    let judge = tenants[0].judge("Polite").await;
    let mut spec = live("g");
    spec.members[0].ref_id = judge.id.to_string();
    let group = tenants[0].group(&spec).await;
    same_ids(&tenants[0], &tenants[1]).await;

    // One transaction for both: the same spans but for one, which the second has in another session.
    let family = || {
        vec![
            root("s", "t1"),
            otlp("t1", "a").parent("root"),
            client("c").session("s"),
            client("d").parent("c"),
            root("s", "t2"),
        ]
    };
    let mut theirs = family();
    theirs.push(otlp("t2", "late").parent("root").session("other"));
    let arrivals = [tenants[0].arrival(family()), tenants[1].arrival(theirs)];
    let receipts = ctx.store.ingest(&arrivals, ctx.now()).await.unwrap();
    assert!(receipts.iter().flat_map(|receipt| &receipt.fates).all(|fate| *fate == Fate::New));
    tenants[1].ingest(vec![root("s", "t3")]).await;
    for tenant in &tenants {
        recount::check(tenant).await;
    }
    let revisions = [tenants[0].alarm("s").await.0, tenants[1].alarm("s").await.0];
    assert_eq!(revisions, [1, 2]);

    // Both are planned, claimed, gathered and recorded in one go.
    ctx.at_second(120);
    assert_eq!(ctx.plan().await, (3, 2));
    let gathering = ctx.gather().await;
    assert_eq!(gathering.sessions.len(), 2);
    let mut ends = Vec::new();
    for (tenant, (rating, spans)) in tenants.iter().zip([(2.0, 5), (1.0, 6)]) {
        let session = gathering.sessions.iter().find(|it| it.claim.project == tenant.project).unwrap();
        assert_eq!((session.spans.len(), session.assessments.len()), (spans, 1));
        assert!(gathering.groups.contains_key(&(tenant.project.clone(), group.id.clone())));
        assert!(gathering.scorers.contains_key(&(tenant.project.clone(), judge.id.to_string())));
        ends.push(judged(&gathering, session, ctx.now(), rating));
    }
    ctx.record(&ends).await;
    for (tenant, (rating, revision)) in tenants.iter().zip([(2.0, 1), (1.0, 2)]) {
        let (store, project) = (&tenant.store, &tenant.project);
        let verdicts = store.verdicts_of_session(project, &SessionId::trusted("s")).await.unwrap();
        let read: Vec<_> = verdicts.iter().map(|it| (it.rating, it.read.revision)).collect();
        assert_eq!(read, [(Some(rating), revision)]);
        let rows = store.recent_sessions(project, Timestamp::EARLIEST, 10).await.unwrap();
        let row = rows.iter().find(|row| row.session.as_str() == "s").unwrap();
        assert_eq!((row.revision, row.verdicts[0].rating), (revision, rating));
        let ratings = store.ratings(project, &group.id, Timestamp::EARLIEST, Timestamp::LATEST).await.unwrap();
        assert_eq!(ratings.iter().map(|it| it.rating).collect::<Vec<_>>(), [Some(rating)]);
        let filter = SignalFilter { limit: 10, ..SignalFilter::default() };
        let signals = store.signals(project, &filter).await.unwrap();
        assert_eq!((signals.len(), signals[0].occurrence_count), (1, 1));
        assert_eq!(signals[0].occurrences[0].rating, Some(rating));
    }
    // What one project deletes, the other keeps.
    ctx.store.delete_group(&tenants[0].project, &group.id, ctx.now()).await.unwrap();
    let left = [0, 1].map(|n| ctx.store.live_groups(&tenants[n].project));
    let [gone, kept] = left;
    assert_eq!((gone.await.unwrap().len(), kept.await.unwrap().len()), (0, 1));
    let signal = ctx.store.signals(&tenants[0].project, &SignalFilter { limit: 1, ..SignalFilter::default() }).await;
    let id = signal.unwrap().remove(0).id;
    assert_eq!(ctx.store.signal(&tenants[1].project, id.as_str()).await.unwrap(), None);
    assert_eq!(ctx.store.span(&ctx.project, "c").await.unwrap(), None);
}

/// A member that names a scorer of another project names nothing.
async fn a_scorer_of_another_project_is_not_lent(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    let judge = other.judge("Theirs").await;
    let mut spec = live("g");
    spec.members[0].ref_id = judge.id.to_string();
    for tenant in [&ctx, &other] {
        tenant.group(&spec).await;
        tenant.session("s", 2).await;
    }
    ctx.at_second(120);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let owners: Vec<_> = gathering.scorers.keys().map(|(project, _)| project).collect();
    assert_eq!(owners, [&other.project]);
}

contract!(the_same_ids_in_two_projects_never_meet, a_scorer_of_another_project_is_not_lent);
