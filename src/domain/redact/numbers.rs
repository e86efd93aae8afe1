//! Numbers that prove themselves: payment cards, bank accounts, national ids.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::{pattern, stands_alone};

/// Digits in groups, with one sign between them at most.
static RUN: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d+(?:[ -]\d+)*"));

/// How many groups of digits a card has at most: 19 digits by fours.
const MOST_GROUPS: usize = 5;

/// Payment cards: 13 to 19 digits in one piece or grouped as on cards, that begin as cards do, with a valid check digit.
pub(super) fn cards(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for run in RUN.find_iter(text) {
        let groups = groups(run.as_str(), run.start());
        let mut first = 0;
        while first < groups.len() {
            let last = (first..groups.len().min(first + MOST_GROUPS)).rev().find(|last| {
                let sizes: Vec<usize> = groups[first..=*last].iter().map(Range::len).collect();
                let range = groups[first].start..groups[*last].end;
                is_grouped_as_a_card(&sizes) && stands_alone(text, &range) && is_card(&digits(&text[range]))
            });
            match last {
                Some(last) => {
                    found.push(groups[first].start..groups[last].end);
                    first = last + 1;
                }
                None => first += 1,
            }
        }
    }
    found
}

/// Where each group of digits of a run stands.
fn groups(run: &str, offset: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, c) in run.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
        let at = at + offset;
        match groups.last_mut() {
            Some(group) if group.end == at => group.end += c.len_utf8(),
            _ => groups.push(at..at + c.len_utf8()),
        }
    }
    groups
}

fn is_grouped_as_a_card(sizes: &[usize]) -> bool {
    match sizes {
        [_] | [4, 6, 4 | 5] => true,
        [all_but_last @ .., last] => all_but_last.iter().all(|size| *size == 4) && (1..=4).contains(last),
        [] => false,
    }
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

fn is_card(digits: &[u32]) -> bool {
    let begins = digits.iter().take(4).fold(0, |number, digit| number * 10 + digit);
    let known = matches!(begins, 3000..=3059 | 3400..=3499 | 3528..=3999 | 4000..=4999 | 5000..=5999 | 6000..=6999 | 2221..=2720);
    (13..=19).contains(&digits.len()) && known && luhn(digits)
}

fn luhn(digits: &[u32]) -> bool {
    let weigh = |(place, digit): (usize, &u32)| match (place % 2, *digit) {
        (0, digit) => digit,
        (_, digit) if digit > 4 => digit * 2 - 9,
        (_, digit) => digit * 2,
    };
    digits.iter().rev().enumerate().map(weigh).sum::<u32>() % 10 == 0
}

/// How long a country's IBANs are.
const IBANS: [(&str, usize); 46] = [
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BR", 29),
    ("CH", 21),
    ("CY", 28),
    ("CZ", 28),
    ("DE", 22),
    ("DK", 18),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GR", 27),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IS", 26),
    ("IT", 27),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MT", 31),
    ("NL", 18),
    ("NO", 15),
    ("PL", 28),
    ("PT", 25),
    ("RO", 24),
    ("RS", 22),
    ("SA", 24),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
];

/// What a bank account begins with: its country and its check digits.
pub(super) const IBAN_BEGINS: &str = r"(?i)\b[A-Z]{2}\d{2}";

static IBAN_HEAD: LazyLock<Regex> = LazyLock::new(|| pattern(IBAN_BEGINS));

/// Bank accounts, in one piece or grouped by single spaces or hyphens.
pub(super) fn ibans(text: &str) -> Vec<Range<usize>> {
    IBAN_HEAD.find_iter(text).filter_map(|head| iban_at(text, head.start())).collect()
}

fn iban_at(text: &str, start: usize) -> Option<Range<usize>> {
    let country = text.get(start..start + 2)?.to_ascii_uppercase();
    let (_, length) = IBANS.iter().find(|(known, _)| *known == country)?;
    let mut signs = String::new();
    let mut end = start;
    let mut after_gap = false;
    for (at, c) in text[start..].char_indices() {
        if c.is_ascii_alphanumeric() {
            signs.push(c.to_ascii_uppercase());
            end = start + at + 1;
            after_gap = false;
        } else if matches!(c, ' ' | '-') && !after_gap {
            after_gap = true;
        } else {
            break;
        }
        if signs.len() == *length {
            break;
        }
    }
    let range = start..end;
    (signs.len() == *length && stands_alone(text, &range) && mod_97(&signs)).then_some(range)
}

