//! Summing up: every fact in its own minute, whoever asks and however often.

use crate::fixtures::{
    Ground, World, at, chance, delivered, ended_without, event, over, promise, rejected, retried, throttled,
};
use domain::{
    delivery::{CancelReason, Ending},
    id::{AccountId, AttemptId, DestinationId, EventId, NodeId},
    outcome::{DeadReason, Outcome},
    rollup::{FanoutSums, Span, Sums},
    testing::audit_entry,
    time::Timestamp,
};
use std::{collections::BTreeMap, time::Duration};
use store::{Chore, Chunk, EventCount, Rollup, RollupKind, RollupMark, SumPlace, Term};

const LEASE: Duration = Duration::from_secs(10);
const TOOK: Duration = Duration::from_micros(250_001);

pub(crate) async fn facts_are_summed_up_by_destination(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(2), at(3))).await;
    let tried = world.lane(ground.destination.id).await.remove(0);
    world.move_on(throttled(&tried, at(4))).await;
    let tried = world.lane(ground.destination.id).await.remove(0);
    world.move_on(delivered(&tried, at(5))).await;
    let dead = world.delivery(&ground, at(6)).await;
    world.move_on(rejected(&dead, at(7))).await;
    let expired = world.delivery(&ground, at(8)).await;
    world.move_on(ended_without(&expired, at(9), Ending::DeadLetter(DeadReason::Expired))).await;
    let cancelled = world.delivery(&other, at(10)).await;
    let fact = AttemptId::at(at(11), chance());
    world
        .store
        .cancel(other.account.id, cancelled.id, fact, at(11), &audit_entry())
        .await
        .unwrap()
        .expect("it waited");

    let mut expected = Sums::default();
    expected.note_attempts(Outcome::ServerError, Some(503), TOOK, 1);
    expected.note_attempts(Outcome::Throttled, Some(429), TOOK, 1);
    expected.note_attempts(Outcome::Success, Some(200), TOOK, 1);
    expected.note_attempts(Outcome::Rejected, Some(404), TOOK, 1);
    expected.note_endings(Ending::Delivered, 1);
    expected.note_delivered(delivery.id, over(at(5)));
    expected.note_endings(Ending::DeadLetter(DeadReason::Rejected), 1);
    expected.note_endings(Ending::DeadLetter(DeadReason::Expired), 1);
    let mut others = Sums::default();
    others.note_endings(Ending::Cancelled(CancelReason::Requested), 1);
    for span in Span::ALL {
        let sums = summed(&world, span, at(0), at(60)).await;
        assert_eq!(sums.get(&(ground.account.id, ground.destination.id)), Some(&expected), "{span:?}");
        assert_eq!(sums.get(&(other.account.id, other.destination.id)), Some(&others), "{span:?}");
        assert_eq!(sums.len(), 2);
    }
}

pub(crate) async fn a_fact_belongs_to_the_moment_its_attempt_began(world: World) {
    let ground = world.ground().await;
    for n in 0..10 {
        let delivery = world.delivery(&ground, at(n)).await;
        world.move_on(delivered(&delivery, at(10 * n))).await;
    }
    for span in Span::ALL {
        for (from, to, expected) in
            [(0, 100, 10), (0, 50, 5), (50, 100, 5), (30, 31, 1), (31, 40, 0), (90, 99, 1)]
        {
            let sums = summed(&world, span, at(from), at(to)).await;
            let attempts: u64 = sums.values().map(Sums::attempts).sum();
            assert_eq!(attempts, expected, "{span:?} from {from} to {to}");
        }
    }
}

