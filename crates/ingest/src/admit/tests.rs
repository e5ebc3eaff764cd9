use super::*;
use domain::{
    id::{AccountId, DestinationId, RouteId},
    route::RouteTable,
    testing::{self, CountingDice},
};
use std::sync::{Mutex, mpsc as std_mpsc};

const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

fn account(number: u128) -> AccountId {
    AccountId::at(NOW, number)
}

fn event() -> Event {
    testing::event(AccountId::MIN, NOW, 7)
}

/// So many routes, the last of which take everything and the others nothing.
fn snapshot(count: usize, matching: usize) -> Snapshot {
    let route = |n: usize| {
        let chance = (n as u128) << 16;
        let pattern = if n < count - matching { "order.*" } else { "*" };
        Route {
            event_types: vec![pattern.parse().expect("a pattern")],
            ..Route::new(RouteId::at(NOW, chance), AccountId::MIN, DestinationId::at(NOW, chance), NOW)
        }
    };
    Snapshot {
        limits: Default::default(),
        version: 1,
        table: RouteTable::new((0..count).map(route).map(Arc::new)),
        numberings: Arc::default(),
        sealing: None,
    }
}

fn matched(count: usize, matching: usize) -> Result<(usize, bool), IngestError> {
    let matched = matcher().fan_out(&event(), &snapshot(count, matching), &CountingDice::default(), NOW)?;
    Ok((matched.deliveries.len(), matched.expands))
}

#[test]
fn a_fan_out_is_made_at_once_while_it_fits_into_one_commit() {
    let most = limits::FANOUT_INLINE;
    assert_eq!(matched(most, most).expect("few"), (most, false));
    assert_eq!(matched(most + 1, most + 1).expect("many"), (0, true));
    assert_eq!(matched(2 * most, most).expect("few of many"), (most, false));
}

#[test]
fn a_fan_out_has_its_bound_however_many_routes_there_are() {
    let most = limits::FANOUT;
    assert_eq!(matched(most, most).expect("as many as may be"), (0, true));
    assert_eq!(matched(most + 2, most).expect("as many as may be, of more"), (0, true));
    let refused = matched(most + 1, most + 1).expect_err("too many");
    assert!(matches!(refused, IngestError::FanoutTooLarge { .. }), "{refused}");
}

/// A snapshot of so many routes that take everything, to so many destinations in turn.
fn shared_snapshot(routes: usize, destinations: usize) -> Snapshot {
    let route = |n: usize| {
        let (id, to) = (RouteId::at(NOW, (n as u128) << 16), ((n % destinations) as u128) << 16);
        Arc::new(Route::new(id, AccountId::MIN, DestinationId::at(NOW, to), NOW))
    };
    Snapshot {
        version: 1,
        limits: Default::default(),
        table: RouteTable::new((0..routes).map(route)),
        numberings: Arc::default(),
        sealing: None,
    }
}

#[test]
fn a_destination_has_one_delivery_and_the_event_names_the_other_routes() {
    let snapshot = shared_snapshot(7, 2);
    let made = matcher().fan_out(&event(), &snapshot, &CountingDice::default(), NOW).expect("few");
    let route = |n: usize| RouteId::at(NOW, (n as u128) << 16);
    let by: Vec<_> = made.deliveries.iter().map(|delivery| delivery.route_id).collect();
    assert_eq!((by, made.expands), (vec![route(0), route(1)], false));
    assert_eq!(made.other_routes, [2, 4, 6, 3, 5].map(route));
    let distinct = matcher().fan_out(&event(), &shared_snapshot(3, 3), &CountingDice::default(), NOW);
    assert_eq!(distinct.expect("few").other_routes.capacity(), 0, "which costs nothing where there are none");
}

#[test]
fn bounds_count_destinations_and_not_routes() {
    let made = |routes, destinations| {
        let snapshot = shared_snapshot(routes, destinations);
        matcher().fan_out(&event(), &snapshot, &CountingDice::default(), NOW)
    };
    let few = made(limits::FANOUT + 2, limits::FANOUT_INLINE).expect("few destinations");
    assert_eq!((few.deliveries.len(), few.expands), (limits::FANOUT_INLINE, false));
    assert_eq!(few.other_routes.len(), limits::OTHER_ROUTES, "and no more are named");
    assert!(made(limits::FANOUT + 2, limits::FANOUT).expect("as many as may be").expands);
    assert!(made(limits::FANOUT + 1, limits::FANOUT + 1).is_err());
}

#[test]
fn an_ordered_destination_of_a_large_fan_out_has_one_delivery_too() {
    let mut snapshot = shared_snapshot(3 * limits::FANOUT_INLINE, limits::FANOUT_INLINE + 1);
    let ordered = DestinationId::at(NOW, 5 << 16);
    let numbered = DestinationId::at(NOW, 6 << 16);
    snapshot.numberings = Arc::new([(ordered, Numbering::Strict), (numbered, Numbering::Unordered)].into());
    let made = matcher().fan_out(&event(), &snapshot, &CountingDice::default(), NOW).expect("many");
    let to: Vec<_> = made.deliveries.iter().map(|delivery| delivery.destination_id).collect();
    assert_eq!((to, made.expands, made.other_routes.len()), (vec![ordered], true, 2));
}

