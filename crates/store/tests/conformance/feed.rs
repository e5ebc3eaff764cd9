//! The feed of what has just happened: everything once, in an order that can be left and taken up again.

use crate::fixtures::*;
use domain::{
    delivery::{CancelReason, Ending},
    gate::{HoldReason, HoldRecord},
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    limits,
    outcome::Outcome,
    testing::audit_entry,
    time::Timestamp,
};
use std::collections::BTreeMap;
use store::{
    Chore, EventRecord, EventWalk, FactRecord, FeedChange, FeedEntry, FeedPlace, Followed, GateWord,
    Resumption,
};

pub(crate) async fn what_happens_to_a_delivery_is_told_as_it_was_left(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let place = world.end(at(2)).await;
    assert_eq!(world.all(&[ground.account.id], &place).await.0, []);

    world.move_on(retried(&delivery, at(3), at(33))).await;
    let (entries, place) = world.all(&[ground.account.id], &place).await;
    let [retry] = &facts(&entries)[..] else { panic!("{entries:?}") };
    assert_eq!((retry.delivery_id, retry.event_id), (delivery.id, delivery.event_id));
    assert_eq!((retry.route_id, retry.destination_id), (ground.route.id, ground.destination.id));
    assert_eq!((retry.event_type.as_str(), retry.origin), ("invoice.paid", delivery.id));
    assert_eq!((retry.attempts, retry.spent), (1, 1));
    assert_eq!((retry.outcome, retry.http_status), (Some(Outcome::ServerError), Some(503)));
    assert_eq!((retry.ending, retry.next_attempt_at), (None, Some(at(33))));
    let attempt = retry.attempt.expect("there was one");
    assert_eq!(attempt.started_at.plus(attempt.duration), over(at(3)));

    let waiting = world.lane(ground.destination.id).await.remove(0);
    world.move_on(delivered(&waiting, at(34))).await;
    let (entries, place) = world.all(&[ground.account.id], &place).await;
    let [ended] = &facts(&entries)[..] else { panic!("{entries:?}") };
    assert_eq!((ended.attempts, ended.spent, ended.next_attempt_at), (2, 1, None));
    assert_eq!(ended.ending, Some((Ending::Delivered, over(at(34)))));
    assert_eq!(world.all(&[ground.account.id], &place).await.0, [], "each once");
}

pub(crate) async fn an_ending_without_an_attempt_is_told_with_the_last_one_before(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(2), at(32))).await;
    let place = world.end(at(3)).await;
    let fact = AttemptId::at(at(4), chance());
    world
        .store
        .cancel(ground.account.id, delivery.id, fact, at(4), &audit_entry())
        .await
        .unwrap()
        .expect("it waits");
    let (entries, _) = world.all(&[ground.account.id], &place).await;
    let [ended] = &facts(&entries)[..] else { panic!("{entries:?}") };
    assert_eq!(ended.ending, Some((Ending::Cancelled(CancelReason::Requested), at(4))));
    assert_eq!((ended.attempt, ended.attempts), (None, 1));
    assert_eq!((ended.outcome, ended.http_status), (Some(Outcome::ServerError), Some(503)));
}

pub(crate) async fn a_late_word_is_not_told(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(2), at(32))).await;
    let place = world.end(at(3)).await;
    assert_eq!(world.settle(&[delivered(&delivery, at(2))], at(4)).await, [false]);
    assert_eq!(world.all(&[ground.account.id], &place).await.0, []);
}

pub(crate) async fn only_the_accounts_asked_for_are_told_of(world: World) {
    let (ours, theirs) = (world.ground().await, world.ground().await);
    let place = world.end(at(1)).await;
    for ground in [&ours, &theirs, &ours] {
        let delivery = world.delivery(ground, at(2)).await;
        world.move_on(delivered(&delivery, at(3))).await;
    }
    world.hold(theirs.destination.id, hold(4, None)).await;
    let (entries, _) = world.all(&[ours.account.id], &place).await;
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.account_id == ours.account.id));
    let (entries, _) = world.all(&[ours.account.id, theirs.account.id], &place).await;
    assert_eq!(entries.iter().filter(|entry| entry.account_id == theirs.account.id).count(), 2);
    assert_eq!(world.all(&[], &place).await.0, []);
}

