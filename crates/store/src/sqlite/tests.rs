//! What is SQLite's own: the lock, the settings, the schema, the plans. The promises of a store are tested with all
//! stores, in `tests/conformance`; the writer's, beside it.

mod backup;
mod damage;
mod dead_letters;
mod disk;
mod erasure;
mod expand;
mod file_lock;
mod idempotency;
mod order;
mod pace;
mod plans;
mod quota;
mod readers;
mod retention;
mod tally;
mod writer;

use super::{SqliteReadOnly, SqliteStore};
use crate::{
    Catalog as _, Committed, FoundTables, Ingest as _, NewDelivery, NewEvent, OpenError, OpenOptions,
    PreparedEvent, Queue as _, ReadOnlyStore as _, Window,
};
use domain::{
    account::Account,
    delivery::{Delivery, Position},
    destination::Destination,
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, RouteId, SHARDS},
    seal::Sealed,
    testing,
    testing::audit_entry,
    time::Timestamp,
};
use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

fn all_shards() -> Vec<u16> {
    Vec::from_iter(0..SHARDS)
}

/// A store in a folder of its own, which goes with it.
pub(super) struct Fixture {
    pub(super) store: SqliteStore,
    pub(super) folder: TempDir,
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = open(&folder.path().join("posthaste.db"), false).await.expect("a new store");
        Self { store, folder }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("posthaste.db")
    }

    /// Another connection to the same file: what somebody else sees.
    pub(super) fn outsider(&self) -> Connection {
        Connection::open(self.path()).expect("the file is there")
    }

    async fn account(&self) -> Account {
        let id = AccountId::at(NOW, rand::random());
        let account = Account::new(id, "Acme", Sealed(vec![1]), NOW);
        self.store.create_account(&account, &audit_entry()).await.expect("an account")
    }

    async fn destination(&self, account: &Account) -> Destination {
        let id = DestinationId::at(NOW, rand::random());
        let destination = Destination::new(id, account.id, "Billing", "https://billing.example", NOW);
        self.store.create_destination(&destination, &audit_entry()).await.expect("a destination")
    }

    /// An event with so many deliveries to one destination.
    async fn event(&self, destination: &Destination, deliveries: usize) -> NewEvent {
        let account = self.store.account(destination.account_id).await.expect("the account");
        let event = Event {
            event_type: "invoice.paid".parse().expect("an event type"),
            ..testing::event(account.id, NOW, rand::random())
        };
        let promise = |_| {
            let id = DeliveryId::at(NOW, rand::random());
            NewDelivery::unordered(id, RouteId::at(NOW, rand::random()), destination.id, NOW)
        };
        NewEvent {
            event: PreparedEvent::new(event),
            account_version: account.version,
            deliveries: (0..deliveries).map(promise).collect(),
            other_routes: Vec::new(),
            expands: false,
            key: None,
        }
    }

    /// The deliveries of such an event, in the order of their lane.
    async fn commit(&self, destination: &Destination, deliveries: usize) -> Vec<Delivery> {
        let new = self.event(destination, deliveries).await;
        let committed = self.store.commit(&[new], NOW).await.expect("a commit");
        assert_eq!(committed, [Committed::New]);
        self.lane(destination).await
    }

    async fn lane(&self, destination: &Destination) -> Vec<Delivery> {
        let mut lanes = self.store.fetch(&[window(destination, 1000)]).await.expect("a lane");
        lanes.remove(0).into_iter().map(|fetched| fetched.delivery).collect()
    }
}

const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn window(destination: &Destination, limit: usize) -> Window {
    let id = destination.id;
    Window { shard: id.shard(), destination_id: id, from: Position::START, last_track: i64::MAX, limit }
}

pub(super) async fn open(path: &Path, accept_data_loss: bool) -> Result<SqliteStore, OpenError> {
    let url = format!("sqlite:{}", path.display());
    SqliteStore::open(path, &OpenOptions { url, pool: 2, listen_url: None, accept_data_loss }).await
}

#[tokio::test]
async fn a_second_opener_is_refused_and_told_the_folder_and_who_has_it() {
    let first = Fixture::new().await;
    let refused = open(&first.path(), false).await.err();
    let Some(OpenError::InUse(message)) = refused else { panic!("not refused: {refused:?}") };
    assert!(message.contains(&first.folder.path().display().to_string()), "{message}");
    assert!(message.contains(&format!("in use by process {}: stop it", std::process::id())), "{message}");
}

