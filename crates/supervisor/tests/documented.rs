//! The table of loops in docs/operations.md is the one of the code.

use supervisor::{LoopEntry, Rule, TABLE};

#[test]
fn the_documented_table_is_the_one_that_is_followed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let text = std::fs::read_to_string(path).expect("the documentation is beside the code");
    let head = "| loop | when it dies | why |\n|---|---|---|\n";
    let (_, table) = text.split_once(head).expect("the table is there");
    let documented: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let followed: Vec<String> = TABLE.iter().map(line).collect();
    assert_eq!(documented, followed, "put into docs/operations.md:\n{}", followed.join("\n"));
}

fn line(entry: &LoopEntry) -> String {
    let then = match entry.rule {
        Rule::Restart => "is restarted",
        Rule::EndNode => "the node ends",
    };
    format!("| `{}` | {then} | {} |", entry.name, entry.why)
}
