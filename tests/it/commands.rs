//! The other commands through the real binary: what they print, their exit codes, and what a database or a configuration that
//! can't be used is met with.

use std::path::Path;
use std::process::Command;

use afterword::domain::time::Timestamp;
use serde_json::{Value, json};
use sqlx::Connection;

use crate::import::chat;
use crate::store::ctx::live_with;
use crate::support::postgres;
use crate::support::program::Program;

#[tokio::test]
async fn a_database_newer_than_the_program_is_left_alone() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    program.run(["migrate"]).with_code(0);
    let mut connection = sqlx::SqliteConnection::connect(program.url()).await.unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations VALUES (99990101000000, 'future', CURRENT_TIMESTAMP, TRUE, x'00', 1)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    for command in [&["migrate"][..], &["import", "one.jsonl"], &["sweep"], &["key", "create"]] {
        let ended = program.run(command).with_code(4);
        assert!(ended.out.is_empty(), "{command:?}");
        assert!(ended.err.contains("the database is newer than this program"), "{command:?}: {}", ended.err);
    }
}

#[test]
fn a_database_that_can_t_be_written_says_so() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    program.run(["import", "one.jsonl"]).with_code(0);
    // The superuser may write everything, so the program is copied to where another user may run it.
    let copy = program.folder().join("afterword");
    std::fs::copy(env!("CARGO_BIN_EXE_afterword"), &copy).unwrap();
    let mode = |path: &Path, mode: &str| {
        assert!(Command::new("chmod").arg(mode).arg(path).status().unwrap().success());
    };
    mode(&program.folder().join("afterword.db"), "444");
    mode(program.folder(), "555");
    let mut command = postgres::as_unprivileged(copy.to_str().unwrap());
    command.args(["import", "one.jsonl"]).current_dir(program.folder()).env("AFTERWORD__DATABASE__URL", program.url());
    let output = command.output().unwrap();
    mode(program.folder(), "755");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("error: the database is read-only"), "{told}");
}

#[test]
fn a_database_that_can_t_be_reached_is_told_with_the_setting_to_check() {
    for (url, code) in
        [("sqlite:///no/such/folder/afterword.db", 4), ("mysql://localhost/afterword", 3), ("sqlite://", 3)]
    {
        let ended = Program::on(url.to_owned()).run(["migrate"]).with_code(code);
        assert!(ended.err.contains("database.url"), "{url}: {}", ended.err);
        assert!(code == 3 || ended.err.contains(url), "{url}: {}", ended.err);
    }
}

#[test]
fn a_configuration_with_unknown_keys_or_bad_values_is_refused_by_name() {
    let program = Program::on_sqlite();
    let bad = program.file("bad.toml", "[server]\nlisen = \"127.0.0.1:1\"\n\n[swep]\nlease = \"1m\"\n");
    let bad = bad.to_str().unwrap();
    for command in ["migrate", "check-config", "sweep", "demo"] {
        let ended = program.run(["--config", bad, command]).with_code(3);
        assert!(ended.out.is_empty(), "{command}: {}", ended.out);
        for key in ["server.lisen: there is no such setting", "swep: there is no such section"] {
            assert!(ended.err.contains(key), "{command}: {key} in {}", ended.err);
        }
    }
    for (name, value, told) in [
        ("AFTERWORD__SWEEP__MAX_ATTEMPTS", "many", "sweep.max_attempts: is \"many\""),
        ("AFTERWORD__SERVER__LISTEN", "nowhere", "server.listen: is \"nowhere\""),
        ("AFTERWORD__SERVER__NAME", "x", "AFTERWORD__SERVER__NAME: sets nothing"),
        ("AFTERWORD_SWEEP__LEASE", "5m", "AFTERWORD_SWEEP__LEASE: sets nothing"),
        ("AFTERWORD_SWEEP__LEASE", "5m", "did you mean AFTERWORD__SWEEP__LEASE?"),
        ("AFTERWORD__JUDGE__MODEL", "m", "judge.base_url: must say where the model is asked"),
    ] {
        let ended = program.run_with(&[(name, value)], ["migrate"]).with_code(3);
        assert!(ended.err.contains(told), "{name}: {}", ended.err);
    }
    let missing = program.run(["--config", "none.toml", "migrate"]).with_code(3);
    assert!(missing.err.contains("none.toml can't be read"), "{}", missing.err);
    assert!(!program.folder().join("afterword.db").exists(), "nothing was made");
}

