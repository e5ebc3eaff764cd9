//! One file per command.

pub(crate) mod backup;
pub(crate) mod bootstrap;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod listen;
pub(crate) mod migrate;
pub(crate) mod open;
pub(crate) mod send;
pub(crate) mod serve;

use crate::{config::SettingFlags, failure::Failure};

/// The server a client command speaks to: the one named, or the one that runs with the settings found here.
fn server(url: Option<String>) -> Result<String, Failure> {
    match url {
        Some(url) => Ok(url),
        None => Ok(format!("http://{}", SettingFlags::default().config(crate::config::Dev::No)?.listen)),
    }
}

/// Prints a line of JSON, for `--json`.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(value).map_err(Failure::failed)?);
    Ok(())
}
