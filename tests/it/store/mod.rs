//! The contract of the store: every operation, with the real decisions, stamped for both engines.

mod actions;
mod answers;
mod catalogue;
mod claiming;
pub mod ctx;
mod events;
mod history;
mod idempotency;
mod ingest;
mod keys;
mod lists;
mod opening;
mod own;
mod planning;
mod profiles;
mod pruning;
mod purging;
mod quarantine;
mod races;
mod rail;
pub mod raw;
mod recording;
mod recount;
mod resweeps;
mod runs;
mod scorecards;
mod signals;
mod soak;
mod spans;
mod tenancy;
mod traces;
mod withdrawing;

/// Makes two tests of each `async fn(ctx: Ctx)`: one on SQLite, one on PostgreSQL, which skips where there is none.
macro_rules! contract {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test]
            async fn on_sqlite() {
                super::$name($crate::store::ctx::Ctx::sqlite().await).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                if let Some(ctx) = $crate::store::ctx::Ctx::postgres().await {
                    super::$name(ctx).await;
                }
            }
        }
    )+};
}
use contract;
