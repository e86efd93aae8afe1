//! Why a configuration is refused, in text for people.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("the configuration file {}{by} can't be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What named it, where a person may not think of that.
        by: &'static str,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration file {} is not TOML, line {line}: {message}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What the reader says. It never repeats the line, which may hold a secret.
        message: String,
    },
    /// Settings are refused. All that were found.
    #[error("the configuration is refused:{}", list(.0))]
    Refused(Vec<Refusal>),
}

/// One setting that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The setting, as `section.key`; or what was given instead of one.
    pub key: String,
    /// What is wrong and what is allowed.
    pub reason: String,
    /// Where it was given.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nothing was given.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Variable(name) if *name == self.key => write!(f, "{name}: {}", self.reason),
            Origin::Default => write!(f, "{}: {}", self.key, self.reason),
            origin => write!(f, "{}: {} (from {origin})", self.key, self.reason),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

fn list(refusals: &[Refusal]) -> String {
    refusals.iter().map(|refusal| format!("\n  {refusal}")).collect::<Vec<_>>().concat()
}
