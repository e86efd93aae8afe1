//! Telemetry: where log lines go and which of them are written.

use std::io;

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The form of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// Why a text is no log filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{part}` is no log filter; use error, warn, info, debug, trace or off, and `module=level` for single modules, \
     joined by commas: info,afterword::worker=debug"
)]
pub struct BadFilter {
    part: String,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter can't be read.
    #[error(transparent)]
    Filter(#[from] BadFilter),
    /// Logging was set up before in this process.
    #[error("logging is already set up in this process")]
    AlreadySetUp,
}

/// Sends log lines to standard error from here on. `level` is a filter such as `info` or `info,afterword::worker=debug`;
/// `colour` applies to text only. Statements sent to the database, and what a server remarks in passing, are logged only where the
/// filter names `sqlx`; what it says of connections that break is told by this program, in words that somebody can act on.
///
/// # Errors
/// [`TelemetryError`] where the filter can't be read, or logging was set up before.
pub fn init(level: &str, format: Format, colour: bool) -> Result<(), TelemetryError> {
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter(level)?).with_writer(io::stderr);
    let outcome = match format {
        Format::Text => subscriber.with_ansi(colour).try_init(),
        Format::Json => subscriber.json().flatten_event(true).try_init(),
    };
    outcome.map_err(|_| TelemetryError::AlreadySetUp)
}

/// Reads a log filter, strictly: a misspelt level is an error, where the usual reading takes it for a module's name and
/// falls silent.
///
/// # Errors
/// [`BadFilter`] names the part that can't be read.
pub fn filter(text: &str) -> Result<EnvFilter, BadFilter> {
    let mut parts = vec![text];
    let names_spans = text.contains(['[', '{']);
    if !names_spans {
        parts = text.split(',').map(str::trim).collect();
        for part in &parts {
            let level = part.split_once('=').map_or(*part, |(_, level)| level);
            if level.is_empty() || level.parse::<LevelFilter>().is_err() {
                return Err(BadFilter { part: (*part).to_owned() });
            }
        }
    }
    let quiet = if text.contains("sqlx") { "" } else { "sqlx=error,sqlx_postgres::options=warn," };
    EnvFilter::builder().parse(format!("{quiet}{}", parts.join(","))).map_err(|_| BadFilter { part: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_module_levels_are_filters() {
        for good in
            ["info", "WARN", "off", "info,afterword::worker=debug", "info, hyper=off", "[sweep{project=a}]=debug,info"]
        {
            assert!(filter(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_misspelt_level_is_an_error_and_not_the_name_of_a_module() {
        for (bad, part) in [
            ("inof", "inof"),
            ("info,afterword=loud", "afterword=loud"),
            ("", ""),
            ("info,", ""),
            ("info warn", "info warn"),
        ] {
            let error = filter(bad).unwrap_err();
            assert_eq!(error, BadFilter { part: part.into() }, "{bad}");
            assert!(error.to_string().contains("debug"), "{error}");
        }
    }

    #[test]
    fn statements_are_logged_only_where_the_filter_names_sqlx() {
        let quiet = filter("debug").unwrap().to_string();
        assert!(quiet.contains("sqlx=error"), "{quiet}");
        assert!(!filter("info,sqlx=debug").unwrap().to_string().contains("sqlx=error"));
    }
}
