//! Forgetting: only what has ended, and all of it; and chores that one node does at a time.

use crate::fixtures::{
    Ground, World, at, chance, delivered, ended_without, event, first, is_not_found, plain, rejected, retried,
};
use domain::{
    delivery::{Delivery, Ending},
    id::{ApiKeyId, DeliveryId, EventId, NodeId, ReplayId},
    outcome::DeadReason,
    testing::audit_entry,
    time::Timestamp,
};
use std::{collections::BTreeSet, time::Duration};
use store::{
    Chore, Committed, CreatedReplay, DeliveryFilter, EventFilter, EventWalk, FIRST_REPLAY, FactWalk,
    GroupFilter, NewDelivery, NewReplay, ReplayKey, ReplayStatus, ReplaySwitch, ReplayWalk, Replayed,
    Selection, Term,
};

const LEASE: Duration = Duration::from_secs(10);

pub(crate) async fn what_has_ended_goes_with_all_of_it(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(2), at(3))).await;
    let tried = world.lane(ground.destination.id).await.remove(0);
    world.move_on(delivered(&tried, at(4))).await;
    let dead = world.delivery(&ground, at(5)).await;
    world.move_on(rejected(&dead, at(6))).await;
    let without = world.delivery(&ground, at(7)).await;
    world.move_on(ended_without(&without, at(8), Ending::DeadLetter(DeadReason::Expired))).await;
    let unmatched = event(&ground.account, at(9));
    world.commit_event(unmatched.clone(), &[]).await;

    prune(&world, &ground, at(10)).await;
    for gone in [&delivery, &dead, &without] {
        is_not_found(world.store.event(ground.account.id, gone.event_id).await, "event");
        is_not_found(world.store.event_payload(ground.account.id, gone.event_id).await, "event");
        is_not_found(world.store.delivery(ground.account.id, gone.id).await, "delivery");
        let attempts = world.store.attempts_of_delivery(ground.account.id, gone.id, 10).await.unwrap();
        assert!(attempts.is_empty(), "{attempts:?}");
    }
    is_not_found(world.store.event(ground.account.id, unmatched.id).await, "event");
    let destination = ground.destination.id;
    let left =
        world.store.attempts_of_destination(ground.account.id, destination, first(10)).await.unwrap().rows;
    assert!(left.is_empty(), "{left:?}");
    assert!(world.events(&ground.account, &EventFilter::default(), 10).await.is_empty());
    assert!(world.deliveries(&ground.account, &DeliveryFilter::default(), 10).await.is_empty());
}

pub(crate) async fn what_waits_stays_with_all_that_belongs_to_it(world: World) {
    let ground = world.ground().await;
    let other = world.route(&world.destination(&ground.account).await).await;
    let event = event(&ground.account, at(1));
    let both = world.commit_event(event.clone(), &[&ground.route, &other]).await;
    world.move_on(delivered(&both[0], at(2))).await;
    let before = world.store.event(ground.account.id, event.id).await.unwrap();

    prune(&world, &ground, at(1_000)).await;
    assert_eq!(world.store.event(ground.account.id, event.id).await.unwrap(), before);
    let kept = plain(world.store.event_payload(ground.account.id, event.id).await.map(Some));
    assert_eq!(kept.payload, event.payload);
    world.store.delivery(ground.account.id, both[0].id).await.expect("its sister waits");
    assert_eq!(world.store.attempts_of_delivery(ground.account.id, both[0].id, 9).await.unwrap().len(), 1);

    world.move_on(delivered(&both[1], at(1_001))).await;
    prune(&world, &ground, at(1_002)).await;
    is_not_found(world.store.event(ground.account.id, event.id).await, "event");
}

