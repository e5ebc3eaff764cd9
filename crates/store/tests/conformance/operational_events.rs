//! What is to be told: noted with what it tells of, for those who are told, and once.

use crate::fixtures::*;
use domain::{
    delivery::{Ending, Settled},
    destination::{Disabled, DisabledReason},
    id::{AccountId, AttemptId, DestinationId, EventId, NodeId},
    operations::{OperationalKind, OperationalNote},
    outcome::DeadReason,
    route::Route,
    testing::audit_entry,
    time::Timestamp,
};
use serde_json::json;
use std::time::Duration;
use store::{Consequence, Fact, GateWord, Settlement, UntoldNote};

pub(crate) async fn a_note_is_written_for_those_who_are_told_and_once(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let note = full(ground.account.id, 1);
    world.note(&note).await;
    assert_eq!(world.untold().await, [], "nobody is told");
    world.is_told(&ground).await;
    for _ in 0..2 {
        world.note(&note).await;
    }
    world.note(&full(other.account.id, 2)).await;
    assert_eq!(world.untold().await, [UntoldNote { told: ground.account.id, note: note.clone() }]);
    world.store.forget_note(other.account.id, note.id).await.expect("another's is none of it");
    assert_eq!(world.untold().await.len(), 1);
    world.store.forget_note(ground.account.id, note.id).await.expect("it is told");
    world.store.forget_note(ground.account.id, note.id).await.expect("once more is fine");
    assert_eq!(world.untold().await, []);
}

pub(crate) async fn the_operators_account_is_told_of_all(world: World) {
    let (ground, operator) = (world.ground().await, world.account().await);
    world.is_told(&ground).await;
    world.store.set_operations_account(Some(operator.id)).await.expect("it is set");
    let note = full(ground.account.id, 1);
    world.note(&note).await;
    let mut told: Vec<AccountId> = world.untold().await.into_iter().map(|it| it.told).collect();
    told.sort_unstable();
    let mut both = vec![ground.account.id, operator.id];
    both.sort_unstable();
    assert_eq!(told, both);
    // Of itself once.
    let own = full(operator.id, 2);
    world.note(&own).await;
    assert_eq!(world.untold().await.iter().filter(|it| it.note == own).count(), 1);
    let another = world.account().await;
    world.store.set_operations_account(Some(another.id)).await.expect("it is set");
    world.store.set_operations_account(None).await.expect("it is set");
    world.note(&full(ground.account.id, 3)).await;
    assert_eq!(world.untold().await.iter().filter(|it| it.told == ground.account.id).count(), 2);
    assert_eq!(world.untold().await.len(), 4, "nobody is told of all any more");
}

pub(crate) async fn notes_are_read_oldest_first_without_accounts_that_are_passed_over(world: World) {
    let (one, other) = (world.ground().await, world.ground().await);
    for ground in [&one, &other] {
        world.is_told(ground).await;
    }
    for n in [3, 1, 2] {
        world.note(&full(one.account.id, n)).await;
    }
    world.note(&full(other.account.id, 4)).await;
    let times = |notes: Vec<UntoldNote>| notes.iter().map(|it| it.note.id.made_at()).collect::<Vec<_>>();
    assert_eq!(times(world.untold().await), [at(1), at(2), at(3), at(4)]);
    let read = |passed_over: Vec<AccountId>, limit| {
        let store = world.store.clone();
        async move { store.untold(&passed_over, limit).await.expect("they are read") }
    };
    assert_eq!(times(read(vec![one.account.id], 9).await), [at(4)]);
    assert_eq!(times(read(vec![other.account.id], 2).await), [at(1), at(2)]);
    assert_eq!(world.store.prune_notes(at(3), 1).await.expect("it is pruned"), 1);
    assert_eq!(world.store.prune_notes(at(3), 9).await.expect("it is pruned"), 1);
    assert_eq!(world.store.prune_notes(at(3), 9).await.expect("nothing is left"), 0);
    assert_eq!(times(world.untold().await), [at(3), at(4)]);
}

pub(crate) async fn what_a_gate_is_told_as_is_noted_with_it(world: World) {
    let ground = world.ground().await;
    world.is_told(&ground).await;
    let id = ground.destination.id;
    let data = json!({ "detail": "429 Too Many Requests" });
    let note = OperationalNote::new(OperationalKind::Throttled, ground.account.id, Some(id), at(5), data);
    let word = GateWord {
        destination_id: id,
        shard: id.shard(),
        record: None,
        holds: Vec::new(),
        notes: vec![note.clone()],
    };
    if world.backend.fences_nodes() {
        let stranger = NodeId::at(at(0), chance());
        world.store.keep_gates(stranger, std::slice::from_ref(&word), at(5)).await.expect("nothing changes");
        assert_eq!(world.untold().await, [], "who is no member tells nothing");
    }
    for _ in 0..2 {
        let words = std::slice::from_ref(&word);
        world.store.keep_gates(world.node.id, words, at(5)).await.expect("it is written");
    }
    assert_eq!(world.untold().await, [UntoldNote { told: ground.account.id, note }]);
}

pub(crate) async fn a_destination_that_is_disabled_is_noted_once(world: World) {
    let (ground, untold) = (world.ground().await, world.ground().await);
    world.is_told(&ground).await;
    for ground in [&ground, &untold] {
        let mut destination = ground.destination.clone();
        for n in 0..2 {
            destination.name = format!("call {n}");
            destination
                .switch
                .disabled
                .get_or_insert(Disabled { at: at(7), reason: DisabledReason::Requested });
            destination =
                world.store.update_destination(&destination, &audit_entry()).await.expect("it is written");
        }
    }
    let id = ground.destination.id;
    let note = OperationalNote::of_disabled(ground.account.id, id, "requested", at(7));
    assert_eq!(world.untold().await, [UntoldNote { told: ground.account.id, note }]);
}

