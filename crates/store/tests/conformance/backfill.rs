//! Backfills: an event gets what it never had, once, whoever makes it and whatever happens in between.

use crate::fixtures::{Ground, World, at, chance, delivered, event, first, rejected};
use domain::{
    delivery::{Delivery, Status},
    destination::{Destination, Numbering, Ordering},
    event::Event,
    id::{AccountId, ApiKeyId, DeliveryId, DestinationId, EventId, NodeId, ReplayId},
    limits,
    operations::OperationalKind,
    route::Route,
    testing::audit_entry,
    time::Timestamp,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store::{
    BackfillChunk, BackfillCursor, BackfillEvents, BackfillSelection, BackfillWalk, Backfilled, Committed,
    CreatedReplay, DeliveryFilter, EventFilter, NewDelivery, NewReplay, OpenReplay, Replay, ReplayHold,
    ReplayStatus, ReplaySwitch, Selection, Store,
};

/// When backfills are made.
const LATER: u64 = 100;

fn new(account: AccountId, selection: BackfillSelection) -> NewReplay {
    NewReplay {
        id: ReplayId::at(at(LATER), chance()),
        account_id: account,
        selection: Selection::Events(selection),
        rate: 30,
        matched: 0,
        matched_exact: false,
        created_by: ApiKeyId::at(at(0), 7).into(),
        created_at: at(LATER),
        key: None,
        at_once: None,
    }
}

async fn begin(world: &World, new: &NewReplay) -> Replay {
    match world.store.create_replay(new, &audit_entry()).await.expect("a backfill") {
        CreatedReplay::New(replay) => replay,
        CreatedReplay::Known { .. } => panic!("it is new"),
    }
}

async fn of_all(world: &World, ground: &Ground) -> Replay {
    begin(world, &new(ground.account.id, BackfillSelection::default())).await
}

async fn open(store: &Arc<dyn Store>, id: ReplayId) -> Option<OpenReplay> {
    store.open_replays(100).await.expect("open replays").into_iter().find(|open| open.id == id)
}

async fn held(world: &World, replay: &Replay) -> OpenReplay {
    held_by(&world.store, world.node.id, replay.id).await.expect("nobody else holds it")
}

async fn held_by(store: &Arc<dyn Store>, node: NodeId, id: ReplayId) -> Option<OpenReplay> {
    let seen = open(store, id).await?;
    let (seen_by, seen_until) = (seen.held_by, seen.held_until);
    let hold = ReplayHold { id, node, until: at(1_000), seen_by, seen_until };
    store.hold_replay(&hold).await.expect("a hold")
}

fn late(event: EventId, to: &Destination, route: &Route, now: Timestamp) -> Backfilled {
    let id = DeliveryId::at(now, chance());
    let delivery = NewDelivery::new(id, route.id, (to.id, to.numbering()), None, now, now);
    Backfilled { event_id: event, delivery }
}

fn done_with(event_id: EventId) -> Option<BackfillCursor> {
    Some(BackfillCursor { event_id, destination_id: None })
}

fn chunk(node: NodeId, open: &OpenReplay, deliveries: Vec<Backfilled>) -> BackfillChunk {
    let from = open.backfill.as_ref().expect("it is a backfill").cursor;
    BackfillChunk {
        replay_id: open.id,
        account_id: open.account_id,
        node,
        from,
        to: deliveries.last().and_then(|last| done_with(last.event_id)).or(from),
        deliveries,
        skipped: 0,
        done: false,
        now: at(LATER + 1),
        until: at(1_000),
    }
}

async fn write(world: &World, chunk: &BackfillChunk) -> Option<usize> {
    let made = world.store.write_backfill(chunk).await.expect("a chunk")?;
    let asked: BTreeSet<DeliveryId> = chunk.deliveries.iter().map(|one| one.delivery.id).collect();
    assert!(made.iter().all(|id| asked.contains(id)), "those that were made");
    Some(made.len())
}

async fn read(world: &World, replay: &Replay) -> Replay {
    world.store.replay(replay.account_id, replay.id).await.expect("the replay")
}

/// An event that went nowhere.
async fn unmatched(world: &World, ground: &Ground, second: u64) -> EventId {
    let event = event(&ground.account, at(second));
    let id = event.id;
    world.commit_event(event, &[]).await;
    id
}

async fn walked(
    world: &World,
    ground: &Ground,
    selection: BackfillSelection,
    limit: usize,
) -> BackfillEvents {
    let account_id = ground.account.id;
    let walk = BackfillWalk { account_id, selection, cursor: None, as_of: at(LATER), limit, payloads: false };
    world.store.backfill_events(&walk).await.expect("events")
}

fn ids(found: &BackfillEvents) -> Vec<EventId> {
    found.events.iter().map(|found| found.event.id).collect()
}

pub(crate) async fn a_backfill_reads_back_as_it_was_created(world: World) {
    let ground = world.ground().await;
    let filter = EventFilter {
        types: vec!["invoice.*".parse().expect("a pattern")],
        idempotency_keys: vec!["a key".into()],
        since: Some(at(1)),
        until: Some(at(2)),
        ..EventFilter::default()
    };
    let selection = BackfillSelection {
        event_id: Some(EventId::at(at(1), 1)),
        filter,
        destination_ids: vec![ground.destination.id],
    };
    let replay = begin(&world, &new(ground.account.id, selection.clone())).await;
    assert_eq!(read(&world, &replay).await, replay);
    assert_eq!((replay.filter.clone(), replay.status), (None, ReplayStatus::Running));
    assert_eq!(replay.events, Some(selection.clone()));
    let open = open(&world.store, replay.id).await.expect("it runs");
    let backfill = open.backfill.expect("it is a backfill");
    assert_eq!((backfill.selection, backfill.cursor, open.cursor), (selection, None, None));
}

pub(crate) async fn a_backfill_makes_what_events_never_had(world: World) {
    let ground = world.ground().await;
    let (one, two) = (unmatched(&world, &ground, 1).await, unmatched(&world, &ground, 2).await);
    let replay = of_all(&world, &ground).await;
    let open = held(&world, &replay).await;
    let now = at(LATER + 1);
    let made = [one, two].map(|event| late(event, &ground.destination, &ground.route, now));
    let mut last = chunk(world.node.id, &open, made.to_vec());
    (last.done, last.skipped) = (true, 1);
    assert_eq!(write(&world, &last).await, Some(2));
    let waiting: Vec<Delivery> = world.lane(ground.destination.id).await;
    assert_eq!(waiting.len(), 2);
    for delivery in &waiting {
        assert_eq!((delivery.replay_id, delivery.origin), (Some(replay.id), delivery.id));
        assert_eq!(
            (delivery.created_at, delivery.available_at),
            (delivery.id.made_at(), delivery.id.made_at())
        );
        assert_eq!(delivery.route_id, ground.route.id);
    }
    let told = read(&world, &replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 2, 1));
    assert_eq!((told.matched, told.matched_exact), (3, true));
    let of_it = DeliveryFilter { replay_ids: vec![replay.id], ..DeliveryFilter::default() };
    let listed = world.store.deliveries(ground.account.id, &of_it, first(10)).await.unwrap();
    assert_eq!(listed.rows.len(), 2, "they are found by their replay");
}

