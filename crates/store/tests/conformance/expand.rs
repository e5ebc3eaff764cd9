//! Large fan-outs: every delivery exactly once, whoever makes them and whatever happens in between.

use crate::fixtures::{Ground, World, at, chance, delivered, event, key, promise, route};
use domain::{
    account::Account,
    event::Event,
    id::{AccountId, DestinationId, EventId, RouteId},
    limits,
    route::Route,
    testing::audit_entry,
};
use std::{collections::BTreeSet, slice};
use store::{
    Chunk, Committed, DeliveryFilter, EventFilter, Expansion, FanoutCounts, NewEvent, RoutePage, RouteWalk,
};

pub(crate) async fn an_expansion_begins_with_its_event(world: World) {
    let ground = world.ground().await;
    let new = large(&world, &ground).await;
    assert_eq!(world.commit(&new).await, Committed::New);
    let expected = Expansion {
        event_id: new.event.id,
        account_id: ground.account.id,
        account_version: new.account_version,
        cursor: None,
        deliveries: 0,
        inline_destinations: Vec::new(),
        other_routes: Vec::new(),
        created_at: at(1),
    };
    assert_eq!(world.store.open_expansions(None, 10).await.unwrap(), slice::from_ref(&expected));
    assert_eq!(world.store.expansion(new.event.id).await.unwrap(), Some(expected));
    let expanding = FanoutCounts { expanding: true, ..FanoutCounts::default() };
    assert_eq!(fanout(&world, &new).await, expanding);
    assert!(world.lane(ground.destination.id).await.is_empty());

    assert_eq!(world.commit(&new).await, Committed::New, "the same again");
    assert_eq!(world.store.open_expansions(None, 10).await.unwrap().len(), 1);
}

pub(crate) async fn what_is_not_committed_is_not_expanded(world: World) {
    let ground = world.ground().await;
    let stale = large(&world, &ground).await;
    world.route(&ground.destination).await;
    assert_eq!(world.commit(&stale).await, Committed::Stale);
    assert!(world.store.open_expansions(None, 10).await.unwrap().is_empty());
}

pub(crate) async fn expansions_are_listed_by_event(world: World) {
    let ground = world.ground().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let new = large(&world, &ground).await;
        world.commit(&new).await;
        ids.push(new.event.id);
    }
    let listed = async |after, limit| {
        let open = world.store.open_expansions(after, limit).await.unwrap();
        open.iter().map(|expansion| expansion.event_id).collect::<Vec<EventId>>()
    };
    assert_eq!(listed(None, 2).await, ids[..2]);
    assert_eq!(listed(Some(ids[1]), 2).await, ids[2..]);
}

pub(crate) async fn a_chunk_makes_its_deliveries_and_moves_the_cursor(world: World) {
    let ground = world.ground().await;
    let new = large(&world, &ground).await;
    world.commit(&new).await;
    let chunk = chunk(&new, None, &[&ground.route], false);
    assert!(world.store.expand(&chunk).await.unwrap());
    let [delivery] = &world.lane(ground.destination.id).await[..] else { panic!("one delivery") };
    assert_eq!((delivery.id, delivery.origin), (chunk.deliveries[0].id, chunk.deliveries[0].id));
    assert_eq!((delivery.route_id, delivery.event_id), (ground.route.id, new.event.id));
    assert_eq!((delivery.account_id, delivery.attempts), (ground.account.id, 0));
    assert_eq!(delivery.payload_bytes as usize, new.event.payload.len());
    let expansion = world.store.expansion(new.event.id).await.unwrap().expect("it goes on");
    assert_eq!((expansion.cursor, expansion.deliveries), (Some(ground.destination.id), 1));
    let expected = FanoutCounts { total: 1, waiting: 1, expanding: true, ..FanoutCounts::default() };
    assert_eq!(fanout(&world, &new).await, expected);
}

