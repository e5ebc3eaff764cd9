//! What a page shows, as commands to copy: of curl, and of `posthaste` where it has one for it. The key is the reader's own, in
//! `POSTHASTE_KEY`.

use crate::visit::Visit;

const KEY: &str = "-H \"authorization: Bearer $POSTHASTE_KEY\"";

/// In single quotes, in which a shell takes everything as it is.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// In quotes where it needs them.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { quoted(text) }
}

/// Reads a path of the API, with its query.
pub(crate) fn curl(visit: &Visit, path: &str) -> String {
    format!("curl {} \\\n  {KEY}", quoted(&format!("{}{path}", visit.origin)))
}

/// Posts a document to a path of the API.
pub(crate) fn curl_post(visit: &Visit, path: &str, body: &str) -> String {
    format!(
        "curl {} \\\n  {KEY} \\\n  -H 'content-type: application/json' \\\n  -d {}",
        quoted(&format!("{}{path}", visit.origin)),
        quoted(body)
    )
}

fn posthaste(visit: &Visit, command: &str) -> String {
    format!("posthaste {command} --url {} --key \"$POSTHASTE_KEY\"", word(&visit.origin))
}

/// Follows what the page follows.
pub(crate) fn tail(visit: &Visit, filters: &[(&str, String)]) -> String {
    let filters: String = filters.iter().map(|(name, value)| format!(" --{name} {}", word(value))).collect();
    let all = posthaste(visit, "tail");
    if filters.is_empty() { all } else { format!("{all} \\\n {filters}") }
}

/// Publishes an event.
pub(crate) fn send(visit: &Visit, event_type: &str, data: &str) -> String {
    format!("{} \\\n  --type {} --data {}", posthaste(visit, "send"), word(event_type), quoted(data))
}

/// Asks whether the node is ready.
pub(crate) fn health(visit: &Visit) -> String {
    format!("posthaste health --url {}", word(&visit.origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_what_is_quoted_as_it_is() {
        assert_eq!(quoted("a'b$(c)"), r"'a'\''b$(c)'");
    }

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        let words = ["delivery.changed", "http://127.0.0.1:8080", "order.*", "a b", "", "$(x)"].map(word);
        assert_eq!(
            words,
            ["delivery.changed", "http://127.0.0.1:8080", "'order.*'", "'a b'", "''", "'$(x)'"]
        );
    }
}
