//! Replays and dead letters in lists: what a replay has made, and dead letters by what they have in common.

use crate::{
    fixtures::{
        Ground, World, at, chance, delivered, ended_without, event, promise, rejected, retried, window,
    },
    replay::{dead_letter, dead_letters, finish, lane, of_the_dead},
};
use domain::{
    delivery::{Delivery, Ending, Status},
    id::{AccountId, AttemptId, DeliveryId},
    limits,
    outcome::{DeadReason, Outcome},
    testing::audit_entry,
};
use std::collections::BTreeSet;
use store::{DeliveryFilter, DeliveryState, GroupFilter, GroupKey, Settlement};

pub(crate) async fn a_replays_deliveries_are_listed_and_are_not_their_events_fan_out(world: World) {
    let ground = world.ground().await;
    let ids = dead_letters(&world, &ground, 3).await;
    let of = world.store.delivery(ground.account.id, ids[0]).await.unwrap();
    let replay = of_the_dead(&world, &ground, at(10)).await;
    finish(&world, &replay, 10).await;
    let lane = lane(&world, &ground).await;
    let by_replay = DeliveryFilter { replay_ids: vec![replay.id], ..DeliveryFilter::default() };
    let listed = async |limit| {
        let found = world.deliveries(&ground.account, &by_replay, limit).await;
        found.into_iter().map(|record| (record.id, record.origin)).collect::<Vec<_>>()
    };
    let mut expected: Vec<_> = lane.iter().map(|made| (made.id, made.origin)).collect();
    expected.sort();
    expected.reverse();
    let again = lane.iter().find(|made| made.origin == ids[0]).expect("it was made");
    for step in 0..2 {
        assert_eq!((listed(10).await, listed(1).await), (expected.clone(), expected.clone()), "step {step}");
        let event = world.store.event(ground.account.id, of.event_id).await.unwrap();
        let fanout = event.fanout;
        // The replay is not counted; that it was delivered settles the dead letter that is.
        assert_eq!((fanout.total, fanout.waiting), (1, 0));
        assert_eq!((fanout.dead_letter, fanout.delivered), (1 - step, step));
        assert!(fanout.completed_at.is_some());
        if step == 0 {
            world.move_on(delivered(again, at(501))).await;
        }
    }
    let record = world.store.delivery(ground.account.id, again.id).await.unwrap();
    assert_eq!((record.replay_id, record.origin), (Some(replay.id), ids[0]));
    assert!(matches!(record.state, DeliveryState::Ended { ending: Ending::Delivered, .. }));
    let both = DeliveryFilter { event_ids: vec![of.event_id], ..DeliveryFilter::default() };
    assert_eq!(world.deliveries(&ground.account, &both, 10).await.len(), 2);
    let waiting = DeliveryFilter { statuses: vec![Status::Queued], ..by_replay.clone() };
    assert_eq!(world.deliveries(&ground.account, &waiting, 10).await.len(), 2);
    let stranger = world.account().await;
    assert!(world.deliveries(&stranger, &by_replay, 10).await.is_empty());
}

/// What waits is found behind more than a page of looking that has ended since.
pub(crate) async fn a_long_replay_is_listed_to_its_end(world: World) {
    let ground = world.ground().await;
    let promises = (0..limits::PAGE_SCAN + 2).map(|_| promise(&ground.route, at(1))).collect();
    let large = world.matched(event(&ground.account, at(1)), promises).await;
    world.commit(&large).await;
    end_all_but(&world, &ground, None, |waiting| rejected(waiting, at(2))).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    finish(&world, &replay, 500).await;
    let of_replay = DeliveryFilter { replay_ids: vec![replay.id], ..DeliveryFilter::default() };
    let made = world.deliveries(&ground.account, &of_replay, 200).await;
    assert_eq!(made.len(), limits::PAGE_SCAN + 2);
    let oldest = made.iter().map(|made| made.id).min().expect("some");
    end_all_but(&world, &ground, Some(oldest), |waiting| delivered(waiting, at(20))).await;
    for (status, count) in [(Status::Queued, 1), (Status::Delivered, limits::PAGE_SCAN + 1)] {
        let filter = DeliveryFilter { statuses: vec![status], ..of_replay.clone() };
        let found = world.deliveries(&ground.account, &filter, 200).await;
        let ids: BTreeSet<DeliveryId> = found.iter().map(|found| found.id).collect();
        assert_eq!((found.len(), ids.len()), (count, count), "{status:?}: each once");
        assert_eq!(ids.contains(&oldest), status == Status::Queued);
    }
}

