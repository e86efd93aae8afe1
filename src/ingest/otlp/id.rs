//! Trace and span ids: 16 and 8 bytes, in the many ways in which senders write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::domain::span::hex;

/// What an id field holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// Nothing: absent, empty, or all zero, which the protocol defines as no id.
    None,
    /// Lower-case hexadecimal digits of full length.
    Some(String),
    /// Something else.
    Bad,
}

/// An id given as bytes.
pub(super) fn from_bytes(bytes: &[u8], length: usize) -> Id {
    if bytes.iter().all(|&byte| byte == 0) {
        Id::None
    } else if bytes.len() == length {
        Id::Some(hex(bytes))
    } else {
        Id::Bad
    }
}

/// An id given as text: hexadecimal digits in either case, with or without `0x`, leading zeros possibly lost; or base64, as
/// encoders of plain protobuf JSON write it. `length` in bytes.
pub(super) fn from_text(text: &str, length: usize) -> Id {
    let trimmed = text.trim_matches(' ');
    let digits = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")).unwrap_or(trimmed);
    if digits.chars().all(|c| c == '0') {
        return Id::None;
    }
    if digits.len() <= length * 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Id::Some(format!("{:0>width$}", digits.to_ascii_lowercase(), width = length * 2));
    }
    match STANDARD.decode(trimmed) {
        Ok(bytes) if bytes.len() == length => from_bytes(&bytes, length),
        _ => Id::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_one_id_is_the_same_id() {
        let id = Id::Some("00f067aa0ba902b7".to_owned());
        for text in ["00f067aa0ba902b7", "00F067AA0BA902B7", "0x00f067aa0ba902b7", "f067aa0ba902b7", "APBnqgupArc="] {
            assert_eq!(from_text(text, 8), id, "{text}");
        }
        assert_eq!(from_bytes(&[0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7], 8), id);
    }

    #[test]
    fn empty_and_all_zero_ids_are_none_and_others_are_bad() {
        for text in ["", "0", "0000000000000000", "0x0000000000000000", "AAAAAAAAAAA="] {
            assert_eq!(from_text(text, 8), Id::None, "{text}");
        }
        for text in ["zz", "00f067aa0ba902b7ff", "a\0b", "llm-1", "é"] {
            assert_eq!(from_text(text, 8), Id::Bad, "{text}");
        }
        assert_eq!(from_bytes(&[], 8), Id::None);
        assert_eq!(from_bytes(&[0; 8], 8), Id::None);
        assert_eq!(from_bytes(&[1; 9], 8), Id::Bad);
    }
}
