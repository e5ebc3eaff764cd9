//! The read side: newest first, every filter, whole traversals, one account at a time.

use crate::fixtures::*;
use domain::{
    attempt::Response,
    delivery::{CancelReason, Ending, Status},
    destination::Destination,
    event::Event,
    id::{AttemptId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
    limits,
    outcome::{DeadReason, Outcome},
    testing::audit_entry,
};
use std::time::Duration;
use store::{
    Committed, DeliveryFilter, DeliveryRecord, DeliveryState, EventFilter, EventRecord, Fact, FanoutCounts,
    Listed, NewEvent, Page, PreparedEvent, Settlement, SuccessRate,
};

// --- Events --------------------------------------------------------------------------------------------------------

pub(crate) async fn events_are_listed_newest_first(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let mut expected = Vec::new();
    for second in 1..=7 {
        world.delivery(&other, at(second)).await;
        expected.insert(0, world.delivery(&ground, at(second)).await.event_id);
    }
    for limit in [1, 2, 3, 7, 50] {
        let found = world.events(&ground.account, &EventFilter::default(), limit).await;
        assert_eq!(event_ids(&found), expected, "in pages of {limit}");
    }
    let page = Page { before: Some(expected[2]), limit: 2 };
    let listed = world.store.events(ground.account.id, &EventFilter::default(), page).await.unwrap();
    assert_eq!(event_ids(&listed.rows), expected[3..5]);
}

pub(crate) async fn an_events_record_has_no_payload_but_its_size(world: World) {
    let account = world.account().await;
    let given = Event { payload: vec![b'x'; 100_000].into(), ..event(&account, at(1)) };
    world.commit_event(given.clone(), &[]).await;
    let record = world.store.event(account.id, given.id).await.unwrap();
    assert_eq!(record.size_bytes, 100_000);
    assert!(record.event.payload.is_empty());
    assert_eq!(world.events(&account, &EventFilter::default(), 10).await, [record]);
}

pub(crate) async fn events_are_filtered(world: World) {
    let account = world.account().await;
    let (shop, bank) = (world.source(&account).await, world.source(&account).await);
    let mut made = Vec::new();
    for (second, word, source, key) in [
        (1, "invoice.paid", None, Some("a")),
        (2, "invoice.sent", Some(shop.id), Some("b")),
        (3, "refund.card.done", Some(bank.id), None),
        (4, "invoice", Some(shop.id), Some("a")),
    ] {
        let mut given = event(&account, at(second));
        (given.event_type, given.source_id) = (word.parse().unwrap(), source);
        given.idempotency_key = key.map(Into::into);
        made.push(given.id);
        world.commit_event(given, &[]).await;
    }
    let pattern = |text: &str| text.parse::<domain::pattern::Pattern>().unwrap();
    let none = EventFilter::default;
    let cases = [
        (EventFilter { types: vec![pattern("invoice.*")], ..none() }, vec![1, 0]),
        (EventFilter { types: vec![pattern("invoice.paid"), pattern("refund.**")], ..none() }, vec![2, 0]),
        (EventFilter { types: vec![pattern("*")], ..none() }, vec![3, 2, 1, 0]),
        (EventFilter { types: vec![pattern("*.*.done")], ..none() }, vec![2]),
        (EventFilter { source_ids: vec![shop.id], ..none() }, vec![3, 1]),
        (EventFilter { source_ids: vec![shop.id, bank.id], ..none() }, vec![3, 2, 1]),
        (EventFilter { source_ids: vec![SourceId::at(at(0), chance())], ..none() }, vec![]),
        (EventFilter { idempotency_keys: vec!["a".into()], ..none() }, vec![3, 0]),
        (EventFilter { idempotency_keys: vec!["A".into(), "b".into()], ..none() }, vec![1]),
        (EventFilter { since: Some(at(2)), ..none() }, vec![3, 2, 1]),
        (EventFilter { until: Some(at(2)), ..none() }, vec![0]),
        (EventFilter { since: Some(at(2)), until: Some(at(4)), ..none() }, vec![2, 1]),
        (EventFilter { types: vec![pattern("invoice.*")], source_ids: vec![shop.id], ..none() }, vec![1]),
    ];
    for (filter, expected) in cases {
        let expected: Vec<EventId> = expected.into_iter().map(|n: usize| made[n]).collect();
        for limit in [1, 2, 50] {
            assert_eq!(
                event_ids(&world.events(&account, &filter, limit).await),
                expected,
                "{filter:?} by {limit}"
            );
        }
    }
}

pub(crate) async fn events_are_told_apart_by_their_fan_outs_end(world: World) {
    let ground = world.ground().await;
    let unmatched = event(&ground.account, at(1));
    let open = event(&ground.account, at(2));
    let done = event(&ground.account, at(3));
    let (complete, incomplete) = ([done.id, unmatched.id], [open.id]);
    world.commit_event(unmatched, &[]).await;
    for (given, both) in [(open, false), (done, true)] {
        let deliveries = world.commit_event(given, &[&ground.route, &ground.route]).await;
        world.move_on(delivered(&deliveries[0], at(4))).await;
        if both {
            world.move_on(rejected(&deliveries[1], at(5))).await;
        }
    }
    for (wanted, expected) in [(true, &complete[..]), (false, &incomplete[..])] {
        let filter = EventFilter { fanout_complete: Some(wanted), ..EventFilter::default() };
        for limit in [1, 10] {
            assert_eq!(event_ids(&world.events(&ground.account, &filter, limit).await), expected);
        }
    }
}

pub(crate) async fn a_filter_that_matches_little_still_reaches_the_end(world: World) {
    let account = world.account().await;
    let version = world.version(&account).await;
    let wanted = Event { event_type: "rare".parse().unwrap(), ..event(&account, at(1)) };
    world.commit_event(wanted.clone(), &[]).await;
    let mut left = limits::PAGE_SCAN + 1;
    while left > 0 {
        let count = left.min(limits::INGEST_BATCH);
        let filler = |_| NewEvent {
            event: PreparedEvent::new(event(&account, at(2))),
            account_version: version,
            deliveries: vec![],
            other_routes: Vec::new(),
            expands: false,
            key: None,
        };
        world.store.commit(&(0..count).map(filler).collect::<Vec<_>>(), at(2)).await.unwrap();
        left -= count;
    }
    let filter = EventFilter { types: vec!["rare".parse().unwrap()], ..EventFilter::default() };
    assert_eq!(event_ids(&world.events(&account, &filter, 10).await), [wanted.id]);
}

pub(crate) async fn a_fan_out_is_counted_through_its_life(world: World) {
    let ground = world.ground().await;
    let given = event(&ground.account, at(1));
    let id = given.id;
    let deliveries = world.commit_event(given, &[&ground.route; 4]).await;
    let fanout = async || world.store.event(ground.account.id, id).await.unwrap().fanout;
    let alone = world.store.event_alone(ground.account.id, id).await.unwrap();
    assert_eq!(alone, world.store.event(ground.account.id, id).await.unwrap().event);
    let mut expected = FanoutCounts { total: 4, waiting: 4, ..FanoutCounts::default() };
    assert_eq!(fanout().await, expected);

    world.move_on(retried(&deliveries[0], at(2), at(3))).await;
    assert_eq!(fanout().await, expected, "a retry waits");
    world.move_on(delivered(&deliveries[1], at(9))).await;
    (expected.waiting, expected.delivered) = (3, 1);
    assert_eq!(fanout().await, expected);
    world.move_on(rejected(&deliveries[2], at(3))).await;
    (expected.waiting, expected.dead_letter) = (2, 1);
    assert_eq!(fanout().await, expected);
    world.store.cancel(ground.account.id, deliveries[3].id, fact(4), at(4), &audit_entry()).await.unwrap();
    (expected.waiting, expected.cancelled) = (1, 1);
    assert_eq!(fanout().await, expected);
    let retrying = world.lane(ground.destination.id).await.remove(0);
    world.move_on(delivered(&retrying, at(5))).await;
    (expected.waiting, expected.delivered) = (0, 2);
    expected.completed_at = Some(over(at(9)));
    assert_eq!(fanout().await, expected, "complete when the last to end had ended");
    assert_eq!(world.events(&ground.account, &EventFilter::default(), 10).await[0].fanout, expected);
    let unknown = EventId::at(at(1), chance());
    assert_eq!(world.store.fanouts(&[unknown, id]).await.unwrap(), [None, Some(expected)]);
    assert!(world.store.fanouts(&[]).await.unwrap().is_empty());
}

pub(crate) async fn a_late_word_does_not_count(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.store.cancel(ground.account.id, delivery.id, fact(2), at(2), &audit_entry()).await.unwrap();
    assert_eq!(world.settle(&[delivered(&delivery, at(1))], at(3)).await, [false]);
    let fanout = world.store.event(ground.account.id, delivery.event_id).await.unwrap().fanout;
    assert_eq!((fanout.cancelled, fanout.delivered, fanout.completed_at), (1, 0, Some(at(2))));
    let delivered = DeliveryFilter { statuses: vec![Status::Delivered], ..DeliveryFilter::default() };
    assert!(world.deliveries(&ground.account, &delivered, 10).await.is_empty());
}

// --- Deliveries ----------------------------------------------------------------------------------------------------

pub(crate) async fn a_deliverys_record_tells_its_story(world: World) {
    let account = world.account().await;
    let source = world.source(&account).await;
    let destination = world.destination(&account).await;
    let route = world.route(&destination).await;
    let given = Event {
        source_id: Some(source.id),
        ordering_key: Some("cart-7".into()),
        event_type: "cart.closed".parse().unwrap(),
        ..event(&account, at(1))
    };
    let waiting = world.commit_event(given.clone(), &[&route]).await.remove(0);
    let mut expected = DeliveryRecord {
        id: waiting.id,
        account_id: account.id,
        event_id: given.id,
        event_type: "cart.closed".into(),
        source_id: Some(source.id),
        route_id: route.id,
        destination_id: destination.id,
        replay_id: None,
        origin: waiting.id,
        attempts: 0,
        spent: 0,
        last_outcome: None,
        last_http_status: None,
        ordering_key: Some("cart-7".into()),
        sequence: None,
        created_at: at(1),
        state: DeliveryState::Waiting(Box::new(waiting.clone())),
        resolution: None,
    };
    let read = async || world.store.delivery(account.id, waiting.id).await.unwrap();
    assert_eq!(read().await, expected);

    world.move_on(retried(&waiting, at(2), at(33))).await;
    let retrying = world.lane(destination.id).await.remove(0);
    (expected.attempts, expected.spent) = (1, 1);
    (expected.last_outcome, expected.last_http_status) = (Some(Outcome::ServerError), Some(503));
    expected.state = DeliveryState::Waiting(Box::new(retrying.clone()));
    assert_eq!(read().await, expected);

    world.move_on(delivered(&retrying, at(33))).await;
    expected.attempts = 2;
    (expected.last_outcome, expected.last_http_status) = (Some(Outcome::Success), Some(200));
    expected.state = DeliveryState::Ended { ending: Ending::Delivered, at: over(at(33)) };
    assert_eq!(read().await, expected);
    assert_eq!(world.deliveries(&account, &DeliveryFilter::default(), 10).await, [expected]);
}

pub(crate) async fn waiting_and_ended_deliveries_are_one_list(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let mut made = Vec::new();
    for second in 1..=9 {
        world.delivery(&other, at(second)).await;
        let delivery = world.delivery(&ground, at(second)).await;
        match second % 3 {
            0 => world.move_on(delivered(&delivery, at(20))).await,
            1 => world.move_on(retried(&delivery, at(20), at(600))).await,
            _ => {}
        }
        made.insert(0, delivery.id);
    }
    for limit in [1, 2, 4, 9, 50] {
        let found = world.deliveries(&ground.account, &DeliveryFilter::default(), limit).await;
        assert_eq!(delivery_ids(&found), made, "in pages of {limit}");
    }
}

pub(crate) async fn a_delivery_that_ends_between_two_pages_is_listed_once(world: World) {
    let ground = world.ground().await;
    let mut made = Vec::new();
    for second in 1..=6 {
        made.insert(0, world.delivery(&ground, at(second)).await);
    }
    let (mut seen, mut before, mut ending) = (Vec::new(), None, made.iter());
    loop {
        let page = Page { before, limit: 2 };
        let listed =
            world.store.deliveries(ground.account.id, &DeliveryFilter::default(), page).await.unwrap();
        seen.extend(delivery_ids(&listed.rows));
        let Some(next) = listed.next else { break };
        before = Some(next);
        // One that was listed ends, and one that was not.
        for delivery in [ending.next(), ending.next_back()].into_iter().flatten() {
            world.move_on(delivered(delivery, at(9))).await;
        }
    }
    assert_eq!(seen, made.iter().map(|delivery| delivery.id).collect::<Vec<_>>());
}

pub(crate) async fn deliveries_are_filtered(world: World) {
    let account = world.account().await;
    let source = world.source(&account).await;
    let (one, two) = (world.destination(&account).await, world.destination(&account).await);
    let (by_one, by_two) = (world.route(&one).await, world.route(&two).await);
    let mut made = Vec::new();
    for second in 1..=6_u64 {
        let mut given = event(&account, at(second));
        given.source_id = (second % 2 == 0).then_some(source.id);
        given.event_type = if second <= 3 { "invoice.paid" } else { "refund.done" }.parse().unwrap();
        let route = if second <= 4 { &by_one } else { &by_two };
        made.push(world.commit_event(given, &[route]).await.remove(0));
    }
    // 0 queued, 1 retrying, 2 delivered, 3 rejected, 4 expired without an attempt, 5 cancelled
    world.move_on(retried(&made[1], at(7), at(600))).await;
    world.move_on(delivered(&made[2], at(7))).await;
    world.move_on(rejected(&made[3], at(7))).await;
    world.move_on(ended_without(&made[4], at(8), Ending::DeadLetter(DeadReason::Expired))).await;
    world.store.cancel(account.id, made[5].id, fact(8), at(8), &audit_entry()).await.unwrap();

    let none = DeliveryFilter::default;
    let statuses = |statuses: &[Status]| DeliveryFilter { statuses: statuses.into(), ..none() };
    let reasons = |reasons: &[&str]| DeliveryFilter {
        reasons: reasons.iter().map(|reason| (*reason).into()).collect(),
        ..none()
    };
    let pattern = |text: &str| text.parse::<domain::pattern::Pattern>().unwrap();
    let cases = [
        (none(), vec![5, 4, 3, 2, 1, 0]),
        (statuses(&[Status::Queued]), vec![0]),
        (statuses(&[Status::RetryScheduled]), vec![1]),
        (statuses(&[Status::Delivering]), vec![1, 0]),
        (statuses(&[Status::Queued, Status::RetryScheduled]), vec![1, 0]),
        (statuses(&[Status::Delivered]), vec![2]),
        (statuses(&[Status::DeadLetter]), vec![4, 3]),
        (statuses(&[Status::Cancelled]), vec![5]),
        (statuses(&[Status::Queued, Status::Delivered, Status::Cancelled]), vec![5, 2, 0]),
        (statuses(&Status::ALL), vec![5, 4, 3, 2, 1, 0]),
        (reasons(&["rejected"]), vec![3]),
        (reasons(&["rejected", "expired"]), vec![4, 3]),
        (reasons(&[CancelReason::Requested.as_str()]), vec![5]),
        (reasons(&["exhausted"]), vec![]),
        (DeliveryFilter { event_ids: vec![made[0].event_id, made[4].event_id], ..none() }, vec![4, 0]),
        (DeliveryFilter { event_ids: vec![EventId::at(at(0), chance())], ..none() }, vec![]),
        (DeliveryFilter { destination_ids: vec![two.id], ..none() }, vec![5, 4]),
        (DeliveryFilter { destination_ids: vec![one.id, two.id], ..none() }, vec![5, 4, 3, 2, 1, 0]),
        (DeliveryFilter { destination_ids: vec![DestinationId::at(at(0), chance())], ..none() }, vec![]),
        (DeliveryFilter { route_ids: vec![by_one.id], ..none() }, vec![3, 2, 1, 0]),
        (DeliveryFilter { route_ids: vec![RouteId::at(at(0), chance())], ..none() }, vec![]),
        (DeliveryFilter { source_ids: vec![source.id], ..none() }, vec![5, 3, 1]),
        (DeliveryFilter { types: vec![pattern("invoice.*")], ..none() }, vec![2, 1, 0]),
        (
            DeliveryFilter { types: vec![pattern("invoice.*"), pattern("refund.**")], ..none() },
            vec![5, 4, 3, 2, 1, 0],
        ),
        (DeliveryFilter { http_statuses: vec![503], ..none() }, vec![1]),
        (DeliveryFilter { http_statuses: vec![200, 404], ..none() }, vec![3, 2]),
        (DeliveryFilter { replay_ids: vec![ReplayId::at(at(0), chance())], ..none() }, vec![]),
        (DeliveryFilter { since: Some(at(3)), ..none() }, vec![5, 4, 3, 2]),
        (DeliveryFilter { until: Some(at(3)), ..none() }, vec![1, 0]),
        (DeliveryFilter { since: Some(at(2)), until: Some(at(5)), ..none() }, vec![3, 2, 1]),
        (DeliveryFilter { destination_ids: vec![one.id], ..statuses(&[Status::DeadLetter]) }, vec![3]),
        (
            DeliveryFilter { types: vec![pattern("refund.*")], source_ids: vec![source.id], ..none() },
            vec![5, 3],
        ),
        (DeliveryFilter { http_statuses: vec![503], ..statuses(&[Status::Delivered]) }, vec![]),
    ];
    for (filter, expected) in cases {
        let expected: Vec<DeliveryId> = expected.into_iter().map(|n: usize| made[n].id).collect();
        for limit in [1, 2, 50] {
            let found = world.deliveries(&account, &filter, limit).await;
            assert_eq!(delivery_ids(&found), expected, "{filter:?} in pages of {limit}");
        }
    }
}

// --- Large rows ----------------------------------------------------------------------------------------------------

/// An attempt with an answer that takes six times its size as text.
fn with_large_answer(mut settlement: Settlement) -> Settlement {
    if let Fact::Attempted(attempt) = &mut settlement.fact {
        let body = Some("\u{1}".repeat(limits::RESPONSE_BODY_KEPT_BYTES));
        attempt.detail.response = Some(Response { body, ..Response::default() });
    }
    settlement
}

/// How many rows each page of a walk has, and all of them.
async fn pages<T, K>(read: impl AsyncFn(Page<K>) -> Listed<T, K>) -> (Vec<usize>, Vec<T>) {
    let (mut sizes, mut rows, mut page) = (Vec::new(), Vec::new(), first(200));
    loop {
        let listed = read(page).await;
        sizes.push(listed.rows.len());
        rows.extend(listed.rows);
        let Some(next) = listed.next else { return (sizes, rows) };
        page = Page { before: Some(next), limit: 200 };
    }
}

pub(crate) async fn a_page_of_large_rows_has_fewer_and_goes_on_where_it_stopped(world: World) {
    let ground = world.ground().await;
    let (account, destination_id) = (ground.account.id, ground.destination.id);
    let (mut ids, mut deliveries) = (Vec::new(), Vec::new());
    let metadata = serde_json::json!({ "note": "x".repeat(limits::METADATA_BYTES - 100) });
    for second in 1..=70 {
        let metadata = metadata.as_object().expect("an object").clone();
        let given = Event { metadata, ..event(&ground.account, at(second)) };
        ids.insert(0, given.id);
        let delivery = world.commit_event(given, &[&ground.route]).await.remove(0);
        world.move_on(with_large_answer(delivered(&delivery, at(second)))).await;
        deliveries.insert(0, delivery.id);
    }

    let all = EventFilter::default();
    let (sizes, rows) = pages(async |page| world.store.events(account, &all, page).await.unwrap()).await;
    assert_eq!(rows.iter().map(|row| row.event.id).collect::<Vec<_>>(), ids);
    assert!(sizes.len() == 2 && sizes[0] > sizes[1], "{sizes:?}");
    // The same with a filter: then a page looks at more than it gives.
    let some = EventFilter { since: Some(at(6)), ..EventFilter::default() };
    let (sizes, rows) = pages(async |page| world.store.events(account, &some, page).await.unwrap()).await;
    assert_eq!(rows.iter().map(|row| row.event.id).collect::<Vec<_>>(), ids[..65]);
    assert_eq!(sizes.len(), 2, "{sizes:?}");

    let read = async |page| world.store.attempts_of_destination(account, destination_id, page).await.unwrap();
    let (sizes, rows) = pages(read).await;
    assert_eq!(rows.iter().map(|row| row.delivery_id).collect::<Vec<_>>(), deliveries);
    assert_eq!(sizes[..6], [10; 6], "a hundred kilobytes each: {sizes:?}");

    let mut destinations = vec![destination_id];
    let large = "x".repeat(limits::CUSTOM_HEADER_VALUE_BYTES);
    let headers: Vec<_> = (0..limits::CUSTOM_HEADERS).map(|n| (format!("x-{n}"), large.clone())).collect();
    for _ in 0..50 {
        let given = Destination { headers: headers.clone(), ..destination(&ground.account) };
        destinations.insert(0, world.store.create_destination(&given, &audit_entry()).await.unwrap().id);
    }
    let (sizes, rows) = pages(async |page| world.store.destinations(account, page).await.unwrap()).await;
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), destinations);
    assert!(sizes.len() == 2 && sizes[0] > sizes[1], "{sizes:?}");
}

