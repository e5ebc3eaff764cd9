//! What events are found by: tags, by their own table, and metadata, by looking through a time.

use crate::fixtures::*;
use domain::{account::Account, event::Event, id::EventId, limits, time::Timestamp};
use serde_json::{Value, json};
use store::{Committed, EventFilter, EventWalk, IdempotencyKey, NewEvent, PreparedEvent};

fn tagged(account: &Account, second: u64, tags: &[&str]) -> Event {
    Event { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..event(account, at(second)) }
}

fn by(tags: &[&str]) -> EventFilter {
    EventFilter { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..EventFilter::default() }
}

async fn found(world: &World, account: &Account, filter: &EventFilter) -> Vec<EventId> {
    let ids: Vec<EventId> = world.events(account, filter, 50).await.iter().map(|it| it.event.id).collect();
    for limit in [1, 2] {
        let by_limit: Vec<EventId> =
            world.events(account, filter, limit).await.iter().map(|it| it.event.id).collect();
        assert_eq!(by_limit, ids, "{filter:?} by {limit}");
    }
    ids
}

pub(crate) async fn an_event_is_found_by_each_of_its_tags(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let account = &ground.account;
    let given = [
        tagged(account, 1, &["order-1", "vip"]),
        tagged(account, 2, &[]),
        tagged(account, 3, &["order-2"]),
        tagged(account, 4, &["order-1", "%_é'\""]),
    ];
    let [a, _, c, d] = [0, 1, 2, 3].map(|n: usize| given[n].id);
    for event in given.clone() {
        world.commit_event(event, &[&ground.route]).await;
    }
    let foreign = tagged(&other.account, 5, &["order-1"]);
    world.commit_event(foreign.clone(), &[]).await;

    assert_eq!(found(&world, account, &by(&["order-1"])).await, [d, a], "newest first");
    assert_eq!(found(&world, account, &by(&["vip", "order-2"])).await, [c, a]);
    assert_eq!(found(&world, account, &by(&["order-1", "vip"])).await, [d, a], "once, whichever tags it has");
    assert_eq!(found(&world, account, &by(&["%_é'\""])).await, [d]);
    assert_eq!(found(&world, account, &by(&["order", "Order-1", "order-1 "])).await, []);
    assert_eq!(found(&world, &other.account, &by(&["order-1"])).await, [foreign.id]);
    for event in given {
        let record = world.store.event(account.id, event.id).await.unwrap();
        assert_eq!(record.event.tags, event.tags, "and shown");
        let listed = world.events(account, &EventFilter::default(), 50).await;
        assert!(listed.contains(&record));
    }
}

pub(crate) async fn tags_narrow_with_other_filters(world: World) {
    let ground = world.ground().await;
    let account = &ground.account;
    let paid = |event: Event| Event { event_type: "order.paid".parse().unwrap(), ..event };
    let (first, second) = (paid(tagged(account, 1, &["a"])), tagged(account, 2, &["a", "b"]));
    let (third, unmatched) = (paid(tagged(account, 3, &["a"])), tagged(account, 4, &["a"]));
    let ids = [first.id, second.id, third.id, unmatched.id];
    for event in [first, second] {
        let made = world.commit_event(event, &[&ground.route]).await;
        world.move_on(delivered(&made[0], at(5))).await;
    }
    world.commit_event(third, &[&ground.route]).await;
    world.commit_event(unmatched, &[]).await;
    let types = vec!["order.*".parse().unwrap()];
    let cases = [
        (EventFilter { types, ..by(&["a"]) }, vec![2, 0]),
        (EventFilter { since: Some(at(2)), ..by(&["a"]) }, vec![3, 2, 1]),
        (EventFilter { since: Some(at(2)), until: Some(at(3)), ..by(&["a"]) }, vec![1]),
        (EventFilter { fanout_complete: Some(true), ..by(&["a"]) }, vec![3, 1, 0]),
        (EventFilter { fanout_complete: Some(false), ..by(&["a"]) }, vec![2]),
        (EventFilter { unmatched: true, ..by(&["a"]) }, vec![3]),
        (EventFilter { unmatched: true, ..EventFilter::default() }, vec![3]),
    ];
    for (filter, expected) in cases {
        let expected: Vec<EventId> = expected.into_iter().map(|n: usize| ids[n]).collect();
        assert_eq!(found(&world, account, &filter).await, expected, "{filter:?}");
    }
}

pub(crate) async fn what_is_repeated_is_tagged_once(world: World) {
    let account = world.account().await;
    let key = IdempotencyKey { scope: account.id.uuid(), hash: [1; 32], body_hash: [2; 32] };
    let keyed = async |event: Event| {
        let new = world.matched(event, Vec::new()).await;
        NewEvent { key: Some(key), ..new }
    };
    let first = keyed(tagged(&account, 1, &["a"])).await;
    assert_eq!(world.commit(&first).await, Committed::New);
    assert_eq!(world.commit(&first).await, Committed::New, "the same batch again");
    let repeat = keyed(tagged(&account, 2, &["a", "b"])).await;
    assert!(matches!(world.commit(&repeat).await, Committed::Duplicate { of, .. } if of == first.event.id));
    assert_eq!(found(&world, &account, &by(&["a"])).await, [first.event.id]);
    assert_eq!(found(&world, &account, &by(&["b"])).await, []);
}

