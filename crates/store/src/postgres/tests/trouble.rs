//! Bad rows, lost connections, silence.

use super::{World, delivered};
use crate::{
    Committed, DeliveryState, Fact, History as _, PreparedEvent, Queue as _, StoreError,
    postgres::{
        pool::Connection,
        statement::{Statement, params},
        trouble::Trouble,
    },
};
use domain::{
    delivery::{Ending, Position},
    event::Event,
    outcome::{DeadReason, Outcome},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// The event with a key that PostgreSQL's text cannot hold.
fn unstorable(event: &Event) -> Arc<PreparedEvent> {
    PreparedEvent::new(Event { ordering_key: Some("a\0b".into()), ..event.clone() })
}

#[tokio::test]
async fn an_event_that_cannot_be_stored_is_refused_alone() {
    let world = World::new().await;
    let ground = world.ground().await;
    let mut batch = ground.events(world.now, 9);
    batch[4].event = unstorable(&batch[4].event);
    let answers = world.commit(&batch).await;
    for (place, answer) in answers.iter().enumerate() {
        match place {
            4 => assert!(matches!(answer, Committed::Refused(_)), "{answer:?}"),
            _ => assert_eq!(*answer, Committed::New),
        }
    }
    assert_eq!(world.lane(&ground).await.len(), 8);
    world.clean_up().await;
}

#[tokio::test]
async fn an_event_that_is_refused_takes_no_number() {
    let world = World::new().await;
    let ground = world.ground().await;
    let mut batch = ground.events(world.now, 9);
    for delivery in batch.iter_mut().map(|new| &mut new.deliveries[0]) {
        (delivery.sequenced, delivery.position.track) = (true, Position::STRICT);
    }
    batch[4].event = unstorable(&batch[4].event);
    for _ in 0..2 {
        world.commit(&batch).await;
        let lane = world.lane(&ground).await;
        assert_eq!(
            lane.iter().map(|row| row.sequence).collect::<Vec<_>>(),
            (1..=8).map(Some).collect::<Vec<_>>()
        );
        let written = batch.iter().enumerate().filter(|(place, _)| *place != 4);
        assert!(lane.iter().map(|row| row.id).eq(written.map(|(_, new)| new.deliveries[0].id)));
    }
    world.clean_up().await;
}

#[tokio::test]
async fn an_attempt_that_cannot_be_stored_holds_up_no_other_and_ends_its_delivery() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 5)).await;
    let lane = world.lane(&ground).await;
    let mut settlements: Vec<_> = lane.iter().map(|delivery| delivered(delivery, world.node)).collect();
    // No success, so it cannot be delivered: the table checks what the rules say.
    let Fact::Attempted(attempt) = &mut settlements[2].fact else { panic!("an attempt") };
    attempt.outcome = Outcome::Timeout;
    for _ in 0..2 {
        let moved = world.store.settle(world.node, &settlements, world.now).await.expect("all are settled");
        assert_eq!(moved, [true; 5]);
    }
    assert_eq!(world.lane(&ground).await, []);
    for delivery in &lane {
        let record = world.store.delivery(ground.account_id, delivery.id).await.expect("a record");
        let wanted = if delivery.id == lane[2].id {
            Ending::DeadLetter(DeadReason::Undeliverable)
        } else {
            Ending::Delivered
        };
        assert!(
            matches!(record.state, DeliveryState::Ended { ending, .. } if ending == wanted),
            "{record:?}"
        );
    }
    world.clean_up().await;
}

#[tokio::test]
async fn a_detail_may_hold_every_character() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 1)).await;
    let delivery = world.lane(&ground).await.remove(0);
    let mut settlement = delivered(&delivery, world.node);
    let Fact::Attempted(attempt) = &mut settlement.fact else { panic!("an attempt") };
    attempt.detail.url = "https://x.example/\0\u{1}\u{10ffff}\"\\".into();
    let wanted = attempt.detail.clone();
    assert_eq!(world.store.settle(world.node, &[settlement], world.now).await.expect("written"), [true]);
    let attempts =
        world.store.attempts_of_delivery(ground.account_id, delivery.id, 10).await.expect("a list");
    assert_eq!(attempts[0].detail, wanted);
    world.clean_up().await;
}

