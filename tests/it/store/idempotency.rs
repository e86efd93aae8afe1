//! Requests that are carried out once: a key stands for one request of one project, for a day.

use afterword::domain::time::Micros;
use afterword::store::Claim;
use futures::future::join_all;

use super::contract;
use super::ctx::Ctx;

async fn a_key_stands_for_one_request_of_one_project_for_a_day(ctx: Ctx) {
    let other = ctx.tenant("two").await.project;
    let claim = async |digest: &str, after: i64| {
        ctx.store.claim_request(&ctx.project, "k", digest, ctx.now() + Micros::seconds(after)).await.unwrap()
    };
    assert_eq!(claim("a", 0).await, Claim::Fresh);
    assert_eq!((claim("a", 1).await, claim("b", 1).await), (Claim::Begun, Claim::Other));
    ctx.store.keep_answer(&ctx.project, "k", 201, "{}").await.unwrap();
    let answered = Claim::Answered(201, "{}".to_owned());
    assert_eq!((claim("a", 86_399).await, claim("b", 86_399).await), (answered.clone(), Claim::Other));
    assert_eq!(ctx.store.claim_request(&other, "k", "a", ctx.now()).await.unwrap(), Claim::Fresh);
    // What is answered is not let go of.
    ctx.store.release_request(&ctx.project, "k").await.unwrap();
    assert_eq!(claim("a", 2).await, answered);
    assert_eq!(claim("b", 86_400).await, Claim::Fresh);
}

async fn a_request_that_is_let_go_of_may_be_made_again(ctx: Ctx) {
    let claim = async |digest: &str| ctx.store.claim_request(&ctx.project, "k", digest, ctx.now()).await.unwrap();
    assert_eq!(claim("a").await, Claim::Fresh);
    ctx.store.release_request(&ctx.project, "k").await.unwrap();
    assert_eq!(claim("b").await, Claim::Fresh);
}

async fn of_many_claims_at_once_one_is_fresh(ctx: Ctx) {
    let claims = (0..8).map(|_| ctx.store.claim_request(&ctx.project, "k", "a", ctx.now()));
    let claims: Vec<Claim> = join_all(claims).await.into_iter().map(Result::unwrap).collect();
    let fresh = claims.iter().filter(|claim| **claim == Claim::Fresh).count();
    assert!(fresh == 1 && claims.iter().filter(|claim| **claim == Claim::Begun).count() == 7, "{claims:?}");
}

contract!(
    a_key_stands_for_one_request_of_one_project_for_a_day,
    a_request_that_is_let_go_of_may_be_made_again,
    of_many_claims_at_once_one_is_fresh,
);
