//! `[outgoing]`: calls to addresses that users choose.

use serde::{Deserialize, Serialize};

use super::setting::{Allowed, Setting};

/// Calls to addresses that users choose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outgoing {
    /// Whether they may lead to this machine and into private networks.
    pub allow_private: bool,
}

pub(super) const SETTINGS: &[Setting] = &[Setting { key: "allow_private", allowed: Allowed::YesOrNo }];