pub(crate) async fn holds_are_told_when_they_begin_change_and_end(world: World) {
    let ground = world.ground().await;
    let id = ground.destination.id;
    let mut place = world.end(at(1)).await;
    for entry in [hold(2, None), HoldRecord { until: Some(at(90)), ..hold(2, None) }, hold(2, Some(6))] {
        world.hold(id, entry.clone()).await;
        let (entries, next) = world.all(&[ground.account.id], &place).await;
        assert_eq!(whats(&entries), [&FeedChange::Hold(id, entry)]);
        place = next;
    }
    // What has changed twice is told once, as it is.
    world.hold(id, hold(7, None)).await;
    world.hold(id, hold(7, Some(8))).await;
    let (entries, place) = world.all(&[ground.account.id], &place).await;
    assert_eq!(whats(&entries), [&FeedChange::Hold(id, hold(7, Some(8)))]);
    let paused = HoldRecord { reason: HoldReason::Paused, until: None, step: None, ..hold(7, Some(9)) };
    world.store.note_holds(id, std::slice::from_ref(&paused)).await.expect("it is written");
    assert_eq!(whats(&world.all(&[ground.account.id], &place).await.0), [&FeedChange::Hold(id, paused)]);
}

pub(crate) async fn everything_is_told_once_whatever_the_size_of_a_page(world: World) {
    let ground = world.ground().await;
    let place = world.end(at(0)).await;
    for n in 0..23 {
        let delivery = world.delivery(&ground, at(1)).await;
        // The later it is settled, the earlier it began: ids say nothing about the order.
        world.move_on(delivered(&delivery, at(40 - n))).await;
        if n % 7 == 0 {
            world.hold(ground.destination.id, hold(n, Some(n + 1))).await;
        }
    }
    let words: Vec<GateWord> =
        vec![word(ground.destination.id, vec![hold(90, None), hold(91, None), hold(92, None)])];
    world.store.keep_gates(world.node.id, &words, at(99)).await.expect("they are kept");
    for limit in [1, 2, 5, 23, 500] {
        let (entries, end) = world.pages(&[ground.account.id], &place, limit).await;
        assert_eq!(told(&entries).len(), 23 + 4 + 3, "{limit} a page");
        assert!(told(&entries).values().all(|times| *times == 1), "{limit} a page: {entries:?}");
        assert_eq!(world.pages(&[ground.account.id], &end, limit).await.0, []);
    }
}

pub(crate) async fn whoever_stops_anywhere_goes_on_without_a_hole(world: World) {
    let ground = world.ground().await;
    let place = world.end(at(0)).await;
    for n in 0..9 {
        let delivery = world.delivery(&ground, at(1)).await;
        world.move_on(delivered(&delivery, at(30 - n))).await;
        if n % 4 == 0 {
            world.hold(ground.destination.id, hold(n, None)).await;
        }
    }
    let (entries, _) = world.pages(&[ground.account.id], &place, 4).await;
    assert_eq!(entries.len(), 12);
    for heard in 0..entries.len() {
        let text = entries[heard].place.to_string();
        let Resumption::At(place) = world.store.feed_place(&text).await.unwrap() else { panic!("{text}") };
        let (rest, _) = world.pages(&[ground.account.id], &place, 5).await;
        let mut all = told(&entries[..=heard]);
        all.extend(told(&rest));
        assert_eq!(all.len(), 12, "after {heard}");
    }
}