#[test]
fn check_config_prints_what_is_in_effect_without_secrets() {
    let program = Program::on_sqlite();
    program.file("config.toml", "[sweep]\nlease = \"5m\"\n");
    let variables = [
        ("AFTERWORD__JUDGE__BASE_URL", "http://127.0.0.1:9/v1"),
        ("AFTERWORD__JUDGE__MODEL", "small"),
        ("AFTERWORD__JUDGE__API_KEY", "hush-hush"),
        ("AFTERWORD__DATABASE__URL", "postgres://me:hush-hush@localhost/db"),
    ];
    let ended = program.run_with(&variables, ["check-config"]).with_code(0);
    let shown: toml::Table = ended.out.parse().unwrap();
    assert_eq!(shown["sweep"]["lease"].as_str(), Some("5m"));
    assert_eq!(shown["judge"]["model"].as_str(), Some("small"));
    assert!(!ended.out.contains("hush"), "{}", ended.out);
    let beside = |key: &str| ended.out.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once('#'));
    assert!(beside("lease = ").is_some_and(|(_, origin)| origin.contains("config.toml")), "{}", ended.out);
    assert!(beside("model = ").is_some_and(|(_, origin)| origin.contains("AFTERWORD__JUDGE__MODEL")), "{}", ended.out);
}

#[test]
fn sweeping_nothing_reports_nothing_in_words_and_in_json() {
    let program = Program::on_sqlite();
    let report: Value = serde_json::from_str(&program.run(["sweep", "--json"]).with_code(0).out).unwrap();
    let counts = ["lookedAt", "wanted", "judged", "unrated", "watched", "unchanged", "deferred", "withdrawn", "failed"];
    let nothing: serde_json::Map<String, Value> = counts.iter().map(|key| ((*key).to_owned(), json!(0))).collect();
    assert_eq!(report, Value::Object(nothing));
    let ended = program.run(["sweep"]).with_code(0);
    assert_eq!(ended.row("verdicts recorded"), ["verdicts recorded", "0"]);
    assert_eq!(ended.rows().len(), counts.len() + 1);
}

#[tokio::test]
async fn explain_names_the_agent_that_a_group_does_not_select() {
    let program = Program::on_sqlite();
    let mut talk: Value = serde_json::from_str(&chat("one", 2)).unwrap();
    talk["agent"] = json!("desk");
    program.file("one.jsonl", talk.to_string());
    program.run(["import", "one.jsonl"]).with_code(0);
    let store = program.store().await;
    let project = store.project_named("Default", Timestamp::EARLIEST).await.unwrap().id;
    let spec = live_with("Billing only", "j", |online| {
        (online.idle_seconds, online.agents) = (0, Some(vec!["billing".to_owned()]));
    });
    let now = Timestamp::EARLIEST;
    let group = store.create_group(&project, &spec, now, now).await.unwrap().id;
    store.close().await;
    let told = "its agent desk is none of those selected: billing";
    assert_eq!(program.run(["explain", "one"]).with_code(0).row("Billing only"), ["Billing only", told]);
    let answer: Value = serde_json::from_str(&program.run(["explain", "one", "--json"]).with_code(0).out).unwrap();
    let expected = json!({"groupId": group, "groupName": "Billing only", "decision": "other_agent", "text": told,
                          "agent": {"id": "desk", "name": "desk"}, "selected": ["billing"]});
    assert_eq!(answer, json!({"sessionId": "one", "groups": [expected]}));
}

