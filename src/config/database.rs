//! `[database]`: where everything is stored.

use std::fmt;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::length;
use super::nearest::nearest;
use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;

/// Where everything is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Database {
    /// `sqlite://path` or `postgres://...`.
    pub url: DatabaseUrl,
    /// The most connections this process holds to PostgreSQL. SQLite needs no setting: one writes, a few read.
    pub max_connections: u32,
    /// How long a statement waits for a free connection, and on SQLite for another process that has the file locked.
    #[serde(with = "length")]
    pub busy_timeout: Micros,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: DatabaseUrl(SecretString::from("sqlite://afterword.db")),
            max_connections: 10,
            busy_timeout: Micros::seconds(5),
        }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "url", allowed: Allowed::Secret(check_url) },
    Setting { key: "max_connections", allowed: Allowed::Whole(1, 1_000) },
    Setting { key: "busy_timeout", allowed: Allowed::Length(Micros::millis(100), Micros::seconds(600)) },
];

/// A database's address. It may hold a password: it is printed, serialised and debugged without.
#[derive(Clone)]
pub struct DatabaseUrl(SecretString);

impl DatabaseUrl {
    /// The address with its password, for connecting.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask(self.expose()))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DatabaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(SecretString::from(text)))
    }
}

/// The address without a password, whether it stands before the host or among the parameters.
fn mask(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return address.to_owned() };
    let hides_parameter = |name: &str| name.to_ascii_lowercase().contains("password");
    if url.query_pairs().any(|(name, _)| hides_parameter(&name)) {
        let kept: Vec<(String, String)> = url
            .query_pairs()
            .map(|(name, value)| {
                let value = if hides_parameter(&name) { MASK.into() } else { value };
                (name.into_owned(), value.into_owned())
            })
            .collect();
        url.query_pairs_mut().clear().extend_pairs(kept);
    } else if url.password().is_none() {
        return address.to_owned();
    }
    if url.password().is_some() && url.set_password(Some(MASK)).is_err() {
        return format!("{}:{MASK}", url.scheme());
    }
    url.to_string()
}

const MASK: &str = "***";

fn check_url(text: &str) -> Result<(), String> {
    let examples =
        "\"sqlite://afterword.db\" (a file, made where it is absent) or \"postgres://user:password@host/database\"";
    if text.starts_with("sqlite:") {
        return match text.strip_prefix("sqlite://") {
            None | Some("") => Err(format!("must name a file after \"sqlite://\": {examples}")),
            Some(path) if path.contains('?') => {
                Err(format!("takes no parameters after a file's name; take out what stands from ? on: {examples}"))
            }
            Some(":memory:") => Err(format!("can't be kept in memory, every connection would see its own: {examples}")),
            Some(_) => Ok(()),
        };
    }
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Err(format!("must be {examples}"));
    }
    match Url::parse(text) {
        Ok(url) => check_parameters(&url),
        Err(error) => Err(format!(
            "can't be read as an address ({error}); special characters of a password are written in percent form, such as %40 for @"
        )),
    }
}

/// What the address of a PostgreSQL database may say behind the question mark, as the driver reads it.
const PARAMETERS: [&str; 16] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "application_name",
    "options",
];

/// What addresses have that providers give out, and that the driver does without: TLS and limits of time hold as ours are set.
const PASSED_OVER: [&str; 5] =
    ["channel_binding", "connect_timeout", "gssencmode", "keepalives", "target_session_attrs"];

/// The driver passes over what it does not know: a mistyped `sslmode` would leave the connection open to be read.
fn check_parameters(url: &Url) -> Result<(), String> {
    for (name, _) in url.query_pairs() {
        let is_known =
            [&PARAMETERS[..], &PASSED_OVER, &["user", "password"]].iter().any(|known| known.contains(&&*name));
        if is_known || (name.starts_with("options[") && name.ends_with(']')) {
            continue;
        }
        let hint = match nearest(&name, PARAMETERS.into_iter()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("take it out; there are {}", PARAMETERS.join(", ")),
        };
        return Err(format!("has a parameter {name} that does nothing: {hint}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_masked_wherever_it_stands() {
        for (address, masked) in [
            ("sqlite://afterword.db", "sqlite://afterword.db"),
            ("sqlite:///var/lib/afterword/a.db?mode=rwc", "sqlite:///var/lib/afterword/a.db?mode=rwc"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres://me:s3cret@host:5433/db?sslmode=require", "postgres://me:***@host:5433/db?sslmode=require"),
            ("postgres:///db?host=/run&password=s3cret", "postgres:///db?host=%2Frun&password=***"),
        ] {
            let url = DatabaseUrl(SecretString::from(address));
            assert_eq!(url.to_string(), masked);
            assert_eq!(format!("{url:?}"), masked);
            assert_eq!(url.expose(), address);
        }
    }

    #[test]
    fn an_address_of_another_kind_is_refused_without_repeating_it() {
        for bad in [
            "",
            "afterword.db",
            "mysql://me:s3cret@host/db",
            "sqlite:",
            "sqlite://",
            "sqlite://?mode=rwc",
            "sqlite://a.db?mode=rwc",
            "postgres://me:s3cret@host/db?sslmod=require",
            "postgres://me:s3cret@host/db?conect_timeout=s3cret",
            "sqlite::memory:",
            "sqlite://:memory:",
            "postgres://me:s3cret@ho st/db",
            "postgres://me:s3cret@host:port/db",
        ] {
            let error = check_url(bad).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
        for good in [
            "sqlite://a.db",
            "sqlite:///var/a.db",
            "postgres:///db?host=/run",
            "postgresql://me@host/db",
            "postgres://host/db?sslmode=verify-full&options[search_path]=a&user=me&password=p",
            "postgresql://me:s3cret@host/db?sslmode=require&channel_binding=require",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        let told = check_url("postgres://host/db?sslmod=require").unwrap_err();
        assert!(told.contains("did you mean sslmode?"), "{told}");
    }
}
