//! Patterns: conditions on what was said, folded into matched or not.

mod conditions;
mod phrase;
mod templates;
mod wire;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use self::templates::{Template, key, template, templates};

use self::conditions::{Row, Texts};
use super::content::Speaker;
use super::group::Severity;
use super::outcome::Goodness;
use super::redact;

/// How a row joins the rows above it, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connector {
    /// Both must hold.
    And,
    /// One of them must hold.
    Or,
    /// What stands above must hold, and this row must not.
    Nor,
}

/// What a condition reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// What the agent said.
    Response,
    /// What the user said.
    UserMessage,
    /// Both.
    Trace,
}

/// How a condition looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detector {
    /// For a phrase, whatever its case, width or composition.
    Phrase,
    /// For a regular expression, in the text as it came.
    Regex,
    /// For what is meant: a model is asked.
    Semantic,
}

/// One row of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// How it joins the rows above; of no meaning in the first.
    pub connector: Connector,
    /// Whether it holds where nothing is found.
    pub negate: bool,
    /// What it reads; one of them suffices.
    pub sources: Vec<Source>,
    /// How it looks.
    pub detector: Detector,
    /// What it looks for, 1-2000 characters.
    pub value: String,
    /// Whether case counts.
    pub case_sensitive: bool,
}

/// Everything about a pattern that people choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PatternSpec {
    /// Its name, 1-200 characters.
    pub name: String,
    /// What it is for, at most 2000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How people sort it, at most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// `contains`, `regex` or `semantic`, for lists; the conditions decide.
    pub detector_kind: String,
    /// What conditions made from legacy fields read.
    pub match_target: Vec<Source>,
    /// How bad a match is.
    pub severity: Severity,
    /// `proper` where a match is good; everything else counts as `failure`.
    pub polarity: String,
    /// Whether it watches live traffic on its own. Members of a group ignore it.
    pub enabled: bool,
    /// The share of live traffic it watches on its own, 0-1. Members of a group ignore it.
    pub sample_rate: f64,
    /// `all` or `selected` agents. Members of a group ignore it.
    pub scope_mode: String,
    /// The selected agents.
    pub agent_ids: Vec<String>,
    /// Its rows, 1-50.
    pub conditions: Vec<Condition>,
}

/// What was said, split by speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides<'a> {
    /// Everything the user said.
    pub input: &'a str,
    /// Everything the agent said.
    pub output: &'a str,
    /// What the source `trace` reads where a single trace is judged; both sides where it is a session.
    pub trace: Option<&'a str>,
}

/// Where something stands in one side of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Whose side.
    pub speaker: Speaker,
    /// Where it begins in the text of that side, in bytes.
    pub offset: usize,
}

/// The piece of text that made a pattern match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// The phrase that was looked for; `None` where it was something else.
    pub phrase: Option<String>,
    /// What was found, as it stands in the text, or the condition that a model found to hold: at most 80 characters, zero
    /// bytes replaced, and nothing in it that is half a secret, see [`redact::excerpt`].
    pub excerpt: String,
    /// Where it stands; `None` where a model found the condition to hold.
    pub place: Option<Place>,
}

/// The longest excerpt, in characters.
const EXCERPT: usize = 80;

impl Quote {
    fn new(phrase: Option<&String>, text: &str, found: Range<usize>, place: Option<Place>) -> Self {
        let excerpt = redact::excerpt(text, found, EXCERPT).replace('\0', "\u{fffd}");
        Self { phrase: phrase.cloned(), excerpt, place }
    }
}

/// What a model must be asked before a pattern can tell whether it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// The place of the row that asks, from 0.
    pub row: usize,
    /// The condition, in words.
    pub condition: String,
    /// Whether it reads what the user said.
    pub reads_input: bool,
    /// Whether it reads what the agent said.
    pub reads_output: bool,
    /// Whether it reads what went wrong and the tool calls too: those of a single trace.
    pub reads_calls: bool,
}

/// What a pattern made of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Whether it matched.
    pub matched: bool,
    /// What made it match; `None` where it did not, or where only the absence of something did.
    pub what: Option<Quote>,
}

impl Match {
    /// The text of a blend: `matched ("…")` or `no match`.
    pub fn detail(&self) -> String {
        match (&self.what, self.matched) {
            (Some(quote), true) => format!("matched (\"{}\")", quote.excerpt),
            (None, true) => "matched (nothing excluded was said)".to_owned(),
            (_, false) => "no match".to_owned(),
        }
    }
}

/// A pattern ready to read conversations: compiled once, shared between threads.
#[derive(Debug)]
pub struct Pattern {
    rows: Vec<Row>,
    match_is_good: bool,
}

impl Pattern {
    /// Compiles a spec.
    ///
    /// # Errors
    /// Which condition can't be compiled, and why.
    pub fn compile(spec: &PatternSpec) -> Result<Self, String> {
        if spec.conditions.is_empty() {
            return Err("the pattern has no conditions".to_owned());
        }
        let compile = |(index, condition)| {
            Row::compile(condition).map_err(|why| format!("conditions[{index}] can't be used: {why}"))
        };
        let rows = spec.conditions.iter().enumerate().map(compile).collect::<Result<_, _>>()?;
        Ok(Self { rows, match_is_good: spec.polarity == "proper" })
    }

