//! The catalogue, projects and keys.

use afterword::domain::group::{MemberKind, Scope};
use afterword::domain::ids::GroupId;
use afterword::domain::plan::LiveGroup;
use afterword::domain::time::Micros;
use afterword::store::ScorerDraft;
use secrecy::ExposeSecret;

use super::contract;
use super::ctx::{Ctx, START, live, live_with, lookback};

fn draft(kind: MemberKind, name: &str) -> ScorerDraft {
    ScorerDraft { kind, name: name.to_owned(), spec: format!("{{\"name\":\"{name}\"}}") }
}

async fn every_edit_of_a_scorer_is_a_new_version(ctx: Ctx) {
    let one = ctx.store.create_scorer(&ctx.project, &draft(MemberKind::Judge, "One"), ctx.now()).await.unwrap();
    assert_eq!((one.version, one.created_at, one.updated_at), (1, START, START));
    ctx.at_second(5);
    let edit = draft(MemberKind::Judge, "Two");
    let two = ctx.store.update_scorer(&ctx.project, &one, &edit, ctx.now()).await.unwrap().unwrap();
    assert_eq!((two.version, two.name.as_str(), &two.spec), (2, "Two", &edit.spec));
    assert_eq!((two.created_at, two.updated_at), (START, ctx.now()));
    let read = ctx.store.scorer(&ctx.project, MemberKind::Judge, one.id.as_str()).await.unwrap();
    assert_eq!(read.as_ref(), Some(&two));
    // An edit of what somebody else edited meanwhile is refused, and leaves no trace.
    assert_eq!(ctx.store.update_scorer(&ctx.project, &one, &edit, ctx.now()).await.unwrap(), None);
    assert_eq!((ctx.count("scorer_versions").await, ctx.count("scorers").await), (2, 1));
    // The kind is part of the name: a judge is not found among the patterns.
    assert_eq!(ctx.store.scorer(&ctx.project, MemberKind::Pattern, one.id.as_str()).await.unwrap(), None);
}

async fn scorers_are_listed_by_kind_newest_first(ctx: Ctx) {
    let mut made = Vec::new();
    for n in 0..3 {
        ctx.at_second(n);
        let judge = draft(MemberKind::Judge, &format!("j{n}"));
        made.push(ctx.store.create_scorer(&ctx.project, &judge, ctx.now()).await.unwrap());
        ctx.store.create_scorer(&ctx.project, &draft(MemberKind::Pattern, "p"), ctx.now()).await.unwrap();
    }
    made.reverse();
    assert_eq!(ctx.store.scorers(&ctx.project, MemberKind::Judge).await.unwrap(), made);
    assert_eq!(ctx.store.scorers(&ctx.project, MemberKind::Custom).await.unwrap(), []);
}

async fn a_deleted_scorer_is_gone_for_people_and_its_history_stays(ctx: Ctx) {
    let one = ctx.judge("One").await;
    let id = one.id.as_str();
    assert!(!ctx.store.delete_scorer(&ctx.project, MemberKind::Pattern, id, ctx.now()).await.unwrap());
    assert!(ctx.store.delete_scorer(&ctx.project, MemberKind::Judge, id, ctx.now()).await.unwrap());
    assert!(!ctx.store.delete_scorer(&ctx.project, MemberKind::Judge, id, ctx.now()).await.unwrap());
    assert_eq!(ctx.store.scorer(&ctx.project, MemberKind::Judge, id).await.unwrap(), None);
    assert_eq!(ctx.store.scorers(&ctx.project, MemberKind::Judge).await.unwrap(), []);
    let edit = draft(MemberKind::Judge, "Two");
    assert_eq!(ctx.store.update_scorer(&ctx.project, &one, &edit, ctx.now()).await.unwrap(), None);
    assert_eq!(ctx.count("scorer_versions").await, 1);
}

async fn every_edit_of_a_group_is_a_new_version(ctx: Ctx) {
    let spec = live("One");
    let one = ctx.group(&spec).await;
    assert_eq!((one.version, &one.spec, one.created_at), (1, &spec, START));
    ctx.at_second(5);
    let two = ctx.edit(&one, |online| online.sample_rate = 0.1 + 0.2).await;
    assert_eq!((two.version, two.updated_at), (2, ctx.now()));
    assert_eq!(ctx.store.group(&ctx.project, &one.id).await.unwrap(), Some(two.clone()));
    let since = lookback(ctx.now());
    let stale = ctx.store.update_group(&ctx.project, &one, &live("Stale"), ctx.now(), since).await.unwrap();
    assert_eq!((stale, ctx.count("scorer_group_versions").await), (None, 2));
    ctx.at_second(6);
    let other = ctx.group(&live("Other")).await;
    assert_eq!(ctx.store.groups(&ctx.project).await.unwrap(), [other, two.clone()]);
    assert!(ctx.store.delete_group(&ctx.project, &two.id, ctx.now()).await.unwrap());
    assert!(!ctx.store.delete_group(&ctx.project, &two.id, ctx.now()).await.unwrap());
    assert_eq!(ctx.store.group(&ctx.project, &two.id).await.unwrap(), None);
    assert_eq!(ctx.store.groups(&ctx.project).await.unwrap().len(), 1);
    let late = ctx.store.update_group(&ctx.project, &two, &live("Late"), ctx.now(), since).await.unwrap();
    assert_eq!((late, ctx.count("scorer_group_versions").await), (None, 3));
}

