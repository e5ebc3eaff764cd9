//! Replays: each original once, whoever works on them and whatever happens in between.

use crate::fixtures::{
    Ground, World, at, chance, delivered, destination, ended_without, event, first, is_not_found, promise,
    promise_in, rejected, retried,
};
use domain::{
    account::Account,
    delivery::{Delivery, Ending, Position, Status},
    destination::{Destination, Numbering, Ordering},
    event::Event,
    id::{ApiKeyId, AttemptId, DeliveryId, EventId, NodeId, ReplayId},
    limits,
    operations::OperationalKind,
    outcome::DeadReason,
    testing::audit_entry,
    time::Timestamp,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store::{
    Chore, CreatedReplay, DeliveryFilter, DeliveryState, EventWalk, NewDelivery, NewReplay, OpenReplay,
    Original, OriginalWalk, Replay, ReplayChunk, ReplayHold, ReplayKey, ReplayStatus, ReplaySwitch, Replayed,
    Selection, Store, StoreError,
};

pub(crate) fn dead() -> DeliveryFilter {
    DeliveryFilter { statuses: vec![Status::DeadLetter], ..DeliveryFilter::default() }
}

pub(crate) fn new(account: &Account, selection: Selection, created_at: Timestamp) -> NewReplay {
    NewReplay {
        id: ReplayId::at(created_at, chance()),
        account_id: account.id,
        selection,
        rate: 30,
        matched: 0,
        matched_exact: true,
        created_by: ApiKeyId::at(at(0), 7).into(),
        created_at,
        key: None,
        at_once: None,
    }
}

fn key(name: u8, body: u8) -> ReplayKey {
    ReplayKey { hash: [name; 32], body_hash: [body; 32] }
}

pub(crate) async fn begin(world: &World, new: &NewReplay) -> Replay {
    match world.store.create_replay(new, &audit_entry()).await.expect("a replay") {
        CreatedReplay::New(replay) => replay,
        CreatedReplay::Known { .. } => panic!("it is new"),
    }
}

/// Of all that is dead at `now`.
pub(crate) async fn of_the_dead(world: &World, ground: &Ground, now: Timestamp) -> Replay {
    begin(world, &new(&ground.account, Selection::Filter(dead()), now)).await
}

pub(crate) async fn dead_letter(world: &World, ground: &Ground, received_at: Timestamp) -> Delivery {
    let delivery = world.delivery(ground, received_at).await;
    world.move_on(rejected(&delivery, received_at)).await;
    delivery
}

pub(crate) async fn dead_letters(world: &World, ground: &Ground, count: u64) -> Vec<DeliveryId> {
    let mut ids = Vec::new();
    for second in 1..=count {
        ids.push(dead_letter(world, ground, at(second)).await.id);
    }
    ids
}

async fn open(store: &Arc<dyn Store>, id: ReplayId) -> Option<OpenReplay> {
    let open = store.open_replays(100).await.expect("open replays");
    open.into_iter().find(|open| open.id == id)
}

async fn hold(
    store: &Arc<dyn Store>,
    node: NodeId,
    seen: &OpenReplay,
    until: Timestamp,
) -> Option<OpenReplay> {
    let (seen_by, seen_until) = (seen.held_by, seen.held_until);
    let hold = ReplayHold { id: seen.id, node, until, seen_by, seen_until };
    store.hold_replay(&hold).await.expect("a hold")
}

/// Held by the world's own node.
async fn held(world: &World, replay: &Replay) -> OpenReplay {
    let seen = open(&world.store, replay.id).await.expect("it runs");
    hold(&world.store, world.node.id, &seen, at(1_000)).await.expect("nobody else holds it")
}

fn again(original: &Original, now: Timestamp) -> Replayed {
    let id = DeliveryId::at(now, chance());
    let numbering = original.numbering.expect("its destination is there");
    let (position, sequenced) = Position::new(numbering, original.ordering_key.as_deref(), now, now, id);
    let delivery = NewDelivery {
        id,
        route_id: original.route_id,
        destination_id: original.destination_id,
        shard: original.destination_id.shard(),
        position,
        due_at: now,
        sequenced,
    };
    Replayed { origin: original.origin, event_id: original.event_id, delivery }
}

async fn chunk(store: &Arc<dyn Store>, node: NodeId, open: &OpenReplay, limit: usize) -> ReplayChunk {
    let now = at(500);
    let walk = OriginalWalk { replay: open.clone(), limit };
    let originals = store.originals(&walk).await.expect("originals");
    assert!(originals.rows.len() <= limit);
    ReplayChunk {
        replay_id: open.id,
        node,
        from: open.cursor,
        to: originals.next.or(originals.rows.last().map(|row| row.id)).or(open.cursor),
        deliveries: originals.rows.iter().map(|original| again(original, now)).collect(),
        skipped: originals.missing,
        done: originals.next.is_none(),
        now,
        until: at(1_000),
    }
}

/// Works on it to its end, and gives the origins of what was made, in that order.
pub(crate) async fn finish(world: &World, replay: &Replay, limit: usize) -> Vec<DeliveryId> {
    let (mut open, mut made) = (held(world, replay).await, Vec::new());
    loop {
        let chunk = chunk(&world.store, world.node.id, &open, limit).await;
        let count = world.store.write_replay(&chunk).await.expect("a chunk").expect("it is ours");
        assert!(count as usize <= chunk.deliveries.len());
        made.extend(chunk.deliveries.iter().map(|one| one.origin));
        if chunk.done {
            return made;
        }
        open.cursor = chunk.to;
    }
}

async fn read(world: &World, replay: &Replay) -> Replay {
    world.store.replay(replay.account_id, replay.id).await.expect("the replay")
}

pub(crate) async fn lane(world: &World, ground: &Ground) -> Vec<Delivery> {
    world.lane(ground.destination.id).await
}

pub(crate) async fn a_replay_reads_back_as_it_was_created(world: World) {
    let ground = world.ground().await;
    let filter = DeliveryFilter {
        reasons: vec!["exhausted".into()],
        destination_ids: vec![ground.destination.id],
        types: vec!["invoice.*".parse().expect("a pattern")],
        http_statuses: vec![503],
        since: Some(at(1)),
        until: Some(at(9)),
        ..dead()
    };
    let by_filter =
        NewReplay { matched: 7, ..new(&ground.account, Selection::Filter(filter.clone()), at(10)) };
    let expected = Replay {
        events: None,
        id: by_filter.id,
        account_id: ground.account.id,
        filter: Some(filter),
        resolved: None,
        rate: 30,
        matched: 7,
        matched_exact: true,
        created: 0,
        skipped: 0,
        delivered: 0,
        dead_letter: 0,
        status: ReplayStatus::Running,
        created_by: by_filter.created_by,
        created_at: at(10),
        finished_at: None,
    };
    assert_eq!(begin(&world, &by_filter).await, expected);
    assert_eq!(read(&world, &expected).await, expected);
    let ids = Selection::Deliveries(vec![DeliveryId::at(at(1), 1)].into());
    let by_ids = begin(&world, &new(&ground.account, ids, at(11))).await;
    assert_eq!(by_ids.filter, None);

    let listed = world.store.replays(ground.account.id, first(10)).await.unwrap().rows;
    assert_eq!(listed, [by_ids.clone(), expected.clone()]);
    assert_eq!(world.store.replays(ground.account.id, first(1)).await.unwrap().rows, [by_ids]);
    let stranger = world.account().await.id;
    assert!(world.store.replays(stranger, first(10)).await.unwrap().rows.is_empty());
    is_not_found(world.store.replay(stranger, expected.id).await, "replay");
    is_not_found(
        world.store.switch_replay(stranger, expected.id, ReplaySwitch::Cancel, at(20), &audit_entry()).await,
        "replay",
    );
    is_not_found(world.store.replayed(stranger, expected.id, DeliveryId::MIN).await, "replay");
    assert_eq!(read(&world, &expected).await.status, ReplayStatus::Running);
}

pub(crate) async fn a_key_that_was_used_names_its_first_replay(world: World) {
    let ground = world.ground().await;
    let keyed = |body| NewReplay {
        key: Some(key(1, body)),
        ..new(&ground.account, Selection::Filter(dead()), at(10))
    };
    let replay = begin(&world, &keyed(1)).await;
    for body in [1, 2] {
        let known = world.store.create_replay(&keyed(body), &audit_entry()).await.unwrap();
        assert_eq!(known, CreatedReplay::Known { replay: replay.clone(), body_hash: [1; 32] });
    }
    let other = world.account().await;
    begin(&world, &NewReplay { account_id: other.id, ..keyed(1) }).await;
    assert_eq!(world.store.replays(ground.account.id, first(10)).await.unwrap().rows.len(), 1);
}

pub(crate) async fn of_many_replays_at_once_with_one_key_one_is_made(world: World) {
    let ground = world.ground().await;
    let tries: Vec<_> = (0..8)
        .map(|_| {
            let (store, account) = (world.store.clone(), ground.account.clone());
            let new = NewReplay { key: Some(key(1, 1)), ..new(&account, Selection::Filter(dead()), at(10)) };
            tokio::spawn(async move { store.create_replay(&new, &audit_entry()).await.expect("an answer") })
        })
        .collect();
    let (mut made, mut ids) = (0, BTreeSet::new());
    for one in tries {
        match one.await.expect("a task") {
            CreatedReplay::New(replay) => {
                made += 1;
                ids.insert(replay.id);
            }
            CreatedReplay::Known { replay, .. } => {
                ids.insert(replay.id);
            }
        }
    }
    assert_eq!((made, ids.len()), (1, 1));
}

pub(crate) async fn an_account_has_so_many_replays_that_have_not_ended(world: World) {
    let ground = world.ground().await;
    let mut last = None;
    for _ in 0..limits::REPLAYS_PER_ACCOUNT {
        last = Some(of_the_dead(&world, &ground, at(10)).await);
    }
    let more = new(&ground.account, Selection::Filter(dead()), at(10));
    let refused = world.store.create_replay(&more, &audit_entry()).await;
    assert!(matches!(refused, Err(StoreError::Full { what: "replays" })), "{refused:?}");
    is_not_found(world.store.replay(ground.account.id, more.id).await, "replay");
    let last = last.expect("made above");
    world
        .store
        .switch_replay(ground.account.id, last.id, ReplaySwitch::Cancel, at(11), &audit_entry())
        .await
        .unwrap();
    begin(&world, &more).await;
}

pub(crate) async fn a_replay_makes_new_deliveries_of_what_is_dead(world: World) {
    let ground = world.ground().await;
    let ids = dead_letters(&world, &ground, 3).await;
    let good = world.delivery(&ground, at(4)).await;
    world.move_on(delivered(&good, at(4))).await;
    let waits = world.delivery(&ground, at(5)).await;
    let before: Vec<_> = world.deliveries(&ground.account, &dead(), 10).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    assert_eq!(finish(&world, &replay, 10).await, ids, "oldest first");

    let lane = lane(&world, &ground).await;
    let made: Vec<_> = lane.iter().filter(|delivery| delivery.id != waits.id).collect();
    assert_eq!(made.iter().map(|made| made.origin).collect::<BTreeSet<_>>(), ids.iter().copied().collect());
    for made in &made {
        let of = before.iter().find(|record| record.id == made.origin).expect("its origin");
        assert_eq!((made.event_id, made.route_id), (of.event_id, of.route_id));
        assert_eq!((made.account_id, made.replay_id), (ground.account.id, Some(replay.id)));
        assert_eq!((made.attempts, made.spent, made.payload_bytes), (0, 0, 14));
        assert_eq!((made.due_at, made.available_at, made.created_at), (at(500), at(500), at(500)));
        let told = world.store.replayed(ground.account.id, replay.id, made.origin).await.unwrap();
        assert_eq!(told, Some(made.id));
    }
    let told = read(&world, &replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 3, 0));
    assert_eq!((told.matched, told.matched_exact, told.finished_at), (3, true, Some(at(500))));
    assert_eq!(open(&world.store, replay.id).await, None);
    let after: Vec<_> = world.deliveries(&ground.account, &dead(), 10).await;
    assert_eq!(after, before, "what has ended stays as it is");
}

