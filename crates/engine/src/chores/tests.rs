//! Retention and rollups over days of pretended time.

use super::{
    erase::Eraser,
    prune::{Retention, RetentionSettings},
    rollup::{RollUp, SpanGroup, open::OpenMinutes},
    term::ChoreTerm,
};
use crate::{
    membership::{Lease, Membership},
    ownership_view::OwnershipView,
};
use domain::{
    account::Account,
    id::{AccountId, DestinationId, EventId, NodeId},
    limits,
    rollup::{BacklogSample, LaneSums, Span, Sums},
    seal::Sealed,
    testing,
    testing::audit_entry,
    time::{Clock, Timestamp},
};
use std::{sync::Arc, time::Duration};
use store::{
    Catalog as _, Chore, Committed, Erasures as _, History as _, Ingest as _, LaneRollup, LaneRollups as _,
    NewEvent, PreparedEvent, RollupKind, RollupMark, Rollups as _, Store, memory::MemoryStore,
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
        let account = store.create_account(&account, &audit_entry()).await.expect("an account");
        Self { store, clock, account }
    }

    async fn event(&self) -> EventId {
        self.numbered_event(7).await
    }

    async fn numbered_event(&self, number: u128) -> EventId {
        let now = self.clock.now();
        let event = testing::event(self.account.id, now, number);
        let id = event.id;
        let new = NewEvent {
            event: PreparedEvent::new(event),
            account_version: self.account.version,
            deliveries: Vec::new(),
            other_routes: Vec::new(),
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
        vec![start(SpanGroup::Minutes), start(SpanGroup::HoursAndDays), self.add_up(node)]
    }

    fn add_up(&self, node: u128) -> JoinHandle<()> {
        tokio::spawn(OpenMinutes::new(self.term(Chore::RollUp, node), limits::ROLLUP_EVERY).run())
    }

    /// How old what is added up is said to be.
    async fn open_age(&self) -> Option<Duration> {
        let mark = self.store.mark(RollupMark::OpenAccounts).await.expect("read");
        mark.map(|at| self.clock.now().since(at))
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

/// As old as statistics may be.
const FRESH: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn what_has_just_happened_is_in_its_minute_within_seconds() {
    let world = World::new(90).await;
    let _chores = world.roll_up(1);
    let mut events = 0;
    for _ in 0..60 {
        world.event().await;
        events += 1;
        tokio::time::sleep(FRESH).await;
        assert_eq!(world.summed_up(Span::Minute).await.iter().sum::<u64>(), events);
        assert!(world.open_age().await.is_some_and(|age| age <= FRESH), "{:?}", world.open_age().await);
    }
    tokio::time::sleep(5 * limits::OPEN_MINUTE).await;
    assert_eq!(world.summed_up(Span::Minute).await.iter().sum::<u64>(), events, "for good");
    let idle = world.open_age().await;
    tokio::time::sleep(HOUR).await;
    assert!(world.open_age().await > idle, "where nothing happens nothing is written");
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_over_counts_nothing_twice_and_claims_only_what_it_knows() {
    let world = World::new(90).await;
    let first = world.roll_up(1);
    let mut events = 0;
    for _ in 0..30 {
        world.event().await;
        events += 1;
        tokio::time::sleep(FRESH).await;
    }
    first.iter().for_each(JoinHandle::abort);
    for _ in 0..30 {
        world.event().await;
        events += 1;
        tokio::time::sleep(FRESH).await;
    }
    // Five minutes later another node has the open minutes alone: those before them are nobody's.
    let _open = world.add_up(2);
    tokio::time::sleep(4 * FRESH).await;
    assert!(world.open_age().await.is_some_and(|age| age > 30 * FRESH), "they are not claimed");
    let _chores = world.roll_up(2);
    tokio::time::sleep(FRESH).await;
    world.event().await;
    events += 1;
    tokio::time::sleep(6 * FRESH).await;
    assert_eq!(world.summed_up(Span::Minute).await.iter().sum::<u64>(), events);
    assert!(world.open_age().await.is_some_and(|age| age <= FRESH), "{:?}", world.open_age().await);
}

impl World {
    /// What a node noted of a minute: of its account, and of a destination.
    async fn noted(&self, node: u128, starts_at: Timestamp, busy_us: u64, rows: u64) {
        let backlog = Some(BacklogSample { rows, at: starts_at.plus(Duration::from_secs(node as u64)) });
        let doc = LaneSums { busy_us, slots: 3, denied: 1, backlog }.doc();
        let account_id = self.account.id;
        let row = |destination_id| LaneRollup { account_id, destination_id, starts_at, doc: doc.clone() };
        let rows = [row(None), row(Some(DestinationId::at(NOON, 1)))];
        self.store.write_lane_minutes(NodeId::at(NOON, node), &rows).await.expect("written");
    }

    /// Busy, slots, denied and backlog of the spans there are.
    async fn lanes(
        &self,
        destination: Option<DestinationId>,
        span: Span,
    ) -> Vec<(u64, u64, u64, Option<u64>)> {
        let from = NOON.minus(DAY);
        let rows = self.store.lane_rollups(self.account.id, destination, span, from, Timestamp::MAX).await;
        let told = |(_, doc): (Timestamp, String)| {
            let sums = LaneSums::read(&doc).expect("sums");
            (sums.busy_us, sums.slots, sums.denied, sums.backlog.map(|backlog| backlog.rows))
        };
        rows.expect("read").into_iter().map(told).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn minutes_of_lanes_become_hours_and_days_and_have_their_time() {
    let world = World::new(90).await;
    world.event().await;
    let destination = Some(DestinationId::at(NOON, 1));
    let hour = Span::Hour.start_of(NOON);
    let minute = |n: u32| hour.plus(Span::Minute.length() * n);
    // Two owners in one minute, then one of them.
    world.noted(1, minute(0), 10, 7).await;
    world.noted(2, minute(0), 20, 5).await;
    world.noted(1, minute(1), 1, 4).await;
    world.noted(1, minute(60), 100, 0).await;
    let _chores = world.roll_up(1);
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.lanes(destination, Span::Hour).await, [(31, 3, 3, Some(4))]);
    assert_eq!(
        world.lanes(None, Span::Hour).await,
        [(31, 6, 3, Some(4))],
        "an account has the slots of both"
    );
    assert_eq!(world.lanes(destination, Span::Minute).await.len(), 4);
    tokio::time::sleep(limits::ROLLUP_MINUTES_KEPT).await;
    assert_eq!(world.lanes(destination, Span::Minute).await, []);
    assert_eq!(world.lanes(destination, Span::Hour).await, [(31, 3, 3, Some(4)), (100, 3, 1, Some(0))]);
    tokio::time::sleep(DAY).await;
    assert_eq!(world.lanes(destination, Span::Day).await, [(131, 3, 4, Some(0))]);
    tokio::time::sleep(limits::ROLLUP_HOURS_KEPT).await;
    assert_eq!(world.lanes(destination, Span::Hour).await, []);
    assert_eq!(world.lanes(destination, Span::Day).await, [(131, 3, 4, Some(0))], "for ever");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_account_is_erased_whoever_does_it() {
    let world = World::new(90).await;
    for number in 0..450 {
        world.numbered_event(number).await;
    }
    let erasure = world.store.delete_account(world.account.id, world.clock.now(), &audit_entry()).await;
    let requested_at = erasure.expect("deleted").requested_at;
    let first = tokio::spawn(Eraser::new(world.term(Chore::Erase, 1)).run());
    tokio::time::sleep(limits::ERASE_EVERY + limits::ERASE_BREATH / 2).await;
    first.abort();
    let half = world.store.erasure(world.account.id).await.expect("it goes on");
    assert!(half.erased_rows > 0 && half.finished_at.is_none(), "{half:?}");

    let _next = tokio::spawn(Eraser::new(world.term(Chore::Erase, 2)).run());
    tokio::time::sleep(limits::LEASE + limits::ERASURE_QUIET + limits::ERASE_EVERY * 3).await;
    let ended = world.store.erasure(world.account.id).await.expect("it has ended");
    let finished_at = ended.finished_at.expect("all of it is gone");
    assert!(
        finished_at.since(requested_at) >= limits::ERASURE_QUIET,
        "not before what was under way has landed"
    );
    assert!(ended.erased_rows >= 450, "{ended:?}");
    assert!(world.store.open_erasures(1).await.expect("read").is_empty());
}
