//! Lists a page at a time: the cursor says where the next page begins.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::request::{Asked, cursor};

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
        Self { has_next_page: place.is_some(), next_cursor: place.map(cursor) }
    }

    /// Cuts `rows`, read with one more than `limit`, and tells what follows the last that is kept.
    pub(super) fn cut<T, P: Serialize>(rows: &mut Vec<T>, limit: usize, place: impl Fn(&T) -> P) -> Self {
        let is_more = rows.len() > limit;
        rows.truncate(limit);
        Self::after(rows.last().filter(|_| is_more).map(place).as_ref())
    }
}

/// The most on a page of a list that is read whole.
pub(super) const MOST: usize = 1_000;

/// The page that is asked for of a list that is read whole: all of it where no `limit` is given. `place` grows along the list.
pub(super) fn of<T, P>(rows: Vec<T>, asked: &Asked, place: impl Fn(&T) -> P) -> Result<(Vec<T>, Next), ApiError>
where
    P: PartialOrd + Serialize + DeserializeOwned,
{
    within(rows, asked, asked.limit(usize::MAX, MOST)?, place)
}

/// The page of `limit` that is asked for of a list that is read whole. `place` grows along the list.
pub(super) fn within<T, P>(
    mut rows: Vec<T>,
    asked: &Asked,
    limit: usize,
    place: impl Fn(&T) -> P,
) -> Result<(Vec<T>, Next), ApiError>
where
    P: PartialOrd + Serialize + DeserializeOwned,
{
    if let Some(behind) = asked.cursor::<P>()? {
        rows.retain(|row| place(row) > behind);
    }
    let next = Next::cut(&mut rows, limit, place);
    Ok((rows, next))
}