pub(crate) async fn what_came_or_ended_later_is_not_replayed(world: World) {
    let ground = world.ground().await;
    let dead_before = dead_letter(&world, &ground, at(1)).await.id;
    let waits = world.delivery(&ground, at(2)).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    world.move_on(rejected(&waits, at(20))).await;
    dead_letter(&world, &ground, at(11)).await;
    let survey = async |as_of| world.store.survey(ground.account.id, &ALL, as_of, 100).await;
    assert_eq!(survey(at(10)).await.unwrap().matched, 1);
    assert_eq!(survey(at(30)).await.unwrap().matched, 3);
    assert_eq!(finish(&world, &replay, 10).await, [dead_before]);
    // What it has made itself is dead as well, and no reason to begin again.
    let made = lane(&world, &ground).await.remove(0);
    world.move_on(rejected(&made, at(21))).await;
    let again = of_the_dead(&world, &ground, at(600)).await;
    assert_eq!(finish(&world, &again, 10).await.len(), 4);
    let told = read(&world, &again).await;
    assert_eq!((told.created, told.skipped), (3, 1), "of one origin there is one");
}

static ALL: Selection = Selection::Filter(DeliveryFilter {
    statuses: Vec::new(),
    reasons: Vec::new(),
    event_ids: Vec::new(),
    destination_ids: Vec::new(),
    route_ids: Vec::new(),
    source_ids: Vec::new(),
    types: Vec::new(),
    http_statuses: Vec::new(),
    replay_ids: Vec::new(),
    since: None,
    until: None,
    resolved: None,
});