pub(crate) async fn dead_letters_that_go_are_no_longer_counted(world: World) {
    let ground = world.ground().await;
    let mut dead = Vec::new();
    for second in 1..=4 {
        let delivery = world.delivery(&ground, at(second)).await;
        world.move_on(rejected(&delivery, at(second))).await;
        dead.push(delivery.id);
    }
    let untried = world.delivery(&ground, at(5)).await;
    world.move_on(ended_without(&untried, at(6), Ending::DeadLetter(DeadReason::Expired))).await;
    let groups = async || {
        let found = world
            .store
            .dead_letter_groups(ground.account.id, GroupFilter::default(), None, 10)
            .await
            .unwrap();
        found.iter().map(|it| (it.key.reason, it.count, it.oldest, it.newest)).collect::<Vec<_>>()
    };
    let expired = (DeadReason::Expired, 1, untried.id, untried.id);
    assert_eq!(groups().await, [expired, (DeadReason::Rejected, 4, dead[0], dead[3])]);
    prune(&world, &ground, at(3)).await;
    assert_eq!(groups().await, [expired, (DeadReason::Rejected, 2, dead[2], dead[3])]);
    prune(&world, &ground, at(5)).await;
    assert_eq!(groups().await, [expired]);
    prune(&world, &ground, at(10)).await;
    assert_eq!(groups().await, []);
}

pub(crate) async fn what_is_yet_to_be_made_keeps_its_event(world: World) {
    let ground = world.ground().await;
    let mut new = world.matched(event(&ground.account, at(1)), Vec::new()).await;
    new.expands = true;
    assert_eq!(world.commit(&new).await, Committed::New);
    prune(&world, &ground, at(10)).await;
    world.store.event(ground.account.id, new.event.id).await.expect("its deliveries are being made");
}

pub(crate) async fn what_is_younger_or_anothers_stays(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let old = ended(&world, &ground, at(1)).await;
    let young = ended(&world, &ground, at(5)).await;
    let anothers = ended(&world, &other, at(1)).await;
    prune(&world, &ground, at(5)).await;
    is_not_found(world.store.event(ground.account.id, old.event_id).await, "event");
    world.store.event(ground.account.id, young.event_id).await.expect("made at the horizon");
    world.store.delivery(ground.account.id, young.id).await.expect("with its delivery");
    world.store.event(other.account.id, anothers.event_id).await.expect("another account's");
    assert_eq!(world.store.attempts_of_delivery(other.account.id, anothers.id, 9).await.unwrap().len(), 1);
}

pub(crate) async fn a_walk_goes_past_what_it_has_to_keep(world: World) {
    let ground = world.ground().await;
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for n in 0..12 {
        let delivery = world.delivery(&ground, at(n)).await;
        if n % 3 == 0 {
            kept.push(delivery.event_id);
        } else {
            world.move_on(delivered(&delivery, at(100))).await;
            gone.push(delivery.event_id);
        }
    }
    let term = term(&world).await;
    let mut walk = walk(&ground, at(50), 2, 100);
    let mut steps = 0;
    loop {
        let pruned = world.store.prune_events(term, walk).await.unwrap().expect("the term stands");
        steps += 1;
        let Some(next) = pruned.next else { break };
        assert!(next > walk.from, "it does not stand still");
        walk.from = next;
    }
    assert!(steps <= 7, "{steps} steps of two events");
    let left: BTreeSet<EventId> = listed(&world, &ground).await;
    assert_eq!(left, BTreeSet::from_iter(kept));
}

pub(crate) async fn an_event_with_many_deliveries_goes_in_steps(world: World) {
    let ground = world.ground().await;
    let mut routes = vec![ground.route.clone()];
    for _ in 0..9 {
        routes.push(world.route(&world.destination(&ground.account).await).await);
    }
    let large = event(&ground.account, at(1));
    for delivery in world.commit_event(large.clone(), &Vec::from_iter(&routes)).await {
        world.move_on(delivered(&delivery, at(2))).await;
    }
    let next = ended(&world, &ground, at(3)).await;
    let term = term(&world).await;
    let mut walk = walk(&ground, at(9), 10, 4);
    let mut steps = 0;
    while let Some(next) = world.store.prune_events(term, walk).await.unwrap().expect("the term stands").next
    {
        walk.from = next;
        steps += 1;
        assert!(steps < 30, "it comes to an end");
    }
    assert!(steps >= 2, "{steps} steps of four rows");
    is_not_found(world.store.event(ground.account.id, large.id).await, "event");
    is_not_found(world.store.event(ground.account.id, next.event_id).await, "event");
    assert!(world.deliveries(&ground.account, &DeliveryFilter::default(), 50).await.is_empty());
}