pub(crate) async fn what_was_had_is_not_made_again_whatever_became_of_it(world: World) {
    let ground = world.ground().await;
    let waits = world.delivery(&ground, at(1)).await;
    let delivered_one = world.delivery(&ground, at(2)).await;
    world.move_on(delivered(&delivered_one, at(2))).await;
    let dead = world.delivery(&ground, at(3)).await;
    world.move_on(rejected(&dead, at(3))).await;
    let never = unmatched(&world, &ground, 4).await;
    let events = [waits.event_id, delivered_one.event_id, dead.event_id, never];
    let pairs = events.map(|event| (event, ground.destination.id));
    assert_eq!(world.store.had(&pairs).await.unwrap(), [true, true, true, false]);
    let elsewhere = events.map(|event| (event, DestinationId::at(at(0), 1)));
    assert_eq!(world.store.had(&elsewhere).await.unwrap(), [false; 4]);

    let now = at(LATER + 1);
    let replay = of_all(&world, &ground).await;
    let made = events.map(|event| late(event, &ground.destination, &ground.route, now)).to_vec();
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &replay).await, made)).await, Some(1));

    // What a backfill made counts as had too, when it has ended as well.
    let late_one =
        world.lane(ground.destination.id).await.into_iter().find(|it| it.event_id == never).unwrap();
    world.move_on(rejected(&late_one, now)).await;
    let again = of_all(&world, &ground).await;
    let made = events.map(|event| late(event, &ground.destination, &ground.route, now)).to_vec();
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &again).await, made)).await, Some(0));
}