pub(crate) async fn originals_are_filtered(world: World) {
    let ground = world.ground().await;
    let source = world.source(&ground.account).await;
    let other = world.destination(&ground.account).await;
    let other_route = world.route(&other).await;
    let published = dead_letter(&world, &ground, at(1)).await;
    let from_source = Event {
        source_id: Some(source.id),
        event_type: "order.created".parse().expect("a type"),
        ..event(&ground.account, at(2))
    };
    let there = world.commit_event(from_source, &[&other_route]).await.remove(0);
    world.move_on(ended_without(&there, at(3), Ending::DeadLetter(DeadReason::Expired))).await;
    let good = world.delivery(&ground, at(4)).await;
    world.move_on(delivered(&good, at(4))).await;
    let stranger = world.ground().await;
    dead_letter(&world, &stranger, at(5)).await;

    let any = DeliveryFilter::default;
    let pattern = |text: &str| vec![text.parse().expect("a pattern")];
    let cases: Vec<(DeliveryFilter, Vec<DeliveryId>)> = vec![
        (any(), vec![published.id, there.id, good.id]),
        (dead(), vec![published.id, there.id]),
        (DeliveryFilter { statuses: vec![Status::Delivered], ..any() }, vec![good.id]),
        (
            DeliveryFilter { statuses: vec![Status::Delivered, Status::DeadLetter], ..any() },
            vec![published.id, there.id, good.id],
        ),
        (DeliveryFilter { reasons: vec!["expired".into()], ..dead() }, vec![there.id]),
        (DeliveryFilter { event_ids: vec![good.event_id], ..any() }, vec![good.id]),
        (DeliveryFilter { event_ids: vec![good.event_id, there.event_id], ..any() }, vec![there.id, good.id]),
        (DeliveryFilter { destination_ids: vec![other.id], ..any() }, vec![there.id]),
        (DeliveryFilter { destination_ids: vec![other.id], ..dead() }, vec![there.id]),
        (
            DeliveryFilter { destination_ids: vec![other.id, ground.destination.id], ..dead() },
            vec![published.id, there.id],
        ),
        (DeliveryFilter { destination_ids: vec![stranger.destination.id], ..any() }, vec![]),
        (DeliveryFilter { route_ids: vec![other_route.id], ..any() }, vec![there.id]),
        (DeliveryFilter { source_ids: vec![source.id], ..any() }, vec![there.id]),
        (DeliveryFilter { types: pattern("order.*"), ..any() }, vec![there.id]),
        (DeliveryFilter { http_statuses: vec![404], ..any() }, vec![published.id]),
        (DeliveryFilter { replay_ids: vec![ReplayId::at(at(0), 1)], ..any() }, vec![]),
        (DeliveryFilter { since: Some(at(2)), ..any() }, vec![there.id, good.id]),
        (DeliveryFilter { until: Some(at(2)), ..any() }, vec![published.id]),
    ];
    for (filter, expected) in cases {
        let selection = Selection::Filter(filter.clone());
        let survey = world.store.survey(ground.account.id, &selection, at(10), 100).await.unwrap();
        assert_eq!((survey.matched, survey.exact), (expected.len() as u64, true), "{filter:?}");
        let replay = begin(&world, &new(&ground.account, selection, at(10))).await;
        let open = held(&world, &replay).await;
        for limit in [1, 10] {
            let (mut found, mut walk) = (Vec::new(), OriginalWalk { replay: open.clone(), limit });
            loop {
                let page = world.store.originals(&walk).await.unwrap();
                found.extend(page.rows.iter().map(|row| row.id));
                let Some(next) = page.next else { break };
                walk.replay.cursor = Some(next);
            }
            assert_eq!(found, expected, "{filter:?}, {limit} at a time");
        }
        world
            .store
            .switch_replay(ground.account.id, replay.id, ReplaySwitch::Cancel, at(11), &audit_entry())
            .await
            .unwrap();
    }
}

