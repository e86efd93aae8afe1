//! Excerpts: pieces of a text that are kept by themselves, in which no secret is left half or without what tells it.
//!
//! What is kept is redacted when it leaves, perhaps by a later choice of its project. A number whose last digits were cut off, or
//! a password without the word before it, would not be known for what it is by then.

use std::ops::Range;

use super::{Kind, mark, may_hold, united};

/// How far around a piece is read, in bytes: more than the longest key takes.
const AROUND: usize = 16 * 1024;

/// The piece of `text` at `piece`, at most `longest` characters, an ellipsis among them where it is cut.
///
/// What is secret or personal, whatever the kind, stands there whole and so that [`text`](super::text) finds it again, or else
/// as its mark.
pub fn excerpt(text: &str, piece: Range<usize>, longest: usize) -> String {
    let (mut shown, is_whole) = shorten(text, piece.clone(), longest);
    if !is_whole {
        (shown, _) = shorten(text, piece, longest.saturating_sub(1));
        shown.push('…');
    }
    shown
}

/// The beginning of `text`, at most `longest` characters, as in [`excerpt`] but without an ellipsis.
pub fn head(text: &str, longest: usize) -> String {
    shorten(text, 0..text.len(), longest).0
}

/// The beginning of a piece, and whether that is all of it.
fn shorten(text: &str, piece: Range<usize>, longest: usize) -> (String, bool) {
    let cut = text[piece.clone()].char_indices().nth(longest).map_or(piece.end, |(at, _)| piece.start + at);
    let kept = piece.start..cut;
    let is_whole = cut == piece.end;
    if kept == (0..text.len()) {
        return (text.to_owned(), true);
    }
    let mut shown = String::new();
    let mut chars = 0;
    let mut at = kept.start;
    for (hidden, kind) in torn(text, &kept) {
        let before = &text[at..hidden.start.max(at)];
        let mark = mark(kind);
        chars += before.chars().count() + mark.chars().count();
        if chars > longest {
            let room = longest.saturating_sub(shown.chars().count());
            shown.extend(before.chars().take(room));
            return (shown, false);
        }
        shown.push_str(before);
        shown.push_str(&mark);
        at = hidden.end.min(kept.end).max(at);
    }
    let rest = &text[at..kept.end];
    let room = longest.saturating_sub(chars);
    shown.extend(rest.chars().take(room));
    (shown, is_whole && rest.chars().nth(room).is_none())
}

/// What is found in the text around `kept`, touches it, and would not be found in `kept` alone; in order, none overlapping.
fn torn(text: &str, kept: &Range<usize>) -> Vec<(Range<usize>, Kind)> {
    let from = text.floor_char_boundary(kept.start.saturating_sub(AROUND));
    let to = text.ceil_char_boundary(kept.end.saturating_add(AROUND).min(text.len()));
    let mut torn: Vec<(Range<usize>, Kind)> = Vec::new();
    if !may_hold(&text[from..to]) {
        return torn;
    }
    for kind in Kind::ALL {
        let around = united(kind.find(&text[from..to])).into_iter().map(|it| it.start + from..it.end + from);
        let touching: Vec<Range<usize>> = around.filter(|it| it.start < kept.end && kept.start < it.end).collect();
        if touching.is_empty() {
            continue;
        }
        let alone = united(kind.find(&text[kept.clone()]));
        let is_found = |it: &Range<usize>| {
            alone.iter().any(|own| own.start + kept.start <= it.start && it.end <= own.end + kept.start)
        };
        torn.extend(touching.into_iter().filter(|it| !is_found(it)).map(|it| (it, kind)));
    }
    torn.sort_by_key(|(it, _)| it.start);
    torn.dedup_by(|(next, _), (last, _)| {
        let overlaps = next.start < last.end;
        if overlaps {
            last.end = last.end.max(next.end);
        }
        overlaps
    });
    torn
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Counts, text as redacted};
    use super::*;

    const CARD: &str = "4111 1111 1111 1111";

    fn quoted(text: &str, piece: &str, longest: usize) -> String {
        let at = text.find(piece).expect("it is there");
        excerpt(text, at..at + piece.len(), longest)
    }

    #[test]
    fn a_piece_is_as_it_stands_and_cut_with_an_ellipsis() {
        assert_eq!(quoted("So SORRY!", "SORRY", 80), "SORRY");
        assert_eq!(quoted("aééé!", "ééé", 3), "ééé");
        assert_eq!(quoted("aéééé!", "éééé", 3), "éé…");
        assert_eq!((head("short", 140).as_str(), head("longer", 3).as_str()), ("short", "lon"));
    }

    #[test]
    fn what_is_whole_in_a_piece_stays_and_what_is_torn_is_marked() {
        let said = format!("It is {CARD}, or write to ada@example.com.");
        assert_eq!(quoted(&said, &said, 200), said);
        assert_eq!(quoted(&said, CARD, 80), CARD);
        assert_eq!(quoted(&said, "1111 1111, or", 80), "[redacted card], or");
        assert_eq!(quoted(&said, "is 4111 1111", 80), "is [redacted card]");
        assert_eq!(quoted(&said, "write to ada@ex", 80), "write to [redacted email]");
        assert_eq!(quoted("my password = hunter22!", "hunter22", 80), "[redacted secret]");
        assert_eq!(quoted("my password = hunter22, yes", "password = hunter22", 80), "password = hunter22");
    }

    #[test]
    fn a_cut_through_a_secret_leaves_none_of_it() {
        let said = format!("{}sk-abcdefghijklmnop0123 and more", "x ".repeat(33));
        for longest in 60..100 {
            let shown = excerpt(&said, 0..said.len(), longest);
            assert!(shown.chars().count() <= longest, "{shown}");
            assert!(shown.contains("sk-abcdefghijklmnop0123") || !shown.contains("sk-"), "{longest}: {shown}");
        }
        let key = format!("-----BEGIN PRIVATE KEY-----\n{}", "MIIB".repeat(2000));
        assert_eq!(excerpt(&key, 0..key.len(), 80), "[redacted secret]…");
    }

    proptest! {
        /// Whatever is cut and wherever, nothing of a secret survives what is said of it leaving.
        #[test]
        fn nothing_of_a_secret_survives(before in "[a-z ]{0,30}", after in "[a-z ]{0,30}", from in 0..40_usize, length in 0..60_usize, longest in 1..50_usize) {
            let said = format!("{before} {CARD} {after}");
            let from = from.min(said.len());
            let to = (from + length).min(said.len());
            let shown = excerpt(&said, from..to, longest);
            prop_assert!(shown.chars().count() <= longest);
            let outward = redacted(&shown, &[Kind::Card], &mut Counts::new());
            prop_assert!(!outward.contains(|c: char| c.is_ascii_digit()), "{outward}");
        }
    }
}