async fn end_all_but(
    world: &World,
    ground: &Ground,
    kept: Option<DeliveryId>,
    end: impl Fn(&Delivery) -> Settlement,
) {
    loop {
        let waiting = lane(world, ground).await;
        let ends: Vec<_> = waiting.iter().filter(|it| Some(it.id) != kept).map(&end).collect();
        if ends.is_empty() {
            break;
        }
        world.settle(&ends, at(30)).await;
    }
}

pub(crate) async fn dead_letters_are_grouped(world: World) {
    let ground = world.ground().await;
    let other = world.destination(&ground.account).await;
    let there =
        Ground { route: world.route(&other).await, destination: other, account: ground.account.clone() };
    let (mut expected, mut here) = (Vec::new(), Vec::new());
    for second in 1..=3 {
        here.push(dead_letter(&world, &ground, at(second)).await.id);
    }
    let group = |at: &Ground, reason, http_status, ids: &[DeliveryId]| {
        let outcome = match http_status {
            Some(404) => Some(Outcome::Rejected),
            Some(_) => Some(Outcome::ServerError),
            None => None,
        };
        let key = GroupKey { destination_id: at.destination.id, reason, http_status, outcome };
        (key, ids.len() as u64, ids[0], ids[ids.len() - 1])
    };
    expected.push(group(&ground, DeadReason::Rejected, Some(404), &here));
    // One that expired after a 503, and two that were never tried.
    let tried = world.delivery(&ground, at(4)).await;
    world.move_on(retried(&tried, at(4), at(30))).await;
    let tried = world.fetch(window(ground.destination.id)).await.remove(0).delivery;
    world.move_on(ended_without(&tried, at(31), Ending::DeadLetter(DeadReason::Expired))).await;
    let mut untried = Vec::new();
    for second in 5..=6 {
        let delivery = world.delivery(&ground, at(second)).await;
        let ending = Ending::DeadLetter(DeadReason::Expired);
        world.move_on(ended_without(&delivery, at(32), ending)).await;
        untried.push(delivery.id);
    }
    expected.push(group(&ground, DeadReason::Expired, None, &untried));
    expected.push(group(&ground, DeadReason::Expired, Some(503), &[tried.id]));
    let elsewhere = dead_letter(&world, &there, at(7)).await.id;
    expected.push(group(&there, DeadReason::Rejected, Some(404), &[elsewhere]));
    // What is no dead letter, or not this account's, is in no group.
    let good = world.delivery(&ground, at(8)).await;
    world.move_on(delivered(&good, at(8))).await;
    let cancelled = world.delivery(&ground, at(9)).await;
    let fact = AttemptId::at(at(10), chance());
    world.store.cancel(ground.account.id, cancelled.id, fact, at(10), &audit_entry()).await.unwrap();
    let stranger = world.ground().await;
    dead_letter(&world, &stranger, at(11)).await;

    expected.sort_by_key(|(key, ..)| (key.destination_id, key.reason.as_str(), key.http_status));
    for limit in [1, 2, 10] {
        assert_eq!(groups(&world, ground.account.id, limit).await, expected, "{limit} at a time");
    }
    assert_eq!(groups(&world, stranger.account.id, 10).await.len(), 1);
}

type Group = (GroupKey, u64, DeliveryId, DeliveryId);

async fn groups(world: &World, account: AccountId, limit: usize) -> Vec<Group> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = world
            .store
            .dead_letter_groups(account, GroupFilter::default(), after, limit)
            .await
            .expect("groups");
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return all };
        after = Some(last.key);
        all.extend(page.iter().map(|it| (it.key, it.count, it.oldest, it.newest)));
    }
}