pub(crate) async fn a_survey_counts_by_destination_and_says_whether_that_is_all(world: World) {
    let ground = world.ground().await;
    let other = world.destination(&ground.account).await;
    let there = Ground { route: world.route(&other).await, destination: other, account: ground.account };
    let ground = Ground { account: there.account.clone(), ..ground };
    let mut ids = dead_letters(&world, &ground, 3).await;
    ids.extend(dead_letters(&world, &there, 2).await);
    let waits = world.delivery(&ground, at(9)).await.id;
    let mut expected = vec![(ground.destination.id, 3), (there.destination.id, 2)];
    expected.sort();
    let survey = |selection, limit| {
        let (store, account) = (world.store.clone(), ground.account.id);
        async move { store.survey(account, &selection, at(20), limit).await.expect("a survey") }
    };
    let all = survey(Selection::Filter(dead()), 5).await;
    assert_eq!((all.matched, all.exact, all.unknown), (5, true, vec![]));
    assert_eq!(all.by_destination, expected);
    let some = survey(Selection::Filter(dead()), 4).await;
    assert_eq!((some.matched, some.exact), (4, false));
    let none = survey(Selection::Filter(DeliveryFilter { http_statuses: vec![500], ..dead() }), 10).await;
    assert_eq!((none.matched, none.exact, none.by_destination.len()), (0, true, 0));
    ids.push(waits);
    ids.sort();
    let given = survey(Selection::Deliveries(ids.clone().into()), 1).await;
    assert_eq!((given.matched, given.exact, given.unknown), (6, true, vec![]));
    let unknown = [DeliveryId::MIN, DeliveryId::at(at(9), chance())];
    ids.extend(unknown);
    ids.sort();
    assert_eq!(survey(Selection::Deliveries(ids.clone().into()), 10).await.unknown, unknown);
    let stranger = world.account().await.id;
    let foreign =
        world.store.survey(stranger, &Selection::Deliveries(ids.clone().into()), at(20), 10).await.unwrap();
    assert_eq!((foreign.matched, foreign.unknown), (0, ids));
}

