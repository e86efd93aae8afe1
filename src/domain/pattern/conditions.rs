//! Conditions: the rows of a pattern, compiled, and how they are folded into one answer.

use regex::{Regex, RegexBuilder};

use super::phrase::{Haystack, Phrase};
use super::{Condition, Connector, Detector, Place, Quote, Sides, Source};
use crate::domain::content::Speaker;

/// How large a compiled expression may grow, in bytes. Together with an engine that is linear in the text, it bounds what
/// one condition can cost.
const REGEX_SIZE: usize = 1 << 20;

/// One row, ready to be read.
#[derive(Debug)]
pub(super) struct Row {
    connector: Connector,
    negate: bool,
    reads: Reads,
    finder: Finder,
}

/// What a row reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reads {
    pub(super) input: bool,
    pub(super) output: bool,
    /// What a single trace holds beside both.
    pub(super) trace: bool,
}

#[derive(Debug)]
enum Finder {
    Phrase {
        phrase: Phrase,
        value: String,
    },
    Regex(Regex),
    /// A model is asked, elsewhere.
    Meaning(String),
}

/// What is read, each made comparable at most once however many rows read it.
pub(super) struct Texts<'a> {
    input: Haystack<'a>,
    output: Haystack<'a>,
    trace: Option<Haystack<'a>>,
}

impl<'a> Texts<'a> {
    pub(super) fn of(sides: &Sides<'a>) -> Self {
        Self {
            input: Haystack::new(sides.input),
            output: Haystack::new(sides.output),
            trace: sides.trace.map(Haystack::new),
        }
    }
}

impl Row {
    /// Compiles one row.
    ///
    /// # Errors
    /// Why its value can't be looked for.
    pub(super) fn compile(condition: &Condition) -> Result<Self, String> {
        let finder = match condition.detector {
            Detector::Phrase => Finder::Phrase {
                phrase: Phrase::new(&condition.value, condition.case_sensitive)
                    .ok_or_else(|| "the phrase is blank".to_owned())?,
                value: condition.value.clone(),
            },
            Detector::Regex => Finder::Regex(compile_regex(&condition.value, condition.case_sensitive)?),
            Detector::Semantic if condition.value.trim().is_empty() => return Err("the condition is blank".to_owned()),
            Detector::Semantic => Finder::Meaning(condition.value.clone()),
        };
        let reads = |source| condition.sources.contains(&source);
        Ok(Self {
            connector: condition.connector,
            negate: condition.negate,
            reads: Reads {
                input: reads(Source::UserMessage),
                output: reads(Source::Response),
                trace: reads(Source::Trace),
            },
            finder,
        })
    }

    /// What it reads of these texts: the source `trace` is both sides of a session; of a single trace it is what the agent said
    /// and what the trace holds beside.
    pub(super) fn reads(&self, texts: &Texts<'_>) -> Reads {
        let Reads { input, output, trace } = self.reads;
        if texts.trace.is_some() {
            return Reads { input, output: output || trace, trace };
        }
        Reads { input: input || trace, output: output || trace, trace: false }
    }

    /// What a model is asked about this row. `None` where none is asked.
    pub(super) fn meaning(&self) -> Option<&str> {
        match &self.finder {
            Finder::Meaning(value) => Some(value),
            Finder::Phrase { .. } | Finder::Regex(_) => None,
        }
    }

    /// Whether anything is found, and where. `answer` is what a model said of this row; `None` is not known.
    fn find<'t>(&'t self, texts: &'t Texts<'t>, answer: Option<bool>) -> (Option<bool>, Option<Found<'t>>) {
        let reads = self.reads(texts);
        // What the agent said comes first there too, so that places in it stay true.
        let agents = texts.trace.as_ref().filter(|_| reads.trace).unwrap_or(&texts.output);
        let output = reads.output.then_some((Speaker::Agent, agents));
        let input = reads.input.then_some((Speaker::User, &texts.input));
        if let Finder::Meaning(value) = &self.finder {
            return (answer, (answer == Some(true)).then_some(Found::Meaning(value)));
        }
        let found = output.into_iter().chain(input).find_map(|(speaker, side)| {
            let start = match &self.finder {
                Finder::Phrase { phrase, .. } => side.find(phrase)?,
                Finder::Regex(regex) => regex.find(side.text())?.start(),
                Finder::Meaning(_) => return None,
            };
            Some(Found::Text { finder: &self.finder, speaker, side, start })
        });
        (Some(found.is_some()), found)
    }
}