pub(crate) async fn attempts_of_a_delivery_are_all_told_however_large_they_are(world: World) {
    let ground = world.ground().await;
    let mut delivery = world.delivery(&ground, at(1)).await;
    for second in 2..=21 {
        world.move_on(with_large_answer(retried(&delivery, at(second), at(second)))).await;
        delivery = world.lane(ground.destination.id).await.remove(0);
    }
    let attempts = world.store.attempts_of_delivery(ground.account.id, delivery.id, 200).await.unwrap();
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), Vec::from_iter(1..=20));
    let answers: Vec<_> = attempts.iter().filter_map(|attempt| attempt.detail.response.as_ref()).collect();
    assert_eq!(answers.len(), 20);
    let whole = answers.iter().take_while(|answer| answer.body.is_some()).count();
    assert_eq!(whole, 10);
    assert!(answers[whole..].iter().all(|answer| answer.body.is_none() && answer.truncated));
}

// --- Attempts ------------------------------------------------------------------------------------------------------

pub(crate) async fn attempts_of_a_delivery_come_oldest_first(world: World) {
    let ground = world.ground().await;
    let mut delivery = world.delivery(&ground, at(1)).await;
    for second in 2..=5 {
        world.move_on(retried(&delivery, at(second), at(second))).await;
        delivery = world.lane(ground.destination.id).await.remove(0);
    }
    world.move_on(rejected(&delivery, at(9))).await;
    let attempts = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(attempts[4].http_status, Some(404));
    let some = world.store.attempts_of_delivery(ground.account.id, delivery.id, 2).await.unwrap();
    assert_eq!(some, attempts[..2]);
}