pub(crate) async fn a_destination_that_is_gone_is_noted_with_the_answer_that_said_so(world: World) {
    let ground = world.ground().await;
    world.is_told(&ground).await;
    let (one, other) = (world.delivery(&ground, at(1)).await, world.delivery(&ground, at(2)).await);
    for (n, delivery) in [(11, &one), (12, &other), (13, &one)] {
        let settlement = Settlement {
            consequence: Some(Consequence::Disables),
            ..world.dead(delivery, at(n), DeadReason::Gone)
        };
        world.settle(&[settlement], at(n)).await;
    }
    let disabled = OperationalNote::of_disabled(ground.account.id, ground.destination.id, "gone", at(11));
    assert_eq!(world.untold().await, [UntoldNote { told: ground.account.id, note: disabled }]);
}

pub(crate) async fn dead_letters_are_summed_up_by_destination_and_minute(world: World) {
    let (ground, untold) = (world.ground().await, world.ground().await);
    world.is_told(&ground).await;
    let mut letters = Vec::new();
    for (n, reason) in [(10, DeadReason::Exhausted), (11, DeadReason::Exhausted), (12, DeadReason::Gone)] {
        letters.push(world.dead(&world.delivery(&ground, at(1)).await, within(1, n), reason));
    }
    let exhausted = DeadReason::Exhausted;
    letters.push(world.dead(&world.delivery(&ground, at(1)).await, within(2, 10), exhausted));
    letters.push(world.dead(&world.delivery(&untold, at(1)).await, within(1, 10), exhausted));
    letters.push(delivered(&world.delivery(&ground, at(1)).await, within(1, 10)));
    world.settle(&letters, within(2, 11)).await;
    world.settle(&letters, within(2, 12)).await;
    assert_eq!(world.sum_up(within(1, 0)).await, 0, "the minute is not over");
    assert_eq!(world.sum_up(within(2, 0)).await, 1);
    assert_eq!(world.sum_up(within(2, 0)).await, 0);
    let notes = world.untold().await;
    assert_eq!(notes.len(), 1);
    let note = &notes[0].note;
    assert_eq!((note.kind, note.destination_id), (OperationalKind::DeadLetter, Some(ground.destination.id)));
    assert_eq!(note.data["count"], 3, "{note:?}");
    let reasons = note.data["reasons"].as_array().expect("a list");
    let mut counts: Vec<_> =
        reasons.iter().map(|it| (it["reason"].as_str().expect("a word"), &it["count"])).collect();
    counts.sort_by_key(|count| count.0);
    assert_eq!(counts, [("exhausted", &json!(2)), ("gone", &json!(1))]);

    // What comes late for a minute that was summed up is told too.
    let late = world.dead(&world.delivery(&ground, at(1)).await, within(1, 20), exhausted);
    world.settle(&[late], within(3, 0)).await;
    assert_eq!(world.sum_up(within(3, 0)).await, 2);
    let counts: Vec<u64> =
        world.untold().await.iter().filter_map(|it| it.note.data["count"].as_u64()).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, 5));
}

pub(crate) async fn a_dead_letter_of_an_operational_event_is_told_to_nobody(world: World) {
    let ground = world.ground().await;
    world.is_told(&ground).await;
    let mut event = event(&ground.account, at(1));
    event.id = EventId::operational(at(1), chance());
    event.event_type = OperationalKind::Throttled.event_type();
    let deliveries = world.commit_event(event.clone(), &[&ground.route]).await;
    world.settle(&[world.dead(&deliveries[0], at(10), DeadReason::Exhausted)], at(10)).await;
    assert_eq!(world.sum_up(at(600)).await, 0);
    assert_eq!(world.untold().await, []);
    let kept = plain(world.store.payload(event.id).await);
    assert_eq!(kept.event_type.as_str(), "posthaste.destination.throttled");
}

fn full(account: AccountId, n: u64) -> OperationalNote {
    OperationalNote::of_full_backlog(account, at(n), n, 0)
}

/// So many seconds into a minute.
fn within(minute: u32, seconds: u64) -> Timestamp {
    let length = Duration::from_secs(60);
    at(60).floor(length).plus(length * minute + Duration::from_secs(seconds))
}

impl World {
    /// From now on: it has a route for operational events.
    pub(crate) async fn is_told(&self, ground: &Ground) -> Route {
        let mut route = Route::new(
            domain::id::RouteId::at(at(0), chance()),
            ground.account.id,
            ground.destination.id,
            at(0),
        );
        route.event_types = vec!["posthaste.**".parse().expect("a pattern")];
        self.store.create_route(&route, &audit_entry()).await.expect("it is made")
    }

    async fn note(&self, note: &OperationalNote) {
        self.store.note_operational(note).await.expect("it is written");
    }

    pub(crate) async fn untold(&self) -> Vec<UntoldNote> {
        self.store.untold(&[], 100).await.expect("they are read")
    }

    async fn sum_up(&self, before: Timestamp) -> usize {
        self.store.sum_up_dead_letters(before, 10, chance()).await.expect("they are summed up")
    }

    fn dead(&self, delivery: &domain::delivery::Delivery, at: Timestamp, reason: DeadReason) -> Settlement {
        let ending = Ending::DeadLetter(reason);
        let id = AttemptId::at(at, chance());
        Settlement {
            shard: DestinationId::shard(&delivery.destination_id),
            delivery: delivery.clone(),
            fact: Fact::EndedWithout { id, at, node: self.node.id, ending },
            settled: Settled::Ended(ending),
            consequence: None,
        }
    }
}
