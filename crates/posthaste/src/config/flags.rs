//! A flag for every setting, made from the template, so that the two cannot differ.

use super::template::{SETTINGS, Setting};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use std::path::PathBuf;

/// `--listen`, `--node-lease` and all the others, and the file to read before them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags {
    pub(crate) file: Option<PathBuf>,
    /// Key and text, in the order of the template.
    pub(crate) given: Vec<(&'static str, String)>,
}

const FILE: &str = "config";

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .help("Settings file [default: posthaste.toml, if it is there]")
            .help_heading("Settings")
            .value_parser(clap::value_parser!(PathBuf));
        command.arg(file).args(settings().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = settings().filter_map(|setting| {
            let text = matches.get_one::<String>(setting.key)?;
            Some((setting.key, text.clone()))
        });
        Ok(Self { file: matches.get_one::<PathBuf>(FILE).cloned(), given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| !setting.secret)
}

/// Also under the very name it has in the file.
fn flag(setting: &'static Setting) -> Arg {
    let default = setting
        .default
        .map_or_else(String::new, |default| format!(" [default: {}]", default.replace('"', "")));
    Arg::new(setting.key)
        .long(setting.flag())
        .alias(setting.key)
        .value_name("VALUE")
        .help(format!("{}{default}", setting.help_line().trim_end_matches('.')))
        .help_heading("Settings")
        .hide_short_help(!FREQUENT.contains(&setting.key))
}

/// Shown by `-h`; `--help` shows all.
const FREQUENT: [&str; 5] = ["listen", "data_dir", "database", "public_url", "role"];
