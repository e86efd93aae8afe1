//! One project and another: no route of the document shows, changes or spends anything of a project to a key of another.

use serde_json::{Value, json};

use super::auth::one_of_each;
use crate::support::judge::{Judge, Reply};
use crate::support::server::{Answer, Caller, Plan, Server, answer, answer_to_anything};

/// An operation of the document that asks for a key.
struct Operation {
    method: String,
    path: String,
    takes_body: bool,
}

fn operations() -> Vec<Operation> {
    let document = afterword::http::document().unwrap();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            // A stream has no end, and begins with what comes after the request.
            let is_stream = operation["responses"]["200"]["content"].get("text/event-stream").is_some();
            if !is_stream && !operation["security"].as_array().unwrap().is_empty() {
                let takes_body = operation.get("requestBody").is_some();
                operations.push(Operation { method: method.to_uppercase(), path: path.clone(), takes_body });
            }
        }
    }
    assert!(operations.len() > 50);
    operations
}

type Ids = Vec<(&'static str, String)>;

/// The path with the id that belongs into it.
fn filled(path: &str, ids: &Ids) -> String {
    if !path.contains("{id}") {
        return path.to_owned();
    }
    let (_, id) =
        ids.iter().find(|(part, _)| path.contains(part)).unwrap_or_else(|| panic!("an id for {path} is wanted"));
    let (_, evaluator) = ids.iter().find(|(part, _)| *part == "/online-evaluators/").unwrap();
    path.replace("{id}", id).replace("{evaluator}", evaluator)
}

/// What a project can see of itself.
async fn everything(server: &Server, caller: &Caller, ids: &Ids) -> Vec<(String, Answer)> {
    let mut seen = Vec::new();
    for operation in operations().into_iter().filter(|operation| operation.method == "GET") {
        let path = filled(&operation.path, ids);
        let answered = answer(caller.request("GET", &format!("{}{path}", server.origin))).await;
        // A run that goes on has no gate yet.
        let is_there = answered.0 == 200 || path.ends_with("/gate");
        assert!(is_there, "{path}: {}", answered.1);
        seen.push((path, answered));
    }
    seen
}

/// Whether an answer holds nothing but what was asked for: lists in it are empty, figures count nothing.
fn is_empty(body: &Value) -> bool {
    match body {
        Value::Object(fields) => {
            let lists = fields.values().filter_map(Value::as_array);
            let no_row = lists.clone().count() > 0 && lists.flatten().all(|row| row.get("count") == Some(&json!(0)));
            no_row || fields.values().all(Value::is_null)
        }
        _ => false,
    }
}

#[tokio::test]
async fn no_route_of_the_document_shows_changes_or_spends_anything_of_another_project() {
    let judge = Judge::start(|_| Reply::Rating(3.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let (caller, stranger) = (&server.caller, &server.stranger);
    let mut ids = one_of_each(caller).await;
    let of = |part: &str| ids.iter().find(|(it, _)| *it == part).unwrap().1.clone();
    let (pattern, judge_id, group) = (of("/patterns/"), of("/judge-scorers/"), of("/scorer-groups/"));
    let order = json!({"groupId": group, "mode": "all", "reason": "again"});
    let (status, resweep) = caller.post("/agent-monitoring/resweeps", &order).await;
    assert_eq!(status, 201, "{resweep}");
    let order = json!({"datasetId": of("/datasets/"), "scorerGroupId": group});
    let (status, run) = caller.post("/custom-agent-evaluations/runs", &order).await;
    assert_eq!(status, 201, "{run}");
    ids.retain(|(part, _)| !["/resweeps/", "/runs/"].contains(part));
    ids.push(("/runs/", run["runId"].as_str().unwrap().to_owned()));
    ids.push(("/resweeps/", resweep["resweep"]["_id"].as_str().unwrap().to_owned()));

    // Something is due that costs a question to the judge.
    let members = json!([{"kind": "judge", "refId": judge_id}]);
    assert_eq!(
        caller.put(&format!("/agent-monitoring/scorer-groups/{group}"), &json!({"members": members})).await.0,
        200
    );
    for turn in ["three", "four"] {
        caller.store(&json!({"name": "a", "session_id": "due", "span_id": turn, "output": "sorry"})).await;
    }
    let (asked, before) = (judge.requests().len(), everything(&server, caller, &ids).await);

    // A body that is right for many routes, and names what belongs to the other project.
    let body = json!({
        "name": "taken", "status": "taken", "severity": "low", "reason": "taken", "kinds": [], "scopes": ["read"],
        "members": [{"kind": "pattern", "refId": pattern}, {"kind": "judge", "refId": judge_id}],
        "groupId": group, "scorerGroupId": group, "evaluationSettingsId": judge_id, "scorecardId": of_list(&ids, "/scorecards/"),
        "sessionIds": ["s", "due"], "overlapSeconds": 0,
    });
    for Operation { method, path, takes_body } in operations() {
        let url = format!("{}{}", server.origin, filled(&path, &ids));
        let request = stranger.request(&method, &url);
        let (status, answered) = answer_to_anything(if takes_body { request.json(&body) } else { request }).await;
        let place = format!("{method} {path} answers {status}: {answered}");
        if path.contains("{id}") {
            // An agent that nobody told of can be given a profile: what is there then is the stranger's own. The built-in
            // scorecard and the built-in pieces are everybody's.
            let is_own = path.contains("/profiles/") && method == "PUT";
            let is_release_of_none = answered["released"] == json!(false);
            let is_nothing = [400, 403, 404].contains(&status)
                || (status == 200 && (is_own || is_release_of_none || method == "GET" && is_empty(&answered)));
            assert!(is_nothing, "{place}");
        } else if status < 300 {
            let text = answered.to_string();
            let shown: Vec<&String> =
                ids.iter().map(|(_, id)| id).filter(|id| id.len() > 10 && text.contains(*id)).collect();
            assert!(shown.is_empty(), "{place}");
        }
    }
    assert_eq!(judge.requests().len(), asked, "nothing was spent");
    for (before, after) in before.into_iter().zip(everything(&server, caller, &ids).await) {
        assert_eq!(before, after);
    }
    assert!(caller.sweep().await > 0 && judge.requests().len() > asked, "it was due all along");
}

fn of_list(ids: &Ids, part: &str) -> String {
    ids.iter().find(|(it, _)| *it == part).unwrap().1.clone()
}
