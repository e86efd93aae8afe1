//! Entity tags: whether the caller has the present state of something, or edits the state that it read.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;

use super::error::ApiError;

/// The tag of a version, as a header.
pub(super) fn tagged(version: i64) -> [(HeaderName, String); 1] {
    [(ETAG, tag(version))]
}

fn tag(version: i64) -> String {
    format!("\"{version}\"")
}

/// What the request's headers ask of the state.
pub(super) struct Conditions {
    matches: Option<Vec<String>>,
    differs: Option<Vec<String>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self { matches: tags(&parts.headers, &IF_MATCH), differs: tags(&parts.headers, &IF_NONE_MATCH) })
    }
}

impl Conditions {
    /// Whether an edit is bound to a state.
    pub(super) fn is_bound(&self) -> bool {
        self.matches.is_some()
    }

    /// 412 where `If-Match` names other states than this one.
    pub(super) fn check(&self, version: i64) -> Result<(), ApiError> {
        let present = tag(version);
        match &self.matches {
            Some(tags) if !tags.iter().any(|tag| tag == "*" || *tag == present) => {
                Err(ApiError::precondition_failed(&present))
            }
            _ => Ok(()),
        }
    }

    /// Whether `If-None-Match` names this state: the caller has it.
    pub(super) fn knows(&self, version: i64) -> bool {
        let present = tag(version);
        let is_it = |tag: &String| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == present;
        self.differs.as_ref().is_some_and(|tags| tags.iter().any(is_it))
    }
}

/// The tags that a header lists, over all its lines; `None` where it is absent.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    headers.contains_key(name).then(|| {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).map(|tag| tag.trim().to_owned()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(matches: &[&str], differs: &[&str]) -> Conditions {
        let list = |tags: &[&str]| (!tags.is_empty()).then(|| tags.iter().map(|&tag| tag.to_owned()).collect());
        Conditions { matches: list(matches), differs: list(differs) }
    }

    #[test]
    fn an_edit_is_bound_to_the_states_it_names() {
        for (tags, holds) in [
            (&[][..], true),
            (&["*"], true),
            (&["\"3\""], true),
            (&["\"2\"", "\"3\""], true),
            (&["\"2\""], false),
            (&["W/\"3\""], false),
            (&["3"], false),
            (&[""], false),
        ] {
            assert_eq!(conditions(tags, &[]).check(3).is_ok(), holds, "{tags:?}");
        }
    }

    #[test]
    fn a_caller_has_a_state_that_it_names_weakly_too() {
        for (tags, knows) in
            [(&[][..], false), (&["*"], true), (&["W/\"3\""], true), (&["\"2\"", "\"3\""], true), (&["\"2\""], false)]
        {
            assert_eq!(conditions(&[], tags).knows(3), knows, "{tags:?}");
        }
    }
}