pub(crate) async fn what_becomes_durable_is_added_to_its_minute_once(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let base = Span::Minute.start_after(at(0));
    let into = |seconds| base.plus(Duration::from_secs(seconds));
    let deliver = async |ground, began| {
        let delivery = world.delivery(ground, began).await;
        world.move_on(delivered(&delivery, began)).await;
    };
    deliver(&ground, into(1)).await;
    deliver(&ground, into(59)).await;
    deliver(&ground, into(60)).await;
    deliver(&other, into(61)).await;
    let mut place = None;
    let (mine, others) =
        ((ground.account.id, ground.destination.id), (other.account.id, other.destination.id));
    let minute = |n: u64, (account, destination)| (into(60 * n), account, destination);
    let first = fresh(&world, base, into(120), &mut place).await;
    let count = |sums: &Fresh, place| sums.get(&place).map(|sums| (sums.attempts(), sums.delivered));
    assert_eq!(first.len(), 3);
    assert_eq!(count(&first, minute(0, mine)), Some((2, 2)));
    assert_eq!(count(&first, minute(1, mine)), Some((1, 1)));
    assert_eq!(count(&first, minute(1, others)), Some((1, 1)));
    assert_eq!(fresh(&world, base, into(120), &mut place).await.len(), 0, "nothing is new");

    // Written after others, and begun before them; then a word that moves nothing, and an ending without an attempt.
    let slow = world.delivery(&ground, into(2)).await;
    world.move_on(delivered(&slow, into(3))).await;
    assert_eq!(world.settle(&[rejected(&slow, into(4))], into(62)).await, [false]);
    let expired = world.delivery(&other, into(5)).await;
    world.move_on(ended_without(&expired, into(63), Ending::DeadLetter(DeadReason::Expired))).await;
    let more = fresh(&world, base, into(120), &mut place).await;
    assert_eq!(more.len(), 2);
    assert_eq!(count(&more, minute(0, mine)), Some((2, 1)));
    assert_eq!(more[&minute(1, others)].dead_letter(), 1);

    // In all, it is what the facts say; and a minute that is left behind is not looked at.
    for (n, place) in [(0, mine), (1, mine), (1, others)] {
        let facts = summed(&world, Span::Minute, into(60 * n), into(60 * n + 60)).await;
        let mut added = first.get(&minute(n, place)).cloned().unwrap_or_default();
        added.add(&more.get(&minute(n, place)).cloned().unwrap_or_default());
        assert_eq!(facts[&place], added);
    }
    deliver(&ground, into(6)).await;
    deliver(&ground, into(64)).await;
    let last = fresh(&world, into(60), into(120), &mut place).await;
    assert_eq!((last.len(), count(&last, minute(1, mine))), (1, Some((1, 1))));
    let anew = fresh(&world, into(60), into(120), &mut None).await;
    assert_eq!(
        (anew.len(), count(&anew, minute(1, mine))),
        (2, Some((2, 2))),
        "whoever begins reads all of it"
    );
}

pub(crate) async fn a_late_attempt_counts_and_ends_nothing(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&delivery, at(2))).await;
    assert_eq!(world.settle(&[rejected(&delivery, at(3))], at(4)).await, [false]);
    let sums = summed(&world, Span::Minute, at(0), at(60)).await;
    let sums = &sums[&(ground.account.id, ground.destination.id)];
    assert_eq!((sums.attempts(), sums.delivered, sums.dead_letter()), (2, 1, 0));
}

pub(crate) async fn events_are_counted_by_account(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    for n in 0..3 {
        world.delivery(&ground, at(n)).await;
    }
    world.commit_event(event(&other.account, at(1)), &[]).await;
    let mut large = world.matched(event(&other.account, at(2)), Vec::new()).await;
    large.expands = true;
    world.commit(&large).await;
    let counted = async |from, to| {
        let mut counts = world.store.count_events(at(from), at(to)).await.unwrap();
        counts.sort_by_key(|count| count.account_id);
        counts
    };
    let count = |account_id, events, deliveries| EventCount { account_id, events, deliveries };
    assert_eq!(counted(0, 2).await, [count(ground.account.id, 2, 2), count(other.account.id, 1, 0)]);
    assert_eq!(counted(2, 3).await, [count(ground.account.id, 1, 1), count(other.account.id, 1, 0)]);
    assert_eq!(counted(3, 60).await, []);
    let chunk = Chunk {
        event_id: large.event.id,
        from: None,
        to: None,
        deliveries: Vec::new(),
        other_routes: Vec::new(),
        done: true,
    };
    assert!(world.store.expand(&chunk).await.unwrap());
    assert_eq!(counted(2, 3).await[1], count(other.account.id, 1, 0));
}

