//! What routes read from the path and the query, checked.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ApiError;
use crate::domain::ids::check_id;
use crate::domain::period::Period;
use crate::domain::ratings::Window;
use crate::domain::time::Timestamp;

/// The id in the path: an identifier, known or not.
pub(super) struct Id(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(id) = path.map_err(|_| ApiError::bad_request("The id in the path is not percent-encoded UTF-8"))?;
        check_id(&id).map_err(|problem| ApiError::bad_request(format!("The id in the path {problem}")))?;
        Ok(Self(id))
    }
}

/// Several ids in the path, in order.
pub(super) struct Ids<const N: usize>(pub(super) [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Ids<N> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<Vec<String>>::from_request_parts(parts, state).await;
        let not_text = || ApiError::bad_request("The ids in the path are not percent-encoded UTF-8");
        let Path(ids) = path.map_err(|_| not_text())?;
        for id in &ids {
            check_id(id).map_err(|problem| ApiError::bad_request(format!("An id in the path {problem}")))?;
        }
        Ok(Self(ids.try_into().map_err(|_| not_text())?))
    }
}

/// The name in a body of something that is made by its name alone.
pub(super) fn named(body: &Value, what: &str) -> Result<String, ApiError> {
    let name = body.get("name").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::bad_request(format!("{what} name is required")));
    }
    if name.chars().count() > 200 || name.contains(char::is_control) {
        return Err(ApiError::bad_request("name must be 1-200 characters, none of them a control character"));
    }
    Ok(name.to_owned())
}

/// The query's parameters; those that a route does not know are ignored.
pub(super) struct Asked(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|_| ApiError::bad_request("The query is not of the form ?name=value&..."))?;
        Ok(Self(query))
    }
}

/// A cursor as answers show it.
pub(super) fn cursor(place: &impl Serialize) -> String {
    // Numbers and texts always make JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default())
}

impl Asked {
    /// A parameter; an empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A parameter that is an identifier or a word; empty where absent.
    pub(super) fn word(&self, name: &str) -> Result<String, ApiError> {
        let value = self.get(name).unwrap_or_default();
        if !value.is_empty() {
            check_id(value).map_err(|problem| ApiError::bad_request(format!("{name} {problem}")))?;
        }
        Ok(value.to_owned())
    }

    /// A parameter that is one of a few words; the first where absent.
    pub(super) fn one_of(&self, name: &str, words: &[&str]) -> Result<String, ApiError> {
        let value = self.get(name).unwrap_or(words[0]);
        if words.contains(&value) {
            return Ok(value.to_owned());
        }
        let said: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
        Err(ApiError::bad_request(format!("{name} must be one of: {}", said.join(", "))))
    }

    /// A parameter that is a rating, 0-10.
    pub(super) fn rating(&self, name: &str) -> Result<Option<f64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let rating = text.parse().ok().filter(|rating| (0.0..=10.0).contains(rating));
        rating.map(Some).ok_or_else(|| ApiError::bad_request(format!("{name} must be a number between 0 and 10")))
    }

    /// `cursor`: where a list goes on, as an earlier page said.
    pub(super) fn cursor<T: DeserializeOwned>(&self) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get("cursor") else { return Ok(None) };
        // No place holds a zero character, which PostgreSQL would not take.
        let json = URL_SAFE_NO_PAD.decode(text).ok().filter(|json| !json.windows(6).any(|it| it == b"\\u0000"));
        let read = json.and_then(|json| serde_json::from_slice(&json).ok());
        read.map(Some).ok_or_else(|| ApiError::bad_request("cursor must be a nextCursor of this list"))
    }

    /// `window`: how far back; 24 hours where absent.
    pub(super) fn window(&self) -> Result<Window, ApiError> {
        Window::from_name(self.get("window").unwrap_or("24h"))
            .ok_or_else(|| ApiError::bad_request("window must be one of: 24h, 7d, 30d"))
    }

    /// `from` and `to`: the period; the last 30 days where absent.
    pub(super) fn period(&self, now: Timestamp) -> Result<Period, ApiError> {
        Period::read(self.get("from"), self.get("to"), now).map_err(ApiError::bad_request)
    }

    /// `rate`: a share, 0-1.
    pub(super) fn rate(&self) -> Result<Option<f64>, ApiError> {
        let Some(text) = self.get("rate") else { return Ok(None) };
        let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
        rate.map(Some).ok_or_else(|| ApiError::bad_request("rate must be a number between 0 and 1"))
    }

    /// `limit`: how many to list.
    pub(super) fn limit(&self, default: usize, most: usize) -> Result<usize, ApiError> {
        let Some(text) = self.get("limit") else { return Ok(default) };
        let limit = text.parse().ok().filter(|limit| (1..=most).contains(limit));
        limit.ok_or_else(|| ApiError::bad_request(format!("limit must be a whole number between 1 and {most}")))
    }
}
