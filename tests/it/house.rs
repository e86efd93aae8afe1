//! The house stays in order: imports point down only, the map names every file, migrations come in pairs, settings are read,
//! and no file tells of the machine it was written on.

mod floors;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use self::source::{ROOT, begins_word, code_of, files, has_extension, is_rust, rust_files, text};

/// Files that are longer than this give the reason in their head, in a `//!` line with the word `lines`.
const LONGEST: usize = 450;

#[test]
fn migrations_come_in_pairs() {
    let names = |engine: &str| -> Vec<String> {
        let folder = format!("migrations/{engine}/");
        files(&folder).iter().map(|path| path.strip_prefix(&folder).unwrap().to_owned()).collect()
    };
    let (sqlite, postgres) = (names("sqlite"), names("postgres"));
    assert_eq!(sqlite, postgres, "each migration has the same name in both engines");
    let numbers: BTreeSet<&str> = sqlite.iter().filter_map(|name| name.split_once('_')).map(|(n, _)| n).collect();
    assert_eq!(numbers.len(), sqlite.len(), "each migration has a number of its own: {sqlite:?}");
    assert!(!sqlite.is_empty());
}

#[test]
fn every_file_begins_by_saying_what_lives_in_it() {
    for path in rust_files("src").into_iter().chain(rust_files("tests")).chain(rust_files("fuzz")) {
        let first = text(&path).lines().next().unwrap_or_default().to_owned();
        assert!(first.strip_prefix("//! ").is_some_and(|said| said.len() > 3), "{path} begins with {first:?}");
    }
}

