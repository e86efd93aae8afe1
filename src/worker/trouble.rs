//! Trouble: what goes wrong with judging for so long, or once a day, that receivers are to hear of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Worker;
use crate::domain::assessment::Ending;
use crate::domain::event::Event;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::time::{Micros, Timestamp};
use crate::store::{FailedTry, StoreError, Try};

/// How often one group's troubles are written down, at the most.
const EVERY: Micros = Micros::seconds(60);
/// How long the day's budget, once found used up, is not told of again by this process.
const DAILY: Micros = Micros::seconds(3_600);
/// How many things are remembered.
const MOST: usize = 10_000;

/// What was told lately, so that a backlog of failing sessions costs one write a minute.
#[derive(Debug, Default)]
pub(super) struct ToldLately(Mutex<HashMap<(&'static str, ProjectId, GroupId), Timestamp>>);

impl ToldLately {
    /// Whether it is time to tell; if so, it counts as told.
    fn is_due(&self, key: (&'static str, ProjectId, GroupId), every: Micros, now: Timestamp) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&key).is_some_and(|last| now - *last < every && *last <= now) {
            return false;
        }
        if told.len() >= MOST {
            told.clear();
        }
        told.insert(key, now);
        true
    }

    fn forget(&self, key: &(&'static str, ProjectId, GroupId)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// A group and the session that one of its tries was about.
#[derive(Clone, Copy)]
pub(super) struct Attempted<'a> {
    pub(super) project: &'a ProjectId,
    pub(super) group: &'a GroupId,
    pub(super) group_name: &'a str,
    pub(super) session: &'a SessionId,
}

/// What went wrong with a try: it was put off, erred, or ended without members that were waited for in vain.
fn failure(end: &Try) -> Option<String> {
    match (&end.ending, &end.verdict) {
        (Ending::Deferred { reason, .. } | Ending::Erred { error: reason, .. }, _) => Some(reason.clone()),
        (_, Some(verdict)) if verdict.incomplete => {
            let missing = verdict.members.iter().find(|member| member.outcome.is_transient())?;
            Some(format!("{}: {}", missing.name, missing.outcome.reason().unwrap_or_default()))
        }
        _ => None,
    }
}

impl Worker {
    /// Writes down what a try that did not come to an end means for its group.
    pub(super) async fn tell_trouble(&self, tried: Attempted<'_>, end: &Try, out_of_budget: bool) {
        let now = self.clock.now();
        let key = |what| (what, tried.project.clone(), tried.group.clone());
        if out_of_budget {
            let key = key("budget");
            if self.told_lately.is_due(key.clone(), DAILY, now) {
                self.heed(&key, self.tell_budget(tried, now).await);
            }
            return;
        }
        let Some(reason) = failure(end) else { return };
        let key = key("judging");
        if self.told_lately.is_due(key.clone(), EVERY, now) {
            let Attempted { project, group, group_name, session } = tried;
            let failed = FailedTry { group, group_name, session, reason: &reason };
            let noted = self.store.note_trouble(project, failed, self.settings.failing_after, now).await;
            self.heed(&key, noted);
        }
    }

    async fn tell_budget(&self, tried: Attempted<'_>, now: Timestamp) -> Result<(), StoreError> {
        let of_project = match self.judges.daily_limits().project {
            Some(limit) => self.store.slots_taken(tried.project, now).await? >= limit,
            None => false,
        };
        let group = (!of_project).then_some((tried.group, tried.group_name));
        let event = Event::budget_exhausted(group, tried.session, now);
        self.store.announce(tried.project, &event, now).await
    }

    fn heed(&self, key: &(&'static str, ProjectId, GroupId), told: Result<(), StoreError>) {
        if let Err(error) = told {
            self.told_lately.forget(key);
            self.store.tell_trouble("writing down troubles with judging", &error, self.clock.now());
        }
    }
}
