//! `posthaste config template | show | check`.

use crate::{
    commands::print_json,
    config::{Config, Dev, SettingFlags, TEMPLATE},
    failure::Failure,
};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print every setting with its default and its reason, ready to be a posthaste.toml.
    Template,
    /// Print every setting with its value and where it was set; secrets are not shown.
    Show(SettingFlags),
    /// Say whether the settings are in order, without starting anything.
    Check(SettingFlags),
}

pub(crate) fn run(args: ConfigArgs, json: bool) -> Result<(), Failure> {
    match args.what {
        What::Template => {
            print!("{TEMPLATE}");
            Ok(())
        }
        What::Show(flags) => show(&flags, json),
        What::Check(flags) => {
            let config = Config::from_layers(&flags.layers(Dev::No)?)?;
            let missing = config.master_keys.is_none();
            if json {
                return print_json(&serde_json::json!({ "ok": true, "master_key": !missing }));
            }
            println!("The settings are in order.");
            if missing {
                println!("There is no master key yet: `posthaste serve` needs one (posthaste keys master).");
            }
            Ok(())
        }
    }
}

fn show(flags: &SettingFlags, json: bool) -> Result<(), Failure> {
    let lines = flags.layers(Dev::No)?.show();
    if json {
        return print_json(&lines);
    }
    let width = lines.iter().map(|line| line.key.len()).max().unwrap_or(0);
    for line in &lines {
        println!("{:width$}  {}  ({})", line.key, line.value.as_deref().unwrap_or("-"), line.source);
    }
    Ok(())
}
