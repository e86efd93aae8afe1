//! Previews of sampling: how many and which sessions of a period a rate would pick.

use super::{OrderError, Worker};
use crate::domain::group::Scope;
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::period::Period;
use crate::domain::sample::Preview;

/// The fewest turns where a group says nothing.
const MIN_TURNS: i64 = 2;

impl Worker {
    /// What a rate, or the group's own, would pick of the sessions whose last turn lies in the period; up to `list` of them are
    /// named. Nothing is written.
    ///
    /// # Errors
    /// [`OrderError`]: there is no such group, or it scores single traces.
    pub async fn preview(
        &self,
        project: &ProjectId,
        group: &GroupId,
        period: Period,
        rate: Option<f64>,
        list: usize,
    ) -> Result<Preview, OrderError> {
        let spec = self.store.group(project, group).await?.ok_or(OrderError::NoGroup)?.spec;
        let online = spec.online.as_ref();
        if rate.is_none() && online.is_some_and(|online| online.scope == Scope::Trace) {
            return Err(OrderError::NotLive);
        }
        let min_turns = online.map_or(MIN_TURNS, |online| online.min_turns);
        let mut preview = Preview::at(rate.or(online.map(|online| online.sample_rate)).unwrap_or(1.0));
        let mut after = String::new();
        loop {
            let page = self.store.glimpses(project, &after, self.settings.plan_batch).await?;
            let is_last = page.len() < self.settings.plan_batch;
            if let Some(last) = page.last() {
                last.session.as_str().clone_into(&mut after);
            }
            for it in page {
                if it.turns >= min_turns && period.from <= it.at && it.at < period.to {
                    preview.consider(it.session, group.as_str(), list);
                }
            }
            if is_last {
                return Ok(preview);
            }
        }
    }
}
