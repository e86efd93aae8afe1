//! The fixtures hold what they promise.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::support::judge::{Judge, Reply};
use crate::support::{postgres, python};

async fn count_tables(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn each_database_is_fresh_and_its_own() {
    let (Some(one), Some(other)) = (postgres::database(), postgres::database()) else { return };
    assert_ne!(one, other);
    let mut connection = PgConnection::connect(&one).await.unwrap();
    sqlx::query("CREATE TABLE mark (id BIGINT PRIMARY KEY)").execute(&mut connection).await.unwrap();
    assert_eq!((count_tables(&one).await, count_tables(&other).await), (1, 0));
}

#[test]
fn many_threads_may_ask_for_databases_at_once() {
    let asked: Vec<_> = (0..8).map(|_| std::thread::spawn(postgres::database)).collect();
    let mut urls: Vec<_> = asked.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
    let given = urls.len();
    urls.sort_unstable();
    urls.dedup();
    assert_eq!(urls.len(), given);
    assert!(given == 8 || given == 0);
}

/// The test runs itself in a second process, which tells its database and then waits to be killed.
#[tokio::test]
async fn a_killed_process_leaves_neither_server_nor_folder() {
    const VICTIM: &str = "AFTERWORD_TEST_VICTIM";
    if std::env::var_os(VICTIM).is_some() {
        println!("\ndatabase {}", postgres::database().unwrap());
        loop {
            std::thread::park();
        }
    }
    if postgres::database().is_none() {
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "fixture::a_killed_process_leaves_neither_server_nor_folder"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let url = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("database ")?.to_owned())).unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let data: String = sqlx::query_scalar("SHOW data_directory").fetch_one(&mut connection).await.unwrap();
    assert!(Path::new(&data).exists());

    victim.kill().unwrap();
    victim.wait().unwrap();
    // The keeper holds the victim's stderr too, so this ends when the keeper has.
    victim.stderr.take().unwrap().read_to_string(&mut String::new()).unwrap();
    assert!(PgConnection::connect(&url).await.is_err());
    assert!(!Path::new(&data).exists());
}

#[test]
fn the_client_walk_says_which_setting_it_lacks() {
    let Some(interpreter) = python::interpreter(&["agentx-python==0.8.29"]) else { return };
    assert_eq!(python::interpreter(&["agentx-python==0.8.29"]).as_ref(), Some(&interpreter));
    let walk = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client/walk.py");
    let ended = Command::new(interpreter).arg(walk).env_remove("BASE_URL").output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("BASE_URL"));
}

fn question(rating_wanted: &str) -> Value {
    json!({
        "model": "any",
        "messages": [
            {"role": "system", "content": "Reply with {\"nonce\": \"from-text\", \"rating\": ...}."},
            {"role": "user", "content": rating_wanted},
        ],
    })
}

async fn ask(judge: &Judge, body: &Value) -> (u16, Value) {
    // Another test may have chosen the provider already; either way there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = format!("{}/chat/completions", judge.base_url());
    let response = reqwest::Client::new().post(url).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

fn verdict(body: &Value) -> Value {
    serde_json::from_str(body["choices"][0]["message"]["content"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn the_judge_rates_as_told_and_repeats_the_nonce() {
    let judge = Judge::start(|request| match request["messages"][1]["content"].as_str() {
        Some("good") => Reply::Rating(9.0),
        Some("late") => Reply::After(Duration::from_millis(1), Box::new(Reply::Rating(4.5))),
        Some("broken") => Reply::Text("no JSON".to_owned()),
        Some("busy") => Reply::Status(429),
        _ => Reply::CantTell,
    });
    let (status, good) = ask(&judge, &question("good")).await;
    assert_eq!((status, &verdict(&good)["rating"], &verdict(&good)["nonce"]), (200, &json!(9.0), &json!("from-text")));
    for rule in [json!({"const": "from-schema"}), json!({"enum": ["from-schema"]})] {
        let mut body = question("late");
        body["response_format"]["json_schema"]["schema"]["properties"]["nonce"] = rule;
        let (_, late) = ask(&judge, &body).await;
        assert_eq!((&verdict(&late)["rating"], &verdict(&late)["nonce"]), (&json!(4.5), &json!("from-schema")));
    }
    assert_eq!(verdict(&ask(&judge, &question("?")).await.1)["rating"], Value::Null);
    assert_eq!(ask(&judge, &question("broken")).await.1["choices"][0]["message"]["content"], "no JSON");
    assert_eq!(ask(&judge, &question("busy")).await.0, 429);
    assert_eq!(judge.requests().len(), 6);
    assert_eq!(judge.requests()[5]["messages"][1]["content"], "busy");
}
