//! Statements and their callers agree on the names of parameters, also where no other test runs them. Read from the
//! sources, as they are written.

use crate::postgres::statement::numbered;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What a caller gives a statement with.
const RUNS: [&str; 4] = [".read(&", ".write(&", ".run(&", "client, &"];

#[test]
fn a_caller_gives_exactly_the_names_that_its_statement_has() {
    let statements = statements();
    let mut compared = BTreeSet::new();
    for (path, text) in sources() {
        for (at, run) in RUNS.iter().flat_map(|run| text.match_indices(run)) {
            let call = &text[at + run.len()..];
            let path_of = call.split([',', ')']).next().unwrap_or_default();
            let name = path_of.trim_end_matches(".call").rsplit("::").next().unwrap_or_default();
            let Some(wanted) = statements.get(name) else { continue };
            let given = call[path_of.len()..].trim_start_matches([',', ' ', '\n']);
            let given = match given.strip_prefix("params![") {
                Some(inline) => names(inline),
                // Where they are told before they are used.
                None if given.starts_with("params)") || given.starts_with("params.clone()") => {
                    let told = text[..at].rfind("params![").unwrap_or_else(|| panic!("{path:?}: {name}"));
                    let (told, then) = (&text[told + "params![".len()..], &text[told..at]);
                    let without = then.split_once(".without(&[").map_or("", |(_, without)| without);
                    let without: Vec<&str> =
                        without.split(']').next().unwrap_or_default().split('"').collect();
                    names(told).into_iter().filter(|name| !without.contains(&name.as_str())).collect()
                }
                // Made by a function for the statement and its definition alike.
                None => continue,
            };
            assert_eq!(given, *wanted, "{name} in {}", path.display());
            compared.insert(name.to_owned());
        }
    }
    assert!(compared.len() > 100, "only {} were found", compared.len());
}

#[test]
fn every_file_is_the_statement_of_its_name() {
    let sources: String = sources().into_iter().map(|(_, text)| text).collect();
    for file in fs::read_dir(folder().join("sql")).expect("a folder") {
        let name = file.expect("a file").file_name().into_string().expect("a plain name");
        let name = name.strip_suffix(".sql").expect("a statement").to_owned();
        assert!(sources.contains(&format!("\"{name}\"")), "{name} is nobody's");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres")
}

/// All but the tests.
fn sources() -> Vec<(PathBuf, String)> {
    let (mut folders, mut sources) = (vec![folder()], Vec::new());
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).expect("a folder") {
            let path = file.expect("a file").path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path).expect("a text");
                sources.push((path, text));
            }
        }
    }
    sources
}

/// The names of each statement's parameters, by the name of its static.
fn statements() -> BTreeMap<String, BTreeSet<String>> {
    let mut statements = BTreeMap::new();
    for (_, text) in sources() {
        for (at, _) in text.match_indices("static ") {
            let declared = &text[at + "static ".len()..];
            let declared = &declared[..declared.find(";\n").unwrap_or(declared.len())];
            let Some((name, of)) = declared.split_once(": LazyLock<") else { continue };
            if name.contains(|letter: char| !letter.is_ascii_uppercase() && letter != '_') {
                continue; // a lifetime
            }
            let sql = match of.split_once("sql!(").or_else(|| of.split_once("sql_file!(")) {
                Some((_, sql)) => text_of(sql),
                None => continue,
            };
            statements.insert(name.to_owned(), numbered(&sql).1.into_iter().collect());
        }
    }
    statements
}

/// `"file"`, `"file" + "file"`, `"file", "rest"` or `"name": "text"`: literals are every other piece, and what stands
/// between two says how they belong together.
fn text_of(sql: &str) -> String {
    let read = |name: &str| {
        fs::read_to_string(folder().join(format!("sql/{name}.sql"))).unwrap_or_else(|_| panic!("{name}"))
    };
    let pieces: Vec<&str> = sql.split('"').collect();
    match pieces[2].trim() {
        ":" => pieces[3].to_owned(),
        "," => read(pieces[1]) + pieces[3],
        _ => {
            let files = pieces[1..].chunks(2);
            let files = files.scan(true, |goes_on, file| {
                let this = goes_on.then(|| read(file[0]));
                *goes_on = file.get(1).is_some_and(|between| between.trim() == "+");
                this
            });
            files.collect()
        }
    }
}

/// The names in `name: value => TYPE, …]`.
fn names(params: &str) -> BTreeSet<String> {
    let (mut depth, mut piece, mut names) = (0, String::new(), BTreeSet::new());
    for letter in params.chars() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ']' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            // Of a type, and not of an arrow.
            '>' if !piece.ends_with('=') && !piece.ends_with('-') => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 {
            names.extend(piece.split_once(':').map(|(name, _)| name.trim().to_owned()));
            piece.clear();
        } else {
            piece.push(letter);
        }
    }
    names.extend(piece.split_once(':').map(|(name, _)| name.trim().to_owned()));
    names
}
