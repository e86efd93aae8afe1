//! Redaction: secrets and personal data are taken out of a conversation before it leaves the process. What is stored stays as
//! it is.

mod excerpt;
mod numbers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::conversation::{Agent, Conversation, Turn};
use super::span::{SpanBody, StoredSpan, ToolCall};

pub use excerpt::{excerpt, head};

/// A kind of secret or personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// API keys, tokens, private keys and passwords, by their prefix, their shape or the name before them.
    Secret,
    /// Bank accounts: IBANs, by their length and check digits.
    Iban,
    /// Payment cards, by their prefix and check digit.
    Card,
    /// National ids of the USA, Spain, France, Germany, Italy and Brazil, by their form and, but for the USA, check digits.
    NationalId,
    /// E-mail addresses.
    Email,
    /// Phone numbers that are written as such: with a plus, or grouped as people group them.
    Phone,
}

impl Kind {
    /// All of them, in the order in which they are looked for: what one takes, later ones don't see.
    pub const ALL: [Self; 6] = [Self::Secret, Self::Iban, Self::Card, Self::NationalId, Self::Email, Self::Phone];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Iban => "iban",
            Self::Card => "card",
            Self::NationalId => "national-id",
            Self::Email => "email",
            Self::Phone => "phone",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    fn find(self, text: &str) -> Vec<Range<usize>> {
        match self {
            Self::Secret => secrets(text),
            Self::Iban => numbers::ibans(text),
            Self::Card => numbers::cards(text),
            Self::NationalId => numbers::national_ids(text),
            Self::Email => emails(text),
            Self::Phone => phones(text),
        }
    }
}

/// Whether anything of any kind may be found in a text: one look in place of two dozen, since most texts hold nothing.
fn may_hold(text: &str) -> bool {
    let is_digit = |c: &char| if c.is_ascii() { c.is_ascii_digit() } else { c.is_numeric() };
    text.contains('@') || text.chars().filter(is_digit).nth(FEWEST_DIGITS - 1).is_some() || HINTS.is_match(text)
}

/// What is known by its digits, but for bank accounts, has at least as many: the ids of Spain and Italy.
const FEWEST_DIGITS: usize = 7;

/// What is known by other signs. Where a word ends counts in ASCII here: that is so wherever it is so in Unicode, and much faster.
static HINTS: LazyLock<RegexSet> = LazyLock::new(|| {
    let given = given_to_a_name();
    let all = SHAPES.into_iter().chain([given.as_str(), numbers::IBAN_BEGINS]);
    RegexSet::new(all.map(|it| it.replace(r"\b", r"(?-u:\b)"))).expect("the expressions are fixed, and tests use them")
});

/// How much of each kind was taken out.
pub type Counts = BTreeMap<Kind, u32>;

/// The text with a mark such as `[redacted email]` in the place of everything of `kinds`; `counts` is raised accordingly.
pub fn text(text: &str, kinds: &[Kind], counts: &mut Counts) -> String {
    if !may_hold(text) {
        return text.to_owned();
    }
    let mut taken: BTreeMap<usize, (usize, Kind)> = BTreeMap::new();
    for kind in Kind::ALL.into_iter().filter(|kind| kinds.contains(kind)) {
        for found in united(kind.find(text)) {
            if taken.range(..found.end).next_back().is_none_or(|(_, (end, _))| *end <= found.start) {
                taken.insert(found.start, (found.end, kind));
            }
        }
    }
    let mut redacted = String::with_capacity(text.len());
    let mut rest = 0;
    for (start, (end, kind)) in taken {
        redacted.push_str(&text[rest..start]);
        redacted.push_str(&mark(kind));
        rest = end;
        *counts.entry(kind).or_default() += 1;
    }
    redacted.push_str(&text[rest..]);
    redacted
}

/// The ranges in order, those that overlap as one.
fn united(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|range| range.start);
    found.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        if overlaps {
            last.end = last.end.max(next.end);
        }
        overlaps
    });
    found
}

