//! Custom scorers on the wire: reading new ones and sparse patches, with every problem told at once.

use serde_json::Value;

use super::{BuiltIn, Check, CustomSpec, Language};
use crate::domain::address::{self, MASKED};
use crate::domain::group::{Severity, whole};
use crate::domain::problems::{Problems, Reader};
use crate::domain::time::Timestamp;

/// The longest script, in characters.
const LONGEST_SCRIPT: usize = 100_000;
/// The longest address, in characters.
const LONGEST_URL: usize = 2000;

const NO_NAME: &str = "Custom evaluator name is required";
const NO_URL: &str = "A valid http:// or https:// url is required";
const NO_SCRIPT: &str = "A code scorer needs a script defining handler(...)";
const NO_LANGUAGE: &str = "language must be \"javascript\" or \"python\"";

impl CustomSpec {
    /// Reads a new custom scorer from the wire. `null` counts as absent; without a `kind` it is an external one.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(body, &mut problems);
        let check = reader.new_check();
        let blank = Self { name: String::new(), ..Self::of_built_in(BuiltIn::RunCompletion) };
        let mut spec = reader.shared_fields(blank);
        let unnamed = reader.given("name").is_none() && !matches!(check, Some(Check::BuiltIn { .. }));
        problems.unless(!unnamed, || NO_NAME.to_owned());
        if let Some(check) = check {
            if let Check::BuiltIn { key, .. } = &check
                && spec.name.is_empty()
            {
                key.name().clone_into(&mut spec.name);
            }
            spec.check = check;
        }
        problems.into_result(spec)
    }

    /// Reads what a dry run needs: the check, whatever else is said or left out.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn dry(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(body, &mut problems);
        let check = reader.new_check();
        let name = reader.given("name").and_then(Value::as_str).unwrap_or("Dry run").chars().take(200).collect();
        let blank = Self::of_built_in(BuiltIn::RunCompletion);
        let check = check.unwrap_or(blank.check);
        problems.into_result(Self { name, check, ..Self::of_built_in(BuiltIn::RunCompletion) })
    }

    /// This scorer with a sparse patch from the wire applied: absent keys and `null` keep their values. Its kind stays.
    ///
    /// # Errors
    /// Every problem found in the patch, each naming its field.
    pub fn patched(&self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(patch, &mut problems);
        let mut spec = reader.shared_fields(self.clone());
        reader.patch_check(&mut spec.check);
        problems.into_result(spec)
    }
}

impl Check {
    /// Its kind on the wire.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Code { .. } => "code",
            Self::External { .. } => "external",
            Self::BuiltIn { .. } => "builtIn",
        }
    }
}

