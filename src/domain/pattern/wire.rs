//! Patterns on the wire: reading new ones and sparse patches, with every problem told at once. The legacy fields
//! (`includeTerms`, `excludeTerms`, `regex`, `semanticPrompt`, `matchMode`) become conditions.

use serde_json::Value;

use super::conditions::compile_regex;
use super::phrase::Phrase;
use super::{Condition, Connector, Detector, PatternSpec, Source};
use crate::domain::group::Severity;
use crate::domain::problems::{Problems, Reader};

/// The most rows of one pattern.
const MOST_CONDITIONS: usize = 50;
/// The longest phrase or expression, in characters.
const LONGEST_VALUE: usize = 2000;

const NO_CONDITION: &str = "Add at least one condition (includeTerms, regex, or semanticPrompt)";
impl PatternSpec {
    /// Reads a new pattern from the wire. `null` counts as absent.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let blank = Self {
            name: String::new(),
            description: None,
            category: None,
            detector_kind: "contains".to_owned(),
            match_target: vec![Source::Response],
            severity: Severity::Medium,
            polarity: "failure".to_owned(),
            enabled: false,
            sample_rate: 1.0,
            scope_mode: "all".to_owned(),
            agent_ids: Vec::new(),
            conditions: Vec::new(),
        };
        let mut problems = Problems::none();
        let mut reader = Reader::new(body, &mut problems);
        let mut spec = reader.plain_fields(blank);
        reader.name_is_there();
        spec.conditions = reader.new_conditions(&spec.match_target).unwrap_or_default();
        if spec.conditions.is_empty() && !reader.mentions_conditions() {
            reader.problems.add(NO_CONDITION);
        }
        reader.detector_kind(&mut spec);
        problems.into_result(spec)
    }

    /// This pattern with a sparse patch from the wire applied: absent keys and `null` keep their values, but `null` clears
    /// `description` and `category`. `conditions`, or any of
    /// `includeTerms`, `regex` and `semanticPrompt`, replaces all rows.
    ///
    /// # Errors
    /// Every problem found in the patch, each naming its field.
    pub fn patched(&self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(patch, &mut problems);
        let mut spec = reader.plain_fields(self.clone());
        if reader.given("name").is_some() {
            reader.name_is_there();
        }
        let rewrites = ["conditions", "includeTerms", "regex", "semanticPrompt"];
        if rewrites.iter().any(|key| reader.given(key).is_some()) {
            match reader.new_conditions(&spec.match_target) {
                Some(conditions) if conditions.is_empty() && !reader.mentions_conditions() => {
                    reader.problems.add(NO_CONDITION);
                }
                Some(conditions) => spec.conditions = conditions,
                None => {}
            }
            reader.detector_kind(&mut spec);
        } else if !reader.list("excludeTerms").is_empty() || spec.match_target != self.match_target {
            reader.problems.add(
                "excludeTerms and matchTarget only count together with the includeTerms or regex that they belong to: \
                 send those along, or send conditions",
            );
        }
        problems.into_result(spec)
    }
}