pub(crate) async fn a_place_covers_what_was_there_and_nothing_later(world: World) {
    let ground = world.ground().await;
    let place = world.end(at(0)).await;
    let (early, late) = (world.delivery(&ground, at(1)).await, world.delivery(&ground, at(1)).await);
    world.move_on(delivered(&early, at(2))).await;
    world.hold(ground.destination.id, hold(2, None)).await;
    let between = world.end(at(3)).await;
    world.move_on(delivered(&late, at(2))).await;
    world.hold(ground.destination.id, hold(3, None)).await;
    let (entries, end) = world.all(&[ground.account.id], &place).await;
    let covered = |place: &FeedPlace| entries.iter().filter(|entry| place.covers(entry.stamp)).count();
    assert_eq!((covered(&place), covered(&between), covered(&end)), (0, 2, 4));
    assert_eq!(world.all(&[ground.account.id], &between).await.0.len(), 2);
}

pub(crate) async fn a_past_of_hours_is_caught_up_with(world: World) {
    let ground = world.ground().await;
    let place = world.end(at(0)).await;
    let moments = [10, 4_000, 4_001, 40_000, 40_500, 86_000];
    for moment in moments {
        let delivery = world.delivery(&ground, at(1)).await;
        world.move_on(delivered(&delivery, at(moment))).await;
    }
    world.hold(ground.destination.id, hold(50_000, None)).await;
    let (mut entries, mut at_place) = (Vec::new(), place);
    loop {
        let page =
            world.store.feed(changes(&[ground.account.id]), &at_place, 2, at(90_000)).await.expect("a page");
        entries.extend(page.entries);
        at_place = page.next;
        if !page.more {
            break;
        }
    }
    assert_eq!(entries.len(), moments.len() + 1);
    assert_eq!(at_place.at(), at(90_000));
}

pub(crate) async fn an_event_is_told_when_it_is_durable(world: World) {
    let (ours, theirs) = (world.ground().await, world.ground().await);
    let place = world.end(at(0)).await;
    let delivery = world.delivery(&ours, at(1)).await;
    world.delivery(&theirs, at(1)).await;
    let (entries, next) = world.read(everything(&[ours.account.id]), &place, 500).await;
    let [told] = &events(&entries)[..] else { panic!("{entries:?}") };
    let kept = world.store.event(ours.account.id, delivery.event_id).await.expect("it is kept");
    assert_eq!(**told, kept, "as the history has it");
    assert_eq!((told.fanout.total, told.fanout.waiting, told.event.payload.len()), (1, 1, 0));
    assert_eq!((next.covers(entries[0].stamp), place.covers(entries[0].stamp)), (true, false));

    world.move_on(delivered(&delivery, at(2))).await;
    let (entries, _) = world.read(everything(&[ours.account.id]), &next, 500).await;
    assert_eq!((entries.len(), events(&entries).len()), (1, 0), "once");
    let both = [ours.account.id, theirs.account.id];
    assert_eq!(events(&world.read(everything(&both), &place, 500).await.0).len(), 2);
}

pub(crate) async fn events_that_nobody_follows_are_passed_over(world: World) {
    let ground = world.ground().await;
    let place = world.end(at(0)).await;
    world.delivery(&ground, at(1)).await;
    let (entries, next) = world.all(&[ground.account.id], &place).await;
    assert_eq!(entries, []);
    let later = world.delivery(&ground, at(2)).await;
    let (entries, _) = world.read(everything(&[ground.account.id]), &next, 500).await;
    assert_eq!(events(&entries).iter().map(|told| told.event.id).collect::<Vec<_>>(), [later.event_id]);
}

