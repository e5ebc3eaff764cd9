//! Dead letters that are settled: by a replay that was delivered, or by hand; each once, and subtracted once.

use crate::{
    fixtures::{Ground, World, at, delivered, ended_without, over, rejected, retried, window},
    replay::{begin, dead, dead_letter, dead_letters, finish, lane, new, of_the_dead},
    retention::prune,
};
use domain::{
    audit::AuditEntry,
    delivery::{Delivery, Ending, Status},
    id::{ApiKeyId, DeliveryId},
    outcome::{DeadReason, Outcome},
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use store::{
    DeadLetterGroup, DeliveryFilter, Dismissal, FanoutCounts, GroupFilter, Page, Resolution, ResolvedBy,
    SelectedDeliveries, Selection,
};

const DAY: u64 = 86_400;

/// Made of every dead letter that is not settled; in the order of their origins.
async fn replayed(world: &World, ground: &Ground, now: Timestamp) -> Vec<Delivery> {
    let open = DeliveryFilter { resolved: Some(false), ..dead() };
    let replay = begin(world, &new(&ground.account, Selection::Filter(open), now)).await;
    finish(world, &replay, 50).await;
    let mut made = lane(world, ground).await;
    made.retain(|made| made.replay_id == Some(replay.id));
    made.sort_by_key(|made| made.origin);
    made
}

async fn resolution(world: &World, ground: &Ground, id: DeliveryId) -> Option<Resolution> {
    let record = world.store.delivery(ground.account.id, id).await.expect("the delivery");
    let filter = DeliveryFilter { event_ids: vec![record.event_id], ..DeliveryFilter::default() };
    let listed = world.deliveries(&ground.account, &filter, 10).await;
    assert!(listed.contains(&record), "a list shows the same");
    assert!(matches!(record.state, store::DeliveryState::Ended { .. }));
    record.resolution
}

fn by_delivery(delivery: &Delivery, started_at: Timestamp) -> Option<Resolution> {
    Some(Resolution { at: over(started_at), by: ResolvedBy::Delivery(delivery.id) })
}

async fn groups(world: &World, ground: &Ground) -> Vec<DeadLetterGroup> {
    world
        .store
        .dead_letter_groups(ground.account.id, GroupFilter::default(), None, 100)
        .await
        .expect("groups")
}

/// How many there are, the oldest and the newest, where there is one group at most.
async fn counted(world: &World, ground: &Ground) -> Option<(u64, DeliveryId, DeliveryId)> {
    let groups = groups(world, ground).await;
    assert!(groups.len() <= 1, "{groups:?}");
    groups.first().map(|it| (it.count, it.oldest, it.newest))
}

fn dismissal(ground: &Ground, ids: &[DeliveryId], note: Option<&str>, now: Timestamp) -> Dismissal {
    Dismissal {
        account_id: ground.account.id,
        delivery_ids: ids.to_vec(),
        dismissed_by: ApiKeyId::at(at(0), 7).into(),
        note: note.map(str::to_owned),
        at: now,
    }
}

async fn dismiss(world: &World, ground: &Ground, ids: &[DeliveryId], now: Timestamp) -> u32 {
    let dismissal = dismissal(ground, ids, Some("by hand"), now);
    world.store.dismiss(&dismissal, &audit_entry()).await.expect("a dismissal")
}

fn dismissed(now: Timestamp) -> Option<Resolution> {
    let by =
        ResolvedBy::Dismissal { dismissed_by: ApiKeyId::at(at(0), 7).into(), note: Some("by hand".into()) };
    Some(Resolution { at: now, by })
}

async fn fanout(world: &World, ground: &Ground, of: &Delivery) -> FanoutCounts {
    world.store.event(ground.account.id, of.event_id).await.expect("the event").fanout
}

pub(crate) async fn a_delivered_replay_resolves_its_whole_chain(world: World) {
    let ground = world.ground().await;
    let (first, other) =
        (dead_letter(&world, &ground, at(1)).await, dead_letter(&world, &ground, at(2)).await);
    let again = replayed(&world, &ground, at(10)).await;
    world.move_on(rejected(&again[0], at(501))).await;
    world.move_on(rejected(&again[1], at(502))).await;
    assert_eq!(groups(&world, &ground).await[0].count, 4);
    let open = DeliveryFilter {
        event_ids: vec![first.event_id],
        resolved: Some(false),
        ..DeliveryFilter::default()
    };
    let replay = begin(&world, &new(&ground.account, Selection::Filter(open), at(600))).await;
    assert_eq!(finish(&world, &replay, 50).await, [first.id, first.id], "the older is taken");
    let third = lane(&world, &ground).await.remove(0);
    let before = fanout(&world, &ground, &first).await;
    assert_eq!((before.delivered, before.dead_letter), (0, 1));
    assert_eq!(resolution(&world, &ground, first.id).await, None);

    world.move_on(delivered(&third, at(700))).await;
    for id in [first.id, again[0].id] {
        assert_eq!(resolution(&world, &ground, id).await, by_delivery(&third, at(700)));
        let record = world.store.delivery(ground.account.id, id).await.unwrap();
        assert!(matches!(
            record.state,
            store::DeliveryState::Ended { ending: Ending::DeadLetter(DeadReason::Rejected), .. }
        ));
    }
    for id in [other.id, again[1].id] {
        assert_eq!(resolution(&world, &ground, id).await, None, "another chain");
    }
    assert_eq!(resolution(&world, &ground, third.id).await, None, "it was delivered");
    let after = fanout(&world, &ground, &first).await;
    assert_eq!((after.total, after.delivered, after.dead_letter, after.dismissed), (1, 1, 0, 0));
    assert_eq!(after.completed_at, before.completed_at, "when it ended, not how it stands");
    let other_fanout = fanout(&world, &ground, &other).await;
    assert_eq!((other_fanout.delivered, other_fanout.dead_letter), (0, 1));
    assert_eq!(counted(&world, &ground).await, Some((2, other.id, again[1].id)));
}

pub(crate) async fn a_repeated_or_late_settlement_resolves_nothing_more(world: World) {
    let ground = world.ground().await;
    let dead = dead_letters(&world, &ground, 2).await;
    let again = replayed(&world, &ground, at(10)).await;
    let end = delivered(&again[0], at(501));
    for _ in 0..3 {
        assert_eq!(world.settle(std::slice::from_ref(&end), at(502)).await, [true]);
        assert_eq!(counted(&world, &ground).await, Some((1, dead[1], dead[1])));
    }
    // A former owner's word moves nothing, and settles nothing.
    let stale = Delivery { attempts: 1, ..again[1].clone() };
    assert_eq!(world.settle(&[delivered(&stale, at(503))], at(503)).await, [false]);
    assert_eq!(resolution(&world, &ground, dead[1]).await, None);
    assert_eq!(resolution(&world, &ground, dead[0]).await, by_delivery(&again[0], at(501)));
}

pub(crate) async fn the_same_replay_twice_makes_nothing_twice(world: World) {
    let ground = world.ground().await;
    let dead = dead_letters(&world, &ground, 5).await;
    let first = replayed(&world, &ground, at(10)).await;
    assert_eq!(first.len(), 5);
    let ends: Vec<_> = first.iter().map(|made| delivered(made, at(501))).collect();
    assert_eq!(world.settle(&ends, at(502)).await, [true; 5]);
    assert_eq!(counted(&world, &ground).await, None);
    assert_eq!(replayed(&world, &ground, at(600)).await, []);
    let all = of_the_dead(&world, &ground, at(601)).await;
    assert_eq!(finish(&world, &all, 2).await, dead, "whoever wants them all has them");
    let survey = async |resolved| {
        let selection = Selection::Filter(DeliveryFilter { resolved, ..super::replay::dead() });
        world.store.survey(ground.account.id, &selection, at(602), 100).await.unwrap().matched
    };
    assert_eq!((survey(None).await, survey(Some(true)).await, survey(Some(false)).await), (5, 5, 0));
}

pub(crate) async fn given_ids_are_taken_as_they_are_settled(world: World) {
    let ground = world.ground().await;
    let dead = dead_letters(&world, &ground, 3).await;
    dismiss(&world, &ground, &dead[..1], at(10)).await;
    for (resolved, made) in [(Some(false), &dead[1..]), (Some(true), &dead[..1]), (None, &dead[..])] {
        let given = SelectedDeliveries { ids: dead.clone(), resolved };
        let asked =
            store::NewReplay { matched: 3, ..new(&ground.account, Selection::Deliveries(given), at(20)) };
        let replay = begin(&world, &asked).await;
        assert_eq!(replay.resolved, resolved);
        assert_eq!(finish(&world, &replay, 2).await, made);
        let told = world.store.replay(ground.account.id, replay.id).await.unwrap();
        assert_eq!((told.created, told.skipped), (made.len() as u64, 3 - made.len() as u64));
    }
}

pub(crate) async fn of_several_that_are_delivered_the_first_counts(world: World) {
    let ground = world.ground().await;
    let dead = dead_letter(&world, &ground, at(1)).await;
    let one = replayed(&world, &ground, at(10)).await.remove(0);
    let two = replayed(&world, &ground, at(11)).await.remove(0);
    let three = replayed(&world, &ground, at(12)).await.remove(0);
    world.move_on(delivered(&two, at(502))).await;
    let both = [delivered(&three, at(503)), delivered(&one, at(501))];
    assert_eq!(world.settle(&both, at(504)).await, [true; 2]);
    assert_eq!(resolution(&world, &ground, dead.id).await, by_delivery(&one, at(501)));
    assert_eq!(counted(&world, &ground).await, None);
}

pub(crate) async fn one_that_dies_while_another_is_delivered_is_resolved_by_it(world: World) {
    let ground = world.ground().await;
    let dead = dead_letter(&world, &ground, at(1)).await;
    let one = replayed(&world, &ground, at(10)).await.remove(0);
    let two = replayed(&world, &ground, at(11)).await.remove(0);
    world.move_on(delivered(&one, at(501))).await;
    world.move_on(rejected(&two, at(502))).await;
    assert_eq!(resolution(&world, &ground, two.id).await, by_delivery(&one, at(501)));
    assert_eq!(counted(&world, &ground).await, None);
    // What is asked for once more after that, and dies, is there to be looked at.
    let late = Selection::Deliveries(vec![dead.id].into());
    let replay = begin(&world, &new(&ground.account, late, at(600))).await;
    finish(&world, &replay, 1).await;
    let later = Delivery { created_at: at(600), ..lane(&world, &ground).await.remove(0) };
    world.move_on(rejected(&later, at(700))).await;
    assert_eq!(resolution(&world, &ground, later.id).await, None);
    assert_eq!(counted(&world, &ground).await, Some((1, later.id, later.id)));
}

pub(crate) async fn what_is_no_dead_letter_is_never_settled(world: World) {
    let ground = world.ground().await;
    let good = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&good, at(1))).await;
    let waiting = world.delivery(&ground, at(2)).await;
    let all = begin(&world, &new(&ground.account, Selection::Deliveries(vec![good.id].into()), at(10))).await;
    finish(&world, &all, 1).await;
    let again = lane(&world, &ground).await.into_iter().find(|it| it.replay_id.is_some()).expect("it waits");
    world.move_on(rejected(&again, at(501))).await;
    assert_eq!(
        resolution(&world, &ground, again.id).await,
        None,
        "that it was delivered before does not count"
    );
    assert_eq!(dismiss(&world, &ground, &[good.id, waiting.id, DeliveryId::at(at(3), 9)], at(502)).await, 0);
    assert_eq!(resolution(&world, &ground, good.id).await, None);
    let unresolved = DeliveryFilter { resolved: Some(false), ..DeliveryFilter::default() };
    assert_eq!(world.deliveries(&ground.account, &unresolved, 2).await.len(), 3);
}

