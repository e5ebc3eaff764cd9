//! What was damaged by hand, or written by a newer version, holds up nobody else.

use super::{Ground, World, delivered};
use crate::{Catalog as _, DeliveryFilter, EventFilter, History as _, Page, Queue as _, StoreError, Window};
use domain::{delivery::Position, outcome::Outcome};
use std::cmp::Reverse;

fn window(ground: &Ground, limit: usize) -> Window {
    let id = ground.destination.id;
    let from = Position::START;
    Window { shard: id.shard(), destination_id: id, from, last_track: i64::MAX, limit }
}

#[tokio::test]
async fn a_delivery_that_does_not_read_back_holds_up_no_other() {
    let world = World::new().await;
    let (ours, theirs) = (world.ground().await, world.ground().await);
    world.commit(&ours.events(world.now, 4)).await;
    world.commit(&theirs.events(world.now, 4)).await;
    let (lane, others) = (world.lane(&ours).await, world.lane(&theirs).await);
    let damage = format!(
        "alter table queue alter column route_id drop not null; \
         update queue set route_id = null where delivery_id = '{}'",
        lane[1].id.uuid()
    );
    world.client.batch_execute(&damage).await.expect("damage");
    let fetched = world.store.fetch(&[window(&ours, 3), window(&theirs, 2)]).await.expect("the rest");
    let fetched: Vec<Vec<_>> =
        fetched.into_iter().map(|lane| lane.into_iter().map(|row| row.delivery).collect()).collect();
    assert_eq!(fetched, [vec![lane[0].clone(), lane[2].clone(), lane[3].clone()], others[..2].to_vec()]);
    world.clean_up().await;
}

#[tokio::test]
async fn an_event_that_does_not_read_back_is_as_good_as_missing_and_the_others_are_read() {
    let world = World::new().await;
    let ground = world.ground().await;
    let batch = ground.events(world.now, 3);
    world.commit(&batch).await;
    let damage = format!(
        "alter table events alter column content_type drop not null; \
         update events set content_type = null where id = '{}'",
        batch[1].event.id.uuid()
    );
    world.client.batch_execute(&damage).await.expect("damage");
    let fetched = world.store.fetch(&[window(&ground, 10)]).await.expect("a lane").remove(0);
    let broken = |row: &crate::FetchedDelivery| row.delivery.event_id == batch[1].event.id;
    assert_eq!(fetched.len(), 3);
    assert!(fetched.iter().all(|row| row.event.is_none() == broken(row)));
    assert!(world.store.payload(batch[1].event.id).await.expect("no trouble").is_none());
    let shown = world.store.event(ground.account_id, batch[1].event.id).await;
    assert!(matches!(shown, Err(StoreError::Unreadable(_))), "{shown:?}");
    world.clean_up().await;
}

/// A panic would take the whole task with it.
#[tokio::test]
async fn a_column_of_another_type_or_none_is_an_error_that_names_it() {
    let world = World::new().await;
    let ground = world.ground().await;
    for damage in [
        "alter table accounts drop constraint accounts_version_check, \
         alter column version type text using version::text",
        "alter table accounts rename column version to changed; \
         alter table accounts add column version bigint",
    ] {
        world.client.batch_execute(&format!("begin; {damage}; commit")).await.expect("damage");
        let Err(StoreError::Unreadable(error)) = world.store.account(ground.account_id).await else {
            panic!("it was read");
        };
        let told = error.to_string();
        assert!(told.contains("`version`") && told.contains("`account`"), "{told}");
    }
    world.clean_up().await;
}

#[tokio::test]
async fn a_target_that_does_not_read_back_says_so_for_itself_alone() {
    let world = World::new().await;
    let (theirs, ours) = (world.ground().await, world.ground().await);
    let broken = "update accounts set doc = 'x' where id = $1";
    world.client.execute(broken, &[&theirs.account_id.uuid()]).await.expect("damage");
    let ids = [theirs.destination.id, ours.destination.id];
    let records = world.store.destination_records(&ids).await.expect("both records");
    let readable: Vec<bool> =
        records.iter().map(|record| record.as_ref().expect("a row").destination.is_ok()).collect();
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
    let fetched = world.store.fetch(&[window(&ground, 10)]).await.expect("the lane").remove(0);
    assert_eq!(fetched.len(), 2);
    assert!(fetched.iter().all(|row| row.delivery.last_outcome.is_none() && row.event.is_some()));
    world.clean_up().await;
}

#[tokio::test]
async fn a_list_goes_on_without_what_does_not_read() {
    let world = World::new().await;
    let ground = world.ground().await;
    let batch = ground.events(world.now, 4);
    world.commit(&batch).await;
    let lane = world.lane(&ground).await;
    let damage = format!(
        "alter table events alter column content_type drop not null; \
         update events set content_type = null where id = '{}'; \
         alter table queue alter column route_id drop not null; \
         update queue set route_id = null where delivery_id = '{}'; \
         update destinations set doc = '{{' where id = '{}'",
        batch[1].event.id.uuid(),
        lane[2].id.uuid(),
        ground.destination.id.uuid()
    );
    world.client.batch_execute(&damage).await.expect("damage");
    for limit in [1, 2, 10] {
        let (mut events, mut deliveries) = (Vec::new(), Vec::new());
        let mut page = Page { before: None, limit };
        loop {
            let types = vec!["**".parse().expect("a pattern")];
            let filter = EventFilter { types, ..EventFilter::default() };
            let found = world.store.events(ground.account_id, &filter, page).await.expect("a list");
            events.extend(found.rows.into_iter().map(|record| record.event.id));
            let Some(next) = found.next else { break };
            page.before = Some(next);
        }
        let mut page = Page { before: None, limit };
        loop {
            let filter = DeliveryFilter::default();
            let found = world.store.deliveries(ground.account_id, &filter, page).await.expect("a list");
            deliveries.extend(found.rows.into_iter().map(|record| record.id));
            let Some(next) = found.next else { break };
            page.before = Some(next);
        }
        let others = batch.iter().map(|new| new.event.id).filter(|id| *id != batch[1].event.id);
        let mut wanted = Vec::from_iter(others);
        wanted.sort_by_key(|id| Reverse(*id));
        assert_eq!(events, wanted, "{limit} at a time");
        let mut wanted = Vec::from_iter(lane.iter().map(|it| it.id).filter(|id| *id != lane[2].id));
        wanted.sort_by_key(|id| Reverse(*id));
        assert_eq!(deliveries, wanted, "{limit} at a time");
    }
    let page = Page { before: None, limit: 10 };
    let shown = world.store.destinations(ground.account_id, page).await.expect("a list");
    assert!(shown.rows.iter().all(|it| it.id != ground.destination.id));
    let alone = world.store.destination(ground.account_id, ground.destination.id).await;
    assert!(matches!(alone, Err(StoreError::Unreadable(_))), "{alone:?}");
    world.clean_up().await;
}
