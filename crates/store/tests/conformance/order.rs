//! Order: numbers without gaps, in the order of commits; tracks; and turns for those whose time has come.

use crate::fixtures::*;
use domain::{
    delivery::{CancelReason, Delivery, Ending, Position, Settled},
    destination::{Destination, Numbering},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, NodeId},
    outcome::Outcome,
    route::Route,
    testing::audit_entry,
};
use std::{slice, sync::Arc};
use store::{
    Chunk, Committed, DeliveryState, DueDelivery, FanoutCounts, NewDelivery, NewEvent, PreparedEvent,
    RoutePage, RouteWalk, Store, TrackHead, Window,
};

// --- Numbers -------------------------------------------------------------------------------------------------------

pub(crate) async fn numbers_have_no_gaps_and_the_order_of_the_batch(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let route = world.route(&elsewhere).await;
    let mut expected = Vec::new();
    for second in 1..=3 {
        let mut batch = Vec::new();
        for _ in 0..4 {
            let promises = vec![
                promise_in(&ground.route, at(second), 7),
                promise_in(&route, at(second), 1),
                promise(&route, at(second)),
                promise_in(&ground.route, at(second), -5),
            ];
            expected.extend([promises[0].id, promises[3].id]);
            batch.push(world.matched(event(&ground.account, at(second)), promises).await);
        }
        all_new(&world.store.commit(&batch, at(second)).await.unwrap());
    }
    let lane = world.lane(ground.destination.id).await;
    assert_eq!(by_number(&lane), numbered(&expected));
    for delivery in &lane {
        let number = delivery.sequence.unwrap();
        let track = if number % 2 == 1 { 7 } else { -5 };
        assert_eq!(delivery.position, Position::ordered(track, number, delivery.id));
    }
    assert!(lane[..12].iter().all(|delivery| delivery.position.track == -5), "tracks come first");

    let mixed = world.lane(elsewhere.id).await;
    let (ordered, plain): (Vec<_>, Vec<_>) =
        mixed.into_iter().partition(|delivery| delivery.sequence.is_some());
    assert_eq!(numbers(&ordered), Vec::from_iter(1..=12), "each destination has numbers of its own");
    assert_eq!(plain.len(), 12);
    assert!(plain.iter().all(|delivery| delivery.position == Position::due(delivery.due_at, delivery.id)));
}

/// So that a receiver sees what is missing, or out of order.
pub(crate) async fn a_destination_without_order_may_number_too(world: World) {
    let ground = world.ground().await;
    let counted = Destination { sequence: true, ..destination(&ground.account) };
    let counted = world.store.create_destination(&counted, &audit_entry()).await.unwrap();
    let route = world.route(&counted).await;
    let changes = world.store.changes(ground.account.id, 0).await.unwrap();
    assert_eq!(changes.numberings, [(counted.id, Numbering::Unordered)]);
    let walk =
        RouteWalk { account_id: ground.account.id, source_id: None, after: None, limit: 9, known: None };
    let RoutePage::Read { numberings, .. } = world.store.routes_after(&walk).await.unwrap() else {
        panic!("nothing is known of it")
    };
    assert_eq!(numberings, changes.numberings);

    let number = |due| {
        let id = DeliveryId::at(at(1), chance());
        NewDelivery::new(id, route.id, (counted.id, Numbering::Unordered), None, due, at(1))
    };
    let (first, later, second) = (number(at(1)), number(at(60)), number(at(2)));
    for promises in [vec![first.clone()], vec![later.clone()]] {
        let new = world.matched(event(&ground.account, at(1)), promises).await;
        assert_eq!(world.commit(&new).await, Committed::New);
    }
    let large = world.matched(event(&ground.account, at(1)), vec![]).await;
    let large = NewEvent { expands: true, ..large };
    assert_eq!(world.commit(&large).await, Committed::New);
    let chunk = Chunk {
        event_id: large.event.id,
        from: None,
        to: Some(counted.id),
        deliveries: vec![second.clone()],
        other_routes: Vec::new(),
        done: true,
    };
    assert!(world.store.expand(&chunk).await.unwrap());
    let lane = world.lane(counted.id).await;
    assert_eq!(ids(&lane), [first.id, second.id, later.id], "by their time, as in any lane without order");
    let told: Vec<_> = lane.iter().map(|delivery| delivery.sequence).collect();
    assert_eq!(told, [Some(1), Some(3), Some(2)], "numbered as they were committed");
    assert!(lane.iter().all(|delivery| delivery.position == Position::due(delivery.due_at, delivery.id)));
    let now = world
        .store
        .retry_now(ground.account.id, later.id, at(3), &audit_entry())
        .await
        .unwrap()
        .expect("it waits");
    assert_eq!((now.position, now.sequence), (Position::due(at(3), later.id), Some(2)));
}

