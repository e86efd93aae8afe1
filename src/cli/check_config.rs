//! `afterword check-config`: whether the configuration is accepted, and what is in effect.

use crate::config::{self, ConfigError, Sources};
use crate::domain::time::Timestamp;

/// Every setting in effect as TOML, secrets masked, under a line that says which file was read.
///
/// # Errors
/// [`ConfigError`] where the configuration is refused.
pub fn answer(sources: &Sources, now: Timestamp) -> Result<String, ConfigError> {
    let loaded = config::load(sources, now)?;
    let file = match &loaded.file {
        Some(path) => format!("read from {}", path.display()),
        None => "no file was read".to_owned(),
    };
    Ok(format!("# Accepted; {file}. What has no origin beside it is the default.\n\n{}", loaded.show()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_a_configuration_again() {
        let now = Timestamp::parse("2026-11-30T00:00:00Z").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources {
            variables: vec![("AFTERWORD__LOG__FORMAT".into(), "json".into())],
            folder: folder.path().to_owned(),
            ..Sources::default()
        };
        let printed = answer(&sources, now).unwrap();
        assert!(printed.starts_with("# Accepted; no file was read"), "{printed}");
        assert!(printed.contains("# AFTERWORD__LOG__FORMAT"), "{printed}");
        std::fs::write(folder.path().join("config.toml"), &printed).unwrap();
        let again = answer(&Sources { folder: folder.path().to_owned(), ..Sources::default() }, now).unwrap();
        assert!(again.contains("format = \"json\""), "{again}");
    }
}
