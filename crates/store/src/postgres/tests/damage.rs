//! What was damaged by hand, or written by a newer version, holds up nobody else.

use super::{World, delivered};
use crate::{Catalog as _, History as _, Queue as _, Window};
use domain::{delivery::Position, outcome::Outcome};

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
async fn a_detail_that_does_not_read_back_is_told_with_its_attempt() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 1)).await;
    let delivery = world.lane(&ground).await.remove(0);
    world.store.settle(world.node, &[delivered(&delivery, world.node)], world.now).await.expect("settled");
    for broken in [r"'\x'", r"'\x00'", r"'\x01'", r"'\x0120ff'", "null"] {
        let damage = format!("update attempts set detail_packed = {broken}");
        world.client.batch_execute(&damage).await.expect("damage");
        let attempts = world.store.attempts_of_delivery(ground.account_id, delivery.id, 10).await;
        let attempt = attempts.expect("a list").remove(0);
        assert_eq!(attempt.outcome, Outcome::Success, "{broken}");
        assert_eq!(attempt.detail.error.expect("what is wrong").code, "detail_unreadable", "{broken}");
    }
    // As a node of the version before writes it.
    let text =
        r#"update attempts set detail = '{"url":"https://a.example/","request_headers":[],"timing":{}}'"#;
    world.client.batch_execute(text).await.expect("a row of before");
    let attempts = world.store.attempts_of_delivery(ground.account_id, delivery.id, 10).await;
    assert_eq!(attempts.expect("a list")[0].detail.url, "https://a.example/");
    world.clean_up().await;
}

/// It reads the text alone, and makes nothing of what is no JSON.
#[tokio::test]
async fn a_node_of_the_version_before_finds_a_text_beside_what_is_packed() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 1)).await;
    let delivery = world.lane(&ground).await.remove(0);
    world.store.settle(world.node, &[delivered(&delivery, world.node)], world.now).await.expect("settled");
    let row = world.client.query_one("select detail, detail_packed is not null from attempts", &[]).await;
    let row = row.expect("a fact");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1)), ("", true));
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
