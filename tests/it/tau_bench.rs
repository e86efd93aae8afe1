//! The labelled airline conversations, imported and swept by the real binary, against a recount that shares no code with it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use afterword::domain::group::{GroupSpec, MemberKind};
use afterword::domain::ids::{ProjectId, SessionId};
use afterword::domain::pattern::PatternSpec;
use afterword::domain::time::Timestamp;
use afterword::store::{ScorerDraft, SessionRow, Store, VerdictRow};
use serde_json::{Value, json};

use crate::support::data::shared;
use crate::support::postgres;
use crate::support::program::{Program, Summary};

/// What the tripwire looks for in the agent's words, and how much it counts.
const TRIPWIRE: (&str, f64) = ("transfer", 3.0);

/// What the proper pattern looks for in the agent's words, and how much it counts.
const PROPER: (&str, f64) = ("successfully", 2.0);

/// Two conversations of one turn, which no group judges.
const SHORT: &str = r#"{"session_id": "short-1", "messages": [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "I can transfer you to a human agent."}]}
{"session_id": "short-2", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Thanks"}]}
"#;

/// What plain counting makes of one conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counted {
    turns: usize,
    tools: usize,
    transferred: bool,
    succeeded: bool,
    /// The label; `None` for the conversations made up here.
    resolved: Option<bool>,
}

impl Counted {
    /// The weighted mean of two yes-or-no members, on 0-10.
    fn rating(self) -> f64 {
        match (self.transferred, self.succeeded) {
            (false, true) => 10.0,
            (false, false) => 6.0,
            (true, true) => 4.0,
            (true, false) => 0.0,
        }
    }
}

/// Counts on the JSON alone.
fn count(text: &str) -> BTreeMap<String, Counted> {
    let count_one = |line: &str| {
        let chat: Value = serde_json::from_str(line).unwrap();
        let messages = chat["messages"].as_array().unwrap();
        let by = |role: &'static str| messages.iter().filter(move |message| message["role"] == role);
        let says = |what: &str| {
            by("assistant").filter_map(|message| message["content"].as_str()).any(|t| t.to_lowercase().contains(what))
        };
        let counted = Counted {
            turns: by("user").count(),
            tools: by("tool").count(),
            transferred: says(TRIPWIRE.0),
            succeeded: says(PROPER.0),
            resolved: chat["resolved"].as_bool(),
        };
        (chat["session_id"].as_str().unwrap().to_owned(), counted)
    };
    text.lines().map(count_one).collect()
}

async fn save_group(store: &Store, project: &ProjectId) {
    let mut members = Vec::new();
    for (name, polarity, (phrase, weight)) in
        [("Sends the caller on", "failure", TRIPWIRE), ("Reports success", "proper", PROPER)]
    {
        let condition = json!({"value": phrase, "detector": "phrase", "sources": ["response"]});
        let body = json!({"name": name, "polarity": polarity, "conditions": [condition]});
        let spec = serde_json::to_string(&PatternSpec::create(&body).unwrap()).unwrap();
        let draft = ScorerDraft { kind: MemberKind::Pattern, name: name.to_owned(), spec };
        let scorer = store.create_scorer(project, &draft, Timestamp::EARLIEST).await.unwrap();
        members.push(json!({"kind": "pattern", "refId": scorer.id, "weight": weight}));
    }
    let online = json!({
        "enabled": true, "sampleRate": 1, "alertThreshold": 5, "severity": "medium", "scope": "session",
        "idleSeconds": 0, "minTurns": 2,
    });
    let group = GroupSpec::create(&json!({"name": "Airline", "members": members, "online": online})).unwrap();
    store.create_group(project, &group, Timestamp::EARLIEST, Timestamp::EARLIEST).await.unwrap();
}

async fn sessions(store: &Store, project: &ProjectId) -> Vec<SessionRow> {
    let mut rows = store.recent_sessions(project, Timestamp::EARLIEST, 1_000).await.unwrap();
    rows.sort_by(|a, b| a.session.cmp(&b.session));
    rows
}

async fn verdicts(store: &Store, project: &ProjectId, session: &str) -> Vec<VerdictRow> {
    store.verdicts_of_session(project, &SessionId::trusted(session)).await.unwrap()
}

/// Imports the files twice and compares with the count; answers the sessions.
async fn import_twice(
    program: &Program,
    files: &[PathBuf],
    counted: &BTreeMap<String, Counted>,
) -> (Store, ProjectId, Vec<SessionRow>) {
    let import = || std::iter::once(PathBuf::from("import")).chain(files.iter().cloned());
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    let expected = |file: &PathBuf, is_known: bool| {
        let of_file = count(&std::fs::read_to_string(file).unwrap());
        let spans = of_file.values().map(|one| one.turns + one.tools).sum::<usize>() as u64;
        let (new, known) = if is_known { (0, spans) } else { (spans, 0) };
        Summary { lines: of_file.len() as u64, spans, new, changed: 0, known, refused: 0, bad_times: 0 }
    };
    let first = program.run(import()).with_code(0);
    for file in files {
        assert_eq!(first.summary(&name(file)), expected(file, false));
    }
    let store = program.store().await;
    let project = store.default_project(Timestamp::EARLIEST).await.unwrap().id;
    let before = sessions(&store, &project).await;
    for row in &before {
        assert_eq!(row.turns, i64::try_from(counted[row.session.as_str()].turns).unwrap(), "{}", row.session);
    }
    assert!(before.iter().map(|row| row.session.as_str()).eq(counted.keys().map(String::as_str)));

    let second = program.run(import()).with_code(0);
    for file in files {
        assert_eq!(second.summary(&name(file)), expected(file, true));
    }
    assert_eq!(sessions(&store, &project).await, before, "a second import changes nothing");
    (store, project, before)
}