pub(crate) async fn what_is_not_written_takes_no_number(world: World) {
    let ground = world.ground().await;
    let new = async |named| {
        let promises = vec![promise_in(&ground.route, at(1), 1)];
        let new = world.matched(event(&ground.account, at(1)), promises).await;
        NewEvent { key: named, ..new }
    };
    let first = new(Some(key(&ground.account, 1, 1))).await;
    let same_key = new(Some(key(&ground.account, 1, 1))).await;
    let current = new(None).await;
    let stale = NewEvent { account_version: current.account_version - 1, ..new(None).await };
    let mut nobodys = new(None).await;
    let nobody = AccountId::at(at(0), chance());
    nobodys.event = PreparedEvent::new(Event { account_id: nobody, ..Event::clone(&nobodys.event) });
    let batch = [stale, first.clone(), same_key, nobodys, current.clone()];
    let committed = world.store.commit(&batch, at(1)).await.unwrap();
    let duplicate = Committed::Duplicate { of: first.event.id, deliveries: Some(1), body_hash: [1; 32] };
    let expected =
        [Committed::Stale, Committed::New, duplicate, Committed::NoAccount(nobody), Committed::New];
    assert_eq!(committed, expected);
    let expected = [first.deliveries[0].id, current.deliveries[0].id];
    assert_eq!(by_number(&world.lane(ground.destination.id).await), numbered(&expected));
}

pub(crate) async fn a_repeated_batch_takes_no_numbers_again(world: World) {
    let ground = world.ground().await;
    let mut batch = Vec::new();
    for name in 0..4 {
        let promises = vec![promise_in(&ground.route, at(1), 1)];
        let new = world.matched(event(&ground.account, at(1)), promises).await;
        batch.push(NewEvent { key: (name < 2).then(|| key(&ground.account, name, 1)), ..new });
    }
    all_new(&world.store.commit(&batch[..2], at(1)).await.unwrap());
    let first = world.lane(ground.destination.id).await.remove(0);
    world.move_on(delivered(&first, at(2))).await;
    all_new(&world.store.commit(&batch, at(3)).await.unwrap());
    all_new(&world.store.commit(&batch, at(3)).await.unwrap());
    assert_eq!(numbers(&world.lane(ground.destination.id).await), [2, 3, 4]);
}

pub(crate) async fn numbers_go_on_when_all_that_had_one_have_ended(world: World) {
    let ground = world.ground().await;
    for number in 1..=3 {
        let delivery = ordered(&world, &ground, 0).await;
        assert_eq!(delivery.sequence, Some(number));
        world.move_on(delivered(&delivery, at(2))).await;
    }
}

pub(crate) async fn however_many_commit_at_once_numbers_have_no_gaps(world: World) {
    const BATCHES: usize = 15;
    let account = world.account().await;
    let mut routes = Vec::new();
    for _ in 0..4 {
        let destination = world.destination(&account).await;
        routes.push(world.route(&destination).await);
    }
    let another = world.other_nodes.open().await.unwrap_or_else(|| world.store.clone());
    let committer = async |store: Arc<dyn Store>, routes: Vec<Route>| {
        for _ in 0..BATCHES {
            let mut batch = Vec::new();
            for _ in 0..3 {
                let promises = routes.iter().map(|route| promise_in(route, at(1), 1)).collect();
                batch.push(world.matched(event(&account, at(1)), promises).await);
            }
            all_new(&store.commit(&batch, at(1)).await.expect("no deadlock"));
        }
    };
    let backwards = routes.iter().rev().cloned().collect();
    tokio::join!(committer(world.store.clone(), routes.clone()), committer(another, backwards));
    for route in &routes {
        let lane = world.lane(route.destination_id).await;
        assert_eq!(numbers(&lane), Vec::from_iter(1..=2 * 3 * BATCHES as i64));
    }
}

