//! Committing: event, deliveries and key together or not at all, every byte as it came, once.

use crate::fixtures::*;
use bytes::Bytes;
use domain::{
    delivery::Delivery,
    event::Event,
    id::{AccountId, DeliveryId, RouteId},
    limits,
};
use serde_json::json;
use std::time::Duration;
use store::{Committed, EventFilter, IdempotencyKey, NewEvent, PreparedEvent};

pub(crate) async fn a_commit_makes_the_event_and_its_deliveries_visible(world: World) {
    let ground = world.ground().await;
    let second = world.route(&ground.destination).await;
    let given = event(&ground.account, at(1));
    let promises = vec![promise(&ground.route, at(1)), promise_due(&second, at(1), at(30))];
    let new = world.matched(given.clone(), promises.clone()).await;
    assert_eq!(world.commit(&new).await, Committed::New);

    assert_eq!(plain(world.store.event_payload(ground.account.id, given.id).await.map(Some)), given);
    let lane = world.lane(ground.destination.id).await;
    let expected = promises.iter().map(|promise| Delivery {
        id: promise.id,
        account_id: ground.account.id,
        event_id: given.id,
        destination_id: ground.destination.id,
        route_id: promise.route_id,
        replay_id: None,
        origin: promise.id,
        position: promise.position,
        sequence: None,
        due_at: promise.due_at,
        attempts: 0,
        spent: 0,
        tls_errors: 0,
        last_outcome: None,
        last_http_status: None,
        created_at: at(1),
        available_at: at(1),
        payload_bytes: given.payload.len() as u32,
    });
    assert_eq!(lane, expected.collect::<Vec<_>>());
}

pub(crate) async fn an_event_that_matches_nothing_is_stored(world: World) {
    let account = world.account().await;
    let given = event(&account, at(1));
    let new = world.matched(given.clone(), vec![]).await;
    assert_eq!(world.commit(&new).await, Committed::New);
    let record = world.store.event(account.id, given.id).await.unwrap();
    assert_eq!((record.fanout.total, record.fanout.completed_at), (0, None));
    assert!(world.store.lanes(&all_shards(), None, 10).await.unwrap().is_empty());
}

pub(crate) async fn every_field_of_an_event_is_kept(world: World) {
    let account = world.account().await;
    let source = world.source(&account).await;
    let mut given = event(&account, at(1));
    given.source_id = Some(source.id);
    given.event_type = "Order-Line.item_added".parse().unwrap();
    given.idempotency_key = Some("ключ \"1\"".into());
    given.content_type = "text/plain; charset=utf-8".into();
    given.headers = vec![("b".into(), "2".into()), ("a".into(), "\u{e9}".into()), ("b".into(), "".into())];
    given.ordering_key = Some("cart-7".into());
    given.deliver_at = Some(at(3_600));
    given.metadata =
        json!({"z": 1, "a": {"deep": [null, true, 1.5, "x"]}, "": "empty"}).as_object().unwrap().clone();
    let new = world.matched(given.clone(), vec![]).await;
    assert_eq!(world.commit(&new).await, Committed::New);

    let read = plain(world.store.event_payload(account.id, given.id).await.map(Some));
    assert_eq!(read, given);
    assert_eq!(json_text(&read), json_text(&given), "members keep their order");
    assert_eq!(plain(world.store.payload(given.id).await), given);
    let record = world.store.event(account.id, given.id).await.unwrap();
    assert_eq!(record.size_bytes, given.payload.len() as u64);
    assert_eq!(record.event, Event { payload: Bytes::new(), ..given });
}

fn json_text(event: &Event) -> String {
    serde_json::to_string(&event.metadata).expect("metadata is JSON")
}

pub(crate) async fn deliver_at_is_when_a_deliverys_age_begins(world: World) {
    let ground = world.ground().await;
    let given = Event { deliver_at: Some(at(3_600)), ..event(&ground.account, at(1)) };
    let waiting =
        world.commit_promises(given, vec![promise_due(&ground.route, at(1), at(3_600))]).await.remove(0);
    assert_eq!((waiting.created_at, waiting.available_at, waiting.due_at), (at(1), at(3_600), at(3_600)));

    let past = Event { deliver_at: Some(at(1)), ..event(&ground.account, at(2)) };
    let waiting = world.commit_event(past, &[&ground.route]).await.remove(0);
    assert_eq!((waiting.created_at, waiting.available_at), (at(2), at(2)));
}

