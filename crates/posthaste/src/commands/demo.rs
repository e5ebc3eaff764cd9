//! `posthaste demo`: a real server with four receivers that are built in, well and unwell, and a stream of events, so that
//! everything there is to see can be seen within seconds: deliveries, retries, a hold that counts down, dead letters.
//!
//! It has a data folder and settings of its own: no file, no variable and no folder of the person who tries it is read or
//! written. The folder is known by a mark in it; one without is left alone.

mod generator;
mod receivers;

use crate::{
    clock::SystemClock,
    commands::{
        own_folder::OwnFolder,
        serve::{self, Beside, Serving},
    },
    config::{Config, Dev, Layers},
    failure::Failure,
    output::{line, offer},
    telemetry,
};
use clap::{Args, ValueEnum};
use client::Client;
use domain::time::Clock as _;
use generator::EVENTS_A_SECOND;
use receivers::{DemoDestinations, OUTAGE_AFTER, OUTAGE_LASTS, Receivers};
use serde_json::json;
use std::{net::SocketAddr, path::PathBuf};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// What happens
    #[arg(long, value_enum, default_value_t)]
    scenario: Scenario,
    /// Remove the folder of the demo, and do nothing else
    #[arg(long)]
    clean: bool,
    /// The folder of the demo
    #[arg(long, value_name = "FOLDER", default_value = "posthaste-demo")]
    data_dir: PathBuf,
    /// Address to listen on: a loopback one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Scenario {
    /// Four receivers, each with its own trouble
    #[default]
    Usual,
    /// The healthy one goes down for 30 seconds; what it missed can be replayed
    Outage,
}

const FOLDER: OwnFolder = OwnFolder {
    command: "posthaste demo",
    mark: "demo.toml",
    says: "# The folder of `posthaste demo`. `posthaste demo --clean` removes it with everything in it.\n",
};

pub(crate) async fn run(args: DemoArgs, json: bool) -> Result<(), Failure> {
    if args.clean {
        return clean(&args, json);
    }
    FOLDER.claim(&args.data_dir)?;
    let config = config(&args)?;
    let log = telemetry::start_quietly(config.log_format).map_err(Failure::configuration)?;
    let begun = async |serving: Serving<'_>| begin(serving, args.scenario, json).await;
    serve::run_node(config, Dev::Yes, false, log, begun).await
}

fn clean(args: &DemoArgs, json: bool) -> Result<(), Failure> {
    let removed = FOLDER.remove(&args.data_dir)?;
    let folder = args.data_dir.display();
    if json {
        line(json!({ "data_dir": folder.to_string(), "removed": removed }));
    } else if removed {
        line(format_args!("{folder} is removed"));
    } else {
        line(format_args!("there is no {folder}"));
    }
    Ok(())
}

/// Settings of its own: what is about the person's installation must not come in here.
fn config(args: &DemoArgs) -> Result<Config, Failure> {
    let mut given = vec![
        ("listen", args.listen.to_string()),
        ("data_dir", args.data_dir.display().to_string()),
        ("shutdown.grace", "5s".into()),
        ("breaker.open", "5s".into()),
        ("breaker.max_open", "20s".into()),
    ];
    if args.scenario == Scenario::Outage {
        // With it deliveries would wait for the end of the outage, and none would be there to replay.
        given.push(("breaker.enabled", "false".into()));
    }
    Ok(Config::from_layers(&Layers::apart(Dev::Yes, &given))?.for_dev()?)
}

/// The server takes requests: everything else is done as anybody would do it, through the API.
async fn begin(serving: Serving<'_>, scenario: Scenario, json: bool) -> Result<Beside, Failure> {
    let key = serving.dev_key.clone().ok_or_else(|| Failure::configuration("the demo has no API key"))?;
    let client = Client::new(&format!("http://{}", serving.address), &key)?;
    let receivers = Receivers::start()?;
    let destinations = receivers.make_destinations(&client, scenario == Scenario::Outage).await?;
    let stop = CancellationToken::new();
    let greeting = Greeting {
        url: &serving.config.public_url,
        key: &key,
        destinations: &destinations,
        sign_in: serving.ways_in.dashboard.as_deref(),
    };
    serving.flush_log();
    if json {
        greeting.print_json(serving.config);
    } else {
        greeting.print(serving.config, scenario);
    }
    tokio::spawn(generator::run(client, stop.clone()));
    if scenario == Scenario::Outage {
        let (healthy, replay) = (receivers.healthy(), greeting.replay_line());
        tokio::spawn(outage(healthy, replay, json, stop.clone()));
    }
    Ok(Beside { stop, kept: Box::new(receivers) })
}

