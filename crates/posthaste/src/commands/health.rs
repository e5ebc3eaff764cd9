//! `posthaste health`: for a container's health check and for scripts that wait.

use crate::{
    cli::ServerArgs,
    commands::{print_json, server},
    failure::{Code, Failure},
    output,
};
use clap::Args;
use client::Client;

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: HealthArgs, json: bool) -> Result<(), Failure> {
    let url = server(args.server.url)?;
    let readiness = Client::without_key(&url)?.readiness().await?;
    if json {
        print_json(&serde_json::json!({ "ready": readiness.ready, "detail": readiness.detail }))?;
    } else if readiness.ready {
        output::line(format_args!("{url} is ready"));
    }
    if readiness.ready {
        Ok(())
    } else {
        Err(Failure::new(
            Code::Failed,
            format!("{url} is not ready ({}): {}", readiness.http_status, readiness.detail),
        ))
    }
}