pub(crate) async fn a_batch_may_have_tagged_and_plain_events(world: World) {
    let ground = world.ground().await;
    let mut batch = Vec::new();
    for (second, tags) in [(1, &["a", "b"][..]), (2, &[]), (3, &["b"])] {
        let event = tagged(&ground.account, second, tags);
        batch.push(world.matched(event, vec![promise(&ground.route, at(second))]).await);
    }
    assert_eq!(world.store.commit(&batch, at(4)).await.unwrap(), vec![Committed::New; 3]);
    let [first, second, third] = [0, 1, 2].map(|n: usize| batch[n].event.id);
    assert_eq!(found(&world, &ground.account, &by(&["b"])).await, [third, first]);
    assert_eq!(found(&world, &ground.account, &EventFilter::default()).await, [third, second, first]);
    assert_eq!(world.lane(ground.destination.id).await.len(), 3);
}

pub(crate) async fn tags_go_with_their_event(world: World) {
    let ground = world.ground().await;
    let (old, young) = (tagged(&ground.account, 1, &["a", "old"]), tagged(&ground.account, 9, &["a"]));
    let waits = tagged(&ground.account, 2, &["a", "waits"]);
    let (gone, kept, waiting) = (old.id, young.id, waits.id);
    world.commit_event(old, &[]).await;
    world.commit_event(waits, &[&ground.route]).await;
    world.commit_event(young, &[]).await;
    let term = crate::retention::term(&world).await;
    let walk =
        EventWalk { account_id: ground.account.id, from: EventId::MIN, before: at(5), events: 10, rows: 100 };
    world.store.prune_events(term, walk).await.unwrap().expect("the term stands");
    assert_eq!(found(&world, &ground.account, &by(&["a"])).await, [kept, waiting]);
    assert_eq!(found(&world, &ground.account, &by(&["old"])).await, []);
    assert_eq!(found(&world, &ground.account, &by(&["waits"])).await, [waiting]);
    is_not_found(world.store.event(ground.account.id, gone).await, "event");
}

pub(crate) async fn metadata_is_compared_by_what_it_says(world: World) {
    let account = world.account().await;
    let documents = [
        json!({"tenant": "t-1", "n": 7, "ok": true, "nested": {"tenant": "t-2"}}),
        json!({"tenant": "t-2", "n": "7", "list": ["t-1"]}),
        json!({"note": "\"tenant\":\"t-1\"", "tenant": null}),
        json!({"tenant": "t-1", "a\"b": "é\n"}),
    ];
    let mut ids = Vec::new();
    for (second, document) in (1..).zip(documents) {
        let Value::Object(metadata) = document else { unreachable!("objects") };
        let given = Event { metadata, tags: vec![format!("tag-{second}")], ..event(&account, at(second)) };
        ids.push(given.id);
        world.commit_event(given, &[]).await;
    }
    let filter = |wanted: &[(&str, &[&str])]| EventFilter {
        metadata: wanted
            .iter()
            .map(|(key, values)| ((*key).to_owned(), values.iter().map(|it| (*it).to_owned()).collect()))
            .collect(),
        since: Some(Timestamp::from_seconds(0)),
        ..EventFilter::default()
    };
    let cases: [(EventFilter, Vec<usize>); 9] = [
        (filter(&[("tenant", &["t-1"])]), vec![3, 0]),
        (filter(&[("tenant", &["t-1", "t-2"])]), vec![3, 1, 0]),
        (filter(&[("tenant", &["t-1"]), ("n", &["7"])]), vec![0]),
        (filter(&[("n", &["7"])]), vec![1, 0]),
        (filter(&[("ok", &["true"])]), vec![0]),
        (filter(&[("list", &["t-1"]), ("tenant", &["t-2"])]), vec![]),
        (filter(&[("tenant", &["null", ""])]), vec![]),
        (filter(&[("a\"b", &["é\n"])]), vec![3]),
        (
            EventFilter { tags: vec!["tag-4".into(), "tag-2".into()], ..filter(&[("tenant", &["t-1"])]) },
            vec![3],
        ),
    ];
    for (filter, expected) in cases {
        let expected: Vec<EventId> = expected.into_iter().map(|n| ids[n]).collect();
        assert_eq!(found(&world, &account, &filter).await, expected, "{filter:?}");
    }
}

pub(crate) async fn a_search_looks_at_no_more_than_a_page_may(world: World) {
    let account = world.account().await;
    let version = world.version(&account).await;
    let wanted = Event { tags: vec!["rare".into()], ..event(&account, at(1)) };
    let wanted = Event { metadata: [("k".to_owned(), json!("v"))].into_iter().collect(), ..wanted };
    world.commit_event(wanted.clone(), &[]).await;
    let mut left = limits::PAGE_SCAN + 1;
    while left > 0 {
        let count = left.min(limits::INGEST_BATCH);
        let filler = |_| NewEvent {
            event: PreparedEvent::new(Event { tags: vec!["many".into()], ..event(&account, at(2)) }),
            account_version: version,
            deliveries: vec![],
            other_routes: Vec::new(),
            expands: false,
            key: None,
        };
        world.store.commit(&(0..count).map(filler).collect::<Vec<_>>(), at(2)).await.unwrap();
        left -= count;
    }
    let metadata = vec![("k".to_owned(), vec!["v".to_owned()])];
    let by_metadata =
        EventFilter { metadata: metadata.clone(), since: Some(at(0)), ..EventFilter::default() };
    for filter in [by_metadata, EventFilter { metadata, ..by(&["many", "rare"]) }] {
        let page = world.store.events(account.id, &filter, first(10)).await.unwrap();
        assert_eq!((page.rows.len(), page.next.is_some()), (0, true), "a part was looked at: {filter:?}");
        let all = world.events(&account, &filter, 10).await;
        assert_eq!(all.iter().map(|it| it.event.id).collect::<Vec<_>>(), [wanted.id]);
    }
    let page = world.store.events(account.id, &by(&["rare"]), first(10)).await.unwrap();
    assert_eq!((page.rows.len(), page.next), (1, None), "what has another tag is not looked at");
}
