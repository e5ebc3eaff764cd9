//! What the documents for contributors name is there: files, folders and the pages they link to.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Endings by which a word without a folder is a file as well; it may be anywhere in the repository.
const FILES: [&str; 5] = [".rs", ".md", ".toml", ".sql", ".yml"];

#[test]
fn every_path_that_the_documents_name_exists() {
    let (top, all) = (names_in(&root()), all_files());
    let mut missing = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        let paths = in_backticks(&text).filter(|word| looks_like_a_path(word, &top));
        missing.extend(
            paths.filter(|path| !is_there(path, &all)).map(|path| (document.clone(), path.to_owned())),
        );
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// `store::planned`: the file or folder of a module, or the name of something in that crate.
#[test]
fn every_part_of_a_crate_that_the_documents_name_exists() {
    let crates = names_in(&root().join("crates"));
    let mut missing = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        for name in in_backticks(&text) {
            let mut parts = name.trim_end_matches("()").split("::").map(str::to_owned);
            let Some(of) = parts.next().filter(|first| crates.contains(first)) else { continue };
            let source = source_of(&of);
            missing.extend(
                parts.filter(|part| !has_word(&source, part)).map(|_| (document.clone(), name.to_owned())),
            );
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_page_that_the_documents_link_to_exists() {
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap_or(link);
            let folder = document.parent().expect("a document lies in a folder");
            assert!(folder.join(file).exists(), "{} links to {link}", document.display());
        }
    }
}

/// To look for examples takes seconds for each crate, so those that have none say so in their manifest.
#[test]
fn no_crate_that_leaves_examples_out_has_one() {
    for file in all_files().iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
        let text = fs::read_to_string(file).expect("a source");
        let lines = text.lines().map(str::trim_start);
        let fences = lines.filter_map(|line| line.strip_prefix("//! ```").or(line.strip_prefix("/// ```")));
        // Every other fence is the end of a block.
        let is_example = fences.step_by(2).any(|kind| !["text", "json", "sh"].contains(&kind));
        let manifest = file.ancestors().map(|folder| folder.join("Cargo.toml")).find(|file| file.exists());
        let manifest = fs::read_to_string(manifest.expect("a crate has a manifest")).expect("a manifest");
        let left_out = is_example && manifest.contains("doctest = false");
        assert!(!left_out, "the example in {} would not be run", file.display());
    }
}

#[test]
fn what_looks_like_a_path_is_told_from_what_does_not() {
    let top = vec!["crates".to_owned(), "docs".to_owned()];
    for path in
        ["crates/sim", "crates/sim/src/main.rs", "lane.rs", "docs/dev/checks.md", "engine/src/owner.rs"]
    {
        assert!(looks_like_a_path(path, &top), "{path}");
    }
    for other in ["/healthz", "target/postgres", "GET /v1/stream", "store::Queue", "429", "crates/{name}"] {
        assert!(!looks_like_a_path(other, &top), "{other}");
    }
}

/// The text of a crate, with the names of its files before it.
fn source_of(name: &str) -> String {
    let folder = root().join("crates").join(name).join("src");
    let mut text = String::new();
    for file in files_below(vec![folder]) {
        let module = file.file_stem().expect("a file has a name").to_string_lossy();
        text += &format!("mod {module};\n{}", fs::read_to_string(&file).unwrap_or_default());
    }
    text
}

fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents() -> Vec<PathBuf> {
    let pages = names_in(&root().join("docs/dev")).into_iter().map(|name| root().join("docs/dev").join(name));
    let mut all: Vec<PathBuf> = pages.collect();
    all.extend(["CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
    all
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// What stands between two backticks of a line; blocks of code are commands, and not looked at.
fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(str::lines).flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// With a folder: if that is one of the repository's or of a crate; what is built is not looked at. Without: if it ends
/// as a file does.
fn looks_like_a_path(word: &str, top: &[String]) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    if word.is_empty() || word.starts_with(['/', '.', '-']) || !word.chars().all(plain) {
        return false;
    }
    match word.split_once('/') {
        Some(("target", _)) => false,
        Some((first, rest)) => top.iter().any(|name| name == first) || rest.starts_with("src/"),
        None => FILES.iter().any(|ending| word.ends_with(ending)),
    }
}

fn is_there(path: &str, all: &[PathBuf]) -> bool {
    if path.contains('/') {
        return root().join(path).exists() || root().join("crates").join(path).exists();
    }
    root().join(path).exists() || all.iter().any(|file| file.file_name().is_some_and(|name| name == path))
}

/// Of the crates and the documents.
fn all_files() -> Vec<PathBuf> {
    files_below(vec![root().join("crates"), root().join("docs")])
}

fn files_below(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the repository").flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}