pub(crate) async fn a_key_may_outlive_its_event(world: World) {
    let ground = world.ground().await;
    let mut new = world.matched(event(&ground.account, at(1)), Vec::new()).await;
    new.key = Some(crate::fixtures::key(&ground.account, 1, 1));
    assert_eq!(world.commit(&new).await, Committed::New);
    prune(&world, &ground, at(2)).await;
    let mut again = world.matched(event(&ground.account, at(3)), Vec::new()).await;
    again.key = new.key;
    let expected = Committed::Duplicate { of: new.event.id, deliveries: Some(0), body_hash: [1; 32] };
    assert_eq!(world.commit(&again).await, expected);
}

pub(crate) async fn the_last_words_about_what_is_gone_go_too(world: World) {
    let ground = world.ground().await;
    let gone = ended(&world, &ground, at(1)).await;
    let kept = ended(&world, &ground, at(2)).await;
    prune(&world, &ground, at(2)).await;
    // Somebody who was away for long.
    assert_eq!(world.settle(&[delivered(&gone, at(3))], at(4)).await, [false]);
    let facts = world.store.attempts_of_delivery(ground.account.id, gone.id, 9).await.unwrap();
    assert_eq!(facts.len(), 1);

    let term = term(&world).await;
    let mut walk = FactWalk { from: DeliveryId::MIN, before: at(9), deliveries: 1 };
    while let Some(next) = world.store.prune_facts(term, walk).await.unwrap().expect("the term stands").next {
        assert!(next > walk.from);
        walk.from = next;
    }
    let facts = world.store.attempts_of_delivery(ground.account.id, gone.id, 9).await.unwrap();
    assert!(facts.is_empty(), "{facts:?}");
    assert_eq!(world.store.attempts_of_delivery(ground.account.id, kept.id, 9).await.unwrap().len(), 1);
}

pub(crate) async fn a_replay_that_has_ended_goes_with_what_it_says(world: World) {
    let ground = world.ground().await;
    let (first, second) = (ended(&world, &ground, at(1)).await, ended(&world, &ground, at(2)).await);
    let key = ReplayKey { hash: [1; 32], body_hash: [2; 32] };
    let (old, made) = replay_of(&world, &ground, &first, at(10), Some(key)).await;
    world.move_on(delivered(&made, at(11))).await;
    let (young, _) = replay_of(&world, &ground, &second, at(20), None).await;

    assert_eq!(prune_replays(&world, &ground, at(10), 10, 10).await.0, 0, "it ended at 10, not before");
    let (rows, _) = prune_replays(&world, &ground, at(20), 10, 10).await;
    assert!(rows >= 2, "{rows}");
    is_not_found(world.store.replay(ground.account.id, old).await, "replay");
    is_not_found(world.store.replayed(ground.account.id, old, first.id).await, "replay");
    world.store.replay(ground.account.id, young).await.expect("it is younger");
    world.store.delivery(ground.account.id, made.id).await.expect("what it made is its event's");
    assert_eq!(prune_replays(&world, &ground, at(20), 10, 10).await.0, 0, "nothing is left of it");
    let again = replay_of(&world, &ground, &first, at(30), Some(key)).await;
    assert_ne!(again.0, old, "its key may be used again");
}

pub(crate) async fn a_replay_stays_as_long_as_one_of_its_deliveries_waits(world: World) {
    let ground = world.ground().await;
    let original = ended(&world, &ground, at(1)).await;
    let (replay, made) = replay_of(&world, &ground, &original, at(2), None).await;
    assert_eq!(prune_replays(&world, &ground, at(100), 10, 10).await.0, 0);
    let told = world.store.replay(ground.account.id, replay).await.expect("what it made waits");
    assert_eq!((told.status, told.created, told.delivered), (ReplayStatus::Completed, 1, 0));
    assert_eq!(world.store.replayed(ground.account.id, replay, original.id).await.unwrap(), Some(made.id));
    world.move_on(delivered(&made, at(101))).await;
    assert_eq!(world.store.replay(ground.account.id, replay).await.unwrap().delivered, 1);
    assert!(prune_replays(&world, &ground, at(102), 10, 10).await.0 >= 2);
    is_not_found(world.store.replay(ground.account.id, replay).await, "replay");
}