pub(crate) async fn what_is_seen_of_a_lane_is_always_a_prefix(world: World) {
    let ground = world.ground().await;
    let another = world.other_nodes.open().await.unwrap_or_else(|| world.store.clone());
    let commit = async |store: Arc<dyn Store>| {
        for _ in 0..30 {
            let promises = vec![promise_in(&ground.route, at(1), 1)];
            let new = world.matched(event(&ground.account, at(1)), promises).await;
            all_new(&store.commit(&[new], at(1)).await.unwrap());
        }
    };
    let look = async {
        loop {
            let seen = numbers(&world.lane(ground.destination.id).await);
            assert_eq!(seen, Vec::from_iter(1..=seen.len() as i64));
            if seen.len() == 60 {
                return;
            }
        }
    };
    tokio::join!(commit(world.store.clone()), commit(another), look);
}

pub(crate) async fn a_number_stays_through_retries_and_is_told_at_the_end(world: World) {
    let ground = world.ground().await;
    let [delivered_one, cancelled, expired] = [
        ordered(&world, &ground, 0).await,
        ordered(&world, &ground, 0).await,
        ordered(&world, &ground, 0).await,
    ];
    world.move_on(kept_in_place(&delivered_one)).await;
    let retrying = world.lane(ground.destination.id).await.remove(0);
    assert_eq!((retrying.sequence, retrying.attempts), (Some(1), 1));
    assert_eq!(retrying.position, delivered_one.position);
    let read = async |id| world.store.delivery(ground.account.id, id).await.unwrap();
    assert_eq!(read(retrying.id).await.sequence, Some(1));
    assert_eq!(read(retrying.id).await.state, DeliveryState::Waiting(Box::new(retrying.clone())));

    world.move_on(delivered(&retrying, at(5))).await;
    let gone =
        world.store.cancel(ground.account.id, cancelled.id, fact(6), at(6), &audit_entry()).await.unwrap();
    assert_eq!(gone, Some(cancelled.clone()));
    world.move_on(ended_without(&expired, at(7), Ending::Cancelled(CancelReason::DestinationDeleted))).await;
    for (number, id) in [(1, delivered_one.id), (2, cancelled.id), (3, expired.id)] {
        let record = read(id).await;
        assert!(matches!(record.state, DeliveryState::Ended { .. }));
        assert_eq!(record.sequence, Some(number));
    }
    let listed = world.deliveries(&ground.account, &Default::default(), 2).await;
    let told: Vec<_> = listed.iter().map(|record| record.sequence).collect();
    assert_eq!(told, [Some(3), Some(2), Some(1)]);
}

// --- Expansions ----------------------------------------------------------------------------------------------------

pub(crate) async fn chunks_take_numbers_as_commits_do(world: World) {
    let ground = world.ground().await;
    let before = ordered(&world, &ground, 0).await;
    let new = NewEvent { expands: true, ..world.matched(event(&ground.account, at(1)), vec![]).await };
    assert_eq!(world.commit(&new).await, Committed::New);
    let promises: Vec<NewDelivery> = (1..4).map(|track| promise_in(&ground.route, at(1), track)).collect();
    let plain = promise(&ground.route, at(1));
    let chunk = Chunk {
        event_id: new.event.id,
        from: None,
        to: Some(ground.destination.id),
        other_routes: Vec::new(),
        deliveries: vec![promises[0].clone(), promises[1].clone(), plain.clone(), promises[2].clone()],
        done: false,
    };
    assert!(world.store.expand(&chunk).await.unwrap());
    assert!(!world.store.expand(&chunk).await.unwrap(), "and takes none when it is repeated");
    let after = ordered(&world, &ground, 0).await;
    let lane = world.lane(ground.destination.id).await;
    let (ordered, unordered): (Vec<_>, Vec<_>) =
        lane.into_iter().partition(|delivery| delivery.sequence.is_some());
    let expected = [before.id, promises[0].id, promises[1].id, promises[2].id, after.id];
    assert_eq!(by_number(&ordered), numbered(&expected));
    assert_eq!(ids(&unordered), [plain.id]);
}