pub(crate) async fn a_dead_letter_is_dismissed_once_and_by_its_account_alone(world: World) {
    let (ground, stranger) = (world.ground().await, world.ground().await);
    let dead = dead_letters(&world, &ground, 3).await;
    assert_eq!(dismiss(&world, &stranger, &dead, at(9)).await, 0, "another account's");
    assert_eq!(dismiss(&world, &ground, &dead[..2], at(10)).await, 2);
    assert_eq!(dismiss(&world, &ground, &dead, at(11)).await, 1, "the others were");
    assert_eq!(resolution(&world, &ground, dead[0]).await, dismissed(at(10)));
    assert_eq!(resolution(&world, &ground, dead[2]).await, dismissed(at(11)));
    assert_eq!(counted(&world, &ground).await, None);
    let record = world.store.delivery(ground.account.id, dead[0]).await.unwrap();
    let told = world.store.event(ground.account.id, record.event_id).await.unwrap().fanout;
    assert_eq!((told.total, told.dead_letter, told.dismissed, told.delivered), (1, 0, 1, 0));
    assert!(told.is_complete() && told.completed_at.is_some());
    assert_eq!(replayed(&world, &ground, at(12)).await, []);
}

pub(crate) async fn a_dismissal_is_written_down_with_its_count(world: World) {
    let ground = world.ground().await;
    let dead = dead_letters(&world, &ground, 3).await;
    let entries = async || {
        let (page, all) = (Page { before: None, limit: 100 }, store::AuditFilter::default());
        let found = world.store.audit_entries(Some(ground.account.id), &all, page).await;
        found.unwrap().rows.into_iter().map(|it| it.entry).collect::<Vec<AuditEntry>>()
    };
    let before = entries().await.len();
    for expected in [1, 0] {
        let entry = AuditEntry { action: "dismiss_dead_letters".into(), ..audit_entry() };
        let none = dismissal(&ground, &dead, None, at(10));
        let count = world.store.dismiss(&none, &entry).await.unwrap();
        assert_eq!(count, 3 * expected);
        let entries = entries().await;
        assert_eq!(entries.len(), before + 1, "what settles nothing is not written down");
        let written = entries.iter().find(|it| it.action == "dismiss_dead_letters").expect("its entry");
        assert_eq!(written.count, Some(3));
    }
    let by = ResolvedBy::Dismissal { dismissed_by: ApiKeyId::at(at(0), 7).into(), note: None };
    assert_eq!(resolution(&world, &ground, dead[0]).await, Some(Resolution { at: at(10), by }));
}

