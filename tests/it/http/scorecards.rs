//! Recipes, scorecards, re-composition and reports over HTTP.

use afterword::domain::time::Micros;
use serde_json::{Value, json};

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Caller, Plan, Server, list, refused};

const GROUPS: &str = "/agent-monitoring/scorer-groups";
const CARDS: &str = "/agent-monitoring/scorecards";

async fn made(caller: &Caller, path: &str, body: &Value, name: &str) -> String {
    let (status, answer) = caller.post(path, body).await;
    assert_eq!(status, 201, "{answer}");
    answer[name]["_id"].as_str().unwrap().to_owned()
}

async fn pattern(caller: &Caller, name: &str, term: &str) -> String {
    made(caller, "/monitor/patterns", &json!({"name": name, "includeTerms": [term]}), "pattern").await
}

async fn judge(caller: &Caller, name: &str, judge: &Value) -> String {
    made(caller, "/agent-monitoring/judge-scorers", &json!({"name": name, "judge": judge}), "judgeScorer").await
}

fn live() -> Value {
    json!({"enabled": true, "sampleRate": 1.0, "alertThreshold": 6, "severity": "high", "scope": "session", "idleSeconds": 0})
}

async fn say(server: &Server, session: &str, replies: &[&str]) {
    for (turn, reply) in replies.iter().enumerate() {
        let span = json!({"name": "helper", "span_id": format!("{session}-{turn}"), "session_id": session,
                          "input": "please", "output": reply, "agent_id": "shop"});
        server.caller.store(&span).await;
    }
}

#[tokio::test]
async fn a_scorecard_is_made_listed_edited_duplicated_and_deleted_and_the_built_in_one_stays() {
    let server = Server::start().await;
    let caller = &server.caller;
    let listed = list(caller.get(CARDS).await, "scorecards");
    assert_eq!((listed.len(), &listed[0]["_id"], &listed[0]["name"]), (1, &json!("default"), &json!("Default")));
    assert_eq!(
        (&listed[0]["builtIn"], &listed[0]["outOf"], &listed[0]["accuracy"]),
        (&json!(true), &json!(100), &json!(0.6))
    );
    let default = format!("{CARDS}/default");
    assert!(refused(&caller.put(&default, &json!({"name": "x"})).await, 409).contains("can't be changed"));
    assert!(refused(&caller.delete(&default).await, 409).contains("can't be deleted"));
    assert_eq!(caller.get(&default).await.1["scorecard"], listed[0]);

    let body =
        json!({"name": "Strict", "judgeWeights": [{"refId": "j", "weight": 2, "knockout": 40}], "cantTell": "fail"});
    let id = made(caller, CARDS, &body, "scorecard").await;
    let path = format!("{CARDS}/{id}");
    let edited = caller.put(&path, &json!({"outOf": 10, "judgeWeights": []})).await.1;
    assert_eq!((&edited["scorecard"]["outOf"], &edited["scorecard"]["bands"][0]["minimum"]), (&json!(10), &json!(8.5)));
    assert_eq!(edited["scorecard"]["cantTell"], "fail");
    let (status, copy) = caller.press(&format!("{path}/duplicate")).await;
    assert_eq!(
        (status, &copy["scorecard"]["name"], &copy["scorecard"]["outOf"]),
        (201, &json!("Copy of Strict"), &json!(10))
    );
    let (_, own) = caller.post(&format!("{default}/duplicate"), &json!({"name": "Ours"})).await;
    assert_eq!((&own["scorecard"]["name"], &own["scorecard"]["builtIn"]), (&json!("Ours"), &json!(false)));
    assert_eq!(list(caller.get(CARDS).await, "scorecards").len(), 4);

    let text = refused(&caller.post(CARDS, &json!({"name": "", "outOf": 0, "bands": []})).await, 400);
    assert!(
        text.contains("name must be") && text.contains("outOf must be") && text.contains("bands must be"),
        "{text}"
    );
    for answer in [
        server.stranger.get(&path).await,
        server.stranger.put(&path, &json!({})).await,
        server.stranger.delete(&path).await,
    ] {
        refused(&answer, 404);
    }
    let group = json!({"name": "User", "members": [{"kind": "pattern", "refId": pattern(caller, "P", "x").await}], "scorecardId": id});
    let group = made(caller, GROUPS, &group, "scorerGroup").await;
    let (status, deleted) = caller.delete(&path).await;
    assert_eq!((status, deleted), (200, json!({"ok": true, "movedToDefault": [{"_id": group, "name": "User"}]})));
    assert_eq!(caller.get(&format!("{GROUPS}/{group}")).await.1["scorerGroup"].get("scorecardId"), None);
    refused(&caller.delete(&path).await, 404);
}

