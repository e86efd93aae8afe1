//! Dataset runs over HTTP: graded by the recipe they were ordered with, each row once, gated, and graded anew.
//!
//! Over 450 lines: what makes a run, its rows and its scorers is short only where all tests share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afterword::domain::time::Micros;
use afterword::scorers::judge::JudgeSettings;
use afterword::store::DailyLimits;
use serde_json::{Value, json};

use crate::support::judge::{Judge, Reply};
use crate::support::postgres;
use crate::support::server::{Answer, Caller, Plan, Server, list, refused};

const BASE: &str = "/custom-agent-evaluations";

/// A judge that rates by what the answer says: `rated N`, else 8.
fn rates_as_told() -> Judge {
    Judge::start(|request| {
        let said = request["messages"][1]["content"].as_str().unwrap().to_owned();
        let rating = said.split_once("rated ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        Reply::Rating(rating.unwrap_or(8.0))
    })
}

/// The id in a good answer.
fn made((status, body): Answer, key: &str) -> String {
    assert_eq!(status, 201, "{body}");
    let body = if key.is_empty() { &body } else { &body[key] };
    body["_id"].as_str().or(body["runId"].as_str()).unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// A fine answer.
fn fine((status, body): Answer) -> Value {
    assert_eq!(status, 200, "{body}");
    body
}

async fn judge(caller: &Caller, name: &str, rubric: Value) -> String {
    let body = json!({"name": name, "judge": rubric, "offline": {"numberOfRequests": 1, "isDefault": false}});
    made(caller.post("/agent-monitoring/judge-scorers", &body).await, "judgeScorer")
}

async fn apology(caller: &Caller) -> String {
    let body = json!({"name": "Apology", "detectorKind": "contains", "includeTerms": ["apologize"], "severity": "low", "polarity": "failure"});
    made(caller.post("/monitor/patterns", &body).await, "pattern")
}

async fn group(caller: &Caller, name: &str, members: Value) -> String {
    made(
        caller.post("/agent-monitoring/scorer-groups", &json!({"name": name, "members": members})).await,
        "scorerGroup",
    )
}

async fn dataset(caller: &Caller, cases: usize) -> String {
    let question = |place: usize| {
        json!({"main_question": {"query": format!("question {place}?"), "expectedResults": format!("expected {place}"),
            "judgeGuideline": "mind the numbers", "splits": if place == 0 { vec!["smoke"] } else { vec![] }}, "follow_up_questions": []})
    };
    let body =
        json!({"name": "Refunds", "description": null, "questions": (0..cases).map(question).collect::<Vec<_>>()});
    made(caller.post(&format!("{BASE}/datasets"), &body).await, "")
}

async fn run(caller: &Caller, dataset: &str, change: Value) -> String {
    let mut body = json!({"datasetId": dataset, "evaluationSubject": {"kind": "custom_agent"}, "runSource": "sdk"});
    body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    made(caller.post(&format!("{BASE}/runs"), &body).await, "")
}

fn row(run: &str, place: usize, text: &str) -> Value {
    json!({"caseId": format!("case-{place}"), "questionIndex": place, "runNumber": 1, "input": {"query": format!("question {place}?")},
        "output": {"text": text}, "timings": {"latencyMs": 12}, "idempotencyKey": format!("{run}:case-{place}:run-1"), "metadata": {"model": "m"}})
}

async fn submit(caller: &Caller, run: &str, rows: &[Value]) -> Value {
    fine(caller.post(&format!("{BASE}/runs/{run}/results"), &json!({"batchId": "b", "results": rows})).await)
}

async fn finalize(caller: &Caller, run: &str) {
    fine(caller.post(&format!("{BASE}/runs/{run}/finalize"), &json!({"status": "completed"})).await);
}

async fn detail(caller: &Caller, run: &str) -> Value {
    fine(caller.get(&format!("{BASE}/runs/{run}")).await)
}

async fn gate(caller: &Caller, run: &str, query: &str) -> Answer {
    caller.get(&format!("{BASE}/runs/{run}/gate?{query}")).await
}

fn members(judge: &str, pattern: &str) -> Value {
    json!([{"kind": "judge", "refId": judge}, {"kind": "pattern", "refId": pattern}])
}

#[tokio::test]
async fn a_group_grades_rows_and_their_rating_follows_from_their_members() {
    let stub = rates_as_told();
    let daily = DailyLimits { project: Some(1), group: Some(1) };
    let judges = JudgeSettings { model: "test".into(), daily, ..JudgeSettings::default() };
    let server = Server::planned(Plan { judge: Some(&stub), judges, ..Plan::default() }).await;
    let caller = &server.caller;
    let quality = judge(
        caller,
        "Quality",
        json!({"acceptanceCriteria": "polite", "judgePrompt": "OWN PROMPT", "requiresExpected": true}),
    )
    .await;
    let group = group(caller, "Bar", members(&quality, &apology(caller).await)).await;
    let dataset = dataset(caller, 4).await;
    let run = run(
        caller,
        &dataset,
        json!({"scorerGroupId": group, "evaluationSettingsId": "ignored", "additionalScorerIds": ["x"]}),
    )
    .await;
    let failed = json!({"caseId": "case-2", "questionIndex": 2, "runNumber": 1, "output": {"text": ""}, "input": {"query": "q"},
        "idempotencyKey": format!("{run}:case-2:run-1"), "error": {"type": "ValueError", "message": "boom", "retryable": false}});
    let empty = json!({"caseId": "case-3", "questionIndex": 3, "output": {"text": " "}});
    let rows = [row(&run, 0, "I apologize. rated 8.55"), row(&run, 1, "Two weeks. rated 9"), failed, empty];
    let answer = submit(caller, &run, &rows).await;
    assert_eq!(
        (&answer["accepted"], &answer["duplicates"], &answer["failedValidation"]),
        (&json!(3), &json!(0), &json!(1))
    );
    let statistics = &answer["liveStatistics"];
    assert_eq!(
        (&statistics["ratedCount"], &statistics["failedCount"], &statistics["skippedCount"]),
        (&json!(3), &json!(1), &json!(0))
    );

    let told = detail(caller, &run).await;
    assert_eq!((&told["scorerGroupId"], &told["scorerGroupName"]), (&json!(group), &json!("Bar")));
    assert_eq!((&told["evaluationSettingsId"], &told["additionalScorerIds"]), (&Value::Null, &Value::Null));
    let results = told["results"].as_array().unwrap();
    for result in &results[..2] {
        let judge = &result["judgeScorerResults"][0];
        let scorer = &result["codeScorerResults"][0];
        let (judge, scorer) = (judge["rating"].as_f64().unwrap(), scorer["score"].as_f64().unwrap());
        let mean = f64::midpoint(judge / 10.0, scorer);
        let expected = ((mean * 100.0 * 1e6).round() / 1e6 + 0.5).floor() / 10.0;
        assert_eq!(result["rating"].as_f64(), Some(expected), "{result}");
        assert_eq!(result["status"], "scored");
    }
    assert_eq!((&results[0]["rating"], &results[1]["rating"]), (&json!(4.3), &json!(9.5)));
    assert_eq!(results[0]["codeScorerResults"][0]["score"], 0);
    let failed = &results[2];
    assert_eq!((&failed["rating"], &failed["status"]), (&json!(0), &json!("failed")));
    assert_eq!(failed["justification"], "Case failed with error: ValueError: boom");
    let lines = told["scorerBreakdown"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0]["name"], &lines[0]["primary"]), (2, &json!("Bar (group)"), &json!(true)));
    assert_eq!((&lines[0]["averageRating"], &lines[0]["scored"]), (&json!(4.6), &json!(3)));
    assert_eq!(
        (&lines[1]["name"], &lines[1]["scored"], &lines[1]["unscored"]),
        (&json!("Quality"), &json!(2), &json!(1))
    );

    let asked = stub.requests();
    assert_eq!(asked.len(), 2, "a dataset run does not draw on the budget, and a failed case asks nobody");
    let system = asked[0]["messages"][0]["content"].as_str().unwrap();
    for part in ["OWN PROMPT", "polite", "expected ", "mind the numbers"] {
        assert!(system.contains(part), "{part} in {system}");
    }
    let listed = list(caller.get(&format!("{BASE}/runs?datasetId={dataset}")).await, "runs");
    assert_eq!((&listed[0]["scorerGroupName"], &listed[0]["averageRating"]), (&json!("Bar"), &json!(4.6)));
    assert!(list(server.stranger.get(&format!("{BASE}/runs")).await, "runs").is_empty());
    assert_eq!(refused(&server.stranger.get(&format!("{BASE}/runs/{run}")).await, 404), "Run not found");
}

