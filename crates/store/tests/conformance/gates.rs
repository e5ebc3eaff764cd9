//! What owners remember of gates, and the history of holds.

use crate::fixtures::*;
use domain::{
    gate::{Gate, GateRecord, GateSettings, HoldReason, HoldRecord, MetOutcome},
    id::{DestinationId, NodeId},
    outcome::Outcome,
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use store::{GateWord, KeptGate};

pub(crate) async fn a_gate_is_read_with_its_destination_as_its_owner_left_it(world: World) {
    let ground = world.ground().await;
    let id = ground.destination.id;
    assert_eq!(world.gate(id).await, None);
    world.keep(&[word(id, Some(throttled_for(60)), vec![])], at(5)).await;
    assert_eq!(world.gate(id).await, Some(KeptGate { record: throttled_for(60), kept_at: at(5) }));
    world.keep(&[word(id, Some(GateRecord::default()), vec![])], at(6)).await;
    assert_eq!(world.gate(id).await, Some(KeptGate { record: GateRecord::default(), kept_at: at(6) }));
    world.keep(&[word(id, None, vec![])], at(7)).await;
    assert_eq!(world.gate(id).await, None);
    world.keep(&[word(id, None, vec![])], at(8)).await;
}

pub(crate) async fn what_is_held_is_found_whoever_holds_it(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let account = ground.account.id;
    let held = async |limit| world.store.held_destinations(account, limit).await.expect("they are read");
    assert_eq!(held(100).await, []);
    let mut paused = world.destination(&ground.account).await;
    paused.switch.paused_at = Some(at(1));
    let paused = world.store.update_destination(&paused, &audit_entry()).await.expect("it is paused");
    let deleted = world.destination(&ground.account).await;
    let on_its_way_back = world.destination(&ground.account).await;
    let words = [
        word(ground.destination.id, Some(throttled_for(60)), vec![]),
        word(other.destination.id, Some(throttled_for(60)), vec![]),
        word(deleted.id, Some(throttled_for(60)), vec![]),
        word(on_its_way_back.id, Some(GateRecord::default()), vec![]),
    ];
    world.keep(&words, at(5)).await;
    world.store.delete_destination(account, deleted.id, at(6), &audit_entry()).await.expect("it is deleted");
    let mut expected = vec![ground.destination.id, paused.id];
    expected.sort_by_key(|id| std::cmp::Reverse(*id));
    assert_eq!(held(100).await, expected, "newest first, and no other's");
    assert_eq!(held(0).await, [], "no more than so many are looked at");
    world.keep(&[word(ground.destination.id, None, vec![])], at(7)).await;
    assert_eq!(held(100).await, [paused.id]);
}

pub(crate) async fn of_two_words_about_a_gate_the_later_counts(world: World) {
    let (one, other) = (world.ground().await.destination.id, world.ground().await.destination.id);
    let words = [
        word(one, Some(throttled_for(60)), vec![hold(1, 60, None)]),
        word(other, Some(throttled_for(10)), vec![hold(1, 10, None)]),
        word(one, None, vec![hold(1, 60, Some(5))]),
    ];
    world.keep(&words, at(5)).await;
    assert_eq!(world.gate(one).await, None);
    assert_eq!(world.gate(other).await.map(|kept| kept.record), Some(throttled_for(10)));
    assert_eq!(world.holds(one).await, [hold(1, 60, Some(5))]);
    assert_eq!(world.holds(other).await, [hold(1, 10, None)]);
}

pub(crate) async fn a_word_that_was_overtaken_counts_for_nothing(world: World) {
    let id = world.ground().await.destination.id;
    world.keep(&[word(id, Some(throttled_for(60)), vec![])], at(5)).await;
    world.keep(&[word(id, Some(throttled_for(10)), vec![])], at(4)).await;
    world.keep(&[word(id, None, vec![])], at(4)).await;
    assert_eq!(world.gate(id).await, Some(KeptGate { record: throttled_for(60), kept_at: at(5) }));
}

pub(crate) async fn holds_are_listed_from_newest_to_oldest(world: World) {
    let id = world.ground().await.destination.id;
    let mut written: Vec<HoldRecord> = (0..7).map(|n| hold(n * 10, n * 10 + 5, Some(n * 10 + 6))).collect();
    written.push(HoldRecord { reason: HoldReason::Breaker, ..hold(60, 65, None) });
    world.store.note_holds(id, &written).await.expect("they are written");
    let all = world.holds(id).await;
    let mut expected: Vec<HoldRecord> = written.clone();
    expected.sort_by_key(|hold| std::cmp::Reverse((hold.since, hold.reason.as_str())));
    assert_eq!(all, expected);
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = world.store.holds(id, before.take(), 3).await.expect("they are read");
        before = page.last().map(|hold| (hold.since, hold.reason));
        paged.extend(page);
        if before.is_none() {
            break;
        }
    }
    assert_eq!(paged, expected);
}