pub(crate) async fn fan_outs_are_judged_by_all_of_their_deliveries(world: World) {
    let ground = world.ground().await;
    let second = world.route(&world.destination(&ground.account).await).await;
    let routes = [&ground.route, &second];
    let mut fan = Vec::new();
    for n in 0..4 {
        fan.push(world.commit_event(event(&ground.account, at(n)), &routes).await);
    }
    world.commit_event(event(&ground.account, at(4)), &[]).await; // nobody wants it
    let mut large = world.matched(event(&ground.account, at(5)), Vec::new()).await;
    large.expands = true;
    world.commit(&large).await;
    // Whole, in part, not at all, not yet.
    world.move_on(delivered(&fan[0][0], at(10))).await;
    world.move_on(delivered(&fan[0][1], at(20))).await;
    world.move_on(delivered(&fan[1][0], at(21))).await;
    world.move_on(rejected(&fan[1][1], at(21))).await;
    world.move_on(rejected(&fan[2][0], at(22))).await;
    world.move_on(rejected(&fan[2][1], at(22))).await;
    world.move_on(delivered(&fan[3][0], at(23))).await;

    let mut expected = FanoutSums { events: 5, complete: 3, partial: 1, ..FanoutSums::default() };
    for (received, ended) in [(0, 20), (1, 21), (2, 22)] {
        expected.lag.note(over(at(ended)).since(at(received)), 1);
    }
    for limit in [1, 2, 100] {
        let (mut sums, mut from) = (FanoutSums::default(), Some(EventId::at(at(0), 0)));
        while let Some(begin) = from {
            let (found, next) = world.store.sum_fanouts(begin, at(60), limit).await.unwrap();
            for (account, found) in found {
                assert_eq!(account, ground.account.id);
                sums.add(&found);
            }
            from = next;
        }
        assert_eq!(sums, expected, "{limit} a step");
    }
    let (none, next) = world.store.sum_fanouts(EventId::at(at(6), 0), at(60), 10).await.unwrap();
    assert!(none.is_empty() && next.is_none());
}

pub(crate) async fn rollups_are_written_over(world: World) {
    let ground = world.ground().await;
    let term = term(&world).await;
    let row = |destination_id, kind, seconds, doc: &str| Rollup {
        account_id: ground.account.id,
        destination_id,
        kind,
        starts_at: at(seconds),
        doc: doc.into(),
    };
    let (of, hour) = (Some(ground.destination.id), RollupKind::Sums(Span::Hour));
    let first = [row(None, hour, 0, "1"), row(of, hour, 0, "2"), row(of, hour, 3_600, "3")];
    assert!(world.store.write_rollups(term, &first).await.unwrap());
    let again = [row(of, hour, 0, "4"), row(of, RollupKind::Fanout(Span::Hour), 0, "5")];
    assert!(world.store.write_rollups(term, &again).await.unwrap());
    let read = async |destination, kind, from, to| {
        world.store.rollups(ground.account.id, destination, kind, at(from), at(to)).await.unwrap()
    };
    assert_eq!(read(None, hour, 0, 9_000).await, [(at(0), "1".into())]);
    assert_eq!(read(of, hour, 0, 9_000).await, [(at(0), "4".into()), (at(3_600), "3".into())]);
    assert_eq!(read(of, hour, 1, 3_600).await, []);
    assert_eq!(read(of, RollupKind::Fanout(Span::Hour), 0, 1).await, [(at(0), "5".into())]);
    let foreign = world.account().await;
    assert_eq!(world.store.rollups(foreign.id, of, hour, at(0), at(9_000)).await.unwrap(), []);

    assert_eq!(world.store.prune_rollups(term, hour, at(3_600), 1).await.unwrap(), Some(1));
    assert_eq!(world.store.prune_rollups(term, hour, at(3_600), 10).await.unwrap(), Some(1));
    assert_eq!(world.store.prune_rollups(term, hour, at(3_600), 10).await.unwrap(), Some(0));
    assert_eq!(read(of, hour, 0, 9_000).await, [(at(3_600), "3".into())]);
}