#[tokio::test]
async fn what_is_sent_again_changes_nothing_and_is_never_judged_twice() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let quality = judge(caller, "Quality", json!({})).await;
    let dataset = dataset(caller, 2).await;
    let run = run(caller, &dataset, json!({"evaluationSettingsId": quality})).await;
    submit(caller, &run, &[row(&run, 0, "rated 3"), row(&run, 1, "rated 4")]).await;
    let again = submit(caller, &run, &[row(&run, 0, "rated 9"), row(&run, 1, "rated 9")]).await;
    assert_eq!((&again["accepted"], &again["duplicates"]), (&json!(0), &json!(2)));
    let scored = again["scoredResults"].as_array().unwrap();
    assert_eq!(
        (&scored[0]["rating"], &scored[1]["rating"], &scored[0]["deduped"]),
        (&json!(3), &json!(4), &json!(true))
    );
    assert_eq!(scored[0]["justification"], "Said as told.", "a judge by itself speaks in its own words");
    assert_eq!(stub.requests().len(), 2);
    let keys = fine(caller.get(&format!("{BASE}/runs/{run}/missing-results")).await);
    assert_eq!((keys["submittedKeys"].as_array().unwrap().len(), &keys["missing"]), (2, &json!([])));

    let path = format!("{BASE}/runs/{run}/results");
    assert_eq!(refused(&caller.post(&path, &json!({"results": [1]})).await, 400), "batchId is required");
    assert_eq!(
        refused(&caller.post(&path, &json!({"batchId": "b", "results": []})).await, 400),
        "results must be a non-empty array"
    );
    let many: Vec<Value> = (0..51).map(|place| row(&run, place, "x")).collect();
    assert!(
        refused(&caller.post(&path, &json!({"batchId": "b", "results": many})).await, 400)
            .starts_with("Batch size must not exceed")
    );
    finalize(caller, &run).await;
    finalize(caller, &run).await;
    let late = caller.post(&path, &json!({"batchId": "b", "results": [row(&run, 0, "late")]})).await;
    assert!(refused(&late, 409).contains("terminal state"));
    assert_eq!(
        refused(
            &caller.post(&format!("{BASE}/runs/none/results"), &json!({"batchId": "b", "results": [1]})).await,
            404
        ),
        "Run not found"
    );
}

