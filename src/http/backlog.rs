//! `GET /agent-monitoring/backlog`: how much work waits for each group, why, and for how long.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use crate::domain::backlog::{Drain, Lane};
use crate::domain::block::{Block, Cause};
use crate::domain::ids::GroupId;
use crate::domain::time::Timestamp;

/// The work of one group.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    group_id: GroupId,
    group_name: String,
    due: i64,
    in_work: i64,
    /// Sessions whose next try is later.
    put_off: i64,
    oldest_due_at: Option<String>,
    blocked: Option<Blocked>,
    /// Verdicts within the last ten minutes.
    verdicts: i64,
    /// How long until what is due is judged at that pace.
    drain: Drain,
}

/// Why a group's sessions are left alone.
#[derive(Serialize)]
struct Blocked {
    cause: Cause,
    reason: String,
    since: String,
    until: Option<String>,
}

/// The groups of a project, by name.
#[derive(Serialize)]
pub(super) struct Backlog {
    groups: Vec<Shown>,
}

impl Shown {
    fn of(lane: Lane, now: Timestamp) -> Self {
        let drain = lane.drain(now);
        let blocked = |block: Block| Blocked {
            cause: block.cause,
            reason: block.reason,
            since: block.since.iso(),
            until: block.until.map(Timestamp::iso),
        };
        Self {
            group_id: lane.group,
            group_name: lane.name,
            due: lane.due,
            in_work: lane.in_work,
            put_off: lane.put_off,
            oldest_due_at: lane.oldest_due_at.map(Timestamp::iso),
            blocked: lane.block.map(blocked),
            verdicts: lane.verdicts,
            drain,
        }
    }
}

/// The backlog of the caller's project.
pub(super) async fn read(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<Backlog>, ApiError> {
    let now = api.clock.now();
    let lanes = api.store.backlog(&project, now).await?;
    Ok(Json(Backlog { groups: lanes.into_iter().map(|lane| Shown::of(lane, now)).collect() }))
}
