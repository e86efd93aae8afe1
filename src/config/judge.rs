//! `[judge]`: the model that judges ask, where and how, and what it may cost.

use std::collections::BTreeMap;
use std::fmt;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Value;

use super::length;
use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;
use crate::scorers::Provider;

/// The model that judges ask. Without an address judges can't answer; everything else works.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Judge {
    /// The form in which the address wants to be asked.
    pub provider: String,
    /// The address that the provider's path is appended to.
    #[serde(with = "blank")]
    pub base_url: Option<String>,
    /// The model's name there.
    #[serde(with = "blank")]
    pub model: Option<String>,
    /// The key sent along, where there is one. Printed as `<set>` or `<unset>`.
    #[serde(with = "masked")]
    pub api_key: Option<SecretString>,
    /// The header that carries the key, where it is not the provider's own.
    #[serde(with = "blank")]
    pub api_key_header: Option<String>,
    /// How long one call may take, its retries included.
    #[serde(with = "length")]
    pub timeout: Micros,
    /// How often a call is tried before the judge counts as unable to answer for the time being.
    pub max_attempts: u32,
    /// The most calls under way at the same time to one model.
    pub max_concurrency: usize,
    /// The most calls to one model that begin in a minute; 0 is no limit.
    pub requests_per_minute: u32,
    /// How many questions in a row without an answer open a model's circuit.
    pub circuit_failures: u32,
    /// How long an open circuit lets nothing through, at first.
    #[serde(with = "length")]
    pub circuit_pause: Micros,
    /// How many calls a project may make in a UTC day; 0 is no limit.
    pub daily_calls: i64,
    /// How many calls each group may make in a UTC day; 0 is no limit.
    pub daily_calls_per_group: i64,
    /// How many tokens prompt and reply may have together; 0 goes by the model.
    pub context_tokens: usize,
    /// How many tokens the reply may have.
    pub max_output_tokens: usize,
    /// How freely the model chooses its words, 0-2.
    pub temperature: f64,
    /// What models hold and cost, by name.
    pub models: BTreeMap<String, JudgeModel>,
}

/// What is said of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeModel {
    /// How many tokens it holds, prompt and reply together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<usize>,
    /// The price of a million tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_price: Option<f64>,
    /// The price of a million tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_price: Option<f64>,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            provider: Provider::NAMES[0].to_owned(),
            base_url: None,
            model: None,
            api_key: None,
            api_key_header: None,
            timeout: Micros::seconds(60),
            max_attempts: 3,
            max_concurrency: 16,
            requests_per_minute: 0,
            circuit_failures: 5,
            circuit_pause: Micros::seconds(30),
            daily_calls: 0,
            daily_calls_per_group: 0,
            context_tokens: 0,
            max_output_tokens: 1_024,
            temperature: 0.0,
            models: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge")
            .field("provider", &self.provider)
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("api_key", &format_args!("{}", masked::show(self.api_key.as_ref())))
            .field("timeout", &self.timeout)
            .field("max_attempts", &self.max_attempts)
            .field("max_concurrency", &self.max_concurrency)
            .field("context_tokens", &self.context_tokens)
            .field("max_output_tokens", &self.max_output_tokens)
            .field("temperature", &self.temperature)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "provider", allowed: Allowed::OneOf(&Provider::NAMES) },
    Setting { key: "base_url", allowed: Allowed::Secret(check_base_url) },
    Setting { key: "model", allowed: Allowed::Text(check_model) },
    Setting { key: "api_key", allowed: Allowed::Secret(check_api_key) },
    Setting { key: "api_key_header", allowed: Allowed::Text(check_header) },
    Setting { key: "timeout", allowed: Allowed::Length(Micros::seconds(1), Micros::seconds(3_600)) },
    Setting { key: "max_attempts", allowed: Allowed::Whole(1, 10) },
    Setting { key: "max_concurrency", allowed: Allowed::Whole(1, 1_024) },
    Setting { key: "requests_per_minute", allowed: Allowed::Whole(0, 1_000_000) },
    Setting { key: "circuit_failures", allowed: Allowed::Whole(1, 1_000) },
    Setting { key: "circuit_pause", allowed: Allowed::Length(Micros::seconds(1), Micros::seconds(3_600)) },
    Setting { key: "daily_calls", allowed: Allowed::Whole(0, 1_000_000_000) },
    Setting { key: "daily_calls_per_group", allowed: Allowed::Whole(0, 1_000_000_000) },
    Setting { key: "context_tokens", allowed: Allowed::Whole(0, 10_000_000) },
    Setting { key: "max_output_tokens", allowed: Allowed::Whole(64, 100_000) },
    Setting { key: "temperature", allowed: Allowed::Number(0.0, 2.0) },
    Setting { key: "models", allowed: Allowed::Shaped(check_models) },
];

/// The paths that providers append: an address that ends with one of them already would be asked in vain.
const ENDINGS: [&str; 3] = ["/chat/completions", "/responses", "/messages"];