#[tokio::test]
async fn the_same_delivery_may_come_twice_in_a_batch() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 1)).await;
    let delivery = world.lane(&ground).await.remove(0);
    let first = delivered(&delivery, world.node);
    let second = delivered(&delivery, world.node);
    let moved = world.store.settle(world.node, &[first, second], world.now).await.expect("written");
    assert_eq!(moved, [true, false]);
    world.clean_up().await;
}

#[tokio::test]
async fn a_write_whose_connection_is_cut_leaves_a_doubt_and_a_read_does_not() {
    let world = World::new().await;
    for writes in [true, false] {
        let connection = world.store.pools.general().await.expect("a connection");
        let pid = backend(&connection).await;
        let wait = Statement::new("wait", "select pg_sleep(60)");
        let cut = format!("select pg_terminate_backend({pid})");
        let cut = world.client.batch_execute(&cut);
        let trouble = if writes {
            let (answer, _) = tokio::join!(connection.write(&wait, params![]), cut);
            answer
        } else {
            let (answer, _) = tokio::join!(connection.read(&wait, params![]), cut);
            answer
        };
        match StoreError::from(trouble.expect_err("it was cut")) {
            StoreError::OutcomeUnknown(_) if writes => {}
            StoreError::Unavailable(_) if !writes => {}
            other => panic!("{other:?}"),
        }
    }
    backend(&world.store.pools.general().await.expect("another one")).await;
    world.clean_up().await;
}

#[tokio::test]
async fn a_statement_that_hangs_is_given_up_and_its_connection_with_it() {
    let world = World::new().await;
    let connection = world.store.pools.settle().await.expect("the connection");
    let pid = backend(&connection).await;
    let begun = Instant::now();
    let lock: i64 = rand::random();
    let hang = Statement::new("hang", HANG);
    let answer = connection.write(&hang, params![lock: lock => INT8]).await;
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert!(matches!(answer, Err(Trouble::Unknown(_))), "{answer:?}");
    drop(connection);
    let connection = world.store.pools.settle().await.expect("a new connection");
    let next = backend(&connection).await;
    assert_ne!(pid, next);
    is_let_go(&world, lock).await;
    world.clean_up().await;
}

#[tokio::test]
async fn a_statement_whose_caller_is_gone_is_stopped() {
    let world = World::new().await;
    let connection = world.store.pools.general().await.expect("a connection");
    let lock: i64 = rand::random();
    {
        let hang = Statement::new("hang", HANG);
        let params = params![lock: lock => INT8];
        let hang = connection.read(&hang, params);
        let is_held = async {
            // Given up once the server holds the lock.
            let mut held = true;
            while held {
                let free = "select pg_try_advisory_lock(:lock) and pg_advisory_unlock(:lock)";
                held = world.run(free, params![lock: lock => INT8]).await[0].get(0);
            }
        };
        tokio::select! {
            answer = hang => panic!("{answer:?}"),
            () = is_held => {}
        }
    }
    drop(connection);
    is_let_go(&world, lock).await;
    world.clean_up().await;
}

#[tokio::test]
async fn a_settlement_of_a_lost_node_is_only_history() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 1)).await;
    let delivery = world.lane(&ground).await.remove(0);
    let mut settlement = delivered(&delivery, world.node);
    settlement.consequence = Some(crate::Consequence::Disables);
    world.client.batch_execute("delete from nodes").await.expect("the reaper comes");
    assert_eq!(world.store.settle(world.node, &[settlement], world.now).await.expect("written"), [false]);
    assert_eq!(world.lane(&ground).await, [delivery]);
    let row = world.client.query_one("select late, ending from attempts", &[]).await.expect("the fact");
    assert_eq!((row.get::<_, bool>(0), row.get::<_, Option<String>>(1)), (true, None));
    world.clean_up().await;
}

/// A session's lock is free when the server has stopped what it did there.
async fn is_let_go(world: &World, lock: i64) {
    let params = params![lock: lock => INT8];
    let taken = world.run("select pg_advisory_lock(:lock)", params);
    timeout(Duration::from_secs(10), taken).await.expect("it was told to stop");
}

const HANG: &str = "select pg_advisory_lock(:lock), pg_sleep(600)";

/// The process of the server behind a connection.
async fn backend(connection: &Connection) -> i32 {
    let statement = Statement::new("backend", "select pg_backend_pid() as pid");
    connection.read(&statement, params![]).await.expect("a row").value("pid").expect("a number")
}