pub(crate) async fn an_event_that_expands_is_left_to_its_expansion(world: World) {
    let ground = world.ground().await;
    let mut large = world.matched(event(&ground.account, at(1)), Vec::new()).await;
    large.expands = true;
    assert_eq!(world.commit(&large).await, Committed::New);
    let found = walked(&world, &ground, BackfillSelection::default(), 10).await;
    assert!(found.events[0].expanding);
    let replay = of_all(&world, &ground).await;
    let made = vec![late(large.event.id, &ground.destination, &ground.route, at(LATER + 1))];
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &replay).await, made)).await, Some(0));
    assert!(world.lane(ground.destination.id).await.is_empty());
}

pub(crate) async fn what_a_backfill_made_is_part_of_the_fan_out(world: World) {
    let ground = world.ground().await;
    let first_one = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&first_one, at(1))).await;
    let other = world.destination(&ground.account).await;
    let route = world.route(&other).await;
    let replay = of_all(&world, &ground).await;
    let made = vec![late(first_one.event_id, &other, &route, at(LATER + 1))];
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &replay).await, made)).await, Some(1));
    let fanout = async || world.store.event(ground.account.id, first_one.event_id).await.unwrap().fanout;
    let now = fanout().await;
    assert_eq!((now.total, now.delivered, now.waiting, now.completed_at), (2, 1, 1, None));
    let incomplete = EventFilter { fanout_complete: Some(false), ..EventFilter::default() };
    let listed = world.store.events(ground.account.id, &incomplete, first(10)).await.unwrap();
    assert_eq!(listed.rows.len(), 1);
    assert_eq!(listed.rows[0].fanout.total, 2);
    let late_one = world.lane(other.id).await.remove(0);
    world.move_on(rejected(&late_one, at(LATER + 2))).await;
    let now = fanout().await;
    assert_eq!((now.total, now.delivered, now.dead_letter, now.waiting), (2, 1, 1, 0));
    assert!(now.completed_at.is_some());
}

pub(crate) async fn what_came_after_a_backfill_is_not_taken(world: World) {
    let ground = world.ground().await;
    let before = unmatched(&world, &ground, LATER).await;
    unmatched(&world, &ground, LATER + 1).await;
    assert_eq!(ids(&walked(&world, &ground, BackfillSelection::default(), 10).await), [before]);
}

pub(crate) async fn events_of_a_backfill_are_filtered_and_come_oldest_first(world: World) {
    let (ground, stranger) = (world.ground().await, world.ground().await);
    unmatched(&world, &stranger, 1).await;
    let mut all = Vec::new();
    for second in 1..=6 {
        all.push(unmatched(&world, &ground, second).await);
    }
    let whole = walked(&world, &ground, BackfillSelection::default(), 10).await;
    assert_eq!((ids(&whole), whole.next), (all.clone(), None));
    let page = walked(&world, &ground, BackfillSelection::default(), 4).await;
    assert_eq!((ids(&page), page.next), (all[..4].to_vec(), Some(all[3])));
    let (account_id, as_of) = (ground.account.id, at(LATER));
    let behind = async |cursor| {
        let selection = BackfillSelection::default();
        let walk =
            BackfillWalk { account_id, selection, cursor: Some(cursor), as_of, limit: 10, payloads: false };
        ids(&world.store.backfill_events(&walk).await.unwrap())
    };
    let cursor = BackfillCursor { event_id: all[3], destination_id: None };
    assert_eq!(behind(cursor).await, all[4..]);
    let middle = BackfillCursor { destination_id: Some(ground.destination.id), ..cursor };
    assert_eq!(behind(middle).await, all[3..], "an event that is not done is gone on with");

    let filtered = async |filter| {
        ids(&walked(&world, &ground, BackfillSelection { filter, ..BackfillSelection::default() }, 10).await)
    };
    let times = EventFilter { since: Some(at(2)), until: Some(at(4)), ..EventFilter::default() };
    assert_eq!(filtered(times).await, all[1..3]);
    let types = |pattern: &str| EventFilter {
        types: vec![pattern.parse().expect("a pattern")],
        ..EventFilter::default()
    };
    assert_eq!(filtered(types("nothing.like.it")).await, []);
    assert_eq!(filtered(types("*")).await, all);
    let tagged = Event { tags: vec!["a".into(), "b".into()], ..event(&ground.account, at(7)) };
    let tagged_id = tagged.id;
    world.commit_event(tagged, &[&ground.route]).await;
    let tags = EventFilter { tags: vec!["b".into()], ..EventFilter::default() };
    assert_eq!(filtered(tags).await, [tagged_id]);
    let unmatched = EventFilter { unmatched: true, ..EventFilter::default() };
    assert_eq!(filtered(unmatched).await, all, "the last one went somewhere");
    let one = BackfillSelection { event_id: Some(all[2]), ..BackfillSelection::default() };
    let found = walked(&world, &ground, one, 10).await;
    assert_eq!((ids(&found), found.next), (vec![all[2]], None));
}

