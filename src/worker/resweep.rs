//! Re-sweeps: counted beforehand, ordered, and fed to the judging a few sessions at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Worker;
use crate::domain::compose::Scorecard;
use crate::domain::compose::scorecard::DEFAULT_ID;
use crate::domain::group::Member;
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::resweep::{Estimate, Order};
use crate::domain::scorer::Scorer;
use crate::domain::time::Micros;
use crate::store::{ResweepRow, StepSettings, StoreError};

/// Why a group can't judge again.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// There is no such group.
    #[error("Scorer group not found")]
    NoGroup,
    /// It does not score sessions live.
    #[error("The group does not score sessions live: set online.enabled and online.scope \"session\" first")]
    NotLive,
    /// There is no such scorecard.
    #[error("scorecardId: no scorecard with id \"{0}\"")]
    NoScorecard(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How long sessions are counted before an order is taken without knowing how many it comes to.
const COUNTING: Duration = Duration::from_secs(10);

/// How far back calls tell what the next ones will cost.
const LATELY: Micros = Micros::seconds(-30 * 86_400);

/// One in so many places for sessions in work may be held by re-sweeps, so that live work finds a place at once.
const SHARE: usize = 4;

impl Worker {
    /// Counts what an order would come to. Nothing is spent or kept.
    ///
    /// # Errors
    /// [`OrderError`].
    pub async fn estimate(&self, project: &ProjectId, group: &GroupId, order: &Order) -> Result<Estimate, OrderError> {
        let spec = self.store.group(project, group).await?.ok_or(OrderError::NoGroup)?.spec;
        let (questions, cost) = self.price(project, &spec.members).await?;
        if let Some(id) = &order.scorecard_id {
            self.scorecard(project, id).await?;
        }
        let mut so_far = Estimate::default();
        let mut after = None;
        loop {
            let batch = self.settings.plan_batch;
            let counted = self.store.estimate_resweep(project, group, order, so_far, after.as_ref(), batch).await?;
            let counted = counted.ok_or(OrderError::NotLive)?;
            so_far = counted.so_far;
            match counted.next {
                Some(next) => after = Some(next),
                None => return Ok(so_far.within(order.limit, questions, cost)),
            }
        }
    }

    /// Orders a re-sweep; this worker and others carry it out from here on. Sessions that go on after this moment are left
    /// to live scoring, unless the order itself says until when.
    ///
    /// # Errors
    /// [`OrderError`]; nothing was ordered then.
    pub async fn order(&self, project: &ProjectId, group: &GroupId, order: &Order) -> Result<ResweepRow, OrderError> {
        let id = self.entropy.id();
        self.order_as(project, &id, group, order).await?;
        let row = self.store.resweep(project, &id).await?;
        row.ok_or_else(|| StoreError::Corrupt(format!("the re-sweep {id} was not kept")).into())
    }

    /// The same under an id: of several workers that order it, one does. Answers whether this was the one.
    pub(super) async fn order_as(
        &self,
        project: &ProjectId,
        id: &str,
        group: &GroupId,
        order: &Order,
    ) -> Result<bool, OrderError> {
        let now = self.clock.now();
        let scorecard = match &order.scorecard_id {
            Some(id) => Some(self.scorecard(project, id).await?),
            None => None,
        };
        let order = Order { to: order.to.or(Some(now)), scorecard, ..order.clone() };
        let expected = match tokio::time::timeout(COUNTING, self.estimate(project, group, &order)).await {
            Ok(estimate) => Some(estimate?.to_judge),
            Err(_) => None,
        };
        Ok(self.store.order_resweep_as(project, id, group, &order, expected, now).await?)
    }

    /// How many questions a conversation puts to models, and what they cost, where that can be told from calls of late.
    async fn price(&self, project: &ProjectId, members: &[Member]) -> Result<(i64, Option<f64>), StoreError> {
        let mut questions = BTreeMap::new();
        for member in members {
            let stored = self.store.scorer(project, member.kind, &member.ref_id).await?;
            let scorer = stored.or_else(|| Scorer::built_in(member.kind, &member.ref_id));
            let asks = scorer.map_or(0, |scorer| scorer.questions());
            if asks > 0 {
                questions.insert(member.ref_id.clone(), asks);
            }
        }
        let since = self.clock.now() + LATELY;
        let costs = self.store.mean_costs(project, questions.keys().cloned().collect(), since).await?;
        #[allow(clippy::cast_precision_loss, reason = "a member asks at most fifty questions")]
        let cost = questions
            .iter()
            .map(|(scorer, asks)| costs.get(scorer).map(|cost| cost * *asks as f64))
            .sum::<Option<f64>>();
        // The sum of nothing is a negative zero.
        let cost = cost.map(|cost| cost + 0.0);
        Ok((questions.values().sum(), cost))
    }

    async fn scorecard(&self, project: &ProjectId, id: &str) -> Result<Scorecard, OrderError> {
        if id == DEFAULT_ID {
            return Ok(Scorecard::default());
        }
        let saved = self.store.scorecard(project, id).await?;
        Ok(saved.ok_or_else(|| OrderError::NoScorecard(id.to_owned()))?.card)
    }

    /// Orders sessions of running re-sweeps, of one project or of all, as far as there is room for them. Answers whether any
    /// were ordered.
    pub(super) async fn step_resweeps(&self, project: Option<&ProjectId>) -> Result<bool, StoreError> {
        let window = (self.settings.max_in_flight / SHARE).max(1);
        let settings = StepSettings { batch: self.settings.plan_batch, window };
        let mut has_ordered = false;
        loop {
            let stepped = self.store.step_resweep(project, self.clock.now(), settings).await?;
            has_ordered |= stepped.ordered > 0;
            if !stepped.goes_on {
                return Ok(has_ordered);
            }
        }
    }
}