fn check_base_url(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let example = "such as \"https://api.openai.com/v1\" or \"http://127.0.0.1:11434/v1\", or \"\" for none";
    let url =
        Url::parse(text).map_err(|error| format!("can't be read as an address ({error}); it must be one {example}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("must be an http or https address {example}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password; the key belongs into judge.api_key".to_owned());
    }
    let is_version = |query: &str| query.starts_with("api-version=") && !query.contains('&');
    if url.fragment().is_some() || url.query().is_some_and(|query| !is_version(query)) {
        return Err(format!(
            "must end before any # and ?, but for ?api-version=..., as a path is appended to it: one {example}"
        ));
    }
    if let Some(ending) = ENDINGS.iter().find(|ending| url.path().trim_end_matches('/').ends_with(*ending)) {
        return Err(format!("must end before {ending}, which is appended to it: one {example}"));
    }
    Ok(())
}

fn check_header(text: &str) -> Result<(), String> {
    let fine = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && text.len() <= 100;
    if fine { Ok(()) } else { Err("must be the name of a header such as \"api-key\", or \"\"".to_owned()) }
}

fn check_models(value: &Value) -> Result<(), String> {
    let form = "must be a table for each model, such as [judge.models.\"my-model\"] with any of context_tokens (1000 to \
                10000000), input_price and output_price (a million tokens, 0 to 1000000)";
    let Value::Table(models) = value else { return Err(form.to_owned()) };
    for (name, said) in models {
        let said = said.as_table().ok_or_else(|| form.to_owned())?;
        for (key, value) in said {
            let allowed = match key.as_str() {
                "context_tokens" => Allowed::Whole(1_000, 10_000_000),
                "input_price" | "output_price" => Allowed::Number(0.0, 1e6),
                _ => return Err(format!("{name}.{key} is not known; each {form}")),
            };
            allowed.check(value, false).map_err(|why| format!("{name}.{key} {why}"))?;
        }
    }
    Ok(())
}

fn check_model(text: &str) -> Result<(), String> {
    if text.trim() != text || text.chars().any(char::is_control) || text.len() > 200 {
        return Err("must be the model's name at judge.base_url: at most 200 bytes, no space around it".to_owned());
    }
    Ok(())
}

fn check_api_key(text: &str) -> Result<(), String> {
    if matches!(text, masked::SET) {
        return Err(format!("is {text}, which stands for a key where one is printed; put the key itself"));
    }
    if text == masked::UNSET || text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err("must be visible ASCII characters without spaces or line ends".to_owned())
}

/// Optional text, written as empty text where there is none: TOML has no null.
mod blank {
    use super::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text.as_deref().unwrap_or_default())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
        String::deserialize(deserializer).map(|text| (!text.is_empty()).then_some(text))
    }
}

/// An optional secret: read as it is, written only as being there or not.
mod masked {
    use super::{Deserialize, Deserializer, ExposeSecret, SecretString, Serializer};

    pub(super) const SET: &str = "<set>";
    pub(super) const UNSET: &str = "<unset>";

    pub(super) fn show(secret: Option<&SecretString>) -> &'static str {
        if secret.is_some_and(|secret| !secret.expose_secret().is_empty()) { SET } else { UNSET }
    }

    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(secret: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(show(secret.as_ref()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SecretString>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok((!text.is_empty() && text != UNSET).then(|| SecretString::from(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_chat_completions_can_be_appended_to_is_accepted() {
        for good in [
            "",
            "https://api.openai.com/v1",
            "http://127.0.0.1:11434/v1/",
            "http://[::1]:8000",
            "https://me.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
        ] {
            assert_eq!(check_base_url(good), Ok(()), "{good}");
        }
        for bad in [
            "api.openai.com/v1",
            "ftp://host/v1",
            "https://me:s3cret@host/v1",
            "https://host/v1?key=s3cret",
            "https://host/v1?api-version=1&key=s3cret",
            "https://host/v1/messages",
            "https://host/#x",
            "https://host/v1/chat/completions",
            "http://",
            "localhost:8000",
            "file:///v1",
        ] {
            let error = check_base_url(bad).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn models_are_told_by_name_and_nothing_else_is() {
        let check = |text: &str| check_models(&Value::Table(text.parse().unwrap()));
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("\"a/b:7b\" = { context_tokens = 8000, input_price = 0.15, output_price = 1 }"), Ok(()));
        for (bad, told) in [
            ("a = 5", "a table for each model"),
            ("a = { price = 1.0 }", "a.price is not known"),
            ("a = { context_tokens = 5 }", "a.context_tokens is 5, must be a whole number from 1000"),
            ("a = { input_price = -1 }", "a.input_price is -1"),
        ] {
            let error = check(bad).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        assert!(check_models(&Value::Integer(1)).is_err());
        assert!(check_header("api-key").is_ok() && check_header("api key").is_err());
    }

    #[test]
    fn a_key_is_one_word_of_visible_characters() {
        for good in ["", "sk-123_ABC==", "<unset>"] {
            assert_eq!(check_api_key(good), Ok(()), "{good}");
        }
        for bad in ["s3cret\n", "s3 cret", "s3crét", "<set>"] {
            let error = check_api_key(bad).unwrap_err();
            assert!(!error.contains("s3"), "{error}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let judge = Judge { api_key: Some(SecretString::from("s3cret")), ..Judge::default() };
        assert!(format!("{judge:?}").contains("api_key: <set>"));
        assert!(toml::to_string(&judge).unwrap().contains("api_key = \"<set>\""));
        assert!(format!("{:?}", Judge::default()).contains("api_key: <unset>"));
    }
}
