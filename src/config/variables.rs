//! Variables: which of the environment's are settings, which are ours beside them, and what a mistyped one was meant to be.

use std::ffi::OsStr;

use super::SECTIONS;
use super::nearest::nearest;
use super::setting::Setting;

/// What the variables of single settings begin with.
pub(super) const PREFIX: &str = "AFTERWORD__";

/// The variable that names the file.
pub(super) const FILE: &str = "AFTERWORD_CONFIG";

/// Every variable of ours that is no setting. A test finds those that the sources and the documents speak of here.
pub const BESIDE_SETTINGS: [&str; 8] = [
    FILE,
    // The key that a first start takes over.
    "AFTERWORD_API_KEY",
    // The server that `bench` measures on.
    "AFTERWORD_BENCH_DATABASE",
    // What the tests tell themselves, and the program that they start.
    "AFTERWORD_TEST_ALL",
    "AFTERWORD_TEST_VICTIM",
    "AFTERWORD_TEST_READ_ONLY",
    "AFTERWORD_SIM_SEED",
    "AFTERWORD_SIM_COUNT",
];

/// What a variable of the environment is to us.
pub(super) enum Meaning {
    /// Nothing: it is somebody else's, or read elsewhere.
    Others,
    /// It sets this setting of this section.
    Sets(&'static str, &'static Setting),
    /// It looks as if it were ours, and sets nothing, for this reason.
    Mistyped(String),
}

/// What a variable is to us. Whatever begins as ours do and is not known is a slip of the pen: ignored in silence, it would leave a
/// setting at its default without anybody knowing.
pub(super) fn meaning(name: &str, value: &OsStr) -> Meaning {
    let begins = name.get(..PREFIX.len() - 1).is_some_and(|head| head.eq_ignore_ascii_case("AFTERWORD_"));
    if !begins || BESIDE_SETTINGS.contains(&name) || is_service_link(name, value) {
        return Meaning::Others;
    }
    let given = name.strip_prefix(PREFIX).map(|rest| rest.split_once("__").unwrap_or((rest, "")));
    let section = given.and_then(|(section, _)| SECTIONS.iter().find(|(own, _)| own.to_ascii_uppercase() == section));
    if let (Some((_, key)), Some((section, settings))) = (given, section) {
        let setting = settings.iter().find(|setting| setting.key.to_ascii_uppercase() == key);
        if let Some(setting) = setting {
            return Meaning::Sets(section, setting);
        }
    }
    Meaning::Mistyped(mistyped(name, section.copied()))
}

fn mistyped(name: &str, section: Option<(&'static str, &'static [Setting])>) -> String {
    let of = |section: &str, setting: &Setting| format!("{PREFIX}{section}__{}", setting.key).to_ascii_uppercase();
    let settings = SECTIONS.iter().flat_map(|(section, all)| all.iter().map(|setting| of(section, setting)));
    let all: Vec<String> = settings.chain(BESIDE_SETTINGS.map(str::to_owned)).collect();
    let meant = match nearest(name, all.iter().map(String::as_str)) {
        Some(meant) => format!("; did you mean {meant}?"),
        None => String::new(),
    };
    let has = if let Some((section, settings)) = section {
        let keys: Vec<&str> = settings.iter().map(|setting| setting.key).collect();
        format!("there is no such setting; [{section}] has {}", keys.join(", "))
    } else {
        let sections: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
        let sections = sections.join(", ").to_ascii_uppercase();
        format!("settings are {PREFIX}SECTION__KEY in capitals, and the sections are {sections}")
    };
    format!("sets nothing: {has}{meant}")
}

