//! The configuration as text: valid TOML, secrets masked, each setting that was given with where it came from.

use std::fmt::Write as _;

use toml::Table;

use super::{Loaded, SECTIONS};

impl Loaded {
    /// Every setting in effect, as TOML. Passwords are `***`; a key is `<set>` or `<unset>`.
    pub fn show(&self) -> String {
        let table = Table::try_from(&self.config).unwrap_or_default();
        let mut text = String::new();
        for (section, settings) in SECTIONS {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{section}]");
            for setting in settings {
                let Some(value) = table.get(section).and_then(|entries| entries.get(setting.key)) else { continue };
                let line = format!("{} = {value}", setting.key);
                let _ = match self.origins.get(&format!("{section}.{}", setting.key)) {
                    Some(origin) => writeln!(text, "{line:<50}  # {origin}"),
                    None => writeln!(text, "{line}"),
                };
            }
        }
        text
    }
}
