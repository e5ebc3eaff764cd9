//! Nodes that hear each other on PostgreSQL: by notification, by the table where those do not arrive, and again after
//! the line was cut.

use super::{World, open, server};
use crate::{Membership as _, News, OpenOptions, Wakes as _, postgres::PostgresStore};
use std::time::Duration;
use tokio::time::timeout;

/// Notifications do not leave their database: listening in another one is as being behind a pooler.
async fn open_deaf(world: &World) -> PostgresStore {
    let mut elsewhere = url::Url::parse(&server()).expect("a URL");
    elsewhere.set_path("template1");
    let options = OpenOptions {
        url: format!("{}?schema={}", server(), world.schema),
        pool: 2,
        listen_url: Some(elsewhere.into()),
        accept_data_loss: false,
    };
    PostgresStore::open(&options).await.expect("the store opens")
}

async fn hear(store: &PostgresStore) -> Vec<News> {
    timeout(Duration::from_secs(30), store.hear())
        .await
        .expect("something is heard")
        .expect("the line stands")
}

#[tokio::test]
async fn where_notifications_do_not_arrive_the_table_is_read() {
    let world = World::new().await;
    let deaf = open_deaf(&world).await;
    assert_eq!(hear(&deaf).await, [News::Missed], "nobody knows what was told before");
    for round in 0..3 {
        world.store.tell(&[News::Roster, News::Shards(vec![7, round])]).await.expect("told");
        assert_eq!(hear(&deaf).await, [News::Roster, News::Shards(vec![round, 7])]);
    }
    world.store.tell(&[News::Missed]).await.expect("told");
    assert_eq!(hear(&deaf).await, [News::Roster, News::Shards((0..1024).collect())], "everything");
    world.clean_up().await;
}

#[tokio::test]
async fn who_cannot_listen_is_heard_by_those_who_can() {
    let world = World::new().await;
    let deaf = open_deaf(&world).await;
    assert_eq!(hear(&world.store).await, [News::Missed]);
    assert_eq!(hear(&deaf).await, [News::Missed]);
    deaf.tell(&[News::Shards(vec![3])]).await.expect("told");
    assert_eq!(hear(&world.store).await, [News::Shards(vec![3])]);
    // What it told itself is in the table too, and no news to it.
    world.store.tell(&[News::Shards(vec![4])]).await.expect("told");
    let heard = hear(&deaf).await;
    assert!(matches!(&heard[..], [News::Shards(shards)] if shards.contains(&4)), "{heard:?}");
    world.clean_up().await;
}

#[tokio::test]
async fn the_table_is_written_only_while_somebody_reads_it() {
    let world = World::new().await;
    let count = async || -> i64 {
        let rows = world.client.query_one("select count(*) from wakes where shard >= -1", &[]).await;
        rows.expect("a count").get(0)
    };
    world.store.tell(&[News::Roster, News::Shards(vec![1, 2])]).await.expect("told");
    assert_eq!(count().await, 0);
    let deaf = open_deaf(&world).await;
    hear(&deaf).await;
    world.store.tell(&[News::Roster, News::Shards(vec![1, 2])]).await.expect("told");
    assert_eq!(count().await, 3);
    drop(deaf);
    let long_ago = "update wakes set round = round - 60 * 1000000 where shard = -2";
    world.client.batch_execute(long_ago).await.expect("a minute passes");
    world.store.tell(&[News::Shards(vec![5])]).await.expect("told");
    assert_eq!(count().await, 3);
    world.clean_up().await;
}

#[tokio::test]
async fn a_line_that_was_cut_is_made_again_and_says_so() {
    let world = World::new().await;
    let other = open(&world.schema, "").await.expect("a second node opens");
    assert_eq!(hear(&other).await, [News::Missed]);
    for round in 0..3 {
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query = $1";
        let listening = format!("listen posthaste_{}", world.schema);
        let cut = world.client.query_one(cut, &[&listening]).await.expect("an answer");
        assert_eq!(cut.get::<_, i64>(0), 1, "there is one line");
        assert_eq!(hear(&other).await, [News::Missed]);
        world.store.tell(&[News::Shards(vec![round])]).await.expect("told");
        assert_eq!(hear(&other).await, [News::Shards(vec![round])]);
    }
    world.clean_up().await;
}

#[tokio::test]
async fn who_does_not_listen_in_time_is_told_to_look_at_everything() {
    let world = World::new().await;
    let other = open(&world.schema, "").await.expect("a second node opens");
    assert_eq!(hear(&other).await, [News::Missed]);
    let notes = "select pg_notify($1, '{\"by\":1,\"shards\":[1]}') from generate_series(1, 1)";
    let channel = format!("posthaste_{}", world.schema);
    // Equal ones in one transaction would be sent once.
    for _ in 0..domain::limits::NEWS_WAITING + 200 {
        world.client.query(notes, &[&channel]).await.expect("sent");
    }
    let mut heard = Vec::new();
    while !heard.contains(&News::Missed) {
        heard.extend(hear(&other).await);
    }
    assert!(heard.len() < domain::limits::NEWS_WAITING, "the rest is not worth reading");
    world.store.tell(&[News::Roster]).await.expect("told");
    while !heard.contains(&News::Roster) {
        heard.extend(hear(&other).await);
    }
    world.clean_up().await;
}

#[tokio::test]
async fn waking_others_does_not_stand_before_a_commit_or_a_renewal() {
    let world = World::new().await;
    let ground = world.ground().await;
    let _crowd =
        [world.store.pools.nodes().await.expect("one"), world.store.pools.nodes().await.expect("two")];
    world.commit(&ground.events(world.now, 1)).await;
    world.store.renew(world.node, domain::limits::LEASE).await.expect("renewed");
    world.clean_up().await;
}
