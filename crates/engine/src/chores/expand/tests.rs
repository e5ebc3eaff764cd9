//! Every delivery of a large event, once, whatever happens in between.

use super::*;
use domain::{
    account::Account,
    destination::Destination,
    filter::Filter,
    id::{AccountId, DestinationId},
    seal::Sealed,
    testing::audit_entry,
    testing::{self, CountingDice, StandingClock},
    time::Timestamp,
};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};
use store::{
    Catalog as _, Committed, DeliveryFilter, Expansions as _, History as _, Ingest as _, NewEvent, Page,
    PreparedEvent, memory::MemoryStore,
};

const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

struct World {
    store: Arc<MemoryStore>,
    dice: Arc<CountingDice>,
    lanes: mpsc::Sender<Message>,
    looks: mpsc::Receiver<Message>,
    account: AccountId,
}

impl World {
    async fn new() -> Self {
        let (store, dice) = (Arc::new(MemoryStore::new(Arc::new(StandingClock(NOW)))), Arc::default());
        let (lanes, looks) = mpsc::channel(64);
        let mut world = Self { store, dice, lanes, looks, account: AccountId::MIN };
        world.account = world.another_account().await;
        world
    }

    async fn another_account(&self) -> AccountId {
        let id = AccountId::at(NOW, self.dice.bits());
        self.store
            .create_account(&Account::new(id, "Acme", Sealed::default(), NOW), &audit_entry())
            .await
            .unwrap();
        id
    }

    /// A destination that is reached by a route as the test likes it.
    async fn route(&self, account: AccountId, change: impl FnOnce(&mut Route)) -> DestinationId {
        let id = DestinationId::at(NOW, self.dice.bits());
        let destination = Destination::new(id, account, "there", "https://there.example", NOW);
        self.store.create_destination(&destination, &audit_entry()).await.unwrap();
        let mut route = Route::new(RouteId::at(NOW, self.dice.bits()), account, id, NOW);
        change(&mut route);
        self.store.create_route(&route, &audit_entry()).await.unwrap();
        id
    }

    /// One more to a destination of the first account.
    async fn another_route(&self, to: DestinationId, change: impl FnOnce(&mut Route)) -> RouteId {
        let mut route = Route::new(RouteId::at(NOW, self.dice.bits()), self.account, to, NOW);
        change(&mut route);
        self.store.create_route(&route, &audit_entry()).await.unwrap().id
    }

    async fn routes(&self, account: AccountId, count: usize) -> BTreeSet<DestinationId> {
        let mut made = BTreeSet::new();
        for _ in 0..count {
            made.insert(self.route(account, |_| {}).await);
        }
        made
    }

    async fn commit(&self, account_id: AccountId) -> Expansion {
        let event = Event {
            payload: br#"{"n": 1}"#.to_vec().into(),
            ..testing::event(account_id, NOW, self.dice.bits())
        };
        let id = event.id;
        let account_version = self.store.account(account_id).await.unwrap().version;
        let (event, deliveries) = (PreparedEvent::new(event), Vec::new());
        let new = NewEvent {
            event,
            account_version,
            deliveries,
            other_routes: Vec::new(),
            expands: true,
            key: None,
        };
        assert_eq!(self.store.commit(&[new], NOW).await.unwrap(), [Committed::New]);
        self.store.expansion(id).await.unwrap().expect("it was just begun")
    }

    fn expander(&self) -> Expander {
        let (store, clock) = (self.store.clone(), Arc::new(StandingClock(NOW)));
        let data_keys = crate::data_keys::testing(self.store.clone());
        Expander::new(store, data_keys, clock, self.dice.clone(), self.lanes.clone())
    }

    /// The destinations that have a delivery, which are as many as there are deliveries.
    async fn reached(&self, account: AccountId) -> BTreeSet<DestinationId> {
        let (mut reached, mut count, mut before) = (BTreeSet::new(), 0, None);
        loop {
            let page = Page { before, limit: limits::PAGE_MAX };
            let listed = self.store.deliveries(account, &DeliveryFilter::default(), page).await.unwrap();
            count += listed.rows.len();
            reached.extend(listed.rows.iter().map(|delivery| delivery.destination_id));
            before = listed.next;
            if before.is_none() {
                assert_eq!(count, reached.len(), "each once");
                return reached;
            }
        }
    }

    fn looked_at(&mut self) -> BTreeSet<DestinationId> {
        let looks = std::iter::from_fn(|| self.looks.try_recv().ok());
        let places = looks.flat_map(|message| match message {
            Message::Made(places) => places,
            other => panic!("{other:?}"),
        });
        places.map(|(destination, ..)| destination).collect()
    }

    async fn is_done(&self) -> bool {
        self.store.open_expansions(None, 1).await.unwrap().is_empty()
    }
}

