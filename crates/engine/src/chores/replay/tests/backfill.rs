//! Stored events by the routes of now, each destination once.

use super::*;
use domain::{event::Event, filter::Filter, route::Route};
use serde_json::json;
use std::collections::BTreeSet;
use store::{BackfillSelection, History as _, Page};

impl World {
    /// An event that went nowhere.
    async fn unmatched(&self, event_type: &str, payload: &'static [u8]) -> EventId {
        let now = self.clock.now();
        let event = Event {
            payload: payload.into(),
            event_type: event_type.parse().unwrap(),
            ..testing::event(self.account, now, self.dice.bits())
        };
        let (id, account_version) = (event.id, self.store.account(self.account).await.unwrap().version);
        let new = NewEvent {
            event: PreparedEvent::new(event),
            account_version,
            deliveries: Vec::new(),
            other_routes: Vec::new(),
            expands: false,
            key: None,
        };
        self.store.commit(&[new], now).await.unwrap();
        id
    }

    async fn another_destination(&self) -> DestinationId {
        let (now, id) = (self.clock.now(), DestinationId::at(self.clock.now(), self.dice.bits()));
        let row = Destination::new(id, self.account, "there", "https://there.example", now);
        self.store.create_destination(&row, &audit_entry()).await.unwrap().id
    }

    async fn route(&self, to: DestinationId, change: impl FnOnce(&mut Route)) {
        let now = self.clock.now();
        let mut route = Route::new(RouteId::at(now, self.dice.bits()), self.account, to, now);
        change(&mut route);
        self.store.create_route(&route, &audit_entry()).await.unwrap();
    }

