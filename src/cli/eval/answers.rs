//! Answers of an agent: from a file, or asked for at an endpoint.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::EvalArgs;
use super::files::{Line, objects};
use crate::clock::stopwatch;
use crate::scorers;

/// Where answers come from.
pub(super) enum Answers {
    /// They are there, each at the place of its case.
    Given(Vec<Option<Value>>),
    /// They are asked for.
    Asked { http: reqwest::Client, url: String, headers: HeaderMap, timeout: Duration },
}

/// The keys under which an answer may stand, in order.
const ANSWER: [&str; 4] = ["answer", "output", "text", "response"];

/// The most that is told of what an endpoint answered instead of an answer, in characters.
const TOLD: usize = 300;

impl Answers {
    /// Reads the file, or gets ready to ask.
    ///
    /// # Errors
    /// What is wrong with the file or the options; which cases of the split have no answer.
    pub(super) fn open(args: &EvalArgs, lines: &[Line]) -> anyhow::Result<Self> {
        if let Some(file) = &args.answers {
            let given = matched(file, objects(file)?, lines)?;
            let without =
                |(line, answer): (&Line, &Option<Value>)| answer.is_none() && line.is_in(args.split.as_deref());
            let missing: Vec<String> = (1..)
                .zip(lines.iter().zip(&given))
                .filter(|(_, it)| without(*it))
                .map(|(n, (line, _))| line.id.clone().unwrap_or_else(|| format!("number {n}")))
                .collect();
            ensure!(
                missing.is_empty(),
                "{} has no answer to {} of the {} cases: {}; an answer that failed is a line with error",
                file.display(),
                missing.len(),
                lines.len(),
                missing.join(", ")
            );
            return Ok(Self::Given(given));
        }
        let url = args.endpoint.clone().context("--answers or --endpoint is needed")?;
        let mut headers = HeaderMap::new();
        for header in &args.header {
            let (name, value) =
                header.split_once(':').with_context(|| format!("\"{header}\" is no \"Name: value\""))?;
            let name = HeaderName::try_from(name.trim()).with_context(|| format!("\"{name}\" is no header's name"))?;
            let value = HeaderValue::try_from(value.trim()).context("a header's value can't be sent")?;
            headers.append(name, value);
        }
        let http = scorers::http_client().map_err(anyhow::Error::msg)?;
        Ok(Self::Asked { http, url, headers, timeout: Duration::from_secs(args.timeout) })
    }

    /// The answer to a case, in the form of a row: what went wrong in place of an answer is part of it.
    pub(super) async fn of(&self, place: usize, line: &Line) -> Value {
        match self {
            Self::Given(given) => row(given.get(place).and_then(Option::as_ref).unwrap_or(&Value::Null)),
            Self::Asked { http, url, headers, timeout } => {
                let watch = stopwatch();
                let body = json!({"query": line.query, "case_id": line.id.clone().unwrap_or_else(|| format!("case-{place}")),
                    "question_index": place, "run_number": 1});
                let asked = http.post(url).headers(headers.clone()).timeout(*timeout).json(&body).send().await;
                let mut row = match asked {
                    Err(error) => failed("Unreachable", &cause(error)),
                    Ok(response) => {
                        let status = response.status();
                        match response.text().await {
                            Err(error) => failed("Unreadable", &cause(error)),
                            Ok(text) if status.is_success() => {
                                row(&serde_json::from_str(&text).unwrap_or(Value::String(text)))
                            }
                            Ok(text) => failed(&format!("HTTP {}", status.as_u16()), &text),
                        }
                    }
                };
                row["timings"]["latencyMs"] = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX).into();
                row
            }
        }
    }
}

/// A row from what an agent gave: text, or an object with the answer or the error.
fn row(given: &Value) -> Value {
    let answer = match given {
        Value::String(text) => Value::String(text.clone()),
        Value::Object(object) => ANSWER.iter().find_map(|key| object.get(*key)).cloned().unwrap_or(Value::Null),
        _ => Value::Null,
    };
    let mut row = match given.get("error").filter(|error| !error.is_null()) {
        Some(Value::String(message)) => failed("Error", message),
        Some(error) => json!({"error": error}),
        None if answer.as_str().is_some_and(|text| !text.trim().is_empty()) || answer.is_object() => {
            json!({"output": answer})
        }
        None => failed("EmptyOutput", "the agent gave no answer"),
    };
    for (ours, names) in [("metadata", ["metadata"].as_slice()), ("traceId", &["traceId", "trace_id"])] {
        if let Some(value) = names.iter().find_map(|name| given.get(*name)) {
            row[ours] = value.clone();
        }
    }
    for (ours, names) in [
        ("inputTokens", ["inputTokens", "input_tokens"]),
        ("outputTokens", ["outputTokens", "output_tokens"]),
        ("latencyMs", ["latencyMs", "latency_ms"]),
    ] {
        if let Some(value) = names.iter().find_map(|name| given.get(*name)) {
            row["timings"][ours] = value.clone();
        }
    }
    row
}

