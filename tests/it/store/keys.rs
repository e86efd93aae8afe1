//! Keys and projects: what a key may do is kept with it, rotation and revocation end it at once, and a deleted project is shut.

use afterword::domain::access::{KeyState, Scope, Scopes};
use afterword::domain::ids::ProjectId;
use afterword::domain::time::Micros;
use afterword::store::KeyDraft;
use secrecy::ExposeSecret as _;

use super::contract;
use super::ctx::{Ctx, live};

fn draft(ctx: &Ctx) -> KeyDraft {
    KeyDraft {
        name: "ci".to_owned(),
        scopes: Scopes::of([Scope::Read, Scope::Ingest]),
        expires_at: Some(ctx.now() + Micros::seconds(100)),
        requests_per_minute: Some(7),
    }
}

async fn a_key_is_kept_with_what_it_may_do(ctx: Ctx) {
    let draft = draft(&ctx);
    let key = ctx.store.draw_key(&ctx.project, &draft, ctx.now()).await.unwrap();
    let found = ctx.store.key_of(key.text.expose_secret()).await.unwrap().unwrap();
    assert_eq!(found, key.row);
    let kept = (found.name.clone(), found.scopes, found.expires_at, found.requests_per_minute);
    assert_eq!(kept, (draft.name, draft.scopes, draft.expires_at, draft.requests_per_minute));
    let full = ctx.store.create_key(&ctx.project, "full", ctx.now()).await.unwrap();
    assert_eq!((full.row.scopes, full.row.expires_at), (Scopes::ALL, None));
    let listed = ctx.store.keys(&ctx.project).await.unwrap();
    assert!(listed.len() == 2 && listed.contains(&found) && listed.contains(&full.row));
    assert_eq!(ctx.store.keys(&ctx.tenant("two").await.project).await.unwrap(), []);
}

async fn a_revoked_or_expired_key_is_not_live_and_another_project_revokes_nothing(ctx: Ctx) {
    let other = ctx.tenant("two").await.project;
    let key = ctx.store.draw_key(&ctx.project, &draft(&ctx), ctx.now()).await.unwrap();
    let id = key.row.id.as_str();
    assert!(!ctx.store.revoke_key(&other, id, ctx.now()).await.unwrap());
    assert!(ctx.store.has_live_keys(ctx.now()).await.unwrap());
    assert!(!ctx.store.has_live_keys(ctx.now() + Micros::seconds(100)).await.unwrap());
    assert!(ctx.store.revoke_key(&ctx.project, id, ctx.now()).await.unwrap());
    assert!(!ctx.store.revoke_key(&ctx.project, id, ctx.now()).await.unwrap());
    assert!(!ctx.store.has_live_keys(ctx.now()).await.unwrap());
    let found = ctx.store.key_of(key.text.expose_secret()).await.unwrap().unwrap();
    assert_eq!(found.state(ctx.now()), KeyState::Revoked(ctx.now()));
    // A key that was taken back is not taken over again.
    ctx.store.adopt_key(&ctx.project, "again", key.text.expose_secret(), ctx.now()).await.unwrap();
    assert!(!ctx.store.has_live_keys(ctx.now()).await.unwrap());
}

async fn of_two_rotations_at_once_one_makes_a_key(ctx: Ctx) {
    let old = ctx.store.draw_key(&ctx.project, &draft(&ctx), ctx.now()).await.unwrap();
    let rotate = || ctx.store.rotate_key(&ctx.project, &old.row.id, Micros::ZERO, ctx.now());
    let (a, b) = tokio::join!(rotate(), rotate());
    let made: Vec<_> = [a.unwrap(), b.unwrap()].into_iter().flatten().collect();
    assert_eq!(made.len(), 1);
    let new = ctx.store.key_of(made[0].text.expose_secret()).await.unwrap().unwrap();
    assert_eq!((new.scopes, new.expires_at, new.requests_per_minute), (old.row.scopes, old.row.expires_at, Some(7)));
    let ended = ctx.store.key_of(old.text.expose_secret()).await.unwrap().unwrap();
    assert_eq!(ended.state(ctx.now()), KeyState::Revoked(ctx.now()));
}

async fn an_overlap_never_makes_a_key_live_longer(ctx: Ctx) {
    for (overlap, left) in [(30, 30), (300, 100)] {
        let old = ctx.store.draw_key(&ctx.project, &draft(&ctx), ctx.now()).await.unwrap();
        let rotated = ctx.store.rotate_key(&ctx.project, &old.row.id, Micros::seconds(overlap), ctx.now()).await;
        assert!(rotated.unwrap().is_some());
        let ended = ctx.store.key_of(old.text.expose_secret()).await.unwrap().unwrap();
        assert_eq!(ended.expires_at, Some(ctx.now() + Micros::seconds(left)));
    }
    let unknown = ctx.store.rotate_key(&ctx.project, "none", Micros::ZERO, ctx.now()).await.unwrap();
    assert!(unknown.is_none());
}

async fn a_deleted_project_is_shut_and_its_name_is_free(ctx: Ctx) {
    let (made, key) = ctx.store.create_project(&ctx.project, "below", None, ctx.now()).await.unwrap().unwrap();
    assert!(ctx.store.create_project(&ctx.project, "below", None, ctx.now()).await.unwrap().is_none());
    let own =
        |projects: Vec<afterword::store::Project>| projects.into_iter().map(|it| it.id).collect::<Vec<ProjectId>>();
    let listed = own(ctx.store.projects_of(&ctx.project).await.unwrap());
    assert!(listed.len() == 2 && listed.contains(&made.id) && listed.contains(&ctx.project));
    assert_eq!(own(ctx.store.projects_of(&made.id).await.unwrap()), std::slice::from_ref(&made.id));
    let live = ctx.store.create_group(&made.id, &live("G"), ctx.now(), ctx.now()).await.unwrap();
    assert_eq!(ctx.store.live_groups(&made.id).await.unwrap().len(), 1);

    let stranger = ctx.tenant("two").await.project;
    for nobody in [&stranger, &made.id] {
        assert!(!ctx.store.delete_project(nobody, made.id.as_str(), ctx.now()).await.unwrap());
    }
    assert!(!ctx.store.delete_project(&ctx.project, ctx.project.as_str(), ctx.now()).await.unwrap());
    assert!(ctx.store.delete_project(&ctx.project, made.id.as_str(), ctx.now()).await.unwrap());
    assert!(!ctx.store.delete_project(&ctx.project, made.id.as_str(), ctx.now()).await.unwrap());
    assert_eq!(own(ctx.store.projects_of(&ctx.project).await.unwrap()), std::slice::from_ref(&ctx.project));
    let shut = ctx.store.key_of(key.text.expose_secret()).await.unwrap().unwrap();
    assert_eq!(shut.state(ctx.now()), KeyState::Revoked(ctx.now()));
    assert_eq!(ctx.store.live_groups(&made.id).await.unwrap(), []);
    assert_eq!(ctx.store.group(&made.id, &live.id).await.unwrap(), None);
    assert!(ctx.store.create_project(&ctx.project, "below", None, ctx.now()).await.unwrap().is_some());
}

contract!(
    a_key_is_kept_with_what_it_may_do,
    a_revoked_or_expired_key_is_not_live_and_another_project_revokes_nothing,
    of_two_rotations_at_once_one_makes_a_key,
    an_overlap_never_makes_a_key_live_longer,
    a_deleted_project_is_shut_and_its_name_is_free,
);
