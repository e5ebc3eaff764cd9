//! Every original once, at the pace that was given, by one node at a time.

mod backfill;

use super::*;
use crate::{
    chores::tests::RuntimeClock,
    membership::{Lease, Membership},
};
use domain::{
    account::Account,
    delivery::{Ending, Settled, Status},
    destination::Destination,
    id::{AccountId, ApiKeyId, AttemptId, EventId, RouteId},
    member::Role,
    outcome::DeadReason,
    seal::Sealed,
    testing::audit_entry,
    testing::{self, CountingDice},
    time::Timestamp,
};
use store::{
    BacklogCap, Catalog as _, Chore, Chores as _, CreatedReplay, DeliveryFilter, EventWalk, Fact,
    Ingest as _, Membership as _, NewEvent, NewReplay, NodeRecord, PreparedEvent, Queue as _, Replay,
    ReplayStatus, ReplaySwitch, Replays as _, Retention as _, Selection, Settlement, Window,
    memory::MemoryStore,
};
use tokio::task::JoinHandle;

const START: Timestamp = Timestamp::from_seconds(1_790_000_000);

struct World {
    store: Arc<MemoryStore>,
    clock: Arc<RuntimeClock>,
    dice: Arc<CountingDice>,
    account: AccountId,
    destination: DestinationId,
    looks: mpsc::Receiver<Message>,
    lanes: mpsc::Sender<Message>,
}

impl World {
    /// With so many dead letters.
    async fn new(dead: usize) -> Self {
        let (clock, dice) = (Arc::new(RuntimeClock::from(START)), Arc::new(CountingDice::default()));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let account = AccountId::at(START, dice.bits());
        store
            .create_account(&Account::new(account, "Acme", Sealed::default(), START), &audit_entry())
            .await
            .unwrap();
        let destination = DestinationId::at(START, dice.bits());
        let row = Destination::new(destination, account, "there", "https://there.example", START);
        store.create_destination(&row, &audit_entry()).await.unwrap();
        let (lanes, looks) = mpsc::channel(1_024);
        let world = Self { store, clock, dice, account, destination, looks, lanes };
        world.die(dead).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        world
    }

    async fn die(&self, count: usize) {
        let node = self.joins("first").await;
        let version = self.store.account(self.account).await.unwrap().version;
        let mut batch = Vec::new();
        for _ in 0..count {
            let now = self.clock.now();
            let event = testing::event(self.account, now, self.dice.bits());
            let id = DeliveryId::at(now, self.dice.bits());
            let delivery = NewDelivery::unordered(id, RouteId::at(now, 1), self.destination, now);
            batch.push(NewEvent {
                event: PreparedEvent::new(event),
                account_version: version,
                deliveries: vec![delivery],
                other_routes: Vec::new(),
                expands: false,
                key: None,
            });
        }
        self.store.commit(&batch, self.clock.now()).await.unwrap();
        let at = self.clock.now();
        let ending = Ending::DeadLetter(DeadReason::Expired);
        let settlements: Vec<_> = self
            .lane()
            .await
            .into_iter()
            .map(|delivery| Settlement {
                shard: delivery.destination_id.shard(),
                fact: Fact::EndedWithout { id: AttemptId::at(at, self.dice.bits()), at, node, ending },
                settled: Settled::Ended(ending),
                consequence: None,
                delivery,
            })
            .collect();
        self.store.settle(node, &settlements, at).await.unwrap();
    }

    async fn joins(&self, name: &str) -> NodeId {
        let id = NodeId::at(self.clock.now(), self.dice.bits());
        let node = NodeRecord {
            id,
            label: name.into(),
            proof: name.into(),
            version: "1".into(),
            role: Role::All,
            address: None,
            master_keys: "k1".into(),
        };
        self.store.join(&node, limits::LEASE).await.unwrap();
        id
    }

    /// A node that works on replays until it is aborted.
    async fn node(&self, name: &str) -> JoinHandle<()> {
        self.node_with(name, BacklogCap::default()).await
    }

    async fn node_with(&self, name: &str, cap: BacklogCap) -> JoinHandle<()> {
        self.node_where(name, cap, |view| view.owns(0..domain::id::SHARDS, false)).await
    }

