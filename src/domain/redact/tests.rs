//! Tests of redaction: what is found, what looks like it and is not, and that nothing else changes.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::span::ToolCall;
use crate::domain::transcript::{self, ToolContext};

fn only(kind: Kind, given: &str) -> (String, u32) {
    let mut counts = Counts::new();
    let redacted = text(given, &[kind], &mut counts);
    (redacted, counts.get(&kind).copied().unwrap_or(0))
}

#[track_caller]
fn takes(kind: Kind, givens: &[&str]) {
    for given in givens {
        let (redacted, count) = only(kind, &format!("So {given}, yes."));
        assert_eq!((redacted.as_str(), count), (format!("So {}, yes.", mark(kind)).as_str(), 1), "{given}");
    }
}

#[track_caller]
fn leaves(kind: Kind, givens: &[&str]) {
    for given in givens {
        assert_eq!(only(kind, given), ((*given).to_owned(), 0), "{given}");
    }
}

#[test]
fn keys_and_tokens_are_known_by_their_shape() {
    takes(
        Kind::Secret,
        &[
            "sk-abcdefghijklmnop0123",
            "sk-proj-abcdefghijklmnop_0123-x",
            "sk_live_abcdefghijklmnop0123",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "github_pat_11ABCDEFG0123456789_abcdef",
            "glpat-abcdefghij0123456789",
            "AKIAIOSFODNN7EXAMPLE",
            "AIzaSyA1234567890abcdefghijklmnopqrstuv",
            "xoxb-123456789012-abcdefghij",
            "hf_abcdefghijklmnopqrstuvwxyz01234567",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        ],
    );
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----";
    assert_eq!(only(Kind::Secret, &format!("a {pem} b")), ("a [redacted secret] b".to_owned(), 1));
}

