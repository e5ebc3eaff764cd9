//! Idempotency keys, whatever is rolled back, pruned or reopened while their index follows.

use super::{super::idempotency::Keys, Fixture, NOW};
use crate::IdempotencyKey;
use domain::{id::EventId, time::Timestamp};
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng};
use rusqlite::Connection;
use std::{collections::BTreeMap, time::Duration};

/// Few enough that the index is written all the time.
const UNINDEXED: usize = 8;

fn key(name: u16) -> IdempotencyKey {
    let mut hash = [0; 32];
    StdRng::seed_from_u64(name.into()).fill_bytes(&mut hash);
    IdempotencyKey { scope: uuid::Uuid::from_u128(u128::from(name % 3)), hash, body_hash: [name as u8; 32] }
}

/// The numbers of keys in the table and of those among them that the index knows.
fn counts(connection: &Connection) -> (i64, i64) {
    let count = |statement| connection.query_row(statement, [], |row| row.get(0)).expect("a count");
    (
        count("select count(*) from idempotency"),
        count("select count(*) from idempotency where number in (select number from idempotency_index)"),
    )
}

#[tokio::test]
async fn a_key_belongs_to_its_first_event_whatever_happens_around_it() {
    for seed in 0..40 {
        let fixture = Fixture::new().await;
        let connection = fixture.outsider();
        // What a power cut leaves behind is another test's matter, and thousands of flushes take their time.
        connection.pragma_update(None, "synchronous", "off").expect("a setting");
        let mut dice = StdRng::seed_from_u64(seed);
        let mut keys = Keys::open(&connection, UNINDEXED).expect("keys");
        let mut known: BTreeMap<u16, (EventId, Timestamp)> = BTreeMap::new();
        for turn in 0..120 {
            let now = NOW.plus(Duration::from_secs(turn));
            connection.execute_batch("begin immediate").expect("a transaction");
            let mut batch = known.clone();
            let arrived = dice.random_range(0..6);
            for _ in 0..arrived {
                let name = dice.random_range(0..300);
                let event = EventId::at(now, dice.random());
                let used = keys.claim(&connection, &key(name), event, now).expect("an answer");
                assert_eq!(
                    used.map(|used| used.event_id),
                    batch.get(&name).map(|(event, _)| *event),
                    "seed {seed}"
                );
                batch.entry(name).or_insert((event, now));
            }
            let progress = keys.index_some(&connection, arrived).expect("progress");
            if dice.random_bool(0.2) {
                connection.execute_batch("rollback").expect("rolled back");
            } else {
                connection.execute_batch("commit").expect("committed");
                keys.flushed(progress);
                known = batch;
            }
            if dice.random_bool(0.05) {
                let before = now.minus(Duration::from_secs(40));
                let pruned = Keys::prune(&connection, before, 1_000).expect("pruned");
                let left = known.len() - pruned;
                known.retain(|_, (_, at)| *at >= before);
                assert_eq!(known.len(), left, "seed {seed}");
            }
            if dice.random_bool(0.05) {
                keys = Keys::open(&connection, UNINDEXED).expect("keys");
            }
        }
        let (rows, indexed) = counts(&connection);
        assert_eq!(rows as usize, known.len(), "seed {seed}");
        assert!(rows - indexed <= 3 * UNINDEXED as i64, "seed {seed}: {rows} keys, {indexed} in the index");
    }
}

#[tokio::test]
async fn keys_of_an_older_schema_are_indexed_when_the_store_is_opened() {
    let fixture = Fixture::new().await;
    let connection = fixture.outsider();
    let keys = Keys::open(&connection, 1_000).expect("keys");
    let event = EventId::at(NOW, 1);
    for name in 0..100 {
        assert!(keys.claim(&connection, &key(name), event, NOW).expect("an answer").is_none());
    }
    assert_eq!(counts(&connection), (100, 0));
    let keys = Keys::open(&connection, UNINDEXED).expect("keys");
    assert_eq!(counts(&connection), (100, 96), "all but what memory holds");
    for name in 0..100 {
        let used = keys.claim(&connection, &key(name), EventId::at(NOW, 2), NOW).expect("an answer");
        assert_eq!(used.map(|used| used.event_id), Some(event));
    }
}
