//! Problems: everything wrong with what someone wants to save, told in one answer.

use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The problems found in one thing to be saved, each naming its field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<String>);

impl Problems {
    /// None found yet.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    /// Adds one where `fine` does not hold.
    pub fn unless(&mut self, fine: bool, problem: impl FnOnce() -> String) {
        if !fine {
            self.0.push(problem());
        }
    }

    /// The object that a body must be. Where it is something else that is a problem, and an empty object stands in, so that
    /// reading goes on.
    pub fn object<'a>(&mut self, body: &'a Value) -> &'a Map<String, Value> {
        static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        body.as_object().unwrap_or_else(|| {
            self.add("the body must be a JSON object");
            &EMPTY
        })
    }

    /// `value` where nothing is wrong.
    ///
    /// # Errors
    /// The problems themselves, where there are any.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Problems {
    fn from(problem: String) -> Self {
        Self(vec![problem])
    }
}

impl From<&str> for Problems {
    fn from(problem: &str) -> Self {
        Self(vec![problem.to_owned()])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Problems {}
