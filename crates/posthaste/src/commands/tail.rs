//! `posthaste tail`: prints what happens as it happens, and comes back after a cut without missing anything.

use crate::{
    cli::ServerArgs,
    commands::{api_key, server},
    failure::Failure,
    output,
};
use clap::Args;
use client::{Client, Error, StreamFilters, StreamedChange};
use serde_json::Value;
use std::time::Duration;

/// Between a cut and the next try, growing to the second.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Which events: event.received, delivery.changed, destination.changed; may be repeated, as all filters may
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// Of this destination
    #[arg(long, value_name = "dst_…")]
    destination: Vec<String>,
    /// Event type, or a pattern such as order.*
    #[arg(long = "type", value_name = "PATTERN")]
    event_type: Vec<String>,
    /// Status the delivery was left in, such as delivered or dead_letter
    #[arg(long, value_name = "STATUS")]
    status: Vec<String>,
    /// Outcome of the attempt, such as success or timeout
    #[arg(long, value_name = "OUTCOME")]
    outcome: Vec<String>,
    /// Go on behind the event with this id instead of from now
    #[arg(long, value_name = "ID")]
    last_event_id: Option<String>,
    /// End after so many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
    /// The account's API key [default: the one `serve --dev` made here]
    #[arg(long, env = "POSTHASTE_API_KEY", hide_env_values = true)]
    key: Option<String>,
}

pub(crate) async fn run(args: TailArgs, json: bool) -> Result<(), Failure> {
    let changes = StreamFilters(
        [
            ("kind", args.kind),
            ("destination_id", args.destination),
            ("type", args.event_type),
            ("status", args.status),
            ("outcome", args.outcome),
        ]
        .into_iter()
        .flat_map(|(name, values)| values.into_iter().map(move |value| (name, value)))
        .collect(),
    );
    let client = Client::new(&server(args.server.url)?, &api_key(args.key)?)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut last = args.last_event_id;
    // The first time a server that is not there is an error; later it is one that is being restarted.
    let mut live = client.follow(&changes, last.as_deref()).await?;
    let mut pause = PAUSE;
    loop {
        while let Ok(Some(change)) = live.next().await {
            say(&change, json);
            pause = PAUSE;
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
        last = live.last_id().map(str::to_owned).or(last);
        live = loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            match client.follow(&changes, last.as_deref()).await {
                Ok(live) => break live,
                Err(Error::NotReached { .. }) => {}
                // Full, or stopping: worth asking again.
                Err(Error::Refused { retry_after_seconds: Some(_), .. }) => {}
                Err(error) => return Err(error.into()),
            }
        };
    }
}

fn say(change: &StreamedChange, json: bool) {
    let line = if json {
        serde_json::to_string(change).unwrap_or_default()
    } else {
        line(&change.event, &change.data)
    };
    output::line(line);
}

fn line(event: &str, data: &Value) -> String {
    let text = |name: &str| data[name].as_str().unwrap_or("-").to_owned();
    match event {
        "event.received" => format!(
            "{}  received  {}  {} bytes  {} deliveries  {}",
            text("received_at"),
            text("type"),
            data["size_bytes"],
            data["fanout"]["total"],
            text("id"),
        ),
        "delivery.changed" => {
            let attempt = &data["attempt"];
            let at = attempt["started_at"].as_str().or(data["ended_at"].as_str()).unwrap_or("-");
            let status = data["last_http_status"].as_u64().map_or("-".into(), |status| status.to_string());
            let took = attempt["duration_ms"].as_u64().map_or("-".into(), |ms| format!("{ms} ms"));
            let why = data["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!(
                "{at}  {}{why}  {}  {}  attempt {}  {status}  {took}  {}",
                text("status"),
                text("event_type"),
                text("destination_id"),
                data["attempt_count"],
                text("id"),
            )
        }
        "destination.changed" => {
            let word = |name: &str| data["change"][name].as_str();
            let since = word("since").unwrap_or("-");
            let (at, what) = match (word("ended_at"), word("until")) {
                (Some(at), _) => (at, "ended".to_owned()),
                (None, Some(until)) => (since, format!("until {until}")),
                (None, None) => (since, "until further notice".to_owned()),
            };
            let (reason, detail) = (word("reason").unwrap_or("-"), word("detail").unwrap_or("-"));
            format!("{at}  {}  {}  {reason} {what}  {detail}", text("status"), text("id"))
        }
        _ => format!("{event}: {}", text("detail")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_a_line() {
        let event = json!({
            "id": "evt_1", "type": "order.paid", "received_at": "2026-04-03T14:30:00.000000Z", "size_bytes": 7,
            "fanout": { "total": 2 },
        });
        assert_eq!(
            line("event.received", &event),
            "2026-04-03T14:30:00.000000Z  received  order.paid  7 bytes  2 deliveries  evt_1"
        );
        let delivery = json!({
            "id": "dlv_1", "status": "dead_letter", "reason": "rejected", "event_type": "order.paid",
            "destination_id": "dst_1", "attempt_count": 2, "last_http_status": 404,
            "attempt": { "started_at": "2026-04-03T14:30:00.000000Z", "duration_ms": 12 },
        });
        assert_eq!(
            line("delivery.changed", &delivery),
            "2026-04-03T14:30:00.000000Z  dead_letter (rejected)  order.paid  dst_1  attempt 2  404  12 ms  dlv_1"
        );
        let hold = json!({
            "id": "dst_1", "status": "throttled", "change": {
                "reason": "throttle", "since": "2026-04-03T14:30:00.000000Z",
                "until": "2026-04-03T14:31:00.000000Z", "ended_at": null, "detail": "429 Too Many Requests",
            },
        });
        assert_eq!(
            line("destination.changed", &hold),
            "2026-04-03T14:30:00.000000Z  throttled  dst_1  throttle until 2026-04-03T14:31:00.000000Z  429 Too Many Requests"
        );
    }
}