pub(crate) async fn whoever_follows_hears_more_after_everything_was_pruned(world: World) {
    let ground = world.ground().await;
    for _ in 0..5 {
        let delivery = world.delivery(&ground, at(1)).await;
        world.move_on(delivered(&delivery, at(2))).await;
    }
    let place = world.end(at(3)).await;
    let term = world.store.take_chore(Chore::Prune, world.node.id, at(4), limits::LEASE).await.unwrap();
    let (account_id, before) = (ground.account.id, at(4));
    let walk = EventWalk { account_id, from: EventId::MIN, before, events: 100, rows: 100 };
    world.store.prune_events(term.expect("nobody has it"), walk).await.unwrap();
    let (entries, place) = world.read(everything(&[account_id]), &place, 500).await;
    assert_eq!(entries, []);

    let delivery = world.delivery(&ground, at(5)).await;
    world.move_on(delivered(&delivery, at(6))).await;
    let (entries, _) = world.read(everything(&[account_id]), &place, 500).await;
    assert_eq!(events(&entries).iter().map(|told| told.event.id).collect::<Vec<_>>(), [delivery.event_id]);
    assert_eq!(facts(&entries).iter().map(|told| told.delivery_id).collect::<Vec<_>>(), [delivery.id]);
}

pub(crate) async fn events_too_are_told_once_and_without_a_hole(world: World) {
    let ground = world.ground().await;
    let place = world.end(at(0)).await;
    for n in 0..9 {
        // The later it is committed, the earlier it was received: ids say nothing about the order.
        let delivery = world.delivery(&ground, at(30 - n)).await;
        world.move_on(delivered(&delivery, at(40))).await;
        if n % 4 == 0 {
            world.hold(ground.destination.id, hold(n, None)).await;
        }
    }
    let followed = [ground.account.id];
    for limit in [1, 2, 5, 9, 500] {
        let (entries, end) = world.read(everything(&followed), &place, limit).await;
        assert_eq!((told(&entries).len(), events(&entries).len()), (9 + 9 + 3, 9), "{limit} a page");
        assert!(told(&entries).values().all(|times| *times == 1), "{limit} a page: {entries:?}");
        assert_eq!(world.read(everything(&followed), &end, limit).await.0, []);
        for heard in 0..entries.len() {
            let text = entries[heard].place.to_string();
            let Resumption::At(place) = world.store.feed_place(&text).await.unwrap() else {
                panic!("{text}")
            };
            let mut all = told(&entries[..=heard]);
            all.extend(told(&world.read(everything(&followed), &place, 5).await.0));
            assert_eq!(all.len(), 21, "after {heard}");
        }
    }
}

pub(crate) async fn what_is_no_place_of_this_store_is_told_apart(world: World) {
    let here = world.end(at(1)).await.to_string();
    assert!(here.len() <= limits::STREAM_ID_BYTES);
    assert!(matches!(world.store.feed_place(&here).await.unwrap(), Resumption::At(_)));
    for text in ["", "yesterday", "n-", &format!("{here}-")] {
        assert_eq!(world.store.feed_place(text).await.unwrap(), Resumption::Malformed, "{text}");
    }
    for text in ["n-5f5e100-7fffffffffff-0-0", "n-5f5e100-0-0-7fffffffffff", "s-5f5e100-7fffffffffff.2"] {
        assert_eq!(world.store.feed_place(text).await.unwrap(), Resumption::Lost, "{text}");
    }
}

pub(crate) async fn what_another_node_writes_is_told_too(world: World) {
    let Some(other) = world.other_nodes.open().await else { return };
    let ground = world.ground().await;
    let place = world.end(at(0)).await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&delivery, at(2))).await;
    let page = other.feed(changes(&[ground.account.id]), &place, 10, at(3)).await.expect("a page");
    assert_eq!((page.entries.len(), page.more), (1, false));
    assert_eq!(other.feed(changes(&[ground.account.id]), &page.next, 10, at(3)).await.unwrap().entries, []);
}

pub(crate) async fn whoever_writes_stirs_the_feed(world: World) {
    let ground = world.ground().await;
    let deliveries = [world.delivery(&ground, at(1)).await, world.delivery(&ground, at(1)).await];
    world.move_on(delivered(&deliveries[0], at(2))).await;
    world.store.feed_written().await;
    let stirred = tokio::spawn({
        let store = world.store.clone();
        async move { store.feed_written().await }
    });
    world
        .store
        .cancel(ground.account.id, deliveries[1].id, AttemptId::at(at(3), chance()), at(3), &audit_entry())
        .await
        .unwrap();
    stirred.await.expect("it is heard");
}

