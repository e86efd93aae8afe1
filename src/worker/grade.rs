//! Grading rows of a dataset run: by the same panel and the same composition as live conversations, by the copy of recipe and
//! scorers that the run was ordered with.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::Worker;
use super::catalogue::Catalogue;
use super::panel::Wanted;
use super::reading::Reading;
use crate::domain::compose::{self, Opinion};
use crate::domain::dataset::{Case, RowVerdict, Submission};
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::redact::Kind;
use crate::domain::retry::Backoff;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::MemberReport;
use crate::store::{Claimed, GatheredGroup, Purpose, RowEnd, RowLease, SavedRun, StoreError};

/// How often the panel of a row is tried before the row is put off. A judge's own retries come on top.
const TRIES: u32 = 3;

/// The waits between them.
const WAITS: Backoff = Backoff { first: Micros::seconds(1), longest: Micros::seconds(8) };

/// A member that can't be asked for longer than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// How many settled rows share a transaction.
const A_TRANSACTION: usize = 64;

/// A run, ready to have rows graded.
pub(super) struct Bench {
    run: SavedRun,
    group: GatheredGroup,
    catalogue: Catalogue,
    cases: Vec<Case>,
    hidden: Vec<Kind>,
}

/// What came of a row: what settles it, why nothing does yet, or an error of the store.
struct RowGraded {
    key: String,
    end: Result<Result<RowVerdict, String>, StoreError>,
}

impl Worker {
    /// A run with everything that grading its rows takes.
    pub(super) async fn bench(&self, project: &ProjectId, run: SavedRun) -> Result<Bench, StoreError> {
        let grading = &run.spec.grading;
        let catalogue = Catalogue::of_run(project, grading, run.created_at);
        let group = GatheredGroup {
            id: grading.group.as_ref().map_or_else(|| GroupId::trusted(""), |group| group.id.clone()),
            version: grading.group.as_ref().map_or(1, |group| group.version),
            spec: grading.recipe.clone(),
            scorecard: grading.scorecard.clone(),
            live: false,
            owner: None,
        };
        let hidden = self.hidden_from(project, group.spec.members.iter(), &catalogue).await?;
        let dataset = self.store.dataset_at(project, &run.dataset, run.dataset_version).await?;
        let cases = dataset.map(|dataset| dataset.cases()).unwrap_or_default();
        Ok(Bench { run, group, catalogue, cases, hidden })
    }

    /// Grades claimed rows, as many at once as judges allow, and settles each as soon as it is graded. The lease is renewed
    /// meanwhile. What a member said is kept when it is said, so that a death in between costs no second call.
    ///
    /// # Errors
    /// The first [`StoreError`]; all rows were tried by then, and those that it kept from being settled were given back.
    pub(super) async fn grade_rows(
        &self,
        lease: RowLease<'_>,
        bench: &Bench,
        rows: &[Submission],
    ) -> Result<(), StoreError> {
        let (done, mut ended) = mpsc::channel(rows.len().max(1));
        let grading = async move {
            let mut graded = FuturesUnordered::new();
            for row in rows {
                graded.push(self.grade_row(lease.project, bench, row));
            }
            let mut first_error = None;
            while let Some(RowGraded { key, end }) = graded.next().await {
                match end {
                    // The receiver goes only when this has ended.
                    Ok(end) => drop(done.send(RowEnd { key, end }).await),
                    Err(error) => first_error = Some(first_error.unwrap_or(error)),
                }
            }
            first_error
        };
        let settling = async {
            let mut failed = None;
            let mut ends = Vec::new();
            while ended.recv_many(&mut ends, A_TRANSACTION).await > 0 {
                let now = self.clock.now();
                if let Err(error) = self.store.end_rows(lease, &ends, now).await {
                    failed = Some(failed.unwrap_or(error));
                }
                ends.clear();
            }
            failed
        };
        let renewing = async {
            let mut ticks = tokio::time::interval(self.settings.lease.to_std() / 3);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let until = self.clock.now() + self.settings.lease;
                if let Err(error) = self.store.renew_rows(lease, until).await {
                    self.store.tell_trouble("renewing the lease of a run's rows", &error, self.clock.now());
                }
            }
        };
        let work = async { tokio::join!(grading, settling) };
        let (ungraded, unsettled) = tokio::select! {
            ended = work => ended,
            () = renewing => (None, None),
        };
        match ungraded.or(unsettled) {
            None => Ok(()),
            Some(error) => {
                // Where the database is gone the lease runs out by itself.
                drop(self.store.release_rows(lease).await);
                Err(error)
            }
        }
    }

    async fn grade_row(&self, project: &ProjectId, bench: &Bench, row: &Submission) -> RowGraded {
        RowGraded { key: row.key.clone(), end: self.opinion_on(project, bench, row).await }
    }

    async fn opinion_on(
        &self,
        project: &ProjectId,
        bench: &Bench,
        row: &Submission,
    ) -> Result<Result<RowVerdict, String>, StoreError> {
        let case = usize::try_from(row.question_index).ok().and_then(|place| bench.cases.get(place));
        let mut reading = Reading::of_conversation(row.conversation(case, self.clock.now()));
        reading.redact(&bench.hidden);
        let session = SessionId::trusted(row.key.clone());
        let claim = Claimed { project: project.clone(), session, token: String::new() };
        let mut tries = 0;
        loop {
            let mut wanted = Wanted::of(Purpose::DatasetRun);
            let mut panel = self.seat(project, &bench.group, &reading, &bench.catalogue, &mut wanted);
            let answers = self.ask_in_turn(&claim, &reading, wanted, vec![&mut panel]).await?;
            let members = self.reports(&panel, &reading, &answers);
            let opinions: Vec<Opinion> = members.iter().map(MemberReport::opinion).collect();
            let waiting_for = members.iter().find(|member| member.outcome.is_transient());
            // A gate that failed decides, whatever the others would have said.
            let Some(member) = waiting_for.filter(|_| compose::failing_gate(&opinions).is_none()) else {
                let composition = compose::compose(&opinions, &bench.group.spec.recipe(bench.group.scorecard.clone()));
                let in_own_words = bench.run.spec.grading.group.is_none();
                return Ok(Ok(RowVerdict::of(composition, members, in_own_words)));
            };
            tries += 1;
            let wait = panel.waits(&answers).at_least.max(WAITS.after(tries, self.entropy.unit()).to_std());
            if tries >= TRIES || wait > PATIENCE {
                let reason = member.outcome.reason().unwrap_or_default();
                return Ok(Err(format!("{}: {reason}. Send the row again to have it judged.", member.name)));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Until when rows that are claimed now are leased.
    pub(super) fn lease_of_rows(&self) -> (Timestamp, Timestamp) {
        let now = self.clock.now();
        (now, now + self.settings.lease)
    }
}