pub(crate) async fn attempts_of_a_destination_are_paged(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let route = world.route(&elsewhere).await;
    let mut expected = Vec::new();
    for second in 1..=5 {
        let deliveries =
            world.commit_event(event(&ground.account, at(second)), &[&ground.route, &route]).await;
        world.move_on(delivered(&deliveries[1], at(9))).await;
        let mut of_delivery = Vec::new();
        let mut delivery = deliveries[0].clone();
        for n in 1..=second % 4 {
            world.move_on(retried(&delivery, at(10 + n), at(20 + n))).await;
            let lane = world.lane(ground.destination.id).await;
            delivery = lane.into_iter().find(|waiting| waiting.id == delivery.id).expect("it waits");
            of_delivery.insert(0, (delivery.id, n as u32));
        }
        expected.splice(0..0, of_delivery);
    }
    for limit in [1, 2, 3, 50] {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let rows = world.store.attempts_of_destination(
                ground.account.id,
                ground.destination.id,
                Page { before, limit },
            );
            let rows = rows.await.unwrap().rows;
            let Some(last) = rows.last() else { break };
            assert!(rows.len() <= limit);
            before = Some((last.delivery_id, last.id));
            found.extend(rows.iter().map(|attempt| (attempt.delivery_id, attempt.number)));
        }
        assert_eq!(found, expected, "in pages of {limit}");
    }
}