pub(crate) async fn what_was_dismissed_and_is_delivered_counts_as_delivered(world: World) {
    let ground = world.ground().await;
    let dead = dead_letter(&world, &ground, at(1)).await;
    let kept = dead_letter(&world, &ground, at(2)).await;
    assert_eq!(dismiss(&world, &ground, &[dead.id], at(10)).await, 1);
    let given =
        begin(&world, &new(&ground.account, Selection::Deliveries(vec![dead.id].into()), at(20))).await;
    finish(&world, &given, 1).await;
    let again = lane(&world, &ground).await.remove(0);
    world.move_on(delivered(&again, at(501))).await;
    assert_eq!(resolution(&world, &ground, dead.id).await, by_delivery(&again, at(501)));
    let told = fanout(&world, &ground, &dead).await;
    assert_eq!((told.delivered, told.dismissed, told.dead_letter), (1, 0, 0));
    assert_eq!(counted(&world, &ground).await, Some((1, kept.id, kept.id)), "subtracted once");
    assert_eq!(dismiss(&world, &ground, &[dead.id], at(600)).await, 0, "it is resolved");
}

pub(crate) async fn each_is_subtracted_once_when_resolved_then_pruned(world: World) {
    let ground = world.ground().await;
    // Two days, with what was tried, what was never tried, and what expired after an attempt.
    let mut ids = Vec::new();
    for n in 0..8 {
        let day = if n < 4 { at(n) } else { at(DAY + n) };
        ids.push(dead_letter(&world, &ground, day).await.id);
    }
    let tried = world.delivery(&ground, at(20)).await;
    world.move_on(retried(&tried, at(21), at(30))).await;
    let tried = world.fetch(window(ground.destination.id)).await.remove(0).delivery;
    world.move_on(ended_without(&tried, at(31), Ending::DeadLetter(DeadReason::Expired))).await;
    let untried = world.delivery(&ground, at(22)).await;
    world.move_on(ended_without(&untried, at(32), Ending::DeadLetter(DeadReason::Expired))).await;
    let told = async || {
        let groups = groups(&world, &ground).await;
        groups.iter().map(|it| (it.key.outcome, it.count, it.oldest, it.newest)).collect::<Vec<_>>()
    };
    let (rejected, met) = (Some(Outcome::Rejected), Some(Outcome::ServerError));
    let expired = [(None, 1, untried.id, untried.id), (met, 1, tried.id, tried.id)];
    assert_eq!(told().await, [expired[0], expired[1], (rejected, 8, ids[0], ids[7])]);

    // The oldest and the newest, and two in the middle: by hand and by a delivery.
    assert_eq!(dismiss(&world, &ground, &[ids[0], ids[5]], at(2 * DAY)).await, 2);
    let given: Vec<DeliveryId> = vec![ids[2], ids[7]];
    let replay = begin(&world, &new(&ground.account, Selection::Deliveries(given.into()), at(2 * DAY))).await;
    finish(&world, &replay, 10).await;
    let ends: Vec<_> = lane(&world, &ground).await.iter().map(|it| delivered(it, at(2 * DAY))).collect();
    assert_eq!(world.settle(&ends, at(2 * DAY)).await, [true; 2]);
    assert_eq!(told().await, [expired[0], expired[1], (rejected, 4, ids[1], ids[6])]);
    assert_eq!(dismiss(&world, &ground, &[tried.id], at(2 * DAY)).await, 1);
    assert_eq!(told().await, [expired[0], (rejected, 4, ids[1], ids[6])]);

    // The first day goes: of what is left there, two.
    prune(&world, &ground, at(15)).await;
    assert_eq!(told().await, [expired[0], (rejected, 2, ids[4], ids[6])]);
    prune(&world, &ground, at(DAY)).await;
    assert_eq!(told().await, [(rejected, 2, ids[4], ids[6])]);
    prune(&world, &ground, at(DAY + 7)).await;
    assert_eq!(told().await, []);
    prune(&world, &ground, at(3 * DAY)).await;
    assert_eq!(told().await, []);
}