pub(crate) async fn ids_that_were_given_are_replayed_if_they_have_ended(world: World) {
    let ground = world.ground().await;
    let mut ids = dead_letters(&world, &ground, 4).await;
    let good = world.delivery(&ground, at(5)).await;
    world.move_on(delivered(&good, at(5))).await;
    let waits = world.delivery(&ground, at(6)).await;
    let stranger = world.ground().await;
    let foreign = dead_letter(&world, &stranger, at(7)).await.id;
    let expected = [ids[0], ids[2], ids[3], good.id];
    ids.remove(1);
    ids.extend([good.id, waits.id, foreign]);
    ids.sort();
    let replay = begin(&world, &new(&ground.account, Selection::Deliveries(ids.into()), at(10))).await;
    assert_eq!(finish(&world, &replay, 2).await, expected);
    let told = read(&world, &replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 4, 2));
    assert!(world.lane(stranger.destination.id).await.is_empty());
}

pub(crate) async fn a_repeated_chunk_of_a_replay_writes_nothing(world: World) {
    let ground = world.ground().await;
    dead_letters(&world, &ground, 3).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    let open = held(&world, &replay).await;
    let one = chunk(&world.store, world.node.id, &open, 2).await;
    assert!(!one.done);
    assert_eq!(world.store.write_replay(&one).await.unwrap(), Some(2));
    for made in lane(&world, &ground).await {
        world.move_on(delivered(&made, at(501))).await;
    }
    assert_eq!(world.store.write_replay(&one).await.unwrap(), None, "its deliveries have ended");
    let afresh = chunk(&world.store, world.node.id, &open, 2).await;
    assert_eq!(world.store.write_replay(&afresh).await.unwrap(), None);
    assert!(lane(&world, &ground).await.is_empty());
    // Even if the cursor were forgotten: an origin is taken once.
    let cheat = ReplayChunk { from: one.to, to: one.to, done: false, ..afresh };
    assert_eq!(world.store.write_replay(&cheat).await.unwrap(), Some(0));
    assert!(lane(&world, &ground).await.is_empty());
    let told = read(&world, &replay).await;
    assert_eq!((told.created, told.skipped, told.delivered), (2, 2, 2));
}

pub(crate) async fn the_end_of_a_replay_is_noted_with_its_last_chunk(world: World) {
    let ground = world.ground().await;
    dead_letters(&world, &ground, 3).await;
    world.is_told(&ground).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    let open = held(&world, &replay).await;
    let first = chunk(&world.store, world.node.id, &open, 2).await;
    assert_eq!(world.store.write_replay(&first).await.unwrap(), Some(2));
    assert_eq!(world.untold().await, [], "there is more to come");
    finish(&world, &replay, 2).await;
    let notes: Vec<_> = world.untold().await.into_iter().map(|untold| untold.note).collect();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].kind, OperationalKind::ReplayCompleted);
    assert_eq!(notes[0].data["replay_id"], serde_json::json!(replay.id));
}

