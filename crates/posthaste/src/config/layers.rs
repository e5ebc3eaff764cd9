//! The layers of settings: defaults < file < environment < flags, every value with where it was set.

use super::{
    ConfigError, Dev,
    template::{self, SETTINGS, Setting},
    values::Read,
};
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};
use toml::Value;

/// Read from the working directory when no other file is named.
const FILE: &str = "posthaste.toml";

/// Every value as text, with its source; what was never set is not there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    said: BTreeMap<&'static str, Said>,
}

#[derive(Debug, Clone)]
struct Said {
    text: String,
    by: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Default,
    Dev,
    File(PathBuf),
    Variable(String),
    /// The file that a variable names.
    FileOfVariable(String, PathBuf),
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Dev => f.write_str("--dev"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) | Self::FileOfVariable(name, _) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// One line of `config show`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    /// None: not set, and without a fixed default.
    pub(crate) value: Option<String>,
    pub(crate) source: String,
}

/// What to stack on the defaults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sayings<'a> {
    pub(crate) dev: Dev,
    /// A file named by the caller must be there; the usual one may be missing.
    pub(crate) file: Option<&'a Path>,
    pub(crate) flags: &'a [(&'static str, String)],
}

impl Layers {
    /// Stacks the layers. `variable` is the environment.
    pub(crate) fn stack(
        said: Sayings<'_>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Self::defaults(said.dev);
        layers.file(said.file, &variable)?;
        layers.environment(&variable)?;
        layers.flags(said.flags);
        Ok(layers)
    }

