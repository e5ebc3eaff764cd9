//! The queue: lanes are read in order, and people's commands move what waits in them.

use crate::fixtures::*;
use domain::{
    delivery::{CancelReason, Delivery, Ending, Position},
    event::Event,
    id::{AttemptId, DeliveryId, DestinationId, EventId},
    limits,
    testing::audit_entry,
};
use std::sync::Arc;
use store::{DeliveryState, LaneHead, StoreError, Window};

// --- Fetching ------------------------------------------------------------------------------------------------------

pub(crate) async fn a_fetch_reads_in_the_order_of_positions(world: World) {
    let ground = world.ground().await;
    let late = promise_due(&ground.route, at(1), at(9));
    let soon = promise_due(&ground.route, at(2), at(3));
    let same = promise_due(&ground.route, at(2), at(3));
    let now = promise_due(&ground.route, at(2), at(2));
    world.commit_promises(event(&ground.account, at(1)), vec![late.clone()]).await;
    world.commit_promises(event(&ground.account, at(2)), vec![same.clone(), soon.clone(), now.clone()]).await;
    assert_eq!(ids(&world.lane(ground.destination.id).await), [now.id, soon.id, same.id, late.id]);
}

pub(crate) async fn a_fetch_starts_at_its_position(world: World) {
    let ground = world.ground().await;
    let mut lane = Vec::new();
    for second in 1..=4 {
        lane.push(world.delivery(&ground, at(second)).await);
    }
    let from = |from| Window { from, ..window(ground.destination.id) };
    let read = async |from_position| ids(&deliveries(world.fetch(from(from_position)).await));
    assert_eq!(read(lane[1].position).await, ids(&lane[1..]), "inclusive");
    assert_eq!(read(lane[1].position.after()).await, ids(&lane[2..]), "what follows");
    assert_eq!(read(lane[3].position.after()).await, []);
    let between = Position { rank: lane[2].position.rank - 1, ..lane[0].position };
    assert_eq!(read(between).await, ids(&lane[2..]));
}

pub(crate) async fn tracks_come_before_ranks(world: World) {
    let ground = world.ground().await;
    let placed = |track, rank| {
        let promise = promise(&ground.route, at(1));
        let position = Position { track, rank, delivery_id: promise.id };
        store::NewDelivery { position, ..promise }
    };
    let promises =
        vec![placed(5, 1), placed(i64::MIN, 7), placed(i64::MAX, -3), placed(5, i64::MIN), placed(-5, 9)];
    let expected = [1, 4, 3, 0, 2].map(|n: usize| promises[n].id);
    world.commit_promises(event(&ground.account, at(1)), promises).await;
    assert_eq!(ids(&world.lane(ground.destination.id).await), expected);
}

pub(crate) async fn a_window_never_returns_more_than_its_limit(world: World) {
    let ground = world.ground().await;
    let first = world.delivery(&ground, at(1)).await;
    let second = world.delivery(&ground, at(2)).await;
    for (limit, expected) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
        let read = world.fetch(Window { limit, ..window(ground.destination.id) }).await;
        assert_eq!(deliveries(read), [&first, &second].map(Clone::clone)[..expected]);
    }
}

pub(crate) async fn many_windows_are_answered_in_their_order(world: World) {
    let account = world.account().await;
    let (mut windows, mut expected) = (Vec::new(), Vec::new());
    for n in 0..20_u64 {
        let destination = world.destination(&account).await;
        let route = world.route(&destination).await;
        let mut lane = Vec::new();
        for second in 0..n % 4 {
            lane.push(world.commit_event(event(&account, at(1 + second)), &[&route]).await.remove(0));
        }
        lane.truncate(2);
        windows.push(Window { limit: 2, ..window(destination.id) });
        expected.push(lane);
    }
    windows.reverse();
    expected.reverse();
    windows.push(window(DestinationId::at(at(0), chance())));
    expected.push(vec![]);
    let read = world.store.fetch(&windows).await.unwrap();
    assert_eq!(read.into_iter().map(deliveries).collect::<Vec<_>>(), expected);
    assert!(world.store.fetch(&[]).await.unwrap().is_empty());
}