/// Whether Kubernetes made the variable of a service that is called as we are, or begins so: it puts these into every process of a
/// namespace, where nobody who runs this can take them away.
fn is_service_link(name: &str, value: &OsStr) -> bool {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    if name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return true;
    }
    let Some((_, after)) = name.rsplit_once("_PORT_").filter(|_| !name.ends_with("_PORT")).or_else(|| {
        // AFTERWORD_PORT, and AFTERWORD_PORT_7070_TCP_PORT.
        name.strip_suffix("_PORT").and_then(|rest| rest.rsplit_once("_PORT_"))
    }) else {
        let is_address = |text: &str| PROTOCOLS.iter().any(|it| text.starts_with(&format!("{}://", it.to_lowercase())));
        return name.ends_with("_PORT") && value.to_str().is_some_and(is_address);
    };
    let mut words = after.split('_');
    let is_port = words.next().is_some_and(|port| port.parse::<u16>().is_ok());
    is_port && words.next().is_some_and(|protocol| PROTOCOLS.contains(&protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(name: &str) -> String {
        match meaning(name, OsStr::new("5m")) {
            Meaning::Mistyped(reason) => reason,
            Meaning::Others => panic!("{name} is nobody's"),
            Meaning::Sets(section, setting) => panic!("{name} sets {section}.{}", setting.key),
        }
    }

    #[test]
    fn a_mistyped_variable_is_told_with_the_one_that_was_meant() {
        for (name, meant) in [
            ("AFTERWORD_SWEEP__LEASE", "AFTERWORD__SWEEP__LEASE"),
            ("AFTERWORD_SWEEP_LEASE", "AFTERWORD__SWEEP__LEASE"),
            ("AFTERWORD__SWEEP_LEASE", "AFTERWORD__SWEEP__LEASE"),
            ("AFTERWORD__SWEEPS__LEASE", "AFTERWORD__SWEEP__LEASE"),
            ("AFTERWORD__SWEEP__LEAS", "AFTERWORD__SWEEP__LEASE"),
            ("afterword__sweep__lease", "AFTERWORD__SWEEP__LEASE"),
            ("AFTERWORD__SERVER_REQUESTS_PER_MINUTE", "AFTERWORD__SERVER__REQUESTS_PER_MINUTE"),
            ("AFTERWORD_JUDGE_API_KEY", "AFTERWORD__JUDGE__API_KEY"),
            ("AFTERWORD_CONFG", "AFTERWORD_CONFIG"),
            ("AFTERWORD_APIKEY", "AFTERWORD_API_KEY"),
        ] {
            let told = reason(name);
            assert!(told.ends_with(&format!("did you mean {meant}?")), "{name}: {told}");
        }
        assert!(!reason("AFTERWORD_HOME").contains("did you mean"), "{}", reason("AFTERWORD_HOME"));
    }

    #[test]
    fn what_others_set_is_left_alone() {
        for (name, value) in [
            ("PATH", "/bin"),
            ("AFTERWORDS", "x"),
            ("AFTERWORD", "x"),
            ("AFTERWORD_SERVICE_HOST", "10.0.0.1"),
            ("AFTERWORD_SERVICE_PORT", "7070"),
            ("AFTERWORD_SERVICE_PORT_HTTP", "7070"),
            ("AFTERWORD_PORT", "tcp://10.0.0.1:7070"),
            ("AFTERWORD_PORT_7070_TCP", "tcp://10.0.0.1:7070"),
            ("AFTERWORD_PORT_7070_TCP_PROTO", "tcp"),
            ("AFTERWORD_PORT_7070_TCP_PORT", "7070"),
            ("AFTERWORD_PORT_7070_TCP_ADDR", "10.0.0.1"),
            ("AFTERWORD_DB_PORT_5432_TCP_ADDR", "10.0.0.1"),
        ] {
            assert!(matches!(meaning(name, OsStr::new(value)), Meaning::Others), "{name}");
        }
        for (name, value) in [("AFTERWORD_PORT", "7070"), ("AFTERWORD_SERVER_PORT", "7070")] {
            assert!(matches!(meaning(name, OsStr::new(value)), Meaning::Mistyped(_)), "{name}={value}");
        }
    }
}
