//! Projects: made below the caller's own, listed and deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::ExposeSecret as _;
use serde::Serialize;

use super::Api;
use super::auth::Holder;
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id, named};
use crate::domain::access::Scopes;
use crate::store::{KeyRow, Place, Project};

/// A project as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    is_default: bool,
    created_at: String,
    /// Its first key, in the one answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
}

impl From<Project> for Shown {
    fn from(project: Project) -> Self {
        Self {
            id: project.id.into(),
            name: project.name,
            is_default: project.is_default,
            created_at: project.created_at.iso(),
            api_key: None,
        }
    }
}

/// The projects within a key's reach.
#[derive(Serialize)]
pub(super) struct Many {
    projects: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

/// One project.
#[derive(Serialize)]
pub(super) struct One {
    project: Shown,
}

/// `GET /projects`: the caller's own and those made below it, newest first.
pub(super) async fn list(State(api): State<Arc<Api>>, holder: Holder, asked: Asked) -> Result<Json<Many>, ApiError> {
    let projects = api.store.projects_of(&holder.key.project).await?;
    let place = |project: &Project| Place { at: project.created_at, id: project.id.to_string() };
    let (projects, next) = page::of(projects, &asked, place)?;
    Ok(Json(Many { projects: projects.into_iter().map(Shown::from).collect(), next }))
}

/// `POST /projects` with `{"name"}`: the answer shows the project's first key, once. It may do everything, so only a key that may
/// do everything, without an end, makes one; it is held to the rate of the key that made it.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    holder: Holder,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let name = named(&body, "Project")?;
    if holder.key.scopes != Scopes::ALL || holder.key.expires_at.is_some() {
        return Err(ApiError::forbidden("Only a key that may do everything and does not end makes projects"));
    }
    let KeyRow { project, requests_per_minute, .. } = &holder.key;
    let made = api.store.create_project(project, &name, *requests_per_minute, holder.now).await?;
    let (project, key) = made.ok_or_else(|| ApiError::conflict("A project of that name exists; choose another"))?;
    let api_key = Some(key.text.expose_secret().to_owned());
    Ok((StatusCode::CREATED, Json(One { project: Shown { api_key, ..project.into() } })))
}

/// `DELETE /projects/:id`: a project that was made below the caller's own is shut.
pub(super) async fn remove(State(api): State<Arc<Api>>, holder: Holder, Id(id): Id) -> Result<StatusCode, ApiError> {
    if id == holder.key.project.as_str() {
        return Err(ApiError::conflict("A project can't delete itself; use a key of the project that made it"));
    }
    if api.store.delete_project(&holder.key.project, &id, holder.now).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::not_found("Project not found"))
    }
}
