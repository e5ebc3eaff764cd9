//! Which routes an event takes, and why not the others.

use super::*;
use crate::{limits::ROUTES_PAGE, testing};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

fn id(n: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(n)
}

fn source(n: u128) -> Option<SourceId> {
    Some(SourceId::from_uuid(id(n)))
}

fn route_id(n: u128) -> RouteId {
    RouteId::from_uuid(id(n))
}

fn destination(n: u128) -> DestinationId {
    DestinationId::from_uuid(id(n))
}

/// Route `n` takes everything from source 1, to destination `n`.
fn route(n: u128) -> Route {
    let route = Route::new(RouteId::from_uuid(id(n)), AccountId::MIN, destination(n), Timestamp::MIN);
    Route { source_id: source(1), ..route }
}

/// The same to another destination.
fn to(n: u128, route: Route) -> Route {
    Route { destination_id: destination(n), ..route }
}

fn patterns(n: u128, patterns: &[&str]) -> Route {
    let event_types = patterns.iter().map(|pattern| pattern.parse().expect("a pattern")).collect();
    Route { event_types, ..route(n) }
}

fn filtered(n: u128, filter: Value) -> Route {
    Route { filter: Some(Filter::compile(&filter).expect("a filter")), ..route(n) }
}

fn event(event_type: &str, payload: &str) -> Event {
    Event {
        source_id: source(1),
        event_type: event_type.parse().expect("an event type"),
        headers: vec![("x-tier".into(), "gold".into())],
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        metadata: json!({"region": "eu"}).as_object().expect("an object").clone(),
        ..testing::event(AccountId::MIN, Timestamp::MIN, 0)
    }
}

fn table(routes: impl IntoIterator<Item = Route>) -> RouteTable {
    RouteTable::new(routes.into_iter().map(Arc::new))
}

/// The numbers of the routes that deliver an event, in order.
fn taken(event: &Event, routes: impl IntoIterator<Item = Route>) -> Vec<u128> {
    fan_out(event, &table(routes)).iter().map(|route| route.id.uuid().as_u128()).collect()
}

/// The first reason why the event does not take this route.
fn why(event: &Event, route: Route) -> Option<RouteMismatch> {
    let table = table([route.clone()]);
    route.refuses(&Candidate::of(event, &table))
}

#[test]
fn every_destination_that_a_route_leads_to_is_one_delivery() {
    assert_eq!(taken(&event("order.created", "{}"), [route(1), route(2)]), [1, 2]);
    assert_eq!(taken(&event("order.created", "{}"), []), [0u128; 0]);
}

#[test]
fn of_many_routes_to_one_destination_the_oldest_that_matches_delivers() {
    let order = event("order.created", "{}");
    let seven = (1..8).map(|n| to(1, route(n)));
    assert_eq!(taken(&order, seven.clone()), [1]);
    assert_eq!(taken(&order, seven.clone().rev()), [1], "whatever they were read in");
    let disabled = Route { enabled: false, ..to(1, route(1)) };
    let other_type = to(1, patterns(2, &["refund.*"]));
    let other_payload = to(1, filtered(3, json!({"data": {"amount": 1}})));
    assert_eq!(taken(&order, [disabled, other_type, other_payload, to(1, route(5)), to(1, route(4))]), [4]);
    assert_eq!(taken(&order, [to(2, route(1)), to(1, route(2)), to(2, route(3)), to(1, route(4))]), [2, 1]);
}

#[test]
fn destinations_are_walked_by_age_and_not_by_the_order_their_routes_were_read_in() {
    assert_eq!(taken(&event("a", "{}"), [route(3), route(1), route(2)]), [1, 2, 3]);
}

#[test]
fn a_disabled_route_takes_nothing() {
    let disabled = Route { enabled: false, ..route(1) };
    assert_eq!(taken(&event("a", "{}"), [disabled.clone(), route(2)]), [2]);
    assert_eq!(why(&event("a", "{}"), disabled), Some(RouteMismatch::Disabled));
}

