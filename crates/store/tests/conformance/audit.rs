//! What must never be, planted and found.

use crate::fixtures::*;
use domain::{
    delivery::{Delivery, Ending},
    delivery_settings::DeliverySettings,
    gate::{Gate, GateSettings, Hold, HoldReason, MetOutcome},
    id::{DestinationId, EventId},
    limits,
    outcome::{DeadReason, Outcome},
    retry::RetrySettings,
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use store::{
    Audit, Committed, FIRST_FACT, FIRST_TRACK, FactKey, GateWord, KnownLane, LaneRow, Missing, NewEvent,
    StrayFact, TrackPlace, UnevenFanOut, WaitingHead, Walked,
};

/// The installation says nothing.
const NO_DEFAULTS: DeliverySettings = DeliverySettings {
    max_concurrency: None,
    timeout: None,
    retry_policy: RetrySettings { schedule: None, jitter: None, expire_after: None, retry_statuses: None },
};

pub(crate) async fn nothing_is_wrong_where_nothing_was_lost(world: World) {
    let ground = world.ground().await;
    for second in 0..4 {
        let delivery = world.delivery(&ground, at(second)).await;
        match second {
            0 => world.move_on(delivered(&delivery, at(10))).await,
            1 => world.move_on(retried(&delivery, at(10), at(60))).await,
            2 => world.move_on(rejected(&delivery, at(10))).await,
            _ => {
                let fact = domain::id::AttemptId::at(at(10), chance());
                let cancelled =
                    world.store.cancel(delivery.account_id, delivery.id, fact, at(10), &audit_entry()).await;
                assert!(cancelled.expect("it is cancelled").is_some());
            }
        }
    }
    let alone = world.matched(event(&ground.account, at(5)), Vec::new()).await;
    assert_eq!(world.commit(&alone).await, Committed::New);
    let late = world.delivery(&ground, at(6)).await;
    world.move_on(delivered(&late, at(10))).await;
    assert_eq!(world.settle(&[delivered(&late, at(11))], at(12)).await, [false], "a late word");
    assert_eq!(world.uneven().await, []);
    assert_eq!(world.stray().await, []);
}

pub(crate) async fn a_lost_delivery_is_missed_by_its_event(world: World) {
    let ground = world.ground().await;
    let other = world.destination(&ground.account).await;
    let other = world.route(&other).await;
    world.delivery(&ground, at(0)).await;
    let two = world.commit_event(event(&ground.account, at(1)), &[&ground.route, &other]).await;
    world.move_on(delivered(&two[0], at(2))).await;
    world.outside.lose_waiting(two[1].id).await;
    let missed = UnevenFanOut {
        event_id: two[0].event_id,
        account_id: ground.account.id,
        promised: Some(2),
        found: 1,
    };
    assert_eq!(world.uneven().await, [missed]);
}

pub(crate) async fn a_fan_out_under_way_is_as_large_as_it_says(world: World) {
    let ground = world.ground().await;
    let inline = promise_in(&ground.route, at(1), 1);
    let new = world.matched(event(&ground.account, at(1)), vec![inline]).await;
    let new = NewEvent { expands: true, ..new };
    assert_eq!(world.commit(&new).await, Committed::New);
    assert_eq!(world.uneven().await, []);
    let waiting = world.lane(ground.destination.id).await.remove(0);
    world.outside.lose_waiting(waiting.id).await;
    let missed = world.uneven().await;
    assert_eq!((missed.len(), missed[0].promised, missed[0].found), (1, Some(1), 0));
}

pub(crate) async fn an_attempt_whose_delivery_is_lost_is_found(world: World) {
    let ground = world.ground().await;
    let lost = world.delivery(&ground, at(0)).await;
    let whole = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&lost, at(2), at(60))).await;
    world.move_on(retried(&whole, at(2), at(60))).await;
    world.outside.lose_waiting(lost.id).await;
    let stray = world.stray().await;
    assert_eq!(kinds(&stray), [(lost.id, Missing::Delivery)]);
    assert_eq!(stray[0].event_id, lost.event_id);
}

pub(crate) async fn a_fact_whose_event_is_lost_is_found(world: World) {
    let ground = world.ground().await;
    let (lost, whole) = (world.delivery(&ground, at(0)).await, world.delivery(&ground, at(1)).await);
    world.move_on(delivered(&lost, at(2))).await;
    world.move_on(delivered(&whole, at(2))).await;
    world.outside.lose_event(lost.event_id).await;
    assert_eq!(kinds(&world.stray().await), [(lost.id, Missing::Event)]);
}

pub(crate) async fn a_dead_letter_needs_attempts_unless_its_reason_needs_none(world: World) {
    let ground = world.ground().await;
    let mut wanted = Vec::new();
    for reason in DeadReason::ALL {
        let delivery = world.delivery(&ground, at(0)).await;
        world.move_on(ended_without(&delivery, at(5), Ending::DeadLetter(reason))).await;
        let needs_none = [DeadReason::Expired, DeadReason::DestinationDisabled, DeadReason::Undeliverable];
        if !needs_none.contains(&reason) {
            wanted.push((delivery.id, Missing::Attempts));
        }
    }
    let tried = world.delivery(&ground, at(0)).await;
    world.move_on(retried(&tried, at(1), at(2))).await;
    let tried = world.lane(ground.destination.id).await.remove(0);
    world.move_on(ended_without(&tried, at(5), Ending::DeadLetter(DeadReason::Exhausted))).await;
    assert_eq!(kinds(&world.stray().await), wanted);
}