/// Takes the healthy receiver down for a while.
async fn outage(healthy: receivers::Switch, replay: String, json: bool, stop: CancellationToken) {
    let say = |what: &str, text: String| match json {
        true => offer(json!({ "at": SystemClock.now(), "outage": what })),
        false => offer(text),
    };
    let scenario = async {
        tokio::time::sleep(OUTAGE_AFTER).await;
        healthy.set_down(true);
        let seconds = OUTAGE_LASTS.as_secs();
        say(
            "begins",
            format!(
                "\nThe healthy receiver is down for {seconds} seconds: its deliveries become dead letters."
            ),
        );
        tokio::time::sleep(OUTAGE_LASTS).await;
        healthy.set_down(false);
        say("ends", format!("It is well again. Replay what it missed:\n{replay}"));
    };
    tokio::select! {
        () = scenario => {}
        () = stop.cancelled() => {}
    }
}

struct Greeting<'a> {
    url: &'a str,
    key: &'a str,
    destinations: &'a DemoDestinations,
    /// A link by which a browser is signed in, once.
    sign_in: Option<&'a str>,
}

impl Greeting<'_> {
    fn print_json(&self, config: &Config) {
        let named = |(name, id): (&str, _)| (name.to_owned(), json!(id));
        let destinations: serde_json::Map<_, _> = self.destinations.named().map(named).into_iter().collect();
        offer(json!({
            "url": self.url,
            "api_key": self.key,
            "dashboard": self.sign_in,
            "data_dir": config.data_dir,
            "destinations": destinations,
        }));
    }

    fn print(&self, config: &Config, scenario: Scenario) {
        let Self { url, key, .. } = self;
        let folder = config.data_dir.display();
        offer(format_args!("The demo of Posthaste is listening on {url}"));
        if let Some(link) = &self.sign_in {
            offer(format_args!("Look at it, signed in by this link, once: {link}"));
        }
        offer(format_args!("Its API key is {key}"));
        offer(format_args!("Its data is in {folder}; `posthaste demo --clean` removes it. Ctrl-C stops it."));
        offer(format_args!("\n{EVENTS_A_SECOND} events a second go to four receivers:"));
        for text in receivers::WHAT_THEY_DO {
            offer(format_args!("  {text}"));
        }
        offer("\nWhat to look at:");
        for (what, path) in [
            ("the four, what waits for them and why", "/v1/destinations"),
            ("retries that succeeded: attempt_count above 1", "/v1/deliveries?status=delivered"),
            ("dead letters, by reason", "/v1/dead-letters/groups"),
            ("the last minutes, to draw", "/v1/stats/series?by=minute"),
        ] {
            offer(format_args!("  {what}:\n    {}", self.curl(path)));
        }
        offer(format_args!("  everything as it happens:\n    posthaste tail --url {url} --key {key}"));
        if scenario == Scenario::Outage {
            let (after, lasts) = (OUTAGE_AFTER.as_secs(), OUTAGE_LASTS.as_secs());
            offer(format_args!("\nIn {after} seconds the healthy one goes down for {lasts} seconds."));
        }
        offer("\nPublish an event of your own:");
        offer(format_args!(
            "curl -sS {url}/v1/events -H 'authorization: Bearer {key}' -H 'content-type: application/json' \
             -d '{{\"type\":\"order.paid\",\"data\":{{\"order\":1}}}}'"
        ));
    }

    fn curl(&self, path: &str) -> String {
        format!("curl -sS '{}{path}' -H 'authorization: Bearer {}'", self.url, self.key)
    }

    fn replay_line(&self) -> String {
        let healthy = self.destinations.healthy;
        format!(
            "{} -H 'content-type: application/json' -d '{{\"filter\":{{\"destination_id\":[\"{healthy}\"]}}}}'",
            self.curl("/v1/replays")
        )
    }
}
