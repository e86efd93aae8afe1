//! Lists a page at a time: the cursor says where the next page begins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::request::Asked;
use crate::store::Place;

/// Whether more follows, and from where on.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Next {
    has_next_page: bool,
    next_cursor: Option<String>,
}

impl Next {
    /// Nothing follows, or what lies behind `place`.
    pub(super) fn after(place: Option<&impl Serialize>) -> Self {
        Self { has_next_page: place.is_some(), next_cursor: place.map(cursor_of) }
    }

    /// Cuts `rows`, read with one more than `limit`, and tells what follows the last that is kept.
    pub(super) fn cut<T, P: Serialize>(rows: &mut Vec<T>, limit: usize, place: impl Fn(&T) -> P) -> Self {
        let is_more = rows.len() > limit;
        rows.truncate(limit);
        Self::after(rows.last().filter(|_| is_more).map(place).as_ref())
    }
}

/// The most on a page of a list that is read whole.
const MOST: usize = 1_000;

/// The page that is asked for of a list that is read whole, the latest first: all of it where no `limit` is given.
pub(super) fn of<T>(mut rows: Vec<T>, asked: &Asked, at: impl Fn(&T) -> Place) -> Result<(Vec<T>, Next), ApiError> {
    let limit = asked.limit(usize::MAX, MOST)?;
    if let Some(behind) = place::<Place>(asked)? {
        rows.retain(|row| {
            let here = at(row);
            here.at < behind.at || (here.at == behind.at && here.id > behind.id)
        });
    }
    let next = Next::cut(&mut rows, limit, at);
    Ok((rows, next))
}

fn cursor_of(place: &impl Serialize) -> String {
    // Places are plain values, which always have a text.
    URL_SAFE_NO_PAD.encode(serde_json::to_string(place).unwrap_or_default())
}

/// `cursor`: the place that an earlier answer gave; `None` for the first page.
pub(super) fn place<P: DeserializeOwned>(asked: &Asked) -> Result<Option<P>, ApiError> {
    let Some(text) = asked.get("cursor") else { return Ok(None) };
    let place = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    place.map(Some).ok_or_else(|| ApiError::bad_request("cursor must be a nextCursor of this route"))
}