impl Reader<'_> {
    fn shared_fields(&mut self, mut spec: CustomSpec) -> CustomSpec {
        if let Some(name) = self.given("name") {
            match name.as_str().map(str::trim) {
                None | Some("") => self.problems.add(NO_NAME),
                Some(name) if fits(name, 200) => name.clone_into(&mut spec.name),
                Some(_) => self.problems.add("name must be 1-200 characters"),
            }
        }
        let severities = "one of: low, medium, high, critical";
        self.set(&mut spec.severity, "severity", severities, |v| v.as_str().and_then(Severity::from_name));
        self.set(&mut spec.enabled, "enabled", "true or false", Value::as_bool);
        let rates = "a number between 0 and 1";
        self.set(&mut spec.sample_rate, "sampleRate", rates, share);
        let modes = "all or selected";
        self.set(&mut spec.scope_mode, "scopeMode", modes, |v| {
            v.as_str().filter(|mode| matches!(*mode, "all" | "selected")).map(str::to_owned)
        });
        self.set(&mut spec.agent_ids, "agentIds", "a list of at most 1000 ids", |v| {
            let ids = v.as_array().filter(|ids| ids.len() <= 1000)?;
            ids.iter().map(|id| id.as_str().filter(|id| fits(id, 512)).map(str::to_owned)).collect()
        });
        spec
    }

    fn new_check(&mut self) -> Option<Check> {
        match self.given("kind").map(Value::as_str) {
            Some(Some("code")) => {
                let script = self.script();
                let language = self.language();
                let mut alert_below = 0.5;
                self.alert_below(&mut alert_below);
                Some(Check::Code { language: language?, script: script?, alert_below })
            }
            None | Some(Some("external")) => {
                let url = self.url();
                let mut invert_match = false;
                self.invert_match(&mut invert_match);
                Some(Check::External { url: url?, invert_match })
            }
            Some(Some("builtIn")) => {
                let key = self.given("key").and_then(Value::as_str).and_then(BuiltIn::from_key);
                self.problems.unless(key.is_some(), || {
                    let keys: Vec<&str> = BuiltIn::ALL.iter().map(|it| it.key()).collect();
                    format!("key must be one of: {}", keys.join(", "))
                });
                let mut from = None;
                self.from(&mut from);
                Some(Check::BuiltIn { key: key?, from })
            }
            Some(_) => {
                self.problems.add("kind must be one of: code, external, builtIn");
                None
            }
        }
    }

    fn patch_check(&mut self, check: &mut Check) {
        if let Some(kind) = self.given("kind")
            && kind.as_str() != Some(check.kind())
        {
            let kind = check.kind();
            self.problems.add(format!("kind can't be changed: this is a scorer of kind {kind}, make a new one"));
        }
        match check {
            Check::Code { language, script, alert_below } => {
                if self.given("language").is_some() {
                    *language = self.language().unwrap_or(*language);
                }
                if self.given("script").is_some()
                    && let Some(given) = self.script()
                {
                    *script = given;
                }
                self.alert_below(alert_below);
            }
            Check::External { url, invert_match } => {
                if self.given("url").is_some()
                    && let Some(given) = self.url()
                {
                    *url = given;
                }
                self.invert_match(invert_match);
            }
            Check::BuiltIn { key, from } => {
                let other = self.given("key").is_some_and(|given| given.as_str() != Some(key.key()));
                self.problems.unless(!other, || {
                    format!("key can't be changed: this is the built-in scorer {}, make a new one", key.key())
                });
                if self.object.get("from") == Some(&Value::Null) {
                    *from = None;
                }
                self.from(from);
            }
        }
    }

    fn script(&mut self) -> Option<String> {
        let script = self.given("script").and_then(Value::as_str).filter(|script| !script.trim().is_empty());
        match script {
            None => self.problems.add(NO_SCRIPT),
            Some(script) if fits(script, LONGEST_SCRIPT) => return Some(script.to_owned()),
            Some(_) => {
                self.problems.add(format!("script must be at most {LONGEST_SCRIPT} characters, without zero bytes"));
            }
        }
        None
    }

    fn language(&mut self) -> Option<Language> {
        let language = self.given("language").and_then(Value::as_str).and_then(Language::from_name);
        self.problems.unless(language.is_some(), || NO_LANGUAGE.to_owned());
        language
    }

    /// An address by its form; where it leads is for others to say.
    fn url(&mut self) -> Option<String> {
        let url = self.given("url").and_then(Value::as_str).map(str::trim).filter(|url| {
            let lower = url.get(..8).unwrap_or(url).to_ascii_lowercase();
            let rest = if lower.starts_with("https://") { url.get(8..) } else { url.get(7..) };
            let known = lower.starts_with("https://") || lower.starts_with("http://");
            known && rest.is_some_and(|rest| !rest.is_empty()) && fits(url, LONGEST_URL)
        });
        let clean = url.filter(|url| !url.chars().any(|c| c.is_control() || c.is_whitespace()));
        self.problems.unless(clean.is_some(), || NO_URL.to_owned());
        self.problems.unless(!clean.is_some_and(address::is_masked), || format!("url {MASKED}"));
        clean.map(str::to_owned)
    }

    fn alert_below(&mut self, field: &mut f64) {
        self.set(field, "alertBelow", "a number between 0 and 1", share);
    }

    fn invert_match(&mut self, field: &mut bool) {
        self.set(field, "invertMatch", "true or false", Value::as_bool);
    }

    /// A moment, as text or as whole milliseconds since 1970.
    fn from(&mut self, field: &mut Option<Timestamp>) {
        let problem = "a time such as \"2026-01-31T00:00:00Z\", or milliseconds since 1970";
        self.set(field, "from", problem, |v| {
            let moment = match v {
                Value::String(text) => Timestamp::parse(text),
                other => whole(other).and_then(|millis| Timestamp::claimed_nanos(i128::from(millis) * 1_000_000)),
            };
            moment.map(Some)
        });
    }
}

fn share(value: &Value) -> Option<f64> {
    value.as_f64().filter(|share| (0.0..=1.0).contains(share))
}

