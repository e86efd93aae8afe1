//! Scorers by themselves: a pattern of ten conditions beside a plain scan of the same bytes, and scripts through worker
//! processes.

use std::collections::BTreeMap;
use std::hint::black_box;

use futures::StreamExt as _;
use regex::Regex;
use serde_json::json;

use super::{Report, data};
use crate::app;
use crate::cli::args::BenchScorersArgs;
use crate::clock::stopwatch;
use crate::config::Code;
use crate::domain::outcome::Outcome;
use crate::domain::pattern::{Pattern, PatternSpec, Sides};
use crate::entropy::SeededEntropy;
use crate::scorers::code::{CodeInput, CodeScorers, Language, has_engine};

const PHRASES: [&str; 5] =
    ["cancel my subscription", "speak to a manager", "this is useless", "I can't help with that", "legal action"];
const EXPRESSIONS: [&str; 5] = [
    r"\b(?:fuck|shit|damn)\w*\b",
    r"\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b",
    r"(?:ignore|disregard) (?:all|any) (?:previous|prior) instructions",
    r"[\w.+-]+@[\w-]+\.[\w.]+",
    r"as an? (?:AI|artificial|language) \w+",
];

const JAVASCRIPT: &str = r"
function handler(input, output) {
  const words = output.toLowerCase().match(/[a-z]+/g) ?? [];
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const sorry = counts.get('sorry') ?? 0;
  const asked = (input.match(/\b(order|refund|parcel)\b/g) ?? []).length;
  return { score: sorry * 10 > asked ? 0.5 : 1, words: words.length, distinct: counts.size };
}";
const PYTHON: &str = r"
import re

def handler(input, output, expected, metadata, trace):
    words = re.findall(r'[a-z]+', output.lower())
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    sorry = counts.get('sorry', 0)
    asked = len(re.findall(r'\b(order|refund|parcel)\b', input))
    return {'score': 0.5 if sorry * 10 > asked else 1, 'words': len(words), 'distinct': len(counts)}
";

pub(super) async fn measure(args: &BenchScorersArgs) -> anyhow::Result<Report> {
    let random = SeededEntropy::new(args.common.seed);
    let (input, output) = (side(&random, 24), side(&random, 48));
    let settings = Code { workers: args.workers, ..Code::default() };
    let scorers = app::code_scorers(&settings).map_err(anyhow::Error::msg)?;
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let kilobytes = (input.len() + output.len()) as f64 / 1e3;
    let mut report = Report::of(format!(
        "Scorers on a conversation of {TURNS} turns (seed {}): patterns on one core, scripts through {} workers",
        args.common.seed, args.workers
    ))
    .number("conversation", kilobytes, "kB");
    let (patterns, plain) = patterns(args, &Sides { input: &input, output: &output, trace: None })?;
    report = report.number("pattern_of_ten_conditions", patterns, "sessions/s").number(
        "plain_regex_scan_of_the_same",
        plain,
        "sessions/s",
    );
    let call = CodeInput {
        input: input.into(),
        output: output.into(),
        expected: None,
        metadata: json!({}),
        spans: Vec::new(),
    };
    let languages = [(Language::JavaScript, JAVASCRIPT, "javascript"), (Language::Python, PYTHON, "python")];
    for (language, script, name) in languages.into_iter().filter(|(language, ..)| has_engine(*language)) {
        report = report.number(name, scripts(&scorers, args, language, script, &call).await?, "calls/s");
    }
    Ok(report)
}

const TURNS: usize = 20;

/// One side of the conversation: so many turns of so many words.
fn side(random: &SeededEntropy, words: usize) -> String {
    (0..TURNS).map(|_| data::text(random, words)).collect::<Vec<_>>().join("\n\n")
}

/// Evaluations a second of a pattern that finds nothing, so that all its conditions are looked at, and of its ten expressions by
/// themselves over the same bytes.
fn patterns(args: &BenchScorersArgs, sides: &Sides<'_>) -> anyhow::Result<(f64, f64)> {
    let row =
        |value: &str, detector| json!({"connector": "or", "sources": ["trace"], "detector": detector, "value": value});
    let phrases = PHRASES.iter().map(|value| row(value, "phrase"));
    let conditions: Vec<_> = phrases.chain(EXPRESSIONS.iter().map(|value| row(value, "regex"))).collect();
    let spec = PatternSpec::create(&json!({"name": "ten", "conditions": conditions}))?;
    let pattern = Pattern::compile(&spec).map_err(anyhow::Error::msg)?;
    let none = BTreeMap::new();
    let evaluate = || pattern.read(black_box(sides), &none).is_some_and(|found| found.matched);
    let found = per_second(args.evaluations, evaluate)?;

    let escaped = PHRASES.iter().map(|phrase| regex::escape(phrase));
    let plain = escaped.chain(EXPRESSIONS.iter().map(|expression| (*expression).to_owned()));
    let plain = plain.map(|text| Regex::new(&format!("(?i){text}"))).collect::<Result<Vec<_>, _>>()?;
    let scan = || plain.iter().any(|regex| regex.is_match(black_box(sides.input)) || regex.is_match(sides.output));
    Ok((found, per_second(args.evaluations, scan)?))
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn per_second(times: u64, mut evaluate: impl FnMut() -> bool) -> anyhow::Result<f64> {
    anyhow::ensure!(!evaluate(), "the made-up conversation matches, so that not everything is looked at");
    let watch = stopwatch();
    for _ in 0..times {
        black_box(evaluate());
    }
    Ok(times as f64 / watch.elapsed().as_secs_f64())
}

/// Calls a second, with as many under way as there are workers.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
async fn scripts(
    scorers: &CodeScorers,
    args: &BenchScorersArgs,
    language: Language,
    script: &str,
    input: &CodeInput,
) -> anyhow::Result<f64> {
    let calls = |times| {
        let calls = futures::stream::iter((0..times).map(|_| scorers.run(language, script, input)));
        calls.buffer_unordered(args.workers).collect::<Vec<_>>()
    };
    // Workers start before the measurement.
    calls(u64::try_from(args.workers)?).await;
    let watch = stopwatch();
    let outcomes = calls(args.calls).await;
    let seconds = watch.elapsed().as_secs_f64();
    if let Some(broken) = outcomes.iter().find(|outcome| !matches!(outcome.outcome, Outcome::Scored { .. })) {
        anyhow::bail!("a {} call did not score: {:?}", language.as_str(), broken.outcome);
    }
    Ok(args.calls as f64 / seconds)
}
