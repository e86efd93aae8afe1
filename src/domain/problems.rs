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

/// Reads the fields of a body one by one. Each form adds its own readings to it where it is read.
#[derive(Debug)]
pub struct Reader<'a> {
    /// What is read.
    pub object: &'a Map<String, Value>,
    /// What is wrong with it so far.
    pub problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    /// Reads `body`, which must be an object.
    pub fn new(body: &'a Value, problems: &'a mut Problems) -> Self {
        Self { object: problems.object(body), problems }
    }

    /// The value of a key; `null` counts as absent.
    pub fn given(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// The value of a key as `read` has it. Where it is given and can't be read, that is a problem: it must be what is `wanted`.
    pub fn read<T>(&mut self, key: &str, wanted: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let given = self.given(key)?;
        let value = read(given);
        self.problems.unless(value.is_some(), || format!("{key} must be {wanted}"));
        value
    }

    /// Sets a field where its key is given and can be read.
    pub fn set<T>(&mut self, field: &mut T, key: &str, wanted: &str, read: impl FnOnce(&'a Value) -> Option<T>) {
        if let Some(value) = self.read(key, wanted, read) {
            *field = value;
        }
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
