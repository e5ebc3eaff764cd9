//! The receiver of `serve --dev`: somewhere for the printed curl line to go.
//!
//! It answers 200 on a loopback port of its own and logs what it gets. The first start makes a destination for it, and a
//! route for that line's event type alone, through the API as anybody would. What was made is written down in
//! `<data_dir>/dev-receiver.toml`: it is not made again once somebody has removed it. Nothing here keeps a node from
//! starting.

use crate::failure::Failure;
use anyhow::Context;
use client::{Client, DestinationView, Error, NewDestination, NewRoute};
use domain::id::{AccountId, DestinationId};
use lab::{Receiver, Recording, Reply, Script, ScriptedRequest};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// What the curl line publishes.
pub(crate) const EVENT_TYPE: &str = "hello.world";
const UID: &str = "dev-receiver";
const FILE: &str = "dev-receiver.toml";

/// What was made, and in which account: another database begins anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Made {
    account_id: AccountId,
    destination_id: DestinationId,
    port: u16,
}

/// Starts it, and makes what leads there unless that was done before. It answers as long as this is kept.
pub(crate) async fn start(data_dir: &Path, api: SocketAddr, key: &str) -> Option<Receiver> {
    let started = started(data_dir, api, key).await;
    started.inspect_err(|error| tracing::warn!(%error, "there is no built-in receiver")).ok()
}

async fn started(data_dir: &Path, api: SocketAddr, key: &str) -> Result<Receiver, Failure> {
    let made = read(data_dir)?;
    let receiver = listen(made.as_ref().map_or(0, |made| made.port)).context("no port to listen on")?;
    let client = Client::new(&format!("http://{api}"), key)?;
    let account_id = client.own_account().await?.id;
    let (url, port) = (receiver.url("/"), receiver.addr().port());
    let destination_id = match made.filter(|made| made.account_id == account_id) {
        Some(made) if made.port == port => return Ok(receiver),
        // Somebody else has the port it had.
        Some(made) => {
            let patch = serde_json::json!({ "url": url });
            match client.update_destination(made.destination_id, &patch).await {
                Err(error) if is(&error, 404) => {} // removed
                moved => drop(moved?),
            }
            made.destination_id
        }
        None => make(&client, &url).await?,
    };
    write(data_dir, &Made { account_id, destination_id, port })?;
    Ok(receiver)
}

fn listen(port: u16) -> io::Result<Receiver> {
    let script = || {
        Script::custom(|seen| {
            log(seen);
            Reply::status(200)
        })
    };
    let on = |port| Receiver::start_with((Ipv4Addr::LOCALHOST, port).into(), script(), Recording::Counts);
    on(port).or_else(|_| on(0))
}

fn log(seen: &ScriptedRequest<'_>) {
    let header = |name: &str| seen.headers.get(name).and_then(|value| value.to_str().ok());
    tracing::info!(
        event_type = header("posthaste-event-type"),
        event_id = header("webhook-id"),
        delivery_id = header("posthaste-delivery"),
        bytes = seen.body.len(),
        "the built-in receiver got a delivery"
    );
}

/// Each step is done or found done: a start that was killed in the middle is gone on with.
async fn make(client: &Client, url: &str) -> Result<DestinationId, Error> {
    let new = NewDestination { uid: Some(UID.into()), ..NewDestination::new("Built-in receiver", url) };
    let destination = match client.create_destination(&new).await {
        Err(error) if is(&error, 409) => moved(client, url, error).await?,
        made => made?,
    };
    let event_types = vec![EVENT_TYPE.parse().expect("a word is a pattern")];
    let route = NewRoute { uid: Some(UID.into()), event_types, ..NewRoute::to(destination.id) };
    match client.create_route(&route).await {
        Err(error) if is(&error, 409) => {}
        made => drop(made?),
    }
    Ok(destination.id)
}

/// The destination that is there already, at this URL.
async fn moved(client: &Client, url: &str, error: Error) -> Result<DestinationView, Error> {
    let first = client.destinations(None).await?.data;
    let found = first.into_iter().find(|destination| destination.uid.as_deref() == Some(UID));
    client.update_destination(found.ok_or(error)?.id, &serde_json::json!({ "url": url })).await
}

fn is(error: &Error, status: u16) -> bool {
    error.problem().is_some_and(|problem| problem.status == status)
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// None also of what does not read: then it is looked for under its uid.
fn read(data_dir: &Path) -> Result<Option<Made>, Failure> {
    match fs::read_to_string(path(data_dir)) {
        Ok(text) => Ok(toml::from_str(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(anyhow::Error::new(error)
            .context(format!("{} cannot be read", path(data_dir).display()))
            .into()),
    }
}

fn write(data_dir: &Path, made: &Made) -> Result<(), Failure> {
    let text = format!(
        "# Made by `posthaste serve --dev`, which makes no other destination while this is here.\n{}",
        toml::to_string(made).map_err(Failure::failed)?
    );
    let (path, fresh) = (path(data_dir), data_dir.join(format!("{FILE}.new")));
    let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path));
    Ok(written.with_context(|| format!("{} cannot be written", path.display()))?)
}