/// Why a request came to nothing, down to the first cause, without the address, which may hold a secret.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

fn failed(kind: &str, message: &str) -> Value {
    let message: String = message.chars().take(TOLD).collect();
    json!({"error": {"type": kind, "message": message}})
}

/// The answers in the order of the cases: by id, by query, or, where no line has either, in the order of the file.
fn matched(file: &Path, answers: Vec<(usize, Value)>, lines: &[Line]) -> anyhow::Result<Vec<Option<Value>>> {
    let mut given: Vec<Option<Value>> = vec![None; lines.len()];
    let named = |value: &Value| value.get("id").is_some() || value.get("query").is_some();
    if !answers.iter().any(|(_, value)| named(value)) {
        ensure!(
            answers.len() <= lines.len(),
            "{} has {} answers to {} cases; give each the id or the query of its case",
            file.display(),
            answers.len(),
            lines.len()
        );
        for (place, (_, value)) in answers.into_iter().enumerate() {
            given[place] = Some(value);
        }
        return Ok(given);
    }
    for (number, value) in answers {
        let (id, query) = (value["id"].as_str(), value["query"].as_str());
        let is_meant = |line: &Line| match id {
            Some(id) => line.id.as_deref() == Some(id),
            None => query == Some(line.query.as_str()),
        };
        let places: Vec<usize> = (0..lines.len()).filter(|place| is_meant(&lines[*place])).collect();
        match places.iter().find(|place| given[**place].is_none()) {
            Some(place) => given[*place] = Some(value),
            None if places.is_empty() => bail!("{}, line {number}: no case has that id or query", file.display()),
            None => bail!("{}, line {number}: its case has an answer already", file.display()),
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "{\"id\": \"a\", \"query\": \"one?\"}\n{\"query\": \"two?\"}\n").expect("written");
        super::super::files::dataset(file.path()).expect("cases")
    }

    fn of(answers: &[Value]) -> anyhow::Result<Vec<Option<Value>>> {
        matched(Path::new("answers"), (1..).zip(answers.iter().cloned()).collect(), &lines())
    }

    #[test]
    fn answers_find_their_cases_by_id_by_query_or_in_order() {
        let (one, two) = (json!({"id": "a", "answer": "1"}), json!({"query": "two?", "answer": "2"}));
        assert_eq!(of(&[two.clone(), one.clone()]).expect("matched"), [Some(one.clone()), Some(two)]);
        let plain = [json!({"answer": "1"}), json!({"answer": "2"})];
        assert_eq!(of(&plain).expect("matched"), plain.clone().map(Some));
        assert_eq!(of(&plain[..1]).expect("matched")[1], None);
        assert!(of(&[json!({"id": "x"})]).expect_err("unknown").to_string().contains("line 1: no case"));
        assert!(of(&[one.clone(), one]).expect_err("twice").to_string().contains("line 2: its case has an answer"));
        assert!(of(&[plain[0].clone(), plain[0].clone(), plain[1].clone()]).is_err());
    }

    #[test]
    fn what_an_agent_gave_becomes_a_row() {
        for given in
            [json!("hi"), json!({"answer": "hi"}), json!({"output": {"text": "hi"}}), json!({"response": "hi"})]
        {
            assert!(row(&given)["output"].to_string().contains("hi"), "{given}");
        }
        assert_eq!(row(&json!({"error": "boom"}))["error"], json!({"type": "Error", "message": "boom"}));
        for nothing in [json!(""), json!({"answer": " "}), json!({}), Value::Null] {
            assert_eq!(row(&nothing)["error"]["type"], "EmptyOutput", "{nothing}");
        }
        assert_eq!(row(&json!({"answer": "x", "latency_ms": 5, "metadata": {"m": 1}}))["timings"]["latencyMs"], 5);
    }
}