impl<'a> Reader<'a> {
    /// Everything but the name's presence and the conditions.
    fn plain_fields(&mut self, mut spec: PatternSpec) -> PatternSpec {
        self.set(&mut spec.name, "name", "1-200 characters", |v| {
            v.as_str()
                .map(str::trim)
                .filter(|name| name.chars().count() <= 200 && !name.contains('\0'))
                .map(str::to_owned)
        });
        for (field, key, most) in [(&mut spec.description, "description", 2000), (&mut spec.category, "category", 200)]
        {
            if self.object.get(key) == Some(&Value::Null) {
                *field = None;
            }
            let wanted = format!("text of at most {most} characters");
            self.set(field, key, &wanted, |v| v.as_str().and_then(|text| bounded(text, most)).map(Some));
        }
        self.set(&mut spec.match_target, "matchTarget", "a list of response, userMessage, trace", read_sources);
        self.set(&mut spec.severity, "severity", "one of: low, medium, high, critical", |v| {
            v.as_str().and_then(Severity::from_name)
        });
        self.set(&mut spec.polarity, "polarity", "text of at most 50 characters", |v| {
            v.as_str().and_then(|text| bounded(text, 50))
        });
        self.set(&mut spec.enabled, "enabled", "true or false", Value::as_bool);
        self.set(&mut spec.sample_rate, "sampleRate", "a number between 0 and 1", |v| {
            v.as_f64().filter(|rate| (0.0..=1.0).contains(rate))
        });
        // Any other word would read as all: a slip of the pen would watch agents that nobody chose.
        self.set(&mut spec.scope_mode, "scopeMode", "all or selected", |v| {
            v.as_str().filter(|mode| matches!(*mode, "all" | "selected")).map(str::to_owned)
        });
        self.set(&mut spec.agent_ids, "agentIds", "a list of at most 1000 ids", |v| {
            let ids = v.as_array().filter(|ids| ids.len() <= 1000)?;
            ids.iter().map(|id| id.as_str().and_then(|id| bounded(id, 512))).collect()
        });
        spec
    }

    fn name_is_there(&mut self) {
        let name = self.given("name");
        let blank = name.is_none_or(|name| name.as_str().is_some_and(|text| text.trim().is_empty()));
        self.problems.unless(!blank, || "Pattern name is required".to_owned());
    }

    fn list(&self, key: &str) -> &'a [Value] {
        self.given(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Whether anything was given that was meant as a condition, so that what is wrong with it was told already.
    fn mentions_conditions(&self) -> bool {
        let text = |key| self.given(key).is_some_and(|value| value.as_str().is_none_or(|text| !text.trim().is_empty()));
        !self.list("conditions").is_empty()
            || !self.list("includeTerms").is_empty()
            || text("regex")
            || text("semanticPrompt")
    }

    /// The rows: `conditions` where there are any, else those of the legacy fields. `None` where one of them is wrong.
    fn new_conditions(&mut self, targets: &[Source]) -> Option<Vec<Condition>> {
        for key in ["conditions", "includeTerms", "excludeTerms"] {
            let fine = self.given(key).is_none_or(Value::is_array);
            self.problems.unless(fine, || format!("{key} must be a list"));
        }
        let given = self.list("conditions");
        let rows = if given.is_empty() {
            self.legacy_conditions(targets)
        } else {
            given.iter().enumerate().map(|(index, row)| self.condition(index, row)).collect()
        };
        let count = rows.len();
        self.problems
            .unless(count <= MOST_CONDITIONS, || format!("conditions must be at most {MOST_CONDITIONS}, not {count}"));
        rows.into_iter().collect()
    }

    fn condition(&mut self, index: usize, row: &Value) -> Option<Condition> {
        let place = format!("conditions[{index}]");
        let text = |key: &str| row.get(key).and_then(Value::as_str);
        let connector = match text("connector") {
            _ if index == 0 => Some(Connector::And),
            None | Some("and") => Some(Connector::And),
            Some("or") => Some(Connector::Or),
            Some("nor") => Some(Connector::Nor),
            Some(_) => None,
        };
        self.problems.unless(connector.is_some(), || format!("{place}.connector must be and, or, nor"));
        let detector = match text("detector") {
            None | Some("phrase") => Some(Detector::Phrase),
            Some("regex") => Some(Detector::Regex),
            Some("semantic") => Some(Detector::Semantic),
            Some(_) => None,
        };
        self.problems.unless(detector.is_some(), || format!("{place}.detector must be phrase, regex or semantic"));
        let sources = match row.get("sources") {
            None | Some(Value::Null) => Some(vec![Source::Response]),
            Some(given) => read_sources(given),
        };
        self.problems.unless(sources.is_some(), || format!("{place}.sources must list response, userMessage, trace"));
        let flag = |key: &str| row.get(key) == Some(&Value::Bool(true));
        let case_sensitive = flag("caseSensitive");
        let value = self.value(&format!("{place}.value"), row.get("value"), detector?, case_sensitive);
        Some(Condition {
            connector: connector?,
            negate: flag("negate"),
            sources: sources?,
            detector: detector?,
            value: value?,
            case_sensitive,
        })
    }

    /// A phrase or expression that can be looked for.
    fn value(
        &mut self,
        place: &str,
        value: Option<&Value>,
        detector: Detector,
        case_sensitive: bool,
    ) -> Option<String> {
        let text = value.and_then(Value::as_str).and_then(|text| bounded(text, LONGEST_VALUE));
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            self.problems.add(format!("{place} must be text of 1-{LONGEST_VALUE} characters"));
            return None;
        };
        let wrong = match detector {
            Detector::Phrase => Phrase::new(&text, case_sensitive).is_none().then(|| "the phrase is blank".to_owned()),
            Detector::Regex => compile_regex(&text, case_sensitive).err(),
            Detector::Semantic => None,
        };
        match wrong {
            None => Some(text),
            Some(why) => {
                self.problems.add(format!(
                    "{place} is not a usable {}: {why}",
                    if detector == Detector::Regex { "regular expression" } else { "phrase" }
                ));
                None
            }
        }
    }

