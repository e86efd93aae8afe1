//! The `OpenAPI` document: served, shown as a page, printed, and held against the running server by schemathesis.

use tokio::process::Command;

use super::auth::one_of_each;
use crate::support::judge::{Judge, Reply};
use crate::support::server::{BODY_LIMIT, Plan, Server, answer, refused};
use crate::support::{PATIENCE, python};

/// The checker of `OpenAPI` documents, and its version.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

#[tokio::test]
async fn the_document_is_served_and_its_page_asks_for_nothing_from_elsewhere() {
    let server = Server::start().await;
    let (status, document) = answer(server.caller.client.get(format!("{}/openapi.json", server.origin))).await;
    assert_eq!((status, document), (200, afterword::http::document().unwrap()));
    let page = server.caller.client.get(format!("{}/docs", server.origin)).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    let page = page.text().await.unwrap();
    assert!(page.contains("fetch(\"openapi.json\")"));
    for elsewhere in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn the_command_prints_the_document() {
    let printed = assert_cmd::Command::new(env!("CARGO_BIN_EXE_afterword")).arg("openapi").assert().success();
    let printed: serde_json::Value = serde_json::from_slice(&printed.get_output().stdout).unwrap();
    assert_eq!(printed, afterword::http::document().unwrap());
}

#[tokio::test]
async fn every_route_refuses_in_the_one_form_of_errors() {
    let server = Server::start().await;
    let document = afterword::http::document().unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let url = format!("{}{}", server.origin, path.replace("{id}", "x").replace("{evaluator}", "x"));
        let response = server.caller.request("TRACE", &url).send().await.unwrap();
        let allowed = response.headers()["allow"].to_str().unwrap().to_lowercase();
        for (method, operation) in methods.as_object().unwrap() {
            assert!(allowed.split(',').any(|it| it.trim() == method), "{method} {path}: {allowed}");
            let send = || server.caller.request(&method.to_uppercase(), &url);
            if operation.get("requestBody").is_some() {
                let json = "application/json";
                refused(&answer(send().header("content-type", json).body("{")).await, 400);
                let large = format!("\"{}\"", "x".repeat(BODY_LIMIT));
                refused(&answer(send().header("content-type", json).body(large)).await, 413);
                // Senders of single spans that don't say it is JSON hear that the fields are missing, as they do elsewhere.
                let (wrong, status) =
                    if path.ends_with("/ingest/traces") { ("text/plain", 422) } else { ("text/plain", 415) };
                refused(&answer(send().header("content-type", wrong).body("{}")).await, status);
                refused(&answer(send().header("content-encoding", "br").body("{}")).await, 415);
            }
        }
        refused(&answer(server.caller.request("TRACE", &url)).await, 405);
    }
    refused(&server.caller.get("/nowhere").await, 404);
}

#[tokio::test]
async fn a_key_that_asked_too_often_is_told_so_by_every_route_that_asks_for_one() {
    let server = Server::planned(Plan { requests_per_minute: 1, ..Plan::default() }).await;
    assert_eq!(server.caller.get("/agents").await.0, 200);
    for route in afterword::http::routes().into_iter().filter(|route| route.scope.is_some()) {
        let url = format!("{}{}", server.origin, route.path.replace("{id}", "x").replace("{evaluator}", "x"));
        let once_more = server.caller.request(route.method.as_str(), &url).header("Idempotency-Key", "k");
        refused(&answer(once_more).await, 429);
    }
}

/// Has schemathesis ask what `only` selects, and gives what it said. Everything it finds fails the test.
async fn checked(server: &Server, only: [&str; 2]) -> String {
    let pins = || python::interpreter(&[SCHEMATHESIS]);
    let Some(interpreter) = tokio::task::spawn_blocking(pins).await.unwrap() else { return String::new() };
    let folder = tempfile::tempdir().unwrap();
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                  response_schema_conformance,ignored_auth,unsupported_method";
    let run = Command::new(interpreter.with_file_name("schemathesis"))
        .args([
            "run",
            &format!("{}/openapi.json", server.origin),
            "--header",
            &format!("x-api-key: {}", server.caller.key),
        ])
        .args(["--checks", checks, "--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1"])
        .args(["--continue-on-failure", "--no-color", "--request-timeout", "300"])
        .args(only)
        .current_dir(folder.path())
        .env("NO_PROXY", "*")
        .output();
    let ended = tokio::time::timeout(PATIENCE * 12, run).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}\n{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!said.contains("returned only 401/403"), "the key opened everything all along: {said}");
    said
}

/// The operations that may end the very key that asks.
const OWN_KEY: &str = "^(deleteAgentMonitoringKeysById|postAgentMonitoringKeysByIdRotate)$";
/// Those, and the one whose answer has no end.
const APART: &str = "^(deleteAgentMonitoringKeysById|postAgentMonitoringKeysByIdRotate|getAgentMonitoringRailStream)$";

#[tokio::test]
async fn schemathesis_finds_nothing_that_the_document_does_not_say() {
    let judge = Judge::start(|_| Reply::Rating(3.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    one_of_each(&server.caller).await;
    let said = checked(&server, ["--exclude-operation-id-regex", APART]).await;
    if said.is_empty() {
        return;
    }
    let document = afterword::http::document().unwrap();
    let operations: usize =
        document["paths"].as_object().unwrap().values().map(|it| it.as_object().unwrap().len()).sum();
    // It leaves out the document itself.
    assert!(said.contains(&format!("Tested: {}\n", operations - 4)), "of {operations}: {said}");
    checked(&server, ["--include-operation-id-regex", OWN_KEY]).await;
}
