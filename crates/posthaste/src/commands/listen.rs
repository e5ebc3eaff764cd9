//! `posthaste listen`: a receiver for the other end, well-behaved or not. Prints a line for each request.

use super::window_limit::WindowLimit;
use crate::{clock::SystemClock, config::parse_duration, failure::Failure, output};
use anyhow::Context;
use clap::Args;
use domain::{
    signature::{self, SigningSecret},
    time::Clock,
};
use lab::{Receiver, Recording, Reply, Script, ScriptedRequest};
use serde_json::json;
use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

/// Longer bodies are cut when they are printed.
const SHOWN_BYTES: usize = 64 * 1024;
/// What the libraries of Standard Webhooks allow.
const TOLERANCE_SECONDS: u64 = 300;

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Port to listen on; 0 for any that is free
    #[arg(long, default_value_t = 9000)]
    port: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Answer with this status
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// Take so long to answer, as in 200ms or 3s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Answer with this Retry-After, and 429 unless --status says otherwise
    #[arg(long, value_name = "SECONDS")]
    retry_after: Option<u64>,
    /// Take so many requests in a window, and answer the rest with 429 and a Retry-After until it ends
    #[arg(long, value_name = "REQUESTS", conflicts_with = "retry_after", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// How long a window of --limit is: one second to one hour. The first request after one begins the next
    #[arg(long, value_name = "DURATION", requires = "limit", default_value = "60s", value_parser = window)]
    window: Duration,
    /// Never answer
    #[arg(long, conflicts_with_all = ["close", "status", "delay", "retry_after", "limit"])]
    hang: bool,
    /// Close the connection instead of answering
    #[arg(long, conflicts_with_all = ["status", "delay", "retry_after", "limit"])]
    close: bool,
    /// Check signatures with the destination's secret; a wrong one is answered with 401
    #[arg(long, value_name = "whsec_…", env = "POSTHASTE_LISTEN_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Print the payloads too
    #[arg(long)]
    body: bool,
}

pub(crate) async fn run(args: ListenArgs, json: bool) -> Result<(), Failure> {
    let secret = args.secret.as_deref().map(str::parse::<SigningSecret>).transpose();
    let secret = secret.map_err(|error| Failure::configuration(format!("--secret: {error}")))?;
    let (reply, says) = reply(&args);
    let body = args.body;
    let limit = args.limit.map(|limit| WindowLimit::new(limit, args.window));
    let script = Script::custom(move |seen| {
        let signed = secret.as_ref().map(|secret| check(secret, seen));
        let refused = matches!(signed, Some(Err(_)));
        // Whoever is not let in uses up nothing.
        let beyond = limit.as_ref().filter(|_| !refused).and_then(|limit| limit.refusal(Instant::now()));
        let (reply, says) = match beyond {
            _ if refused => (Reply::status(401), "401".into()),
            Some((reply, seconds)) => (reply, format!("429, again in {seconds} s")),
            None => (reply.clone(), says.clone()),
        };
        print(seen, signed, &says, body, json);
        reply
    });
    let address = (args.host, args.port).into();
    // Counts only: a receiver that runs for weeks must not remember every request.
    let receiver = Receiver::start_with(address, script, Recording::Counts)
        .with_context(|| format!("cannot listen on {address}; choose another with --port"))?;
    if json {
        say(&json!({ "listening": receiver.url("/") }).to_string());
    } else {
        say(&format!("listening on {}", receiver.url("/")));
    }
    tokio::signal::ctrl_c().await.context("no way to wait for Ctrl-C")?;
    Ok(())
}

/// Retry-After speaks in seconds.
fn window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text)?;
    if window < Duration::from_secs(1) { Err("expected at least 1s".into()) } else { Ok(window) }
}

/// What to answer, and the word for it.
fn reply(args: &ListenArgs) -> (Reply, String) {
    if args.hang {
        return (Reply::Hang, "no answer".into());
    }
    if args.close {
        return (Reply::Close, "closed".into());
    }
    let status = if args.retry_after.is_some() && args.status == 200 { 429 } else { args.status };
    let mut reply = Reply::status(status);
    if let Some(seconds) = args.retry_after {
        reply = reply.header("retry-after", &seconds.to_string());
    }
    (reply.after(args.delay.unwrap_or_default()), status.to_string())
}

fn check(secret: &SigningSecret, seen: &ScriptedRequest<'_>) -> Result<(), String> {
    let header =
        |name: &str| seen.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let [id, timestamp, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(header);
    let now = SystemClock.now().seconds();
    let verified = signature::verify([secret], id, timestamp, signature, seen.body, now, TOLERANCE_SECONDS);
    verified.map_err(|error| error.to_string())
}

fn print(seen: &ScriptedRequest<'_>, signed: Option<Result<(), String>>, says: &str, body: bool, json: bool) {
    let header = |name: &str| seen.headers.get(name).and_then(|value| value.to_str().ok());
    let text = String::from_utf8_lossy(&seen.body[..seen.body.len().min(SHOWN_BYTES)]);
    let at = SystemClock.now();
    if json {
        let mut line = json!({
            "at": at,
            "method": seen.method.as_str(),
            "path": seen.path,
            "event_type": header("posthaste-event-type"),
            "event_id": header("webhook-id"),
            "delivery_id": header("posthaste-delivery"),
            "attempt": seen.attempt,
            "bytes": seen.body.len(),
            "signature": signed.as_ref().map(|signed| if signed.is_ok() { "valid" } else { "invalid" }),
            "answer": says,
        });
        if body {
            line["body"] = text.into();
        }
        return say(&line.to_string());
    }
    let kind = header("posthaste-event-type").unwrap_or("-");
    let event = header("webhook-id").unwrap_or("-");
    let signed = match signed {
        None => String::new(),
        Some(Ok(())) => "  signature valid".into(),
        Some(Err(why)) => format!("  SIGNATURE INVALID: {why}"),
    };
    let (method, path, attempt, bytes) = (seen.method, seen.path, seen.attempt, seen.body.len());
    say(&format!(
        "{at}  {method} {path}  {kind}  {event}  attempt {attempt}  {bytes} bytes{signed}  -> {says}"
    ));
    if body {
        say(&text);
    }
}

/// A reader that has gone is no reason to stop answering.
fn say(line: &str) {
    output::offer(line);
}