#[test]
fn a_route_takes_only_what_came_in_by_its_own_door() {
    let elsewhere = Route { source_id: source(2), ..route(1) };
    let published = Route { source_id: None, ..route(2) };
    let from_source = event("a", "{}");
    let by_api = Event { source_id: None, ..event("a", "{}") };
    let all = || [elsewhere.clone(), published.clone(), route(3)];
    assert_eq!(taken(&from_source, all()), [3]);
    assert_eq!(taken(&by_api, all()), [2]);
    assert_eq!(why(&from_source, elsewhere.clone()), Some(RouteMismatch::OtherSource));
    assert_eq!(why(&from_source, published.clone()), Some(RouteMismatch::OtherSource));
    assert_eq!(why(&by_api, published.clone()), None);
}

#[test]
fn one_matching_pattern_is_enough_and_none_is_not() {
    let routes = || [patterns(1, &["refund.*", "order.*"]), patterns(2, &["refund.**"]), patterns(3, &[])];
    assert_eq!(taken(&event("order.created", "{}"), routes()), [1]);
    assert_eq!(
        why(&event("order.created", "{}"), patterns(2, &["refund.**"])),
        Some(RouteMismatch::EventType)
    );
    assert_eq!(why(&event("order.created", "{}"), patterns(3, &[])), Some(RouteMismatch::EventType));
}