#[test]
fn what_is_given_to_a_secret_name_is_a_secret_and_the_name_stays() {
    for (given, expected) in [
        ("password = hunter22", "password = [redacted secret]"),
        ("my password is Tr0ub4dor", "my password is [redacted secret]"),
        (r#"{"api_key": "abc12345"}"#, r#"{"api_key": "[redacted secret]"}"#),
        ("Authorization: Bearer abcdefghijklmnop0123", "Authorization: Bearer [redacted secret]"),
        ("postgres://me:s3cret@host/db", "postgres://me:[redacted secret]@host/db"),
    ] {
        assert_eq!(only(Kind::Secret, given), (expected.to_owned(), 1), "{given}");
    }
}

#[test]
fn what_is_given_to_a_secret_name_is_found_in_json_within_json_too() {
    let inner = json!({"password": "hunter22", "note": "x"}).to_string();
    let outer = json!({"body": inner}).to_string();
    let (redacted, count) = only(Kind::Secret, &outer);
    assert_eq!((redacted.contains("hunter22"), count), (false, 1), "{redacted}");
    let body: serde_json::Value = serde_json::from_str(&redacted).expect("still JSON");
    assert_eq!(body["body"], json!({"password": "[redacted secret]", "note": "x"}).to_string());
}

#[test]
fn of_two_finds_that_overlap_nothing_is_left_over() {
    let (redacted, _) = only(Kind::Secret, "postgres://me:sk-abcdefghijklmnop0123$tail@host/db");
    assert_eq!(redacted, "postgres://me:[redacted secret]@host/db");
}

#[test]
fn a_phone_number_is_found_before_one_of_another_form() {
    let (redacted, count) = only(Kind::Phone, "Call (415) 555-0132 or +49 30 12345678.");
    assert_eq!((redacted.as_str(), count), ("Call [redacted phone] or [redacted phone].", 2));
}

#[test]
fn what_a_secret_key_holds_is_hidden_as_a_number_and_in_lists() {
    let given =
        json!({"password": 12_345_678, "api_keys": "kept", "api_key": ["one", {"token": "two"}], "secret": null});
    let expected = json!({"password": mark(Kind::Secret), "api_keys": "kept",
        "api_key": [mark(Kind::Secret), {"token": mark(Kind::Secret)}], "secret": null});
    let mut counts = Counts::new();
    assert_eq!((value(&given, &[Kind::Secret], &mut counts), counts[&Kind::Secret]), (expected, 3));
}

#[test]
fn long_tables_of_numbers_and_long_lists_of_addresses_are_read_in_one_pass() {
    let row: Vec<String> = (0..1000).map(|n| format!("{n:03} ")).collect();
    let table = row.concat().repeat(100);
    assert!(only(Kind::Card, &table) == (table.clone(), 0));
    let (redacted, count) = only(Kind::Email, &"a@b.co ".repeat(50_000));
    assert_eq!((redacted.len(), count), ("[redacted email] ".len() * 50_000, 50_000));
}

#[test]
fn prose_about_secrets_is_no_secret() {
    leaves(
        Kind::Secret,
        &[
            "Your password: please reset it.",
            "the token is invalid",
            "I lost my secret-keeper",
            "sk-8 skateboards",
            "a basic understanding of it",
            "https://host:8080/path",
            "task_abcdefghijklmnopqrst",
        ],
    );
}

#[test]
fn e_mail_addresses_are_found_and_handles_and_files_are_not() {
    takes(Kind::Email, &["jo@example.com", "jo.o'neil+tag@mail.example.co.uk", "jürgen@müller.de", "a_b@x-y.io"]);
    leaves(Kind::Email, &["@jo", "jo@localhost", "logo@2x.png", "3 @ 5.00", "a@b", "mail me at example.com"]);
    assert_eq!(only(Kind::Email, "<jo@example.com>.").0, "<[redacted email]>.");
}

#[test]
fn phone_numbers_are_found_where_they_are_written_as_such() {
    takes(
        Kind::Phone,
        &[
            "+49 30 1234567",
            "+1 (555) 123-4567",
            "0049 171 1234567",
            "(555) 123-4567",
            "555-123-4567",
            "030 / 123 45 67",
            "01 23 45 67 89",
            "+4917112345678",
        ],
    );
    leaves(
        Kind::Phone,
        &[
            "2026-11-30",
            "01.02.2026 10:15",
            "order 1234567890",
            "192.168.0.1",
            "1,234,567.89",
            "10:15:30",
            "v1.22.333",
            "0.123456789",
            "ABC+49301234567X",
        ],
    );
}

#[test]
fn cards_have_a_valid_check_digit_and_a_cards_form() {
    takes(
        Kind::Card,
        &["4111111111111111", "4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005", "3782 822463 10005"],
    );
    leaves(
        Kind::Card,
        &[
            "4111111111111112",
            "4111 1111 1111 1112",
            "1234567812345670",
            "0000000000000000",
            "41111 111111 11111",
            "x4111111111111111",
            "41111111111111110000000",
            "2026-11-30 10-15-30",
        ],
    );
    assert_eq!(only(Kind::Card, "12 4111 1111 1111 1111 99").0, "12 [redacted card] 99");
}

#[test]
fn accounts_have_their_countrys_length_and_valid_check_digits() {
    takes(
        Kind::Iban,
        &[
            "DE89370400440532013000",
            "DE89 3704 0044 0532 0130 00",
            "GB82 WEST 1234 5698 7654 32",
            "fr1420041010050500013m02606",
        ],
    );
    leaves(
        Kind::Iban,
        &[
            "DE88370400440532013000",
            "DE8937040044053201300",
            "XX89370400440532013000",
            "DE89370400440532013000A",
            "AB12 CD",
        ],
    );
}

#[test]
fn national_ids_are_told_by_their_check_digits() {
    takes(
        Kind::NationalId,
        &[
            "123-45-6789",
            "12345678Z",
            "X1234567L",
            "2 55 08 14 168 025 38",
            "36574261809",
            "RSSMRA85T10A562S",
            "529.982.247-25",
        ],
    );
    leaves(
        Kind::NationalId,
        &[
            "000-45-6789",
            "666-45-6789",
            "912-45-6789",
            "123-00-6789",
            "12345678A",
            "X1234567A",
            "2 55 08 14 168 025 39",
            "36574261808",
            "12345678901",
            "RSSMRA85T10A562T",
            "529.982.247-26",
            "111.111.111-11",
        ],
    );
}

#[test]
fn kinds_that_were_not_asked_for_stay() {
    let given = "jo@example.com, +49 30 1234567, 4111111111111111";
    let mut counts = Counts::new();
    assert_eq!(text(given, &[], &mut counts), given);
    let redacted = text(given, &[Kind::Phone, Kind::Card], &mut counts);
    assert_eq!(redacted, "jo@example.com, [redacted phone], [redacted card]");
    assert_eq!(serde_json::to_value(&counts).expect("JSON"), json!({"card": 1, "phone": 1}));
}

#[test]
fn a_conversation_is_redacted_wherever_a_judge_could_see_it_and_the_original_is_not() {
    let mut talk = transcript::tests::conversation(&[
        ("I am jo@example.com", "Noted, 4111 1111 1111 1111."),
        ("replaced below", "Hello."),
    ]);
    (talk.turns[1].input, talk.turns[1].request) = (None, Some("I am joan@example.com".into()));
    talk.turns[0].error = Some("timeout for jo@example.com".into());
    talk.turns[0].tool_calls = vec![ToolCall {
        name: "charge".into(),
        input: Some(json!({"card": 4_111_111_111_111_111_u64, "password": "x", "to": ["jo@example.com"], "n": 3})),
        output: Some(json!("sk-abcdefghijklmnop0123")),
        error: Some("for +49 30 1234567".into()),
        ..ToolCall::default()
    }];
    let agent = |name: &str| Some(Agent { id: name.to_owned(), name: name.to_owned() });
    talk.agent = agent("refund for jo@example.com");
    let (outward, counts) = conversation(&talk, &Kind::ALL);
    assert_eq!(outward.agent, agent("refund for [redacted email]"));
    let shown = transcript::render(&outward, ToolContext::Detailed);
    for gone in ["jo@", "joan@", "4111", "sk-", "1234567", "\"x\""] {
        assert!(!shown.contains(gone), "{gone} is in {shown}");
        assert!(transcript::render(&talk, ToolContext::Detailed).contains(gone));
    }
    assert!(shown.contains("\"n\":3"));
    assert_eq!(serde_json::to_value(&counts).expect("JSON"), json!({"secret": 2, "card": 2, "email": 4, "phone": 1}));
}

fn piece() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "-----BEGIN PRIVATE KEY-----",
        "sk-abcdefghijklmnop0123",
        "pk_live_abcdefghijklmnop",
        "ghp_",
        "abcdefghijklmnopqrstuvwxyzABCD",
        "AKIAABCDEFGHIJKLMNOP",
        "xoxb-abcdefghij",
        "eyJabcdefgh.eyJabcdefgh.",
        "Bearer ",
        "https://me:",
        "hunter22",
        "@",
        "host",
        "password",
        "api_key",
        "token",
        " is ",
        ": ",
        "=",
        "\\\"",
        "DE89370400440532013000",
        "KW81CBKU0000000000001234560101",
        "GB82 WEST 1234 5698 7654 32",
        "4111 1111 1111 1111",
        "078-05-1120",
        "12345678Z",
        "X1234567L",
        "RSSMRA85T10A562S",
        "529.982.247-25",
        "+49 30 1234567",
        "(415) 555-2671",
        "030 / 1234567",
        "ada@example.com",
        "é",
        "日本",
        "\u{661}\u{662}",
        " ",
    ]);
    prop_oneof![known.prop_map(str::to_owned), "[a-zA-Z0-9 .:/@é-]{0,12}"]
}

