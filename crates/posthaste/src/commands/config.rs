//! `posthaste config template | show | check`.

use crate::{
    commands::{bootstrap, print_json, serve::test_settings},
    config::{Config, Dev, SettingFlags, TEMPLATE},
    failure::Failure,
    output, telemetry,
};
use clap::{Args, Subcommand};
use domain::account::KeyKind;

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
            output::whole(TEMPLATE);
            Ok(())
        }
        What::Show(flags) => show(&flags, json),
        What::Check(flags) => check(&Config::from_layers(&flags.layers(Dev::No)?)?, json),
    }
}

/// Everything `serve` would refuse before it opens the store.
fn check(config: &Config, json: bool) -> Result<(), Failure> {
    telemetry::filter().map_err(Failure::configuration)?;
    test_settings::engine_settings()?;
    for (setting, kind, key) in [
        ("bootstrap.api_key", KeyKind::Account, &config.bootstrap_api_key),
        ("bootstrap.operator_key", KeyKind::Operator, &config.bootstrap_operator_key),
    ] {
        key.as_ref().map(|key| bootstrap::given_key(setting, kind, key.expose())).transpose()?;
    }
    let master = config.master_keys.as_ref().map(|keys| bootstrap::master_keys(keys.expose())).transpose()?;
    if json {
        return print_json(&serde_json::json!({ "ok": true, "master_key": master.is_some() }));
    }
    output::line("The settings are in order.");
    if master.is_none() {
        output::line("There is no master key yet: `posthaste serve` needs one (posthaste keys master).");
    }
    Ok(())
}

fn show(flags: &SettingFlags, json: bool) -> Result<(), Failure> {
    let lines = flags.layers(Dev::No)?.show();
    if json {
        return print_json(&lines);
    }
    let width = lines.iter().map(|line| line.key.len()).max().unwrap_or(0);
    for line in &lines {
        let value = line.value.as_deref().unwrap_or("-");
        output::line(format_args!("{:width$}  {value}  ({})", line.key, line.source));
    }
    Ok(())
}