pub(crate) async fn a_replay_that_has_not_ended_stays(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let filter = || Selection::Filter(DeliveryFilter::default());
    let (mut ids, account) = (Vec::new(), ground.account.id);
    for second in 1..=3 {
        ids.push(begin_replay(&world, &new_replay(&ground, filter(), at(second))).await);
    }
    let anothers = begin_replay(&world, &new_replay(&other, filter(), at(1))).await;
    world.store.switch_replay(account, ids[1], ReplaySwitch::Pause, at(5), &audit_entry()).await.unwrap();
    world.store.switch_replay(account, ids[2], ReplaySwitch::Cancel, at(6), &audit_entry()).await.unwrap();
    world
        .store
        .switch_replay(other.account.id, anothers, ReplaySwitch::Cancel, at(6), &audit_entry())
        .await
        .unwrap();
    assert!(prune_replays(&world, &ground, at(100), 10, 10).await.0 >= 1);
    for (id, status) in [(ids[0], ReplayStatus::Running), (ids[1], ReplayStatus::Paused)] {
        assert_eq!(world.store.replay(account, id).await.unwrap().status, status);
    }
    is_not_found(world.store.replay(account, ids[2]).await, "replay");
    world.store.replay(other.account.id, anothers).await.expect("another account's");
}

pub(crate) async fn replays_go_in_steps(world: World) {
    let ground = world.ground().await;
    let mut waits = Vec::new();
    for second in 1..=9 {
        let original = ended(&world, &ground, at(second)).await;
        let (replay, made) = replay_of(&world, &ground, &original, at(second + 10), None).await;
        match second % 3 {
            0 => waits.push(replay),
            _ => world.move_on(delivered(&made, at(40))).await,
        }
    }
    for (replays, rows) in [(2, 100), (100, 2)] {
        let (_, steps) = prune_replays(&world, &ground, at(50), replays, rows).await;
        assert!(steps >= 2, "{steps} steps of {replays} replays and {rows} rows");
    }
    let page = world.store.replays(ground.account.id, first(50)).await.unwrap().rows;
    let left: BTreeSet<ReplayId> = page.into_iter().map(|replay| replay.id).collect();
    assert_eq!(left, BTreeSet::from_iter(waits));
}

pub(crate) async fn a_chore_is_one_nodes_at_a_time(world: World) {
    let (me, other) = (world.node.id, NodeId::at(at(0), chance()));
    let take = async |node, now| world.store.take_chore(Chore::Prune, node, now, LEASE).await.unwrap();
    let mine = take(me, at(0)).await.expect("nobody has it");
    assert_eq!(take(me, at(9)).await, Some(mine), "it goes on under the same term");
    if !world.backend.has_many_nodes() {
        return;
    }
    assert_eq!(take(other, at(18)).await, None, "it was said again at 9");
    let theirs = take(other, at(19)).await.expect("its lease has ended");
    assert!(theirs.number > mine.number);
    assert_eq!(take(me, at(20)).await, None);
    let rolls_up = world.store.take_chore(Chore::RollUp, me, at(20), LEASE).await.unwrap();
    assert!(rolls_up.is_some(), "another chore is another's");
}

pub(crate) async fn who_has_lost_the_chore_removes_nothing(world: World) {
    if !world.backend.has_many_nodes() {
        return;
    }
    let ground = world.ground().await;
    let old = ended(&world, &ground, at(1)).await;
    let mine = term(&world).await;
    let other = NodeId::at(at(0), chance());
    let taken = world.store.take_chore(Chore::Prune, other, at(1_000_000), LEASE).await.unwrap();
    assert!(taken.is_some());
    assert_eq!(world.store.prune_events(mine, walk(&ground, at(9), 10, 10)).await.unwrap(), None);
    let facts = FactWalk { from: DeliveryId::MIN, before: at(9), deliveries: 10 };
    assert_eq!(world.store.prune_facts(mine, facts).await.unwrap(), None);
    let replays = replay_walk(&ground, at(9), 10, 10);
    assert_eq!(world.store.prune_replays(mine, replays).await.unwrap(), None);
    assert_eq!(world.store.prune_days(mine, at(9)).await.unwrap().unwrap_or(0), 0);
    world.store.event(ground.account.id, old.event_id).await.expect("it is there");
    let theirs = world.store.prune_events(taken.unwrap(), walk(&ground, at(9), 10, 10)).await.unwrap();
    assert!(theirs.is_some_and(|pruned| pruned.rows > 0));
}