pub(crate) async fn a_large_event_may_come_with_its_ordered_deliveries(world: World) {
    let ground = world.ground().await;
    let ordered = world.destination(&ground.account).await;
    let second = world.destination(&ground.account).await;
    let routes = [world.route(&ordered).await, world.route(&second).await];
    let promises = routes.iter().map(|route| promise_in(route, at(1), 1)).collect();
    let new = world.matched(event(&ground.account, at(1)), promises).await;
    let new = NewEvent { expands: true, key: Some(key(&ground.account, 1, 1)), ..new };
    let beside = world.matched(event(&ground.account, at(1)), vec![promise_in(&routes[0], at(1), 1)]).await;
    let bare = NewEvent { expands: true, ..world.matched(event(&ground.account, at(1)), vec![]).await };
    all_new(&world.store.commit(&[beside, new.clone(), bare.clone()], at(1)).await.unwrap());
    assert_eq!(numbers(&world.lane(ordered.id).await), [1, 2], "they are there at once");
    assert_eq!(numbers(&world.lane(second.id).await), [1]);
    let expansion = world.store.expansion(new.event.id).await.unwrap().expect("it is under way");
    assert_eq!(expansion.inline_destinations, [ordered.id, second.id]);
    assert_eq!((expansion.deliveries, expansion.cursor), (2, None));
    let open = world.store.open_expansions(None, 10).await.unwrap();
    assert_eq!(open.len(), 2);
    assert_eq!((&open[0], &open[1].inline_destinations, open[1].deliveries), (&expansion, &Vec::new(), 0));
    let fanout = async || world.store.event(ground.account.id, new.event.id).await.unwrap().fanout;
    let expanding = FanoutCounts { total: 2, waiting: 2, expanding: true, ..FanoutCounts::default() };
    assert_eq!(fanout().await, expanding);
    let repeat = NewEvent {
        event: PreparedEvent::new(event(&ground.account, at(1))),
        deliveries: vec![promise_in(&ground.route, at(1), 1)],
        ..new.clone()
    };
    let duplicate = |deliveries| Committed::Duplicate { of: new.event.id, deliveries, body_hash: [1; 32] };
    assert_eq!(world.commit(&repeat).await, duplicate(None), "nobody knows yet how many");

    let chunk = Chunk {
        event_id: new.event.id,
        from: None,
        to: Some(ground.destination.id),
        deliveries: vec![promise(&ground.route, at(1))],
        other_routes: Vec::new(),
        done: true,
    };
    assert!(world.store.expand(&chunk).await.unwrap());
    assert_eq!(fanout().await, FanoutCounts { total: 3, waiting: 3, ..FanoutCounts::default() });
    assert_eq!(world.commit(&repeat).await, duplicate(Some(3)));
    assert_eq!(world.commit(&new).await, Committed::New, "the same again");
    assert_eq!(numbers(&world.lane(ordered.id).await), [1, 2]);
}

// --- Tracks --------------------------------------------------------------------------------------------------------

pub(crate) async fn a_window_does_not_go_beyond_its_last_track(world: World) {
    let ground = world.ground().await;
    let mut lane = Vec::new();
    for track in [-7, -1, 1, 1, 3, i64::MAX] {
        lane.push(ordered(&world, &ground, track).await);
    }
    let read = async |from: &Delivery, last_track, limit| {
        let window = Window { from: from.position, last_track, limit, ..window(ground.destination.id) };
        world.fetch(window).await.into_iter().map(|row| row.delivery).collect::<Vec<_>>()
    };
    assert_eq!(read(&lane[0], i64::MAX, 10).await, lane);
    assert_eq!(read(&lane[0], i64::MAX - 1, 10).await, lane[..5]);
    assert_eq!(read(&lane[0], -1, 10).await, lane[..2]);
    assert_eq!(read(&lane[2], 1, 10).await, lane[2..4]);
    assert_eq!(read(&lane[2], 1, 1).await, lane[2..3]);
    assert_eq!(read(&lane[4], 1, 10).await, [], "nothing lies between");
    assert_eq!(read(&lane[5], i64::MAX, 10).await, lane[5..]);
}