pub(crate) async fn the_first_row_of_every_track_is_seen(world: World) {
    let ground = world.ground().await;
    let promises = [promise_in(&ground.route, at(0), 7), promise_in(&ground.route, at(0), 7)];
    let seven = world.commit_promises(event(&ground.account, at(0)), promises.into()).await;
    let later = promise_for(&ground.route, at(0), at(100));
    let later = world.commit_promises(event(&ground.account, at(0)), vec![later]).await.remove(0);
    let other = world.ground().await;
    let retry = world.delivery(&other, at(0)).await;
    world.move_on(retried(&retry, at(1), at(60))).await;
    let retry = world.lane(other.destination.id).await.remove(0);

    let mut wanted: Vec<WaitingHead> = [&seven[0], &later, &retry].map(head).into();
    wanted.sort_by_key(|head| head.place);
    assert_eq!(world.heads(10).await, wanted);
    assert_eq!(wanted.iter().map(|head| head.attempts).sum::<u32>(), 1);
}

pub(crate) async fn walks_go_on_where_they_stopped(world: World) {
    for n in 0..5 {
        let ground = world.ground().await;
        let (lost, dead) = (world.delivery(&ground, at(n)).await, world.delivery(&ground, at(n)).await);
        world.outside.lose_waiting(lost.id).await;
        world.move_on(ended_without(&dead, at(9), Ending::DeadLetter(DeadReason::Gone))).await;
        world.delivery(&ground, at(n)).await;
    }
    let store = world.outside.look().await;
    let (heads, uneven, stray) = (world.heads(10).await, world.uneven().await, world.stray().await);
    assert_eq!((heads.len(), uneven.len(), stray.len()), (5, 5, 5));
    for limit in [1, 2, 3] {
        assert_eq!(world.heads(limit).await, heads);
        assert_eq!(fan_outs(store.as_ref(), limit, 1_000).await, uneven);
        assert_eq!(facts(store.as_ref(), limit).await, stray);
    }
}

pub(crate) async fn a_large_fan_out_is_looked_at_alone(world: World) {
    let ground = world.ground().await;
    let promises = |count| (0..count).map(|_| promise(&ground.route, at(1))).collect::<Vec<_>>();
    for count in [1, 50, 1, 1] {
        let new = world.matched(event(&ground.account, at(1)), promises(count)).await;
        assert_eq!(world.commit(&new).await, Committed::New);
    }
    let store = world.outside.look().await;
    let (mut from, mut looked_at) = (Some(EventId::MIN), Vec::new());
    while let Some(next) = from {
        let step = store.audit_fan_outs(next, 100, 10).await.expect("a step");
        assert_eq!(step.found, []);
        looked_at.extend(Some(step.looked_at).filter(|seen| *seen > 0));
        from = step.next;
    }
    assert_eq!(looked_at, [1, 1, 2]);
}

pub(crate) async fn what_is_found_is_found_again_by_its_key(world: World) {
    let ground = world.ground().await;
    let (lost, dead) = (world.delivery(&ground, at(0)).await, world.delivery(&ground, at(0)).await);
    let waiting = world.delivery(&ground, at(1)).await;
    world.outside.lose_waiting(lost.id).await;
    world.move_on(ended_without(&dead, at(9), Ending::DeadLetter(DeadReason::Gone))).await;
    let store = world.outside.look().await;
    let (uneven, stray) = (world.uneven().await, world.stray().await);
    let again = store.audit_fan_outs(uneven[0].event_id, 1, 1).await.expect("a step");
    assert_eq!(again.found, uneven);
    assert_eq!(store.audit_facts(stray[0].key, 1).await.expect("a step").found, stray);
    let place = head(&waiting).place;
    assert_eq!(store.audit_heads(place, 1).await.expect("a step").found, [head(&waiting)]);
}

