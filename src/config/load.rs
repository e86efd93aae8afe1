//! Loading: which file is read, how the environment overlays it, and what is refused.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::nearest::nearest;
use super::setting::Setting;
use super::variables::{self, Meaning};
use super::{Config, ConfigError, Origin, Refusal, SECTIONS};
use crate::domain::time::Timestamp;

/// The file read from the working folder where none is named.
const FILE_NAME: &str = "config.toml";

/// Where a configuration may come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file named on the command line.
    pub file: Option<PathBuf>,
    /// The environment.
    pub variables: Vec<(OsString, OsString)>,
    /// The folder whose `config.toml` is read where no file is named.
    pub folder: PathBuf,
}

impl Sources {
    /// The environment and the working folder of this process, and the file named on the command line.
    pub fn of_process(file: Option<&Path>) -> Self {
        Self { file: file.map(Path::to_owned), variables: std::env::vars_os().collect(), folder: PathBuf::from(".") }
    }
}

/// A configuration and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The file that was read, where there was one.
    pub file: Option<PathBuf>,
    /// Where each setting that was given came from, by `section.key`.
    pub(super) origins: BTreeMap<String, Origin>,
}

/// Loads the configuration: the defaults, overlaid by the file (the one named on the command line, else the one that
/// `AFTERWORD_CONFIG` names, else `config.toml` in the working folder where there is one), overlaid by variables.
///
/// # Errors
/// [`ConfigError`] where the named file can't be read, or anything in it or in the environment is unknown or not allowed.
pub fn load(sources: &Sources, now: Timestamp) -> Result<Loaded, ConfigError> {
    let file = read_file(sources)?;
    let mut given = Given::default();
    if let Some((path, table)) = &file {
        given.take_file(path, table);
    }
    given.take_variables(&sources.variables);
    let (config, origins) = given.into_config(now).map_err(ConfigError::Refused)?;
    Ok(Loaded { config, file: file.map(|(path, _)| path), origins })
}

fn read_file(sources: &Sources) -> Result<Option<(PathBuf, Table)>, ConfigError> {
    let variable = sources.variables.iter().find(|(name, value)| name == variables::FILE && !value.is_empty());
    let by_variable = || variable.map(|(_, value)| (PathBuf::from(value), " that AFTERWORD_CONFIG names"));
    let named = sources.file.clone().map(|path| (path, "")).or_else(by_variable);
    let is_named = named.is_some();
    let (path, by) = named.unwrap_or_else(|| (sources.folder.join(FILE_NAME), ""));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(None),
        Err(error) => return Err(ConfigError::Unreadable { path, by, error }),
    };
    match text.parse::<Table>() {
        Ok(table) => Ok(Some((path, table))),
        Err(error) => {
            let before = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(before).filter(|byte| *byte == b'\n').count() + 1;
            Err(ConfigError::NotToml { path, line, message: error.message().to_owned() })
        }
    }
}

/// What was given, before it is known to be allowed.
#[derive(Default)]
struct Given {
    values: BTreeMap<(&'static str, &'static str), (Value, Origin)>,
    refusals: Vec<Refusal>,
}

impl Given {
    fn take_file(&mut self, path: &Path, table: &Table) {
        let origin = Origin::File(path.to_owned());
        for (section, entries) in table {
            let Some((section, settings)) = SECTIONS.iter().find(|(name, _)| name == section) else {
                self.refuse(section, no_such_section(section), &origin);
                continue;
            };
            // A list of tables, [[resweep]], is the section's only setting.
            if let (Value::Array(_), [only]) = (entries, *settings) {
                self.values.insert((*section, only.key), (entries.clone(), origin.clone()));
                continue;
            }
            let Value::Table(entries) = entries else {
                self.refuse(section, format!("must be a section, written [{section}]"), &origin);
                continue;
            };
            for (key, value) in entries {
                match settings.iter().find(|setting| setting.key == key) {
                    Some(setting) => _ = self.values.insert((*section, setting.key), (value.clone(), origin.clone())),
                    None => self.refuse(&format!("{section}.{key}"), no_such_setting(section, key, settings), &origin),
                }
            }
        }
    }

    fn take_variables(&mut self, variables: &[(OsString, OsString)]) {
        let mut variables: Vec<_> =
            variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value))).collect();
        variables.sort_unstable();
        for (name, value) in variables {
            let origin = Origin::Variable(name.to_owned());
            match variables::meaning(name, value) {
                Meaning::Others => {}
                Meaning::Mistyped(reason) => self.refuse(name, reason, &origin),
                Meaning::Sets(section, setting) => match value.to_str() {
                    Some(text) => {
                        _ = self.values.insert((section, setting.key), (setting.allowed.read(text), origin));
                    }
                    None => self.refuse(&format!("{section}.{}", setting.key), "is not UTF-8".to_owned(), &origin),
                },
            }
        }
    }

    fn refuse(&mut self, key: &str, reason: String, origin: &Origin) {
        self.refusals.push(Refusal { key: key.to_owned(), reason, origin: origin.clone() });
    }

    fn into_config(mut self, now: Timestamp) -> Result<(Config, BTreeMap<String, Origin>), Vec<Refusal>> {
        let mut table = Table::new();
        let mut origins = BTreeMap::new();
        for (section, setting) in SECTIONS.iter().flat_map(|(section, all)| all.iter().map(move |one| (*section, one)))
        {
            let Some((value, origin)) = self.values.remove(&(section, setting.key)) else { continue };
            let key = format!("{section}.{}", setting.key);
            if let Err(reason) = setting.allowed.check(&value, matches!(origin, Origin::Variable(_))) {
                self.refusals.push(Refusal { key, reason, origin });
                continue;
            }
            if let Value::Table(entries) = table.entry(section).or_insert_with(|| Value::Table(Table::new())) {
                entries.insert(setting.key.to_owned(), value);
            }
            origins.insert(key, origin);
        }
        if !self.refusals.is_empty() {
            return Err(self.refusals);
        }
        let whole = |reason: String| vec![Refusal { key: "config".to_owned(), reason, origin: Origin::Default }];
        let config: Config = table.try_into().map_err(|error: toml::de::Error| whole(error.message().to_owned()))?;
        let contradictions = config.contradictions(now).into_iter().map(|(key, reason)| Refusal {
            key: key.to_owned(),
            reason,
            origin: origins.get(key).cloned().unwrap_or(Origin::Default),
        });
        let refusals: Vec<Refusal> = contradictions.collect();
        if refusals.is_empty() { Ok((config, origins)) } else { Err(refusals) }
    }
}

fn no_such_section(given: &str) -> String {
    let meant = nearest(given, SECTIONS.iter().map(|(name, _)| *name));
    let home = SECTIONS.iter().find(|(_, settings)| settings.iter().any(|setting| setting.key == given));
    let hint = match (meant, home) {
        (Some(meant), _) => format!("; did you mean [{meant}]?"),
        (None, Some((home, _))) => format!("; did you mean {given} below [{home}]?"),
        (None, None) => String::new(),
    };
    format!("there is no such section; there are {}{hint}", names(SECTIONS.iter().map(|(name, _)| *name)))
}

fn no_such_setting(section: &str, given: &str, settings: &[Setting]) -> String {
    let keys = || settings.iter().map(|setting| setting.key);
    let hint = match nearest(given, keys()) {
        Some(meant) => format!("; did you mean {meant}?"),
        None => String::new(),
    };
    format!("there is no such setting; [{section}] has {}{hint}", names(keys()))
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