/// The conversation as it may leave the process, and how much was taken out of it. The anchor's spans are left out: they
/// carry the originals, see [`spans`].
pub fn conversation(conversation: &Conversation, kinds: &[Kind]) -> (Conversation, Counts) {
    let mut counts = Counts::new();
    let mut outward = Conversation { anchor: Vec::new(), ..conversation.clone() };
    for turn in &mut outward.turns {
        // Named one by one, so that a field that comes later asks here what it holds.
        let Turn { number: _, trace_id: _, head: _, at: _, input, request, output, error, tool_calls } = turn;
        for said in [input, request, output, error].into_iter().flatten() {
            *said = text(said, kinds, &mut counts);
        }
        for call in tool_calls {
            redact_call(call, kinds, &mut counts);
        }
    }
    // An agent that nobody named is called by its root span, and that perhaps by what was said.
    if let Some(agent) = &mut outward.agent {
        *agent = named(agent, kinds);
    }
    if let Some(reference) = &mut outward.reference {
        for told in [&mut reference.expected, &mut reference.guideline].into_iter().flatten() {
            *told = text(told, kinds, &mut counts);
        }
        if let Value::Object(metadata) = value(&Value::Object(reference.metadata.clone()), kinds, &mut counts) {
            reference.metadata = metadata;
        }
    }
    (outward, counts)
}

/// An agent as it may be named outside.
pub fn named(agent: &Agent, kinds: &[Kind]) -> Agent {
    let mut uncounted = Counts::new();
    Agent { id: text(&agent.id, kinds, &mut uncounted), name: text(&agent.name, kinds, &mut uncounted) }
}

/// Spans as they may leave the process. Attributes, which are not shown outside, are left out.
pub fn spans(spans: &[StoredSpan], kinds: &[Kind]) -> Vec<StoredSpan> {
    // The turns say the same, and are counted there.
    let mut uncounted = Counts::new();
    let mut outward = spans.to_vec();
    for StoredSpan { span, .. } in &mut outward {
        span.name = text(&span.name, kinds, &mut uncounted);
        let SpanBody { input, output, error, tool_calls, metadata, attributes, .. } = &mut span.body;
        attributes.clear();
        for content in [input, output, metadata].into_iter().flatten() {
            *content = value(content, kinds, &mut uncounted);
        }
        if let Some(error) = error {
            *error = text(error, kinds, &mut uncounted);
        }
        for call in tool_calls {
            redact_call(call, kinds, &mut uncounted);
        }
    }
    outward
}

fn redact_call(call: &mut ToolCall, kinds: &[Kind], counts: &mut Counts) {
    call.name = text(&call.name, kinds, counts);
    if let Some(error) = &mut call.error {
        *error = text(error, kinds, counts);
    }
    for content in [&mut call.input, &mut call.output].into_iter().flatten() {
        *content = value(content, kinds, counts);
    }
}

/// The same for JSON: texts and numbers, and those whose key says that they are secret, in lists too.
fn value(given: &Value, kinds: &[Kind], counts: &mut Counts) -> Value {
    match given {
        Value::String(said) => text(said, kinds, counts).into(),
        Value::Number(number) => {
            let said = number.to_string();
            let redacted = text(&said, kinds, counts);
            if redacted == said { given.clone() } else { redacted.into() }
        }
        Value::Array(items) => items.iter().map(|item| value(item, kinds, counts)).collect(),
        Value::Object(entries) => {
            let mut redacted = Map::new();
            for (key, item) in entries {
                let is_secret = kinds.contains(&Kind::Secret) && SECRET_NAME.is_match(key);
                let item = if is_secret { secret(item, kinds, counts) } else { value(item, kinds, counts) };
                redacted.insert(text(key, kinds, counts), item);
            }
            redacted.into()
        }
        Value::Null | Value::Bool(_) => given.clone(),
    }
}

/// What stands under a key that says that it is secret.
fn secret(given: &Value, kinds: &[Kind], counts: &mut Counts) -> Value {
    match given {
        Value::String(said) if said.is_empty() => given.clone(),
        Value::String(_) | Value::Number(_) => {
            *counts.entry(Kind::Secret).or_default() += 1;
            mark(Kind::Secret).into()
        }
        Value::Array(items) => items.iter().map(|item| secret(item, kinds, counts)).collect(),
        other => value(other, kinds, counts),
    }
}

fn mark(kind: Kind) -> String {
    format!("[redacted {}]", kind.as_str())
}

fn pattern(expression: &str) -> Regex {
    Regex::new(expression).expect("the expression is fixed, and tests use it")
}

