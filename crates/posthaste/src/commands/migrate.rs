//! `posthaste migrate`: the tables brought up to date, for set-ups that want it as a step of its own.

use crate::{
    commands::{open::open, print_json},
    config::{Dev, SettingFlags},
    failure::Failure,
    output,
};

pub(crate) async fn run(flags: SettingFlags, json: bool) -> Result<(), Failure> {
    let config = flags.config(Dev::No)?;
    open(&config).await?;
    if json {
        return print_json(&serde_json::json!({ "migrated": true }));
    }
    output::line("The database is up to date.");
    Ok(())
}