/// Whether the number that the signs make, the first four moved to the end, leaves 1.
fn mod_97(signs: &str) -> bool {
    let moved = signs[4..].chars().chain(signs[..4].chars());
    let rest = moved
        .filter_map(|c| c.to_digit(36))
        .fold(0, |rest, value| if value > 9 { (rest * 100 + value) % 97 } else { (rest * 10 + value) % 97 });
    rest == 1
}

type Check = fn(&str) -> bool;

/// The form of each country's ids and the check that makes one of a number.
static NATIONAL_IDS: LazyLock<[(Regex, Check); 7]> = LazyLock::new(|| {
    [
        (pattern(r"\b\d{3}-\d{2}-\d{4}\b"), us as Check),
        (pattern(r"(?i)\b\d{8}-?[A-Z]\b"), es),
        (pattern(r"(?i)\b[XYZ]-?\d{7}-?[A-Z]\b"), es),
        (pattern(r"(?i)\b[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}\b"), fr),
        (pattern(r"\b[1-9]\d(?: ?\d{3}){3}\b"), de),
        (pattern(r"(?i)\b[A-Z]{6}\d{2}[A-EHLMPR-T]\d{2}[A-Z]\d{3}[A-Z]\b"), it),
        (pattern(r"\b\d{3}\.?\d{3}\.?\d{3}-?\d{2}\b"), br),
    ]
});

/// National ids.
pub(super) fn national_ids(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (form, is_id) in NATIONAL_IDS.iter() {
        found.extend(form.find_iter(text).filter(|it| is_id(it.as_str())).map(|it| it.range()));
    }
    found
}

/// A social security number of the USA: there is no check digit, but there are numbers that are never given.
fn us(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [area, group, serial] = parts[..] else { return false };
    !(area == "000" || area == "666" || area.starts_with('9') || group == "00" || serial == "0000")
}

/// A DNI or NIE of Spain.
fn es(text: &str) -> bool {
    let signs: Vec<char> = text.to_ascii_uppercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let Some((letter, number)) = signs.split_last() else { return false };
    let value = |c: &char| match c {
        'X' => Some(0),
        'Y' => Some(1),
        'Z' => Some(2),
        other => other.to_digit(10),
    };
    let number = number.iter().filter_map(value).fold(0_usize, |sum, digit| sum * 10 + digit as usize);
    "TRWAGMYFPDXBNJZSQVHLCKE".chars().nth(number % 23) == Some(*letter)
}

/// A NIR of France, Corsica's 2A and 2B included.
fn fr(text: &str) -> bool {
    let signs = text.to_ascii_uppercase().replace(' ', "").replace("2A", "19").replace("2B", "18");
    let (Some(body), Some(key)) = (signs.get(..13), signs.get(13..)) else { return false };
    let (Ok(number), Ok(key)) = (body.parse::<u64>(), key.parse::<u64>()) else { return false };
    let month = number / 100_000_000 % 100;
    ((1..=12).contains(&month) || (20..=42).contains(&month)) && 97 - number % 97 == key
}

/// A tax id of Germany: one digit of the first ten stands there twice or three times, and the last one checks.
fn de(text: &str) -> bool {
    let digits = digits(text);
    let [body @ .., check] = digits.as_slice() else { return false };
    let mut repeats: Vec<usize> = (0..10).map(|digit| body.iter().filter(|one| **one == digit).count()).collect();
    repeats.sort_unstable();
    let one_repeats = matches!(repeats[8..], [1, 2 | 3]);
    let product = body.iter().fold(10, |product, digit| {
        let sum = (digit + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    digits.len() == 11 && one_repeats && (11 - product) % 10 == *check
}

/// A codice fiscale of Italy.
fn it(text: &str) -> bool {
    const ODD: [u32; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let signs: Vec<u32> = text.chars().filter_map(|c| c.to_digit(36)).collect();
    let [body @ .., check] = signs.as_slice() else { return false };
    // Letters and digits count alike: A and 0, B and 1, and so on.
    let place = |sign: u32| if sign > 9 { sign - 10 } else { sign };
    let weigh = |(index, sign): (usize, &u32)| match index % 2 {
        0 => ODD.get(place(*sign) as usize).copied().unwrap_or(0),
        _ => place(*sign),
    };
    body.len() == 15 && body.iter().enumerate().map(weigh).sum::<u32>() % 26 == place(*check)
}

/// A CPF of Brazil: two check digits, and not one digit eleven times.
fn br(text: &str) -> bool {
    let digits = digits(text);
    let check = |count: usize| {
        let weights = (2..).take(count);
        let sum: u32 = digits[..count].iter().rev().zip(weights).map(|(digit, weight)| digit * weight).sum();
        sum * 10 % 11 % 10
    };
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    digits.len() == 11 && varied && check(9) == digits[9] && check(10) == digits[10]
}
