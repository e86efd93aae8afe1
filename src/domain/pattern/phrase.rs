//! Phrases: finding a piece of text in another whatever its case, width or composition.
//!
//! Both sides are compared in NFKC and, unless case matters, in full case folding: `ß` meets `SS`, full-width letters meet
//! narrow ones, a composed letter meets its decomposed form. The dot that folding leaves above an `i` is dropped, so that
//! `İstanbul` meets `istanbul`.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use caseless::Caseless as _;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

/// A phrase ready to be looked for.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    needle: String,
    case_sensitive: bool,
}

impl Phrase {
    /// Makes `value` ready. `None` where nothing of it can be looked for.
    pub(super) fn new(value: &str, case_sensitive: bool) -> Option<Self> {
        let needle = comparable(value, case_sensitive).into_owned();
        (!needle.trim().is_empty()).then_some(Self { needle, case_sensitive })
    }
}

/// A text to look in, made comparable at most once for each way of comparing.
#[derive(Debug)]
pub(super) struct Haystack<'a> {
    text: &'a str,
    exact: OnceCell<Cow<'a, str>>,
    folded: OnceCell<Cow<'a, str>>,
}

impl<'a> Haystack<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, exact: OnceCell::new(), folded: OnceCell::new() }
    }

    /// The text as it came.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Where a piece of the text stands in it, in bytes.
    pub(super) fn offset_of(&self, piece: &str) -> usize {
        (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize).min(self.text.len())
    }

    /// Where the phrase begins, in the comparable form.
    pub(super) fn find(&self, phrase: &Phrase) -> Option<usize> {
        let form = if phrase.case_sensitive { &self.exact } else { &self.folded };
        form.get_or_init(|| comparable(self.text, phrase.case_sensitive)).find(&phrase.needle)
    }

    /// The piece of the original text that a find at `start` stands on.
    pub(super) fn original(&self, phrase: &Phrase, start: usize) -> &'a str {
        let found = start..start + phrase.needle.len();
        if self.text.is_ascii() {
            return self.text.get(found).unwrap_or_default();
        }
        let mut at = 0;
        let mut original: Option<Range<usize>> = None;
        for segment in Segments::of(self.text) {
            let piece = &self.text[segment.clone()];
            let length = if piece.len() == 1 { 1 } else { comparable(piece, phrase.case_sensitive).len() };
            if at + length > found.start && at < found.end {
                original = Some(original.map_or(segment.start, |range| range.start)..segment.end);
            }
            at += length;
            if at >= found.end {
                break;
            }
        }
        original.map_or("", |range| &self.text[range])
    }
}

/// The form in which texts are compared.
fn comparable(text: &str, case_sensitive: bool) -> Cow<'_, str> {
    if text.is_ascii() {
        let lower = !case_sensitive && text.bytes().any(|byte| byte.is_ascii_uppercase());
        return if lower { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) };
    }
    if !case_sensitive {
        let folded: String = text.nfkc().default_case_fold().nfkc().collect();
        return Cow::Owned(folded.replace("i\u{307}", "i"));
    }
    match is_nfkc_quick(text.chars()) {
        IsNormalized::Yes => Cow::Borrowed(text),
        _ => Cow::Owned(text.nfkc().collect()),
    }
}

/// The pieces of a text that can be made comparable one by one: no character of one composes with the next piece's first.
struct Segments<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Segments<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

impl Iterator for Segments<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = &self.text[self.at..];
        let mut chars = rest.char_indices();
        chars.next()?;
        let length = chars.find(|(_, c)| stands_alone(*c)).map_or(rest.len(), |(offset, _)| offset);
        let segment = self.at..self.at + length;
        self.at = segment.end;
        Some(segment)
    }
}