#[tokio::test]
async fn a_project_that_is_not_there_is_told_and_never_made() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    program.run(["import", "one.jsonl"]).with_code(0);
    for command in [
        &["explain", "one"][..],
        &["deliveries", "list"],
        &["deliveries", "redeliver", "msg_1"],
        &["receivers", "list"],
        &["receivers", "test", "r"],
        &["pause", "g"],
        &["resume", "g"],
        &["resweep", "--group", "g", "--dry-run"],
        &["sample", "preview", "--group", "g"],
        &["summary", "--group", "g"],
        &["key", "list"],
    ] {
        let ended = program.run([command, &["--project", "Typo"]].concat()).with_code(1);
        assert!(ended.out.is_empty(), "{command:?}: {}", ended.out);
        assert!(ended.err.contains("there is no project \"Typo\""), "{command:?}: {}", ended.err);
    }
    let store = program.store().await;
    assert!(store.known_project("Typo").await.unwrap().is_none());
    store.close().await;
}

#[tokio::test]
async fn a_group_is_named_by_its_name_too_where_only_one_has_it() {
    let program = Program::on_sqlite();
    program.file("one.jsonl", chat("one", 2));
    program.run(["import", "one.jsonl"]).with_code(0);
    let store = program.store().await;
    let project = store.project_named("Default", Timestamp::EARLIEST).await.unwrap().id;
    let mut ids = Vec::new();
    for name in ["Support quality", "Twice", "Twice"] {
        let spec = live_with(name, "j", |online| online.idle_seconds = 0);
        ids.push(store.create_group(&project, &spec, Timestamp::EARLIEST, Timestamp::EARLIEST).await.unwrap().id);
    }
    store.close().await;
    let paused = program.run(["pause", "Support quality"]).with_code(0);
    assert!(paused.out.contains(&format!("Go on with: afterword resume {}", ids[0])), "{}", paused.out);
    program.run(["pause", "Support quality", "--reason", ""]).with_code(2);
    let resumed = program.run(["resume", ids[0].as_str()]).with_code(0);
    assert!(resumed.out.contains("goes on"), "{}", resumed.out);
    program.run(["sample", "preview", "--group", "Support quality"]).with_code(0);
    program.run(["resweep", "--group", "Support quality", "--dry-run"]).with_code(0);
    let explained = program.run(["explain", "one", "--group", "Support quality"]).with_code(0);
    assert_eq!(explained.rows().len(), 2, "{}", explained.out);
    let several = program.run(["pause", "Twice"]).with_code(1);
    assert!(several.err.contains("name one by its id") && several.err.contains(ids[2].as_str()), "{}", several.err);
    for command in [&["pause", "Nobody"][..], &["explain", "one", "--group", "Nobody"]] {
        let none = program.run(command).with_code(1);
        assert!(
            none.err.contains("there is no scorer group with the id or name \"Nobody\"")
                && none.err.contains("it has \""),
            "{}",
            none.err
        );
    }
}

#[test]
fn sample_answers_without_a_database() {
    let program = Program::on("sqlite:///no/such/folder/afterword.db".to_owned());
    let ended = program.run(["sample", "会話-42", "groupe-é", "--rate", "0.8", "--json"]).with_code(0);
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&answer["hash"], &answer["kept"]), (&json!("b6994201568fccbe"), &json!(true)));
    let words = program.run(["sample", "会話-42", "groupe-é", "--rate", "0.7"]).with_code(0);
    assert_eq!(words.row("hash"), ["hash", "b6994201568fccbe"]);
    assert!(words.row("decision")[1].starts_with("left out at rate 0.7"), "{}", words.out);
    program.run(["sample", "s", "g", "--rate", "2"]).with_code(2);
}

#[test]
fn migrate_may_be_run_again() {
    let program = Program::on_sqlite();
    for _ in 0..2 {
        assert!(program.run(["migrate"]).with_code(0).out.starts_with("The database is up to date: all "));
    }
}

