//! What was damaged by hand, or written by a newer version, holds up nobody else.

use super::World;
use crate::{Catalog as _, Queue as _, Window};
use domain::delivery::Position;

#[tokio::test]
async fn a_target_that_does_not_read_back_says_so_for_itself_alone() {
    let world = World::new().await;
    let (theirs, ours) = (world.ground().await, world.ground().await);
    let broken = "update accounts set doc = 'x' where id = $1";
    world.client.execute(broken, &[&theirs.account_id.uuid()]).await.expect("damage");
    let ids = [theirs.destination.id, ours.destination.id];
    let targets = world.store.targets(&ids).await.expect("both targets");
    let readable: Vec<bool> =
        targets.iter().map(|target| target.as_ref().expect("a row").destination.is_ok()).collect();
    assert_eq!(readable, [false, true]);
    world.clean_up().await;
}

#[tokio::test]
async fn a_word_of_the_future_is_no_reason_not_to_deliver() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 2)).await;
    let damage = "update queue set attempts = 1, last_outcome = 'from_the_future'; \
                  update events set headers = 'x', metadata = 'x', type = '-'";
    world.client.batch_execute(damage).await.expect("damage");
    let id = ground.destination.id;
    let window = Window {
        shard: id.shard(),
        destination_id: id,
        from: Position::START,
        last_track: i64::MAX,
        limit: 10,
    };
    let fetched = world.store.fetch(&[window]).await.expect("the lane").remove(0);
    assert_eq!(fetched.len(), 2);
    assert!(fetched.iter().all(|row| row.delivery.last_outcome.is_none() && row.event.is_some()));
    world.clean_up().await;
}