    /// What models must be asked about a conversation. Nothing where the other rows decide, however the answers were.
    pub fn open_questions(&self, sides: &Sides<'_>) -> Vec<OpenQuestion> {
        let texts = Texts::of(sides);
        let open = conditions::open_questions(&self.rows, &texts);
        open.into_iter()
            .filter_map(|row| {
                let condition = self.rows[row].meaning()?.to_owned();
                let reads = self.rows[row].reads(&texts);
                Some(OpenQuestion {
                    row,
                    condition,
                    reads_input: reads.input,
                    reads_output: reads.output,
                    reads_calls: reads.trace,
                })
            })
            .collect()
    }

    /// Reads both sides of a conversation. `answers` holds what models said of the rows that ask one, by the row's place.
    /// `None`: an answer that decides is missing.
    pub fn read(&self, sides: &Sides<'_>, answers: &BTreeMap<usize, bool>) -> Option<Match> {
        let (matched, what) = conditions::fold(&self.rows, &Texts::of(sides), |row| answers.get(&row).copied());
        matched.map(|matched| Match { matched, what })
    }

    /// How good that is: a match is bad, and good where the polarity is `proper`.
    pub fn goodness(&self, matched: bool) -> Goodness {
        if matched == self.match_is_good { Goodness::GOOD } else { Goodness::BAD }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pattern(conditions: &Value) -> Pattern {
        let spec = PatternSpec::create(&json!({"name": "p", "conditions": conditions})).expect("a spec");
        Pattern::compile(&spec).expect("a pattern")
    }

    fn read(pattern: &Pattern, sides: &Sides<'_>) -> Match {
        pattern.read(sides, &BTreeMap::new()).expect("no model is asked")
    }

    fn said<'a>(input: &'a str, output: &'a str) -> Sides<'a> {
        Sides { input, output, trace: None }
    }

    fn row(connector: &str, value: &str) -> Value {
        json!({"connector": connector, "value": value, "detector": "phrase"})
    }

    #[test]
    fn rows_are_folded_left_to_right_without_precedence() {
        let rows = [
            (json!([row("and", "refund"), row("and", "sorry")]), "refund, sorry", true),
            (json!([row("and", "refund"), row("and", "sorry")]), "refund only", false),
            (json!([row("and", "refund"), row("or", "sorry")]), "sorry only", true),
            (json!([row("and", "refund"), row("or", "sorry")]), "neither", false),
            (json!([row("and", "refund"), row("nor", "sorry")]), "refund only", true),
            (json!([row("and", "refund"), row("nor", "sorry")]), "refund, sorry", false),
            (json!([row("nor", "refund")]), "a refund", true),
            (json!([row("or", "a1"), row("or", "b1"), row("and", "c1")]), "a1 c1", true),
            (json!([row("or", "a1"), row("or", "b1"), row("and", "c1")]), "a1 b1", false),
            (json!([row("or", "a1"), row("and", "b1"), row("or", "c1")]), "c1", true),
        ];
        for (conditions, output, expected) in rows {
            assert_eq!(read(&pattern(&conditions), &said("", output)).matched, expected, "{conditions} on {output:?}");
        }
    }

    #[test]
    fn each_row_reads_its_own_sources() {
        let on = |source: &str| pattern(&json!([{"value": "cancel", "detector": "phrase", "sources": [source]}]));
        for (source, in_input, in_output) in
            [("response", false, true), ("userMessage", true, false), ("trace", true, true)]
        {
            assert_eq!(read(&on(source), &said("I want to CANCEL", "done")).matched, in_input, "{source}");
            assert_eq!(read(&on(source), &said("hello", "I cancelled it")).matched, in_output, "{source}");
        }
    }

    #[test]
    fn of_a_single_trace_the_source_trace_reads_output_error_and_calls_and_not_the_input() {
        let on = |source: &str| pattern(&json!([{"value": "timeout", "detector": "phrase", "sources": [source]}]));
        let sides = |input, output| Sides { input, output, trace: Some("Sorry.\n\nlookup(7) [failed: timeout]") };
        assert!(read(&on("trace"), &sides("hello", "Sorry.")).matched);
        assert!(!read(&on("response"), &sides("hello", "Sorry.")).matched);
        let calm = Sides { trace: Some("Sorry."), ..sides("a timeout, again", "Sorry.") };
        assert_eq!((read(&on("trace"), &calm).matched, read(&on("userMessage"), &calm).matched), (false, true));
        let asked = pattern(&json!([{"value": "rude", "detector": "semantic", "sources": ["trace"]}]));
        let reads = |sides: &Sides<'_>| {
            let open = asked.open_questions(sides).remove(0);
            (open.reads_input, open.reads_output, open.reads_calls)
        };
        assert_eq!(reads(&calm), (false, true, true));
        assert_eq!(reads(&said("a", "b")), (true, true, false));
    }