#[tokio::test]
async fn what_grades_a_run_must_be_there_and_stays_as_it_was_ordered() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let (quality, pattern) =
        (judge(caller, "Quality", json!({"acceptanceCriteria": "FIRST"})).await, apology(caller).await);
    let bar = group(caller, "Bar", members(&quality, &pattern)).await;
    let dataset = dataset(caller, 2).await;
    for (change, part) in [
        (json!({"scorerGroupId": "nobody"}), "no scorer group with id \"nobody\""),
        (json!({"evaluationSettingsId": "nobody"}), "no judge scorer with id \"nobody\""),
        (
            json!({"evaluationSettingsId": quality, "additionalScorerIds": ["nobody"]}),
            "no judge scorer with id \"nobody\"",
        ),
        (json!({"scorerGroupId": bar, "scorecardId": "nobody"}), "no scorecard with id \"nobody\""),
        (json!({"scorerGroupId": bar, "split": "smok"}), "no case of the dataset is in the split \"smok\""),
    ] {
        let mut body = json!({"datasetId": dataset});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let text = refused(&caller.post(&format!("{BASE}/runs"), &body).await, 400);
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(
        refused(&caller.post(&format!("{BASE}/runs"), &json!({"datasetId": "none"})).await, 404),
        "Dataset not found"
    );
    assert_eq!(refused(&caller.post(&format!("{BASE}/runs"), &json!({})).await, 400), "datasetId is required");

    let run = run(caller, &dataset, json!({"scorerGroupId": bar})).await;
    fine(
        caller
            .put(
                &format!("/agent-monitoring/judge-scorers/{quality}"),
                &json!({"judge": {"acceptanceCriteria": "SECOND"}}),
            )
            .await,
    );
    fine(
        caller
            .put(
                &format!("/agent-monitoring/scorer-groups/{bar}"),
                &json!({"members": [{"kind": "judge", "refId": quality}], "name": "Other"}),
            )
            .await,
    );
    assert_eq!(caller.delete(&format!("/agent-monitoring/patterns/{pattern}")).await.0, 204);
    assert_eq!(caller.delete(&format!("{BASE}/datasets/{dataset}")).await.0, 204);
    assert_eq!(refused(&caller.delete(&format!("{BASE}/datasets/{dataset}")).await, 404), "Dataset not found");
    let answer = submit(caller, &run, &[row(&run, 0, "rated 6")]).await;
    assert_eq!(answer["scoredResults"][0]["rating"], 8, "a clean pattern and 6/10: {answer}");
    let system = stub.requests()[0]["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.contains("FIRST") && !system.contains("SECOND") && system.contains("expected 0"), "{system}");
    assert_eq!(detail(caller, &run).await["scorerGroupName"], "Bar");
}

#[tokio::test]
async fn judges_without_a_group_grade_by_the_first_and_say_something_beside() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let needs = judge(caller, "Needs", json!({"requiresExpected": true})).await;
    let other = judge(caller, "Safety", json!({"evaluationCriteria": "safe"})).await;
    let body = json!({"name": "Bare", "questions": [{"main_question": {"query": "q?"}}], "acceptanceCriteria": "THE DATASET'S"});
    let bare = made(caller.post(&format!("{BASE}/datasets"), &body).await, "");
    let first =
        run(caller, &bare, json!({"evaluationSettingsId": needs, "additionalScorerIds": [needs, other, other]})).await;
    let answer = submit(caller, &first, &[row(&first, 0, "rated 6")]).await;
    let scored = &answer["scoredResults"][0];
    assert_eq!((&scored["rating"], &scored["status"]), (&Value::Null, &json!("skipped")), "never 0: {scored}");
    assert!(scored["justification"].as_str().unwrap().contains("no expected answer"), "{scored}");
    assert_eq!(
        scored["judgeScorerResults"],
        json!([{"scorerId": other, "name": "Safety", "rating": 6, "justification": "Said as told."}])
    );
    let told = detail(caller, &first).await;
    assert_eq!((&told["evaluationSettingsId"], &told["additionalScorerIds"]), (&json!(needs), &json!([other])));
    assert_eq!(
        told["scorerBreakdown"][0],
        json!({"scorerId": needs, "name": "Needs", "primary": true, "averageRating": null, "scored": 0, "unscored": 1})
    );

    let own = run(caller, &bare, json!({})).await;
    let answer = submit(caller, &own, &[row(&own, 0, "rated 7")]).await;
    assert_eq!(answer["scoredResults"][0]["rating"], 7);
    assert!(stub.requests()[1]["messages"][0]["content"].as_str().unwrap().contains("THE DATASET'S"));
    assert_eq!(detail(caller, &own).await["scorerBreakdown"][0]["name"], "Primary scorer");
}

