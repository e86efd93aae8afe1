//! The history of scorers: every version stays readable, after deletion too; custom answers that are kept are found again.

use afterword::domain::custom::Opinion;
use afterword::domain::group::MemberKind;
use afterword::domain::ids::SessionId;
use afterword::domain::outcome::{Goodness, Outcome};
use afterword::store::ScorerDraft;

use super::contract;
use super::ctx::Ctx;

contract!(every_version_stays_readable_after_deletion, a_custom_answer_is_kept_once_for_its_project,);

async fn every_version_stays_readable_after_deletion(ctx: Ctx) {
    let stored = ctx.judge("Tone").await;
    let at = ctx.at_second(60);
    let draft = ScorerDraft { kind: MemberKind::Judge, name: "Tone, strictly".into(), spec: "{\"v\":2}".into() };
    ctx.store.update_scorer(&ctx.project, &stored, &draft, at).await.unwrap().unwrap();
    let history = async || ctx.store.scorer_history(&ctx.project, MemberKind::Judge, stored.id.as_str()).await.unwrap();
    let before = history().await.unwrap();
    let versions: Vec<(i64, &str)> = before.versions.iter().map(|it| (it.version, it.spec.as_str())).collect();
    assert_eq!(versions, [(2, "{\"v\":2}"), (1, stored.spec.as_str())]);
    assert_eq!((before.versions[0].updated_at, before.deleted_at), (at, None));
    let gone = ctx.at_second(90);
    assert!(ctx.store.delete_scorer(&ctx.project, MemberKind::Judge, stored.id.as_str(), gone).await.unwrap());
    let after = history().await.unwrap();
    assert_eq!((after.versions, after.deleted_at), (before.versions, Some(gone)));
    let other = ctx.tenant("other").await;
    let none = other.store.scorer_history(&other.project, MemberKind::Judge, stored.id.as_str()).await.unwrap();
    assert_eq!(none, None);
    assert_eq!(ctx.store.scorer_history(&ctx.project, MemberKind::Pattern, stored.id.as_str()).await.unwrap(), None);
}

async fn a_custom_answer_is_kept_once_for_its_project(ctx: Ctx) {
    let opinion = |goodness: f64| Opinion {
        detail: "flagged".to_owned(),
        evidence: vec![2],
        facts: Some(serde_json::json!({"words": 3})),
        ..Opinion::told(Outcome::Scored { goodness: Goodness::new(goodness).unwrap() }, "why")
    };
    let session = SessionId::trusted("s");
    for goodness in [0.25, 0.75] {
        ctx.store.keep_custom_answer(&ctx.project, &session, "key", &opinion(goodness), ctx.now()).await.unwrap();
    }
    assert_eq!(ctx.store.custom_answer(&ctx.project, "key").await.unwrap(), Some(opinion(0.25)));
    assert_eq!(ctx.store.custom_answer(&ctx.project, "other").await.unwrap(), None);
    let other = ctx.tenant("other").await;
    assert_eq!(other.store.custom_answer(&other.project, "key").await.unwrap(), None);
}