pub(crate) async fn attempts_are_listed_by_their_beginnings_however_late_they_were_written(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(5), at(20))).await;
    // What others say who believe that they own it.
    for second in [7, 3, 6] {
        let late = [retried(&delivery, at(second), at(20))];
        assert_eq!(world.settle(&late, at(9)).await, [false]);
    }
    for limit in [1, 2, 3, 50] {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let rows = world.store.attempts_of_destination(
                ground.account.id,
                ground.destination.id,
                Page { before, limit },
            );
            let rows = rows.await.unwrap().rows;
            let Some(last) = rows.last() else { break };
            before = Some((last.delivery_id, last.id));
            found.extend(rows.iter().map(|attempt| attempt.started_at));
        }
        assert_eq!(found, [7, 6, 5, 3].map(at), "in pages of {limit}");
    }
    let of_delivery = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
    assert_eq!(
        of_delivery.iter().map(|attempt| attempt.started_at).collect::<Vec<_>>(),
        [3, 5, 6, 7].map(at)
    );
}

pub(crate) async fn a_deleted_destinations_attempts_are_still_history(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&delivery, at(2))).await;
    world
        .store
        .delete_destination(ground.account.id, ground.destination.id, at(3), &audit_entry())
        .await
        .unwrap();
    let attempts = world
        .store
        .attempts_of_destination(ground.account.id, ground.destination.id, first(10))
        .await
        .unwrap();
    assert_eq!((attempts.rows.len(), attempts.next), (1, None));
    assert_eq!(world.store.delivery(ground.account.id, delivery.id).await.unwrap().attempts, 1);
}

