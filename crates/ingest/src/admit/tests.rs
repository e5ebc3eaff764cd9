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
        version: 1,
        table: RouteTable::new((0..count).map(route).map(Arc::new)),
        orderings: Arc::default(),
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