pub(crate) async fn an_expansion_respects_when_the_event_is_to_be_delivered(world: World) {
    let ground = world.ground().await;
    let later = Event { deliver_at: Some(at(60)), ..event(&ground.account, at(1)) };
    let new = NewEvent { expands: true, ..world.matched(later, vec![]).await };
    world.commit(&new).await;
    assert!(world.store.expand(&chunk(&new, None, &[&ground.route], true)).await.unwrap());
    assert_eq!(world.lane(ground.destination.id).await[0].available_at, at(60));
}

pub(crate) async fn a_repeated_chunk_writes_nothing(world: World) {
    let ground = world.ground().await;
    let new = large(&world, &ground).await;
    world.commit(&new).await;
    let first = chunk(&new, None, &[&ground.route], false);
    assert!(world.store.expand(&first).await.unwrap());
    world.move_on(delivered(&world.lane(ground.destination.id).await[0], at(2))).await;
    assert!(!world.store.expand(&first).await.unwrap(), "its deliveries have ended, which is no reason");
    assert!(!world.store.expand(&chunk(&new, None, &[&ground.route], true)).await.unwrap());
    assert!(world.lane(ground.destination.id).await.is_empty());

    let last = chunk(&new, Some(ground.destination.id), &[], true);
    assert!(world.store.expand(&last).await.unwrap());
    assert!(!world.store.expand(&last).await.unwrap());
    assert!(!world.store.expand(&first).await.unwrap(), "nor after the end");
    assert_eq!((fanout(&world, &new).await.total, fanout(&world, &new).await.waiting), (1, 0));
}

pub(crate) async fn the_last_chunk_writes_the_number(world: World) {
    let ground = world.ground().await;
    let second = world.route(&world.destination(&ground.account).await).await;
    let new = NewEvent { key: Some(key(&ground.account, 7, 1)), ..large(&world, &ground).await };
    world.commit(&new).await;
    let repeat = NewEvent { key: new.key, ..large(&world, &ground).await };
    let duplicate = |deliveries| Committed::Duplicate { of: new.event.id, deliveries, body_hash: [1; 32] };
    assert_eq!(world.commit(&repeat).await, duplicate(None), "nobody knows yet how many");
    let incomplete = EventFilter { fanout_complete: Some(false), ..EventFilter::default() };
    assert_eq!(world.events(&ground.account, &incomplete, 10).await.len(), 1, "also before any is made");

    assert!(world.store.expand(&chunk(&new, None, &[&ground.route], false)).await.unwrap());
    let first = world.lane(ground.destination.id).await.remove(0);
    world.move_on(delivered(&first, at(2))).await;
    let so_far = fanout(&world, &new).await;
    assert_eq!((so_far.total, so_far.delivered, so_far.completed_at), (1, 1, None), "there may be more");
    assert!(world.store.expand(&chunk(&new, Some(ground.destination.id), &[&second], true)).await.unwrap());
    let expected = FanoutCounts { total: 2, delivered: 1, waiting: 1, ..FanoutCounts::default() };
    assert_eq!(fanout(&world, &new).await, expected);
    assert_eq!(world.store.expansion(new.event.id).await.unwrap(), None);
    assert!(world.store.open_expansions(None, 10).await.unwrap().is_empty());
    assert_eq!(world.commit(&repeat).await, duplicate(Some(2)));
}

pub(crate) async fn the_other_routes_of_a_large_event_are_told_at_its_end(world: World) {
    let ground = world.ground().await;
    let routes = [(); 3].map(|()| RouteId::at(at(1), chance()));
    let new = NewEvent { other_routes: vec![routes[0]], ..large(&world, &ground).await };
    world.commit(&new).await;
    let expansion = async || world.store.expansion(new.event.id).await.unwrap();
    let shown = async || world.store.event(ground.account.id, new.event.id).await.unwrap().other_routes;
    assert_eq!(expansion().await.expect("begun").other_routes, routes[..1]);
    assert_eq!(shown().await, routes[..1], "those that are known already");
    let first = Chunk { other_routes: routes[..2].to_vec(), ..chunk(&new, None, &[&ground.route], false) };
    assert!(world.store.expand(&first).await.unwrap());
    assert_eq!(expansion().await.expect("it goes on").other_routes, routes[..2]);
    let from = Some(ground.destination.id);
    let late = Chunk { other_routes: vec![], ..chunk(&new, None, &[], true) };
    assert!(!world.store.expand(&late).await.unwrap());
    let last = Chunk { other_routes: routes.to_vec(), ..chunk(&new, from, &[], true) };
    assert!(world.store.expand(&last).await.unwrap());
    assert_eq!(shown().await, routes);
    let listed = world.events(&ground.account, &EventFilter::default(), 10).await;
    assert_eq!(listed[0].other_routes, routes);
}