pub(crate) async fn tracks_are_listed_with_their_first_rows(world: World) {
    let ground = world.ground().await;
    let other = world.ground().await;
    ordered(&world, &other, 4).await;
    let later = promise_for(&ground.route, at(1), at(60));
    let soon = promise_for(&ground.route, at(1), at(30));
    world.commit_promises(event(&ground.account, at(1)), vec![later, soon.clone()]).await;
    let mut expected = vec![TrackHead { first: soon.position, due_at: at(30) }];
    for track in [i64::MAX, 9, 0, i64::MIN] {
        let first = ordered(&world, &ground, track).await;
        let deep = (0..40).map(|_| promise_in(&ground.route, at(2), track)).collect();
        world.commit_promises(event(&ground.account, at(2)), deep).await;
        expected.push(TrackHead { first: first.position, due_at: first.due_at });
    }
    expected.sort_by_key(|head| head.first.track);
    let (shard, id) = (ground.destination.id.shard(), ground.destination.id);
    let tracks = async |after, limit| world.store.tracks(shard, id, after, limit).await.unwrap();
    assert_eq!(tracks(None, 100).await, expected);
    assert_eq!(tracks(None, 2).await, expected[..2]);
    assert_eq!(tracks(None, 0).await, []);
    assert_eq!(tracks(Some(i64::MIN), 2).await, expected[1..3]);
    assert_eq!(tracks(Some(-1), 100).await, expected[2..]);
    assert_eq!(tracks(Some(1), 1).await, expected[3..4], "after one that is not there");
    assert_eq!(tracks(Some(i64::MAX), 100).await, []);
    let nowhere = DestinationId::at(at(0), chance());
    assert_eq!(world.store.tracks(nowhere.shard(), nowhere, None, 10).await.unwrap(), []);

    let head = world.fetch(Window { limit: 1, ..window(id) }).await.remove(0).delivery;
    world.move_on(delivered(&head, at(3))).await;
    let next = tracks(None, 1).await[0];
    assert_eq!((next.first.track, next.first.rank), (i64::MIN, head.position.rank + 1));
}

// --- Turns ---------------------------------------------------------------------------------------------------------

pub(crate) async fn turns_are_taken_in_the_order_given(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let route = world.route(&elsewhere).await;
    let first = ordered(&world, &ground, 5).await;
    let waiting = awaiting(&world, &ground.route, 4).await;
    let beside = awaiting(&world, &route, 2).await;
    assert!(waiting.iter().all(|delivery| delivery.sequence.is_none()));
    let given = [
        (&waiting[2], 5),
        (&beside[1], 0),
        (&waiting[0], 5),
        (&waiting[3], i64::MIN),
        (&beside[0], 0),
        (&waiting[1], 6),
    ];
    let turns = given.map(|(delivery, track)| DueDelivery { delivery: delivery.clone(), track });
    assert_eq!(take_turns(&world, &turns).await, [true; 6]);
    let moved = |delivery: &Delivery, track, number| Delivery {
        position: Position::ordered(track, number, delivery.id),
        sequence: Some(number),
        ..delivery.clone()
    };
    let expected = [
        moved(&waiting[3], i64::MIN, 4),
        first,
        moved(&waiting[2], 5, 2),
        moved(&waiting[0], 5, 3),
        moved(&waiting[1], 6, 5),
    ];
    assert_eq!(world.lane(ground.destination.id).await, expected);
    assert_eq!(world.lane(elsewhere.id).await, [moved(&beside[1], 0, 1), moved(&beside[0], 0, 2)]);
    assert_eq!(ordered(&world, &ground, 0).await.sequence, Some(6));
}

