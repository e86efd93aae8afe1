//! The roster: the agents that spans name are noted, each once a process, so that they can be listed.

use std::collections::{BTreeMap, HashSet};

use tokio::sync::Mutex;

use crate::domain::conversation::Agent;
use crate::domain::ids::{ProjectId, check_id};
use crate::domain::span::Span;
use crate::domain::time::Timestamp;
use crate::store::{Store, StoreError};

/// How many agents are remembered as noted. Beyond that all are noted once more, which changes nothing.
const REMEMBERED: usize = 10_000;

/// What was noted already.
#[derive(Debug, Default)]
pub struct Roster(Mutex<HashSet<(ProjectId, String)>>);

impl Roster {
    /// Notes the agents of stored spans that were not noted before: those that roots name, as turns have them. Spans of dataset
    /// runs name nobody.
    ///
    /// # Errors
    /// [`StoreError`]; they are noted when they send again.
    pub async fn note(
        &self,
        store: &Store,
        project: &ProjectId,
        spans: &[Span],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let roots = spans.iter().filter(|span| span.parent_id.is_none() && !span.is_eval_run());
        let named = roots.filter_map(|root| Agent::named_by(&root.name, &root.body));
        let fresh: BTreeMap<String, String> = {
            let noted = self.0.lock().await;
            let is_new = |agent: &Agent| !noted.contains(&(project.clone(), agent.id.clone()));
            let named = named.filter(|agent| check_id(&agent.id).is_ok() && is_new(agent));
            named.map(|agent| (agent.id, agent.name)).collect()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        store.note_agents(project, &fresh, now).await?;
        let mut noted = self.0.lock().await;
        if noted.len() + fresh.len() > REMEMBERED {
            noted.clear();
        }
        noted.extend(fresh.into_keys().map(|id| (project.clone(), id)));
        Ok(())
    }
}