/// The rest of a page must not wait for one event.
pub(crate) async fn a_list_counts_so_many_deliveries_of_an_event(world: World) {
    let ground = world.ground().await;
    let new = large(&world, &ground).await;
    world.commit(&new).await;
    let routes = vec![&ground.route; limits::FANOUT_COUNTED + 1];
    assert!(world.store.expand(&chunk(&new, None, &routes, true)).await.unwrap());
    let (made, counted) = (routes.len() as u32, limits::FANOUT_COUNTED as u32);
    let listed = async || world.events(&ground.account, &EventFilter::default(), 10).await.remove(0).fanout;
    let expected = FanoutCounts { total: made, waiting: counted, capped: true, ..FanoutCounts::default() };
    assert_eq!(listed().await, expected);
    let waiting = FanoutCounts { total: made, waiting: made, ..FanoutCounts::default() };
    assert_eq!(fanout(&world, &new).await, waiting, "alone, it is counted to its end");

    loop {
        let lane = world.lane(ground.destination.id).await;
        if lane.is_empty() {
            break;
        }
        let settlements: Vec<_> = lane.iter().map(|it| delivered(it, at(3))).collect();
        world.settle(&settlements, at(4)).await;
    }
    let incomplete = EventFilter { fanout_complete: Some(false), ..EventFilter::default() };
    assert!(world.events(&ground.account, &incomplete, 10).await.is_empty());
    let expected = FanoutCounts { total: made, delivered: counted, capped: true, ..FanoutCounts::default() };
    assert_eq!(listed().await, expected, "nothing waits, which is certain; when it ended is not");
    assert!(fanout(&world, &new).await.completed_at.is_some());
}

pub(crate) async fn an_expansion_may_end_without_a_delivery(world: World) {
    let ground = world.ground().await;
    let new = large(&world, &ground).await;
    world.commit(&new).await;
    assert!(world.store.expand(&chunk(&new, None, &[], true)).await.unwrap());
    assert_eq!(fanout(&world, &new).await, FanoutCounts::default());
    let complete = EventFilter { fanout_complete: Some(true), ..EventFilter::default() };
    assert_eq!(world.events(&ground.account, &complete, 10).await.len(), 1);
}

/// Walks as an expander does, and stops when somebody else has been there.
async fn walk(world: &World, new: &NewEvent, mut cursor: Option<DestinationId>, chunks: usize) -> bool {
    for _ in 0..chunks {
        let after = cursor.map(|destination| (destination, RouteId::MAX));
        let routes = routes_after(world, &new.event.account_id, after, 3).await;
        let done = routes.len() < 3;
        let chunk = chunk(new, cursor, &routes.iter().collect::<Vec<_>>(), done);
        if !world.store.expand(&chunk).await.unwrap() {
            return false;
        }
        cursor = chunk.to;
        if done {
            return true;
        }
    }
    false
}

pub(crate) async fn of_many_expanders_at_once_each_delivery_is_made_once(world: World) {
    let (account, destinations) = many(&world, 20).await;
    let new = NewEvent { expands: true, ..world.matched(event(&account, at(1)), vec![]).await };
    world.commit(&new).await;
    let mut finished = 0;
    while world.store.expansion(new.event.id).await.unwrap().is_some() {
        let cursor = world.store.expansion(new.event.id).await.unwrap().and_then(|open| open.cursor);
        let walks = (0..4).map(|_| walk(&world, &new, cursor, 100));
        finished += futures_util::future::join_all(walks).await.into_iter().filter(|done| *done).count();
    }
    assert_eq!(finished, 1);
    is_everywhere_once(&world, &account, &destinations).await;
    assert_eq!(fanout(&world, &new).await.total, 20);
}