pub(crate) async fn rollups_of_many_destinations_are_read_together(world: World) {
    let ground = world.ground().await;
    let second = world.destination(&ground.account).await;
    let stranger = world.ground().await;
    let term = term(&world).await;
    let hour = RollupKind::Sums(Span::Hour);
    let row = |ground: &Ground, of: DestinationId, seconds, doc: &str| Rollup {
        account_id: ground.account.id,
        destination_id: Some(of),
        kind: hour,
        starts_at: at(seconds),
        doc: doc.into(),
    };
    let (one, two, other) = (ground.destination.id, second.id, stranger.destination.id);
    let rows = [
        row(&ground, one, 3_600, "2"),
        row(&ground, one, 0, "1"),
        row(&ground, two, 0, "3"),
        row(&ground, two, 7_200, "4"),
        row(&stranger, other, 0, "5"),
    ];
    assert!(world.store.write_rollups(term, &rows).await.unwrap());
    let read = async |ids: &[DestinationId], from, to, limit| {
        let account = ground.account.id;
        world.store.rollups_of_destinations(account, ids, hour, at(from), at(to), limit).await.unwrap()
    };
    let (first, second) = ((one, at(0), "1".to_owned()), (one, at(3_600), "2".to_owned()));
    let third = (two, at(0), "3".to_owned());
    let both = [third.clone(), first.clone(), second.clone()];
    assert_eq!(read(&[two, one, other], 0, 7_200, 10).await, both, "in the order asked for");
    assert_eq!(read(&[one, two], 0, 7_200, 2).await, [first, second.clone()], "no more than the limit");
    assert_eq!(read(&[one, two], 1, 7_200, 10).await, [second]);
    assert_eq!(read(&[], 0, 9_000, 10).await, []);
}

pub(crate) async fn what_has_been_due_for_longest_is_told_of_the_oldest_that_wait(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let oldest = async |now, limit| world.store.oldest_due(ground.account.id, at(now), limit).await.unwrap();
    assert_eq!(oldest(100, 10).await, None, "nothing waits");
    let first = world.delivery(&ground, at(10)).await;
    world.delivery(&ground, at(20)).await;
    world.delivery(&other, at(5)).await;
    assert_eq!(oldest(100, 10).await, Some(at(10)), "another account's is none of its own");
    assert_eq!(oldest(15, 10).await, Some(at(10)));
    assert_eq!(oldest(9, 10).await, None, "nothing is due yet");
    world.move_on(delivered(&first, at(30))).await;
    assert_eq!(oldest(100, 10).await, Some(at(20)));
    assert_eq!(oldest(100, 0).await, None, "no more than so many are looked at");
}

pub(crate) async fn how_far_it_has_come_is_remembered(world: World) {
    let term = term(&world).await;
    let marks = [
        RollupMark::Sums(Span::Minute),
        RollupMark::Sums(Span::Day),
        RollupMark::FanoutMinute,
        RollupMark::FanoutHour(24),
        RollupMark::OpenAccounts,
        RollupMark::OpenDestinations,
        RollupMark::Lanes(Span::Hour),
        RollupMark::Lanes(Span::Day),
    ];
    for (n, mark) in marks.into_iter().enumerate() {
        assert_eq!(world.store.mark(mark).await.unwrap(), None);
        assert!(world.store.write_mark(term, mark, at(1)).await.unwrap());
        assert!(world.store.write_mark(term, mark, at(n as u64)).await.unwrap());
    }
    for (n, mark) in marks.into_iter().enumerate() {
        assert_eq!(world.store.mark(mark).await.unwrap(), Some(at(n as u64)));
    }
}

pub(crate) async fn who_has_lost_the_chore_sums_up_nothing(world: World) {
    if !world.backend.has_many_nodes() {
        return;
    }
    let ground = world.ground().await;
    let mine = term(&world).await;
    let kind = RollupKind::Sums(Span::Day);
    let row = Rollup {
        account_id: ground.account.id,
        destination_id: None,
        kind,
        starts_at: at(0),
        doc: "1".into(),
    };
    assert!(world.store.write_rollups(mine, std::slice::from_ref(&row)).await.unwrap());
    let other = NodeId::at(at(0), chance());
    let taken = world.store.take_chore(Chore::RollUp, other, at(1_000), LEASE).await.unwrap();
    assert!(taken.is_some());
    let late = Rollup { doc: "2".into(), ..row };
    assert!(!world.store.write_rollups(mine, &[late]).await.unwrap());
    assert!(!world.store.write_mark(mine, RollupMark::Sums(Span::Day), at(9)).await.unwrap());
    assert_eq!(world.store.prune_rollups(mine, kind, at(9), 9).await.unwrap(), None);
    let kept = world.store.rollups(ground.account.id, None, kind, at(0), at(9)).await.unwrap();
    assert_eq!(kept, [(at(0), "1".into())]);
    assert_eq!(world.store.mark(RollupMark::Sums(Span::Day)).await.unwrap(), None);
}

