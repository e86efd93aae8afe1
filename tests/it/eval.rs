//! `eval` through the real binary: cases and answers from files or an endpoint, the gate's exit code, and a run that was killed
//! and goes on without a repeated judge call.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterword::domain::group::{GroupSpec, MemberKind};
use afterword::domain::judge::JudgeSpec;
use afterword::domain::time::{Micros, Timestamp};
use afterword::store::{Place, ScorerDraft};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::store::raw::Raw;
use crate::support::judge::{Judge, Reply};
use crate::support::program::{Ended, Program};
use crate::support::{PATIENCE, postgres};

/// A group of judges with these criteria, each weight 1.
async fn group(program: &Program, criteria: &[&str]) {
    let store = program.store().await;
    let project = store.project_named("Default", Timestamp::EARLIEST).await.unwrap().id;
    let mut members = Vec::new();
    for criterion in criteria {
        let spec = JudgeSpec::create(&json!({"name": criterion, "judge": {"acceptanceCriteria": criterion}})).unwrap();
        let text = serde_json::to_string(&spec).unwrap();
        let draft = ScorerDraft { kind: MemberKind::Judge, name: spec.name, spec: text };
        let judge = store.create_scorer(&project, &draft, Timestamp::EARLIEST).await.unwrap();
        members.push(json!({"kind": "judge", "refId": judge.id}));
    }
    let spec = GroupSpec::create(&json!({"name": "Bar", "members": members})).unwrap();
    store.create_group(&project, &spec, Timestamp::EARLIEST, Timestamp::EARLIEST).await.unwrap();
    store.close().await;
}

fn variables(judge: &Judge) -> Vec<(&'static str, &str)> {
    vec![
        ("AFTERWORD__JUDGE__BASE_URL", judge.base_url()),
        ("AFTERWORD__JUDGE__MODEL", "stub"),
        // Far longer than anything takes here: what the dead held is freed by hand, nothing else runs out.
        ("AFTERWORD__JUDGE__TIMEOUT", "10m"),
        ("AFTERWORD__SWEEP__LEASE", "20m"),
        ("AFTERWORD__LOG__LEVEL", "off"),
    ]
}

fn eval(program: &Program, judge: &Judge, more: &[&str]) -> Ended {
    let base = ["eval", "--dataset", "cases.jsonl", "--group", "Bar"];
    let args: Vec<String> = base.iter().chain(more).map(|text| (*text).to_owned()).collect();
    // The judge answers on a thread of its own, and an endpoint on the runtime's others.
    tokio::task::block_in_place(|| program.run_with(&variables(judge), args))
}

fn json_of(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.out, ended.err))
}

/// Rates 3 what says `poor`, else 9.
fn judge() -> Judge {
    Judge::start(|request| {
        let said = request["messages"][1]["content"].as_str().unwrap();
        Reply::Rating(if said.contains("poor") { 3.0 } else { 9.0 })
    })
}

