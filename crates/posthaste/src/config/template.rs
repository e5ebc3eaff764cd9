//! `config.default.toml` is the one list of all settings: their defaults and their help are read from its text.

use std::sync::LazyLock;

/// As `posthaste config template` prints it.
pub(crate) const TEXT: &str = include_str!("../../../../config.default.toml");

/// A setting as the template documents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    /// As in `node.lease`. The URL of the database is called `database` everywhere but in the file.
    pub(super) key: &'static str,
    /// As it stands in the template, in TOML; None where nothing is fixed.
    pub(super) default: Option<&'static str>,
    /// The comment above it, if it has one of its own.
    pub(super) help: &'static str,
    /// Never shown, and never a flag.
    pub(super) secret: bool,
}

pub(super) static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| read(TEXT));

pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// What the file calls `database.url` is simply the database.
pub(super) fn canonical(key: &str) -> &str {
    if key == "database.url" { "database" } else { key }
}

const SECRETS: [&str; 3] = ["master_keys", "bootstrap.api_key", "bootstrap.operator_key"];

/// `key = value` is a setting with a default, `#key = value` one without; `# text` above them is their help.
fn read(text: &'static str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut help: Option<(usize, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (from, line) = (at, line.trim_end());
        at += line.len() + 1;
        if let Some(comment) = line.strip_prefix("# ") {
            if comment.starts_with("---") {
                help = None;
            } else {
                help = Some((help.map_or(from, |(start, _)| start), from + line.len()));
            }
            continue;
        }
        let (line, fixed) = match line.strip_prefix('#') {
            Some(line) => (line, false),
            None => (line, true),
        };
        if let Some((key, value)) = line.split_once(" = ") {
            let key = canonical(key);
            settings.push(Setting {
                key,
                default: fixed.then_some(value),
                help: help.take().map_or("", |(start, end)| &text[start..end]),
                secret: SECRETS.contains(&key),
            });
        } else {
            help = None;
        }
    }
    settings
}

impl Setting {
    /// The comment in one line, without its hashes.
    pub(super) fn help_line(&self) -> String {
        let lines = self.help.lines().map(|line| line.trim_start_matches("# "));
        lines.collect::<Vec<_>>().join(" ")
    }

    /// `POSTHASTE_NODE_LEASE`.
    pub(super) fn variable(&self) -> String {
        format!("POSTHASTE_{}", self.key.to_uppercase().replace('.', "_"))
    }

    /// `node-lease`.
    pub(super) fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_valid_toml_with_and_without_its_comments() {
        let uncommented = TEXT.lines().map(|line| match line.strip_prefix('#') {
            Some(rest) if rest.contains(" = ") && !rest.starts_with(' ') => rest,
            _ => line,
        });
        for text in [TEXT.to_owned(), uncommented.collect::<Vec<_>>().join("\n")] {
            toml::from_str::<toml::Table>(&text).expect("the template is TOML");
        }
    }

    #[test]
    fn defaults_and_help_come_from_the_template() {
        let lease = setting("node.lease").unwrap();
        assert_eq!(lease.default, Some("\"10s\""));
        assert_eq!(lease.variable(), "POSTHASTE_NODE_LEASE");
        assert_eq!(lease.flag(), "node-lease");
        assert!(lease.help_line().starts_with("For how long a node owns its lanes"));
        assert_eq!(setting("database").unwrap().default, None);
        assert!(setting("master_keys").unwrap().secret);
    }

    #[test]
    fn the_documentation_has_the_template_word_for_word() {
        let page = include_str!("../../../../docs/configuration.md");
        assert!(page.contains(TEXT), "docs/configuration.md differs from config.default.toml");
    }

    #[test]
    fn every_name_stands_for_one_setting() {
        let mut names: Vec<String> = SETTINGS.iter().map(Setting::flag).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 25, "only {count} settings were read");
    }
}