#[tokio::test]
async fn a_closed_store_can_be_opened_again_at_once() {
    let Fixture { store, folder } = Fixture::new().await;
    drop(store);
    open(&folder.path().join("posthaste.db"), false).await.expect("the lock is free");
}

#[tokio::test]
async fn folders_are_made_where_they_are_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    open(&folder.path().join("a/b/posthaste.db"), false).await.expect("folders are made");
}

#[tokio::test]
async fn less_durability_must_be_meant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("posthaste.db?synchronous=normal");
    let refused = open(&path, false).await.err();
    assert!(matches!(&refused, Some(OpenError::Unsafe(why)) if why.contains("synchronous")), "{refused:?}");
    open(&path, true).await.expect("it was meant");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_called_damaged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("posthaste.db");
    std::fs::write(&path, [b'x'; 8192]).expect("a file");
    assert!(matches!(open(&path, false).await.err(), Some(OpenError::Damaged(_))));
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let fixture = Fixture::new().await;
    let path = fixture.path();
    fixture
        .outsider()
        .execute("insert into posthaste_migrations (version, name) values (99, 'next')", [])
        .expect("the history of the schema");
    let Fixture { store, folder: _kept } = fixture;
    drop(store);
    assert!(matches!(open(&path, false).await.err(), Some(OpenError::TooOld(_))));
}

#[tokio::test]
async fn the_tables_of_a_development_version_are_refused_and_left_alone() {
    let refused = async |tables: &str| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("posthaste.db");
        let outsider = Connection::open(&path).expect("a file");
        outsider.execute_batch(tables).expect("older tables");
        let Some(OpenError::Unreleased(why)) = open(&path, false).await.err() else {
            panic!("not refused: {tables}")
        };
        assert!(why.contains(&path.display().to_string()), "{why}");
        assert!(why.contains("development version") && why.ends_with("start with an empty folder"), "{why}");
        let store = SqliteReadOnly::open(&path).expect("a store");
        assert_eq!(store.schema().await.expect("tables").found, FoundTables::Unreleased);
        assert!(!outsider.table_exists(None, "posthaste_migrations").expect("a catalogue"), "left alone");
    };
    refused("create table refinery_schema_history (version integer primary key, name text); create table events (id)")
        .await;
    refused("create table events (id blob)").await;
}

#[tokio::test]
async fn the_newest_time_in_the_store_is_that_of_its_last_event_or_attempt() {
    let fixture = Fixture::new().await;
    let reader = SqliteReadOnly::open(&fixture.path()).expect("a store");
    assert_eq!(reader.newest_at().await.expect("an answer"), None);
    let destination = fixture.destination(&fixture.account().await).await;
    let delivery = fixture.commit(&destination, 1).await.remove(0);
    assert_eq!(reader.newest_at().await.expect("an answer"), Some(NOW));
    let later = NOW.plus(Duration::from_secs(60));
    let fact = AttemptId::at(later, 7);
    fixture
        .store
        .cancel(destination.account_id, delivery.id, fact, later, &audit_entry())
        .await
        .expect("an ending");
    assert_eq!(reader.newest_at().await.expect("an answer"), Some(later));
}

const V1_CRC: u32 = 0xa399_603e;

/// Stores were made by it. What is to change is changed by another migration.
#[test]
fn the_first_migration_stays_as_it_is() {
    let text = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite/V1__initial.sql"));
    assert_eq!(crc32fast::hash(text), V1_CRC, "a migration is only added, never changed");
}

/// `POSTHASTE_UPDATE=1 scripts/postgres with cargo test -p store schema` writes it anew.
#[tokio::test]
async fn the_schema_is_the_one_that_was_agreed_on() {
    let fixture = Fixture::new().await;
    let connection = fixture.outsider();
    let mut select = connection
        .prepare(
            "select sql from sqlite_schema
             where sql is not null and name <> 'posthaste_migrations' order by tbl_name, type desc, name",
        )
        .expect("a catalogue");
    let texts = select.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let found: String = texts.map(|text| text.expect("text") + ";\n\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/sqlite.sql");
    if std::env::var_os("POSTHASTE_UPDATE").is_some() {
        std::fs::write(&path, &found).expect("a place for the schema");
    }
    let agreed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        agreed == found,
        "the schema differs from schema/sqlite.sql: if it is meant, run with POSTHASTE_UPDATE=1"
    );
}
