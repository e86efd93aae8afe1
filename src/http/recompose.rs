//! Re-composition through the API: the present recipe of a group applied to stored outcomes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::groups;
use super::request::Id;
use crate::domain::ids::GroupId;
use crate::domain::period::Period;
use crate::domain::problems::Problems;
use crate::domain::recompose::Report;
use crate::domain::time::Timestamp;
use crate::store::{RecomposeEnd, RecomposeOrder};

/// `POST /agent-monitoring/scorer-groups/:id/recompose`, with `{from?, to?, dryRun?, signals?, scorecardId?}` or no body.
pub(super) async fn run(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<Json<Report>, ApiError> {
    let now = api.clock.now();
    let order = order(GroupId::trusted(id), &body, now)?;
    match api.store.recompose(&project, &order, now).await? {
        RecomposeEnd::Done(report) => Ok(Json(*report)),
        RecomposeEnd::NoGroup => Err(groups::missing()),
        RecomposeEnd::NoScorecard => {
            let id = order.scorecard.unwrap_or_default();
            Err(ApiError::bad_request(format!("scorecardId: no scorecard with id \"{id}\"")))
        }
    }
}

fn order(group: GroupId, body: &Value, now: Timestamp) -> Result<RecomposeOrder, Problems> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let mut problems = Problems::none();
    problems.unless(body.is_null() || body.is_object(), || "the body must be a JSON object".to_owned());
    let body = body.as_object().unwrap_or(&EMPTY);
    let mut text = |key: &str| match body.get(key) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.as_str()),
        Some(_) => {
            problems.add(format!("{key} must be text"));
            None
        }
    };
    let (from, to, scorecard) = (text("from"), text("to"), text("scorecardId").map(str::to_owned));
    let mut flag = |key: &str| match body.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => {
            problems.add(format!("{key} must be true or false"));
            false
        }
    };
    let (dry_run, signals) = (flag("dryRun"), flag("signals"));
    let period = Period::read_or_all(from, to, now).unwrap_or_else(|problem| {
        problems.add(problem);
        Period::ALL
    });
    problems.into_result(RecomposeOrder { group, period, scorecard, dry_run, signals })
}
