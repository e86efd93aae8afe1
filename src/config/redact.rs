//! `[redact]`: what is hidden before a conversation is shown to a judge, where a project says nothing else.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::setting::{Allowed, Setting};
use crate::domain::redact::Kind;

/// What is hidden from judges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redact {
    /// The kinds of secrets and personal data.
    pub kinds: Vec<Kind>,
}

pub(super) const SETTINGS: &[Setting] = &[Setting { key: "kinds", allowed: Allowed::Shaped(check_kinds) }];

fn check_kinds(value: &Value) -> Result<(), String> {
    let known = |kind: &Value| kind.as_str().is_some_and(|name| Kind::from_name(name).is_some());
    if value.as_array().is_some_and(|kinds| kinds.iter().all(known)) {
        return Ok(());
    }
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    Err(format!("must be a list of any of \"{}\"", names.join("\", \"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_a_list_of_known_words() {
        assert_eq!(check_kinds(&Value::Array(Vec::new())), Ok(()));
        assert_eq!(check_kinds(&Value::Array(vec!["email".into(), "card".into()])), Ok(()));
        for bad in [Value::Array(vec!["emails".into()]), Value::String("email".into()), Value::Array(vec![1.into()])] {
            assert!(check_kinds(&bad).unwrap_err().contains("\"email\""), "{bad}");
        }
    }
}