pub(crate) async fn events_of_a_backfill_bring_their_payloads_if_asked(world: World) {
    let ground = world.ground().await;
    let of_size = |size: usize, second| Event {
        payload: vec![b'x'; size].into(),
        tags: vec!["kept".into()],
        ..event(&ground.account, at(second))
    };
    let all = [of_size(limits::CARRIED_BYTES, 1), of_size(limits::CARRIED_BYTES + 1, 2), of_size(10, 3)];
    for event in &all {
        world.commit_event(event.clone(), &[]).await;
    }
    world.outside.alter_payload(all[2].id).await;
    let read = async |payloads| {
        let (account_id, selection) = (ground.account.id, BackfillSelection::default());
        let walk =
            BackfillWalk { account_id, selection, cursor: None, as_of: at(LATER), limit: 10, payloads };
        world.store.backfill_events(&walk).await.expect("events").events
    };
    let without = |event: &Event| Event { payload: Default::default(), ..event.clone() };
    let asked = read(true).await;
    assert_eq!(asked.iter().map(|it| it.has_payload).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(*asked[0].event, all[0]);
    for (found, event) in asked[1..].iter().zip(&all[1..]) {
        assert_eq!(*found.event, without(event), "too large to travel, or not what was accepted");
    }
    for (found, event) in read(false).await.iter().zip(&all) {
        assert_eq!((&*found.event, found.has_payload), (&without(event), false));
        assert_eq!(found.payload_bytes as usize, event.payload.len());
    }
}

pub(crate) async fn a_look_over_events_that_are_not_wanted_moves_on(world: World) {
    let ground = world.ground().await;
    let mut all = Vec::new();
    for n in 0..limits::PAGE_SCAN as u64 + 2 {
        let event = event(&ground.account, at(1).plus(Duration::from_millis(n)));
        all.push(world.matched(event, Vec::new()).await);
    }
    for batch in all.chunks(500) {
        world.store.commit(batch, at(60)).await.expect("a commit");
    }
    let nothing =
        EventFilter { types: vec!["nothing.like.it".parse().expect("a pattern")], ..EventFilter::default() };
    let look = async |behind: Option<EventId>| {
        let filter = nothing.clone();
        let walk = BackfillWalk {
            account_id: ground.account.id,
            selection: BackfillSelection { filter, ..BackfillSelection::default() },
            cursor: behind.and_then(done_with),
            as_of: at(LATER),
            limit: 10,
            payloads: false,
        };
        let found = world.store.backfill_events(&walk).await.expect("events");
        assert!(found.events.is_empty());
        found.next
    };
    let last_looked_at = all[limits::PAGE_SCAN - 1].event.id;
    assert_eq!(look(None).await, Some(last_looked_at));
    assert_eq!(look(Some(last_looked_at)).await, None);
    assert_eq!(look(Some(all[1].event.id)).await, None, "as many as one look takes, and none behind");
}

pub(crate) async fn a_repeated_chunk_of_a_backfill_writes_nothing(world: World) {
    let ground = world.ground().await;
    let event = unmatched(&world, &ground, 1).await;
    let replay = of_all(&world, &ground).await;
    let open = held(&world, &replay).await;
    let once =
        chunk(world.node.id, &open, vec![late(event, &ground.destination, &ground.route, at(LATER + 1))]);
    assert_eq!(write(&world, &once).await, Some(1));
    assert_eq!(write(&world, &once).await, None);
    assert_eq!(world.lane(ground.destination.id).await.len(), 1);
    assert_eq!(read(&world, &replay).await.created, 1);
}

pub(crate) async fn the_end_of_a_backfill_is_noted_with_its_last_chunk(world: World) {
    let ground = world.ground().await;
    let events = [unmatched(&world, &ground, 1).await, unmatched(&world, &ground, 2).await];
    world.is_told(&ground).await;
    let replay = of_all(&world, &ground).await;
    for (place, event) in events.into_iter().enumerate() {
        assert_eq!(world.untold().await, [], "there is more to come");
        let open = open(&world.store, replay.id).await.expect("it runs");
        let open = if place == 0 { held(&world, &replay).await } else { open };
        let made = vec![late(event, &ground.destination, &ground.route, at(LATER + 1))];
        let next = BackfillChunk { done: place == 1, ..chunk(world.node.id, &open, made) };
        assert_eq!(write(&world, &next).await, Some(1));
        assert_eq!(write(&world, &next).await, None, "once");
    }
    let notes: Vec<_> = world.untold().await.into_iter().map(|untold| untold.note).collect();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].kind, OperationalKind::ReplayCompleted);
    assert_eq!(notes[0].data["replay_id"], serde_json::json!(replay.id));
}