pub(crate) async fn what_has_happened_since_is_an_accounts_own(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let second = world.route(&world.destination(&ground.account).await).await;
    for n in 0..3 {
        let delivery = world.delivery(&ground, at(n)).await;
        world.move_on(delivered(&delivery, at(10 * n))).await;
    }
    let foreign = world.delivery(&other, at(15)).await;
    world.move_on(delivered(&foreign, at(15))).await;
    let new = event(&ground.account, at(16));
    let promises = vec![promise(&ground.route, at(16)), promise(&second, at(16))];
    let both = world.commit_promises(new, promises).await;
    world.move_on(rejected(&both[1], at(17))).await;

    let tail = async |destination: Option<DestinationId>, from| {
        let tail = world.store.sum_tail(ground.account.id, destination, at(from), 1_000).await.unwrap();
        assert_eq!(tail.until, None, "that is all");
        let tail = tail.sums;
        (tail.events, tail.deliveries, tail.attempts(), tail.delivered, tail.dead_letter())
    };
    assert_eq!(tail(None, 0).await, (4, 5, 4, 3, 1));
    assert_eq!(tail(None, 10).await, (1, 2, 3, 2, 1));
    assert_eq!(tail(Some(ground.destination.id), 10).await, (0, 0, 2, 2, 0));
    assert_eq!(tail(Some(second.destination_id), 0).await, (0, 0, 1, 0, 1));
    assert_eq!(tail(None, 30).await, (0, 0, 0, 0, 0));
    assert_eq!(world.store.count_waiting(ground.account.id, 10).await.unwrap(), 1);
    assert_eq!(world.store.count_waiting(other.account.id, 10).await.unwrap(), 0);
    world.delivery(&ground, at(20)).await;
    assert_eq!(world.store.count_waiting(ground.account.id, 1).await.unwrap(), 1);
}

pub(crate) async fn of_too_much_that_happened_since_the_first_is_counted(world: World) {
    let ground = world.ground().await;
    for n in 0..6 {
        let delivery = world.delivery(&ground, at(10 * n)).await;
        world.move_on(delivered(&delivery, at(10 * n + 1))).await;
    }
    let tail = async |destination: Option<DestinationId>, limit| {
        let tail = world.store.sum_tail(ground.account.id, destination, at(0), limit).await.unwrap();
        (tail.sums.events, tail.sums.attempts(), tail.sums.delivered, tail.until)
    };
    assert_eq!(tail(None, 100).await, (6, 6, 6, None));
    let destination = Some(ground.destination.id);
    assert_eq!(tail(destination, 4).await, (0, 4, 4, Some(at(31))), "up to where it was looked at");
    assert_eq!(tail(None, 4).await, (4, 4, 4, Some(at(30))), "events too");
    world.delivery(&ground, at(5)).await;
    assert_eq!(tail(None, 5).await, (5, 5, 5, Some(at(30))), "of events the first, however late they came");
}

async fn term(world: &World) -> Term {
    let taken = world.store.take_chore(Chore::RollUp, world.node.id, at(0), LEASE).await.unwrap();
    taken.expect("nobody else has it")
}

async fn summed(
    world: &World,
    span: Span,
    from: Timestamp,
    to: Timestamp,
) -> BTreeMap<(AccountId, DestinationId), Sums> {
    let (mut sums, mut step): (BTreeMap<_, Sums>, _) = (BTreeMap::new(), None);
    loop {
        let summed = world.store.sum_facts(span, from, to, step).await.unwrap();
        for (place, found) in summed.sums {
            sums.entry(place).or_default().add(&found);
        }
        step = summed.next;
        if step.is_none() {
            return sums;
        }
    }
}

type Fresh = BTreeMap<(Timestamp, AccountId, DestinationId), Sums>;

async fn fresh(world: &World, from: Timestamp, to: Timestamp, place: &mut Option<SumPlace>) -> Fresh {
    let mut sums = Fresh::new();
    loop {
        let fresh = world.store.sum_fresh(from, to, place.take()).await.unwrap();
        for (place, found) in fresh.sums {
            sums.entry(place).or_default().add(&found);
        }
        *place = Some(fresh.place);
        if !fresh.more {
            return sums;
        }
    }
}