impl Expander {
    /// Goes on until nothing is left to do here.
    async fn finish(&mut self) {
        while let Some(open) = self.rotation.next() {
            self.go_on(open).await.unwrap();
        }
    }
}

#[tokio::test]
async fn every_destination_gets_its_delivery_and_is_looked_at() {
    let mut world = World::new().await;
    let destinations = world.routes(world.account, 2 * limits::EXPANSION_CHUNK + 7).await;
    let expansion = world.commit(world.account).await;
    let mut expander = world.expander();
    expander.rotation.extend([expansion.clone()]);
    expander.finish().await;
    assert!(world.is_done().await);
    assert_eq!(world.reached(world.account).await, destinations);
    assert_eq!(world.looked_at(), destinations);
    let fanout = world.store.event(world.account, expansion.event_id).await.unwrap().fanout;
    assert_eq!((fanout.total as usize, fanout.expanding), (destinations.len(), false));
}

#[tokio::test]
async fn what_does_not_match_gets_nothing() {
    let world = World::new().await;
    let filter = |filter| Some(Filter::compile(&filter).unwrap());
    let mut wanted = BTreeSet::new();
    wanted.insert(world.route(world.account, |_| {}).await);
    wanted.insert(world.route(world.account, |it| it.filter = filter(json!({"data": {"n": 1}}))).await);
    world.route(world.account, |it| it.filter = filter(json!({"data": {"n": 2}}))).await;
    world.route(world.account, |it| it.enabled = false).await;
    world.route(world.account, |it| it.event_types = vec!["user.*".parse().unwrap()]).await;
    let mut expander = world.expander();
    expander.rotation.extend([world.commit(world.account).await]);
    expander.finish().await;
    assert_eq!(world.reached(world.account).await, wanted);
}

#[tokio::test]
async fn a_destination_gets_one_delivery_whichever_routes_lead_there() {
    let world = World::new().await;
    let destinations = world.routes(world.account, limits::EXPANSION_CHUNK + 7).await;
    // Beside the first ones, and to one so many that they are read in several pages.
    let ids: Vec<_> = destinations.iter().copied().collect();
    let mut younger = Vec::new();
    for at in [0, 1, 1, 2] {
        younger.push(world.another_route(ids[at], |_| {}).await);
    }
    for _ in 0..2 * limits::EXPANSION_CHUNK {
        world.another_route(ids[5], |_| {}).await;
    }
    let event_id = world.commit(world.account).await.event_id;
    let mut expander = world.expander();
    expander.look().await.unwrap();
    expander.finish().await;
    assert!(world.is_done().await);
    assert_eq!(world.reached(world.account).await, destinations);
    let record = world.store.event(world.account, event_id).await.unwrap();
    assert_eq!(record.fanout.total as usize, destinations.len());
    assert_eq!(record.other_routes[..4], younger);
    assert_eq!(record.other_routes.len(), limits::OTHER_ROUTES, "and no more are named");
}

#[tokio::test]
async fn a_destination_that_fills_a_page_with_routes_that_refuse_is_gone_on_with() {
    let world = World::new().await;
    let no = |it: &mut Route| it.enabled = false;
    let large = world.route(world.account, no).await;
    for _ in 0..2 * limits::EXPANSION_CHUNK + 3 {
        world.another_route(large, no).await;
    }
    let last = world.another_route(large, |_| {}).await;
    let next = world.route(world.account, |_| {}).await;
    world.commit(world.account).await;
    let mut expander = world.expander();
    expander.look().await.unwrap();
    expander.finish().await;
    assert_eq!(world.reached(world.account).await, [large, next].into());
    let page = Page { before: None, limit: 10 };
    let made = world.store.deliveries(world.account, &DeliveryFilter::default(), page).await.unwrap().rows;
    assert!(made.iter().any(|delivery| delivery.route_id == last));
}

#[tokio::test]
async fn what_was_written_with_the_event_is_known_by_destination() {
    let world = World::new().await;
    let mut destinations = world.routes(world.account, 4).await;
    let expansion = world.commit(world.account).await;
    let inline = destinations.pop_first().expect("four");
    // The route that delivered it is gone, and another has come.
    world.another_route(inline, |_| {}).await;
    let mut expander = world.expander();
    expander.rotation.extend([Expansion { inline_destinations: vec![inline], ..expansion }]);
    expander.finish().await;
    assert_eq!(world.reached(world.account).await, destinations);
}

#[tokio::test]
async fn a_route_that_came_after_the_event_is_not_matched() {
    let world = World::new().await;
    let wanted = world.routes(world.account, 3).await;
    let expansion = world.commit(world.account).await;
    world.route(world.account, |it| it.created_at = NOW.plus(Duration::from_millis(1))).await;
    let mut expander = world.expander();
    expander.rotation.extend([expansion]);
    expander.finish().await;
    assert_eq!(world.reached(world.account).await, wanted);
}