fn matcher() -> Matcher {
    Matcher::new(&IngestSettings::default())
}

/// Bytes of a payload that one route takes long to look at.
const LONG: usize = limits::MATCH_INLINE_BYTES;

#[tokio::test]
async fn long_matching_leaves_the_runtime_alone() {
    // One thread runs everything but the matching: that this test goes on at all is the proof.
    let matching = matcher();
    let (go, wait) = std_mpsc::channel();
    let long = tokio::spawn({
        let matching = matching.clone();
        async move { matching.run(account(1), 1, LONG, move || wait.recv()).await.unwrap() }
    });
    assert_eq!(matching.run(account(1), 10, 1_000, || 7).await.ok(), Some(7), "short work goes on");
    go.send(8).unwrap();
    assert_eq!(long.await.unwrap(), Ok(8));
}

#[tokio::test(start_paused = true)]
async fn matching_that_finds_every_thread_busy_is_refused() {
    let matching = matcher();
    let all = matching.threads.take(account(2), limits::LONG_MATCHES).await;
    let refused = matching.run(account(1), 1, LONG, || ()).await.unwrap_err();
    assert!(matches!(refused, IngestError::MatchersBusy), "{refused}");
    drop(all);
    assert!(matching.run(account(1), 1, LONG, || ()).await.is_ok());
}

#[tokio::test]
async fn an_account_waits_for_one_of_anothers_long_matchings_and_not_for_all() {
    let matching = matcher();
    let busy = matching.threads.take(account(3), limits::LONG_MATCHES).await;
    let order = Arc::<Mutex<Vec<u128>>>::default();
    let mut all = Vec::new();
    for number in [1, 1, 1, 1, 2] {
        let (matching, order) = (matching.clone(), Arc::clone(&order));
        all.push(tokio::spawn(async move {
            matching.run(account(number), 1, LONG, move || order.lock().unwrap().push(number)).await
        }));
        tokio::task::yield_now().await;
    }
    drop(busy);
    for one in all {
        one.await.unwrap().unwrap();
    }
    let at = order.lock().unwrap().iter().position(|number| *number == 2).unwrap();
    assert!(at <= limits::LONG_MATCHES, "{:?}", order.lock().unwrap());
}

#[tokio::test]
async fn a_panic_in_matching_gives_its_thread_back() {
    let matching = matcher();
    for _ in 0..limits::LONG_MATCHES {
        let broken = matching.run(account(1), 1, LONG, || panic!("a filter")).await;
        let broken: Result<(), _> = broken;
        assert!(matches!(broken, Err(IngestError::Bug(_))), "{broken:?}");
    }
    assert!(matching.run(account(1), 1, LONG, || ()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_large_event_is_made_ready_in_a_thread_and_a_small_one_where_it_comes_up() {
    let (matching, snapshot) = (matcher(), Arc::new(snapshot(1, 1)));
    let dice: Arc<dyn Dice> = Arc::new(CountingDice::default());
    let prepared = async |bytes: usize| {
        let event = Event { payload: vec![b'x'; bytes].into(), ..event() };
        matching.prepare(event.into(), &snapshot, &dice).await
    };
    let matchers = matching.threads.take(account(2), limits::LONG_MATCHES).await;
    let all = matching.packers.take(account(2), limits::LONG_PACKS).await;
    let (small, fan_out) = prepared(limits::PACK_INLINE_BYTES).await.expect("it needs no thread");
    assert_eq!((small.payload.len(), fan_out.deliveries.len()), (limits::PACK_INLINE_BYTES, 1));
    let refused = prepared(limits::PACK_INLINE_BYTES + 1).await.expect_err("no thread is free");
    assert!(matches!(refused, IngestError::MatchersBusy), "{refused}");
    drop(all);
    // Those who match for long do not hold it up.
    let (large, fan_out) = prepared(limits::PACK_INLINE_BYTES + 1).await.expect("a thread is free");
    assert_eq!((large.payload.len(), fan_out.deliveries.len()), (limits::PACK_INLINE_BYTES + 1, 1));
    assert_eq!(matching.packers.used(), 0);
    drop(matchers);
}

#[tokio::test]
async fn what_is_written_of_an_event_counts_while_it_waits() {
    let noise: Vec<u8> = (0..4_000_u32).map(|n| b'a' + (n.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    let of = |payload: Vec<u8>| {
        let event = PreparedEvent::new(Event { payload: payload.into(), ..event() });
        NewEvent {
            event,
            account_version: 1,
            deliveries: Vec::new(),
            other_routes: Vec::new(),
            expands: false,
            key: None,
        }
    };
    let (short, long) = (of(Vec::new()), of(noise));
    let packed = long.event.prepared_bytes() - short.event.prepared_bytes();
    assert!((1..4_000).contains(&packed), "{packed}");
    assert_eq!(queued_bytes(&long), queued_bytes(&short) + 4_000 + packed);
}
