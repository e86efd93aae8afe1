//! Judgements that were paid for: kept once, the first wins; every attempt is in the ledger.

use afterword::domain::ids::{ScorerId, SessionId};
use afterword::domain::judge::Judgement;
use afterword::domain::outcome::{Goodness, Outcome};
use afterword::store::JudgeCall;

use super::contract;
use super::ctx::Ctx;

fn judgement(rating: f64) -> Judgement {
    Judgement {
        outcome: Outcome::Scored { goodness: Goodness::from_rating(rating).unwrap() },
        justification: Some("said \"so\"\n\u{1F600}".to_owned()),
        evidence: vec![1, 3],
        shown: Some(0.75),
    }
}

fn call(attempt: i64, error: Option<&str>) -> JudgeCall {
    JudgeCall {
        provider: "main".to_owned(),
        model: "m-1".to_owned(),
        attempt,
        status: if error.is_some() { "429" } else { "200" }.to_owned(),
        input_tokens: Some(100),
        output_tokens: error.is_none().then_some(20),
        latency_ms: 12,
        error: error.map(str::to_owned),
    }
}

async fn an_answer_is_kept_once_and_the_first_wins(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    let (session, scorer) = (SessionId::trusted("s"), ScorerId::trusted("j"));
    let keep = async |key: &str, rating: f64| {
        let answer = judgement(rating);
        let calls = [call(1, Some("busy")), call(2, None)];
        let kept = Some((key, &answer));
        ctx.store.keep_judgement(&ctx.project, &session, &scorer, &calls, kept, ctx.now()).await.unwrap();
    };
    assert_eq!(ctx.store.judgement(&ctx.project, "k").await.unwrap(), None);
    keep("k", 7.0).await;
    keep("k", 2.0).await;
    keep("other", 3.0).await;
    assert_eq!(ctx.store.judgement(&ctx.project, "k").await.unwrap(), Some(judgement(7.0)));
    assert_eq!(ctx.store.judgement(&ctx.project, "other").await.unwrap(), Some(judgement(3.0)));
    assert_eq!(other.store.judgement(&other.project, "k").await.unwrap(), None);
    // What the second asking cost is in the ledger all the same.
    let columns = ["attempt", "status", "input_tokens", "output_tokens", "latency_ms", "error", "provider", "model"];
    let rows = ctx.raw().await.texts(&columns, "FROM judge_calls WHERE attempt = 1 AND session_id = 's'").await;
    let text = |text: &str| Some(text.to_owned());
    let first = vec![text("1"), text("429"), text("100"), None, text("12"), text("busy"), text("main"), text("m-1")];
    assert_eq!((rows.len(), rows[0].clone(), ctx.count("judge_calls").await), (3, first, 6));
}

async fn a_cost_without_an_answer_is_kept_too(ctx: Ctx) {
    let (session, scorer) = (SessionId::trusted("s"), ScorerId::trusted("j"));
    ctx.store.keep_judgement(&ctx.project, &session, &scorer, &[call(1, Some("500"))], None, ctx.now()).await.unwrap();
    ctx.store.keep_judgement(&ctx.project, &session, &scorer, &[], None, ctx.now()).await.unwrap();
    assert_eq!((ctx.count("judge_calls").await, ctx.count("outcomes").await), (1, 0));
}

contract!(an_answer_is_kept_once_and_the_first_wins, a_cost_without_an_answer_is_kept_too);
