//! Retention and rollups over days of pretended time.

use super::{
    prune::{Retention, RetentionSettings},
    rollup::{RollUp, SpanGroup},
    term::ChoreTerm,
};
use crate::{
    membership::{Lease, Membership},
    ownership_view::OwnershipView,
};
use domain::{
    account::Account,
    id::{AccountId, EventId, NodeId},
    limits,
    rollup::{Span, Sums},
    seal::Sealed,
    testing,
    time::{Clock, Timestamp},
};
use std::{sync::Arc, time::Duration};
use store::{
    Catalog as _, Chore, Committed, History as _, Ingest as _, NewEvent, RollupKind, RollupMark,
    Rollups as _, Store, memory::MemoryStore,
};
use tokio::{task::JoinHandle, time::Instant};

/// A Tuesday, half past two.
const NOON: Timestamp = Timestamp::from_seconds(1_790_000_000);
const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

/// The runtime's time, which the tests pause, counted from a fixed moment.
pub(super) struct RuntimeClock {
    from: Timestamp,
    since: Instant,
}

impl From<Timestamp> for RuntimeClock {
    fn from(from: Timestamp) -> Self {
        Self { from, since: Instant::now() }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.from.plus(self.since.elapsed())
    }
}

struct World {
    store: Arc<MemoryStore>,
    clock: Arc<dyn Clock>,
    account: Account,
}

impl World {
    async fn new(retention_days: u32) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::from(NOON));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let account = Account::new(AccountId::at(NOON, 1), "Acme", Sealed::default(), NOON);
        let account = Account { retention_days, ..account };
        let account = store.create_account(&account).await.expect("an account");
        Self { store, clock, account }
    }

    async fn event(&self) -> EventId {
        let now = self.clock.now();
        let event = testing::event(self.account.id, now, 7);
        let id = event.id;
        let new = NewEvent {
            event: Arc::new(event),
            account_version: self.account.version,
            deliveries: Vec::new(),
            expands: false,
            key: None,
        };
        assert_eq!(self.store.commit(&[new], now).await.expect("committed"), [Committed::New]);
        id
    }

    fn term(&self, chore: Chore, node: u128) -> ChoreTerm {
        let ownership_view = OwnershipView::new(Membership::new(NodeId::at(NOON, node), Lease::new()));
        let store: Arc<dyn Store> = self.store.clone();
        ChoreTerm::new(chore, &store, &self.clock, &ownership_view, limits::LEASE)
    }

    fn roll_up(&self, node: u128) -> Vec<JoinHandle<()>> {
        let start = |span_group| {
            let term = self.term(Chore::RollUp, node);
            tokio::spawn(RollUp::new(span_group, term, limits::ROLLUP_EVERY).run())
        };
        vec![start(SpanGroup::Minutes), start(SpanGroup::HoursAndDays)]
    }

    fn prune(&self, node: u128) -> JoinHandle<()> {
        let settings = RetentionSettings { every: limits::PRUNE_EVERY, day: limits::RETENTION_DAY };
        tokio::spawn(Retention::new(self.term(Chore::Prune, node), settings).run())
    }

    async fn is_there(&self, id: EventId) -> bool {
        self.store.event(self.account.id, id).await.is_ok()
    }

    /// Events by the rollups of a span, from the beginning.
    async fn summed_up(&self, span: Span) -> Vec<u64> {
        let from = NOON.minus(DAY);
        let rows =
            self.store.rollups(self.account.id, None, RollupKind::Sums(span), from, Timestamp::MAX).await;
        let events = |(_, doc): (Timestamp, String)| serde_json::from_str::<Sums>(&doc).expect("sums").events;
        rows.expect("read").into_iter().map(events).filter(|events| *events > 0).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_old_goes_once_its_day_is_summed_up() {
    let world = World::new(1).await;
    let old = world.event().await;
    let _chores = (world.roll_up(1), world.prune(1));
    tokio::time::sleep(12 * HOUR).await;
    let young = world.event().await;
    // A day after the first event its own day is over, but the other one is younger.
    tokio::time::sleep(12 * HOUR + 2 * limits::PRUNE_EVERY).await;
    assert!(!world.is_there(old).await && world.is_there(young).await);
    tokio::time::sleep(2 * DAY).await;
    assert!(!world.is_there(young).await);
    assert_eq!(world.summed_up(Span::Day).await.iter().sum::<u64>(), 2, "sums outlive what they count");
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_that_is_not_summed_up() {
    let world = World::new(1).await;
    let old = world.event().await;
    let _prune = world.prune(1);
    tokio::time::sleep(5 * DAY).await;
    assert!(world.is_there(old).await, "no node sums up");
    let _roll_up = world.roll_up(1);
    tokio::time::sleep(HOUR).await;
    assert!(!world.is_there(old).await);
    assert_eq!(world.summed_up(Span::Day).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn the_next_node_goes_on_where_the_last_one_stopped() {
    let world = World::new(90).await;
    let first = world.roll_up(1);
    for _ in 0..10 {
        world.event().await;
        tokio::time::sleep(Duration::from_secs(40)).await;
    }
    first.iter().for_each(JoinHandle::abort);
    for _ in 0..10 {
        world.event().await;
        tokio::time::sleep(HOUR / 5).await;
    }
    let _both = (world.roll_up(2), world.roll_up(3));
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.summed_up(Span::Minute).await.iter().sum::<u64>(), 20, "each event in one minute");
    assert_eq!(world.summed_up(Span::Hour).await.iter().sum::<u64>(), 20, "each event in one hour");
    let closed = world.store.mark(RollupMark::Sums(Span::Minute)).await.expect("read").expect("it has begun");
    assert!(world.clock.now().since(closed) <= limits::ROLLUP_MINUTE_AFTER + Duration::from_secs(80));
}

#[tokio::test(start_paused = true)]
async fn minutes_and_hours_have_their_time_too() {
    let world = World::new(90).await;
    world.event().await;
    let _chores = world.roll_up(1);
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.summed_up(Span::Minute).await, [1]);
    tokio::time::sleep(limits::ROLLUP_MINUTES_KEPT).await;
    assert_eq!((world.summed_up(Span::Minute).await, world.summed_up(Span::Hour).await), (vec![], vec![1]));
    tokio::time::sleep(limits::ROLLUP_HOURS_KEPT).await;
    assert_eq!((world.summed_up(Span::Hour).await, world.summed_up(Span::Day).await), (vec![], vec![1]));
}