/// Names of things that are secret.
const NAMES: &str = "api[_-]?key|access[_-]?key|secret(?:[_-]?key)?|client[_-]?secret|(?:access|auth|refresh|id|session)?[_-]?token|password|passwd|passphrase|pwd|private[_-]?key";

static SECRET_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("(?i)^(?:[a-z0-9]+[_-])*(?:{NAMES})$")));

/// Keys and tokens by what they begin with, and private keys as a whole. Where there is a group, the group is the secret.
const SHAPES: [&str; 14] = [
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}",
    r"\b(?:sk|pk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",
    r"\bgh[opsur]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:hf|npm|aw|dop_v1)_[A-Za-z0-9]{30,}",
    r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"(?i)\b(?:bearer|basic)\s+([a-z0-9._~+/-]{16,}=*)",
    r"[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@",
];

static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| SHAPES.into_iter().map(pattern).collect());

/// What is given to a name: `password = "..."`, `"api_key": "..."`, also where that is JSON within JSON.
fn given_to_a_name() -> String {
    format!(r#"(?i)(?:^|[^a-z])(?:{NAMES})\\*["']?\s*(?::=|[:=]|\bis\b)\s*\\*["']?([^\s"',;]{{6,}})"#)
}

static GIVEN: LazyLock<Regex> = LazyLock::new(|| pattern(&given_to_a_name()));

fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for shape in SECRETS.iter() {
        found.extend(shape.captures_iter(text).filter_map(|it| it.get(1).or_else(|| it.get(0))).map(|it| it.range()));
    }
    // A word after "password:" is prose; what has a digit in it is not.
    let given = GIVEN.captures_iter(text).filter_map(|it| it.get(1));
    let given = given.filter(|it| it.as_str().chars().any(|c| c.is_ascii_digit()));
    // What escapes the quote behind it is no part of it.
    found.extend(given.map(|it| it.start()..it.start() + it.as_str().trim_end_matches('\\').len()));
    found
}

static EMAIL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[\p{L}\p{N}._%+'-]*[\p{L}\p{N}_]@(?:[\p{L}\p{N}-]+\.)+(\p{L}{2,24})\b"));

/// What stands behind an @ in the names of files, `logo@2x.png`, and is no domain.
const FILE_ENDINGS: [&str; 10] = ["png", "jpg", "jpeg", "gif", "svg", "webp", "js", "css", "json", "html"];

fn emails(text: &str) -> Vec<Range<usize>> {
    let is_file = |ending: &str| FILE_ENDINGS.contains(&ending.to_ascii_lowercase().as_str());
    let found = EMAIL.captures_iter(text).filter(|it| it.get(1).is_some_and(|ending| !is_file(ending.as_str())));
    found.filter_map(|it| it.get(0)).map(|it| it.range()).collect()
}

/// Numbers with a plus or two zeros before the country, numbers grouped as North America does, and numbers that begin with a
/// zero and are grouped. A bare run of digits is as likely an order's number, and stays.
static PHONES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"(?:\+|\b00)[1-9](?:[ .()/-]{0,2}\d){7,14}",
        r"(?:\(\d{3}\) ?|\b\d{3}[ .-])\d{3}[ .-]\d{4}",
        r"(?:\(0\d{1,4}\)|\b0\d{1,4})(?:[ ./-]{1,3}\d{2,8}){1,5}",
    ];
    shapes.into_iter().map(pattern).collect()
});

fn phones(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (place, shape) in PHONES.iter().enumerate() {
        for it in shape.find_iter(text) {
            let digits = it.as_str().chars().filter(char::is_ascii_digit).count();
            let fits = match place {
                2 => (9..=12).contains(&digits) && !is_date(it.as_str()),
                _ => (8..=17).contains(&digits),
            };
            if fits && stands_alone(text, &it.range()) {
                found.push(it.range());
            }
        }
    }
    found
}

/// `01.02.2026 10` and the like: groups of two and a year.
fn is_date(text: &str) -> bool {
    let groups: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|group| !group.is_empty()).collect();
    let year = |group: &&str| group.len() == 4 && (group.starts_with("19") || group.starts_with("20"));
    groups.get(2).is_some_and(year) && groups[..2].iter().all(|group| group.len() <= 2)
}

/// Whether no letter or digit touches it on either side.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
}
