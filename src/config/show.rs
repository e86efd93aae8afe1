//! The configuration as text: valid TOML, secrets masked, each setting that is not the default with where it came from.

use std::fmt::Write as _;

use toml::Table;

use super::{Config, Loaded, SECTIONS};

impl Loaded {
    /// Every setting in effect, as TOML; beside those that are not the default, where they come from. Passwords are `***`, a
    /// key is `<set>` or `<unset>`.
    pub fn show(&self) -> String {
        let table = |config: &Config| Table::try_from(config).unwrap_or_default();
        let (table, defaults) = (table(&self.config), table(&Config::default()));
        let mut text = String::new();
        for (section, settings) in SECTIONS {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{section}]");
            for setting in settings {
                let value_in = |table: &Table| table.get(section)?.get(setting.key).cloned();
                let Some(value) = value_in(&table) else { continue };
                let line = format!("{} = {value}", setting.key);
                let origin = self.origins.get(&format!("{section}.{}", setting.key));
                let _ = match origin.filter(|_| value_in(&defaults).as_ref() != Some(&value)) {
                    Some(origin) => writeln!(text, "{line:<50}  # {origin}"),
                    None => writeln!(text, "{line}"),
                };
            }
        }
        text
    }
}
