//! Datasets and runs: rows are claimed by one at a time, settled once, and what is sent again under a key changes nothing.

use afterword::domain::dataset::{
    CaseError, DatasetSpec, RowStatus, RowVerdict, RunOrder, RunSpec, RunState, Submission,
};
use afterword::store::{NoGrading, Place, RowClaims, RowEnd, RowLease, SavedRun};
use serde_json::{Map, json};

use super::contract;
use super::ctx::Ctx;

fn spec(queries: &[&str]) -> DatasetSpec {
    let questions: Vec<_> = queries.iter().map(|query| json!({"main_question": {"query": query}})).collect();
    DatasetSpec::create(&json!({"name": "d", "questions": questions})).unwrap()
}

fn row(key: &str, answer: &str) -> Submission {
    Submission { key: key.to_owned(), answer: Some(answer.to_owned()), run_number: 1, ..Submission::default() }
}

fn settled(key: &str, rating: Option<f64>) -> RowEnd {
    RowEnd { key: key.to_owned(), end: Ok(RowVerdict { rating, ..RowVerdict::none("said") }) }
}

impl Ctx {
    async fn run(&self) -> SavedRun {
        let spec = spec(&["q?"]);
        let dataset = self.store.create_dataset(&self.project, &spec, self.now()).await.unwrap();
        let order = RunOrder { dataset: dataset.id.clone(), ..RunOrder::default() };
        let grading = self.store.grading(&self.project, &order, &spec).await.unwrap().unwrap();
        let spec = RunSpec { grading, split: None, subject: Map::new(), source: "t".into(), rescored_from: None };
        self.store.create_run(&self.project, (&dataset.id, 1), &spec, self.now()).await.unwrap()
    }