    async fn backfill(&self, rate: u32, selection: BackfillSelection) -> Replay {
        tokio::time::advance(Duration::from_millis(1)).await;
        let now = self.clock.now();
        let new = NewReplay {
            id: ReplayId::at(now, self.dice.bits()),
            account_id: self.account,
            selection: Selection::Events(selection),
            rate,
            matched: 0,
            matched_exact: false,
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

    /// What there is, by event and destination, each once.
    async fn reached(&self) -> BTreeSet<(EventId, DestinationId)> {
        let (mut reached, mut count, mut before) = (BTreeSet::new(), 0, None);
        loop {
            let page = Page { before, limit: limits::PAGE_MAX };
            let listed = self.store.deliveries(self.account, &DeliveryFilter::default(), page).await.unwrap();
            count += listed.rows.len();
            reached.extend(listed.rows.iter().map(|it| (it.event_id, it.destination_id)));
            before = listed.next;
            if before.is_none() {
                assert_eq!(count, reached.len(), "each once");
                return reached;
            }
        }
    }

    async fn completed(&self, replay: &Replay) -> Replay {
        for _ in 0..600 {
            let told = self.told(replay).await;
            if told.status == ReplayStatus::Completed {
                return told;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("it does not end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backfill_keeps_to_its_rate_and_brings_every_event_once() {
    let mut world = World::new(0).await;
    let mut events = Vec::new();
    for _ in 0..100 {
        events.push(world.unmatched("order.paid", b"{}").await);
    }
    world.route(world.destination, |_| {}).await;
    let node = world.node("a").await;
    let replay = world.backfill(10, BackfillSelection::default()).await;
    tokio::time::advance(Duration::from_millis(1)).await;
    let later = world.unmatched("order.paid", b"{}").await;
    sleep(Duration::from_millis(4_950)).await;
    let made = world.told(&replay).await.created;
    assert!((38..=54).contains(&made), "{made} made in five seconds at ten a second");
    let told = world.completed(&replay).await;
    assert_eq!((told.created, told.skipped), (100, 0));
    assert_eq!(told.matched, 100);
    let reached = world.reached().await;
    assert_eq!(reached, events.iter().map(|event| (*event, world.destination)).collect());
    assert!(!reached.contains(&(later, world.destination)), "it came later");
    let (mut expected, mut arrived) = (Vec::new(), Vec::new());
    while let Ok(message) = world.looks.try_recv() {
        match message {
            Message::Expected(some) => expected.extend(some.into_iter().map(|(_, delivery)| delivery)),
            Message::Arrived(some) => arrived.extend(some),
            other => panic!("{other:?}"),
        }
    }
    let waiting = world.lane().await;
    let handed_over: Vec<_> = arrived.iter().map(|arrival| arrival.delivery.clone()).collect();
    assert_eq!(handed_over, waiting, "its lane is told of each, as it waits");
    assert_eq!(expected, waiting.iter().map(|delivery| delivery.id).collect::<Vec<_>>());
    assert!(arrived.iter().all(|arrival| arrival.has_payload), "nothing is to be read again");
    let again = world.backfill(10_000, BackfillSelection::default()).await;
    assert_eq!(world.completed(&again).await.created, 1, "only what came later");
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn one_event_for_many_destinations_is_made_in_chunks() {
    let world = World::new(0).await;
    let event = world.unmatched("order.paid", b"{}").await;
    let mut wanted = BTreeSet::new();
    for _ in 0..2 * limits::EXPANSION_CHUNK + 7 {
        let destination = world.another_destination().await;
        world.route(destination, |_| {}).await;
        wanted.insert((event, destination));
    }
    let node = world.node("a").await;
    let replay = world.backfill(40, BackfillSelection::default()).await;
    sleep(Duration::from_secs(2)).await;
    let made = world.told(&replay).await.created;
    assert!((10..=100).contains(&made), "{made} made in two seconds at forty a second");
    assert_eq!(world.completed(&replay).await.created as usize, wanted.len());
    assert_eq!(world.reached().await, wanted);
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn only_what_a_route_takes_goes_there_and_by_the_oldest() {
    let world = World::new(0).await;
    let filter = |filter| Some(Filter::compile(&filter).unwrap());
    let one = world.unmatched("order.paid", br#"{"n": 1}"#).await;
    let two = world.unmatched("order.paid", br#"{"n": 2}"#).await;
    let other = world.unmatched("user.left", br#"{"n": 2}"#).await;
    let [all, second, orders, none] = [
        world.destination,
        world.another_destination().await,
        world.another_destination().await,
        world.another_destination().await,
    ];
    for _ in 0..3 {
        world.route(all, |_| {}).await;
    }
    world.route(second, |it| it.filter = filter(json!({"data": {"n": 2}}))).await;
    world.route(orders, |it| it.event_types = vec!["order.*".parse().unwrap()]).await;
    world.route(none, |it| it.enabled = false).await;
    let node = world.node("a").await;
    let some = BackfillSelection { destination_ids: vec![second, orders], ..BackfillSelection::default() };
    let replay = world.backfill(10_000, some).await;
    assert_eq!(world.completed(&replay).await.created, 4);
    let mut wanted = BTreeSet::from([(two, second), (other, second), (one, orders), (two, orders)]);
    assert_eq!(world.reached().await, wanted);
    let replay = world.backfill(10_000, BackfillSelection::default()).await;
    assert_eq!(world.completed(&replay).await.created, 3);
    wanted.extend([(one, all), (two, all), (other, all)]);
    assert_eq!(world.reached().await, wanted);
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn a_destination_with_more_routes_than_a_page_gets_one() {
    let world = World::new(0).await;
    let event = world.unmatched("order.paid", b"{}").await;
    for n in 0..2 * limits::EXPANSION_CHUNK + 3 {
        world.route(world.destination, |it| it.enabled = n % 2 == 1).await;
    }
    let next = world.another_destination().await;
    world.route(next, |_| {}).await;
    let node = world.node("a").await;
    let wanted = BTreeSet::from([(event, world.destination), (event, next)]);
    for selection in [vec![world.destination], Vec::new()] {
        let selection = BackfillSelection { destination_ids: selection, ..BackfillSelection::default() };
        let replay = world.backfill(10_000, selection).await;
        assert_eq!(world.completed(&replay).await.created, 1);
    }
    assert_eq!(world.reached().await, wanted);
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn two_backfills_at_once_on_two_nodes_make_each_once() {
    let world = World::new(0).await;
    for _ in 0..60 {
        world.unmatched("order.paid", b"{}").await;
    }
    world.route(world.destination, |_| {}).await;
    let nodes = [world.node("a").await, world.node("b").await];
    let one = world.backfill(40, BackfillSelection::default()).await;
    let other = world.backfill(30, BackfillSelection::default()).await;
    let made = world.completed(&one).await.created + world.completed(&other).await.created;
    assert_eq!((made, world.reached().await.len()), (60, 60));
    nodes.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn what_goes_to_a_lane_of_another_node_is_left_to_it_for_a_moment() {
    let world = World::new(0).await;
    world.unmatched("order.paid", b"{}").await;
    world.route(world.destination, |_| {}).await;
    let owner = world.joins("owner").await;
    world.store.take_shards(owner, usize::from(domain::id::SHARDS)).await.unwrap();
    let roster = Arc::new(world.store.roster().await.unwrap());
    let node = world.node_where("other", BacklogCap::default(), |view| view.roster_read(roster)).await;
    let there = vec![world.destination];
    let replay =
        world.backfill(10_000, BackfillSelection { destination_ids: there, ..BackfillSelection::default() });
    let replay = replay.await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(world.told(&replay).await.created, 0, "its owner may take it");
    assert_eq!(world.completed(&replay).await.created, 1, "it did not");
    let anywhere = world.backfill(10_000, BackfillSelection::default()).await;
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(world.told(&anywhere).await.status, ReplayStatus::Completed, "nobody has all its lanes");
    node.abort();
}
