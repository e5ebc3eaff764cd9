//! Thousands of destinations of the account, written straight into the tables while no node runs: by API a hundred
//! thousand would take minutes, and how they were made is not what these checks are about. Each has a secret of its own,
//! sealed as the node seals it, and a route for events that are published: those of type `fanout`, with two routes more to every tenth,
//! which match too and may deliver nothing, or those of a type of its own.

use anyhow::{Context, Result, ensure};
use client::Publish;
use domain::account::Account;
use domain::destination::Destination;
use domain::dice::Dice;
use domain::id::{DestinationId, EventId, RouteId};
use domain::route::Route;
use domain::seal::MasterKeys;
use domain::time::Timestamp;
use serde::Serialize;
use std::time::Duration;

use super::testbed::{MASTER_KEY, PAUSES, retry_policy};
use super::{Database, StoreKind, Testbed};

/// The type of the events that all of them get.
pub(crate) const EVENT_TYPE: &str = "fanout";

/// Rows written by one statement.
const STEP: usize = 5_000;
/// Of so many destinations one has several routes.
const SHARED_EVERY: usize = 10;

/// Adds so many destinations to the account that the testbed's key acts for; all of them get the same events.
pub(crate) async fn add_destinations(testbed: &Testbed, size: usize) -> Result<()> {
    add_destinations_for(testbed, size, |at| (EVENT_TYPE.to_owned(), routes_to(at))).await
}

/// The same, each for the events of the type that is said of its place, by so many routes.
pub(crate) async fn add_destinations_for(
    testbed: &Testbed,
    size: usize,
    gets: impl Fn(usize) -> (String, usize),
) -> Result<()> {
    let row = testbed.database.rows("select doc, version from accounts order by id limit 1").await?;
    let row = row.first().context("the account is made at the first start")?;
    let account: Account = serde_json::from_str(row[0].text().context("a document")?)?;
    let version = row[1].number().context("a version")?;
    let keys = MasterKeys::parse(MASTER_KEY)?;
    let key = keys.data_key(account.id, &account.data_key)?;
    let (now, database) = (account.created_at, &testbed.database);
    let common = format!("{}, {}, {}", database.literal(account.id.bytes()), version + 1, now.micros());
    // Whether a route has settings of its own is a column of PostgreSQL's.
    let (overrides, none) = match database.kind() {
        StoreKind::Sqlite => ("", ""),
        StoreKind::Postgres => (", overrides", ", false"),
    };
    let (mut destinations, mut routes) = (Vec::with_capacity(size), Vec::with_capacity(size));
    for at in 0..size {
        let id = DestinationId::at(now, RandomDice.bits());
        let name = format!("c{at:06}");
        let url = testbed.receiver.url(&format!("/d/{name}"));
        let mut destination = Destination::new(id, account.id, &name, &url, now);
        destination.settings.timeout = Some(Duration::from_secs(3));
        destination.settings.retry_policy = retry_policy(&PAUSES);
        let secret = domain::signature::SigningSecret::from_bytes(&rand::random::<[u8; 32]>())?;
        destination.secret.current =
            key.seal(&Destination::secret_place(id), secret.expose().as_bytes(), &RandomDice);
        let own = database.literal(id.bytes());
        destinations.push(format!("({own}, {common}, {}, {})", id.shard(), quoted(&destination)?));
        let mut rows = Vec::new();
        let (event_type, ways) = gets(at);
        for _ in 0..ways {
            let route = route_to(&destination, &event_type, now);
            let of_route = database.literal(route.id.bytes());
            rows.push(format!("({of_route}, {common}, {own}, {}{none})", quoted(&route)?));
        }
        routes.push(rows.join(","));
    }
    for (destinations, routes) in destinations.chunks(STEP).zip(routes.chunks(STEP)) {
        let (destinations, routes) = (destinations.join(","), routes.join(","));
        let write = format!(
            "insert into destinations (id, account_id, version, created_at, shard, doc) values {destinations};
             insert into routes (id, account_id, version, created_at, destination_id, doc{overrides}) values {routes}"
        );
        database.write(&write).await?;
    }
    database.write(&format!("update accounts set version = version + {}", 2 * size)).await
}

/// How many routes lead to the destination at this place.
fn routes_to(at: usize) -> usize {
    if at.is_multiple_of(SHARED_EVERY) { 3 } else { 1 }
}

/// A document as a literal of SQL.
fn quoted(document: &impl Serialize) -> Result<String> {
    Ok(format!("'{}'", serde_json::to_string(document)?.replace('\'', "''")))
}

/// Publishes one event for all of them, which is answered before its deliveries are made.
pub(crate) async fn publish(testbed: &Testbed) -> Result<EventId> {
    let event = Publish::json(EVENT_TYPE, "{\"n\":1}".to_owned())?;
    let accepted = testbed.client.publish(&event).await.context("an event for all")?;
    ensure!(accepted.deliveries.is_none() && accepted.expanding, "it was answered {accepted:?}");
    Ok(accepted.id)
}

/// Deliveries that were made for an event, and the destinations they go to: waiting and begun ones.
pub(crate) async fn deliveries_made(database: &Database, event: EventId) -> Result<(u64, u64)> {
    let id = database.literal(event.bytes());
    let rows = database
        .rows(&format!(
            "select count(*), count(distinct destination_id) from (
                 select delivery_id, destination_id from queue where event_id = {id}
                 union select delivery_id, destination_id from attempts where event_id = {id}
             ) known"
        ))
        .await?;
    let number = |at: usize| rows.first().and_then(|row| row[at].number()).unwrap_or_default() as u64;
    Ok((number(0), number(1)))
}

/// How many expansions are under way.
pub(crate) async fn expansions(database: &Database) -> Result<u64> {
    database.count("expanding_events").await
}

fn route_to(destination: &Destination, event_type: &str, now: Timestamp) -> Route {
    Route {
        id: RouteId::at(now, RandomDice.bits()),
        account_id: destination.account_id,
        uid: None,
        name: None,
        enabled: true,
        source_id: None,
        destination_id: destination.id,
        event_types: vec![event_type.parse().expect("a type is a pattern")],
        filter: None,
        retry_policy: Default::default(),
        timeout_seconds: None,
        signing: None,
        created_at: now,
        updated_at: now,
        version: 0,
    }
}

struct RandomDice;

impl Dice for RandomDice {
    fn bits(&self) -> u128 {
        rand::random()
    }
    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}
