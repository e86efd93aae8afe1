//! Tests of the configuration as a whole.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;
use toml::Table;

use super::{Config, ConfigError, Loaded, SECTIONS, Sources, load};
use crate::domain::time::{Micros, Timestamp};

fn now() -> Timestamp {
    Timestamp::parse("2026-11-30T00:00:00Z").unwrap()
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn load_from(file: &str, pairs: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), file).unwrap();
    load(&Sources { file: None, variables: variables(pairs), folder: folder.path().to_owned() }, now())
}

fn refused(file: &str, pairs: &[(&str, &str)]) -> String {
    load_from(file, pairs).expect_err(file).to_string()
}

fn keys(table: &Table) -> Vec<String> {
    table
        .iter()
        .flat_map(|(section, entries)| entries.as_table().unwrap().keys().map(move |key| format!("{section}.{key}")))
        .collect()
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config.toml")
}

#[test]
fn the_shipped_file_says_exactly_the_defaults() {
    let sources = Sources { file: Some(shipped()), ..Sources::default() };
    let loaded = load(&sources, now()).unwrap();
    let defaults = Table::try_from(Config::default()).unwrap();
    assert_eq!(Table::try_from(&loaded.config).unwrap(), defaults);
}

#[test]
fn every_setting_is_in_the_shipped_file_and_nothing_else() {
    let file: Table = std::fs::read_to_string(shipped()).unwrap().parse().unwrap();
    let defaults = Table::try_from(Config::default()).unwrap();
    assert_eq!(keys(&file), keys(&defaults));
    let mut listed: Vec<String> = SECTIONS
        .iter()
        .flat_map(|(section, settings)| settings.iter().map(move |setting| format!("{section}.{}", setting.key)))
        .collect();
    listed.sort_unstable_by_key(|key| keys(&defaults).iter().position(|other| other == key));
    assert_eq!(listed, keys(&defaults));
}

#[test]
fn every_setting_in_the_shipped_file_says_why() {
    let text = std::fs::read_to_string(shipped()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ") && !line.starts_with('#')) {
        assert!(lines[place - 1].starts_with("# "), "{line} has no reason above it");
    }
}

#[test]
fn without_a_file_and_variables_the_defaults_hold() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = load(&Sources { folder: folder.path().to_owned(), ..Sources::default() }, now()).unwrap();
    assert_eq!(loaded.file, None);
    assert_eq!(loaded.config.server.listen.to_string(), "127.0.0.1:7070");
    assert_eq!(loaded.config.database.url.expose(), "sqlite://afterword.db");
    assert!(loaded.config.server.listen.ip().is_loopback());
}

#[test]
fn the_file_named_on_the_command_line_wins_over_the_one_named_by_the_variable_and_that_over_the_folders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, grace: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("[shutdown]\ngrace = \"{grace}\"\n")).unwrap();
        path
    };
    write("config.toml", "1s");
    let by_variable = write("variable.toml", "2s");
    let by_flag = write("flag.toml", "3s");
    let grace = |file: Option<PathBuf>, variable: Option<&Path>| {
        let variables = variable.map(|path| ("AFTERWORD_CONFIG".into(), path.into())).into_iter().collect();
        load(&Sources { file, variables, folder: folder.path().to_owned() }, now()).unwrap().config.shutdown.grace
    };
    assert_eq!(grace(None, None), Micros::seconds(1));
    assert_eq!(grace(None, Some(Path::new(""))), Micros::seconds(1));
    assert_eq!(grace(None, Some(&by_variable)), Micros::seconds(2));
    assert_eq!(grace(Some(by_flag), Some(&by_variable)), Micros::seconds(3));
}

#[test]
fn a_named_file_that_is_absent_is_an_error_that_names_it() {
    let sources = Sources { file: Some("no/such.toml".into()), ..Sources::default() };
    let error = load(&sources, now()).unwrap_err();
    assert!(error.to_string().contains("no/such.toml"), "{error}");
    let sources = Sources { variables: variables(&[("AFTERWORD_CONFIG", "no/such.toml")]), ..Sources::default() };
    let error = load(&sources, now()).unwrap_err().to_string();
    assert!(error.contains("no/such.toml that AFTERWORD_CONFIG names"), "{error}");
}

#[test]
fn a_file_that_is_not_toml_is_refused_by_line_without_repeating_it() {
    for line in ["api_key = \"s3cret", "api_key = s3cret", "api_key = \"a\" s3cret", "api_key \"s3cret\"", "s3cret"] {
        let error = refused(&format!("[judge]\n\n{line}\n"), &[]);
        assert!(error.contains("line 3"), "{line}: {error}");
        assert!(!error.contains("s3cret"), "{line}: {error}");
    }
}