    #[test]
    fn the_quote_is_from_the_row_that_decided_and_from_the_original_text() {
        let either = pattern(&json!([row("and", "alpha"), row("and", "beta"), row("or", "gamma")]));
        let found = read(&either, &said("", "alpha and GAMMA"));
        assert_eq!(
            found.what,
            Some(Quote {
                phrase: Some("gamma".into()),
                excerpt: "GAMMA".into(),
                place: Some(Place { speaker: Speaker::Agent, offset: 10 })
            })
        );
        assert_eq!(found.detail(), "matched (\"GAMMA\")");
        let long = pattern(&json!([{"value": "x+", "detector": "regex"}]));
        let quote = read(&long, &said("", &"X".repeat(500))).what.expect("a quote");
        assert_eq!(quote.phrase, None);
        assert_eq!(quote.excerpt.chars().count(), 80);
        let absent = pattern(&json!([{"value": "disclaimer", "detector": "phrase", "negate": true}]));
        assert_eq!(read(&absent, &said("", "hello")).detail(), "matched (nothing excluded was said)");
        assert_eq!(read(&absent, &said("", "a disclaimer")).detail(), "no match");
    }

    #[test]
    fn a_match_is_bad_unless_the_polarity_is_proper() {
        for (polarity, matched, goodness) in [
            ("failure", true, 0.0),
            ("failure", false, 1.0),
            ("proper", true, 1.0),
            ("proper", false, 0.0),
            ("made up", true, 0.0),
            ("made up", false, 1.0),
        ] {
            let body = json!({"name": "p", "polarity": polarity, "includeTerms": ["x"]});
            let pattern = Pattern::compile(&PatternSpec::create(&body).expect("a spec")).expect("a pattern");
            let got = pattern.goodness(matched).get();
            assert!((got - goodness).abs() < f64::EPSILON, "{polarity} {matched}");
        }
    }

    #[test]
    fn an_expression_that_backtracks_elsewhere_is_linear_here() {
        let pattern = pattern(&json!([{"value": "(a+)+$", "detector": "regex"}]));
        assert!(!read(&pattern, &said("", &format!("{}b", "a".repeat(100_000)))).matched);
    }

    fn asks(connector: &str, condition: &str) -> Value {
        json!({"connector": connector, "value": condition, "detector": "semantic", "sources": ["trace"]})
    }

    #[test]
    fn a_model_is_asked_only_where_the_other_rows_do_not_decide() {
        let dodge = pattern(&json!([row("and", "refund"), asks("and", "the agent dodges")]));
        assert_eq!(dodge.open_questions(&said("", "hello")), []);
        assert_eq!(read(&dodge, &said("", "hello")).detail(), "no match");
        let open = dodge.open_questions(&said("", "a refund"));
        let expected = OpenQuestion {
            row: 1,
            condition: "the agent dodges".into(),
            reads_input: true,
            reads_output: true,
            reads_calls: false,
        };
        assert_eq!(open, [expected]);
        assert_eq!(dodge.read(&said("", "a refund"), &BTreeMap::new()), None, "the answer decides");
        let yes = dodge.read(&said("", "a refund"), &BTreeMap::from([(1, true)])).expect("an answer");
        assert_eq!(yes.detail(), "matched (\"refund\")");
        let no = dodge.read(&said("", "a refund"), &BTreeMap::from([(1, false)])).expect("an answer");
        assert!(!no.matched);
        let alone = pattern(&json!([asks("and", "the agent dodges")]));
        let yes = alone.read(&said("", "x"), &BTreeMap::from([(0, true)])).expect("an answer");
        assert_eq!((yes.detail().as_str(), yes.what.expect("a quote").place), ("matched (\"the agent dodges\")", None));
        let either = pattern(&json!([asks("and", "the agent dodges"), row("or", "refund")]));
        assert_eq!(either.open_questions(&said("", "a refund")), []);
    }

    proptest! {
        #[test]
        fn folding_agrees_with_the_definition(rows in proptest::collection::vec((0..3_u8, any::<bool>(), 0..3_usize), 1..6), present in 0..8_u8) {
            let words = ["wone", "wtwo", "wthree"];
            let names = ["and", "or", "nor"];
            let says = |word: usize| present & (1 << word) != 0;
            let text: Vec<&str> = (0..3).filter(|&word| says(word)).map(|word| words[word]).collect();
            let conditions: Vec<Value> = rows
                .iter()
                .map(|&(c, negate, word)| json!({"connector": names[usize::from(c)], "negate": negate, "value": words[word], "detector": "phrase"}))
                .collect();
            let mut expected = None;
            for &(connector, negate, word) in &rows {
                let holds = says(word) != negate;
                expected = Some(match (expected, connector) {
                    (None, _) => holds,
                    (Some(above), 0) => above && holds,
                    (Some(above), 1) => above || holds,
                    (Some(above), _) => above && !holds,
                });
            }
            let read = read(&pattern(&Value::Array(conditions)), &said("", &text.join(" ")));
            prop_assert_eq!(Some(read.matched), expected);
            prop_assert!(read.matched || read.what.is_none());
        }
    }
}