pub(crate) async fn a_lane_is_free_unless_somebody_holds_it(world: World) {
    let ground = world.ground().await;
    let id = ground.destination.id;
    assert!(world.known(id, at(5)).await.is_free(&NO_DEFAULTS, at(5)));
    let word = |record| GateWord {
        destination_id: id,
        shard: id.shard(),
        record,
        holds: Vec::new(),
        notes: Vec::new(),
    };
    let mut gate = Gate::default();
    let met = MetOutcome {
        outcome: Outcome::Throttled,
        started_at: at(4),
        retry_after: Some(Duration::from_secs(60)),
    };
    gate.met(met, 5, &GateSettings::default(), at(5));
    world.store.keep_gates(world.node.id, &[word(gate.record())], at(5)).await.expect("it is kept");
    assert!(!world.known(id, at(6)).await.is_free(&NO_DEFAULTS, at(6)), "held");
    assert!(world.known(id, at(66)).await.is_free(&NO_DEFAULTS, at(66)), "the hold is over");

    let lane = |in_flight, hold| LaneRow {
        destination_id: id,
        shard: id.shard(),
        in_flight,
        hold,
        open: Vec::new(),
        binding: Default::default(),
    };
    let hold = Hold {
        reason: HoldReason::Breaker,
        since: at(70),
        until: None,
        detail: String::new(),
        step: None,
        probing: false,
    };
    for (lane, free) in [(lane(5, None), false), (lane(4, None), true), (lane(0, Some(hold)), false)] {
        world.store.publish_lanes(world.node.id, &[lane], at(70)).await.expect("it is published");
        assert_eq!(world.known(id, at(71)).await.is_free(&NO_DEFAULTS, at(71)), free);
        assert!(world.known(id, at(76)).await.is_free(&NO_DEFAULTS, at(76)), "an old word");
    }
    let mut paused = ground.destination.clone();
    paused.switch.paused_at = Some(at(80));
    let paused = world.store.update_destination(&paused, &audit_entry()).await.expect("it is paused");
    assert!(!world.known(id, at(90)).await.is_free(&NO_DEFAULTS, at(90)));
    world
        .store
        .delete_destination(paused.account_id, id, at(91), &audit_entry())
        .await
        .expect("it is deleted");
    assert!(world.known(id, at(92)).await.is_free(&NO_DEFAULTS, at(92)), "its lane is to be ended");
    let nobody = DestinationId::at(at(0), chance());
    assert!(world.known(nobody, at(92)).await.is_free(&NO_DEFAULTS, at(92)), "whoever owns it ends it");
}

pub(crate) async fn a_shard_without_an_owner_is_told(world: World) {
    let store = world.outside.look().await;
    let roster = store.audit_roster().await.expect("the roster");
    assert!(roster.has_workers());
    assert_eq!(roster.unowned(limits::LEASE).len(), all_shards().len());
    let taken = world.store.take_shards(world.node.id, 1_000).await.expect("they are taken");
    let roster = store.audit_roster().await.expect("the roster");
    let unowned = roster.unowned(limits::LEASE);
    assert_eq!(unowned.len(), all_shards().len() - taken.len());
    assert!(unowned.iter().all(|shard| !shard.certain));
    let much_later = store::Roster { now: roster.now.plus(4 * limits::LEASE), ..roster };
    let certain = much_later.unowned(2 * limits::LEASE).iter().filter(|shard| shard.certain).count();
    assert_eq!(certain, taken.len(), "an owner whose lease ended long ago is none");
}

impl World {
    async fn heads(&self, limit: usize) -> Vec<WaitingHead> {
        let store = self.outside.look().await;
        let (mut all, mut from) = (Vec::new(), Some(FIRST_TRACK));
        while let Some(next) = from {
            let step: Walked<TrackPlace, WaitingHead> = store.audit_heads(next, limit).await.expect("a step");
            assert!(step.looked_at <= limit);
            all.extend(step.found);
            from = step.next;
        }
        all
    }

    async fn uneven(&self) -> Vec<UnevenFanOut> {
        fan_outs(self.outside.look().await.as_ref(), 100, 1_000).await
    }

    async fn stray(&self) -> Vec<StrayFact> {
        facts(self.outside.look().await.as_ref(), 100).await
    }

    async fn known(&self, id: DestinationId, now: Timestamp) -> KnownLane {
        let store = self.outside.look().await;
        let newer_than = now.minus(limits::LANES_FRESH);
        store.audit_lanes(&[id], newer_than).await.expect("the lane").remove(0)
    }
}

async fn fan_outs(store: &dyn Audit, limit: usize, deliveries: u64) -> Vec<UnevenFanOut> {
    let (mut all, mut from) = (Vec::new(), Some(EventId::MIN));
    while let Some(next) = from {
        let step = store.audit_fan_outs(next, limit, deliveries).await.expect("a step");
        assert!(step.looked_at <= limit);
        all.extend(step.found);
        from = step.next;
    }
    all
}

async fn facts(store: &dyn Audit, limit: usize) -> Vec<StrayFact> {
    let (mut all, mut from) = (Vec::new(), Some(FIRST_FACT));
    while let Some(next) = from {
        let step: Walked<FactKey, StrayFact> = store.audit_facts(next, limit).await.expect("a step");
        assert!(step.looked_at <= limit);
        all.extend(step.found);
        from = step.next;
    }
    all
}

fn head(delivery: &Delivery) -> WaitingHead {
    WaitingHead {
        place: (delivery.destination_id.shard(), delivery.destination_id, delivery.position.track),
        delivery_id: delivery.id,
        due_at: delivery.due_at,
        attempts: delivery.attempts,
    }
}

fn kinds(stray: &[StrayFact]) -> Vec<(domain::id::DeliveryId, Missing)> {
    stray.iter().map(|stray| (stray.key.0, stray.misses)).collect()
}