#[test]
fn long_files_give_a_reason_for_their_length() {
    let mut wrong = Vec::new();
    for path in rust_files("src").into_iter().chain(rust_files("tests")).chain(rust_files("fuzz")) {
        let text = text(&path);
        let count = text.lines().count();
        let head = text.lines().take_while(|line| line.starts_with("//!"));
        if count > LONGEST && !head.clone().any(|line| line.contains("lines")) {
            wrong.push(format!("{path}: {count} lines, {LONGEST} are allowed without a reason in its head"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A machine of many jobs stands still for seconds now and then. Tests that give up after a time of their own, or whose stores don't
/// wait for one another, fail there.
#[test]
fn tests_wait_with_the_patience_of_all_of_them() {
    let mut wrong = Vec::new();
    for path in rust_files("tests/it").into_iter().filter(|path| !path.starts_with("tests/it/support/")) {
        for (number, line) in (1..).zip(code_of(&text(&path)).lines()) {
            let is_wrong = |text: &str| line.contains(text);
            if is_wrong("timeout(Duration::") || is_wrong("StoreSettings::at(&") || is_wrong("const PATIENCE") {
                wrong.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "support::PATIENCE and support::store_at are for that:\n{}", wrong.join("\n"));
}

/// The paths in backticks on the map.
fn mapped() -> BTreeSet<String> {
    const MAP: &str = "docs/ARCHITECTURE.md";
    assert!(Path::new(ROOT).join(MAP).exists(), "{MAP} is missing: it maps every file of the house");
    let text = text(MAP);
    let ours = ["src/", "tests/", "fuzz/", "migrations/", "docs/"];
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|path| ours.iter().any(|folder| path.starts_with(folder)) && !path.contains([' ', '*', '{', '…']))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_map_names_every_file_and_nothing_else() {
    let mapped = mapped();
    let mut wrong: Vec<String> = mapped
        .iter()
        .filter(|path| !Path::new(ROOT).join(path).exists())
        .map(|path| format!("{path} is on the map and does not exist"))
        .collect();
    for path in files("src").into_iter().chain(files("tests")).chain(files("fuzz")) {
        // A folder on the map stands for the data in it, never for code.
        let is_code = is_rust(&path) || has_extension(&path, "py");
        let by_folder = || mapped.iter().any(|folder| folder.ends_with('/') && path.starts_with(folder.as_str()));
        if !mapped.contains(&path) && (is_code || !by_folder()) {
            wrong.push(format!("{path} is not on the map"));
        }
    }
    assert!(wrong.is_empty(), "docs/ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

/// Every setting of `config.toml`, as section and key.
fn settings() -> Vec<(String, String)> {
    let table: toml::Table = text("config.toml").parse().unwrap();
    let keys = |section: &toml::Value| section.as_table().unwrap().keys().cloned().collect::<Vec<_>>();
    table.iter().flat_map(|(name, section)| keys(section).into_iter().map(|key| (name.clone(), key))).collect()
}

/// Whether code reads `section.key`, the section by its name: `config.section.key`, or a binding named after it.
fn reads(code: &str, section: &str, key: &str) -> bool {
    let wanted = format!("{section}.{key}");
    code.match_indices(&wanted).any(|(at, _)| {
        let ends = !code[at + wanted.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        begins_word(code, at) && ends
    })
}

#[test]
fn every_setting_is_read_by_the_wiring_and_explained() {
    let wiring: Vec<String> = rust_files("src")
        .into_iter()
        .filter(|path| path.starts_with("src/cli/") || path == "src/app.rs")
        .map(|path| code_of(&text(&path)).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let settings = settings();
    assert!(settings.len() > 20, "{settings:?}");
    for (section, key) in &settings {
        assert!(wiring.iter().any(|code| reads(code, section, key)), "nothing reads {section}.{key}");
    }
    assert!(!wiring.iter().any(|code| reads(code, "sweep", "record")), "the beginning of a key is not the key");
    let config = text("config.toml");
    let mut before = "";
    for line in config.lines() {
        let is_setting = line.starts_with(|c: char| c.is_ascii_lowercase());
        assert!(!is_setting || before.starts_with("# "), "config.toml does not explain {line}");
        before = line;
    }
}

/// Every name in a text that begins as our variables do and is no setting's.
fn variables_beside_settings(text: &str) -> impl Iterator<Item = &str> {
    let ends = |char: char| !char.is_ascii_uppercase() && char != '_';
    text.match_indices("AFTERWORD_").filter_map(move |(place, found)| {
        let rest = &text[place..];
        let name = &rest[..rest.find(ends).unwrap_or(rest.len())];
        (name.len() > found.len() && !name.starts_with("AFTERWORD__")).then_some(name)
    })
}

#[test]
fn every_variable_that_is_no_setting_is_listed_where_the_mistyped_ones_are_refused() {
    let told_as_wrong = ["src/config/variables.rs", "src/config/tests.rs", "tests/it/commands.rs", "CHANGELOG.md"];
    let folders = ["src", "tests", "docs", "fuzz"].into_iter().flat_map(files);
    let all = folders.chain(["README.md", "config.toml", "CHANGELOG.md", "build.rs"].map(str::to_owned));
    for path in all.filter(|path| !told_as_wrong.contains(&path.as_str())) {
        let Ok(text) = fs::read_to_string(Path::new(ROOT).join(&path)) else { continue };
        for name in variables_beside_settings(&text) {
            assert!(afterword::config::BESIDE_SETTINGS.contains(&name), "{path} speaks of {name}");
        }
    }
}

#[test]
fn the_configuration_that_is_printed_has_the_settings_and_defaults_of_the_file() {
    let program = crate::support::program::Program::on("sqlite://afterword.db".to_owned());
    let printed: toml::Table = program.run(["check-config"]).with_code(0).out.parse().unwrap();
    let written: toml::Table = text("config.toml").parse().unwrap();
    for (section, key) in settings() {
        let (printed, written) = (&printed[&section][&key], &written[&section][&key]);
        let is_hidden = printed.as_str() == Some("<unset>") && written.as_str() == Some("");
        assert!(printed == written || is_hidden, "{section}.{key}: {written} in config.toml, {printed} in effect");
    }
    let count = |table: &toml::Table| table.values().map(|section| section.as_table().unwrap().len()).sum::<usize>();
    assert_eq!(count(&printed), count(&written), "config.toml lists every setting");
}

/// Words that have no place in any file. They stand here in pieces, so that this file holds none of them.
fn forbidden() -> BTreeMap<String, &'static str> {
    let hosts = [["crates", "io"], ["pypi", "org"], ["pythonhosted", "org"], ["npmjs", "org"], ["ghcr", "io"]];
    let hosts = hosts.iter().map(|host| (host.join("."), "the host of a registry"));
    let folders = ["work", "root", "home", "Users", "mnt", "builds"];
    let folders = folders.iter().map(|folder| (format!("/{folder}/"), "a path of one machine"));
    hosts.chain(folders).collect()
}

/// The place of a forbidden word in a line: a folder's path counts only where a path begins.
fn found(line: &str, word: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/}*~".contains(c));
    line.match_indices(word).any(|(at, _)| !word.starts_with('/') || begins(at))
}

#[test]
fn no_file_tells_of_registries_or_of_the_machine_it_was_written_on() {
    let forbidden = forbidden();
    let mut paths: Vec<String> = files("");
    paths.retain(|path| path != "Cargo.lock" && path != "fuzz/Cargo.lock");
    for entry in fs::read_dir(Path::new(ROOT).join(".ci")).into_iter().flatten() {
        let path: PathBuf = entry.unwrap().path();
        paths.push(path.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned());
    }
    let mut wrong = Vec::new();
    for path in &paths {
        let bytes = fs::read(Path::new(ROOT).join(path)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in (1..).zip(text.lines()) {
            for (word, why) in &forbidden {
                if found(line, word) {
                    wrong.push(format!("{path}:{number}: {word} is {why}"));
                }
            }
            let is_test = path.starts_with("tests/") || path == "src/test_support.rs";
            if !is_test && line.contains("../shared") {
                wrong.push(format!("{path}:{number}: the data beside the checkout is for tests alone"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(paths.len() > 100, "{} files", paths.len());
}

#[test]
fn a_path_of_a_machine_is_told_from_a_path_below_the_project() {
    let word = ["", "home", ""].join("/");
    for line in [format!("cd {word}me"), format!("\"{word}me\"")] {
        assert!(found(&line, &word), "{line}");
    }
    for line in [format!("src{word}page.rs"), format!("${{PREFIX}}{word}x"), "home/".to_owned()] {
        assert!(!found(&line, &word), "{line}");
    }
}