pub(crate) async fn only_who_holds_a_replay_writes_its_deliveries(world: World) {
    let ground = world.ground().await;
    dead_letters(&world, &ground, 2).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    let seen = open(&world.store, replay.id).await.expect("it runs");
    let (me, other) = (world.node.id, NodeId::at(at(0), chance()));
    assert!(seen.is_free_for(me, at(10)) && seen.is_free_for(other, at(10)));
    let nobodys = chunk(&world.store, me, &seen, 1).await;
    assert_eq!(world.store.write_replay(&nobodys).await.unwrap(), None);

    let mine = hold(&world.store, me, &seen, at(20)).await.expect("it is free");
    assert_eq!((mine.held_by, mine.held_until, mine.holder_lives), (Some(me), Some(at(20)), true));
    assert_eq!(hold(&world.store, other, &seen, at(20)).await, None, "it is held otherwise than it was seen");
    assert!(mine.is_free_for(me, at(15)) && !mine.is_free_for(other, at(15)));
    assert!(mine.is_free_for(other, at(20)), "its time is over");

    let written = ReplayChunk { until: at(40), ..chunk(&world.store, me, &mine, 1).await };
    assert_eq!(world.store.write_replay(&written).await.unwrap(), Some(1));
    let now = open(&world.store, replay.id).await.expect("it goes on");
    assert_eq!((now.cursor, now.held_until), (written.to, Some(at(40))), "who writes goes on holding it");
    assert_eq!(hold(&world.store, other, &mine, at(60)).await, None);

    let theirs = hold(&world.store, other, &now, at(60)).await.expect("as it was seen");
    assert!(!theirs.holder_lives && theirs.is_free_for(me, at(41)), "who has no row holds nothing");
    let late = chunk(&world.store, me, &now, 1).await;
    assert_eq!(world.store.write_replay(&late).await.unwrap(), None, "it was ours");
    let last = chunk(&world.store, other, &theirs, 10).await;
    assert_eq!(world.store.write_replay(&last).await.unwrap(), Some(1));
    assert_eq!(lane(&world, &ground).await.len(), 2);
}

