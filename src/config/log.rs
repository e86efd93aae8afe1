//! `[log]`: what is logged, and how.

use serde::{Deserialize, Serialize};

use super::setting::{Allowed, Setting};
use crate::telemetry::{self, Format};

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A filter that [`telemetry::filter`] reads.
    pub level: String,
    /// The form of a line.
    pub format: Format,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: Format::Text }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "level", allowed: Allowed::Text(check_level) },
    Setting { key: "format", allowed: Allowed::OneOf(&["text", "json"]) },
];

fn check_level(text: &str) -> Result<(), String> {
    telemetry::filter(text).map(drop).map_err(|error| error.to_string())
}