pub(crate) async fn a_chunk_may_end_in_the_middle_of_an_event(world: World) {
    let ground = world.ground().await;
    let other = world.destination(&ground.account).await;
    let route = world.route(&other).await;
    let event = unmatched(&world, &ground, 1).await;
    let replay = of_all(&world, &ground).await;
    let mut open = held(&world, &replay).await;
    let mut half =
        chunk(world.node.id, &open, vec![late(event, &ground.destination, &ground.route, at(LATER + 1))]);
    half.to = Some(BackfillCursor { event_id: event, destination_id: Some(ground.destination.id) });
    assert_eq!(write(&world, &half).await, Some(1));
    let stands = self::open(&world.store, replay.id).await.unwrap().backfill.unwrap().cursor;
    assert_eq!(stands, half.to);
    let stale = chunk(world.node.id, &open, vec![late(event, &other, &route, at(LATER + 1))]);
    assert_eq!(write(&world, &stale).await, None);
    open.backfill.as_mut().unwrap().cursor = half.to;
    let rest = chunk(world.node.id, &open, vec![late(event, &other, &route, at(LATER + 1))]);
    assert_eq!(write(&world, &rest).await, Some(1));
}

pub(crate) async fn only_who_holds_a_backfill_writes_its_deliveries(world: World) {
    let ground = world.ground().await;
    let event = unmatched(&world, &ground, 1).await;
    let replay = of_all(&world, &ground).await;
    let open = held(&world, &replay).await;
    let made = || vec![late(event, &ground.destination, &ground.route, at(LATER + 1))];
    let stranger = NodeId::at(at(5), chance());
    assert_eq!(write(&world, &chunk(stranger, &open, made())).await, None);
    assert!(world.lane(ground.destination.id).await.is_empty());
    assert_eq!(write(&world, &chunk(world.node.id, &open, made())).await, Some(1));
}

pub(crate) async fn of_many_backfills_at_once_each_delivery_is_made_once(world: World) {
    let ground = world.ground().await;
    let mut events = Vec::new();
    for second in 1..=20 {
        events.push(unmatched(&world, &ground, second).await);
    }
    let mut writers = Vec::new();
    for _ in 0..8 {
        let replay = of_all(&world, &ground).await;
        let open = held(&world, &replay).await;
        let made = events.iter().map(|event| late(*event, &ground.destination, &ground.route, at(LATER + 1)));
        let (chunk, store) = (chunk(world.node.id, &open, made.collect()), world.store.clone());
        writers.push(tokio::spawn(async move { store.write_backfill(&chunk).await.expect("a chunk") }));
    }
    let mut made = 0;
    for writer in writers {
        made += writer.await.expect("no panic").expect("each is its own").len();
    }
    assert_eq!(made, 20);
    let waiting = world.lane(ground.destination.id).await;
    let distinct: BTreeSet<_> = waiting.iter().map(|delivery| delivery.event_id).collect();
    assert_eq!((waiting.len(), distinct.len()), (20, 20));
}

