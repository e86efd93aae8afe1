//! The demo as a newcomer runs it, against expectations read off the conversations by hand.

use std::collections::{BTreeMap, BTreeSet};

use afterword::domain::group::MemberKind;
use afterword::domain::ids::SessionId;
use afterword::domain::outcome::Goodness;
use afterword::domain::time::Timestamp;
use serde_json::{Value, json};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::support::judge::{Judge, Reply};
use crate::support::program::Program;

const CONVERSATIONS: &str = include_str!("../../src/cli/demo/conversations.jsonl");

/// Ratings that follow from reading the conversation with the five patterns at hand.
const RATINGS: [(&str, f64); 11] = [
    ("support-card-on-file", 0.0),
    ("support-broken-blender-loop", 0.0),
    ("de-kuendigung-hotline", 1.0),
    ("coding-docker-port", 2.0),
    ("support-sofa-third-floor", 6.0),
    ("booking-double-room-mixup", 7.0),
    ("support-warranty-human", 8.0),
    ("support-lamp-flickers", 9.0),
    ("support-refund-late-parcel", 10.0),
    ("booking-dentist-reschedule", 10.0),
    ("coding-slow-query", 7.0),
];

/// Those that grow, with the rating before.
const GROWN: [(&str, &str); 2] = [
    ("booking-dentist-reschedule", "5.0 at turn 2 → 10.0 at turn 4"),
    ("coding-slow-query", "10.0 at turn 2 → 7.0 at turn 4"),
];

/// A session's turns at the end of the demo, and its stage.
fn script() -> BTreeMap<String, (usize, String)> {
    let read = |line: &str| {
        let talk: Value = serde_json::from_str(line).unwrap();
        let users = |list: &Value| {
            list.as_array().map_or(0, |list| list.iter().filter(|message| message["role"] == "user").count())
        };
        let turns = users(&talk["messages"]) + users(&talk["demo"]["more"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&talk["session_id"]), (turns, text(&talk["demo"]["stage"])))
    };
    CONVERSATIONS.lines().map(read).collect()
}

/// A row of the judged.
#[derive(Debug, Clone, PartialEq)]
struct Judged {
    turns: usize,
    rating: f64,
    decided_by: String,
    rescores: String,
}

/// What the demo printed.
struct Shown {
    judged: BTreeMap<String, Judged>,
    /// Turns and why not.
    others: BTreeMap<String, (usize, String)>,
}

/// Cuts a line at columns of the terminal. The cut must fall between two characters, after a gap.
fn cut(line: &str, columns: &[usize]) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut at = 0;
    for c in line.chars() {
        if cells.len() <= columns.len() && at >= columns[cells.len() - 1] {
            assert_eq!(at, columns[cells.len() - 1], "a character stands across a column's border: {line}");
            assert!(cells.last().unwrap().ends_with(' '), "no gap before column {}: {line}", cells.len());
            cells.push(String::new());
        }
        cells.last_mut().unwrap().push(c);
        at += c.width().unwrap_or(0);
    }
    cells.resize(columns.len() + 1, String::new());
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The rows below a head, up to the next blank line, cut where the head says; numbers end where their title ends, so the
/// column after them begins two further on.
fn table(text: &str, titles: &[&str]) -> Vec<Vec<String>> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("session") || !line.contains(titles[1]));
    let head = lines.next().unwrap_or_else(|| panic!("no head {titles:?} in\n{text}"));
    let borders: Vec<usize> = titles[1..].iter().map(|title| head[..head.find(title).unwrap()].width()).collect();
    let rows: Vec<Vec<String>> = lines.take_while(|line| !line.is_empty()).map(|line| cut(line, &borders)).collect();
    for row in &rows {
        assert!(row.len() == titles.len() && !row[0].is_empty(), "{row:?}");
    }
    rows
}

fn read(text: &str) -> Shown {
    let (judged, others) = text.split_once("\nNot judged:\n").unwrap();
    let mut seen = BTreeSet::new();
    let mut once = |name: &String| assert!(seen.insert(name.clone()), "{name} appears twice in\n{text}");
    let judged = table(judged, &["session", "turns", "rating", "decided by", "re-scores"]).into_iter().map(|row| {
        once(&row[0]);
        let (turns, rating) = (row[1].parse().unwrap(), row[2].parse().unwrap());
        (row[0].clone(), Judged { turns, rating, decided_by: row[3].clone(), rescores: row[4].clone() })
    });
    let judged = judged.collect();
    let others = table(others, &["session", "turns", "why not"]).into_iter().map(|row| {
        once(&row[0]);
        (row[0].clone(), (row[1].parse().unwrap(), row[2].clone()))
    });
    Shown { judged, others: others.collect() }
}