pub(crate) async fn lists_tell_settled_from_unsettled(world: World) {
    let ground = world.ground().await;
    let dead = dead_letters(&world, &ground, 6).await;
    dismiss(&world, &ground, &[dead[1], dead[4]], at(10)).await;
    let good = world.delivery(&ground, at(7)).await;
    world.move_on(delivered(&good, at(8))).await;
    let listed = async |resolved, statuses: &[Status], limit| {
        let filter = DeliveryFilter { resolved, statuses: statuses.to_vec(), ..DeliveryFilter::default() };
        let found = world.deliveries(&ground.account, &filter, limit).await;
        let mut ids: Vec<_> = found.iter().map(|it| it.id).collect();
        ids.reverse();
        ids
    };
    for limit in [1, 2, 50] {
        assert_eq!(listed(Some(true), &[], limit).await, [dead[1], dead[4]]);
        assert_eq!(listed(Some(true), &[Status::DeadLetter], limit).await, [dead[1], dead[4]]);
        let open = [dead[0], dead[2], dead[3], dead[5]];
        assert_eq!(listed(Some(false), &[Status::DeadLetter], limit).await, open);
        assert_eq!(listed(Some(false), &[], limit).await, [&open[..], &[good.id]].concat());
        assert_eq!(listed(None, &[Status::DeadLetter], limit).await, dead);
    }
}