#[test]
fn unknown_sections_and_keys_are_refused_naming_them_and_what_there_is() {
    for (file, key, hint) in [
        ("[sweeps]\nschedule = \"off\"\n", "sweeps: ", "sweep"),
        ("[sweep]\nschedul = \"off\"\n", "sweep.schedul: ", "schedule"),
        ("[log]\nlevel.sqlx = \"off\"\n", "log.level: ", "quotes"),
        ("sweep = 5\n", "sweep: ", "[sweep]"),
        ("listen = \"127.0.0.1:1\"\n", "listen: ", "did you mean listen below [server]?"),
        ("[sever]\n", "sever: ", "did you mean [server]?"),
        ("[judge]\nmodl = \"m\"\n", "judge.modl: ", "did you mean model?"),
    ] {
        let error = refused(file, &[]);
        assert!(error.contains(key) && error.contains(hint) && error.contains("config.toml"), "{error}");
    }
}

#[test]
fn bad_values_are_refused_naming_the_key_and_what_is_allowed() {
    for (file, key, allowed) in [
        ("[sweep]\nschedule = \"every minute\"", "sweep.schedule: ", "`*/10 * * * *`"),
        ("[sweep]\nschedule = 5", "sweep.schedule: ", "text in quotes"),
        ("[sweep]\nschedule = \"0 0 0 1 1 * 2020\"", "sweep.schedule: ", "years have passed"),
        ("[sweep]\nlease = \"1s\"", "sweep.lease: ", "\"2s\" to \"1d\""),
        ("[sweep]\nlease = 120", "sweep.lease: ", "in quotes"),
        ("[sweep]\nlease = \"20s\"", "sweep.lease: ", "judge.timeout"),
        ("[sweep]\nretry_first = \"1h\"", "sweep.retry_first: ", "sweep.retry_longest"),
        ("[sweep]\nmax_in_flight = 0", "sweep.max_in_flight: ", "1 to 10000"),
        ("[sweep]\nmax_attempts = 2.5", "sweep.max_attempts: ", "whole number"),
        ("[server]\nlisten = \"localhost\"", "server.listen: ", "127.0.0.1:7070"),
        ("[server]\nbody_limit_bytes = -1", "server.body_limit_bytes: ", "1000 to"),
        ("[server]\nbody_limit_bytes = \"10MB\"", "server.body_limit_bytes: ", "whole number"),
        ("[database]\nurl = \"mysql://host\"", "database.url: ", "sqlite://afterword.db"),
        ("[judge]\nbase_url = \"https://host/v1\"", "judge.model: ", "judge.base_url is set"),
        ("[judge]\nmodel = \"m\"", "judge.base_url: ", "judge.model is set"),
        ("[judge]\nbase_url = \"host/v1\"\nmodel = \"m\"", "judge.base_url: ", "https://"),
        ("[judge]\ntemperature = nan", "judge.temperature: ", "0 to 2"),
        ("[judge]\ntemperature = \"0.5\"", "judge.temperature: ", "a number"),
        ("[judge]\nmax_output_tokens = 100000\ncontext_tokens = 128000", "judge.max_output_tokens: ", "half of"),
        ("[judge]\ncontext_tokens = 5", "judge.context_tokens: ", "at least 1000"),
        ("[judge]\nprovider = \"mistral\"", "judge.provider: ", "\"anthropic\""),
        ("[judge.models.m]\nprice = 1", "judge.models: ", "input_price"),
        ("[redact]\nkinds = [\"emails\"]", "redact.kinds: ", "\"email\""),
        ("[code]\nhard_limit = \"1s\"", "code.hard_limit: ", "code.soft_limit"),
        ("[code]\nhard_limit = \"5m\"", "sweep.lease: ", "code.hard_limit"),
        ("[code]\nmemory_mib = 16", "code.memory_mib: ", "32 to"),
        ("[outgoing]\nallow_private = \"yes\"", "outgoing.allow_private: ", "must be true or false"),
        ("[log]\nlevel = \"inof\"", "log.level: ", "debug"),
        ("[log]\nformat = \"xml\"", "log.format: ", "\"text\", \"json\""),
        ("[shutdown]\ngrace = \"forever\"", "shutdown.grace: ", "\"0s\" to \"1h\""),
    ] {
        let error = refused(file, &[]);
        assert!(error.contains(key) && error.contains(allowed), "{file}: {error}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_in_one_go() {
    let error = refused("[log]\nformat = \"xml\"\n[sweep]\nx = 1\n", &[("AFTERWORD__SERVER__LISTEN", "here")]);
    for key in ["log.format: ", "sweep.x: ", "server.listen: "] {
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn variables_win_over_the_file() {
    let loaded = load_from(
        "[server]\nlisten = \"127.0.0.1:1\"\nbody_limit_bytes = \"nonsense\"\n",
        &[
            ("AFTERWORD__SERVER__LISTEN", "127.0.0.1:2"),
            ("AFTERWORD__SERVER__BODY_LIMIT_BYTES", "5_000"),
            ("AFTERWORD__JUDGE__TEMPERATURE", "1"),
            ("AFTERWORD__JUDGE__API_KEY", "12345"),
            ("AFTERWORD__SWEEP__SCHEDULE", "off"),
            ("AFTERWORD__SWEEP__LOOKBACK", "2h"),
            ("AFTERWORD_API_KEY", "of something else"),
            ("AFTERWORD_PORT", "tcp://10.0.0.1:7070"),
        ],
    )
    .unwrap();
    let config = &loaded.config;
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.server.body_limit_bytes, 5_000);
    assert!((config.judge.temperature - 1.0).abs() < f64::EPSILON);
    assert_eq!(config.judge.api_key.as_ref().unwrap().expose_secret(), "12345");
    assert!(config.sweep.schedule.is_off());
    assert_eq!(config.sweep.lookback, Micros::seconds(7_200));
}

#[test]
fn bad_variables_are_refused_naming_them_and_what_is_allowed() {
    for (name, value, allowed) in [
        ("AFTERWORD_SWEEP__SCHEDULE", "off", "did you mean AFTERWORD__SWEEP__SCHEDULE?"),
        ("AFTERWORD_CONFG", "x.toml", "did you mean AFTERWORD_CONFIG?"),
        ("AFTERWORD_NONSENSE", "1", "AFTERWORD__SECTION__KEY"),
        ("AFTERWORD__REDACT__KINDS", "email", "in TOML, as a file would"),
        ("AFTERWORD__SWEEPS__SCHEDULE", "off", "SWEEP"),
        ("AFTERWORD__SWEEP__SCHEDUL", "off", "schedule"),
        ("AFTERWORD__SWEEP", "off", "schedule"),
        ("AFTERWORD__", "off", "AFTERWORD__SECTION__KEY"),
        ("AFTERWORD__server__listen", "127.0.0.1:1", "capitals"),
        ("AFTERWORD__SWEEP__MAX_ATTEMPTS", "many", "1 to 100"),
        ("AFTERWORD__SWEEP__MAX_ATTEMPTS", "", "1 to 100"),
        ("AFTERWORD__SWEEP__MAX_ATTEMPTS", "3\nlease = \"1h\"", "1 to 100"),
        ("AFTERWORD__SWEEP__LEASE", "120", "\"2s\" to \"1d\""),
        ("AFTERWORD__JUDGE__TEMPERATURE", "inf", "0 to 2"),
    ] {
        let error = refused("", &[(name, value)]);
        assert!(error.contains(name) && error.contains(allowed), "{name}: {error}");
    }
    let told = refused("", &[("AFTERWORD__SWEEP__LEASE", "5 minutes")]);
    assert!(!told.contains("in quotes"), "the quotes would be part of the value: {told}");
    let broken = (OsString::from("AFTERWORD__LOG__LEVEL"), OsString::from_vec(vec![0xff]));
    let sources = Sources { variables: vec![broken], ..Sources::default() };
    let error = load(&sources, now()).unwrap_err().to_string();
    assert!(error.contains("AFTERWORD__LOG__LEVEL") && error.contains("UTF-8"), "{error}");
}

#[test]
fn no_error_repeats_a_secret() {
    for file in [
        "[judge]\napi_key = \"s3 cret\"",
        "[judge]\napi_key = [\"s3cret\"]",
        "[database]\nurl = \"mysql://me:s3cret@host\"",
        "[judge]\nbase_url = \"https://me:s3cret@host/v1\"\nmodel = \"m\"",
    ] {
        let error = refused(file, &[]);
        assert!(!error.contains("cret"), "{error}");
    }
}

#[test]
fn what_is_shown_masks_secrets_says_where_values_came_from_and_reads_back() {
    let loaded = load_from(
        "[judge]\nbase_url = \"https://host/v1\"\nmodel = \"m\"\n[database]\nurl = \"postgres://me:s3cret@host/db\"",
        &[("AFTERWORD__JUDGE__API_KEY", "s3cret"), ("AFTERWORD__SHUTDOWN__GRACE", "5s")],
    )
    .unwrap();
    let shown = loaded.show();
    assert!(!shown.contains("s3cret") && !format!("{loaded:?}").contains("s3cret"), "{shown}");
    assert!(shown.contains("api_key = \"<set>\""), "{shown}");
    assert!(shown.contains("postgres://me:***@host/db"), "{shown}");
    let grace = shown.lines().find(|line| line.starts_with("grace")).unwrap();
    assert!(grace.contains("\"5s\"") && grace.ends_with("# AFTERWORD__SHUTDOWN__GRACE"), "{grace}");

    let defaults = load_from("", &[]).unwrap().show();
    assert!(defaults.contains("api_key = \"<unset>\""), "{defaults}");
    assert!(load_from(&defaults, &[]).unwrap().config.judge.api_key.is_none());
    let again = refused(&shown, &[]);
    assert!(again.contains("judge.api_key: ") && again.contains("<set>"), "{again}");
}