async fn live_groups_are_those_that_score_sessions_now(ctx: Ctx) {
    let on = ctx.group(&live_with("on", "j", |online| online.sample_rate = 0.25)).await;
    ctx.group(&live_with("off", "j", |online| online.enabled = false)).await;
    let mut offline = live("offline");
    offline.online = None;
    let offline = ctx.group(&offline).await;
    assert_eq!(ctx.store.group(&ctx.project, &offline.id).await.unwrap(), Some(offline));
    let gone = ctx.group(&live("gone")).await;
    ctx.store.delete_group(&ctx.project, &gone.id, ctx.now()).await.unwrap();
    let expected = LiveGroup {
        id: on.id,
        scope: Scope::Session,
        sample_rate: 0.25,
        idle: Micros::seconds(120),
        min_turns: 2,
        agents: None,
    };
    assert_eq!(ctx.store.live_groups(&ctx.project).await.unwrap(), [expected]);
    assert_eq!(ctx.store.group(&ctx.project, &GroupId::trusted("no such")).await.unwrap(), None);
}

async fn a_project_is_made_once_and_found_by_name(ctx: Ctx) {
    let one = ctx.store.project_named("one", ctx.now()).await.unwrap();
    assert_eq!((&one.id, one.name.as_str(), one.is_default), (&ctx.project, "one", false));
    let default = ctx.store.default_project(ctx.now()).await.unwrap();
    ctx.at_second(9);
    assert_eq!(ctx.store.project_named("Default", ctx.now()).await.unwrap(), default);
    assert_eq!((default.is_default, default.created_at), (true, START));
    let named = tokio::join!(
        ctx.store.project_named("at once", ctx.now()),
        ctx.store.project_named("at once", ctx.now()),
        ctx.store.project_named("at once", ctx.now()),
    );
    let [a, b, c] = [named.0, named.1, named.2].map(Result::unwrap);
    assert!(a == b && b == c);
}

async fn a_key_finds_its_project_and_its_text_is_kept_nowhere(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    assert!(!ctx.store.has_live_keys(ctx.now()).await.unwrap());
    let key = ctx.store.create_key(&ctx.project, "ci", ctx.now()).await.unwrap();
    let text = key.text.expose_secret();
    assert!(ctx.store.has_live_keys(ctx.now()).await.unwrap());
    assert!(text.starts_with(&key.prefix) && text.len() > key.prefix.len() + 50);
    assert_eq!(ctx.store.key_of(text).await.unwrap(), Some(key.row.clone()));
    for unknown in ["", &text[..text.len() - 1], &format!("{text} "), "aw_\0"] {
        assert_eq!(ctx.store.key_of(unknown).await.unwrap(), None, "{unknown:?}");
    }
    let prefix = ctx.store.adopt_key(&other.project, "theirs", "sk-chosen-elsewhere", ctx.now()).await.unwrap();
    assert_eq!(prefix, "sk-c", "of a short key that somebody chose most stays hidden");
    // A key that is known stays with its project.
    ctx.store.adopt_key(&ctx.project, "mine", "sk-chosen-elsewhere", ctx.now()).await.unwrap();
    let found = ctx.store.key_of("sk-chosen-elsewhere").await.unwrap();
    assert_eq!(found.map(|key| key.project).as_ref(), Some(&other.project));
    assert!(!format!("{key:?}").contains(text));

    let columns = ["key_hash", "project_id", "key_id", "name", "prefix"];
    let rows = ctx.raw().await.texts(&columns, "FROM api_keys").await;
    for value in rows.iter().flatten().flatten() {
        assert!(!value.contains(text) && !value.contains("sk-chosen-elsewhere"), "{value}");
    }
    let Some(path) = ctx.url.strip_prefix("sqlite://") else { return };
    for file in [path.to_owned(), format!("{path}-wal")] {
        let bytes = std::fs::read(&file).unwrap();
        for secret in [text, &text[12..], "sk-chosen-elsewhere"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{file}");
        }
    }
}

contract!(
    every_edit_of_a_scorer_is_a_new_version,
    scorers_are_listed_by_kind_newest_first,
    a_deleted_scorer_is_gone_for_people_and_its_history_stays,
    every_edit_of_a_group_is_a_new_version,
    live_groups_are_those_that_score_sessions_now,
    a_project_is_made_once_and_found_by_name,
    a_key_finds_its_project_and_its_text_is_kept_nowhere,
);