pub(crate) async fn payloads_are_kept_byte_for_byte(world: World) {
    let ground = world.ground().await;
    let noise: Vec<u8> = (0..1024 * 1024_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let payloads = [vec![], vec![0], b"a\0b".to_vec(), vec![0xff, 0xfe, 0xc0, 0x80], "ä€𝄞".into(), noise];
    for payload in payloads {
        let given = Event { payload: payload.clone().into(), ..event(&ground.account, at(1)) };
        let id = given.id;
        let delivery = world.commit_event(given, &[&ground.route]).await.remove(0);
        let read = plain(world.store.payload(id).await);
        assert!(read.payload == payload, "{} bytes came back as {}", payload.len(), read.payload.len());
        assert_eq!(delivery.payload_bytes as usize, payload.len());
        assert_eq!(
            world.store.event(ground.account.id, id).await.unwrap().size_bytes as usize,
            payload.len()
        );
    }
}

pub(crate) async fn metadata_may_hold_any_character(world: World) {
    let account = world.account().await;
    let mut given = event(&account, at(1));
    given.metadata = json!({"nul": "a\u{0}b", "\u{0}": "\u{1}\u{7f}\u{fffd}", "quote": "\\u0000 \"'"})
        .as_object()
        .unwrap()
        .clone();
    let new = world.matched(given.clone(), vec![]).await;
    assert_eq!(world.commit(&new).await, Committed::New);
    assert_eq!(plain(world.store.event_payload(account.id, given.id).await.map(Some)), given);
    assert_eq!(world.events(&account, &EventFilter::default(), 10).await[0].event.metadata, given.metadata);
}

// --- Idempotency ---------------------------------------------------------------------------------------------------

pub(crate) async fn a_key_that_was_used_names_its_first_event(world: World) {
    let ground = world.ground().await;
    let original = keyed(&world, &ground, 1, key(&ground.account, 7, 1)).await;
    assert_eq!(world.commit(&original).await, Committed::New);
    let repeat = keyed(&world, &ground, 2, key(&ground.account, 7, 1)).await;
    let duplicate = Committed::Duplicate { of: original.event.id, deliveries: Some(1), body_hash: [1; 32] };
    assert_eq!(world.commit(&repeat).await, duplicate);
    is_not_found(world.store.event(ground.account.id, repeat.event.id).await, "event");
    assert_eq!(world.lane(ground.destination.id).await.len(), 1);
}

pub(crate) async fn another_body_under_a_used_key_is_told_by_its_hash(world: World) {
    let ground = world.ground().await;
    let original = keyed(&world, &ground, 1, key(&ground.account, 7, 1)).await;
    world.commit(&original).await;
    let other = keyed(&world, &ground, 2, key(&ground.account, 7, 99)).await;
    let duplicate = Committed::Duplicate { of: original.event.id, deliveries: Some(1), body_hash: [1; 32] };
    assert_eq!(world.commit(&other).await, duplicate, "the first body's hash");
}

pub(crate) async fn of_two_equal_keys_in_one_batch_the_first_wins(world: World) {
    let ground = world.ground().await;
    let mut batch = Vec::new();
    for (second, name) in [(1, 7), (2, 8), (3, 7), (4, 7)] {
        batch.push(keyed(&world, &ground, second, key(&ground.account, name, second as u8)).await);
    }
    batch[0].deliveries.push(promise(&ground.route, at(1)));
    let duplicate =
        || Committed::Duplicate { of: batch[0].event.id, deliveries: Some(2), body_hash: [1; 32] };
    let results = world.store.commit(&batch, at(4)).await.unwrap();
    assert_eq!(results, [Committed::New, Committed::New, duplicate(), duplicate()]);
    assert_eq!(world.lane(ground.destination.id).await.len(), 3);
}

pub(crate) async fn a_key_counts_within_its_scope(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let source = world.source(&ground.account).await;
    let mine = key(&ground.account, 7, 1);
    let by_source = IdempotencyKey { scope: source.id.uuid(), ..mine };
    let theirs = keyed(&world, &other, 1, key(&other.account, 7, 1)).await;
    let batch = [keyed(&world, &ground, 1, mine).await, keyed(&world, &ground, 2, by_source).await, theirs];
    let results = world.store.commit(&batch, at(2)).await.unwrap();
    assert_eq!(results, [Committed::New, Committed::New, Committed::New]);
}

pub(crate) async fn pruned_keys_may_be_used_again(world: World) {
    let ground = world.ground().await;
    for (second, name) in [(1, 1), (2, 2), (3, 3)] {
        world.commit(&keyed(&world, &ground, second, key(&ground.account, name, 0)).await).await;
    }
    assert_eq!(world.store.prune_idempotency(at(1), 10).await.unwrap(), 0, "none is older");
    assert_eq!(world.store.prune_idempotency(at(3), 1).await.unwrap(), 1, "the oldest first");
    let again = keyed(&world, &ground, 4, key(&ground.account, 1, 0)).await;
    assert_eq!(world.commit(&again).await, Committed::New);
    let kept = keyed(&world, &ground, 4, key(&ground.account, 2, 0)).await;
    assert!(matches!(world.commit(&kept).await, Committed::Duplicate { .. }));
    assert_eq!(world.store.prune_idempotency(at(3), 10).await.unwrap(), 1);
    assert_eq!(world.commit(&kept).await, Committed::New);
    assert_eq!(world.store.prune_idempotency(at(3), 10).await.unwrap(), 0);
}

pub(crate) async fn of_many_commits_at_once_with_one_key_one_wins(world: World) {
    let ground = world.ground().await;
    let mut commits = Vec::new();
    for second in 1..=8 {
        let new = keyed(&world, &ground, second, key(&ground.account, 7, 1)).await;
        let store = world.store.clone();
        commits.push(tokio::spawn(async move {
            let results = store.commit(std::slice::from_ref(&new), at(9)).await.expect("a commit");
            (new.event.id, results.into_iter().next().expect("one result"))
        }));
    }
    let (mut first, mut named) = (Vec::new(), Vec::new());
    for commit in commits {
        match commit.await.expect("no panic") {
            (id, Committed::New) => first.push(id),
            (_, Committed::Duplicate { of, .. }) => named.push(of),
            (_, other) => panic!("{other:?}"),
        }
    }
    assert_eq!(first.len(), 1);
    assert_eq!(named, [first[0]; 7]);
    assert_eq!(world.lane(ground.destination.id).await.len(), 1);
}

pub(crate) async fn an_event_names_the_routes_that_match_too(world: World) {
    let ground = world.ground().await;
    let routes = [(); 2].map(|()| RouteId::at(at(1), chance()));
    let plain = world.matched(event(&ground.account, at(1)), vec![promise(&ground.route, at(1))]).await;
    let plain = NewEvent { other_routes: routes.to_vec(), ..plain };
    let with_key = keyed(&world, &ground, 2, key(&ground.account, 7, 1)).await;
    let with_key = NewEvent { other_routes: vec![routes[1]], ..with_key };
    let without = keyed(&world, &ground, 3, key(&ground.account, 8, 1)).await;
    for (new, named) in [(plain, &routes[..]), (with_key, &routes[1..]), (without, &[])] {
        assert_eq!(world.commit(&new).await, Committed::New);
        let kept = world.store.event(ground.account.id, new.event.id).await.unwrap();
        assert_eq!(kept.other_routes, named);
        let newest = world.events(&ground.account, &EventFilter::default(), 1).await;
        assert_eq!(newest[0].other_routes, named, "in lists too");
        let waiting = EventFilter { fanout_complete: Some(false), ..EventFilter::default() };
        assert_eq!(world.events(&ground.account, &waiting, 1).await[0].other_routes, named);
    }
}

async fn keyed(world: &World, ground: &Ground, second: u64, key: IdempotencyKey) -> NewEvent {
    let event = event(&ground.account, at(second));
    let new = world.matched(event, vec![promise(&ground.route, at(second))]).await;
    NewEvent { key: Some(key), ..new }
}

// --- What is not written -------------------------------------------------------------------------------------------

pub(crate) async fn a_stale_version_writes_nothing(world: World) {
    let ground = world.ground().await;
    let stale = keyed(&world, &ground, 1, key(&ground.account, 7, 1)).await;
    world.route(&ground.destination).await;
    assert_eq!(world.commit(&stale).await, Committed::Stale);
    is_not_found(world.store.event(ground.account.id, stale.event.id).await, "event");
    assert!(world.lane(ground.destination.id).await.is_empty());

    let matched_again = NewEvent { account_version: world.version(&ground.account).await, ..stale };
    assert_eq!(world.commit(&matched_again).await, Committed::New, "its key is still free");
}

pub(crate) async fn a_stale_neighbour_does_not_hold_up_the_batch(world: World) {
    let (changed, unchanged) = (world.ground().await, world.ground().await);
    let stale = keyed(&world, &changed, 1, key(&changed.account, 7, 1)).await;
    world.route(&changed.destination).await;
    let fresh = keyed(&world, &unchanged, 1, key(&unchanged.account, 7, 1)).await;
    let after_it = keyed(&world, &changed, 2, key(&changed.account, 7, 2)).await;
    let results = world.store.commit(&[stale, fresh, after_it], at(2)).await.unwrap();
    assert_eq!(results, [Committed::Stale, Committed::New, Committed::New], "a stale event takes no key");
}

pub(crate) async fn an_event_without_an_account_is_named(world: World) {
    let ground = world.ground().await;
    let nobody = AccountId::at(at(0), chance());
    let mut orphan = world.matched(event(&ground.account, at(1)), vec![]).await;
    orphan.event = PreparedEvent::new(Event { account_id: nobody, ..Event::clone(&orphan.event) });
    let fine = world.matched(event(&ground.account, at(1)), vec![]).await;
    let results = world.store.commit(&[orphan, fine], at(1)).await.unwrap();
    assert_eq!(results, [Committed::NoAccount(nobody), Committed::New]);
}

pub(crate) async fn committing_the_same_batch_twice_is_harmless(world: World) {
    let ground = world.ground().await;
    let with_key = keyed(&world, &ground, 1, key(&ground.account, 7, 1)).await;
    let without = world.matched(event(&ground.account, at(2)), vec![promise(&ground.route, at(2))]).await;
    let batch = [with_key, without];
    assert_eq!(world.store.commit(&batch, at(2)).await.unwrap(), [Committed::New, Committed::New]);
    assert_eq!(world.store.commit(&batch, at(2)).await.unwrap(), [Committed::New, Committed::New]);
    let lane = world.lane(ground.destination.id).await;
    assert_eq!(lane.len(), 2);

    world.move_on(delivered(&lane[0], at(3))).await;
    world.route(&ground.destination).await;
    let results = world.store.commit(&batch, at(4)).await.unwrap();
    assert_eq!(results, [Committed::New, Committed::New], "whatever has changed since");
    assert_eq!(world.lane(ground.destination.id).await, lane[1..], "what was delivered does not come back");
    assert_eq!(world.events(&ground.account, &EventFilter::default(), 10).await.len(), 2);
}

pub(crate) async fn an_empty_batch_is_nothing(world: World) {
    assert!(world.store.commit(&[], at(1)).await.unwrap().is_empty());
}

pub(crate) async fn a_batch_of_the_largest_size_is_committed_whole(world: World) {
    let ground = world.ground().await;
    let version = world.version(&ground.account).await;
    let batch: Vec<NewEvent> = (0..limits::INGEST_BATCH)
        .map(|n| {
            let received_at = at(1).plus(Duration::from_micros(n as u64));
            let hash = std::array::from_fn(|byte| (n >> (8 * (byte % 2))) as u8);
            NewEvent {
                event: PreparedEvent::new(event(&ground.account, received_at)),
                account_version: version,
                deliveries: vec![promise(&ground.route, received_at)],
                other_routes: Vec::new(),
                expands: false,
                key: Some(IdempotencyKey { hash, ..key(&ground.account, 0, 0) }),
            }
        })
        .collect();
    let results = world.store.commit(&batch, at(1)).await.unwrap();
    assert!(results.len() == batch.len() && results.iter().all(|result| *result == Committed::New));
    let all = store::Window { limit: limits::INGEST_BATCH + 1, ..window(ground.destination.id) };
    let waiting: Vec<DeliveryId> = world.fetch(all).await.iter().map(|fetched| fetched.delivery.id).collect();
    assert_eq!(waiting, batch.iter().map(|new| new.deliveries[0].id).collect::<Vec<_>>());
}

pub(crate) async fn an_event_fans_out_to_as_many_as_fit_into_one_commit(world: World) {
    let ground = world.ground().await;
    let promises = (0..limits::FANOUT_INLINE).map(|_| promise(&ground.route, at(1))).collect();
    let new = world.matched(event(&ground.account, at(1)), promises).await;
    assert_eq!(world.commit(&new).await, Committed::New);
    let fanout = world.store.event(ground.account.id, new.event.id).await.unwrap().fanout;
    assert_eq!((fanout.total, fanout.waiting), (limits::FANOUT_INLINE as u32, limits::FANOUT_INLINE as u32));
}
