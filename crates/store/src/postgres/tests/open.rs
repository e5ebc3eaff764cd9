//! Opening: what is refused, and what it is called.

use super::{World, connect, drop_schema, open, open_with, server};
use crate::{
    Committed, FoundTables, Ingest as _, Membership as _, OpenError, OpenOptions, ReadOnlyStore as _,
    StoreError, postgres::PostgresStore,
};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_server_that_may_forget_is_refused_unless_that_is_accepted() {
    let world = World::new().await;
    for (setting, value) in [("synchronous_commit", "off"), ("default_transaction_isolation", "serializable")]
    {
        let url = format!("{}?schema={}&options=-c%20{setting}%3D{value}", server(), world.schema);
        let Err(OpenError::Unsafe(message)) = open_with(&url, false).await else {
            panic!("{setting} was accepted")
        };
        assert!(message.contains(setting) && message.contains(value), "{message}");
        assert!(open_with(&url, true).await.is_ok());
    }
    world.clean_up().await;
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let world = World::new().await;
    let newer = "insert into posthaste_migrations values (999, 'later', '2030-01-01T00:00:00Z')";
    world.client.batch_execute(newer).await.expect("a row of the future");
    let Err(OpenError::TooOld(message)) = open(&world.schema, "").await else { panic!("it opened") };
    assert!(message.contains("999"), "{message}");
    world.clean_up().await;
}

#[tokio::test]
async fn the_tables_of_a_development_version_are_refused_and_left_alone() {
    for tables in [
        "create table refinery_schema_history (version integer primary key, name text)",
        "create table queue (delivery_id uuid)",
    ] {
        let schema = format!("t_{:x}", rand::random::<u128>());
        let client = connect(&schema).await;
        client.batch_execute(&format!("create schema {schema}; {tables}")).await.expect("older tables");
        let Err(OpenError::Unreleased(why)) = open(&schema, "").await else {
            panic!("not refused: {tables}")
        };
        assert!(why.contains("development version") && why.contains("start with an empty one"), "{why}");
        let url = format!("{}?schema={schema}", server());
        let options = OpenOptions { url, pool: 1, listen_url: None, accept_data_loss: false };
        let store = PostgresStore::open_read_only(&options).expect("a store");
        assert_eq!(store.schema().await.expect("tables").found, FoundTables::Unreleased);
        let count = "select count(*) from pg_class where relnamespace = current_schema()::regnamespace \
                     and relkind = 'r'";
        let count: i64 = client.query_one(count, &[]).await.expect("tables").get(0);
        assert_eq!(count, 1, "left alone");
        drop_schema(&schema).await;
    }
}

#[tokio::test]
async fn a_wrong_name_is_a_wrong_url_and_no_server_is_an_absence() {
    let elsewhere = server().replace("posthaste_test", "no_such_database");
    assert!(matches!(open_with(&elsewhere, false).await, Err(OpenError::BadUrl(_))));
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = nobody.local_addr().expect("an address").port();
    drop(nobody);
    let closed = format!("postgres://posthaste@127.0.0.1:{port}/posthaste_test");
    assert!(matches!(open_with(&closed, false).await, Err(OpenError::Unavailable(_))));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let mute = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = mute.local_addr().expect("an address").port();
    // It accepts (the kernel does) and never answers.
    let begun = Instant::now();
    let opened = open_with(&format!("postgres://posthaste@127.0.0.1:{port}/x"), false).await;
    assert!(matches!(opened, Err(OpenError::Unavailable(_))));
    assert!(begun.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn what_has_no_day_of_its_own_is_kept_all_the_same() {
    let world = World::new().await;
    let ground = world.ground().await;
    let month_ahead = world.now.plus(Duration::from_secs(30 * 24 * 3600));
    let batch = ground.events(month_ahead, 3);
    assert_eq!(world.commit(&batch).await, vec![Committed::New; 3]);
    assert_eq!(world.lane(&ground).await.len(), 3);
    world.store.ensure_partitions(month_ahead).await.expect("the other days are made");
    assert_eq!(world.commit(&batch).await, vec![Committed::New; 3], "still there");
    assert_eq!(world.lane(&ground).await.len(), 3);
    world.clean_up().await;
}

#[tokio::test]
async fn a_read_only_server_is_unavailable_and_writes_nothing() {
    let world = World::new().await;
    let ground = world.ground().await;
    let store =
        open(&world.schema, "&options=-c%20default_transaction_read_only%3Don").await.expect("it opens");
    assert!(matches!(store.health().await, Err(StoreError::Unavailable(_))));
    let refused = store.commit(&ground.events(world.now, 1), world.now).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    world.store.health().await.expect("the other one writes");
    world.clean_up().await;
}
