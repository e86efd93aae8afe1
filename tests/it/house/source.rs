//! The files of the project as text, and Rust code without its comments and texts.

use std::fs;
use std::path::Path;

/// The folder of the project.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every file below a folder of the project, by its path from the root, sorted. Hidden files and what programs leave behind
/// are passed over.
pub fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries.map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap();
            let is_own = !name.starts_with('.') && !matches!(name, "target" | "artifacts" | "coverage" | "__pycache__");
            if entry.is_dir() && is_own {
                folders.push(entry);
            } else if is_own && !name.contains(".db") {
                found.push(entry.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

pub fn rust_files(folder: &str) -> Vec<String> {
    files(folder).into_iter().filter(|path| is_rust(path)).collect()
}

pub fn is_rust(path: &str) -> bool {
    has_extension(path, "rs")
}

/// Whether a file's name ends so, after its last dot.
pub fn has_extension(path: &str, wanted: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == wanted)
}

pub fn text(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The code of a Rust file with comments and the contents of texts blanked out; lines stay where they are.
pub fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = skip(rest);
        if skipped == 0 {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            code.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    code
}

/// How long the comment, text or character is that `rest` begins with; 0 where it begins with none of them.
fn skip(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    let raw = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r').map(|raw| (raw, raw.trim_start_matches('#')));
    if let Some((raw, quoted)) = raw.filter(|(_, quoted)| quoted.starts_with('"')) {
        let end = format!("\"{}", "#".repeat(raw.len() - quoted.len()));
        let opened = rest.len() - quoted.len() + 1;
        return opened + rest[opened..].find(&end).expect("a raw text ends") + end.len();
    }
    if rest.starts_with('"') {
        return quoted_length(rest, '"');
    }
    let mut chars = rest.chars();
    match (chars.next(), chars.next(), chars.next()) {
        // A lifetime has no quote after its first character.
        (Some('\''), Some(second), Some(third)) if second == '\\' || third == '\'' => quoted_length(rest, '\''),
        _ => 0,
    }
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (place, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return place + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    panic!("an open quote: {rest:.40}")
}

#[test]
fn comments_texts_and_characters_are_told_from_code() {
    let source = "a // b\n\"c \\\" d\" e 'f' '\\'' &'g h r#\"i \" j\"# k br\"l\" '\"' m";
    let expected: Vec<&str> = "a e &'g h k m".split(' ').collect();
    assert_eq!(code_of(source).split_whitespace().collect::<Vec<_>>(), expected);
}

/// Whether a name may begin at that place.
pub fn begins_word(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
}
