use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::harness::postgres_server::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the repository")
}

/// The cells of the lines of a document's tables, without the spaces and backticks around them.
fn rows(document: &str) -> Vec<Vec<String>> {
    let text = read(document);
    let lines = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    lines.map(|line| line.split(" | ").map(cell).collect()).collect()
}

#[test]
fn no_two_checks_answer_to_the_same_word() {
    let words = CHECKS.iter().flat_map(|check| [check.name].into_iter().chain(check.aliases.iter().copied()));
    let mut seen = BTreeSet::new();
    for word in words {
        assert!(seen.insert(word), "{word}");
        assert!(named(word).is_some());
    }
    assert!(named("list").is_none() && named("quick").is_none() && named("all").is_none());
}

#[test]
fn every_check_has_its_row_in_the_document() {
    let rows: BTreeMap<String, Vec<String>> =
        rows("docs/dev/checks.md").into_iter().map(|row| (row[0].clone(), row)).collect();
    for check in CHECKS {
        let row = rows.get(check.name);
        let alias = row.map(|row| row[1].as_str());
        assert_eq!(
            alias,
            Some(check.aliases.first().copied().unwrap_or("")),
            "{} in docs/dev/checks.md",
            check.name
        );
    }
}

#[test]
fn the_script_has_every_check_in_one_of_its_lists_and_knows_no_other() {
    let script = read("scripts/check");
    let quoted = script.lines().filter_map(|line| line.strip_prefix("    \"")?.strip_suffix('"'));
    let listed: BTreeSet<&str> = quoted.filter_map(|line| line.split(' ').next()).collect();
    let known: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(listed, known);
}

#[test]
fn the_document_of_promises_says_what_the_judge_says() {
    let rows = rows("docs/dev/promises.md");
    for promise in lab::promises::PROMISES {
        let number = format!("I{}", promise.number);
        let row = rows.iter().find(|row| row[0] == number).unwrap_or_else(|| panic!("{number} has no row"));
        assert_eq!((row[1].as_str(), row[2].as_str()), (promise.name, promise.sentence));
    }
}