#[tokio::test]
async fn two_servers_that_get_the_same_rows_at_once_judge_each_once_on_sqlite() {
    race(None).await;
}

#[tokio::test]
async fn two_servers_that_get_the_same_rows_at_once_judge_each_once_on_postgresql() {
    if let Some(database) = postgres::database() {
        race(Some(database)).await;
    }
}

async fn race(database: Option<String>) {
    let stub = Judge::start(|_| Reply::After(std::time::Duration::from_millis(30), Box::new(Reply::Rating(8.0))));
    let one = Server::planned(Plan { database, judge: Some(&stub), ..Plan::default() }).await;
    let database = Some(one.database.clone());
    let two = Server::planned(Plan { database, judge: Some(&stub), ..Plan::default() }).await;
    let caller = &one.caller;
    let quality = judge(caller, "Quality", json!({})).await;
    let dataset = dataset(caller, 40).await;
    let run = run(caller, &dataset, json!({"evaluationSettingsId": quality})).await;
    let rows: Vec<Value> = (0..40).map(|place| row(&run, place, &format!("answer {place}"))).collect();
    let backwards: Vec<Value> = rows.iter().rev().cloned().collect();
    let (first, second, third) = tokio::join!(
        submit(caller, &run, &rows),
        submit(&two.caller, &run, &backwards),
        submit(&two.caller, &run, &rows[..20])
    );
    assert_eq!(stub.requests().len(), 40, "each row is judged once");
    let accepted = |answer: &Value| answer["accepted"].as_u64().unwrap();
    assert_eq!(accepted(&first) + accepted(&second) + accepted(&third), 40, "each row is new once");
    for answer in [first, second, third] {
        for scored in answer["scoredResults"].as_array().unwrap() {
            assert_eq!(scored["rating"], 8, "whoever sent it is told what came of it: {scored}");
        }
    }
}