proptest! {
    #[test]
    fn any_text_is_redacted_without_a_panic_and_once_is_enough(given in "(?:\\PC|[0-9 +@.-]){0,80}") {
        let mut counts = Counts::new();
        let once = text(&given, &Kind::ALL, &mut counts);
        prop_assert_eq!(counts.is_empty(), once == given);
        let mut again = Counts::new();
        text(&once, &Kind::ALL, &mut again);
        prop_assert!(again.values().sum::<u32>() <= counts.values().sum::<u32>());
    }

    /// Pieces of what every kind looks for, so joined and cut that often something is found.
    #[test]
    fn where_anything_is_found_the_first_look_saw_that_it_may(given in proptest::collection::vec(piece(), 1..6)) {
        let given = given.concat();
        let found = Kind::ALL.into_iter().any(|kind| !kind.find(&given).is_empty());
        prop_assert!(!found || may_hold(&given), "{given}");
    }

    #[test]
    fn text_without_digits_and_signs_is_never_touched(given in "[a-zA-Z ,.!?]{0,200}") {
        let mut counts = Counts::new();
        prop_assert_eq!(text(&given, &Kind::ALL, &mut counts), given);
    }
}

#[test]
fn what_a_case_expects_and_what_was_noted_beside_its_answer_is_hidden_too() {
    use crate::domain::dataset::Reference;
    let mut talk = crate::domain::transcript::tests::conversation(&[("who?", "ann@example.org")]);
    let noted = json!({"mail": "bob@example.org"}).as_object().cloned().unwrap_or_default();
    let told = Some("write to ann@example.org".to_owned());
    talk.reference = Some(Reference { expected: told.clone(), guideline: told, metadata: noted });
    let (outward, counts) = conversation(&talk, &[Kind::Email]);
    let shown = serde_json::to_string(&outward.reference).expect("JSON");
    assert!(!shown.contains("example.org") && shown.contains("[redacted email]"), "{shown}");
    assert_eq!(counts[&Kind::Email], 4);
}
