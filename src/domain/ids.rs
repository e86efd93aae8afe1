//! Identifiers: opaque text, one type per kind of thing, so that a session can't be passed for a group.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest identifier accepted, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 512;

/// A name that a sender chose, as far as it is kept: no further than an id may be long.
pub fn bounded(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_ID_BYTES)]
}

/// Why a text can't be an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    /// The text is empty.
    #[error("must not be empty")]
    Empty,
    /// The text is longer than [`MAX_ID_BYTES`]; holds its length in bytes.
    #[error("is {0} bytes long, at most {MAX_ID_BYTES} are allowed")]
    TooLong(usize),
    /// The text holds a control character (zero bytes included).
    #[error("must not contain control characters")]
    ControlCharacter,
}

/// Checks that `text` may serve as an identifier.
///
/// # Errors
/// [`BadId`] says what is wrong with it.
pub fn check_id(text: &str) -> Result<(), BadId> {
    if text.is_empty() {
        return Err(BadId::Empty);
    }
    if text.len() > MAX_ID_BYTES {
        return Err(BadId::TooLong(text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(BadId::ControlCharacter);
    }
    Ok(())
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a text that is known to be well-formed: read back from the store or made by this process.
            pub fn trusted(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Checks a text that came from outside.
            ///
            /// # Errors
            /// [`BadId`] says what is wrong with it.
            pub fn parse(text: &str) -> Result<Self, BadId> {
                check_id(text).map(|()| Self(text.to_owned()))
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    )+};
}

ids! {
    /// A project: the tenant. It comes from the API key alone.
    ProjectId,
    /// A session: one conversation of one project. Where things are assessed it may stand for a single trace instead, see
    /// [`SessionId::of_trace`].
    SessionId,
    /// A trace. Spans of the existing client carry none: there it is the id of the top-most span that parent links reach.
    TraceId,
    /// A span, unique in its trace.
    SpanId,
    /// A scorer group.
    GroupId,
    /// A scorer: judge, pattern or custom.
    ScorerId,
    /// A signal.
    SignalId,
    /// A verdict.
    VerdictId,
}

/// What the id of a subject begins with that is a single trace. No session's id does: they hold no control characters, and in
/// the store's bytewise order they all come behind it.
const TRACE_MARK: char = '\u{1}';

impl SessionId {
    /// The subject that is one trace, judged by itself, in the place of a session.
    pub fn of_trace(trace: &TraceId) -> Self {
        Self(format!("{TRACE_MARK}{trace}"))
    }

    /// The trace, where the subject is one.
    pub fn as_trace(&self) -> Option<TraceId> {
        self.0.strip_prefix(TRACE_MARK).map(TraceId::trusted)
    }

    /// Whether the subject is a single trace.
    pub fn is_trace(&self) -> bool {
        self.0.starts_with(TRACE_MARK)
    }

    /// The session, where the subject is one and no single trace.
    pub fn as_session(&self) -> Option<Self> {
        (!self.is_trace()).then(|| self.clone())
    }

    /// What people call the subject: `session s1`, or `trace t1`.
    pub fn named(&self) -> String {
        format!("{} {}", if self.is_trace() { "trace" } else { "session" }, self.bare())
    }

    /// The id by which people know the subject: the session's, or the trace's.
    pub fn bare(&self) -> &str {
        self.0.strip_prefix(TRACE_MARK).unwrap_or(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_at_most_512_bytes_without_control_characters() {
        assert_eq!(check_id("会話-42"), Ok(()));
        assert_eq!(check_id(&"é".repeat(256)), Ok(()));
        assert_eq!(check_id(&"é".repeat(257)), Err(BadId::TooLong(514)));
        assert_eq!(check_id(""), Err(BadId::Empty));
        for bad in ["\u{1}t", "a\0b", "a\nb", "\u{7f}", "\u{85}"] {
            assert_eq!(check_id(bad), Err(BadId::ControlCharacter), "{bad:?}");
        }
    }

    #[test]
    fn a_trace_stands_in_the_place_of_a_session_and_is_never_taken_for_one() {
        let trace = TraceId::trusted("4bf92f35");
        let subject = SessionId::of_trace(&trace);
        assert_eq!((subject.as_trace(), subject.is_trace(), subject.bare()), (Some(trace), true, "4bf92f35"));
        let session = SessionId::trusted("4bf92f35");
        assert_eq!((session.as_trace(), session.is_trace(), session.bare()), (None, false, "4bf92f35"));
        assert!(subject.as_str() < " " && check_id(subject.as_str()).is_err());
    }
}