    fn lease<'a>(&'a self, run: &'a SavedRun, token: &'a str) -> RowLease<'a> {
        RowLease { project: &self.project, run: &run.id, token }
    }

    /// Claims until second `until`; answers the keys that are the caller's and those that are new.
    async fn claim_rows(
        &self,
        run: &SavedRun,
        rows: &[Submission],
        token: &str,
        until: i64,
    ) -> (Vec<Submission>, Vec<String>) {
        let until = super::ctx::START + afterword::domain::time::Micros::seconds(until);
        match self.store.claim_rows(self.lease(run, token), rows, self.now(), until).await.unwrap() {
            RowClaims::Taken { mut mine, mut new } => {
                mine.sort_by(|a, b| a.key.cmp(&b.key));
                new.sort();
                (mine, new)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn end(&self, run: &SavedRun, token: &str, ends: &[RowEnd]) -> usize {
        self.store.end_rows(self.lease(run, token), ends, self.now()).await.unwrap()
    }
}

async fn a_row_is_in_one_hand_until_it_is_settled_or_its_lease_runs_out(ctx: Ctx) {
    let run = ctx.run().await;
    let (mine, new) = ctx.claim_rows(&run, &[row("a", "one"), row("b", "two")], "t1", 60).await;
    assert_eq!((mine.len(), new), (2, vec!["a".to_owned(), "b".to_owned()]));
    let (mine, new) = ctx.claim_rows(&run, &[row("a", "other"), row("c", "three")], "t2", 60).await;
    assert_eq!(
        (mine, new),
        (vec![row("c", "three")], vec!["c".to_owned()]),
        "what somebody else judges is not handed out"
    );
    assert_eq!(ctx.end(&run, "t1", &[settled("a", Some(7.0))]).await, 1);
    assert_eq!(ctx.end(&run, "t1", &[settled("a", Some(2.0))]).await, 0, "a settled row stays as it is");
    ctx.at_second(30);
    let until = super::ctx::START + afterword::domain::time::Micros::seconds(90);
    ctx.store.renew_rows(ctx.lease(&run, "t2"), until).await.unwrap();
    ctx.at_second(61);
    let all = [row("a", "x"), row("b", "x"), row("c", "x")];
    let (mine, new) = ctx.claim_rows(&run, &all, "t3", 120).await;
    assert_eq!(
        (mine, new.len()),
        (vec![row("b", "two")], 0),
        "taken over as it was first submitted; renewed ones are not"
    );
    assert_eq!(ctx.end(&run, "t1", &[settled("b", Some(1.0))]).await, 0, "a lease that was lost writes nothing");
    assert_eq!(ctx.end(&run, "t3", &[settled("b", None)]).await, 1);
    ctx.store.release_rows(ctx.lease(&run, "t2")).await.unwrap();
    assert_eq!(ctx.claim_rows(&run, &all, "t4", 120).await.0.len(), 1, "what was given back is free at once");

    let rows = ctx.store.rows_of_run(&ctx.project, &run.id).await.unwrap();
    let told: Vec<_> =
        rows.iter().map(|row| (row.submission.key.as_str(), row.is_done, row.status, row.verdict.rating)).collect();
    let (scored, skipped) = (RowStatus::Scored, RowStatus::Skipped);
    assert_eq!(told, [("a", true, scored, Some(7.0)), ("b", true, skipped, None), ("c", false, skipped, None)]);
    let statistics =
        ctx.store.statistics_of_runs(&ctx.project, vec![run.id.clone()]).await.unwrap().remove(&run.id).unwrap();
    assert_eq!((statistics.average, statistics.rated, statistics.skipped), (Some(7.0), 1, 2));
}

async fn a_failed_case_is_settled_at_once_and_a_row_put_off_keeps_its_reason(ctx: Ctx) {
    let run = ctx.run().await;
    let error = CaseError { kind: "E".into(), message: "m".into() };
    let failed = Submission { answer: None, error: Some(error), ..row("f", "") };
    let (mine, new) = ctx.claim_rows(&run, &[failed.clone(), row("a", "x"), row("a", "again")], "t", 60).await;
    assert_eq!((mine, new.len()), (vec![row("a", "x")], 2), "a key that is sent twice in a batch is one row");
    let put_off = RowEnd { key: "a".into(), end: Err("the judge is away".into()) };
    assert_eq!(ctx.end(&run, "t", &[put_off]).await, 1);
    let rows = ctx.store.rows_of_keys(&ctx.project, &run.id, vec!["a".into(), "f".into()]).await.unwrap();
    let of = |key: &str| rows.iter().find(|row| row.submission.key == key).unwrap();
    assert_eq!((of("a").is_done, of("a").verdict.justification.as_str()), (false, "the judge is away"));
    assert_eq!((of("f").status, of("f").verdict.rating), (RowStatus::Failed, Some(0.0)));
    assert_eq!(ctx.claim_rows(&run, &[row("a", "y")], "t2", 60).await.0, [row("a", "x")], "it is free at once");
}

async fn a_run_that_is_over_takes_no_rows_and_tenants_never_meet(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    let run = ctx.run().await;
    let claim = async |ctx: &Ctx| {
        ctx.store.claim_rows(ctx.lease(&run, "t"), &[row("a", "x")], ctx.now(), ctx.now()).await.unwrap()
    };
    assert_eq!(claim(&other).await, RowClaims::NoRun);
    assert!(!other.store.end_run(&other.project, &run.id, RunState::Completed, other.now()).await.unwrap());
    assert!(ctx.store.end_run(&ctx.project, &run.id, RunState::Completed, ctx.now()).await.unwrap());
    assert!(!ctx.store.end_run(&ctx.project, &run.id, RunState::Failed, ctx.now()).await.unwrap(), "once");
    assert_eq!(claim(&ctx).await, RowClaims::Over(RunState::Completed));
    assert_eq!(other.store.dataset(&other.project, &run.dataset).await.unwrap(), None);
    assert_eq!(other.store.runs(&other.project, "", &Place::first(), 10).await.unwrap(), []);

    let later = ctx.run().await;
    assert_eq!(ctx.store.earlier_runs(&ctx.project, &later).await.unwrap(), [], "another dataset is no earlier run");
}

async fn a_dataset_keeps_its_name_and_gets_versions(ctx: Ctx) {
    let first = ctx.store.keep_dataset(&ctx.project, &spec(&["a?"]), ctx.now()).await.unwrap();
    let same = ctx.store.keep_dataset(&ctx.project, &spec(&["a?"]), ctx.now()).await.unwrap();
    assert_eq!(same, first);
    let next = ctx.store.keep_dataset(&ctx.project, &spec(&["b?"]), ctx.now()).await.unwrap();
    assert_eq!((next.id.as_str(), next.version), (first.id.as_str(), 2));
    let at = async |version| {
        ctx.store.dataset_at(&ctx.project, &first.id, version).await.unwrap().unwrap().cases()[0].query.clone()
    };
    assert_eq!((at(1).await, at(2).await), ("a?".to_owned(), "b?".to_owned()));
    assert!(ctx.store.delete_dataset(&ctx.project, &first.id, ctx.now()).await.unwrap());
    assert!(!ctx.store.delete_dataset(&ctx.project, &first.id, ctx.now()).await.unwrap());
    assert_eq!(ctx.store.datasets(&ctx.project).await.unwrap(), []);
    assert_eq!(at(1).await, "a?", "its runs can still be read");
    let anew = ctx.store.keep_dataset(&ctx.project, &spec(&["a?"]), ctx.now()).await.unwrap();
    assert_ne!(anew.id, first.id);
    let order = RunOrder { dataset: anew.id, judge: Some("nobody".into()), ..RunOrder::default() };
    let none = ctx.store.grading(&ctx.project, &order, &spec(&["a?"])).await.unwrap();
    assert_eq!(none, Err(NoGrading::Judge("nobody".into())));
}

contract!(
    a_row_is_in_one_hand_until_it_is_settled_or_its_lease_runs_out,
    a_failed_case_is_settled_at_once_and_a_row_put_off_keeps_its_reason,
    a_run_that_is_over_takes_no_rows_and_tenants_never_meet,
    a_dataset_keeps_its_name_and_gets_versions,
);