pub(crate) async fn an_event_is_read_once_however_many_lanes_have_it(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let route = world.route(&elsewhere).await;
    let given = event(&ground.account, at(1));
    world.commit_event(given.clone(), &[&ground.route, &route, &route]).await;
    let read = world.store.fetch(&[window(ground.destination.id), window(elsewhere.id)]).await.unwrap();
    let events: Vec<&Arc<Event>> =
        read.iter().flatten().map(|row| row.event.as_ref().expect("its event")).collect();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| Arc::ptr_eq(event, events[0])));
    assert_eq!(**events[0], given);
    assert!(
        read.iter().flatten().all(|row| row.has_payload && row.shard == row.delivery.destination_id.shard())
    );
}

pub(crate) async fn large_payloads_are_left_behind(world: World) {
    let ground = world.ground().await;
    for (size, carried) in [(0, true), (limits::CARRIED_BYTES, true), (limits::CARRIED_BYTES + 1, false)] {
        let given = Event { payload: vec![b'x'; size].into(), ..event(&ground.account, at(1)) };
        let delivery = world.commit_event(given.clone(), &[&ground.route]).await.remove(0);
        let row =
            world.fetch(Window { from: delivery.position, ..window(ground.destination.id) }).await.remove(0);
        assert_eq!((row.has_payload, row.delivery.payload_bytes as usize), (carried, size));
        let payload = if carried { given.payload.clone() } else { Default::default() };
        assert_eq!(*row.event.unwrap(), Event { payload, ..given.clone() });
        assert_eq!(plain(world.store.payload(given.id).await), given);
    }
    assert!(world.store.payload(EventId::at(at(0), chance())).await.unwrap().is_none());
}

pub(crate) async fn payloads_of_any_kind_come_back_byte_for_byte(world: World) {
    let ground = world.ground().await;
    let json: String = (0..200).map(|n| format!("{{\"n\":{n},\"id\":\"{:x}\"}},", chance())).collect();
    let noise: Vec<u8> = (0..300).flat_map(|_| chance().to_le_bytes()).collect();
    let zeros = vec![0; 5_000];
    // What looks as if we had packed it ourselves.
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x60], &noise[..2_000]].concat();
    for payload in [&b""[..], b"{}", json.as_bytes(), &json.as_bytes()[..300], &noise, &zeros, &frame] {
        let given = Event { payload: payload.to_vec().into(), ..event(&ground.account, at(1)) };
        let delivery = world.commit_event(given.clone(), &[&ground.route]).await.remove(0);
        let row =
            world.fetch(Window { from: delivery.position, ..window(ground.destination.id) }).await.remove(0);
        assert_eq!(row.delivery.payload_bytes as usize, payload.len());
        assert_eq!(*row.event.unwrap(), given);
        assert_eq!(plain(world.store.payload(given.id).await), given);
        assert_eq!(plain(world.store.event_payload(ground.account.id, given.id).await.map(Some)), given);
        let size = world.store.payload_size(ground.account.id, given.id).await.unwrap();
        assert_eq!(size.accepted, payload.len());
        assert!(size.kept <= size.accepted && size.memory() <= 2 * size.accepted);
        let kept = world.store.kept_payload(ground.account.id, given.id).await.unwrap();
        assert_eq!((&kept.content_type, kept.size), (&given.content_type, payload.len()));
        let pieces: Vec<_> = kept.pieces().unwrap().map(Result::unwrap).collect();
        assert_eq!(pieces.concat(), payload);
        let record = world.store.event(ground.account.id, given.id).await.unwrap();
        assert_eq!(record.size_bytes as usize, payload.len(), "as it was accepted");
    }
}

pub(crate) async fn an_altered_payload_is_not_given_to_be_sent(world: World) {
    let ground = world.ground().await;
    for size in [100, 1_000, limits::CARRIED_BYTES + 1] {
        let altered = Event { payload: vec![b'x'; size].into(), ..event(&ground.account, at(1)) };
        let (whole, id) = (event(&ground.account, at(2)), altered.id);
        let first = world.commit_event(altered.clone(), &[&ground.route]).await.remove(0);
        world.commit_event(whole.clone(), &[&ground.route]).await;
        world.outside.alter_payload(id).await;

        let read = world.fetch(Window { from: first.position, ..window(ground.destination.id) }).await;
        assert!(!read[0].has_payload, "it is to be read at the start");
        let left_out = Event { payload: Default::default(), ..altered };
        assert_eq!(read[0].event.as_deref(), Some(&left_out), "its event is there");
        let refused = world.store.payload(id).await;
        assert!(matches!(refused, Err(StoreError::Altered)), "{refused:?}");
        let refused = world.store.kept_payload(ground.account.id, id).await;
        assert!(matches!(refused, Err(StoreError::Altered)), "{refused:?}");
        let shown = plain(world.store.event_payload(ground.account.id, id).await.map(Some));
        assert!(!shown.payload.is_empty(), "a person may look at what is there");

        assert!(read[1].has_payload, "another's is whole");
        assert_eq!(plain(world.store.payload(whole.id).await), whole);
    }
}

