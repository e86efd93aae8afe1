//! Bodies: read whole, within the limit, unpacked, and what they claim to be.

use std::io::Read;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::Api;
use super::error::ApiError;
use super::guard::Arrival;

/// What a body claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    /// JSON.
    Json,
    /// Protobuf.
    Protobuf,
    /// Anything else, or nothing was said.
    Other,
}

/// A body, whole and unpacked.
pub(super) struct Payload {
    /// What it claims to be.
    pub(super) media: Media,
    /// Its bytes, at most `body_limit_bytes`.
    pub(super) bytes: Bytes,
}

impl FromRequest<Arc<Api>> for Payload {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let media = media(&parts.headers);
        let packing = packing(&parts.headers)?;
        let limit = api.settings.body_limit_bytes;
        let bytes = gather(body, &parts.headers, limit).await?;
        if let Some(arrival) = parts.extensions.get::<Arrival>() {
            arrival.complete();
        }
        let bytes = match packing {
            Some(packing) if !bytes.is_empty() => {
                let unpack = move || packing.unpack(&bytes, limit);
                Bytes::from(aside(unpack).await?)
            }
            _ => bytes,
        };
        Ok(Self { media, bytes })
    }
}

/// A body of JSON. No body at all is null, whatever the content type says.
pub(super) struct JsonBody(pub(super) Value);

impl FromRequest<Arc<Api>> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let Payload { media, bytes } = Payload::from_request(request, api).await?;
        if bytes.is_empty() {
            return Ok(Self(Value::Null));
        }
        if media != Media::Json {
            return Err(ApiError::unsupported("The body must be JSON, with content-type: application/json"));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| malformed(&error))
    }
}

/// A body that is no JSON. The error tells the place and what was expected there, never the text.
pub(super) fn malformed(error: &serde_json::Error) -> ApiError {
    ApiError::unreadable(format!("Malformed JSON: {error}"))
}

/// How much of such work goes on at once. What is unpacked or decoded may take many times the room that it came in, and so
/// little may have been sent for it that nothing else bounds how much of it there is.
static AT_ONCE: Semaphore = Semaphore::const_new(4);

/// Runs work that may take long, or much room, on a thread where it keeps no other request waiting.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    // The semaphore is never closed, so this always waits for a place.
    let place = AT_ONCE.acquire().await;
    let work = move || {
        // Work goes on where its request was given up, and keeps its place for as long.
        let _place = place;
        work()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(ApiError::unavailable("The server is stopping", 5)),
    }
}

fn media(headers: &HeaderMap) -> Media {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" | "text/json" => Media::Json,
        "application/x-protobuf" | "application/protobuf" => Media::Protobuf,
        other if other.ends_with("+json") => Media::Json,
        _ => Media::Other,
    }
}

/// How a body is packed.
#[derive(Debug, Clone, Copy)]
enum Packing {
    Gzip,
    Deflate,
}

fn packing(headers: &HeaderMap) -> Result<Option<Packing>, ApiError> {
    let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(None) };
    match value.to_str().unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(None),
        "gzip" | "x-gzip" => Ok(Some(Packing::Gzip)),
        "deflate" => Ok(Some(Packing::Deflate)),
        _ => Err(ApiError::unsupported("The content encoding must be gzip, deflate or identity")),
    }
}

impl Packing {
    fn unpack(self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, ApiError> {
        let (name, reader): (_, Box<dyn Read>) = match self {
            Self::Gzip => ("gzip", Box::new(MultiGzDecoder::new(bytes))),
            Self::Deflate => ("deflate", Box::new(ZlibDecoder::new(bytes))),
        };
        let mut unpacked = Vec::new();
        let read = reader.take(limit as u64 + 1).read_to_end(&mut unpacked);
        if unpacked.len() > limit {
            return Err(ApiError::too_large(limit));
        }
        read.map_err(|error| ApiError::unreadable(format!("The {name} body can't be unpacked: {error}")))?;
        Ok(unpacked)
    }
}

/// How many times the limit is read and thrown away, so that a sender that only listens once it has sent everything still
/// hears that it was too much.
const DRAINED: usize = 4;

/// The whole body, as it was sent.
pub(super) async fn gather(mut body: Body, headers: &HeaderMap, limit: usize) -> Result<Bytes, ApiError> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) && headers.contains_key(EXPECT) {
        return Err(ApiError::too_large(limit));
    }
    let mut first = Bytes::new();
    let mut joined: Vec<u8> = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::unreadable(format!("The body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limit.saturating_mul(1 + DRAINED) {
            break;
        }
        if length > limit {
            continue;
        }
        // Small bodies come in one piece, which is handed on as it is.
        if length == data.len() {
            first = data;
            continue;
        }
        if joined.is_empty() {
            joined.reserve(announced.unwrap_or(length).min(limit));
            joined.extend_from_slice(&first);
        }
        joined.extend_from_slice(&data);
    }
    if length > limit {
        return Err(ApiError::too_large(limit));
    }
    Ok(if joined.is_empty() { first } else { Bytes::from(joined) })
}