pub(crate) async fn a_backfill_is_paused_resumed_and_cancelled(world: World) {
    let ground = world.ground().await;
    let event = unmatched(&world, &ground, 1).await;
    let replay = of_all(&world, &ground).await;
    let open = held(&world, &replay).await;
    let made = || vec![late(event, &ground.destination, &ground.route, at(LATER + 1))];
    let switch = async |to| {
        let (account, entry) = (ground.account.id, audit_entry());
        world.store.switch_replay(account, replay.id, to, at(LATER), &entry).await.unwrap().status
    };
    assert_eq!(switch(ReplaySwitch::Pause).await, ReplayStatus::Paused);
    assert_eq!(write(&world, &chunk(world.node.id, &open, made())).await, None);
    assert!(self::open(&world.store, replay.id).await.is_none());
    assert_eq!(read(&world, &replay).await.status, ReplayStatus::Paused);
    assert_eq!(switch(ReplaySwitch::Resume).await, ReplayStatus::Running);
    assert_eq!(write(&world, &chunk(world.node.id, &open, made())).await, Some(1));
    assert_eq!(switch(ReplaySwitch::Cancel).await, ReplayStatus::Cancelled);
    assert!(read(&world, &replay).await.finished_at.is_some());
    assert_eq!(switch(ReplaySwitch::Resume).await, ReplayStatus::Cancelled);
}

pub(crate) async fn what_is_backfilled_to_an_ordered_destination_takes_the_next_numbers(world: World) {
    let ground = world.ground().await;
    let mut ordered = crate::fixtures::destination(&ground.account);
    ordered.ordering = Ordering::Strict;
    let ordered = world.store.create_destination(&ordered, &audit_entry()).await.unwrap();
    assert_ne!(ordered.numbering(), Numbering::None);
    let route = world.route(&ordered).await;
    let mut events = Vec::new();
    for second in 1..=3 {
        events.push(unmatched(&world, &ground, second).await);
    }
    let replay = of_all(&world, &ground).await;
    let made = events.iter().map(|event| late(*event, &ordered, &route, at(LATER + 1))).collect();
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &replay).await, made)).await, Some(3));
    let waiting = world.lane(ordered.id).await;
    let numbers: Vec<_> = waiting.iter().map(|it| (it.event_id, it.sequence, it.position.rank)).collect();
    let expected: Vec<_> = events.iter().zip(1..).map(|(event, n)| (*event, Some(n), n)).collect();
    assert_eq!(numbers, expected);
}

pub(crate) async fn what_is_scheduled_for_later_waits_for_its_time(world: World) {
    let ground = world.ground().await;
    let scheduled = Event { deliver_at: Some(at(500)), ..event(&ground.account, at(1)) };
    let id = scheduled.id;
    world.commit_event(scheduled.clone(), &[]).await;
    let replay = of_all(&world, &ground).await;
    let (now, numbering) = (at(LATER + 1), ground.destination.numbering());
    let delivery =
        NewDelivery::of_route(&scheduled, &ground.route, numbering, DeliveryId::at(now, chance()), now);
    let made = vec![Backfilled { event_id: id, delivery }];
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &replay).await, made)).await, Some(1));
    let waiting = world.lane(ground.destination.id).await.remove(0);
    assert_eq!((waiting.due_at, waiting.available_at), (at(500), at(500)));
}

pub(crate) async fn a_backfill_counts_what_became_of_its_deliveries(world: World) {
    let ground = world.ground().await;
    let events = [unmatched(&world, &ground, 1).await, unmatched(&world, &ground, 2).await];
    let replay = of_all(&world, &ground).await;
    let made = events.map(|event| late(event, &ground.destination, &ground.route, at(LATER + 1))).to_vec();
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &replay).await, made)).await, Some(2));
    let waiting = world.lane(ground.destination.id).await;
    world.move_on(delivered(&waiting[0], at(LATER + 2))).await;
    world.move_on(rejected(&waiting[1], at(LATER + 2))).await;
    let told = read(&world, &replay).await;
    assert_eq!((told.delivered, told.dead_letter), (1, 1));
    let dead = DeliveryFilter { statuses: vec![Status::DeadLetter], ..DeliveryFilter::default() };
    let dead = world.store.deliveries(ground.account.id, &dead, first(10)).await.unwrap().rows.remove(0);
    assert_eq!((dead.replay_id, dead.origin), (Some(replay.id), dead.id));
}

pub(crate) async fn an_event_that_is_gone_has_no_backfill(world: World) {
    let ground = world.ground().await;
    let replay = of_all(&world, &ground).await;
    let gone = EventId::at(at(1), chance());
    let made = vec![late(gone, &ground.destination, &ground.route, at(LATER + 1))];
    assert_eq!(write(&world, &chunk(world.node.id, &held(&world, &replay).await, made)).await, Some(0));
    assert!(world.lane(ground.destination.id).await.is_empty());
}