pub(crate) async fn of_many_who_work_on_a_replay_at_once_each_origin_is_made_once(world: World) {
    let ground = world.ground().await;
    let ids = dead_letters(&world, &ground, 40).await;
    let replay = of_the_dead(&world, &ground, at(100)).await;
    let workers: Vec<_> = (0..4)
        .map(|n| {
            let (store, id) = (world.store.clone(), replay.id);
            // Two of them believe to be the same node.
            let node = NodeId::at(at(0), n / 2);
            tokio::spawn(async move {
                while let Some(seen) = open(&store, id).await {
                    let Some(mut mine) = hold(&store, node, &seen, at(1_000)).await else { continue };
                    for _ in 0..3 {
                        let chunk = chunk(&store, node, &mine, 2).await;
                        match store.write_replay(&chunk).await.expect("a chunk") {
                            Some(_) if !chunk.done => mine.cursor = chunk.to,
                            _ => break,
                        }
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("a worker");
    }
    let made = lane(&world, &ground).await;
    assert_eq!(made.len(), ids.len());
    assert_eq!(made.iter().map(|made| made.origin).collect::<BTreeSet<_>>(), ids.into_iter().collect());
    let told = read(&world, &replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 40, 0));
}

pub(crate) async fn a_replay_is_paused_resumed_and_cancelled(world: World) {
    let ground = world.ground().await;
    dead_letters(&world, &ground, 3).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    let mine = held(&world, &replay).await;
    let entry = audit_entry();
    let switch = |to, now| world.store.switch_replay(ground.account.id, replay.id, to, now, &entry);
    let next = chunk(&world.store, world.node.id, &mine, 1).await;
    for _ in 0..2 {
        assert_eq!(switch(ReplaySwitch::Pause, at(11)).await.unwrap().status, ReplayStatus::Paused);
    }
    assert_eq!(open(&world.store, replay.id).await, None);
    assert_eq!(world.store.write_replay(&next).await.unwrap(), None);
    assert_eq!(hold(&world.store, world.node.id, &mine, at(20)).await, None);
    assert!(lane(&world, &ground).await.is_empty());
    for _ in 0..2 {
        assert_eq!(switch(ReplaySwitch::Resume, at(12)).await.unwrap().status, ReplayStatus::Running);
    }
    assert_eq!(world.store.write_replay(&next).await.unwrap(), Some(1));
    let cancelled = switch(ReplaySwitch::Cancel, at(13)).await.unwrap();
    assert_eq!((cancelled.status, cancelled.finished_at), (ReplayStatus::Cancelled, Some(at(13))));
    for to in [ReplaySwitch::Pause, ReplaySwitch::Resume, ReplaySwitch::Cancel] {
        assert_eq!(switch(to, at(14)).await.unwrap(), cancelled, "what has ended stays as it is");
    }
    let mine = OpenReplay { cursor: next.to, ..mine };
    let more = chunk(&world.store, world.node.id, &mine, 1).await;
    assert_eq!(world.store.write_replay(&more).await.unwrap(), None);
    assert_eq!(lane(&world, &ground).await.len(), 1, "what was made stays");
}

pub(crate) async fn whoever_switches_a_replay_is_told_what_they_have_made_of_it(world: World) {
    let ground = world.ground().await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    for _ in 0..20 {
        let switches: Vec<_> = (0..8)
            .map(|n| {
                let (store, account, id) = (world.store.clone(), ground.account.id, replay.id);
                let to = if n % 2 == 0 { ReplaySwitch::Pause } else { ReplaySwitch::Resume };
                tokio::spawn(async move {
                    (to, store.switch_replay(account, id, to, at(11), &audit_entry()).await)
                })
            })
            .collect();
        for switch in switches {
            let (to, replay) = switch.await.expect("a task");
            assert_eq!(replay.unwrap().status, to.status());
        }
    }
}

pub(crate) async fn what_becomes_of_a_replays_deliveries_is_counted_once(world: World) {
    let ground = world.ground().await;
    dead_letters(&world, &ground, 4).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    finish(&world, &replay, 10).await;
    let counts = async || {
        let told = read(&world, &replay).await;
        (told.delivered, told.dead_letter)
    };
    let made = lane(&world, &ground).await;
    world.move_on(retried(&made[0], at(501), at(510))).await;
    assert_eq!(counts().await, (0, 0), "it goes on");
    let batch = [delivered(&made[1], at(502)), rejected(&made[2], at(502))];
    for _ in 0..2 {
        assert_eq!(world.settle(&batch, at(503)).await, [true, true]);
        assert_eq!(counts().await, (1, 1));
    }
    assert_eq!(world.settle(&[delivered(&made[1], at(504))], at(505)).await, [false], "a late word");
    let fact = AttemptId::at(at(506), chance());
    world
        .store
        .cancel(ground.account.id, made[3].id, fact, at(506), &audit_entry())
        .await
        .unwrap()
        .expect("it waited");
    assert_eq!(counts().await, (1, 1));
    let first = lane(&world, &ground).await.remove(0);
    world.move_on(ended_without(&first, at(600), Ending::DeadLetter(DeadReason::Expired))).await;
    assert_eq!(counts().await, (1, 2));
}

pub(crate) async fn what_is_replayed_to_an_ordered_destination_takes_the_next_numbers(world: World) {
    let account = world.account().await;
    let strict = Destination { ordering: Ordering::Strict, ..destination(&account) };
    let strict = world.store.create_destination(&strict, &audit_entry()).await.expect("a destination");
    let route = world.route(&strict).await;
    let mut ids = Vec::new();
    for second in 1..=3 {
        let promise = promise_in(&route, at(second), Position::STRICT);
        let made = world.commit_promises(event(&account, at(second)), vec![promise]).await.remove(0);
        world.move_on(rejected(&made, at(second))).await;
        ids.push(made.id);
    }
    let replay = begin(&world, &new(&account, Selection::Filter(dead()), at(10))).await;
    assert_eq!(finish(&world, &replay, 2).await, ids);
    let lane = world.lane(strict.id).await;
    let told: Vec<_> = lane.iter().map(|made| (made.sequence, made.origin, made.position.rank)).collect();
    assert_eq!(told, [(Some(4), ids[0], 4), (Some(5), ids[1], 5), (Some(6), ids[2], 6)]);
    assert!(lane.iter().all(|made| made.position.track == Position::STRICT));
}

pub(crate) async fn a_replay_of_one_is_made_at_once(world: World) {
    let ground = world.ground().await;
    let of = dead_letter(&world, &ground, at(1)).await;
    let one = |now| {
        let original = Original {
            id: of.id,
            origin: of.origin,
            event_id: of.event_id,
            route_id: of.route_id,
            destination_id: of.destination_id,
            ordering_key: None,
            numbering: Some(Numbering::None),
        };
        let selection = Selection::Deliveries(vec![of.id].into());
        let new = new(&ground.account, selection, now);
        NewReplay { matched: 1, key: Some(key(1, 1)), at_once: Some(again(&original, now)), ..new }
    };
    let first = one(at(10));
    let replay = begin(&world, &first).await;
    assert_eq!((replay.status, replay.created, replay.matched), (ReplayStatus::Completed, 1, 1));
    assert_eq!(replay.finished_at, Some(at(10)));
    let known = world.store.create_replay(&one(at(11)), &audit_entry()).await.unwrap();
    assert_eq!(known, CreatedReplay::Known { replay: replay.clone(), body_hash: [1; 32] });
    let [made] = &lane(&world, &ground).await[..] else { panic!("one delivery") };
    assert_eq!((made.origin, made.replay_id), (of.id, Some(replay.id)));
    assert_eq!(Some(made.id), first.at_once.map(|one| one.delivery.id));
    assert_eq!(open(&world.store, replay.id).await, None);
    world.move_on(delivered(made, at(12))).await;
    assert_eq!(read(&world, &replay).await.delivered, 1);

    let mut lost = NewReplay { key: None, ..one(at(13)) };
    lost.at_once.as_mut().expect("it is of one").event_id = EventId::at(at(1), chance());
    is_not_found(world.store.create_replay(&lost, &audit_entry()).await, "event");
    is_not_found(world.store.replay(ground.account.id, lost.id).await, "replay");
}

pub(crate) async fn a_deleted_destination_is_told_with_the_originals(world: World) {
    let ground = world.ground().await;
    dead_letter(&world, &ground, at(1)).await;
    let replay = of_the_dead(&world, &ground, at(10)).await;
    let open = held(&world, &replay).await;
    let walk = OriginalWalk { replay: open, limit: 10 };
    assert_eq!(world.store.originals(&walk).await.unwrap().rows[0].numbering, Some(Numbering::None));
    world
        .store
        .delete_destination(ground.account.id, ground.destination.id, at(11), &audit_entry())
        .await
        .unwrap();
    assert_eq!(world.store.originals(&walk).await.unwrap().rows[0].numbering, None);
}

/// Not more than a page of looking, whatever there is.
pub(crate) async fn a_walk_over_what_does_not_match_moves_its_cursor(world: World) {
    let ground = world.ground().await;
    let count = limits::PAGE_SCAN as u64 / 8 + 10;
    let mut batch = Vec::new();
    for place in 0..count {
        let received = at(1).plus(Duration::from_millis(place));
        let new =
            world.matched(event(&ground.account, received), vec![promise(&ground.route, received)]).await;
        batch.push(new);
    }
    world.store.commit(&batch, at(2)).await.expect("a commit");
    let settlements: Vec<_> =
        world.lane(ground.destination.id).await.iter().map(|it| delivered(it, at(3))).collect();
    world.settle(&settlements, at(4)).await;
    let last = dead_letter(&world, &ground, at(5)).await.id;
    let filter = DeliveryFilter { reasons: vec!["rejected".into()], ..DeliveryFilter::default() };
    let replay = begin(&world, &new(&ground.account, Selection::Filter(filter), at(10))).await;
    assert_eq!(finish(&world, &replay, 1).await, [last]);
}

pub(crate) async fn what_is_no_longer_kept_is_skipped(world: World) {
    let ground = world.ground().await;
    let ids = dead_letters(&world, &ground, 3).await;
    let gone = world.store.delivery(ground.account.id, ids[1]).await.unwrap();
    world.outside.lose_event(gone.event_id).await;
    let still = world.store.delivery(ground.account.id, ids[1]).await.unwrap();
    assert!(matches!(still.state, DeliveryState::Ended { ending: Ending::DeadLetter(_), .. }));
    is_not_found(world.store.event(ground.account.id, gone.event_id).await, "event");
    let replay = of_the_dead(&world, &ground, at(10)).await;
    finish(&world, &replay, 10).await;
    let told = read(&world, &replay).await;
    assert_eq!((told.created, told.skipped, told.matched), (2, 1, 3));
    let made: BTreeSet<_> = lane(&world, &ground).await.iter().map(|made| made.origin).collect();
    assert_eq!(made, BTreeSet::from([ids[0], ids[2]]));
}

pub(crate) async fn what_was_counted_and_had_its_time_before_its_turn_is_skipped(world: World) {
    let ground = world.ground().await;
    let ids = dead_letters(&world, &ground, 4).await;
    let counted = NewReplay { matched: 4, ..new(&ground.account, Selection::Filter(dead()), at(10)) };
    let replay = begin(&world, &counted).await;
    let open = held(&world, &replay).await;
    let first = chunk(&world.store, world.node.id, &open, 1).await;
    assert_eq!(world.store.write_replay(&first).await.unwrap(), Some(1));
    let told = read(&world, &replay).await;
    assert_eq!((told.created, told.skipped, told.matched), (1, 0, 4));

    // Retention takes the next two, with all that is known of them.
    let taken = world.store.take_chore(Chore::Prune, world.node.id, at(11), limits::LEASE).await.unwrap();
    let (account_id, before) = (ground.account.id, at(4));
    let walk = EventWalk { account_id, from: EventId::MIN, before, events: 100, rows: 100 };
    world.store.prune_events(taken.expect("nobody has it"), walk).await.unwrap();
    is_not_found(world.store.delivery(account_id, ids[1]).await, "delivery");
    world.store.delivery(account_id, ids[0]).await.expect("what was made of it waits");

    assert_eq!(finish(&world, &replay, 10).await, [ids[3]]);
    let told = read(&world, &replay).await;
    assert_eq!((told.status, told.created, told.skipped), (ReplayStatus::Completed, 2, 2));
    assert_eq!((told.matched, told.matched_exact), (4, true), "nothing is missing without a word");
}