    fn legacy_conditions(&mut self, targets: &[Source]) -> Vec<Option<Condition>> {
        let further = match self.given("matchMode").map(Value::as_str) {
            None | Some(Some("any")) => Connector::Or,
            Some(Some("all")) => Connector::And,
            Some(_) => {
                self.problems.add("matchMode must be any or all");
                Connector::Or
            }
        };
        let mut wanted: Vec<(String, &Value, Detector)> = (0..)
            .zip(self.list("includeTerms"))
            .map(|(index, term): (usize, _)| (format!("includeTerms[{index}]"), term, Detector::Phrase))
            .collect();
        if let Some(regex) = self.given("regex").filter(|regex| regex.as_str() != Some("")) {
            wanted.push(("regex".to_owned(), regex, Detector::Regex));
        }
        if let Some(prompt) =
            self.given("semanticPrompt").filter(|prompt| prompt.as_str().is_none_or(|text| !text.trim().is_empty()))
        {
            wanted.push(("semanticPrompt".to_owned(), prompt, Detector::Semantic));
        }
        if wanted.is_empty() {
            return Vec::new();
        }
        let excluded = (0..)
            .zip(self.list("excludeTerms"))
            .map(|(index, term): (usize, _)| (format!("excludeTerms[{index}]"), term, Detector::Phrase));
        let included = wanted.len();
        wanted.extend(excluded);
        let row = |(index, (place, value, detector)): (usize, (String, &Value, Detector))| {
            let negate = index >= included;
            Some(Condition {
                connector: if index == 0 || negate { Connector::And } else { further },
                negate,
                sources: targets.to_vec(),
                detector,
                value: self.value(&place, Some(value), detector, false)?,
                case_sensitive: false,
            })
        };
        wanted.into_iter().enumerate().map(row).collect()
    }

    /// The kind for lists: the given one, else the first row's.
    fn detector_kind(&mut self, spec: &mut PatternSpec) {
        let kind = match spec.conditions.first().map(|row| row.detector) {
            Some(Detector::Regex) => "regex",
            Some(Detector::Semantic) => "semantic",
            Some(Detector::Phrase) | None => "contains",
        };
        kind.clone_into(&mut spec.detector_kind);
        self.set(&mut spec.detector_kind, "detectorKind", "contains, regex or semantic", |v| {
            v.as_str().filter(|kind| matches!(*kind, "contains" | "regex" | "semantic")).map(str::to_owned)
        });
    }
}

fn bounded(text: &str, most: usize) -> Option<String> {
    (text.chars().count() <= most && !text.contains('\0')).then(|| text.to_owned())
}

/// A list of sources, or one of them by itself. An empty list is the response.
fn read_sources(value: &Value) -> Option<Vec<Source>> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut sources = Vec::new();
    for item in items {
        let source = serde_json::from_value(item.clone()).ok()?;
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    if sources.is_empty() {
        sources.push(Source::Response);
    }
    Some(sources)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