impl World {
    async fn end(&self, now: Timestamp) -> FeedPlace {
        self.store.feed_end(now).await.expect("the end")
    }

    /// Everything behind a place, and the end.
    async fn all(&self, accounts: &[AccountId], after: &FeedPlace) -> (Vec<FeedEntry>, FeedPlace) {
        self.pages(accounts, after, 500).await
    }

    async fn pages(
        &self,
        accounts: &[AccountId],
        after: &FeedPlace,
        limit: usize,
    ) -> (Vec<FeedEntry>, FeedPlace) {
        self.read(changes(accounts), after, limit).await
    }

    async fn read(
        &self,
        followed: Followed<'_>,
        after: &FeedPlace,
        limit: usize,
    ) -> (Vec<FeedEntry>, FeedPlace) {
        let (mut entries, mut place) = (Vec::new(), after.clone());
        for _ in 0..100 {
            let page = self.store.feed(followed, &place, limit, at(100)).await.expect("a page");
            entries.extend(page.entries);
            place = page.next;
            if !page.more {
                return (entries, place);
            }
        }
        panic!("the feed does not end");
    }

    async fn hold(&self, id: DestinationId, entry: HoldRecord) {
        let now = entry.ended_at.unwrap_or(entry.since);
        self.store.keep_gates(self.node.id, &[word(id, vec![entry])], now).await.expect("it is kept");
    }
}

/// Deliveries and holds.
fn changes(accounts: &[AccountId]) -> Followed<'_> {
    Followed { accounts, events: false }
}

/// Events too.
fn everything(accounts: &[AccountId]) -> Followed<'_> {
    Followed { accounts, events: true }
}

fn word(id: DestinationId, holds: Vec<HoldRecord>) -> GateWord {
    GateWord { destination_id: id, shard: id.shard(), record: None, holds, notes: Vec::new() }
}

fn hold(since: u64, ended: Option<u64>) -> HoldRecord {
    HoldRecord {
        reason: HoldReason::Throttle,
        since: at(since),
        until: Some(at(since + 60)),
        detail: "429 Too Many Requests".into(),
        step: Some(1),
        ended_at: ended.map(at),
    }
}

fn whats(entries: &[FeedEntry]) -> Vec<&FeedChange> {
    entries.iter().map(|entry| &entry.change).collect()
}

fn events<'a>(entries: &'a [FeedEntry]) -> Vec<&'a EventRecord> {
    let event = |entry: &'a FeedEntry| match &entry.change {
        FeedChange::Event(record) => Some(&**record),
        FeedChange::Delivery(_) | FeedChange::Hold(..) => None,
    };
    entries.iter().filter_map(event).collect()
}

fn facts<'a>(entries: &'a [FeedEntry]) -> Vec<&'a FactRecord> {
    let fact = |entry: &'a FeedEntry| match &entry.change {
        FeedChange::Delivery(fact) => Some(&**fact),
        FeedChange::Event(_) | FeedChange::Hold(..) => None,
    };
    entries.iter().filter_map(fact).collect()
}

/// How often each thing was told.
fn told(entries: &[FeedEntry]) -> BTreeMap<(DeliveryId, u32, i64), usize> {
    let mut told = BTreeMap::new();
    for entry in entries {
        let key = match &entry.change {
            FeedChange::Delivery(fact) => (fact.delivery_id, fact.attempts, 0),
            FeedChange::Event(record) => (DeliveryId::from_uuid(record.event.id.uuid()), 0, -1),
            FeedChange::Hold(id, hold) => (DeliveryId::from_uuid(id.uuid()), 0, hold.since.micros()),
        };
        *told.entry(key).or_default() += 1;
    }
    told
}