#[tokio::test]
async fn the_routes_of_an_event_that_is_gone_on_with_are_those_of_now() {
    let world = World::new().await;
    let mut wanted = world.routes(world.account, limits::EXPANSION_CHUNK + 2).await;
    let (first, second) = (world.commit(world.account).await, world.commit(world.account).await);
    let mut expander = world.expander();
    expander.rotation.extend([first]);
    expander.finish().await;
    let gone = wanted.pop_last().expect("many");
    world.store.delete_destination(world.account, gone, NOW, &audit_entry()).await.unwrap();
    expander.rotation.extend([second.clone()]);
    expander.finish().await;
    let fanout = world.store.event(world.account, second.event_id).await.unwrap().fanout;
    assert_eq!(fanout.total as usize, wanted.len(), "pages that are kept are those of the same version");
}

#[tokio::test]
async fn as_many_routes_are_kept_as_may_be() {
    let world = World::new().await;
    let mut expander = world.expander();
    for routes in [5_000, limits::EXPANSION_ROUTES_KEPT] {
        let account = world.another_account().await;
        world.routes(account, routes).await;
        expander.rotation.extend([world.commit(account).await]);
        expander.finish().await;
    }
    let kept = expander.pages.routes();
    let page = limits::EXPANSION_CHUNK;
    assert!(
        (limits::EXPANSION_ROUTES_KEPT - page..=limits::EXPANSION_ROUTES_KEPT).contains(&kept),
        "{kept} routes are kept"
    );
}

#[tokio::test]
async fn two_that_work_on_the_same_event_make_each_delivery_once() {
    let world = World::new().await;
    let destinations = world.routes(world.account, 3 * limits::EXPANSION_CHUNK).await;
    let expansion = world.commit(world.account).await;
    let (mut one, mut other) = (world.expander(), world.expander());
    one.rotation.extend([expansion.clone()]);
    other.rotation.extend([expansion]);
    let open = one.rotation.next().expect("just taken");
    one.go_on(open).await.unwrap();
    other.finish().await;
    assert!(!world.is_done().await, "the one that came second leaves it alone");
    one.finish().await;
    assert!(world.is_done().await);
    assert_eq!(world.reached(world.account).await, destinations);
}

#[tokio::test]
async fn what_was_left_behind_is_taken_up() {
    let world = World::new().await;
    let destinations = world.routes(world.account, 2 * limits::EXPANSION_CHUNK).await;
    let expansion = world.commit(world.account).await;
    let mut dead = world.expander();
    dead.rotation.extend([expansion]);
    let open = dead.rotation.next().expect("just taken");
    dead.go_on(open).await.unwrap();

    let mut next = world.expander();
    next.look().await.unwrap();
    next.finish().await;
    assert!(world.is_done().await);
    assert_eq!(world.reached(world.account).await, destinations);
}

#[tokio::test]
async fn what_another_node_goes_on_with_is_left_to_it() {
    let world = World::new().await;
    world.routes(world.account, 3 * limits::EXPANSION_CHUNK).await;
    let (mut busy, mut other) = (world.expander(), world.expander());
    other.look().await.unwrap();
    busy.rotation.extend([world.commit(world.account).await]);
    other.look().await.unwrap();
    assert!(other.rotation.next().is_none(), "it has only just begun");
    let open = busy.rotation.next().expect("just taken");
    busy.go_on(open).await.unwrap();
    other.look().await.unwrap();
    assert!(other.rotation.next().is_none(), "it has moved");
    other.look().await.unwrap();
    other.finish().await;
    assert!(world.is_done().await, "it has not moved since");
}

#[tokio::test]
async fn accounts_take_turns() {
    let world = World::new().await;
    let large = world.account;
    world.routes(large, 2 * limits::EXPANSION_CHUNK).await;
    let small = world.another_account().await;
    let wanted = world.routes(small, 2).await;
    let mut expander = world.expander();
    expander.rotation.extend([
        world.commit(large).await,
        world.commit(large).await,
        world.commit(small).await,
    ]);
    for _ in 0..2 {
        let open = expander.rotation.next().expect("three wait");
        expander.go_on(open).await.unwrap();
    }
    assert_eq!(world.reached(small).await, wanted, "after one chunk of the other's");
}

#[tokio::test(start_paused = true)]
async fn an_expander_runs_by_itself() {
    let world = World::new().await;
    let (old, new) = (world.account, world.another_account().await);
    let (of_old, of_new) = (world.routes(old, 3).await, world.routes(new, 2).await);
    world.commit(old).await;
    let (begun, mut waiting) = mpsc::channel(4);
    let expander = world.expander();
    let running = tokio::spawn(async move { expander.run(&mut waiting).await });
    begun.send(vec![world.commit(new).await]).await.unwrap();
    while !world.is_done().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(world.reached(old).await, of_old, "left behind by another node");
    assert_eq!(world.reached(new).await, of_new, "told of");
    running.abort();
}