pub(crate) async fn a_destination_has_a_success_rate(world: World) {
    let ground = world.ground().await;
    let id = ground.destination.id;
    let rate = |since, limit| {
        let store = world.store.clone();
        async move { store.success_rates(&[id, DestinationId::at(at(0), chance())], since, limit).await.unwrap() }
    };
    assert_eq!(rate(at(0), 10).await, [SuccessRate::default(); 2]);
    for second in 1..=3 {
        let delivery = world.delivery(&ground, at(second)).await;
        world.move_on(delivered(&delivery, at(second))).await;
    }
    let delivery = world.delivery(&ground, at(4)).await;
    world.move_on(rejected(&delivery, at(4))).await;
    let counted = |successes, attempts| [SuccessRate { successes, attempts }, SuccessRate::default()];
    assert_eq!(rate(at(0), 10).await, counted(3, 4));
    assert_eq!(rate(at(3), 10).await, counted(1, 2), "older ones do not count");
    assert_eq!(rate(at(0), 2).await, counted(1, 2), "the newest of them");
}

// --- Isolation -----------------------------------------------------------------------------------------------------

pub(crate) async fn one_account_sees_nothing_of_another(world: World) {
    let (ours, theirs) = (world.ground().await, world.ground().await);
    let me = ours.account.id;
    let waiting = world.delivery(&theirs, at(1)).await;
    let ended = world.delivery(&theirs, at(2)).await;
    world.move_on(delivered(&ended, at(3))).await;
    for id in [ended.event_id, EventId::at(at(0), chance())] {
        is_not_found(world.store.event(me, id).await, "event");
        is_not_found(world.store.event_alone(me, id).await, "event");
        is_not_found(world.store.event_payload(me, id).await, "event");
        is_not_found(world.store.payload_size(me, id).await, "event");
        is_not_found(world.store.kept_payload(me, id).await, "event");
    }
    for id in [waiting.id, ended.id, DeliveryId::at(at(0), chance())] {
        is_not_found(world.store.delivery(me, id).await, "delivery");
        assert!(world.store.attempts_of_delivery(me, id, 10).await.unwrap().is_empty());
    }
    let attempts =
        world.store.attempts_of_destination(me, theirs.destination.id, first(10)).await.unwrap().rows;
    assert!(attempts.is_empty());
    assert!(world.events(&ours.account, &EventFilter::default(), 10).await.is_empty());
    let by_event =
        DeliveryFilter { event_ids: vec![waiting.event_id, ended.event_id], ..DeliveryFilter::default() };
    let by_destination =
        DeliveryFilter { destination_ids: vec![theirs.destination.id], ..DeliveryFilter::default() };
    for filter in [DeliveryFilter::default(), by_event, by_destination] {
        assert!(world.deliveries(&ours.account, &filter, 10).await.is_empty());
    }
}