    /// The defaults and these, whatever file and environment say.
    pub(crate) fn apart(dev: Dev, given: &[(&'static str, String)]) -> Self {
        let mut layers = Self::defaults(dev);
        layers.flags(given);
        layers
    }

    fn defaults(dev: Dev) -> Self {
        let mut layers = Self::default();
        for setting in SETTINGS.iter() {
            if let Some(default) = setting.default {
                let document: toml::Table =
                    toml::from_str(&format!("value = {default}")).expect("the template is TOML");
                layers.put(
                    setting.key,
                    plain(&document["value"]).expect("defaults are plain"),
                    Source::Default,
                );
            }
        }
        if dev == Dev::Yes {
            layers.put("egress.allow_http", "true".into(), Source::Dev);
        }
        layers
    }

    fn flags(&mut self, given: &[(&'static str, String)]) {
        for (key, text) in given {
            let setting = template::setting(key).expect("flags are made from the settings");
            self.put(setting.key, text.clone(), Source::Flag(setting.flag()));
        }
    }

    fn file(
        &mut self,
        named: Option<&Path>,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Result<(), ConfigError> {
        let by_variable = || variable("POSTHASTE_CONFIG").map(PathBuf::from);
        let named = named.map(Path::to_owned).or_else(by_variable);
        let path = named.clone().unwrap_or_else(|| FILE.into());
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => return Ok(()),
            Err(error) => return Err(ConfigError(format!("cannot read {}: {error}", path.display()))),
        };
        let table: toml::Table = toml::from_str(&text)
            .map_err(|error| ConfigError(format!("{} is not TOML: {error}", path.display())))?;
        let mut found = Vec::new();
        flatten("", &table, &mut found);
        for (key, value) in found {
            let setting = template::setting(template::canonical(&key)).ok_or_else(|| unknown(&key, &path))?;
            let text = plain(value).ok_or_else(|| {
                ConfigError(format!(
                    "{} in {}: expected a plain value or a list of them",
                    key,
                    path.display()
                ))
            })?;
            self.put(setting.key, text, Source::File(path.clone()));
        }
        Ok(())
    }

    fn environment(&mut self, variable: &impl Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
        for setting in SETTINGS.iter() {
            for name in variables(setting) {
                if let Some((text, source)) = from_environment(&name, variable)? {
                    self.put(setting.key, text, source);
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &'static str, text: String, by: Source) {
        self.said.insert(key, Said { text, by });
    }

    /// A setting with a default, as text.
    pub(super) fn text(&self, key: &str) -> &str {
        &self.said.get(key).unwrap_or_else(|| panic!("{key} has no default in config.default.toml")).text
    }

    pub(super) fn read<T>(&self, key: &str, read: impl FnOnce(&str) -> Read<T>) -> Result<T, ConfigError> {
        let text = self.text(key);
        read(text).map_err(|wrong| self.wrong(key, text, &wrong))
    }

    pub(super) fn maybe<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Read<T>,
    ) -> Result<Option<T>, ConfigError> {
        debug_assert!(template::setting(key).is_some_and(|setting| setting.default.is_none()), "{key}");
        let said = self.said.get(key).filter(|said| !said.text.trim().is_empty());
        said.map(|said| read(&said.text).map_err(|wrong| self.wrong(key, &said.text, &wrong))).transpose()
    }

    fn wrong(&self, key: &str, text: &str, wrong: &str) -> ConfigError {
        let by = self.said.get(key).map_or_else(String::new, |said| format!(" (from {})", said.by));
        let text = if shows(key) { format!(" = {text:?}") } else { String::new() };
        ConfigError(format!("{key}{text}{by}: {wrong}"))
    }

    /// Files in which secrets stand.
    pub(super) fn secret_files(&self) -> Vec<PathBuf> {
        let file = |setting: &Setting| match &self.said.get(setting.key)?.by {
            Source::File(path) | Source::FileOfVariable(_, path) => Some(path.clone()),
            _ => None,
        };
        let mut files: Vec<_> = SETTINGS.iter().filter(|setting| setting.secret).filter_map(file).collect();
        files.dedup();
        files
    }

    /// Whether a password stands in the arguments of this process.
    pub(super) fn password_in_arguments(&self) -> bool {
        URLS_WITH_PASSWORDS.iter().filter_map(|key| self.said.get(key)).any(|said| {
            let url = url::Url::parse(&said.text).ok();
            let by_name = |url: &url::Url| url.query_pairs().any(|(name, _)| name == "password");
            matches!(said.by, Source::Flag(_))
                && url.is_some_and(|url| url.password().is_some() || by_name(&url))
        })
    }

    /// Every setting with its value and its source, secrets redacted.
    pub(crate) fn show(&self) -> Vec<Shown> {
        let shown = |setting: &Setting| {
            let said = self.said.get(setting.key);
            Shown {
                key: setting.key,
                value: said.map(|said| redacted(setting, &said.text)),
                source: said.map_or_else(|| "not set".into(), |said| said.by.to_string()),
            }
        };
        SETTINGS.iter().map(shown).collect()
    }
}

/// The value of a variable or of the file that its `_FILE` twin names, with the name it was found by.
fn from_environment(
    name: &str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<(String, Source)>, ConfigError> {
    let file = format!("{name}_FILE");
    match (variable(name), variable(&file).filter(|path| !path.is_empty())) {
        (Some(_), Some(_)) => Err(ConfigError(format!("{name} and {file} are both set: leave one out"))),
        (Some(text), None) => Ok(Some((text, Source::Variable(name.into())))),
        (None, Some(path)) => {
            let text = fs::read_to_string(&path)
                .map_err(|error| ConfigError(format!("{file}: cannot read {path}: {error}")))?;
            Ok(Some((text.trim_end().to_owned(), Source::FileOfVariable(file, path.into()))))
        }
        (None, None) => Ok(None),
    }
}

/// The later the stronger.
pub(super) fn variables(setting: &Setting) -> Vec<String> {
    match setting.key {
        "database" => vec!["DATABASE_URL".into(), "POSTHASTE_DATABASE_URL".into(), setting.variable()],
        "master_keys" => vec!["POSTHASTE_MASTER_KEY".into(), setting.variable()],
        _ => vec![setting.variable()],
    }
}

/// URLs that may hold a password.
const URLS_WITH_PASSWORDS: [&str; 3] = ["database", "database.listen_url", "egress.proxy"];

fn shows(key: &str) -> bool {
    template::setting(key)
        .is_none_or(|setting| !setting.secret && !URLS_WITH_PASSWORDS.contains(&setting.key))
}

fn redacted(setting: &Setting, text: &str) -> String {
    if setting.secret {
        return "***".into();
    }
    if !URLS_WITH_PASSWORDS.contains(&setting.key) {
        return text.to_owned();
    }
    match url::Url::parse(text) {
        Ok(mut url) if url.has_authority() => {
            // A proxy may be given a token in the place of a user.
            if setting.key == "egress.proxy" && !url.username().is_empty() {
                let _ = (url.set_username("***"), url.set_password(None));
            } else if url.password().is_some() {
                let _ = url.set_password(Some("***"));
            }
            url.into()
        }
        // No URL, but perhaps most of one.
        _ if text.contains('@') => "***".into(),
        _ => text.to_owned(),
    }
}

fn flatten<'a>(prefix: &str, table: &'a toml::Table, found: &mut Vec<(String, &'a Value)>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) => flatten(&key, inner, found),
            value => found.push((key, value)),
        }
    }
}

/// A value as the environment would say it; lists with commas.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        // Not left out, which an empty text means.
        Value::Array(parts) if parts.is_empty() => Some(super::values::NO_PARTS.into()),
        Value::Array(parts) => {
            parts.iter().map(plain).collect::<Option<Vec<_>>>().map(|parts| parts.join(","))
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}

fn unknown(key: &str, path: &Path) -> ConfigError {
    let nearest =
        SETTINGS.iter().min_by_key(|setting| distance(key, setting.key)).expect("there are settings");
    ConfigError(format!(
        "{}: there is no setting {key:?}; the nearest is {:?} (posthaste config template lists all)",
        path.display(),
        nearest.key
    ))
}

/// Levenshtein's: how many letters to insert, drop or change.
pub(super) fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}
