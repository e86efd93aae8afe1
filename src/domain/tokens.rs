//! Tokens: how much of a model's context a text takes, estimated without any model's tokenizer.

/// What the cheapest character costs, in eighths of a token.
pub(crate) const CHEAPEST: usize = 2;

/// What a text costs, in eighths of a token: finer than tokens, so that the costs of lines add up exactly.
///
/// Rough and on the high side, by script: four letters of ASCII text a token, two of other Latin, Greek and Cyrillic, one
/// character of every other script, three tokens an emoji. Digits and signs count double a letter, and so does what stands
/// after the twentieth character of an unbroken run, which is no word but an encoding.
pub(crate) fn eighths(text: &str) -> usize {
    let mut run = 0_usize;
    let mut sum = 0_usize;
    for c in text.chars() {
        run = if c.is_ascii_alphanumeric() { run + 1 } else { 0 };
        sum += match c {
            'a'..='z' | 'A'..='Z' if run <= 20 => CHEAPEST,
            ' ' => CHEAPEST,
            '\0'..='\u{52f}' | '\u{1e00}'..='\u{1fff}' => 4,
            '\u{530}'..='\u{ffff}' => 8,
            _ => 24,
        };
    }
    sum
}

/// How many tokens a text takes, estimated on the high side.
pub fn estimate(text: &str) -> usize {
    eighths(text).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_weigh_what_tokenizers_make_of_them() {
        let english = "The refund was sent to your card this morning and should arrive soon.";
        assert!((english.len() / 5..=english.len() / 3).contains(&estimate(english)));
        assert_eq!(estimate("退款已经处理完毕"), 8);
        assert_eq!(estimate("🙏🏽"), 6);
        assert_eq!(estimate(""), 0);
        assert!(estimate(&"aZ9Q".repeat(100)) >= 190);
    }

    #[test]
    fn the_costs_of_lines_add_up_exactly() {
        let (a, b) = ("abcdefghijklmnopqrstuvwxyz\n", "abcdefghijklmnopqrstuvwxyz 123\n");
        assert_eq!(eighths(&format!("{a}{b}")), eighths(a) + eighths(b));
    }
}
