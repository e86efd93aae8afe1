//! Agents: made, listed, and how each is watched.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use super::Api;
use super::auth::{Caller, Holder};
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id, named};
use crate::domain::address::masked_channel;
use crate::domain::agent_profile::AgentProfile;
use crate::store::{AgentRow, Place, SavedProfile};

/// An agent as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    created_at: String,
}

impl From<AgentRow> for Shown {
    fn from(AgentRow { id, name, created_at }: AgentRow) -> Self {
        Self { id, name, created_at: created_at.iso() }
    }
}

/// The agents of a project.
#[derive(Serialize)]
pub(super) struct Many {
    agents: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

/// One agent.
#[derive(Serialize)]
pub(super) struct One {
    agent: Shown,
}

/// `GET /agents`: those that were made by name and those that spans named, newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let agents = api.store.agents(&project).await?;
    let place = |agent: &AgentRow| Place { at: agent.created_at, id: agent.id.clone() };
    let (agents, next) = page::of(agents, &asked, place)?;
    Ok(Json(Many { agents: agents.into_iter().map(Shown::from).collect(), next }))
}

/// `POST /agents` with `{"name"}`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let name = named(&body, "Agent")?;
    let agent = api.store.create_agent(&project, &name, api.clock.now()).await?.into();
    Ok((StatusCode::CREATED, Json(One { agent })))
}

/// A profile as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownProfile {
    #[serde(rename = "_id")]
    id: String,
    workspace_id: &'static str,
    agent_id: String,
    #[serde(flatten)]
    profile: AgentProfile,
    created_at: String,
    updated_at: String,
}

impl ShownProfile {
    fn of(agent_id: String, saved: SavedProfile) -> Self {
        Self {
            id: saved.id,
            workspace_id: "local",
            agent_id,
            profile: saved.profile,
            created_at: saved.created_at.iso(),
            updated_at: saved.updated_at.iso(),
        }
    }

    /// As it is shown to `holder`: channels hold addresses.
    fn to(mut self, holder: &Holder) -> Self {
        if !holder.sees_addresses() {
            for channel in &mut self.profile.channels {
                *channel = masked_channel(channel);
            }
        }
        self
    }
}

/// A profile, or null where nobody said how the agent is watched.
#[derive(Serialize)]
pub(super) struct OneProfile {
    profile: Option<ShownProfile>,
}

/// `GET /monitor/profiles/:agentId`.
pub(super) async fn profile(
    State(api): State<Arc<Api>>,
    holder: Holder,
    Id(agent): Id,
) -> Result<Json<OneProfile>, ApiError> {
    let saved = api.store.agent_profile(&holder.key.project, &agent).await?;
    Ok(Json(OneProfile { profile: saved.map(|saved| ShownProfile::of(agent, saved).to(&holder)) }))
}

/// `PUT /monitor/profiles/:agentId`: a sparse patch, of the defaults where nobody said anything before.
pub(super) async fn set_profile(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(agent): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<OneProfile>, ApiError> {
    let change = |profile: AgentProfile| profile.patched(&patch);
    let saved = api.store.change_agent_profile(&project, &agent, api.clock.now(), change).await??;
    Ok(Json(OneProfile { profile: Some(ShownProfile::of(agent, saved)) }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_body_without_a_usable_name_is_refused() {
        for body in [json!({}), json!({"name": ""}), json!({"name": "  "}), json!({"name": 7}), Value::Null] {
            assert!(named(&body, "Agent").is_err(), "{body}");
        }
        assert_eq!(named(&json!({"name": " shop "}), "Agent").expect("a name"), "shop");
    }
}