/// Whether nothing of `c` can join what stands before it.
fn stands_alone(c: char) -> bool {
    if c.is_ascii() {
        return true;
    }
    let mut first = None;
    decompose_compatible(c, |part| {
        first.get_or_insert(part);
    });
    let first = first.unwrap_or(c);
    let composes = |c: char| is_nfkc_quick(std::iter::once(c)) == IsNormalized::Maybe;
    canonical_combining_class(first) == 0 && !composes(first) && !composes(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found<'a>(text: &'a str, phrase: &str, case_sensitive: bool) -> Option<&'a str> {
        let phrase = Phrase::new(phrase, case_sensitive).expect("a phrase");
        let haystack = Haystack::new(text);
        haystack.find(&phrase).map(|start| haystack.original(&phrase, start))
    }

    #[test]
    fn a_phrase_is_found_whatever_its_case_width_or_composition() {
        let rows = [
            ("Full REFUND issued", "refund", Some("REFUND")),
            ("WIR SCHLIESSEN DIE STRASSE", "straße", Some("STRASSE")),
            ("die Straße ist zu", "STRASSE", Some("Straße")),
            ("İSTANBUL'a uçuş", "istanbul", Some("İSTANBUL")),
            ("istanbul", "İstanbul", Some("istanbul")),
            ("ＲＥＦＵＮＤ please", "refund", Some("ＲＥＦＵＮＤ")),
            ("un café, merci", "cafe\u{301}", Some("café")),
            ("un cafe\u{301}, merci", "CAFÉ", Some("cafe\u{301}")),
            ("ΟΔΥΣΣΕΥΣ", "οδυσσευς", Some("ΟΔΥΣΣΕΥΣ")),
            ("Верните ДЕНЬГИ", "деньги", Some("ДЕНЬГИ")),
            ("أريد استرداد المال", "استرداد", Some("استرداد")),
            ("אני רוצה החזר", "החזר", Some("החזר")),
            ("我要退款，谢谢", "退款", Some("退款")),
            ("返金ﾊﾞｯｸ", "バック", Some("ﾊﾞｯｸ")),
            ("환불해 주세요", "환불", Some("환불")),
            ("so sorry 😢🙏🏽", "😢", Some("😢")),
            ("the ﬁle is lost", "file", Some("ﬁle")),
            ("no such word", "refund", None),
        ];
        for (text, phrase, expected) in rows {
            assert_eq!(found(text, phrase, false), expected, "{phrase} in {text}");
        }
    }

    #[test]
    fn case_counts_where_it_is_asked_for_and_width_never_does() {
        assert_eq!(found("Full REFUND", "refund", true), None);
        assert_eq!(found("Full REFUND", "REFUND", true), Some("REFUND"));
        assert_eq!(found("ＲＥＦＵＮＤ", "REFUND", true), Some("ＲＥＦＵＮＤ"));
        assert_eq!(found("Straße", "STRASSE", true), None);
    }

    #[test]
    fn a_blank_phrase_is_none() {
        assert!(Phrase::new(" \u{3000}\n", false).is_none());
    }

    proptest! {
        #[test]
        fn segments_made_comparable_one_by_one_are_the_whole_text_made_comparable(text in "\\PC{0,40}", case in any::<bool>()) {
            let whole = comparable(&text, case).into_owned();
            let joined: String = Segments::of(&text).map(|segment| comparable(&text[segment], case).into_owned()).collect();
            prop_assert_eq!(joined, whole);
        }

        #[test]
        fn every_text_is_found_in_itself_and_the_piece_found_compares_equal(before in "\\PC{0,10}", text in "[\\p{L}\\p{M}\\p{So}]{1,12}", case in any::<bool>()) {
            let around = format!("{before} {text} {before}");
            let Some(phrase) = Phrase::new(&text, case) else { return Ok(()) };
            // A combining mark at the front joins the space before it, so such a phrase is another text there.
            if !text.chars().next().is_some_and(stands_alone) {
                return Ok(());
            }
            let haystack = Haystack::new(&around);
            let start = haystack.find(&phrase);
            prop_assert!(start.is_some());
            let piece = haystack.original(&phrase, start.unwrap_or_default());
            prop_assert!(comparable(piece, case).contains(&phrase.needle));
        }
    }
}