#[tokio::test]
async fn a_row_that_can_not_be_judged_now_is_put_off_and_offered_again() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let stub = Judge::start(move |request| match request["messages"][1]["content"].as_str() {
        Some(said) if said.contains("shrug") => Reply::CantTell,
        _ if down.load(Ordering::SeqCst) => Reply::Status(503),
        _ => Reply::Rating(8.0),
    });
    let judges = JudgeSettings { model: "test".into(), max_attempts: 1, ..JudgeSettings::default() };
    let server = Server::planned(Plan { judge: Some(&stub), judges, ..Plan::default() }).await;
    let caller = &server.caller;
    let quality = judge(caller, "Quality", json!({})).await;
    let dataset = dataset(caller, 2).await;
    let run = run(caller, &dataset, json!({"evaluationSettingsId": quality})).await;
    let rows = [row(&run, 0, "an answer"), row(&run, 1, "a shrug")];
    let answer = submit(caller, &run, &rows).await;
    let scored = answer["scoredResults"].as_array().unwrap();
    assert_eq!(
        (&scored[0]["rating"], &scored[0]["settled"], &scored[0]["status"]),
        (&Value::Null, &json!(false), &json!("skipped"))
    );
    assert!(scored[0]["justification"].as_str().unwrap().starts_with("Quality: "), "{answer}");
    assert_eq!(
        (&scored[1]["rating"], &scored[1]["settled"], &scored[1]["status"]),
        (&Value::Null, &json!(true), &json!("skipped"))
    );
    let asked = stub.requests().iter().filter(|it| it.to_string().contains("an answer")).count();
    assert_eq!(asked, 3, "it was tried again before the batch was answered");
    let missing = fine(caller.get(&format!("{BASE}/runs/{run}/missing-results")).await);
    assert_eq!(missing["submittedKeys"], json!([format!("{run}:case-1:run-1")]));
    assert_eq!(missing["missing"][0]["idempotencyKey"], format!("{run}:case-0:run-1"));

    is_down.store(false, Ordering::SeqCst);
    let before = stub.requests().len();
    let answer = submit(caller, &run, &rows).await;
    assert_eq!((&answer["accepted"], &answer["scoredResults"][0]["rating"]), (&json!(0), &json!(8)), "{answer}");
    assert_eq!(stub.requests().len() - before, 1, "what the other judge said stands");
    assert_eq!(fine(caller.get(&format!("{BASE}/runs/{run}/missing-results")).await)["missing"], json!([]));
}

