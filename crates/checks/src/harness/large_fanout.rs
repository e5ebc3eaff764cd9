//! Thousands of destinations of the account, written straight into the tables while no node runs: by API a hundred
//! thousand would take minutes, and how they were made is not what these checks are about. Each has a secret of its own,
//! sealed as the node seals it, and a route for the events of type `fanout` that are published.

use anyhow::{Context, Result, ensure};
use client::Publish;
use domain::account::Account;
use domain::destination::Destination;
use domain::dice::Dice;
use domain::id::{AccountId, DestinationId, EventId, RouteId};
use domain::route::Route;
use domain::seal::MasterKeys;
use domain::time::Timestamp;
use rusqlite::params;
use std::time::Duration;

use super::testbed::{MASTER_KEY, PAUSES, retry_policy};
use super::{Database, Testbed};

/// The type of the events that all of them get.
pub(crate) const EVENT_TYPE: &str = "fanout";

/// Rows written by one statement.
const STEP: usize = 5_000;

/// Adds so many destinations to the account that the testbed's key acts for.
pub(crate) async fn add_destinations(testbed: &Testbed, size: usize) -> Result<()> {
    let row = testbed.database.rows("select doc, version from accounts order by id limit 1").await?;
    let row = row.first().context("the account is made at the first start")?;
    let account: Account = serde_json::from_str(row[0].text().context("a document")?)?;
    let version = row[1].number().context("a version")?;
    let keys = MasterKeys::parse(MASTER_KEY)?;
    let key = keys.data_key(account.id, &account.data_key)?;
    let now = account.created_at;
    let mut rows = Vec::with_capacity(size);
    for at in 0..size {
        let id = DestinationId::at(now, RandomDice.bits());
        let name = format!("c{at:06}");
        let url = testbed.receiver.url(&format!("/d/{name}"));
        let mut destination = Destination::new(id, account.id, &name, &url, now);
        destination.timeout = Duration::from_secs(3);
        destination.retry_policy = retry_policy(&PAUSES);
        let secret = domain::signature::SigningSecret::from_bytes(&rand::random::<[u8; 32]>())?;
        destination.secret.current =
            key.seal(&Destination::secret_place(id), secret.expose().as_bytes(), &RandomDice);
        let route = route_to(&destination, now);
        rows.push(DestinationRow {
            destination: id,
            destination_doc: serde_json::to_string(&destination)?,
            route: route.id,
            route_doc: serde_json::to_string(&route)?,
        });
    }
    for part in rows.chunks(STEP) {
        write(&testbed.database, account.id, now, version, part).await?;
    }
    let changes = 2 * size;
    testbed.database.write(&format!("update accounts set version = version + {changes}")).await
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
    database.count("expansions").await
}

struct DestinationRow {
    destination: DestinationId,
    destination_doc: String,
    route: RouteId,
    route_doc: String,
}

fn route_to(destination: &Destination, now: Timestamp) -> Route {
    Route {
        id: RouteId::at(now, RandomDice.bits()),
        account_id: destination.account_id,
        uid: None,
        name: None,
        enabled: true,
        source_id: None,
        destination_id: destination.id,
        event_types: vec![EVENT_TYPE.parse().expect("a word is a pattern")],
        filter: None,
        retry_policy: None,
        timeout_seconds: None,
        signing: None,
        created_at: now,
        updated_at: now,
        version: 0,
    }
}

async fn write(
    database: &Database,
    account: AccountId,
    now: Timestamp,
    version: i64,
    rows: &[DestinationRow],
) -> Result<()> {
    match database {
        Database::Sqlite { file } => {
            let mut connection = rusqlite::Connection::open(file)?;
            connection.pragma_update(None, "synchronous", "normal")?;
            let transaction = connection.transaction()?;
            for row in rows {
                let shard = row.destination.shard();
                transaction.prepare_cached(
                    "insert into destinations (id, account_id, version, created_at, shard, doc) values (?, ?, ?, ?, ?, ?)",
                )?
                .execute(params![row.destination.bytes(), account.bytes(), version + 1, now.micros(), shard, row.destination_doc])?;
                transaction.prepare_cached(
                    "insert into routes (id, account_id, version, created_at, destination_id, doc) values (?, ?, ?, ?, ?, ?)",
                )?
                .execute(params![row.route.bytes(), account.bytes(), version + 1, now.micros(), row.destination.bytes(), row.route_doc])?;
            }
            Ok(transaction.commit()?)
        }
        Database::Postgres { .. } => {
            let client = database.connect().await?;
            let destinations: Vec<_> = rows.iter().map(|row| row.destination.uuid()).collect();
            let shards: Vec<_> = rows.iter().map(|row| row.destination.shard() as i16).collect();
            let docs: Vec<_> = rows.iter().map(|row| row.destination_doc.as_str()).collect();
            let (routes, route_docs): (Vec<_>, Vec<_>) =
                rows.iter().map(|row| (row.route.uuid(), row.route_doc.as_str())).unzip();
            let (account, version, now) = (account.uuid(), version + 1, now.micros());
            client
                .execute(
                    "insert into destinations (id, account_id, version, created_at, shard, doc)
                     select d.id, $1, $2, $3, d.shard, d.doc
                     from unnest($4::uuid[], $5::smallint[], $6::text[]) as d (id, shard, doc)",
                    &[&account, &version, &now, &destinations, &shards, &docs],
                )
                .await?;
            client
                .execute(
                    "insert into routes (id, account_id, overrides, version, created_at, destination_id, doc)
                     select r.id, $1, false, $2, $3, r.destination_id, r.doc
                     from unnest($4::uuid[], $5::uuid[], $6::text[]) as r (id, destination_id, doc)",
                    &[&account, &version, &now, &routes, &destinations, &route_docs],
                )
                .await?;
            Ok(())
        }
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