pub(crate) async fn an_expansion_goes_on_where_another_stopped(world: World) {
    let (account, destinations) = many(&world, 10).await;
    let new = NewEvent { expands: true, ..world.matched(event(&account, at(1)), vec![]).await };
    world.commit(&new).await;
    assert!(!walk(&world, &new, None, 2).await, "it stops half-way");
    let open = world.store.open_expansions(None, 10).await.unwrap().remove(0);
    assert_eq!(open.deliveries, 6);
    assert!(walk(&world, &new, open.cursor, 100).await);
    is_everywhere_once(&world, &account, &destinations).await;
}

pub(crate) async fn a_destination_that_is_deleted_meanwhile_is_left_out(world: World) {
    let (account, destinations) = many(&world, 10).await;
    let new = NewEvent { expands: true, ..world.matched(event(&account, at(1)), vec![]).await };
    world.commit(&new).await;
    assert!(!walk(&world, &new, None, 2).await);
    world.store.delete_destination(account.id, destinations[1], at(2), &audit_entry()).await.unwrap();
    world.store.delete_destination(account.id, destinations[8], at(2), &audit_entry()).await.unwrap();
    let open = world.store.expansion(new.event.id).await.unwrap().expect("it goes on");
    assert!(walk(&world, &new, open.cursor, 100).await);
    assert_eq!(fanout(&world, &new).await.total, 9, "what was made before is there");
    assert!(world.lane(destinations[8]).await.is_empty());
}

pub(crate) async fn an_account_that_is_not_there_has_no_routes(world: World) {
    let nobody = AccountId::at(at(0), 1);
    assert!(routes_after(&world, &nobody, None, 10).await.is_empty());
}

pub(crate) async fn routes_are_walked_by_destination_age_and_door(world: World) {
    let (account, _) = many(&world, 5).await;
    let other = world.ground().await;
    let source = world.source(&account).await;
    let destination = world.destination(&account).await;
    let by_source = Route { source_id: Some(source.id), ..route(&destination) };
    let by_source = world.store.create_route(&by_source, &audit_entry()).await.unwrap();
    let disabled = Route { enabled: false, ..route(&destination) };
    let disabled = world.store.create_route(&disabled, &audit_entry()).await.unwrap();

    let first = routes_after(&world, &account.id, None, 4).await;
    let place = |route: &Route| (route.destination_id, route.id);
    let rest = routes_after(&world, &account.id, Some(place(&first[3])), 4).await;
    assert_eq!(
        (first.len(), rest.len()),
        (4, 2),
        "disabled ones too, of no other account and no other source"
    );
    let ids: Vec<_> = first.iter().chain(&rest).map(|route| route.id).collect();
    assert!(first.iter().chain(&rest).map(place).is_sorted());
    assert!(ids[5] == disabled.id && !ids.contains(&other.route.id));
    assert_eq!(rest[1].version, disabled.version);
    // A younger one to a destination that comes first.
    let second = route(&world.store.destination(account.id, first[0].destination_id).await.unwrap());
    let second = world.store.create_route(&second, &audit_entry()).await.unwrap();
    let beside = routes_after(&world, &account.id, None, 3).await;
    let beside: Vec<_> = beside.iter().map(|route| route.id).collect();
    assert_eq!(beside, [ids[0], second.id, ids[1]], "stands beside the older one");
    let after = Some((first[0].destination_id, ids[0]));
    assert_eq!(routes_after(&world, &account.id, after, 1).await[0].id, second.id);
    let behind = Some((first[0].destination_id, RouteId::MAX));
    assert_eq!(routes_after(&world, &account.id, behind, 1).await[0].id, ids[1], "all of a destination");
    world.store.delete_route(account.id, second.id, at(2), &audit_entry()).await.unwrap();

    let walk = RouteWalk { source_id: Some(source.id), ..start(account.id, 4) };
    let RoutePage::Read { routes, .. } = world.store.routes_after(&walk).await.unwrap() else {
        panic!("nothing is known of it")
    };
    assert_eq!(routes.iter().map(|route| route.id).collect::<Vec<_>>(), [by_source.id]);
    world.store.delete_route(account.id, ids[0], at(2), &audit_entry()).await.unwrap();
    assert_eq!(routes_after(&world, &account.id, None, 1).await[0].id, ids[1]);
}

