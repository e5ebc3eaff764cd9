//! What only PostgreSQL has to keep: its plans, its schema, its races and its troubles. The promises of every store are
//! in the conformance suite.

mod damage;
mod dead_letters;
mod erasure;
mod expand;
mod feed;
mod open;
mod plans;
mod pools;
mod quota;
mod races;
mod retention;
mod schema;
mod statements;
mod trouble;
mod wakes;

use super::{
    PostgresStore,
    statement::{Params, Statement},
};
use crate::{
    Catalog as _, Committed, Fact, IdempotencyKey, Ingest as _, Membership as _, NewDelivery, NewEvent,
    NodeRecord, OpenError, OpenOptions, PreparedEvent, Queue as _, Settlement, Window,
};
use domain::{
    account::Account,
    attempt::{Attempt, Detail},
    delivery::{Delivery, Ending, Position, Settled},
    destination::Destination,
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, NodeId, RouteId},
    limits,
    member::Role,
    outcome::Outcome,
    route::Route,
    seal::Sealed,
    testing,
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use tokio_postgres::{Client, NoTls, Row};

/// A schema of its own on the test server, with one node joined.
struct World {
    schema: String,
    store: PostgresStore,
    /// A second look at the same schema, past the store.
    client: Client,
    now: Timestamp,
    node: NodeId,
}

impl World {
    async fn new() -> Self {
        let schema = format!("t_{:x}", rand::random::<u128>());
        let store = open(&schema, "").await.expect("the store opens");
        let now = store.now().await.expect("the store tells the time");
        let (node, client) = (NodeId::at(now, rand::random()), connect(&schema).await);
        store.join(&record(node, "a"), limits::LEASE).await.expect("the node joins");
        Self { schema, store, client, now, node }
    }

    /// Must be the last thing a test does.
    async fn clean_up(self) {
        drop_schema(&self.schema).await;
    }

    /// An account with a destination and a route to it.
    async fn ground(&self) -> Ground {
        let id = AccountId::at(self.now, rand::random());
        let account = Account::new(id, "Acme", Sealed(vec![1]), self.now);
        let account =
            self.store.create_account(&account, &audit_entry()).await.expect("the account is created");
        let id = DestinationId::at(self.now, rand::random());
        let destination = Destination::new(id, account.id, "Billing", "https://billing.example", self.now);
        let destination = self
            .store
            .create_destination(&destination, &audit_entry())
            .await
            .expect("the destination is created");
        let route = Route::new(RouteId::at(self.now, rand::random()), account.id, id, self.now);
        let route = self.store.create_route(&route, &audit_entry()).await.expect("the route is created");
        Ground { account_id: account.id, version: route.version, destination, route }
    }

    async fn commit(&self, batch: &[NewEvent]) -> Vec<Committed> {
        self.store.commit(batch, self.now).await.expect("the batch is committed")
    }

    /// Past the store.
    async fn run(&self, sql: &str, params: Params<'_, '_>) -> Vec<Row> {
        let statement = Statement::new("test", sql);
        self.client.query_typed(&statement.text, &statement.values(&params)).await.expect("it runs")
    }

    async fn lane(&self, ground: &Ground) -> Vec<Delivery> {
        let id = ground.destination.id;
        let window = Window {
            shard: id.shard(),
            destination_id: id,
            from: Position::START,
            last_track: i64::MAX,
            limit: 10_000,
        };
        let mut lanes = self.store.fetch(&[window]).await.expect("the lane is read");
        lanes.remove(0).into_iter().map(|fetched| fetched.delivery).collect()
    }
}

struct Ground {
    account_id: AccountId,
    version: i64,
    destination: Destination,
    route: Route,
}

impl Ground {
    /// An event with one delivery that is due at once.
    fn event(&self, at: Timestamp, key: Option<u8>) -> NewEvent {
        let event = Event {
            event_type: "invoice.paid".parse().expect("an event type"),
            headers: vec![("x-trace".into(), "1".into())],
            ..testing::event(self.account_id, at, rand::random())
        };
        let id = DeliveryId::at(at, rand::random());
        let delivery = NewDelivery::unordered(id, self.route.id, self.destination.id, at);
        let scope = self.account_id.uuid();
        NewEvent {
            event: PreparedEvent::new(event),
            account_version: self.version,
            deliveries: vec![delivery],
            other_routes: Vec::new(),
            expands: false,
            key: key.map(|key| IdempotencyKey { scope, hash: [key; 32], body_hash: [0; 32] }),
        }
    }

    fn events(&self, at: Timestamp, count: usize) -> Vec<NewEvent> {
        (0..count).map(|_| self.event(at, None)).collect()
    }
}

fn record(id: NodeId, name: &str) -> NodeRecord {
    NodeRecord {
        id,
        label: name.into(),
        proof: name.into(),
        version: "1".into(),
        role: Role::All,
        address: None,
        master_keys: "k1".into(),
    }
}

/// The delivery was delivered at its next attempt.
fn delivered(delivery: &Delivery, node: NodeId) -> Settlement {
    let attempt = Attempt {
        id: AttemptId::at(delivery.created_at, rand::random()),
        delivery_id: delivery.id,
        number: delivery.attempts + 1,
        started_at: delivery.created_at,
        duration: Duration::from_millis(5),
        outcome: Outcome::Success,
        http_status: Some(200),
        detail: Detail::default(),
        node,
    };
    Settlement {
        delivery: delivery.clone(),
        shard: delivery.destination_id.shard(),
        fact: Fact::Attempted(Box::new(attempt)),
        settled: Settled::Ended(Ending::Delivered),
        consequence: None,
    }
}

/// Never skipped: what was not tried is not proven.
fn server() -> String {
    std::env::var("POSTHASTE_TEST_POSTGRES").expect(
        "these tests need PostgreSQL: run `scripts/postgres with cargo test`, which sets POSTHASTE_TEST_POSTGRES",
    )
}

/// `more` are further parameters, such as `&options=…`.
async fn open(schema: &str, more: &str) -> Result<PostgresStore, OpenError> {
    open_with(&format!("{}?schema={schema}{more}", server()), false).await
}

async fn open_with(url: &str, accept_data_loss: bool) -> Result<PostgresStore, OpenError> {
    PostgresStore::open(&OpenOptions { url: url.into(), pool: 2, listen_url: None, accept_data_loss }).await
}

async fn connect(schema: &str) -> Client {
    let mut config: tokio_postgres::Config = server().parse().expect("a URL");
    config.options(format!("-c search_path={schema}"));
    let (client, connection) = config.connect(NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

async fn drop_schema(schema: &str) {
    let drop = format!("set client_min_messages = warning; drop schema if exists {schema} cascade");
    connect(schema).await.batch_execute(&drop).await.expect("the schema is dropped");
}