pub(crate) async fn lanes_are_paged_by_shard_and_destination(world: World) {
    let account = world.account().await;
    let mut expected = Vec::new();
    for n in 0..7 {
        let destination = world.destination(&account).await;
        let route = world.route(&destination).await;
        let later = world.commit_event(event(&account, at(5)), &[&route]).await.remove(0);
        let earlier = world.commit_event(event(&account, at(1)), &[&route]).await.remove(0);
        let mut first = earlier.position;
        if n == 3 {
            world.move_on(delivered(&earlier, at(6))).await;
            first = later.position;
        }
        expected.push(LaneHead { shard: destination.id.shard(), destination_id: destination.id, first });
    }
    world.destination(&account).await;
    expected.sort_by_key(|head| (head.shard, head.destination_id));

    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = world.store.lanes(&all_shards(), after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.shard, last.destination_id));
        found.extend(page);
    }
    assert_eq!(found, expected);
}

pub(crate) async fn only_the_lanes_of_the_shards_asked_for_are_named(world: World) {
    let account = world.account().await;
    let mut heads = Vec::new();
    for n in 0..30 {
        let destination = world.destination(&account).await;
        let route = world.route(&destination).await;
        let delivery = world.commit_event(event(&account, at(n)), &[&route]).await.remove(0);
        heads.push((destination.id.shard(), destination.id, delivery.position));
    }
    heads.sort();
    let every_other: Vec<u16> = all_shards().into_iter().filter(|shard| shard % 2 == 1).collect();
    let (first, last) = (heads[0].0, heads[29].0);
    for shards in [every_other, vec![first], vec![last], vec![first, last], vec![], all_shards()] {
        let expected: Vec<_> = heads.iter().filter(|head| shards.binary_search(&head.0).is_ok()).collect();
        for limit in [1, 4, 100] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = world.store.lanes(&shards, after, limit).await.unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                after = Some((last.shard, last.destination_id));
                found.extend(page.into_iter().map(|head| (head.shard, head.destination_id, head.first)));
            }
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{limit} at a time");
        }
    }
    let behind_a_lost_shard = world.store.lanes(&[last], Some((first, heads[0].1)), 9).await.unwrap();
    assert!(behind_a_lost_shard.iter().all(|head| head.shard == last) && !behind_a_lost_shard.is_empty());
}

// --- Commands ------------------------------------------------------------------------------------------------------

pub(crate) async fn a_cancel_wins_over_a_later_settlement(world: World) {
    let ground = world.ground().await;
    let (ours, theirs) = (ground.account.id, world.account().await.id);
    let delivery = world.delivery(&ground, at(1)).await;
    assert_eq!(
        world.store.cancel(theirs, delivery.id, fact(2), at(2), &audit_entry()).await.unwrap(),
        None,
        "not this account's"
    );
    assert_eq!(
        world.store.cancel(ours, delivery.id, fact(2), at(2), &audit_entry()).await.unwrap(),
        Some(delivery.clone())
    );
    assert_eq!(world.settle(&[retried(&delivery, at(1), at(33))], at(3)).await, [false]);
    assert!(world.lane(ground.destination.id).await.is_empty());
    let record = world.store.delivery(ours, delivery.id).await.unwrap();
    let cancelled = Ending::Cancelled(CancelReason::Requested);
    assert_eq!(record.state, DeliveryState::Ended { ending: cancelled, at: at(2) });
    assert_eq!((record.attempts, record.last_outcome), (0, None));
    let attempts = world.store.attempts_of_delivery(ours, delivery.id, 10).await.unwrap();
    assert_eq!(attempts.iter().map(|attempt| attempt.late).collect::<Vec<_>>(), [true], "recorded, as late");
    assert_eq!(world.store.cancel(ours, delivery.id, fact(4), at(4), &audit_entry()).await.unwrap(), None);
}