async fn imports_and_sweeps(program: Program) {
    let Some(folder) = shared("tau-bench") else { return };
    let mut files: Vec<PathBuf> = (0..2).map(|n| folder.join(format!("gpt-4o-airline-trial{n}.jsonl"))).collect();
    files.push(program.file("short.jsonl", SHORT));
    let counted: BTreeMap<String, Counted> =
        files.iter().flat_map(|file| count(&std::fs::read_to_string(file).unwrap())).collect();
    assert_eq!(counted.values().filter(|one| one.resolved.is_some()).count(), 100);

    let (store, project, imported) = import_twice(&program, &files, &counted).await;
    save_group(&store, &project).await;
    let sweep = || serde_json::from_str::<Value>(&program.run(["sweep", "--json"]).with_code(0).out).unwrap();
    let judgeable = counted.values().filter(|one| one.turns >= 2).count();
    let first = sweep();
    assert_eq!((&first["judged"], &first["failed"], &first["deferred"]), (&json!(judgeable), &json!(0), &json!(0)));

    let mut rated = Vec::new();
    for row in &imported {
        let expected = counted[row.session.as_str()];
        let found = verdicts(&store, &project, row.session.as_str()).await;
        if expected.turns < 2 {
            assert!(found.is_empty(), "{}: {found:?}", row.session);
            continue;
        }
        let [verdict] = &found[..] else { panic!("{}: {} verdicts", row.session, found.len()) };
        let goodness: Vec<f64> =
            verdict.members.iter().map(|member| member.outcome.goodness().unwrap().get()).collect();
        let good = |is_good| f64::from(u8::from(is_good));
        assert_eq!(goodness, [good(!expected.transferred), good(expected.succeeded)], "{}", row.session);
        assert_eq!(verdict.rating, Some(expected.rating()), "{}: {}", row.session, verdict.justification);
        assert_eq!(verdict.turns, row.turns, "{}", row.session);
        assert_eq!(verdict.spans, row.spans, "{}", row.session);
        assert_eq!(verdict.read.revision, row.revision, "{}", row.session);
        rated.extend(expected.resolved.map(|resolved| (resolved, expected.rating())));
    }
    let second = sweep();
    assert_eq!((&second["judged"], &second["wanted"]), (&json!(0), &json!(0)));
    for row in &imported {
        let once = usize::from(counted[row.session.as_str()].turns >= 2);
        assert_eq!(verdicts(&store, &project, row.session.as_str()).await.len(), once, "{}", row.session);
    }
    println!("{}", report(&rated));
    store.close().await;
}

/// How the rating relates to the label.
fn report(rated: &[(bool, f64)]) -> String {
    let of = |label: bool| rated.iter().filter(move |(resolved, _)| *resolved == label).map(|(_, rating)| *rating);
    let mut text = format!("{} conversations, one rating each; what their label says of the need:\n", rated.len());
    for (label, name) in [(true, "resolved"), (false, "not resolved")] {
        let count = of(label).count();
        let mean = of(label).sum::<f64>() / f64::from(u32::try_from(count).unwrap());
        let spread: Vec<String> = [10.0, 6.0, 4.0, 0.0]
            .iter()
            .map(|step| format!("{} rated {step}", of(label).filter(|rating| rating.total_cmp(step).is_eq()).count()))
            .collect();
        let spread = spread.join(", ");
        writeln!(text, "  {name:<12}  {count:>3}  mean {mean:.2}  ({spread})").unwrap();
    }
    let auc = auc(&of(true).collect::<Vec<_>>(), &of(false).collect::<Vec<_>>());
    write!(
        text,
        "  AUC {auc:.3}: how often a resolved one is rated above an unresolved one, ties by half; 0.5 is chance. Below it \
         where, as here, the right end is often a refusal and a transfer, which these two patterns take for failures."
    )
    .unwrap();
    text
}

fn auc(above: &[f64], below: &[f64]) -> f64 {
    let won = |a: &f64, b: &f64| match a.total_cmp(b) {
        Ordering::Greater => 1.0,
        Ordering::Equal => 0.5,
        Ordering::Less => 0.0,
    };
    let wins: f64 = above.iter().flat_map(|a| below.iter().map(move |b| won(a, b))).sum();
    wins / f64::from(u32::try_from(above.len() * below.len()).unwrap())
}

#[test]
fn the_rank_statistic_is_one_where_all_are_above_and_half_where_all_tie() {
    for (above, below, expected) in
        [([9.0, 8.0], [1.0, 2.0], 1.0), ([5.0, 5.0], [5.0, 5.0], 0.5), ([1.0, 1.0], [2.0, 1.0], 0.25)]
    {
        assert!((auc(&above, &below) - expected).abs() < 1e-9);
    }
}

#[tokio::test]
async fn every_conversation_of_two_turns_has_exactly_one_verdict_on_sqlite() {
    imports_and_sweeps(Program::on_sqlite()).await;
}

#[tokio::test]
async fn every_conversation_of_two_turns_has_exactly_one_verdict_on_postgresql() {
    let Some(url) = postgres::database() else { return };
    imports_and_sweeps(Program::on(url)).await;
}