/// What a row found. The quote is drawn only for the row that decides: it may cost as much as the search.
#[derive(Clone, Copy)]
enum Found<'t> {
    Text { finder: &'t Finder, speaker: Speaker, side: &'t Haystack<'t>, start: usize },
    Meaning(&'t str),
}

impl Found<'_> {
    fn quote(self) -> Quote {
        let (finder, speaker, side, start) = match self {
            Self::Meaning(value) => return Quote::new(None, value, 0..value.len(), None),
            Self::Text { finder, speaker, side, start } => (finder, speaker, side, start),
        };
        let (phrase, found) = match finder {
            Finder::Phrase { phrase, value } => (Some(value), side.original(phrase, start)),
            Finder::Regex(regex) => (None, regex.find_at(side.text(), start).map_or("", |found| found.as_str())),
            Finder::Meaning(_) => (None, ""),
        };
        let offset = side.offset_of(found);
        Quote::new(phrase, side.text(), offset..offset + found.len(), Some(Place { speaker, offset }))
    }
}

/// Compiles an expression, linear in the length of the text it reads.
///
/// # Errors
/// Why it does not compile, in one line.
pub(super) fn compile_regex(value: &str, case_sensitive: bool) -> Result<Regex, String> {
    if value.trim().is_empty() {
        return Err("the expression is blank".to_owned());
    }
    RegexBuilder::new(value).case_insensitive(!case_sensitive).size_limit(REGEX_SIZE).build().map_err(|error| {
        match error {
            regex::Error::CompiledTooBig(limit) => format!("it grows beyond {limit} bytes when compiled"),
            // The parser draws the place over several lines; the last one names the reason.
            other => {
                let text = other.to_string();
                text.lines().last().unwrap_or(&text).trim_start_matches("error: ").to_owned()
            }
        }
    })
}

/// Folds the rows left to right. The first row's connector joins nothing; `nor` is "and not". `answers` tells what models said
/// of the rows that ask one, by their place; where that is not known the whole may still be. What was found belongs to the
/// row that decided.
pub(super) fn fold<'t>(
    rows: &'t [Row],
    texts: &'t Texts<'t>,
    answers: impl Fn(usize) -> Option<bool>,
) -> (Option<bool>, Option<Quote>) {
    let mut holds = Some(false);
    let mut what: Option<Found<'_>> = None;
    for (index, row) in rows.iter().enumerate() {
        let connector = if index == 0 { Connector::Or } else { row.connector };
        if decided(holds, connector) {
            continue;
        }
        let (is_there, found) = row.find(texts, if row.meaning().is_some() { answers(index) } else { None });
        let row_holds = is_there.map(|is_there| is_there != row.negate);
        holds = match connector {
            Connector::Or => either(holds, row_holds),
            Connector::And => both(holds, row_holds),
            Connector::Nor => both(holds, row_holds.map(|row_holds| !row_holds)),
        };
        let speaks_for_it = !row.negate && connector != Connector::Nor;
        what = if holds == Some(false) { None } else { what.or(found.filter(|_| speaks_for_it)) };
    }
    (holds, what.map(Found::quote))
}

/// The rows whose answers a model must give, by their place: none where the others decide.
pub(super) fn open_questions<'t>(rows: &'t [Row], texts: &'t Texts<'t>) -> Vec<usize> {
    if rows.iter().all(|row| row.meaning().is_none()) || fold(rows, texts, |_| None).0.is_some() {
        return Vec::new();
    }
    rows.iter().enumerate().filter(|(_, row)| row.meaning().is_some()).map(|(index, _)| index).collect()
}

/// Whether a row of this connector can't change what stands above it.
fn decided(above: Option<bool>, connector: Connector) -> bool {
    above == Some(connector == Connector::Or)
}

fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn either(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