pub(crate) async fn groups_are_narrowed_by_day_and_destination(world: World) {
    let ground = world.ground().await;
    let other = world.destination(&ground.account).await;
    let there =
        Ground { route: world.route(&other).await, destination: other, account: ground.account.clone() };
    let (old, new) =
        (dead_letter(&world, &ground, at(1)).await, dead_letter(&world, &ground, at(2 * DAY)).await);
    let elsewhere = dead_letter(&world, &there, at(2)).await;
    let told = async |destination: Option<&Ground>, since| {
        let filter = GroupFilter { destination_id: destination.map(|it| it.destination.id), since };
        let groups = world.store.dead_letter_groups(ground.account.id, filter, None, 10).await.unwrap();
        groups.iter().map(|it| (it.count, it.oldest, it.newest)).collect::<Vec<_>>()
    };
    assert_eq!(told(Some(&ground), None).await, [(2, old.id, new.id)]);
    assert_eq!(told(Some(&there), None).await, [(1, elsewhere.id, elsewhere.id)]);
    assert_eq!(told(None, Some(at(DAY))).await, [(1, new.id, new.id)]);
    // Whole days: the whole of the day that it lies in.
    let later = at(2 * DAY).plus(Duration::from_secs(60));
    assert_eq!(told(Some(&ground), Some(later)).await, [(1, new.id, new.id)]);
    assert_eq!(told(None, Some(at(4 * DAY))).await, []);
}

pub(crate) async fn of_many_who_settle_at_once_each_letter_is_settled_once(world: World) {
    let ground = world.ground().await;
    let dead = dead_letters(&world, &ground, 30).await;
    let made = replayed(&world, &ground, at(50)).await;
    let dismissers: Vec<_> = (0..3)
        .map(|n| {
            let (store, mut ids) = (world.store.clone(), dead.clone());
            ids.rotate_left(n * 10);
            let dismissal = dismissal(&ground, &ids, None, at(60));
            tokio::spawn(async move {
                loop {
                    match store.dismiss(&dismissal, &audit_entry()).await {
                        Ok(count) => return count,
                        Err(store::StoreError::Unavailable(_)) => {} // two that wait for each other
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for part in made.chunks(7) {
        let ends: Vec<_> = part.iter().map(|it| delivered(it, at(501))).collect();
        let moved = loop {
            match world.store.settle(world.node.id, &ends, at(502)).await {
                Ok(moved) => break moved,
                Err(store::StoreError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert!(moved.iter().all(|moved| *moved));
    }
    let mut by_hand = 0;
    for dismisser in dismissers {
        by_hand += dismisser.await.expect("a task");
    }
    assert!(by_hand <= 30);
    assert_eq!(groups(&world, &ground).await, []);
    for (dead, made) in dead.iter().zip(&made) {
        assert_eq!(resolution(&world, &ground, *dead).await, by_delivery(made, at(501)));
    }
    // And nothing is below zero: one more is one.
    let one = dead_letter(&world, &ground, at(40)).await;
    assert_eq!(counted(&world, &ground).await, Some((1, one.id, one.id)));
}
