//! The floors: imports point down only.

use std::collections::BTreeSet;

use super::source::{begins_word, code_of, rust_files, text};

/// The floor of each top-level module. `test_support` is for tests of all floors.
const FLOORS: [(&str, u8); 15] = [
    ("test_support", 0),
    ("domain", 0),
    ("clock", 1),
    ("entropy", 1),
    ("store", 1),
    ("ingest", 2),
    ("scorers", 2),
    ("notify", 2),
    ("worker", 3),
    ("http", 3),
    ("config", 4),
    ("app", 4),
    ("cli", 4),
    ("lifecycle", 4),
    ("telemetry", 4),
];

/// Who may read the configuration.
const READERS_OF_CONFIG: [&str; 3] = ["config", "app", "cli"];

/// The module that a file is, as the names from the crate's root.
fn module_of(path: &str) -> Vec<String> {
    let inner = path.strip_prefix("src/").unwrap().strip_suffix(".rs").unwrap();
    let mut names: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod")) || matches!(inner, "lib" | "main") {
        names.pop();
    }
    names
}

/// What a file imports from other top-level modules, as (line, module, what of it): every path that begins with `crate::`, or
/// with as many `super::` as lead to the crate's root.
fn imports(path: &str, code: &str) -> Vec<(usize, String, String)> {
    let module = module_of(path);
    let mut inner: Vec<usize> = Vec::new();
    let mut found = Vec::new();
    let mut offset = 0;
    for (number, line) in (1..).zip(code.split_inclusive('\n')) {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().collect();
        if inner.last() == Some(&indent) && words == ["}"] {
            inner.pop();
        }
        for (at, _) in line.match_indices("crate::").filter(|(at, _)| begins_word(line, *at)) {
            found.extend(heads(&code[offset + at + "crate::".len()..]).map(|(name, of)| (number, name, of)));
        }
        for (at, _) in line.match_indices("super::").filter(|(at, _)| begins_word(line, *at)) {
            if line[..at].ends_with("super::") {
                continue;
            }
            let rest = &code[offset + at..];
            let path = rest.trim_start_matches("super::");
            let ups = (rest.len() - path.len()) / "super::".len();
            if ups == module.len() + inner.len() {
                found.extend(heads(path).map(|(name, of)| (number, name, of)));
            }
        }
        if words.contains(&"mod") && words.last() == Some(&"{") {
            inner.push(indent);
        }
        offset += line.len();
    }
    found.retain(|(_, name, _)| module.first() != Some(name) && starts_module(name));
    found
}

/// Functions and macros at the crate's root would be no modules; there are none, so a lower-case name is a module.
fn starts_module(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The first names of what follows a path's beginning, each with the name below it; of a group every member's.
fn heads(path: &str) -> impl Iterator<Item = (String, String)> {
    let name = |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let head = |text: &str| {
        let first = name(text.trim());
        let below = text.trim()[first.len()..].strip_prefix("::").map(name).unwrap_or_default();
        (first, below)
    };
    let mut parts = Vec::new();
    match path.strip_prefix('{') {
        None => parts.push(head(path)),
        Some(group) => {
            let (mut depth, mut begun) = (0, 0);
            for (at, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth > 0 => depth -= 1,
                    ',' if depth == 0 => {
                        parts.push(head(&group[begun..at]));
                        begun = at + 1;
                    }
                    '}' => {
                        parts.push(head(&group[begun..at]));
                        break;
                    }
                    _ => {}
                }
            }
        }
    }
    parts.into_iter().filter(|(name, _)| !name.is_empty())
}

#[test]
fn imports_are_found_in_every_form() {
    let code = "use crate::store::{Store, sql::Sql};\nuse crate::{clock::Clock, ids};\nfn f() { crate::http::g(); }\n\
                use super::catalogue;\nuse super::super::worker;\nmod tests {\n    use super::super::super::cli::X;\n    \
                use super::super::verdicts;\n}\n";
    let found: Vec<(usize, String, String)> = imports("src/store/record.rs", code);
    let found: Vec<(usize, &str, &str)> = found.iter().map(|(n, a, b)| (*n, a.as_str(), b.as_str())).collect();
    let expected = [(2, "clock", "Clock"), (2, "ids", ""), (3, "http", "g"), (5, "worker", ""), (7, "cli", "X")];
    assert_eq!(found, expected);
}

/// What is wrong with one import, if anything.
fn complaint(importer: &str, module: &str, what: &str) -> Option<String> {
    let floor = |name: &str| FLOORS.iter().find(|(module, _)| *module == name).map(|(_, floor)| *floor);
    let (Some(own), Some(other)) = (floor(importer), floor(module)) else {
        return Some(format!("{importer} or {module} has no floor yet: add it to FLOORS and to docs/ARCHITECTURE.md"));
    };
    if other > own {
        return Some(format!("floor {own} may not import from floor {other}"));
    }
    if module == "config" && !READERS_OF_CONFIG.contains(&importer) {
        return Some("only app and cli read the configuration".to_owned());
    }
    match (importer, module) {
        ("worker", "http") => Some("the worker knows nothing of the API".to_owned()),
        ("http", "worker") if !what.starts_with(|c: char| c.is_ascii_uppercase()) => {
            Some("the API holds the worker it is handed, and nothing of its insides".to_owned())
        }
        _ => None,
    }
}

#[test]
fn imports_point_down_only() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for path in rust_files("src") {
        let own = module_of(&path).first().cloned();
        for (line, module, what) in imports(&path, &code_of(&text(&path))) {
            // The crate's root ties the floors together.
            let Some(own) = &own else { continue };
            seen.insert((own.clone(), module.clone()));
            wrong.extend(complaint(own, &module, &what).map(|why| format!("{path}:{line}: {module}::{what}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    for known in [("store", "domain"), ("worker", "store"), ("app", "config"), ("cli", "app")] {
        let known = (known.0.to_owned(), known.1.to_owned());
        assert!(seen.contains(&known), "{known:?} was not found: the search is broken");
    }
}

#[test]
fn wrong_imports_are_noticed() {
    for (importer, module, what) in [
        ("domain", "clock", "Clock"),
        ("store", "ingest", "writer"),
        ("scorers", "worker", "Worker"),
        ("worker", "http", "Api"),
        ("http", "worker", "pass"),
        ("http", "config", "Server"),
        ("telemetry", "config", "Log"),
        ("mail", "domain", "ids"),
    ] {
        assert!(complaint(importer, module, what).is_some(), "{importer} imports {module}::{what}");
    }
    assert_eq!(complaint("http", "worker", "Worker"), None);
    assert_eq!(complaint("domain", "domain", "ids"), None);
}