#[tokio::test]
async fn recipes_are_answered_as_saved_and_what_can_t_stand_is_refused_by_its_member() {
    let server = Server::start().await;
    let caller = &server.caller;
    let (p, j) = (pattern(caller, "P", "x").await, judge(caller, "J", &json!({})).await);
    let members = json!([
        {"kind": "pattern", "refId": p, "weight": 1, "gate": false, "passThreshold": 0.8, "version": 1, "category": "experience"},
        {"kind": "judge", "refId": j, "weight": 1, "gate": true},
    ]);
    let body = json!({"name": "G", "members": members, "aggregation": "pass_rate", "passThreshold": 0.5, "scorecardId": "default"});
    let group = made(caller, GROUPS, &body, "scorerGroup").await;
    let shown = caller.get(&format!("{GROUPS}/{group}")).await.1["scorerGroup"].clone();
    assert_eq!(
        (&shown["members"], &shown["aggregation"], &shown["passThreshold"]),
        (&members, &json!("pass_rate"), &json!(0.5))
    );

    let with = |change: Value| {
        let mut body = json!({"name": "G", "members": [{"kind": "judge", "refId": j}]});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    let twice = json!([{"kind": "judge", "refId": j}, {"kind": "judge", "refId": j}]);
    let many: Vec<Value> = (0..21).map(|n| json!({"kind": "judge", "refId": format!("j{n}")})).collect();
    for (change, part) in [
        (
            json!({"members": [{"kind": "judge", "refId": j, "weight": 1001}]}),
            format!("weight must be a number between 0 and 1000 (\"{j}\")"),
        ),
        (json!({"members": many}), "members must list 1-20 scorers, not 21 (members[20] is \"j20\")".to_owned()),
        (
            json!({"members": [{"kind": "judge", "refId": j, "passThreshold": 1.5}]}),
            format!("passThreshold must be a number between 0 and 1 (\"{j}\")"),
        ),
        (json!({"passThreshold": -0.1}), "passThreshold must be".to_owned()),
        (
            json!({"members": [{"kind": "group", "refId": group}]}),
            format!("(\"{group}\"): a group can't be a member of a group"),
        ),
        (json!({"members": twice}), format!("members[1] (judge \"{j}\"): the same scorer is listed twice")),
        (
            json!({"members": [{"kind": "judge", "refId": j, "version": 2}]}),
            format!("members[0] (judge \"{j}\") has no version 2"),
        ),
        (json!({"outputType": "pass_fail"}), format!("members[0] (judge \"{j}\") answers with score")),
        (json!({"scorecardId": "gone"}), "no scorecard with id \"gone\"".to_owned()),
        (json!({"aggregation": "median"}), "aggregation must be one of".to_owned()),
    ] {
        let text = refused(&caller.post(GROUPS, &with(change)).await, 400);
        assert!(text.contains(&part), "{text} lacks {part}");
    }
    let declared = made(caller, GROUPS, &with(json!({"outputType": "score"})), "scorerGroup").await;
    let path = format!("/agent-monitoring/judge-scorers/{j}");
    let text = refused(&caller.put(&path, &json!({"judge": {"output": "pass_fail"}})).await, 409);
    assert!(text.contains("outputType"), "{text}");
    assert_eq!(caller.put(&format!("{GROUPS}/{declared}"), &json!({"outputType": null})).await.0, 200);
    let (status, edited) =
        caller.put(&path, &json!({"judge": {"output": "choice", "choiceScores": {"Good": 1, "Bad": 0}}})).await;
    assert_eq!((status, &edited["judgeScorer"]["judge"]["choiceScores"]), (200, &json!({"Good": 1.0, "Bad": 0.0})));
}

#[tokio::test]
async fn a_pinned_member_keeps_scoring_with_its_version_and_fails_where_that_is_gone() {
    let database = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", database.path().join("a.db").display());
    let server = Server::planned(Plan { database: Some(file.clone()), ..Plan::default() }).await;
    let caller = &server.caller;
    let p = pattern(caller, "Apology", "sorry").await;
    let pinned = json!([{"kind": "pattern", "refId": p, "version": 1}]);
    made(caller, GROUPS, &json!({"name": "Pinned", "members": pinned, "online": live()}), "scorerGroup").await;
    let newest = json!([{"kind": "pattern", "refId": p}]);
    made(caller, GROUPS, &json!({"name": "Newest", "members": newest, "online": live()}), "scorerGroup").await;
    let (status, _) =
        caller.put(&format!("/agent-monitoring/patterns/{p}"), &json!({"includeTerms": ["regret"]})).await;
    assert_eq!(status, 200);
    let rows = async |session: &str| -> Vec<(String, Value, Value)> {
        let mut rows: Vec<_> = caller
            .scores(session)
            .await
            .into_iter()
            .map(|it| {
                (
                    it["groupName"].as_str().unwrap().to_owned(),
                    it["rating"].clone(),
                    it["members"][0]["version"].clone(),
                )
            })
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    };
    say(&server, "one", &["I am sorry.", "Bye."]).await;
    server.clock.advance(Micros::seconds(1));
    assert_eq!(caller.sweep().await, 2);
    assert_eq!(rows("one").await, [("Newest".into(), json!(10), json!(2)), ("Pinned".into(), json!(0), json!(1))]);

    let mut raw = crate::store::raw::Raw::connect(&file).await;
    raw.run("DELETE FROM scorer_versions WHERE version = 1").await;
    say(&server, "two", &["I am sorry.", "Bye."]).await;
    server.clock.advance(Micros::seconds(1));
    assert_eq!(caller.sweep().await, 1, "the pinned member failed, it is not un-pinned");
    assert_eq!(rows("two").await, [("Newest".into(), json!(10), json!(2))]);
}

/// A group of a judge and a pattern that judged three sessions; answers its id.
async fn judged(server: &Server) -> String {
    let caller = &server.caller;
    let j = judge(caller, "Quality", &json!({})).await;
    let p = pattern(caller, "Apology", "sorry").await;
    let members = json!([{"kind": "judge", "refId": j}, {"kind": "pattern", "refId": p, "category": "experience"}]);
    let body = json!({"name": "Support", "members": members, "online": live(), "passThreshold": 0.85});
    let group = made(caller, GROUPS, &body, "scorerGroup").await;
    say(server, "good", &["Hello.", "Done."]).await;
    say(server, "bad", &["I am sorry.", "Done."]).await;
    say(server, "fine", &["Hello.", "Later."]).await;
    server.clock.advance(Micros::seconds(1));
    assert_eq!(caller.sweep().await, 3);
    group
}

#[tokio::test]
async fn every_scored_verdict_has_a_scorecard_score_and_a_band_and_recomposing_asks_no_judge() {
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let caller = &server.caller;
    let group = judged(&server).await;
    let calls = judge.requests().len();
    let bad = caller.scores("bad").await.remove(0);
    assert_eq!(
        (&bad["rating"], &bad["mean"], &bad["pass"], &bad["passThreshold"]),
        (&json!(4), &json!(0.4), &json!(false), &json!(0.85))
    );
    assert_eq!(
        (&bad["scorecardScore"], &bad["band"], &bad["scorecard"]["name"]),
        (&json!(60), &json!("Needs review"), &json!("Default"))
    );
    assert_eq!((&bad["recomposed"], &bad["aggregation"]), (&json!(false), &json!("weighted_average")));
    assert_eq!(bad["members"][1]["category"], "experience");
    let good = caller.scores("good").await.remove(0);
    assert_eq!((&good["rating"], &good["pass"], &good["band"]), (&json!(9), &json!(true), &json!("Good")));

    let rail = list(caller.get("/agent-monitoring/sessions").await, "sessions");
    let shown = rail.iter().find(|row| row["sessionId"] == "bad").unwrap()["judges"].clone();
    let expected =
        json!([{"name": "Support (group)", "rating": 4, "pass": false, "scorecardScore": 60, "band": "Needs review"}]);
    assert_eq!(shown, expected);

    let path = format!("{GROUPS}/{group}");
    let recompose = format!("{path}/recompose");
    let (status, nothing) = caller.press(&recompose).await;
    assert_eq!((status, &nothing["recomposed"], &nothing["unchanged"]), (200, &json!(0), &json!(3)));
    let mut members = caller.get(&path).await.1["scorerGroup"]["members"].clone();
    members[1]["gate"] = json!(true);
    assert_eq!(caller.put(&path, &json!({"members": members})).await.0, 200);
    let dry = caller.post(&recompose, &json!({"dryRun": true})).await.1;
    assert_eq!((&dry["recomposed"], &dry["needRescore"], &dry["dryRun"]), (&json!(3), &json!(0), &json!(true)));
    assert_eq!(
        (&dry["before"]["mean"], &dry["after"]["mean"], &dry["after"]["samples"]),
        (&json!(7.33), &json!(6.0), &json!(3))
    );
    assert_eq!(caller.scores("bad").await.len(), 1);
    let done = caller.post(&recompose, &json!({"signals": true})).await.1;
    assert_eq!(
        (&done["recomposed"], &done["fallsBelowThreshold"], &done["signals"]),
        (&json!(3), &json!(0), &json!(0))
    );
    let rows = caller.scores("bad").await;
    let shape: Vec<_> = rows.iter().map(|it| (&it["rating"], &it["recomposed"], &it["superseded"])).collect();
    assert_eq!(shape, [(&json!(0), &json!(true), &json!(false)), (&json!(4), &json!(false), &json!(true))]);
    assert_eq!(rows[0]["gatedBy"], "Apology");
    assert_eq!(judge.requests().len(), calls, "no judge was asked");

    members[1]["gate"] = json!(false);
    let more = judge_and(caller, members).await;
    assert_eq!(caller.put(&path, &json!({"members": more})).await.0, 200);
    let report = caller.press(&recompose).await.1;
    assert_eq!((&report["needRescore"], &report["recomposed"]), (&json!(3), &json!(0)));
    for (body, part) in [
        (json!({"from": "yesterday"}), "from must be a day"),
        (json!({"dryRun": "yes"}), "dryRun must be"),
        (json!({"scorecardId": "gone"}), "no scorecard"),
        (json!([]), "JSON object"),
    ] {
        assert!(refused(&caller.post(&recompose, &body).await, 400).contains(part), "{part}");
    }
    refused(&server.stranger.press(&recompose).await, 404);
}

async fn judge_and(caller: &Caller, mut members: Value) -> Value {
    let new = judge(caller, "New", &json!({})).await;
    members.as_array_mut().unwrap().push(json!({"kind": "judge", "refId": new}));
    members
}

#[tokio::test]
async fn reports_count_each_session_once_with_samples_beside_every_mean() {
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let caller = &server.caller;
    let group = judged(&server).await;
    let path = format!("{GROUPS}/{group}");
    let summary = caller.get(&format!("{path}/summary?from=2026-01-01&to=2026-01-01")).await.1;
    assert_eq!((&summary["samples"], &summary["mean"], &summary["median"]), (&json!(3), &json!(7.33), &json!(9.0)));
    assert_eq!((&summary["min"], &summary["max"], &summary["passed"]), (&json!(4.0), &json!(9.0), &json!(2)));
    let card = &summary["scorecard"];
    assert_eq!((&card["samples"], &card["mean"]), (&json!(3), &json!(86.67)));
    assert_eq!(card["bands"], json!([{"band": "Good", "count": 2}, {"band": "Needs review", "count": 1}]));
    let members: Vec<_> = summary["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["name"], &it["kind"], &it["mean"], &it["samples"]))
        .collect();
    assert_eq!(
        members,
        [
            (&json!("Apology"), &json!("pattern"), &json!(6.67), &json!(3)),
            (&json!("Quality"), &json!("judge"), &json!(8.0), &json!(3))
        ]
    );
    assert_eq!(
        (&summary["members"][0]["failureRate"], &summary["members"][0]["declineRate"]),
        (&json!(0.0), &json!(0.0))
    );
    assert_eq!(summary["agents"].as_array().unwrap().len(), 1);
    assert_eq!((&summary["agents"][0]["samples"], &summary["agents"][0]["mean"]), (&json!(3), &json!(7.33)));

    let worst = caller.get(&format!("{path}/worst?limit=2")).await.1;
    let rows: Vec<_> =
        worst["sessions"].as_array().unwrap().iter().map(|it| (&it["sessionId"], &it["rating"])).collect();
    assert_eq!((rows[0], rows.len(), &worst["samples"]), ((&json!("bad"), &json!(4)), 2, &json!(3)));
    assert!(worst["sessions"][0]["reason"].as_str().unwrap().starts_with("Weighted blend: Quality 8/10"));

    let trend = caller.get(&format!("{path}/trend")).await.1;
    let own = &trend["scorers"][0];
    assert_eq!((&own["name"], own["segments"].as_array().unwrap().len()), (&json!("Support"), 1));
    let point = &own["segments"][0]["points"][0];
    assert_eq!((&point["day"], &point["samples"], &point["mean"]), (&json!("2026-01-01"), &json!(3), &json!(7.33)));
    assert_eq!(trend["scorers"].as_array().unwrap().len(), 3);

    let scores = |query: &str| format!("/agent-monitoring/scores?{query}");
    let rows = list(caller.get(&scores("from=2026-01-01")).await, "scores");
    let shape: Vec<_> = rows.iter().map(|it| (&it["name"], &it["kind"], &it["mean"], &it["samples"])).collect();
    assert_eq!(
        shape,
        [
            (&json!("Apology"), &json!("pattern"), &json!(6.67), &json!(3)),
            (&json!("Support"), &json!("group"), &json!(7.33), &json!(3)),
            (&json!("Quality"), &json!("judge"), &json!(8.0), &json!(3)),
        ]
    );
    assert_eq!(list(caller.get(&scores(&format!("scorer={group}"))).await, "scores").len(), 1);
    assert_eq!(list(caller.get(&scores(&format!("scorer=scorer-group:{group}"))).await, "scores").len(), 1);
    assert_eq!(list(caller.get(&scores("agent=nobody")).await, "scores").len(), 0);
    let nothing = caller.get(&format!("{path}/summary?to=2025-12-31")).await.1;
    assert_eq!((&nothing["samples"], &nothing["mean"], &nothing["members"]), (&json!(0), &Value::Null, &json!([])));
    refused(&caller.get(&format!("{path}/summary?from=2026-02-01&to=2026-01-01")).await, 400);
    for report in ["summary", "trend", "worst"] {
        refused(&server.stranger.get(&format!("{path}/{report}")).await, 404);
    }
}

#[tokio::test]
async fn judges_that_answer_yes_or_no_or_by_label_score_a_session() {
    let judge_server = Judge::start(|request| {
        let schema = &request["response_format"]["json_schema"]["schema"]["properties"];
        let nonce = schema["nonce"]["enum"][0].clone();
        let mut reply = json!({"nonce": nonce, "justification": "why", "evidence": null});
        if schema.get("pass").is_some() {
            reply["pass"] = json!(true);
        } else {
            reply["choice"] = json!(["so so", "GOOD"]);
        }
        Reply::Text(reply.to_string())
    });
    let server = Server::planned(Plan { judge: Some(&judge_server), ..Plan::default() }).await;
    let caller = &server.caller;
    let yes_no = judge(caller, "Safe", &json!({"output": "pass_fail"})).await;
    let labels = json!({"output": "choice", "choiceScores": {"Good": 1, "So so": 0.4, "Bad": 0}});
    let labels = judge(caller, "Tone", &labels).await;
    let group = |name: &str, output: &str, id: &str| json!({"name": name, "outputType": output, "members": [{"kind": "judge", "refId": id}], "online": live()});
    made(caller, GROUPS, &group("Yes or no", "pass_fail", &yes_no), "scorerGroup").await;
    made(caller, GROUPS, &group("By label", "choices", &labels), "scorerGroup").await;
    say(&server, "s", &["Hello.", "Bye."]).await;
    server.clock.advance(Micros::seconds(1));
    assert_eq!(caller.sweep().await, 2);
    let mut rows: Vec<_> = caller
        .scores("s")
        .await
        .into_iter()
        .map(|it| (it["groupName"].clone(), it["rating"].clone(), it["pass"].clone()))
        .collect();
    rows.sort_by_key(|it| it.0.to_string());
    assert_eq!(rows, [(json!("By label"), json!(7), Value::Null), (json!("Yes or no"), json!(10), json!(true))]);
}
