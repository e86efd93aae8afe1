//! Agents that are known by name, and how people have them watched.

use std::collections::BTreeMap;

use super::catalogue::{from_json, to_json};
use super::engine::{Result, Row, args};
use super::sql::statements;
use super::{Store, receivers, retrying};
use crate::domain::agent_profile::AgentProfile;
use crate::domain::ids::ProjectId;
use crate::domain::problems::Problems;
use crate::domain::time::Timestamp;

statements! {
    INSERT = "INSERT INTO agents (project_id, agent_id, name, created_at) VALUES ($1, $2, $3, $4)";
    LIST = "SELECT agent_id, name, created_at FROM agents WHERE project_id = $1 ORDER BY created_at DESC, agent_id LIMIT $2";
    PROFILE = "SELECT profile_id, profile, created_at, updated_at FROM agent_profiles WHERE project_id = $1 AND agent_id = $2";
    PROFILE_LOCKED = "SELECT profile_id, profile, created_at, updated_at FROM agent_profiles
        WHERE project_id = $1 AND agent_id = $2 FOR UPDATE";
    FIRST_PROFILE = "INSERT INTO agent_profiles (project_id, agent_id, profile_id, profile, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (project_id, agent_id) DO NOTHING";
    NEXT_PROFILE = "UPDATE agent_profiles SET profile = $3, updated_at = $4 WHERE project_id = $1 AND agent_id = $2";
    @bulk {
        NOTE(3; agent_id Text, name Text) = "INSERT INTO agents (project_id, agent_id, name, created_at)
            SELECT $1, agent_id, name, CAST($2 AS BIGINT) FROM v
            WHERE (SELECT COUNT(*) FROM agents a WHERE a.project_id = $1) < CAST($3 AS BIGINT)
            ON CONFLICT (project_id, agent_id) DO NOTHING";
    }
}

/// How many agents of a project are listed, and from which number on spans name no further ones.
const MOST_AGENTS: i64 = 1_000;

/// An agent that is known: somebody made it, or spans named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// Its id: what spans carry to name it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// When it was made, or first named.
    pub created_at: Timestamp,
}

/// A profile as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedProfile {
    /// Its id.
    pub id: String,
    /// What people chose.
    pub profile: AgentProfile,
    /// When it was first saved.
    pub created_at: Timestamp,
    /// When it was last saved.
    pub updated_at: Timestamp,
}

impl Store {
    /// Makes an agent.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn create_agent(&self, project: &ProjectId, name: &str, now: Timestamp) -> Result<AgentRow> {
        let made = AgentRow { id: self.entropy.id(), name: name.to_owned(), created_at: now };
        let mut tx = self.db.write().await?;
        tx.execute(&INSERT, args![project, &made.id, name, now]).await?;
        tx.commit().await?;
        Ok(made)
    }

    /// Notes agents by id and name that spans of a project named. Those that are known stay as they are, and where a project has
    /// 1000 of them no more are noted.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn note_agents(
        &self,
        project: &ProjectId,
        agents: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<()> {
        retrying!(self.note_agents_once(project, agents, now))
    }

    async fn note_agents_once(
        &self,
        project: &ProjectId,
        agents: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<()> {
        let mut tx = self.db.write().await?;
        let rows = agents.iter().map(|(id, name)| args![id, name]).collect();
        tx.bulk(&NOTE, args![project, now, MOST_AGENTS], rows).await?;
        tx.commit().await
    }

    /// The agents of a project, newest first, at most 1000.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn agents(&self, project: &ProjectId) -> Result<Vec<AgentRow>> {
        let rows = self.db.fetch(&LIST, args![project, MOST_AGENTS]).await?;
        rows.iter().map(|row| Ok(AgentRow { id: row.text(0)?, name: row.text(1)?, created_at: row.time(2)? })).collect()
    }

    /// How an agent is watched; `None` where nobody said.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn agent_profile(&self, project: &ProjectId, agent: &str) -> Result<Option<SavedProfile>> {
        self.db.look_up(&PROFILE, args![project, agent]).await?.as_ref().map(read).transpose()
    }

    /// Changes how an agent is watched; where nobody said, `change` begins with the defaults. Changes at the same time follow
    /// each other, so that none is lost.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError); within it what `change` refuses.
    pub async fn change_agent_profile(
        &self,
        project: &ProjectId,
        agent: &str,
        now: Timestamp,
        change: impl FnOnce(AgentProfile) -> std::result::Result<AgentProfile, Problems>,
    ) -> Result<std::result::Result<SavedProfile, Problems>> {
        let mut tx = self.db.write().await?;
        let first = to_json(&AgentProfile::default())?;
        tx.execute(&FIRST_PROFILE, args![project, agent, self.entropy.id(), first, now]).await?;
        let row = tx.fetch_one(&PROFILE_LOCKED, args![project, agent]).await?;
        let row = row.ok_or_else(|| super::StoreError::Corrupt("a profile that was just made is gone".to_owned()))?;
        let saved = read(&row)?;
        let profile = match change(saved.profile) {
            Ok(profile) => profile,
            Err(problems) => return Ok(Err(problems)),
        };
        tx.execute(&NEXT_PROFILE, args![project, agent, to_json(&profile)?, now]).await?;
        receivers::follow_channels(&mut tx, self.entropy.as_ref(), project, agent, &profile, now).await?;
        tx.commit().await?;
        Ok(Ok(SavedProfile { profile, updated_at: now, ..saved }))
    }
}

fn read(row: &Row) -> Result<SavedProfile> {
    Ok(SavedProfile {
        id: row.text(0)?,
        profile: from_json(&row.text(1)?)?,
        created_at: row.time(2)?,
        updated_at: row.time(3)?,
    })
}
