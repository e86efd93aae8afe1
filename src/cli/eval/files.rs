//! Files of an evaluation: cases and answers, one JSON object a line.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::domain::dataset::DatasetSpec;

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// What people call it.
    pub(super) id: Option<String>,
    /// What the agent is asked.
    pub(super) query: String,
    expected: Option<String>,
    guideline: Option<String>,
    splits: Vec<String>,
}

impl Line {
    /// Whether it belongs to a split; every case belongs to `None`.
    pub(super) fn is_in(&self, split: Option<&str>) -> bool {
        split.is_none_or(|split| self.splits.iter().any(|own| own == split))
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| value.get(*key).filter(|given| !given.is_null()));
            match found {
                None => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
                Some(_) => Err(format!("{} must be text", keys[0])),
            }
        };
        let splits = match value.get("splits") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(_) => return Err("splits must be a list of names".to_owned()),
        };
        Ok(Self {
            id: text(&["id"])?,
            query: text(&["query", "question", "input"])?.ok_or("query must be text")?,
            expected: text(&["expected", "expectedResults"])?,
            guideline: text(&["guideline", "judgeGuideline"])?,
            splits,
        })
    }
}

/// The cases of a file.
///
/// # Errors
/// Which file can't be read, or which line is no case, and why.
pub(super) fn dataset(path: &Path) -> anyhow::Result<Vec<Line>> {
    let lines = objects(path)?;
    ensure!(!lines.is_empty(), "{} holds no case", path.display());
    let read = |(number, value): (usize, Value)| {
        Line::read(&value).map_err(|why| anyhow::anyhow!("{}, line {number}: {why}", path.display()))
    };
    lines.into_iter().map(read).collect()
}

/// The objects of a file of JSON lines, each with the number of its line. Empty lines are passed over.
///
/// # Errors
/// Which file can't be read, or which line is no JSON object.
pub(super) fn objects(path: &Path) -> anyhow::Result<Vec<(usize, Value)>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let value: Value = serde_json::from_str(line)
                .with_context(|| format!("{}, line {number}: no JSON object", path.display()))?;
            ensure!(value.is_object(), "{}, line {number}: no JSON object", path.display());
            Ok((number, value))
        })
        .collect()
}

/// The dataset that these cases make.
///
/// # Errors
/// What is wrong with it.
pub(super) fn spec(name: &str, lines: &[Line]) -> anyhow::Result<DatasetSpec> {
    let question = |line: &Line| {
        json!({"main_question": {"query": line.query, "expectedResults": line.expected, "judgeGuideline": line.guideline,
            "splits": (!line.splits.is_empty()).then_some(&line.splits)}, "follow_up_questions": []})
    };
    let questions: Vec<Value> = lines.iter().map(question).collect();
    Ok(DatasetSpec::create(&json!({"name": name, "questions": questions}))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("it can be written");
        file
    }

    #[test]
    fn cases_are_read_line_by_line() {
        let file = file(
            "{\"id\": \"a\", \"query\": \"refund?\", \"expected\": \"yes\"}\n\n{\"question\": \"when?\", \"splits\": [\"s\"]}\n",
        );
        let lines = dataset(file.path()).expect("cases");
        assert_eq!((lines[0].id.as_deref(), lines[0].expected.as_deref()), (Some("a"), Some("yes")));
        assert_eq!(
            (lines[1].query.as_str(), lines[1].is_in(Some("s")), lines[0].is_in(Some("s"))),
            ("when?", true, false)
        );
        assert_eq!(spec("d", &lines).expect("a dataset").cases()[0].reference.expected.as_deref(), Some("yes"));
    }

    #[test]
    fn a_broken_line_is_named() {
        for (text, part) in [
            ("{\"query\": \"a\"}\n{", "line 2: no JSON object"),
            ("[1]", "line 1: no JSON object"),
            ("{\"query\": 7}", "line 1: query must be text"),
            ("{\"expected\": \"x\"}", "line 1: query must be text"),
            ("\n", "holds no case"),
        ] {
            let error = dataset(file(text).path()).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