pub(crate) async fn a_page_that_is_known_is_not_read_again(world: World) {
    let (account, destinations) = many(&world, 2).await;
    let RoutePage::Read { version, .. } = world.store.routes_after(&start(account.id, 4)).await.unwrap()
    else {
        panic!("nothing is known of it")
    };
    assert_eq!(version, world.version(&account).await);
    let known = RouteWalk { known: Some(version), ..start(account.id, 4) };
    assert!(matches!(world.store.routes_after(&known).await.unwrap(), RoutePage::Unchanged));
    world.store.delete_destination(account.id, destinations[0], at(2), &audit_entry()).await.unwrap();
    let RoutePage::Read { routes, .. } = world.store.routes_after(&known).await.unwrap() else {
        panic!("it has changed")
    };
    assert_eq!(routes.len(), 1);
}

pub(crate) async fn a_chunk_of_the_largest_size_is_written_whole(world: World) {
    let ground = world.ground().await;
    let new = large(&world, &ground).await;
    world.commit(&new).await;
    let chunk = chunk(&new, None, &[&ground.route; limits::EXPANSION_CHUNK], true);
    assert!(world.store.expand(&chunk).await.unwrap());
    let counts = fanout(&world, &new).await;
    assert_eq!(
        (counts.total, counts.waiting),
        (chunk.deliveries.len() as u32, chunk.deliveries.len() as u32)
    );
}

async fn large(world: &World, ground: &Ground) -> NewEvent {
    NewEvent { expands: true, ..world.matched(event(&ground.account, at(1)), vec![]).await }
}

fn chunk(new: &NewEvent, from: Option<DestinationId>, routes: &[&Route], done: bool) -> Chunk {
    Chunk {
        event_id: new.event.id,
        from,
        to: routes.last().map(|route| route.destination_id).or(from),
        deliveries: routes.iter().map(|route| promise(route, at(1))).collect(),
        other_routes: Vec::new(),
        done,
    }
}

fn start(account_id: AccountId, limit: usize) -> RouteWalk {
    RouteWalk { account_id, source_id: None, after: None, limit, known: None }
}

async fn routes_after(
    world: &World,
    account: &AccountId,
    after: Option<(DestinationId, RouteId)>,
    limit: usize,
) -> Vec<Route> {
    let walk = RouteWalk { after, ..start(*account, limit) };
    match world.store.routes_after(&walk).await.unwrap() {
        RoutePage::Read { routes, .. } => routes,
        RoutePage::Unchanged => panic!("nothing is known of it"),
    }
}

/// An account with so many destinations, each with a route.
async fn many(world: &World, count: usize) -> (Account, Vec<DestinationId>) {
    let account = world.account().await;
    let mut destinations = Vec::new();
    for _ in 0..count {
        let destination = world.destination(&account).await;
        world.route(&destination).await;
        destinations.push(destination.id);
    }
    (account, destinations)
}

async fn fanout(world: &World, new: &NewEvent) -> FanoutCounts {
    world.store.event(new.event.account_id, new.event.id).await.unwrap().fanout
}

async fn is_everywhere_once(world: &World, account: &Account, destinations: &[DestinationId]) {
    let made = world.deliveries(account, &DeliveryFilter::default(), 100).await;
    let reached: BTreeSet<_> = made.iter().map(|delivery| delivery.destination_id).collect();
    assert_eq!(made.len(), destinations.len());
    assert_eq!(reached, destinations.iter().copied().collect());
}