#[test]
fn every_bundled_conversation_appears_once_with_its_rating_or_the_reason_for_none() {
    let ended = Program::on("sqlite:///no/such/folder/unused.db".to_owned()).run(["demo"]).with_code(0);
    let shown = read(&ended.out);
    let script = script();
    let all: BTreeSet<&String> = shown.judged.keys().chain(shown.others.keys()).collect();
    assert_eq!(all, script.keys().collect());
    for (name, row) in &shown.judged {
        assert_eq!(row.turns, script[name].0, "{name}");
    }
    for (name, (turns, why_not)) in &shown.others {
        assert_eq!(*turns, script[name].0, "{name}");
        let expected = match (turns, script[name].1.as_str()) {
            (1, _) => "fewer than 2 turns",
            (_, "active") => "still active: quiet for 10 s, judged after 120 s",
            other => panic!("{name} should have been judged: {other:?}"),
        };
        assert_eq!(why_not, expected, "{name}");
    }
    let should_wait = script.values().filter(|(turns, stage)| *turns == 1 || stage == "active").count();
    assert_eq!(shown.others.len(), should_wait);

    for (name, rating) in RATINGS {
        assert!((shown.judged[name].rating - rating).abs() < 1e-9, "{name}: {:?}", shown.judged[name]);
    }
    let gated: Vec<_> = shown.judged.iter().filter(|(_, row)| row.decided_by.ends_with("(must-pass)")).collect();
    assert_eq!(gated.len(), 1);
    assert_eq!(
        (gated[0].0.as_str(), gated[0].1.decided_by.as_str()),
        ("support-card-on-file", "Leaked card number (must-pass)")
    );
    let grown: Vec<(&str, &str)> = shown
        .judged
        .iter()
        .filter(|(_, row)| !row.rescores.is_empty())
        .map(|(n, row)| (n.as_str(), row.rescores.as_str()))
        .collect();
    assert_eq!(grown, GROWN);
    assert!(ended.out.contains("No judge is configured, so patterns alone decide"), "{}", ended.out);
    assert!(ended.out.contains("Where to go from here:"), "{}", ended.out);
}

#[test]
fn the_worst_comes_first_and_low_ratings_raise_signals() {
    let ended = Program::on_sqlite().run(["demo"]).with_code(0);
    let ratings: Vec<f64> = table(&ended.out, &["session", "turns", "rating", "decided by", "re-scores"])
        .iter()
        .map(|row| row[2].parse().unwrap())
        .collect();
    assert!(ratings.is_sorted(), "{ratings:?}");
    let raised: usize = ended
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("  [high] ")?.split_once(" ×"))
        .map(|(_, count)| count.parse::<usize>().unwrap())
        .sum();
    assert_eq!(raised, ratings.iter().filter(|rating| **rating < 4.0).count());
}

#[tokio::test]
async fn a_kept_database_opens_and_holds_what_was_shown() {
    let program = Program::on_sqlite();
    let kept = program.folder().join("kept.db");
    let ended = program.run(["demo", "--keep", "kept.db"]).with_code(0);
    assert!(ended.out.contains("AFTERWORD__DATABASE__URL=sqlite://kept.db"), "{}", ended.out);
    let shown = read(&ended.out);
    let store = crate::support::program::open(&format!("sqlite://{}", kept.display())).await;
    let project = store.default_project(Timestamp::EARLIEST).await.unwrap().id;
    for (name, row) in &shown.judged {
        let verdicts = store.verdicts_of_session(&project, &SessionId::trusted(name)).await.unwrap();
        assert_eq!(verdicts[0].rating, Some(row.rating), "{name}");
        assert_eq!(verdicts.len(), if row.rescores.is_empty() { 1 } else { 2 }, "{name}");
    }
    store.close().await;
    let again = program.run(["demo", "--keep", "kept.db"]).with_code(1);
    assert!(again.err.contains("kept.db exists already"), "{}", again.err);
}

