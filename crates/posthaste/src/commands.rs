//! One file per command.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod bootstrap;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod dev_receiver;
pub(crate) mod doctor;
pub(crate) mod health;
mod input;
pub(crate) mod keys;
pub(crate) mod listen;
pub(crate) mod migrate;
pub(crate) mod open;
mod own_folder;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod sign;
pub(crate) mod tail;
pub(crate) mod verify;
mod window_limit;

use crate::{
    config::{Dev, SettingFlags},
    failure::Failure,
    output,
};
use dev::DevKeys;

/// The server a client command speaks to: the one named, or the one that runs with the settings found here.
fn server(url: Option<String>) -> Result<String, Failure> {
    match url {
        Some(url) => Ok(url),
        None => Ok(format!("http://{}", SettingFlags::default().config(Dev::No)?.listen)),
    }
}

/// The key a client command speaks with: the one given, or the one that `serve --dev` made here.
fn api_key(given: Option<String>) -> Result<String, Failure> {
    if let Some(key) = given {
        return Ok(key);
    }
    let config = SettingFlags::default().config(Dev::No)?;
    let dev = DevKeys::read(&config.data_dir)?.map(|keys| keys.api_key);
    dev.ok_or_else(|| Failure::configuration("no API key: give one with --key or POSTHASTE_API_KEY"))
}

/// Prints a line of JSON, for `--json`.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    output::line(serde_json::to_string(value).map_err(Failure::failed)?);
    Ok(())
}