pub(crate) async fn of_many_who_take_a_chore_at_once_one_has_it(world: World) {
    if !world.backend.has_many_nodes() {
        return;
    }
    let takers = (0..8).map(|_| {
        let (store, node) = (world.store.clone(), NodeId::at(at(0), chance()));
        tokio::spawn(async move { store.take_chore(Chore::Prune, node, at(0), LEASE).await.unwrap() })
    });
    let mut taken = 0;
    for taker in takers.collect::<Vec<_>>() {
        taken += usize::from(taker.await.unwrap().is_some());
    }
    assert_eq!(taken, 1);
}

// --- Steps ---------------------------------------------------------------------------------------------------------

pub(crate) async fn term(world: &World) -> Term {
    let taken = world.store.take_chore(Chore::Prune, world.node.id, at(0), LEASE).await.unwrap();
    taken.expect("nobody else has it")
}

fn walk(ground: &Ground, before: Timestamp, events: usize, rows: usize) -> EventWalk {
    EventWalk { account_id: ground.account.id, from: EventId::MIN, before, events, rows }
}

fn replay_walk(ground: &Ground, before: Timestamp, replays: usize, rows: usize) -> ReplayWalk {
    ReplayWalk { account_id: ground.account.id, from: FIRST_REPLAY, before, replays, rows }
}

/// All replays that may go of an account; gives how many rows went, in how many steps.
async fn prune_replays(
    world: &World,
    ground: &Ground,
    before: Timestamp,
    replays: usize,
    rows: usize,
) -> (usize, usize) {
    let term = term(world).await;
    let mut walk = replay_walk(ground, before, replays, rows);
    let (mut gone, mut steps) = (0, 0);
    loop {
        let pruned = world.store.prune_replays(term, walk).await.unwrap().expect("the term stands");
        (gone, steps) = (gone + pruned.rows, steps + 1);
        let Some(next) = pruned.next else { return (gone, steps) };
        assert!(next > walk.from, "it does not stand still");
        walk.from = next;
    }
}

fn new_replay(ground: &Ground, selection: Selection, created_at: Timestamp) -> NewReplay {
    NewReplay {
        id: ReplayId::at(created_at, chance()),
        account_id: ground.account.id,
        selection,
        rate: 30,
        matched: 1,
        matched_exact: true,
        created_by: ApiKeyId::at(at(0), 7).into(),
        created_at,
        key: None,
        at_once: None,
    }
}

async fn begin_replay(world: &World, new: &NewReplay) -> ReplayId {
    match world.store.create_replay(new, &audit_entry()).await.expect("a replay") {
        CreatedReplay::New(replay) => replay.id,
        CreatedReplay::Known { .. } => panic!("it is new"),
    }
}

/// Of one delivery, made at once; with what it made.
async fn replay_of(
    world: &World,
    ground: &Ground,
    original: &Delivery,
    now: Timestamp,
    key: Option<ReplayKey>,
) -> (ReplayId, Delivery) {
    let id = DeliveryId::at(now, chance());
    let delivery = NewDelivery::unordered(id, original.route_id, original.destination_id, now);
    let replayed = Replayed { origin: original.id, event_id: original.event_id, delivery };
    let selection = Selection::Deliveries(vec![original.id].into());
    let new = NewReplay { key, at_once: Some(replayed), ..new_replay(ground, selection, now) };
    let replay = begin_replay(world, &new).await;
    let made = world.lane(original.destination_id).await.into_iter().find(|row| row.id == id);
    (replay, made.expect("it waits"))
}

/// All that may go of an account.
pub(crate) async fn prune(world: &World, ground: &Ground, before: Timestamp) {
    let term = term(world).await;
    let mut walk = walk(ground, before, 100, 1_000);
    while let Some(next) = world.store.prune_events(term, walk).await.unwrap().expect("the term stands").next
    {
        walk.from = next;
    }
}

/// An event whose only delivery was delivered.
async fn ended(world: &World, ground: &Ground, received_at: Timestamp) -> Delivery {
    let delivery = world.delivery(ground, received_at).await;
    world.move_on(delivered(&delivery, received_at)).await;
    delivery
}

async fn listed(world: &World, ground: &Ground) -> BTreeSet<EventId> {
    let page = world.store.events(ground.account.id, &EventFilter::default(), first(100)).await.unwrap();
    page.rows.into_iter().map(|record| record.event.id).collect()
}