    async fn node_where(
        &self,
        name: &str,
        cap: BacklogCap,
        sees: impl FnOnce(&OwnershipView),
    ) -> JoinHandle<()> {
        let lease = Lease::new();
        lease.renewed(Instant::now(), Duration::from_secs(10_000));
        let ownership_view = OwnershipView::new(Membership::new(self.joins(name).await, lease));
        sees(&ownership_view);
        let replayer = Replayer {
            store: self.store.clone(),
            data_keys: crate::data_keys::testing(self.store.clone()),
            clock: self.clock.clone(),
            dice: self.dice.clone(),
            ownership_view,
            dispatcher: self.lanes.clone(),
            backlog: FullBacklogs::new(cap),
            backfiller: Backfiller::default(),
        };
        tokio::spawn(replayer.run())
    }

    async fn lane(&self) -> Vec<domain::delivery::Delivery> {
        let window = Window {
            shard: self.destination.shard(),
            destination_id: self.destination,
            from: Position::START,
            last_track: i64::MAX,
            limit: 100_000,
        };
        let rows = self.store.fetch(&[window]).await.unwrap().remove(0);
        rows.into_iter().map(|fetched| fetched.delivery).collect()
    }

    async fn replay(&self, rate: u32) -> Replay {
        self.replay_of(rate, 0).await
    }

    /// So many were counted when it was made.
    async fn replay_of(&self, rate: u32, matched: u64) -> Replay {
        let now = self.clock.now();
        let filter = DeliveryFilter { statuses: vec![Status::DeadLetter], ..DeliveryFilter::default() };
        let new = NewReplay {
            id: ReplayId::at(now, self.dice.bits()),
            account_id: self.account,
            selection: Selection::Filter(filter),
            rate,
            matched,
            matched_exact: matched > 0,
            created_by: ApiKeyId::at(now, 1).into(),
            created_at: now,
            key: None,
            at_once: None,
        };
        match self.store.create_replay(&new, &audit_entry()).await.unwrap() {
            CreatedReplay::New(replay) => replay,
            CreatedReplay::Known { .. } => unreachable!("it has no key"),
        }
    }

    /// Ends everything that waits.
    async fn cancel_all(&self) {
        for delivery in self.lane().await {
            let fact = AttemptId::at(self.clock.now(), self.dice.bits());
            self.store
                .cancel(self.account, delivery.id, fact, self.clock.now(), &audit_entry())
                .await
                .unwrap();
        }
    }

    /// As retention does with what has ended.
    async fn forget_all(&self) {
        let (node, now) = (self.joins("forgets").await, self.clock.now());
        let term = self.store.take_chore(Chore::Prune, node, now, limits::LEASE).await.unwrap().unwrap();
        let (events, rows) = (1_000, 100_000);
        let walk = EventWalk { account_id: self.account, from: EventId::MIN, before: now, events, rows };
        assert_eq!(self.store.prune_events(term, walk).await.unwrap().unwrap().next, None);
    }

    async fn told(&self, replay: &Replay) -> Replay {
        self.store.replay(self.account, replay.id).await.unwrap()
    }