fn fits(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the existing client sends for a code scorer.
    fn code(changes: &Value) -> Value {
        merged(
            json!({"name": "Length", "kind": "code", "language": "python", "script": "def handler(input, output): return 1",
                   "alertBelow": 0.5, "sampleRate": 1.0, "severity": "medium", "enabled": true, "scopeMode": "all",
                   "agentIds": [], "workspaceId": "w"}),
            changes,
        )
    }

    /// What it sends for an external one: no kind.
    fn external(changes: &Value) -> Value {
        merged(
            json!({"name": "Ext", "url": "https://example.test/score", "sampleRate": 1.0, "severity": "high",
                   "enabled": true, "invertMatch": false, "scopeMode": "all", "agentIds": []}),
            changes,
        )
    }

    fn merged(mut body: Value, changes: &Value) -> Value {
        for (key, value) in changes.as_object().expect("an object") {
            body[key] = value.clone();
        }
        body
    }

    #[test]
    fn each_kind_is_read_as_the_client_sends_it_and_reads_back() {
        let none = json!({});
        let specs = [
            CustomSpec::create(&code(&none)).expect("a spec"),
            CustomSpec::create(&external(&none)).expect("a spec"),
            CustomSpec::create(&json!({"kind": "builtIn", "key": "approval-risk", "from": "2026-01-01T00:00:00Z"}))
                .expect("a spec"),
        ];
        assert_eq!(specs.clone().map(|spec| spec.check.kind()), ["code", "external", "builtIn"]);
        assert_eq!(specs[2].name, "Approval risk");
        for spec in specs {
            let json = serde_json::to_string(&spec).expect("JSON");
            assert_eq!(serde_json::from_str::<CustomSpec>(&json).expect("a spec"), spec, "{json}");
        }
    }

    #[test]
    fn the_texts_are_the_clients_texts() {
        for (body, text) in [
            (external(&json!({"url": null})), NO_URL),
            (external(&json!({"url": "ftp://host/x"})), NO_URL),
            (external(&json!({"url": "https://"})), NO_URL),
            (external(&json!({"url": "http://a b/"})), NO_URL),
            (code(&json!({"script": null})), NO_SCRIPT),
            (code(&json!({"script": "  "})), NO_SCRIPT),
            (code(&json!({"language": "ruby"})), NO_LANGUAGE),
            (code(&json!({"name": null})), NO_NAME),
            (external(&json!({"name": " "})), NO_NAME),
            (code(&json!({"severity": "bad"})), "severity must be one of: low, medium, high, critical"),
            (code(&json!({"sampleRate": 2})), "sampleRate must be a number between 0 and 1"),
            (code(&json!({"kind": "magic"})), "kind must be one of: code, external, builtIn"),
        ] {
            assert_eq!(CustomSpec::create(&body).expect_err("problems").to_string(), text, "{body}");
        }
        let both = CustomSpec::create(&code(&json!({"language": 1, "script": ""}))).expect_err("problems").to_string();
        assert_eq!(both, format!("{NO_SCRIPT}; {NO_LANGUAGE}"));
        let key = CustomSpec::create(&json!({"kind": "builtIn", "key": "x"})).expect_err("problems").to_string();
        assert!(key.starts_with("key must be one of: run-completion, "), "{key}");
        assert!(CustomSpec::create(&json!([])).is_err());
    }

    #[test]
    fn a_patch_is_sparse_and_never_changes_the_kind() {
        let stored = CustomSpec::create(&code(&json!({}))).expect("a spec");
        assert_eq!(stored.patched(&json!({"url": "x", "name": null})).expect("a spec"), stored);
        let patched = stored.patched(&json!({"alertBelow": 0.25, "language": "javascript"})).expect("a spec");
        assert!(matches!(patched.check, Check::Code { language: Language::JavaScript, alert_below: 0.25, .. }));
        for wrong in [json!({"kind": "external"}), json!({"script": ""}), json!({"name": ""}), json!(7)] {
            assert!(stored.patched(&wrong).is_err(), "{wrong}");
        }
        let external = CustomSpec::create(&external(&json!({}))).expect("a spec");
        let patched = external.patched(&json!({"invertMatch": true, "url": "http://other.test"})).expect("a spec");
        assert_eq!(patched.check, Check::External { url: "http://other.test".to_owned(), invert_match: true });
        let risk =
            CustomSpec::create(&json!({"kind": "builtIn", "key": "approval-risk", "from": 1_767_225_600_000_i64}));
        let risk = risk.expect("a spec");
        assert!(matches!(risk.check, Check::BuiltIn { from: Some(_), .. }));
        let cleared = risk.patched(&json!({"from": null})).expect("a spec");
        assert_eq!(cleared.check, Check::BuiltIn { key: BuiltIn::ApprovalRisk, from: None });
        assert!(risk.patched(&json!({"key": "run-completion"})).is_err());
    }
}