pub(crate) async fn a_hold_that_goes_on_is_one_line(world: World) {
    let id = world.ground().await.destination.id;
    for (until, ended) in [(60, None), (90, None), (90, Some(91))] {
        let holds = vec![hold(1, until, ended)];
        world.keep(&[word(id, None, holds)], at(5)).await;
        assert_eq!(world.holds(id).await, [hold(1, until, ended)]);
    }
    let paused = HoldRecord { reason: HoldReason::Paused, until: None, step: None, ..hold(1, 0, Some(100)) };
    world.store.note_holds(id, std::slice::from_ref(&paused)).await.expect("it is written");
    assert_eq!(world.holds(id).await, [hold(1, 90, Some(91)), paused], "another reason, another hold");
}

pub(crate) async fn who_is_no_member_keeps_no_gate(world: World) {
    if !world.backend.fences_nodes() {
        return;
    }
    let id = world.ground().await.destination.id;
    let stranger = NodeId::at(at(0), chance());
    let words = [word(id, Some(throttled_for(60)), vec![hold(1, 60, None)])];
    world.store.keep_gates(stranger, &words, at(5)).await.expect("it changes nothing");
    assert_eq!((world.gate(id).await, world.holds(id).await), (None, vec![]));
}

pub(crate) async fn old_holds_are_pruned_and_those_that_go_on_are_not(world: World) {
    let id = world.ground().await.destination.id;
    let written = [hold(1, 2, Some(3)), hold(4, 5, Some(6)), hold(7, 8, Some(9)), hold(0, 100, None)];
    world.store.note_holds(id, &written).await.expect("they are written");
    assert_eq!(world.store.prune_holds(at(9), 1).await.unwrap(), 1);
    assert_eq!(world.store.prune_holds(at(9), 10).await.unwrap(), 1);
    assert_eq!(world.store.prune_holds(at(9), 10).await.unwrap(), 0);
    assert_eq!(world.holds(id).await, [written[2].clone(), written[3].clone()]);
}

impl World {
    async fn keep(&self, words: &[GateWord], now: Timestamp) {
        self.store.keep_gates(self.node.id, words, now).await.expect("they are written");
    }

    async fn gate(&self, id: DestinationId) -> Option<KeptGate> {
        let records = self.store.destination_records(&[id]).await.expect("it is read");
        records.into_iter().flatten().next().expect("it is there").gate
    }

    async fn holds(&self, id: DestinationId) -> Vec<HoldRecord> {
        self.store.holds(id, None, 100).await.expect("they are read")
    }
}

fn word(destination_id: DestinationId, record: Option<GateRecord>, holds: Vec<HoldRecord>) -> GateWord {
    GateWord { destination_id, shard: destination_id.shard(), record, holds, notes: Vec::new() }
}

fn throttled_for(seconds: u64) -> GateRecord {
    let mut gate = Gate::default();
    let retry_after = Some(Duration::from_secs(seconds));
    let met = MetOutcome { outcome: Outcome::Throttled, started_at: at(1), retry_after };
    gate.met(met, 5, &GateSettings::default(), at(1));
    gate.record().expect("a throttle is remembered")
}

fn hold(since: u64, until: u64, ended_at: Option<u64>) -> HoldRecord {
    HoldRecord {
        reason: HoldReason::Throttle,
        since: at(since),
        until: Some(at(until)),
        detail: "429 Too Many Requests".into(),
        step: Some(1),
        ended_at: ended_at.map(at),
    }
}
