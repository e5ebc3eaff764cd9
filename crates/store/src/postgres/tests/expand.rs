//! What nodes of the version before begin is gone on with, while they still run.

use super::{World, delivered};
use crate::{Chunk, Committed, Expansions as _, History as _, Queue as _, postgres::statement::params};

#[tokio::test]
async fn an_expansion_of_the_version_before_is_taken_over_with_what_it_has_reached() {
    let world = World::new().await;
    let (waits, ended, left) = (world.ground().await, world.ground().await, world.ground().await);
    let mut new = waits.event(world.now, None);
    new.deliveries.extend(ended.event(world.now, None).deliveries);
    assert_eq!(world.commit(std::slice::from_ref(&new)).await, [Committed::New]);
    let end = delivered(&world.lane(&ended).await[0], world.node);
    assert_eq!(world.store.settle(world.node, &[end], world.now).await.expect("settled"), [true]);
    // As a node of the version before leaves it: the cursor is a route.
    let id = new.event.id;
    let begun = "insert into expansions (event_id, account_id, account_version, cursor, deliveries, created_at) \
                 values (:event_id, :account_id, :version, :cursor, 2, 7)";
    let params = params![
        event_id: id.uuid() => UUID, account_id: waits.account_id.uuid() => UUID, version: waits.version => INT8,
        cursor: new.deliveries[0].route_id.uuid() => UUID,
    ];
    world.run(begun, params).await;
    let params = params![event_id: id.uuid() => UUID];
    world.run("update events set deliveries = null where id = :event_id", params).await;

    assert!(world.store.take_over_expansion().await.expect("the oldest"));
    assert!(!world.store.take_over_expansion().await.expect("there was one"));
    let open = world.store.expansion(id).await.expect("an answer").expect("it goes on");
    let mut reached = open.inline_destinations.clone();
    reached.sort();
    let mut expected = [waits.destination.id, ended.destination.id];
    expected.sort();
    assert_eq!(reached, expected);
    assert_eq!((open.cursor, open.deliveries, open.account_version), (None, 2, waits.version));
    assert_eq!((open.account_id, open.created_at.micros()), (waits.account_id, 7));

    // The node of before finds nothing to move.
    let moves = "update expansions set cursor = null where event_id = :event_id returning event_id";
    assert!(world.run(moves, params![event_id: id.uuid() => UUID]).await.is_empty());
    let last = left.event(world.now, None).deliveries;
    let chunk = Chunk {
        event_id: id,
        from: None,
        to: Some(left.destination.id),
        deliveries: last,
        other_routes: Vec::new(),
        done: true,
    };
    assert!(world.store.expand(&chunk).await.expect("an answer"));
    let fanout = world.store.event(waits.account_id, id).await.expect("the event").fanout;
    assert_eq!((fanout.total, fanout.waiting, fanout.delivered, fanout.expanding), (3, 2, 1, false));
    world.clean_up().await;
}
