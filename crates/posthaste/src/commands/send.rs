//! `posthaste send`: publishes one event through the public API and prints its id.

use crate::{
    cli::ServerArgs,
    commands::{api_key, input::file_or_input, print_json, server},
    failure::Failure,
    output,
};
use clap::Args;
use client::{AcceptedStatus, Client, Publish};

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
    let from = match data {
        "-" => "-",
        data => match data.strip_prefix('@') {
            Some(path) => path,
            None => return Ok(data.to_owned()),
        },
    };
    let text = String::from_utf8(file_or_input(from)?);
    text.map_err(|_| Failure::configuration("the payload is not UTF-8, and JSON is"))
}
