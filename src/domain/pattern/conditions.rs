//! Conditions: the rows of a pattern, compiled, and how they are folded into one answer.

use regex::{Regex, RegexBuilder};

use super::phrase::{Haystack, Phrase};
use super::{Condition, Connector, Detector, Quote, Sides, Source};

/// How large a compiled expression may grow, in bytes. Together with an engine that is linear in the text, it bounds what
/// one condition can cost.
const REGEX_SIZE: usize = 1 << 20;

/// One row, ready to be read.
#[derive(Debug)]
pub(super) struct Row {
    connector: Connector,
    negate: bool,
    reads_input: bool,
    reads_output: bool,
    finder: Finder,
}

#[derive(Debug)]
enum Finder {
    Phrase { phrase: Phrase, value: String },
    Regex(Regex),
}

/// Both sides, each made comparable at most once however many rows read it.
pub(super) struct Texts<'a> {
    input: Haystack<'a>,
    output: Haystack<'a>,
}

impl<'a> Texts<'a> {
    pub(super) fn of(sides: &Sides<'a>) -> Self {
        Self { input: Haystack::new(sides.input), output: Haystack::new(sides.output) }
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
        };
        let reads = |source| condition.sources.contains(&source) || condition.sources.contains(&Source::Trace);
        Ok(Self {
            connector: condition.connector,
            negate: condition.negate,
            reads_input: reads(Source::UserMessage),
            reads_output: reads(Source::Response),
            finder,
        })
    }

    fn find<'t>(&'t self, texts: &'t Texts<'t>) -> Option<Found<'t>> {
        let output = self.reads_output.then_some(&texts.output);
        let input = self.reads_input.then_some(&texts.input);
        output.into_iter().chain(input).find_map(|side| {
            let start = match &self.finder {
                Finder::Phrase { phrase, .. } => side.find(phrase)?,
                Finder::Regex(regex) => regex.find(side.text())?.start(),
            };
            Some(Found { finder: &self.finder, side, start })
        })
    }
}

/// Where a row found something. The quote is drawn only for the row that decides: it may cost as much as the search.
#[derive(Clone, Copy)]
struct Found<'t> {
    finder: &'t Finder,
    side: &'t Haystack<'t>,
    start: usize,
}

impl Found<'_> {
    fn quote(self) -> Quote {
        match self.finder {
            Finder::Phrase { phrase, value } => Quote::new(Some(value), self.side.original(phrase, self.start)),
            Finder::Regex(regex) => {
                let found = regex.find_at(self.side.text(), self.start);
                Quote::new(None, found.map_or("", |found| found.as_str()))
            }
        }
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

/// Folds the rows left to right. The first row's connector joins nothing; `nor` is "and not".
pub(super) fn fold<'t>(rows: &'t [Row], texts: &'t Texts<'t>) -> (bool, Option<Quote>) {
    let mut holds = false;
    let mut what: Option<Found<'t>> = None;
    for (index, row) in rows.iter().enumerate() {
        let connector = if index == 0 { Connector::Or } else { row.connector };
        if holds == (connector == Connector::Or) {
            continue;
        }
        let found = row.find(texts);
        let row_holds = found.is_some() != row.negate;
        holds = match connector {
            Connector::And | Connector::Or => row_holds,
            Connector::Nor => !row_holds,
        };
        let speaks_for_it = !row.negate && connector != Connector::Nor;
        what = if holds { what.or(found.filter(|_| speaks_for_it)) } else { None };
    }
    (holds, what.map(Found::quote))
}