    async fn switch(&self, replay: &Replay, to: ReplaySwitch) {
        self.store
            .switch_replay(self.account, replay.id, to, self.clock.now(), &audit_entry())
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_keeps_to_its_rate() {
    let mut world = World::new(100).await;
    let node = world.node("a").await;
    let replay = world.replay(10).await;
    sleep(Duration::from_millis(4_950)).await;
    let made = world.told(&replay).await.created;
    assert!((38..=54).contains(&made), "{made} made in five seconds at ten a second");
    sleep(Duration::from_secs(7)).await;
    let told = world.told(&replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 100, 0));
    assert_eq!((told.matched, told.matched_exact), (100, true));
    let lane = world.lane().await;
    assert_eq!(lane.len(), 100);
    let mut looked_at = 0;
    while let Ok(Message::Made(places)) = world.looks.try_recv() {
        looked_at += places.len();
    }
    assert_eq!(looked_at, 100, "its lane is told of each");
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn two_nodes_together_keep_to_the_rate_and_one_goes_on_for_another() {
    let world = World::new(200).await;
    let nodes = [world.node("a").await, world.node("b").await];
    let replay = world.replay(20).await;
    sleep(Duration::from_secs(4)).await;
    let made = world.told(&replay).await.created;
    assert!((60..=90).contains(&made), "{made} made in four seconds at twenty a second");
    // The node that holds it dies.
    let holder = world.store.open_replays(1).await.unwrap().remove(0).held_by.expect("a node holds it");
    nodes[0].abort();
    nodes[1].abort();
    let before = world.told(&replay).await.created;
    let other = world.node("c").await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.told(&replay).await.created, before, "what is held is not taken");
    sleep(Duration::from_secs(20)).await;
    assert_ne!(
        world.store.open_replays(1).await.unwrap().first().and_then(|open| open.held_by),
        Some(holder)
    );
    let told = world.told(&replay).await;
    assert_eq!((told.status, told.created), (ReplayStatus::Completed, 200));
    assert_eq!(world.lane().await.len(), 200);
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_not_waited_for() {
    let world = World::new(10).await;
    let first = world.node("a").await;
    let replay = world.replay(1).await;
    sleep(Duration::from_secs(3)).await;
    first.abort();
    let holder = world.store.open_replays(1).await.unwrap().remove(0).held_by.expect("a node holds it");
    world.store.leave(holder).await.unwrap();
    let before = world.told(&replay).await.created;
    let second = world.node("b").await;
    sleep(Duration::from_secs(3)).await;
    assert!(world.told(&replay).await.created > before);
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_paused_replay_makes_nothing_until_it_is_resumed() {
    let world = World::new(20).await;
    let node = world.node("a").await;
    let replay = world.replay(4).await;
    sleep(Duration::from_secs(2)).await;
    world.switch(&replay, ReplaySwitch::Pause).await;
    let made = world.told(&replay).await.created;
    assert!(made > 0 && made < 20);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.told(&replay).await.created, made);
    world.switch(&replay, ReplaySwitch::Resume).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.told(&replay).await.status, ReplayStatus::Completed);
    assert_eq!(world.lane().await.len(), 20);
    let cancelled = world.replay(4).await;
    sleep(Duration::from_secs(2)).await;
    world.switch(&cancelled, ReplaySwitch::Cancel).await;
    let made = world.told(&cancelled).await.created;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.told(&cancelled).await.created, made);
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn what_goes_to_a_destination_that_is_no_longer_there_is_skipped() {
    let world = World::new(5).await;
    world
        .store
        .delete_destination(world.account, world.destination, world.clock.now(), &audit_entry())
        .await
        .unwrap();
    let node = world.node("a").await;
    let replay = world.replay(100).await;
    sleep(Duration::from_secs(3)).await;
    let told = world.told(&replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 0, 5));
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn a_replay_waits_while_as_much_of_its_account_waits_as_may() {
    let world = World::new(100).await;
    let cap = BacklogCap { rows: 30, bytes: u64::MAX };
    let nodes = [world.node_with("a", cap).await, world.node_with("b", cap).await];
    let replay = world.replay(10).await;
    sleep(Duration::from_secs(60)).await;
    let told = world.told(&replay).await;
    assert_eq!(told.status, ReplayStatus::Running);
    assert!((30..=55).contains(&told.created), "{} made with a cap of 30", told.created);
    let holder = world.store.open_replays(1).await.unwrap().remove(0).held_by;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.told(&replay).await.created, told.created, "nothing is made beyond");
    assert_eq!(
        world.store.open_replays(1).await.unwrap().remove(0).held_by,
        holder,
        "it is held all the time"
    );

    for _ in 0..5 {
        world.cancel_all().await;
        sleep(Duration::from_secs(20)).await;
    }
    let told = world.told(&replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 100, 0));
    nodes.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_before_its_turn_is_counted_as_skipped() {
    let world = World::new(10).await;
    let replay = world.replay_of(1, 10).await;
    let node = world.node("a").await;
    sleep(Duration::from_secs(4)).await;
    let made = world.told(&replay).await.created;
    assert!((1..10).contains(&made), "{made}");
    world.cancel_all().await;
    world.forget_all().await;
    sleep(Duration::from_secs(30)).await;
    let told = world.told(&replay).await;
    assert_eq!((told.status, told.matched), (ReplayStatus::Completed, 10));
    assert_eq!(told.created + told.skipped, 10);
    assert!(told.skipped > 0);
    node.abort();
}