pub(crate) async fn a_turn_is_taken_when_its_time_has_come_and_once(world: World) {
    let ground = world.ground().await;
    let delivery = awaiting(&world, &ground.route, 1).await.remove(0);
    let turn = DueDelivery { delivery: delivery.clone(), track: 0 };
    let too_early = at(59);
    let early = world.store.take_turns(world.node.id, slice::from_ref(&turn), too_early).await.unwrap();
    assert_eq!(early, [false]);
    assert_eq!(world.lane(ground.destination.id).await, std::slice::from_ref(&delivery));
    assert_eq!(take_turns(&world, &[turn.clone(), turn.clone()]).await, [true, false]);
    assert_eq!(take_turns(&world, slice::from_ref(&turn)).await, [false]);
    let lane = world.lane(ground.destination.id).await;
    assert_eq!((numbers(&lane), lane[0].due_at), (vec![1], at(60)));
    assert_eq!(lane[0].available_at, at(60));

    world.move_on(delivered(&lane[0], at(61))).await;
    assert_eq!(take_turns(&world, &[turn]).await, [false]);
    assert!(take_turns(&world, &[]).await.is_empty());
}

pub(crate) async fn only_what_waits_for_its_time_takes_a_turn(world: World) {
    let ground = world.ground().await;
    let theirs = world.account().await.id;
    let plain = world.delivery(&ground, at(1)).await;
    let in_order = ordered(&world, &ground, 0).await;
    let [cancelled, foreign, taken] = &awaiting(&world, &ground.route, 3).await[..] else { panic!("three") };
    world.store.cancel(ground.account.id, cancelled.id, fact(2), at(2), &audit_entry()).await.unwrap();
    let foreign = Delivery { account_id: theirs, ..foreign.clone() };
    let nobodys = Delivery { id: DeliveryId::at(at(0), chance()), ..foreign.clone() };
    let turns = [&plain, &in_order, cancelled, &foreign, taken, &nobodys];
    let turns = turns.map(|delivery| DueDelivery { delivery: delivery.clone(), track: 0 });
    assert_eq!(take_turns(&world, &turns).await, [false, false, false, false, true, false]);
    let lane = world.lane(ground.destination.id).await;
    let numbered: Vec<_> = lane.iter().filter_map(|delivery| delivery.sequence).collect();
    assert_eq!((lane.len(), numbered), (4, vec![1, 2]));
    let moved = lane.iter().find(|delivery| delivery.id == taken.id).unwrap();
    assert_eq!(moved.sequence, Some(2), "the others have taken no number");
}

pub(crate) async fn a_lost_node_gives_no_turns_where_nodes_are_fenced(world: World) {
    let ground = world.ground().await;
    let waiting = awaiting(&world, &ground.route, 2).await;
    let fenced = world.backend.fences_nodes();
    let turn = |n: usize| DueDelivery { delivery: waiting[n].clone(), track: 0 };
    let stranger = NodeId::at(at(0), chance());
    assert_eq!(world.store.take_turns(stranger, &[turn(0)], at(60)).await.unwrap(), [!fenced]);
    world.store.leave(world.node.id).await.unwrap();
    assert_eq!(take_turns(&world, &[turn(1)]).await, [!fenced]);
    if fenced {
        assert_eq!(world.lane(ground.destination.id).await, waiting);
    }
}

pub(crate) async fn turns_and_commits_at_once_leave_no_gaps(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let route = world.route(&elsewhere).await;
    let mut turns = Vec::new();
    for _ in 0..20 {
        let promises = vec![promise_for(&route, at(1), at(60)), promise_for(&ground.route, at(1), at(60))];
        let deliveries = world.commit_promises(event(&ground.account, at(1)), promises).await;
        turns.push(
            deliveries.into_iter().map(|delivery| DueDelivery { delivery, track: 1 }).collect::<Vec<_>>(),
        );
    }
    let commit = async {
        for _ in 0..20 {
            let promises = vec![promise_in(&ground.route, at(1), 1), promise_in(&route, at(1), 1)];
            let new = world.matched(event(&ground.account, at(1)), promises).await;
            all_new(&world.store.commit(&[new], at(1)).await.expect("no deadlock"));
        }
    };
    let take = async {
        for turns in &turns {
            assert_eq!(take_turns(&world, turns).await, [true, true]);
        }
    };
    tokio::join!(commit, take);
    for id in [ground.destination.id, elsewhere.id] {
        assert_eq!(numbers(&world.lane(id).await), Vec::from_iter(1..=40));
    }
}