pub(crate) async fn a_settlement_wins_over_a_later_cancel(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&delivery, at(2))).await;
    assert_eq!(
        world.store.cancel(ground.account.id, delivery.id, fact(3), at(3), &audit_entry()).await.unwrap(),
        None
    );
    let record = world.store.delivery(ground.account.id, delivery.id).await.unwrap();
    assert_eq!(record.state, DeliveryState::Ended { ending: Ending::Delivered, at: over(at(2)) });
    let random = DeliveryId::at(at(0), chance());
    assert_eq!(
        world.store.cancel(ground.account.id, random, fact(3), at(3), &audit_entry()).await.unwrap(),
        None
    );
}

pub(crate) async fn a_retrying_delivery_can_be_cancelled(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(2), at(33))).await;
    let waiting = world.lane(ground.destination.id).await.remove(0);
    let cancelled =
        world.store.cancel(ground.account.id, delivery.id, fact(3), at(3), &audit_entry()).await.unwrap();
    assert_eq!(cancelled, Some(waiting));
    let record = world.store.delivery(ground.account.id, delivery.id).await.unwrap();
    assert_eq!((record.attempts, record.spent, record.last_http_status), (1, 1, Some(503)));
}

pub(crate) async fn retry_now_moves_a_delivery_to_the_present(world: World) {
    let ground = world.ground().await;
    let theirs = world.account().await.id;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(2), at(600))).await;
    let waiting = world.lane(ground.destination.id).await.remove(0);
    assert_eq!(
        world.store.retry_now(theirs, delivery.id, at(5), &audit_entry()).await.unwrap(),
        None,
        "not this account's"
    );

    let expected = Delivery { due_at: at(5), position: Position::due(at(5), delivery.id), ..waiting };
    assert_eq!(
        world.store.retry_now(ground.account.id, delivery.id, at(5), &audit_entry()).await.unwrap(),
        Some(expected.clone())
    );
    assert_eq!(world.lane(ground.destination.id).await, [expected]);
}

pub(crate) async fn retry_now_leaves_a_due_delivery_in_its_place(world: World) {
    let ground = world.ground().await;
    let due = world.delivery(&ground, at(1)).await;
    let behind = world.delivery(&ground, at(2)).await;
    assert_eq!(
        world.store.retry_now(ground.account.id, due.id, at(5), &audit_entry()).await.unwrap(),
        Some(due.clone())
    );
    assert_eq!(world.lane(ground.destination.id).await, [due, behind]);
}

pub(crate) async fn retry_now_does_not_wake_the_dead(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(rejected(&delivery, at(2))).await;
    assert_eq!(
        world.store.retry_now(ground.account.id, delivery.id, at(3), &audit_entry()).await.unwrap(),
        None
    );
    assert!(world.lane(ground.destination.id).await.is_empty());
}

pub(crate) async fn a_backlog_is_counted_up_to_the_limit(world: World) {
    let ground = world.ground().await;
    let idle = world.destination(&ground.account).await;
    for second in 1..=4 {
        world.delivery(&ground, at(second)).await;
    }
    let oldest = world.lane(ground.destination.id).await.remove(0);
    let ids = [idle.id, ground.destination.id, DestinationId::at(at(0), chance())];
    assert_eq!(world.store.backlog(&ids, 10).await.unwrap(), [(0, None), (4, Some(at(1))), (0, None)]);
    assert_eq!(world.store.backlog(&ids, 4).await.unwrap()[1], (4, Some(at(1))));
    assert_eq!(world.store.backlog(&ids, 3).await.unwrap()[1].0, 3);
    world.move_on(retried(&oldest, at(5), at(600))).await;
    assert_eq!(
        world.store.backlog(&ids, 10).await.unwrap()[1],
        (4, Some(at(1))),
        "the oldest, wherever it stands"
    );
    assert!(world.store.backlog(&[], 10).await.unwrap().is_empty());
}

// --- Words ---------------------------------------------------------------------------------------------------------

fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

fn deliveries(fetched: Vec<store::FetchedDelivery>) -> Vec<Delivery> {
    fetched.into_iter().map(|row| row.delivery).collect()
}

fn fact(second: u64) -> AttemptId {
    AttemptId::at(at(second), chance())
}
