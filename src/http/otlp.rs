//! `POST /v1/traces` and `/v1/logs`: OTLP/HTTP, as protobuf or JSON. What can be read is stored; what can't is named in the answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prost::Message as _;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::body::{Media, Payload, aside};
use super::error::ApiError;
use crate::domain::ids::ProjectId;
use crate::domain::merge::Fate;
use crate::ingest::{DecodeError, Decoded, otlp};

/// `ExportTraceServiceResponse`, and `ExportLogsServiceResponse`, which is the same but for one name in JSON.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess` and `ExportLogsPartialSuccess`.
#[derive(Clone, PartialEq, prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

impl Answer {
    /// In JSON, where 64-bit integers are text.
    fn json(&self, rejected: &str) -> Value {
        self.partial_success.as_ref().map_or_else(|| json!({}), |remark| {
            json!({"partialSuccess": {rejected: remark.rejected.to_string(), "errorMessage": remark.error_message}})
        })
    }
}

/// What the two routes differ in.
struct Signal {
    json: fn(&[u8]) -> Result<Decoded, DecodeError>,
    protobuf: fn(&[u8]) -> Result<Decoded, DecodeError>,
    /// What counts the refused in a JSON answer.
    rejected: &'static str,
}

const TRACES: Signal = Signal { json: otlp::json, protobuf: otlp::protobuf, rejected: "rejectedSpans" };
const LOGS: Signal = Signal { json: otlp::json_logs, protobuf: otlp::protobuf_logs, rejected: "rejectedLogRecords" };

/// From this size on, in bytes, a body is decoded on a thread of its own.
const LARGE: usize = 256 * 1024;

/// How many refusals and warnings an answer names.
const NAMED: usize = 20;

/// Receives one batch of spans. Answers once everything that could be read is stored.
pub(super) async fn receive(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    payload: Payload,
) -> Result<Response, ApiError> {
    take(&api, project, payload, &TRACES).await
}

/// Receives one batch of log records, of which those are stored that tell what their spans took in and gave out.
pub(super) async fn receive_logs(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    payload: Payload,
) -> Result<Response, ApiError> {
    take(&api, project, payload, &LOGS).await
}

async fn take(
    api: &Api,
    project: ProjectId,
    Payload { media, bytes }: Payload,
    signal: &Signal,
) -> Result<Response, ApiError> {
    let decode = match media {
        Media::Json => signal.json,
        Media::Protobuf => signal.protobuf,
        Media::Other => {
            return Err(ApiError::unsupported(
                "OTLP is taken with content-type: application/x-protobuf or application/json",
            ));
        }
    };
    let is_large = bytes.len() >= LARGE;
    let decode = move || decode(&bytes).map_err(|error| ApiError::unreadable(error.to_string()));
    let decoded = if is_large { aside(decode).await? } else { decode()? };
    let mut partial_success = remarks(&decoded);
    if !decoded.refused.is_empty() || decoded.adjusted_times > 0 {
        let (refused, adjusted_times) = (decoded.refused.len(), decoded.adjusted_times);
        tracing::info!(%project, stored = decoded.spans.len(), refused, adjusted_times, "a batch was taken in part");
    }
    let receipt = api.writer.store(project, decoded.spans).await?;
    let dropped = receipt.fates.iter().filter(|fate| **fate == Fate::Dropped).count();
    if dropped > 0 {
        let remark = partial_success.get_or_insert_default();
        remark.rejected += i64::try_from(dropped).unwrap_or(i64::MAX);
        let joint = if remark.error_message.is_empty() { "" } else { "; " };
        let said = std::mem::take(&mut remark.error_message);
        remark.error_message = format!("{said}{joint}{dropped} spans of quarantined sessions were dropped");
    }
    let answer = Answer { partial_success };
    Ok(if media == Media::Json {
        Json(answer.json(signal.rejected)).into_response()
    } else {
        ([(CONTENT_TYPE, "application/x-protobuf")], answer.encode_to_vec()).into_response()
    })
}

/// What the sender should know beside that the rest is stored; `None` where all is well.
fn remarks(decoded: &Decoded) -> Option<PartialSuccess> {
    let mut remarks: Vec<String> = decoded.refused.iter().map(ToString::to_string).collect();
    remarks.extend(decoded.warnings.iter().cloned());
    let more = remarks.len().saturating_sub(NAMED);
    remarks.truncate(NAMED);
    if more > 0 {
        remarks.push(format!("and {more} more"));
    }
    if decoded.adjusted_times > 0 {
        remarks.push(format!(
            "{} spans claimed times outside 1970-2261 and are kept without them, under their time of arrival",
            decoded.adjusted_times
        ));
    }
    (!remarks.is_empty()).then(|| PartialSuccess {
        rejected: i64::try_from(decoded.refused.len()).unwrap_or(i64::MAX),
        error_message: remarks.join("; "),
    })
}
