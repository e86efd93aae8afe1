//! The facts that explain what became of a session.

use std::collections::BTreeMap;

use super::catalogue::from_json;
use super::engine::{Result, Tx, args};
use super::gather::{read_assessment, read_spans};
use super::plan::standing;
use super::sql::statements;
use super::{Store, blocks, quarantine};
use crate::domain::assessment::{Assessment, Goal};
use crate::domain::conversation::{Agent, Conversation};
use crate::domain::explain::{Facts, Latest, Lease};
use crate::domain::group::GroupSpec;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::plan::LiveGroup;
use crate::domain::time::Timestamp;

/// How many sessions ahead are counted; beyond it "more" is all that matters.
const COUNTED_AHEAD: i64 = 10_000;

statements! {
    STANDING = "SELECT session_id, revision, last_arrival_at, turns, rootless, rootless_at, pruned_at FROM sessions
        WHERE project_id = $1 AND session_id = $2";
    ASSESSMENTS = "SELECT project_id, session_id, group_id, wanted_revision, wanted_round, covered_revision, covered_round,
            not_before, attempts, deferrals, first_deferred_at, last_error, covered_digest
        FROM assessments WHERE project_id = $1 AND session_id = $2";
    QUEUED = "SELECT visible_at, lease_owner, leased_at FROM queue WHERE project_id = $1 AND session_id = $2";
    AHEAD = "SELECT COUNT(*) FROM (SELECT 1 FROM queue WHERE visible_at < $1 AND lease_token IS NULL LIMIT $2) before";
    GROUPS = "SELECT group_id, name, spec FROM scorer_groups
        WHERE project_id = $1 AND deleted_at IS NULL ORDER BY name, group_id";
    VERDICTS = "SELECT group_id, revision, round, sequence, rating, justification FROM verdicts
        WHERE project_id = $1 AND session_id = $2 ORDER BY revision, round, sequence";
}

/// A session in the eyes of one group.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// Everything known of the pair.
    pub facts: Facts,
}

impl Store {
    /// Everything known of a session in the eyes of every group of its project, in one snapshot, by the groups' names.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn explain(&self, project: &ProjectId, session: &SessionId, now: Timestamp) -> Result<Vec<Explained>> {
        let mut tx = self.db.read().await?;
        let standing = match tx.fetch_one(&STANDING, args![project, session]).await? {
            Some(row) => Some(standing(&row, 0)?),
            None => None,
        };
        let mut assessments: BTreeMap<GroupId, Assessment> = BTreeMap::new();
        for row in tx.fetch(&ASSESSMENTS, args![project, session]).await? {
            let (group, assessment) = read_assessment(&row)?;
            assessments.insert(group, assessment);
        }
        let held = quarantine::of_session(&mut tx, project, session).await?;
        let (lease, ahead) = queued(&mut tx, project, session).await?;
        let mut latest: BTreeMap<GroupId, Latest> = BTreeMap::new();
        for row in tx.fetch(&VERDICTS, args![project, session]).await? {
            let read = Goal { revision: row.int(1)?, round: row.int(2)? };
            let verdict = Latest { read, rating: row.opt_real(4)?, justification: row.text(5)? };
            latest.insert(GroupId::trusted(row.text(0)?), verdict);
        }
        let blocks = blocks::read(&mut tx).await?;
        let mut groups: Vec<(GroupId, String, Option<LiveGroup>)> = Vec::new();
        for row in tx.fetch(&GROUPS, args![project]).await? {
            let (group, spec) = (GroupId::trusted(row.text(0)?), from_json::<GroupSpec>(&row.text(2)?)?);
            groups.push((group.clone(), row.text(1)?, LiveGroup::of(group, &spec)));
        }
        let selects = |live: &LiveGroup| live.agents.is_some();
        let is_asked_for = groups.iter().any(|(.., live)| live.as_ref().is_some_and(selects));
        let agent = if is_asked_for { read_agent(&mut tx, project, session).await? } else { None };
        let mut explained = Vec::new();
        for (group, name, live) in groups {
            let facts = Facts {
                standing: standing.clone(),
                held: held.clone(),
                group: live,
                agent: agent.clone(),
                assessment: assessments.remove(&group),
                lease: lease.clone(),
                ahead,
                block: blocks.of(project, &group, now).cloned(),
                latest: latest.remove(&group),
            };
            explained.push(Explained { group, name, facts });
        }
        Ok(explained)
    }
}

/// The agent that held a session, as judging reads it. It takes all the session's spans, as judging does.
async fn read_agent(tx: &mut Tx, project: &ProjectId, session: &SessionId) -> Result<Option<Agent>> {
    let spans = read_spans(tx, &[(project, session)]).await?.into_values().flatten().collect();
    Ok(Conversation::assemble(session.clone(), spans).agent)
}

async fn queued(tx: &mut Tx, project: &ProjectId, session: &SessionId) -> Result<(Option<Lease>, i64)> {
    let Some(row) = tx.fetch_one(&QUEUED, args![project, session]).await? else { return Ok((None, 0)) };
    let visible_at = row.time(0)?;
    let lease = match (row.opt_text(1)?, row.opt_time(2)?) {
        (Some(owner), Some(since)) => Some(Lease { owner, since, until: visible_at }),
        _ => None,
    };
    let ahead = tx.fetch_one(&AHEAD, args![visible_at, COUNTED_AHEAD]).await?;
    Ok((lease, ahead.map_or(Ok(0), |row| row.int(0))?))
}