#[test]
fn filters_see_the_type_the_payload_the_headers_and_the_metadata() {
    let order = event("order.created", r#"{"amount": 120, "country": "CH"}"#);
    let routes = [
        filtered(1, json!({"data": {"amount": {"$gte": 100}}})),
        filtered(2, json!({"data": {"amount": {"$lt": 100}}})),
        filtered(3, json!({"headers": {"x-tier": "gold"}, "metadata": {"region": "eu"}})),
        filtered(4, json!({"type": "order.created"})),
        filtered(5, json!({"metadata": {"region": "us"}})),
    ];
    assert_eq!(taken(&order, routes), [1, 3, 4]);
}

#[test]
fn a_payload_that_is_not_json_has_no_data_and_still_takes_routes_without_a_filter() {
    let routes = || [route(1), filtered(2, json!({"data": {"a": 1}})), filtered(3, json!({"type": "a"}))];
    assert_eq!(taken(&event("a", "not json"), routes()), [1, 3]);
}

#[test]
fn a_filter_that_refuses_says_which_path() {
    let order = event("order.created", r#"{"customer": {"country": "DE"}}"#);
    let wants_swiss = filtered(1, json!({"data": {"customer": {"country": "CH"}}}));
    match why(&order, wants_swiss) {
        Some(RouteMismatch::Filter(mismatch)) => {
            assert!(format!("{mismatch:?}").contains("country"), "{mismatch:?}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_reason_is_the_one_that_is_told() {
    let nothing_fits = Route { enabled: false, source_id: source(2), ..patterns(1, &["b"]) };
    let event = event("a", "{}");
    assert_eq!(why(&event, nothing_fits.clone()), Some(RouteMismatch::Disabled));
    let enabled = Route { enabled: true, ..nothing_fits };
    assert_eq!(why(&event, enabled.clone()), Some(RouteMismatch::OtherSource));
    assert_eq!(why(&event, Route { source_id: source(1), ..enabled }), Some(RouteMismatch::EventType));
}

#[test]
fn nothing_is_parsed_for_an_event_that_no_filter_looks_at() {
    let table = table([route(1), Route { source_id: source(2), ..filtered(2, json!({"type": "a"})) }]);
    assert!(Candidate::of(&event("a", r#"{"a": 1}"#), &table).data.is_none());
}

fn any_route(n: u128) -> impl Strategy<Value = Route> {
    let filters = prop::sample::select(vec![
        None,
        Some(json!({})),
        Some(json!({"data": {"n": {"$gt": 2}}})),
        Some(json!({"data": {"$or": [{"n": 1}, {"tags": "x"}]}})),
        Some(json!({"$not": {"type": "a.b"}})),
        Some(json!({"metadata": {"region": {"$nin": ["eu"]}}})),
        Some(json!({"headers": {"x-tier": {"$exist": true}}})),
    ]);
    let event_types = prop::sample::subsequence(vec!["*", "a", "a.*", "a.**", "b.*", "**"], 0..4);
    let to_one_of = 0..5u128;
    (0..10u32, 0..4u128, to_one_of, event_types, filters).prop_map(
        move |(enabled, from, to, event_types, filter)| {
            let filter = filter.map(|filter| Filter::compile(&filter).expect("a filter"));
            let source_id = source(from).filter(|_| from > 0);
            let event_types: Vec<_> = event_types.iter().filter_map(|pattern| pattern.parse().ok()).collect();
            let destination_id = destination(to);
            Route { enabled: enabled > 0, source_id, destination_id, event_types, filter, ..route(n) }
        },
    )
}

proptest! {
    /// The preview and the ingest are two readings of one rule.
    #[test]
    fn each_destination_is_reached_by_the_oldest_route_that_does_not_refuse_the_event(
        routes in prop::collection::vec(any::<u64>(), 0..12)
            .prop_flat_map(|ids| ids.into_iter().map(|n| any_route(n.into())).collect::<Vec<_>>()),
        event_type in prop::sample::select(vec!["a", "a.b", "a.b.c", "b.c", "c"]),
        payload in prop::sample::select(vec!["{}", r#"{"n": 1}"#, r#"{"n": 3, "tags": ["x"]}"#, "[1]", "", "nonsense"]),
        from in 0..4u128,
    ) {
        let event = Event { source_id: source(from).filter(|_| from > 0), ..event(event_type, payload) };
        let table = table(routes.clone());
        let candidate = Candidate::of(&event, &table);
        let mut willing = std::collections::BTreeMap::new();
        for route in routes.iter().filter(|route| route.refuses(&candidate).is_none()) {
            let oldest = willing.entry(route.destination_id).or_insert(route.id);
            *oldest = route.id.min(*oldest);
        }
        let taken: Vec<_> = fan_out(&event, &table).iter().map(|route| (route.destination_id, route.id)).collect();
        prop_assert_eq!(taken, willing.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_route_that_has_not_changed_was_there_whatever_the_clocks_say() {
    let (event_at, later) = (Timestamp::from_seconds(10), Timestamp::from_seconds(11));
    let route = |version, created_at| Route { version, created_at, ..route(1) };
    assert!(route(7, event_at).was_there(7, event_at));
    assert!(route(7, later).was_there(7, event_at), "made by a node whose clock is ahead");
    assert!(route(8, event_at).was_there(7, event_at), "changed since");
    assert!(!route(8, later).was_there(7, event_at), "made since");
}

#[test]
fn a_change_makes_few_pages_anew() {
    let count = 4 * ROUTES_PAGE as u128;
    let before = table((0..count).map(|n| route(2 * n)));
    let odd = Arc::new(route(ROUTES_PAGE as u128 + 1));
    let after = before.changed(&[route(0).place()], [odd]);
    let pages: Vec<_> = before.pages(source(1)).map(<[_]>::as_ptr).collect();
    let kept = after.pages(source(1)).filter(|page| pages.contains(&page.as_ptr())).count();
    assert_eq!((pages.len(), kept, after.pages(source(1)).count()), (4, 3, 4));
    assert_eq!((before.count(source(1)), after.count(source(1))), (count as usize, count as usize));
}

#[test]
fn an_event_is_held_against_the_routes_that_name_its_type_and_those_with_a_star() {
    let count = 100 * ROUTES_PAGE as u128;
    let table = table((0..count).map(|n| patterns(n, &[&format!("order.{n}"), "order.0"])));
    let held_against = |table: &RouteTable, event_type: &str| {
        let routes = table.that_may_take(source(1), event_type).count();
        assert_eq!(table.count_that_may_take(source(1), event_type), routes);
        routes
    };
    let tries = ["order.0", "order.300", "order.25599", "order.none"].map(|name| held_against(&table, name));
    assert_eq!(tries, [count as usize, 1, 1, 0]);
    let with_a_star = table.changed(&[], [Arc::new(patterns(count, &["order.*"]))]);
    assert_eq!(["order.300", "order.none"].map(|name| held_against(&with_a_star, name)), [2, 1]);
    assert!(with_a_star.that_may_take(source(1), "order.none").all(|route| route.id == route_id(count)));
}

proptest! {
    /// However it came about, a table is its routes, sorted.
    #[test]
    fn a_table_that_was_changed_is_as_one_that_was_made_anew(
        steps in prop::collection::vec(
            (prop::collection::vec(0..600u128, 0..300), prop::collection::vec(0..600u128, 0..300), 0..3u128), 1..8),
    ) {
        let mut known: std::collections::BTreeMap<RouteId, Arc<Route>> = Default::default();
        let mut changed = RouteTable::default();
        for (gone, come, from) in steps {
            let gone: std::collections::BTreeSet<_> = gone.into_iter().map(|n| RouteId::from_uuid(id(n))).collect();
            let come: std::collections::BTreeMap<_, _> = come.into_iter().map(|n| {
                let filter = (n % 7 == 0).then(|| Filter::compile(&json!({})).expect("a filter"));
                let source_id = source(from).filter(|_| from > 0);
                let named = format!("t{}", n % 450);
                let of_type = patterns(n, &[if n % 101 == 0 { "*" } else { &named }, "t.more"]);
                let route = to((n * 31 + from) % 97, Route { source_id, filter, ..of_type });
                (route.id, Arc::new(route))
            }).collect();
            let named: Vec<_> = gone.iter().chain(come.keys())
                .filter_map(|id| known.remove(id)).map(|route| route.place()).collect();
            known.extend(come.iter().map(|(id, route)| (*id, route.clone())));
            changed = changed.changed(&named, come.into_values());
            let anew = RouteTable::new(known.values().cloned());
            for from in [None, source(1), source(2)] {
                let ids = |table: &RouteTable| table.of_source(from).map(|route| route.id).collect::<Vec<_>>();
                prop_assert_eq!(ids(&changed), ids(&anew));
                prop_assert_eq!(changed.count(from), ids(&anew).len());
                prop_assert_eq!(changed.has_filters(from), anew.has_filters(from));
                prop_assert!(changed.pages(from).all(|page| !page.is_empty() && page.len() <= ROUTES_PAGE));
                for event_type in ["t0", "t7", "t49", "t.more", "t50"] {
                    let event = event(event_type, "{}");
                    let candidate = Candidate::of(&event, &changed);
                    let takes = |route: &&Arc<Route>| route.takes(&candidate);
                    let all: Vec<_> = changed.of_source(from).filter(takes).map(|route| route.id).collect();
                    let found = changed.that_may_take(from, event_type).filter(takes);
                    prop_assert_eq!(found.map(|route| route.id).collect::<Vec<_>>(), all);
                    let held_against = changed.that_may_take(from, event_type).count();
                    prop_assert_eq!(changed.count_that_may_take(from, event_type), held_against);
                    prop_assert_eq!(anew.count_that_may_take(from, event_type), held_against);
                }
            }
        }
    }
}

#[test]
fn what_is_told_goes_by_patterns_that_begin_with_its_segment_and_not_where_it_is_about() {
    let mut told = event("order.created", "{}");
    told.id = crate::id::EventId::operational(Timestamp::MIN, 1);
    told.event_type = crate::operations::OperationalKind::Throttled.event_type();
    told.metadata.insert(crate::operations::ABOUT.into(), json!(destination(2)));
    let all = |n| patterns(n, &["posthaste.**"]);
    let wild = [["*"], ["**"], ["*.**"], ["*.destination.*"], ["*.*.throttled"], ["order.*"]];
    let wild: Vec<Route> = (10..).zip(wild).map(|(n, pattern)| patterns(n, &pattern)).collect();
    assert_eq!(taken(&told, wild), [0u128; 0]);
    assert_eq!(taken(&told, [all(1), all(2), patterns(3, &["*", "posthaste.*.throttled"])]), [1, 3]);
    assert_eq!(why(&told, all(2)), Some(RouteMismatch::EventType));
    // What anybody may publish is about nothing.
    let mut published = event("order.created", "{}");
    published.metadata.insert(crate::operations::ABOUT.into(), json!(destination(2)));
    assert_eq!(taken(&published, [route(1), route(2)]), [1, 2]);
}