// --- Commands ------------------------------------------------------------------------------------------------------

pub(crate) async fn retry_now_leaves_a_number_in_its_place(world: World) {
    let ground = world.ground().await;
    let lane = [ordered(&world, &ground, 3).await, ordered(&world, &ground, 3).await];
    world.move_on(kept_in_place(&lane[0])).await;
    let retrying = world.lane(ground.destination.id).await.remove(0);
    assert_eq!(retrying.due_at, at(600));
    let hurried = world.store.retry_now(ground.account.id, retrying.id, at(5), &audit_entry()).await.unwrap();
    let expected = Delivery { due_at: at(5), ..retrying };
    assert_eq!(hurried, Some(expected.clone()));
    assert_eq!(world.lane(ground.destination.id).await, [expected, lane[1].clone()]);
}

pub(crate) async fn retry_now_brings_the_time_of_what_waits_for_it(world: World) {
    let ground = world.ground().await;
    let waiting = awaiting(&world, &ground.route, 2).await;
    let hurried =
        world.store.retry_now(ground.account.id, waiting[1].id, at(5), &audit_entry()).await.unwrap();
    let position = Position::awaits_time(at(5), waiting[1].id);
    let expected = Delivery { due_at: at(5), position, ..waiting[1].clone() };
    assert_eq!(hurried, Some(expected.clone()));
    assert_eq!(world.lane(ground.destination.id).await, [expected.clone(), waiting[0].clone()]);
    let turn = DueDelivery { delivery: expected, track: 0 };
    assert_eq!(world.store.take_turns(world.node.id, &[turn], at(5)).await.unwrap(), [true]);
}

// --- Words ---------------------------------------------------------------------------------------------------------

/// One event with one delivery that has a number.
async fn ordered(world: &World, ground: &Ground, track: i64) -> Delivery {
    let promises = vec![promise_in(&ground.route, at(1), track)];
    world.commit_promises(event(&ground.account, at(1)), promises).await.remove(0)
}

/// So many deliveries that wait for the same moment: a minute.
async fn awaiting(world: &World, route: &Route, count: usize) -> Vec<Delivery> {
    let account = world.store.account(route.account_id).await.unwrap();
    let later = Event { deliver_at: Some(at(60)), ..event(&account, at(1)) };
    let promises = (0..count).map(|_| promise_for(route, at(1), at(60))).collect();
    world.commit_promises(later, promises).await
}

async fn take_turns(world: &World, turns: &[DueDelivery]) -> Vec<bool> {
    world.store.take_turns(world.node.id, turns, at(60)).await.expect("no deadlock")
}

/// A 503 in an ordered lane: tried again much later, where it stands.
fn kept_in_place(delivery: &Delivery) -> store::Settlement {
    let attempt = attempt(delivery, at(2), Outcome::ServerError, Some(503));
    let waits = Settled::Waits { position: delivery.position, due_at: at(600), spent: delivery.spent + 1 };
    settlement(delivery, attempt, waits)
}

fn numbers(lane: &[Delivery]) -> Vec<i64> {
    lane.iter().map(|delivery| delivery.sequence.expect("a number")).collect()
}

fn by_number(lane: &[Delivery]) -> Vec<(i64, DeliveryId)> {
    let mut found: Vec<_> =
        lane.iter().map(|delivery| (delivery.sequence.expect("a number"), delivery.id)).collect();
    found.sort();
    found
}

/// From 1 on.
fn numbered(ids: &[DeliveryId]) -> Vec<(i64, DeliveryId)> {
    (1..).zip(ids.iter().copied()).collect()
}

fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

#[track_caller]
fn all_new(committed: &[Committed]) {
    assert!(committed.iter().all(|result| *result == Committed::New), "{committed:?}");
}

fn fact(second: u64) -> AttemptId {
    AttemptId::at(at(second), chance())
}