pub(crate) async fn a_page_of_equal_moments_is_still_in_order(world: World) {
    let ground = world.ground().await;
    let version = world.version(&ground.account).await;
    let fresh = |_| NewEvent {
        event: PreparedEvent::new(event(&ground.account, at(1).plus(Duration::from_micros(5)))),
        account_version: version,
        deliveries: vec![promise(&ground.route, at(1))],
        other_routes: Vec::new(),
        expands: false,
        key: None,
    };
    let batch: Vec<NewEvent> = (0..25).map(fresh).collect();
    let results = world.store.commit(&batch, at(1)).await.unwrap();
    assert!(results.iter().all(|result| *result == Committed::New));
    let events = world.events(&ground.account, &EventFilter::default(), 4).await;
    assert_eq!(event_ids(&events), batch.iter().rev().map(|new| new.event.id).collect::<Vec<_>>());
    let deliveries = world.deliveries(&ground.account, &DeliveryFilter::default(), 4).await;
    let expected: Vec<DeliveryId> = batch.iter().rev().map(|new| new.deliveries[0].id).collect();
    assert_eq!(delivery_ids(&deliveries), expected);
}

// --- Words ---------------------------------------------------------------------------------------------------------

fn event_ids(records: &[EventRecord]) -> Vec<EventId> {
    records.iter().map(|record| record.event.id).collect()
}

fn delivery_ids(records: &[DeliveryRecord]) -> Vec<DeliveryId> {
    records.iter().map(|record| record.id).collect()
}

fn fact(second: u64) -> AttemptId {
    AttemptId::at(at(second), chance())
}