#[tokio::test]
async fn of_two_rows_with_one_key_in_a_batch_the_first_is_judged() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let quality = judge(caller, "Quality", json!({})).await;
    let dataset = dataset(caller, 1).await;
    let run = run(caller, &dataset, json!({"evaluationSettingsId": quality})).await;
    let answer = submit(caller, &run, &[row(&run, 0, "rated 3"), row(&run, 0, "rated 9")]).await;
    assert_eq!((&answer["accepted"], &answer["duplicates"]), (&json!(1), &json!(1)), "{answer}");
    assert_eq!((&answer["scoredResults"][0]["rating"], &answer["scoredResults"][1]["rating"]), (&json!(3), &json!(3)));
    let results = detail(caller, &run).await["results"].clone();
    assert_eq!(results[0]["output"]["text"], "rated 3", "{results}");
    assert_eq!(stub.requests().len(), 1);
}

async fn takes_any_caller(database: Option<String>) {
    let server = Server::planned(Plan { database, ..Plan::default() }).await;
    let caller = &server.caller;
    let bar = group(caller, "Bar", json!([{"kind": "pattern", "refId": apology(caller).await}])).await;
    let dataset = dataset(caller, 1).await;
    let run = run(caller, &dataset, json!({"scorerGroupId": bar})).await;
    submit(caller, &run, &[row(&run, 0, "fine")]).await;
    finalize(caller, &run).await;
    fine(gate(caller, &run, "failUnder=5&record=true&caller=a%00b%0Ac").await);
    assert_eq!(list(caller.get("/evaluate/ci/gates").await, "gates")[0]["caller"], "abc");
}

#[tokio::test]
async fn whoever_asks_for_a_gate_may_call_itself_anything_on_sqlite() {
    takes_any_caller(None).await;
}

#[tokio::test]
async fn whoever_asks_for_a_gate_may_call_itself_anything_on_postgresql() {
    if let Some(database) = postgres::database() {
        takes_any_caller(Some(database)).await;
    }
}

#[tokio::test]
async fn an_average_is_the_same_wherever_it_is_shown() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let quality = judge(caller, "Quality", json!({})).await;
    let dataset = dataset(caller, 4).await;
    let run = run(caller, &dataset, json!({"evaluationSettingsId": quality})).await;
    // Their mean is 1.025: in binary a hair below, and half a hundredth is rounded up.
    let rows: Vec<Value> =
        [1.0, 1.0, 1.0, 1.1].iter().enumerate().map(|(place, it)| row(&run, place, &format!("rated {it}"))).collect();
    let live = submit(caller, &run, &rows).await["liveStatistics"]["averageRating"].clone();
    finalize(caller, &run).await;
    let shown = detail(caller, &run).await;
    let gated = fine(gate(caller, &run, "failUnder=1").await);
    let listed = list(caller.get(&format!("{BASE}/runs")).await, "runs");
    let all = [
        &live,
        &shown["averageRating"],
        &shown["scorerBreakdown"][0]["averageRating"],
        &gated["averageRating"],
        &listed[0]["averageRating"],
    ];
    assert_eq!(all, [&json!(1.03); 5]);
}