#[tokio::test]
async fn a_created_key_opens_its_project_and_is_printed_once() {
    let program = Program::on_sqlite();
    let ended = program.run(["key", "create", "--project", "Shop", "--name", "ci"]).with_code(0);
    let key = ended.out.lines().next().unwrap();
    assert!(key.strip_prefix("aw_").is_some_and(|rest| rest.len() == 64), "{}", ended.out);
    assert!(ended.out.contains("the key \"ci\" of project Shop"), "{}", ended.out);
    assert!(!ended.err.contains(key));
    let store = program.store().await;
    let shop = store.project_named("Shop", Timestamp::EARLIEST).await.unwrap().id;
    assert_eq!(store.key_of(key).await.unwrap().map(|key| key.project), Some(shop));
    store.close().await;
    let bytes = std::fs::read(program.folder().join("afterword.db")).unwrap();
    assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()), "only its hash is kept");
}

#[tokio::test]
async fn keys_are_listed_rotated_and_revoked_and_named_by_id_or_beginning() {
    let program = Program::on_sqlite();
    let made =
        program.run(["keys", "create", "--scopes", "read", "--expires-in", "90d", "--name", "ci"]).with_code(0).out;
    let text = made.lines().next().unwrap().to_owned();
    assert!(made.contains("for: read.") && made.contains("It ends at "), "{made}");
    let prefix = &text[..8];
    let listed = program.run(["key", "list"]).with_code(0);
    let row = &listed.rows()[1];
    assert_eq!((row[1].as_str(), row[2].as_str(), row[3].as_str()), (&*format!("{prefix}…"), "ci", "read"));
    assert!(row[4].starts_with("live until ") && !listed.out.contains(&text), "{}", listed.out);

    let rotated = program.run(["key", "rotate", prefix]).with_code(0).out;
    let fresh = rotated.lines().next().unwrap();
    let json: Value = serde_json::from_str(&program.run(["key", "list", "--json"]).with_code(0).out).unwrap();
    let of = |text: &str| {
        json["keys"].as_array().unwrap().iter().find(|key| text.starts_with(key["prefix"].as_str().unwrap()))
    };
    assert!(of(&text).unwrap()["state"].as_str().unwrap().starts_with("revoked"), "{json}");
    let id = of(fresh).unwrap()["_id"].as_str().unwrap();
    assert!(program.run(["key", "revoke", id]).with_code(0).out.contains("opens nothing any more"));
    assert!(program.run(["key", "revoke", id]).with_code(1).err.contains("was revoked before"));
    assert!(program.run(["key", "revoke", "aw_none"]).with_code(1).err.contains("key list"));
    program.run(["key", "create", "--scopes", "admin"]).with_code(2);
    program.run(["key", "create", "--expires-in", "0s"]).with_code(2);
    let refusal = program.run(["key", "rotate", id, "--overlap", "8d"]).with_code(2).err;
    assert!(refusal.contains("at most 7d"), "{refusal}");
}

#[test]
fn other_machines_are_let_in_only_where_somebody_has_a_key() {
    let program = Program::on_sqlite();
    let open = ("AFTERWORD__SERVER__LISTEN", "0.0.0.0:0");
    for (variables, said) in [
        (vec![open], "there is no live API key yet"),
        (vec![("AFTERWORD__SERVER__LISTEN", "[::]:0")], "`afterword key create`"),
        (vec![open, ("AFTERWORD_API_KEY", "short")], "could be guessed"),
    ] {
        let ended = program.run_with(&variables, ["serve"]).with_code(3);
        assert!(ended.err.contains(said) && ended.out.is_empty(), "{ended:?}");
    }
    let key = program.run(["key", "create"]).with_code(0).out;
    program.run(["key", "revoke", &key[..8]]).with_code(0);
    assert!(program.run_with(&[open], ["serve"]).with_code(3).err.contains("no live API key"), "a revoked key is none");
    let own = program.run_with(&[open, ("AFTERWORD_API_KEY", key.lines().next().unwrap())], ["serve"]);
    assert!(own.with_code(3).err.contains("revoked or has expired"));
}

#[test]
fn help_names_every_command_and_exit_code_and_a_wrong_command_is_a_usage_error() {
    let program = Program::on_sqlite();
    let help = program.run(["--help"]).with_code(0).out;
    for word in ["serve", "work", "import", "sweep", "sample", "migrate", "check-config", "key", "demo", "130"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(program.run(["swep"]).with_code(2).err.contains("sweep"));
}