const CASES: &str = "{\"id\": \"a\", \"query\": \"one?\", \"expected\": \"1\"}\n{\"id\": \"b\", \"query\": \"two?\"}\n{\"id\": \"c\", \"query\": \"three?\", \"splits\": [\"smoke\"]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_graded_and_the_gate_is_the_exit_code() {
    let (program, judge) = (Program::on_sqlite(), judge());
    group(&program, &["polite"]).await;
    program.file("cases.jsonl", CASES);
    program.file("answers.jsonl", "{\"id\": \"b\", \"answer\": \"a poor <one>\"}\n{\"id\": \"a\", \"answer\": \"fine\"}\n{\"id\": \"c\", \"error\": \"it broke\"}\n");
    let answers = ["--answers", "answers.jsonl"];
    let with = |more: &[&'static str]| answers.iter().chain(more).copied().collect::<Vec<_>>();
    let told = eval(&program, &judge, &with(&[])).with_code(0);
    assert_eq!(told.row("Bar (group)"), ["Bar (group)", "4.00", "3", "0"]);
    let worst: Vec<String> =
        told.rows().iter().filter(|row| row.len() == 4 && row[0].contains('.')).map(|row| row[1].clone()).collect();
    assert_eq!(worst, ["c", "b", "a"], "{}", told.out);
    assert!(told.out.contains("no answer to 1 of 3 cases"), "{}", told.out);

    let failed = eval(&program, &judge, &with(&["--fail-under", "7", "--no-regression", "--junit", "r.xml", "--json"]))
        .with_code(6);
    let answer = json_of(&failed);
    assert_eq!(
        (&answer["gate"]["passed"], &answer["gate"]["baselineAverage"]),
        (&json!(false), &json!(4.0)),
        "{answer}"
    );
    assert_eq!(answer["gate"]["checks"][1]["passed"], true, "it is as good as the run before");
    let junit = std::fs::read_to_string(program.folder().join("r.xml")).unwrap();
    assert!(junit.contains("tests=\"5\" failures=\"2\" errors=\"1\" skipped=\"0\""), "{junit}");
    eval(&program, &judge, &with(&["--fail-under", "4"])).with_code(0);
    let split = eval(&program, &judge, &with(&["--split", "smoke", "--fail-under", "1"])).with_code(6);
    assert!(split.out.contains("FAILED  fail-under"), "{}", split.out);
    assert_eq!(judge.requests().len(), 2, "what is known is not asked for again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_t_be_evaluated_is_told_before_anything_is_asked() {
    let (program, judge) = (Program::on_sqlite(), judge());
    group(&program, &["polite"]).await;
    program.file("cases.jsonl", CASES);
    program.file("some.jsonl", "{\"id\": \"a\", \"answer\": \"x\"}\n");
    program.file("all.jsonl", "{\"answer\": \"x\"}\n{\"answer\": \"y\"}\n{\"answer\": \"z\"}\n");
    program.file("odd.jsonl", "{\"id\": \"nobody\", \"answer\": \"x\"}\n");
    for (more, part) in [
        (vec!["--answers", "some.jsonl"], "no answer to 2 of the 3 cases: b, c"),
        (vec!["--answers", "odd.jsonl"], "line 1: no case has that id or query"),
        (vec!["--answers", "gone.jsonl"], "gone.jsonl can't be read"),
        (vec!["--answers", "some.jsonl", "--split", "none"], "no case of the dataset is in the split \"none\""),
        (vec!["--answers", "some.jsonl", "--resume", "r"], "no answer to 2 of the 3 cases"),
        (vec!["--answers", "all.jsonl", "--junit", "no/such/folder/r.xml"], "no/such/folder/r.xml can't be written"),
        (vec!["--answers", "all.jsonl", "--scorer", "Nobody", "--fail-under", "1"], "it has: Bar (group)"),
        (vec!["--answers", "all.jsonl", "--project", "Typo"], "there is no project \"Typo\""),
    ] {
        let ended = eval(&program, &judge, &more).with_code(1);
        assert!(ended.err.contains(part), "{}", ended.err);
    }
    let other = program
        .run(["eval", "--dataset", "cases.jsonl", "--group", "Nobody", "--endpoint", "http://127.0.0.1:9"])
        .with_code(1);
    assert!(other.err.contains("no scorer group with the id or name \"Nobody\""), "{}", other.err);
    program.run(["eval", "--dataset", "cases.jsonl", "--group", "Bar"]).with_code(2);
    for wrong in [&["--endpoint", "nowhere"][..], &["--answers", "all.jsonl", "--tolerance", "1"]] {
        program.run([&["eval", "--dataset", "cases.jsonl", "--group", "Bar"], wrong].concat()).with_code(2);
    }
    assert_eq!(judge.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_asked_for_each_case() {
    let (program, judge) = (Program::on_sqlite(), judge());
    group(&program, &["polite"]).await;
    program.file("cases.jsonl", CASES);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/agent", listener.local_addr().unwrap());
    let agent = post(async |headers: axum::http::HeaderMap, Json(body): Json<Value>| {
        assert_eq!(headers["x-secret"], "s");
        match body["query"].as_str().unwrap() {
            "two?" => (axum::http::StatusCode::BAD_GATEWAY, "down".to_owned()),
            query => {
                (axum::http::StatusCode::OK, json!({"answer": format!("to {query}"), "metadata": {"m": 1}}).to_string())
            }
        }
    });
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/agent", agent)).await });
    let ended = eval(&program, &judge, &["--endpoint", &url, "--header", "x-secret: s", "--json"]).with_code(0);
    let answer = json_of(&ended);
    let results = answer["run"]["results"].as_array().unwrap();
    assert_eq!((&results[0]["rating"], &results[0]["output"]["text"]), (&json!(9), &json!("to one?")));
    assert_eq!(results[1]["justification"], "Case failed with error: HTTP 502: down");
    assert_eq!(answer["run"]["liveStatistics"]["failedCount"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_goes_on_without_a_repeated_judge_call_on_sqlite() {
    killed(Program::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_goes_on_without_a_repeated_judge_call_on_postgresql() {
    if let Some(url) = postgres::database() {
        killed(Program::on(url)).await;
    }
}

/// Of the two judges of each row the second does not answer until the process was killed: what the first said is paid for and
/// kept, and no row of the second half is settled.
async fn killed(program: Program) {
    const ROWS: usize = 20;
    let is_stuck = Arc::new(AtomicBool::new(true));
    let stuck = Arc::clone(&is_stuck);
    let judge = Judge::start(move |request| {
        let asked = request["messages"][0]["content"].as_str().unwrap();
        let said = request["messages"][1]["content"].as_str().unwrap();
        let is_late = asked.contains("SECOND") && said.contains("late") && stuck.load(Ordering::SeqCst);
        if is_late { Reply::After(Duration::from_hours(1), Box::new(Reply::Rating(1.0))) } else { Reply::Rating(8.0) }
    });
    group(&program, &["FIRST", "SECOND"]).await;
    let lines = |line: &dyn Fn(usize) -> Value| (0..ROWS).map(|n| line(n).to_string()).collect::<Vec<_>>().join("\n");
    program.file("cases.jsonl", lines(&|n| json!({"query": format!("question {n}?")})));
    program.file(
        "answers.jsonl",
        lines(&|n| json!({"answer": format!("answer {n} {}", if n < ROWS / 2 { "early" } else { "late" })})),
    );
    let args = ["eval", "--dataset", "cases.jsonl", "--group", "Bar", "--answers", "answers.jsonl"];
    let mut first = tokio::process::Command::new(env!("CARGO_BIN_EXE_afterword"))
        .args(args)
        .current_dir(program.folder())
        .envs(variables(&judge))
        .env("AFTERWORD__DATABASE__URL", program.url())
        .env("AFTERWORD__DATABASE__BUSY_TIMEOUT", "5m")
        .env("AFTERWORD__JUDGE__MAX_CONCURRENCY", "64")
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();

    let store = program.store().await;
    let project = store.project_named("Default", Timestamp::EARLIEST).await.unwrap().id;
    let kept = async || {
        let usage =
            store.usage(&project, Timestamp::EARLIEST, Timestamp::EARLIEST + Micros::new(i64::MAX / 2)).await.unwrap();
        let runs = store.runs(&project, "", &Place::first(), 1).await.unwrap();
        let settled = match runs.first() {
            Some(run) => store.rows_of_run(&project, &run.id).await.unwrap().iter().filter(|row| row.is_done).count(),
            None => 0,
        };
        (usage.iter().filter(|row| row.outcome == "scored").map(|row| row.calls).sum::<i64>(), settled)
    };
    // Every answer that came is kept: both judges of the early rows, the first one of the late rows.
    let expected = (i64::try_from(ROWS + ROWS / 2).unwrap(), ROWS / 2);
    let waited = tokio::time::timeout(PATIENCE, async {
        while kept().await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("the early rows are settled");
    first.kill().await.unwrap();
    let run = store.runs(&project, "", &Place::first(), 1).await.unwrap().remove(0).id;
    store.close().await;
    judge.caught_up().await;
    let before = judge.requests();
    Raw::connect(program.url()).await.run("UPDATE run_rows SET lease_until = 1 WHERE lease_until > 1").await;
    is_stuck.store(false, Ordering::SeqCst);

    for (group, more, said) in
        [("Other", [].as_slice(), "is graded by Bar (group)"), ("Bar", &["--split", "smoke"], "is over all cases")]
    {
        let base =
            ["eval", "--dataset", "cases.jsonl", "--answers", "answers.jsonl", "--resume", &run, "--group", group];
        let ended = tokio::task::block_in_place(|| program.run_with(&variables(&judge), [&base[..], more].concat()));
        assert!(ended.with_code(1).err.contains(said), "what it can't be resumed as is told");
    }
    let more = ["--answers", "answers.jsonl", "--resume", &run, "--json"];
    let answer = json_of(&eval(&program, &judge, &more).with_code(0));
    assert_eq!(
        (&answer["run"]["averageRating"], &answer["run"]["liveStatistics"]["ratedCount"]),
        (&json!(8), &json!(ROWS))
    );
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for request in judge.requests().iter().skip(before.len()) {
        let which =
            if request["messages"][0]["content"].as_str().unwrap().contains("FIRST") { "first" } else { "second" };
        *asked.entry(which.to_owned()).or_default() += 1;
    }
    let unanswered = BTreeMap::from([("second".to_owned(), ROWS / 2)]);
    assert_eq!(asked, unanswered, "only what had no answer when the process died is asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_signal_stops_waits_for_judges_no_longer_than_the_grace_and_says_how_to_go_on() {
    let program = Program::on_sqlite();
    let judge = Judge::start(|_| Reply::After(Duration::from_hours(1), Box::new(Reply::Rating(8.0))));
    group(&program, &["polite"]).await;
    program.file("cases.jsonl", "{\"query\": \"a\"}\n");
    program.file("answers.jsonl", "{\"answer\": \"b\"}\n");
    let running = tokio::process::Command::new(env!("CARGO_BIN_EXE_afterword"))
        .args(["eval", "--dataset", "cases.jsonl", "--group", "Bar", "--answers", "answers.jsonl"])
        .current_dir(program.folder())
        .envs([
            ("AFTERWORD__JUDGE__BASE_URL", judge.base_url()),
            ("AFTERWORD__JUDGE__MODEL", "stub"),
            ("AFTERWORD__JUDGE__TIMEOUT", "30m"),
            ("AFTERWORD__SWEEP__LEASE", "1h"),
            ("AFTERWORD__SHUTDOWN__GRACE", "0s"),
            ("AFTERWORD__DATABASE__URL", program.url()),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let asked = async {
        while judge.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("the judge is asked");
    let process = running.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    let ended = tokio::time::timeout(PATIENCE, running.wait_with_output()).await.expect("it ends").unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("interrupted; go on with --resume "), "{told}");
}