#[test]
fn without_keep_nothing_is_left_behind() {
    let program = Program::on_sqlite();
    let folder = program.folder().to_str().unwrap().to_owned();
    program.run_with(&[("TMPDIR", &folder)], ["demo"]).with_code(0);
    assert_eq!(std::fs::read_dir(program.folder()).unwrap().count(), 0);
}

/// A reply in wide characters, as a judge of Japanese conversations gives.
fn in_japanese(request: &Value, rating: u8) -> Reply {
    let nonce = &request["response_format"]["json_schema"]["schema"]["properties"]["nonce"];
    let nonce = nonce["const"].as_str().or_else(|| nonce["enum"][0].as_str()).unwrap();
    let justification = "お客様の要望は最後まで満たされず、同じ質問が何度も繰り返されました。";
    Reply::Text(json!({"nonce": nonce, "rating": rating, "justification": justification, "evidence": null}).to_string())
}

fn with_judge(judge: &Judge) -> [(&'static str, &str); 3] {
    [
        ("AFTERWORD__JUDGE__BASE_URL", judge.base_url()),
        ("AFTERWORD__JUDGE__MODEL", "stub"),
        ("AFTERWORD__JUDGE__MAX_ATTEMPTS", "1"),
    ]
}

#[tokio::test]
async fn with_a_judge_the_group_has_its_member_and_its_rating_counts() {
    let patterns_alone = read(&Program::on_sqlite().run(["demo"]).with_code(0).out);
    let judge = Judge::start(|request| in_japanese(request, 3));
    let program = Program::on_sqlite();
    let ended = program.run_with(&with_judge(&judge), ["demo", "--keep", "kept.db"]).with_code(0);
    assert!(ended.out.contains("of 6 members"), "{}", ended.out);
    assert!(ended.out.contains("The configured judge is one of the members."), "{}", ended.out);
    let shown = read(&ended.out);
    assert!(shown.judged.keys().eq(patterns_alone.judged.keys()));
    assert_eq!(
        judge.requests().len(),
        shown.judged.len() + GROWN.len(),
        "one call for each conversation as it was read"
    );

    let store =
        crate::support::program::open(&format!("sqlite://{}", program.folder().join("kept.db").display())).await;
    let project = store.default_project(Timestamp::EARLIEST).await.unwrap().id;
    for (name, row) in &shown.judged {
        // The patterns weigh 10 together, and so does the judge; a failed gate decides alone.
        let gated = row.decided_by.ends_with("(must-pass)");
        let expected = if gated { 0.0 } else { f64::midpoint(patterns_alone.judged[name].rating, 3.0) };
        assert!((row.rating - expected).abs() < 1e-9, "{name}: {row:?}, expected {expected}");
        assert!(row.decided_by.width() <= 52, "{name}: {row:?}");
        let verdict = &store.verdicts_of_session(&project, &SessionId::trusted(name)).await.unwrap()[0];
        let member = verdict.members.iter().find(|member| member.kind == MemberKind::Judge).unwrap();
        assert_eq!(member.outcome.goodness().map(Goodness::get), Some(0.3), "{name}");
        assert!(
            verdict.justification.contains("Whole conversation 3/10 (お客様") || gated,
            "{}",
            verdict.justification
        );
    }
    store.close().await;
    // Wide characters stand before a further column, so that the columns line up by what is seen, not by what is counted.
    let (name, _) = GROWN[0];
    assert!(shown.judged[name].decided_by.contains("お客様"), "{:?}", shown.judged[name]);
    assert_eq!(shown.judged[name].rescores, "4.0 at turn 2 → 6.5 at turn 4");
}

#[test]
fn a_judge_that_is_down_is_the_reason_given() {
    let judge = Judge::start(|_| Reply::Status(503));
    let ended = Program::on_sqlite().run_with(&with_judge(&judge), ["demo"]).with_code(0);
    let shown = read(&ended.out);
    assert_eq!(shown.judged.keys().collect::<Vec<_>>(), ["support-card-on-file"], "a failed gate decides alone");
    let put_off =
        shown.others.values().filter(|(_, why_not)| why_not.starts_with("put off: Whole conversation: ")).count();
    assert_eq!(put_off, shown.others.len() - 2, "{:?}", shown.others);
}
