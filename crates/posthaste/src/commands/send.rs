//! `posthaste send`: publishes one event through the public API and prints its id.

use crate::{
    cli::ServerArgs,
    commands::{api_key, print_json, server},
    config::MAX_BODY_BYTES,
    failure::Failure,
    output,
};
use anyhow::Context;
use clap::Args;
use client::{AcceptedStatus, Client, Publish};
use std::{fs::File, io::Read};

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The event's type, such as order.paid
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// The payload: JSON, @FILE to read it from a file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}")]
    data: String,
    /// Publishing again with the same key creates nothing new
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// The account's API key [default: the one `serve --dev` made here]
    #[arg(long, env = "POSTHASTE_API_KEY", hide_env_values = true)]
    key: Option<String>,
}

pub(crate) async fn run(args: SendArgs, json: bool) -> Result<(), Failure> {
    let url = server(args.server.url)?;
    let client = Client::new(&url, &api_key(args.key)?)?;
    let mut event = Publish::json(&args.event_type, payload(&args.data)?).map_err(Failure::configuration)?;
    event.idempotency_key = args.idempotency_key;
    let accepted = client.publish(&event).await?;
    if json {
        return print_json(&accepted);
    }
    output::line(accepted.id);
    match accepted.status {
        AcceptedStatus::Duplicate => output::note("published before: nothing new was created"),
        AcceptedStatus::Unmatched => output::note("stored; no route matched, so it goes nowhere"),
        AcceptedStatus::Queued => {}
    }
    Ok(())
}

fn payload(data: &str) -> Result<String, Failure> {
    if data == "-" {
        return read(std::io::stdin().lock(), "standard input");
    }
    match data.strip_prefix('@') {
        Some(path) => read(File::open(path).with_context(|| format!("{path} cannot be read"))?, path),
        None => Ok(data.to_owned()),
    }
}

/// All of it, but no more than any server takes.
fn read(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let most = MAX_BODY_BYTES as u64;
    from.take(most + 1).read_to_string(&mut text).with_context(|| format!("{name} cannot be read"))?;
    if text.len() as u64 > most {
        return Err(Failure::configuration(format!("{name} has more than {most} bytes")));
    }
    Ok(text)
}
