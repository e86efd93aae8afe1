//! Explaining: what became of a session in the eyes of each group, as this worker would decide it now.

use serde::Serialize;

use super::Worker;
use crate::domain::explain::{Decision, Superseded, decide, superseded};
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::store::StoreError;

/// What became of a session in the eyes of one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The group.
    pub group_id: GroupId,
    /// Its name.
    pub group_name: String,
    /// The decision and its reason.
    #[serde(flatten)]
    pub decision: Decision,
    /// The latest verdict, where the session has grown since and is not judged yet at what it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded: Option<Superseded>,
    /// All of it in words.
    pub text: String,
}

impl Worker {
    /// Explains a session for every group of its project, or for one, by the groups' names.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn explain(
        &self,
        project: &ProjectId,
        session: &SessionId,
        only: Option<&GroupId>,
    ) -> Result<Vec<Explanation>, StoreError> {
        let now = self.clock.now();
        let explained = self.store.explain(project, session, now).await?;
        let wanted = explained.into_iter().filter(|it| only.is_none_or(|group| it.group == *group));
        Ok(wanted
            .map(|it| {
                let decision = decide(&it.facts, now, self.settings.patience(), self.settings.retry.max_attempts);
                let superseded = superseded(&it.facts, &decision);
                let last = superseded.as_ref().map(|last| format!("; {}", last.in_words())).unwrap_or_default();
                let text = decision.in_words() + &last;
                Explanation { text, group_id: it.group, group_name: it.name, decision, superseded }
            })
            .collect())
    }
}