#[tokio::test]
async fn the_gate_says_what_its_average_rests_on_and_is_recorded_only_when_asked() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let (quality, pattern) = (judge(caller, "Quality", json!({})).await, apology(caller).await);
    let bar = group(caller, "Bar", members(&quality, &pattern)).await;
    let dataset = dataset(caller, 3).await;
    let graded = async |ratings: [f64; 2]| {
        server.clock.advance(Micros::seconds(1));
        let run = run(caller, &dataset, json!({"scorerGroupId": bar})).await;
        let rows: Vec<Value> = ratings
            .iter()
            .enumerate()
            .map(|(place, rating)| row(&run, place, &format!("rated {rating} said")))
            .collect();
        submit(caller, &run, &rows).await;
        assert!(refused(&gate(caller, &run, "failUnder=1").await, 409).contains("finalize it first"));
        finalize(caller, &run).await;
        run
    };
    let first = graded([8.0, 8.0]).await;
    let passed = fine(gate(caller, &first, "failUnder=9&noRegression=true").await);
    assert_eq!(
        (&passed["passed"], &passed["averageRating"], &passed["gatedScorer"]),
        (&json!(true), &json!(9.0), &Value::Null)
    );
    assert_eq!((&passed["scored"], &passed["unscored"], &passed["missingCases"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(passed["baselineRunId"], Value::Null, "a first run has nothing to fall behind");
    assert!(passed["checks"][0]["detail"].as_str().unwrap().contains("1 cases never submitted"), "{passed}");
    let strict = fine(gate(caller, &first, "failUnder=1&maxUnscored=0").await);
    assert_eq!((&strict["passed"], &strict["checks"][1]["check"]), (&json!(false), &json!("max-unscored")));
    let named = fine(gate(caller, &first, "failUnder=8.5&scorer=Quality").await);
    assert_eq!((&named["passed"], &named["averageRating"]), (&json!(false), &json!(8.0)));
    assert_eq!(named["gatedScorer"], json!({"id": quality, "name": "Quality"}));

    let second = graded([6.0, 6.0]).await;
    let behind = fine(gate(caller, &second, "noRegression=true&record=true&caller=ci").await);
    assert_eq!(
        (&behind["passed"], &behind["baselineRunId"], &behind["baselineAverage"]),
        (&json!(false), &json!(first), &json!(9.0))
    );
    assert_eq!(fine(gate(caller, &second, "noRegression=true&tolerance=1").await)["passed"], true);
    let recorded = list(caller.get("/evaluate/ci/gates").await, "gates");
    assert_eq!((recorded.len(), &recorded[0]["caller"], &recorded[0]["runId"]), (1, &json!("ci"), &json!(second)));

    for (query, part) in [
        ("record=true", "At least one check is required: failUnder=<0-10> and/or noRegression=true"),
        ("failUnder=high", "failUnder must be a number"),
        ("failUnder=11", "failUnder must be a number between 0 and 10"),
        ("failUnder=1&maxUnscored=-1", "maxUnscored must be a whole number"),
        ("failUnder=1&noRegression=True", "noRegression must be one of: false, true"),
        ("failUnder=1&record=yes", "record must be one of: false, true"),
        ("failUnder=1&scorer=Nobody", "no scorer \"Nobody\"; it has: Bar (group), Quality"),
        ("failUnder=1&scorer=Apology", "is no judge"),
    ] {
        let text = refused(&gate(caller, &first, query).await, 400);
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(refused(&gate(caller, "none", "failUnder=1").await, 404), "Run not found");
}

#[tokio::test]
async fn a_past_run_is_graded_anew_from_what_members_said_then() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let (quality, pattern) = (judge(caller, "Quality", json!({})).await, apology(caller).await);
    let bar = group(caller, "Bar", members(&quality, &pattern)).await;
    let alone = group(caller, "Alone", json!([{"kind": "judge", "refId": quality}])).await;
    let dataset = dataset(caller, 2).await;
    let past = run(caller, &dataset, json!({"scorerGroupId": bar})).await;
    let failed =
        json!({"caseId": "case-1", "questionIndex": 1, "error": {"type": "E", "message": "m"}, "idempotencyKey": "k"});
    submit(caller, &past, &[row(&past, 0, "I apologize. rated 6 here"), failed]).await;
    let path = format!("{BASE}/runs/{past}/rescore");
    assert!(refused(&caller.post(&path, &json!({})).await, 409).contains("in progress"));
    finalize(caller, &past).await;
    assert_eq!(
        refused(&caller.post(&path, &json!({"scorerGroupId": "none", "dryRun": true})).await, 400),
        "scorerGroupId: no scorer group with id \"none\""
    );

    let dry = fine(caller.post(&path, &json!({"scorerGroupId": alone, "dryRun": true})).await);
    let expected =
        json!({"rows": 2, "recomposed": 1, "needJudging": 0, "failed": 1, "averageBefore": 1.5, "averageAfter": 3.0});
    assert_eq!(dry, json!({"dryRun": true, "report": expected}));
    let (status, anew) = caller.post(&path, &json!({"scorerGroupId": alone})).await;
    assert_eq!(status, 201, "{anew}");
    let results = anew["run"]["results"].as_array().unwrap();
    assert_eq!(
        (&results[0]["rating"], &results[0]["recomposed"], &results[1]["rating"]),
        (&json!(6), &json!(true), &json!(0))
    );
    assert_eq!((&anew["run"]["status"], &anew["run"]["rescoredFrom"]), (&json!("completed"), &json!(past)));
    assert_eq!(stub.requests().len(), 1, "nobody was asked");
    assert_eq!(detail(caller, &past).await["results"][0]["rating"], 3, "the past run stays as it is");

    let card = json!({"name": "Strict", "outOf": 10, "bands": [{"label": "All", "minimum": 0}]});
    let card = made(caller.post("/agent-monitoring/scorecards", &card).await, "scorecard");
    let (_, carded) = caller.post(&path, &json!({"scorecardId": card})).await;
    assert_eq!(carded["run"]["results"][0]["scorecard"], json!({"score": 5.0, "band": "All"}), "{carded}");
    assert_eq!(stub.requests().len(), 1);

    let safety = judge(caller, "Safety", json!({"acceptanceCriteria": "safe"})).await;
    let both = json!([{"kind": "judge", "refId": quality}, {"kind": "judge", "refId": safety}]);
    let both = group(caller, "Both", both).await;
    let (_, asked) = caller.post(&path, &json!({"scorerGroupId": both})).await;
    assert_eq!((&asked["report"]["needJudging"], &asked["run"]["results"][0]["rating"]), (&json!(1), &json!(6)));
    assert_eq!(stub.requests().len(), 2, "only the judge that had said nothing is asked");
}

#[tokio::test]
async fn a_stored_trace_is_graded_by_a_dataset_in_a_run_that_no_gate_compares_with() {
    let stub = rates_as_told();
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let caller = &server.caller;
    let dataset = dataset(caller, 2).await;
    let trace =
        caller.store(&json!({"name": "a", "span_id": "t", "input": {"q": "how much?"}, "output": "rated 3 "})).await;
    let silent = caller.store(&json!({"name": "a", "span_id": "silent", "input": {"q": "how much?"}})).await;
    let path = |id: &str| format!("/ingest/traces/{id}/evaluate");

    let graded = fine(caller.post(&path(&trace), &json!({"datasetId": dataset})).await);
    assert_eq!(
        (&graded["rating"], &graded["trace_id"], &graded["status"]),
        (&json!(3.0), &json!(trace), &json!("completed"))
    );
    let shown = |n: usize| stub.requests()[n]["messages"].to_string();
    assert!(shown(0).contains("how much?") && !shown(0).contains("expected 1"), "{}", shown(0));
    let body = json!({"datasetId": dataset, "question_index": 1});
    let compared = fine(caller.post(&path(&trace), &body).await);
    assert_ne!(compared["run_id"], graded["run_id"]);
    assert!(shown(1).contains("expected 1"), "{}", shown(1));
    let detail = detail(caller, graded["run_id"].as_str().unwrap()).await;
    assert_eq!((&detail["status"], &detail["runSource"]), (&json!("completed"), &json!("trace")), "{detail}");

    // The first ordinary run has no earlier one to be compared with.
    let first = run(caller, &dataset, json!({})).await;
    submit(caller, &first, &[row(&first, 0, "rated 9 "), row(&first, 1, "rated 9 ")]).await;
    finalize(caller, &first).await;
    let (_, told) = gate(caller, &first, "noRegression=true").await;
    assert_eq!(told["baselineRunId"], json!(null), "{told}");

    for (id, body, status) in [
        ("nothing", json!({"datasetId": dataset}), 404),
        (trace.as_str(), json!({"datasetId": "nothing"}), 404),
        (trace.as_str(), json!({}), 400),
        (silent.as_str(), json!({"datasetId": dataset}), 400),
    ] {
        refused(&caller.post(&path(id), &body).await, status);
    }
    refused(&server.stranger.post(&path(&trace), &json!({"datasetId": dataset})).await, 404);
}
