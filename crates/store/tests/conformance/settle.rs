//! Settling: a fact is written once, and the row decides whether it moves its delivery.

use crate::fixtures::*;
use domain::{
    attempt::{AttemptError, Detail, Response, Timing},
    delivery::{CancelReason, Delivery, Ending, Position, Settled},
    destination::{Disabled, DisabledReason},
    id::{AttemptId, DeliveryId, NodeId},
    limits,
    outcome::{DeadReason, Outcome},
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use store::{Consequence, DeliveryState, Settlement, Window};

// --- Settling ------------------------------------------------------------------------------------------------------

pub(crate) async fn a_delivered_delivery_leaves_the_queue(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&delivery, at(2))).await;
    assert!(world.lane(ground.destination.id).await.is_empty());
    assert!(world.store.lanes(&all_shards(), None, 10).await.unwrap().is_empty());
    let record = world.store.delivery(ground.account.id, delivery.id).await.unwrap();
    assert_eq!(record.state, DeliveryState::Ended { ending: Ending::Delivered, at: over(at(2)) });
    assert_eq!((record.attempts, record.spent), (1, 0));
    assert_eq!((record.last_outcome, record.last_http_status), (Some(Outcome::Success), Some(200)));
}

pub(crate) async fn a_retry_waits_at_its_new_place(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let behind = world.delivery(&ground, at(2)).await;
    world.move_on(retried(&delivery, at(3), at(33))).await;
    let expected = Delivery {
        position: Position::due(at(33), delivery.id),
        due_at: at(33),
        attempts: 1,
        spent: 1,
        last_outcome: Some(Outcome::ServerError),
        last_http_status: Some(503),
        ..delivery
    };
    assert_eq!(world.lane(ground.destination.id).await, [behind, expected]);
}

pub(crate) async fn a_throttled_delivery_keeps_its_place(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let behind = world.delivery(&ground, at(2)).await;
    world.move_on(throttled(&delivery, at(3))).await;
    let lane = world.lane(ground.destination.id).await;
    assert_eq!(ids(&lane), [delivery.id, behind.id]);
    assert_eq!(lane[0].position.rank, delivery.position.rank + 1);
    assert_eq!((lane[0].due_at, lane[0].attempts, lane[0].spent), (delivery.due_at, 1, 0));
}

pub(crate) async fn a_dead_letter_keeps_its_reason(world: World) {
    let ground = world.ground().await;
    for reason in DeadReason::ALL {
        let delivery = world.delivery(&ground, at(1)).await;
        let attempt = attempt(&delivery, at(2), Outcome::Rejected, Some(404));
        world.move_on(settlement(&delivery, attempt, Settled::Ended(Ending::DeadLetter(reason)))).await;
        let record = world.store.delivery(ground.account.id, delivery.id).await.unwrap();
        assert_eq!(
            record.state,
            DeliveryState::Ended { ending: Ending::DeadLetter(reason), at: over(at(2)) }
        );
    }
}

/// More than a store with one writer takes in one flush.
pub(crate) async fn results_of_many_destinations_are_answered_in_their_order(world: World) {
    let account = world.account().await;
    let mut routes = Vec::new();
    for _ in 0..2 * limits::SETTLE_DESTINATIONS_ONE_WRITER + 5 {
        routes.push(world.route(&world.destination(&account).await).await);
    }
    let deliveries = world.commit_event(event(&account, at(1)), &routes.iter().collect::<Vec<_>>()).await;
    let is_cancelled = |place: usize| place % 3 == 1;
    for (_, delivery) in deliveries.iter().enumerate().filter(|(place, _)| is_cancelled(*place)) {
        let fact = AttemptId::at(at(2), chance());
        assert!(
            world.store.cancel(account.id, delivery.id, fact, at(2), &audit_entry()).await.unwrap().is_some()
        );
    }
    let results: Vec<_> = deliveries.iter().map(|delivery| delivered(delivery, at(2))).collect();
    let expected: Vec<_> = (0..deliveries.len()).map(|place| !is_cancelled(place)).collect();
    assert_eq!(world.settle(&results, at(3)).await, expected);
    assert_eq!(world.settle(&results, at(4)).await, expected, "said again");
    assert!(world.store.lanes(&all_shards(), None, 10).await.unwrap().is_empty());
}

pub(crate) async fn tls_errors_are_counted(world: World) {
    let ground = world.ground().await;
    let mut delivery = world.delivery(&ground, at(1)).await;
    for (outcome, expected) in [(Outcome::TlsError, 1), (Outcome::Timeout, 1), (Outcome::TlsError, 2)] {
        let waits = Settled::Waits { position: delivery.position, due_at: at(9), spent: delivery.spent + 1 };
        world.move_on(settlement(&delivery, attempt(&delivery, at(2), outcome, None), waits)).await;
        delivery = world.lane(ground.destination.id).await.remove(0);
        assert_eq!(
            (delivery.tls_errors, delivery.last_outcome, delivery.last_http_status),
            (expected, Some(outcome), None)
        );
    }
}

pub(crate) async fn every_outcome_and_every_detail_is_kept(world: World) {
    let ground = world.ground().await;
    let mut delivery = world.delivery(&ground, at(1)).await;
    for outcome in Outcome::ALL {
        let mut given = attempt(&delivery, at(2 + u64::from(delivery.attempts)), outcome, Some(599));
        given.node = world.node.id;
        given.duration = Duration::from_micros(1_234_567);
        given.detail = Detail {
            url: "https://billing.example/ä?q=\"".into(),
            request_headers: vec![("b".into(), "2".into()), ("a".into(), "1".into())],
            timing: Timing {
                dns_us: Some(1),
                connect_us: None,
                tls_us: Some(3),
                first_byte_us: Some(u32::MAX),
            },
            connection_reused: true,
            retry_after_seconds: Some(60),
            error: Some(AttemptError {
                code: "connect_error".into(),
                kind: Some("refused".into()),
                message: "a\u{0}b".into(),
            }),
            response: Some(Response {
                body: Some("\u{0}€".into()), truncated: true, ..Response::default()
            }),
            sealed: None,
        };
        world.move_on(settlement(&delivery, given.clone(), waits_at(&delivery, at(9)))).await;
        delivery = world.lane(ground.destination.id).await.remove(0);
        let kept = world
            .store
            .attempts_of_delivery(ground.account.id, delivery.id, 100)
            .await
            .unwrap()
            .pop()
            .unwrap();
        assert_eq!((kept.id, kept.delivery_id, kept.number), (given.id, given.delivery_id, given.number));
        assert_eq!(
            (kept.started_at, kept.duration, kept.outcome),
            (given.started_at, given.duration, outcome)
        );
        assert_eq!((kept.http_status, kept.node, kept.late), (Some(599), given.node, false));
        assert_eq!((kept.event_id, kept.destination_id), (delivery.event_id, delivery.destination_id));
        assert_eq!(kept.detail, given.detail);
    }
    assert_eq!(delivery.attempts as usize, Outcome::ALL.len());
}

pub(crate) async fn a_large_detail_is_kept_too(world: World) {
    let ground = world.ground().await;
    for body in [
        "x".repeat(limits::RESPONSE_BODY_KEPT_BYTES),
        // Each takes six bytes in JSON.
        "\u{1}".repeat(limits::RESPONSE_BODY_KEPT_BYTES),
        // More than is ever packed.
        "x".repeat(limits::DETAIL_UNPACKED_BYTES),
    ] {
        let delivery = world.delivery(&ground, at(1)).await;
        let mut given = attempt(&delivery, at(2), Outcome::Success, Some(200));
        given.node = world.node.id;
        given.detail.response = Some(Response { body: Some(body), ..Response::default() });
        world.move_on(settlement(&delivery, given.clone(), Settled::Ended(Ending::Delivered))).await;
        let kept = world.store.attempts_of_delivery(ground.account.id, delivery.id, 1).await.unwrap();
        assert!(kept[0].detail == given.detail);
    }
}

pub(crate) async fn settling_twice_answers_the_same_and_moves_nothing_more(world: World) {
    let ground = world.ground().await;
    let mut waiting = Vec::new();
    for second in 1..=4 {
        waiting.push(world.delivery(&ground, at(second)).await);
    }
    let overtaken = Delivery { attempts: 5, ..waiting[3].clone() };
    let batch = [
        delivered(&waiting[0], at(5)),
        delivered(&overtaken, at(5)),
        retried(&waiting[1], at(5), at(33)),
        ended_without(&waiting[2], at(5), Ending::DeadLetter(DeadReason::Expired)),
    ];
    assert_eq!(world.settle(&batch, at(6)).await, [true, false, true, true]);
    let lane = world.lane(ground.destination.id).await;
    assert_eq!(ids(&lane), [waiting[3].id, waiting[1].id]);
    assert_eq!(world.settle(&batch, at(7)).await, [true, false, true, true]);
    assert_eq!(world.lane(ground.destination.id).await, lane);
    for (delivery, expected) in waiting.iter().zip([&[false][..], &[false], &[], &[true]]) {
        let attempts = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
        assert_eq!(attempts.iter().map(|attempt| attempt.late).collect::<Vec<_>>(), expected);
    }
}

pub(crate) async fn a_repeated_settlement_is_told_apart_from_new_ones_beside_it(world: World) {
    let ground = world.ground().await;
    let (one, two) = (world.delivery(&ground, at(1)).await, world.delivery(&ground, at(2)).await);
    let first = retried(&one, at(3), at(4));
    world.move_on(first.clone()).await;
    assert_eq!(world.settle(&[delivered(&two, at(5)), first], at(6)).await, [true, true]);
    let lane = world.lane(ground.destination.id).await;
    assert_eq!((ids(&lane), lane[0].attempts, lane[0].due_at), (vec![one.id], 1, at(4)));
}

pub(crate) async fn a_word_about_an_earlier_attempt_moves_nothing(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(retried(&delivery, at(2), at(3))).await;
    let lane = world.lane(ground.destination.id).await;
    assert_eq!(world.settle(&[delivered(&delivery, at(2))], at(4)).await, [false]);
    assert_eq!(world.lane(ground.destination.id).await, lane);
    let attempts = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
    let told: Vec<_> =
        attempts.iter().map(|attempt| (attempt.number, attempt.outcome, attempt.late)).collect();
    assert_eq!(told, [(1, Outcome::ServerError, false), (1, Outcome::Success, true)]);
}

pub(crate) async fn a_word_about_a_later_attempt_moves_nothing(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let ahead = Delivery { attempts: 3, ..delivery.clone() };
    assert_eq!(world.settle(&[delivered(&ahead, at(2))], at(3)).await, [false]);
    assert_eq!(world.lane(ground.destination.id).await, [delivery]);
}

pub(crate) async fn answers_come_in_the_order_of_the_settlements(world: World) {
    let ground = world.ground().await;
    let mut batch = Vec::new();
    for second in 1..=6 {
        let delivery = world.delivery(&ground, at(second)).await;
        let stale = Delivery { attempts: 7, ..delivery.clone() };
        batch.insert(0, delivered(if second % 2 == 0 { &stale } else { &delivery }, at(9)));
    }
    assert_eq!(world.settle(&batch, at(9)).await, [false, true, false, true, false, true]);
    assert!(world.settle(&[], at(9)).await.is_empty());
}

pub(crate) async fn a_batch_of_the_largest_size_is_settled_whole(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let route = world.route(&elsewhere).await;
    let promises = |route, count| (0..count).map(|_| promise(route, at(1))).collect::<Vec<_>>();
    let half = limits::SETTLE_BATCH / 2;
    for route in [&ground.route, &route] {
        let new = world.matched(event(&ground.account, at(1)), promises(route, half)).await;
        world.commit(&new).await;
    }
    let all = |id| Window { limit: half, ..window(id) };
    let lanes = world.store.fetch(&[all(ground.destination.id), all(elsewhere.id)]).await.unwrap();
    let waiting: Vec<Delivery> = lanes.into_iter().flat_map(deliveries).collect();
    let settle = |(n, delivery): (usize, &Delivery)| match n % 2 {
        0 => delivered(delivery, at(2)),
        _ => retried(delivery, at(2), at(33)),
    };
    let batch: Vec<Settlement> = waiting.iter().enumerate().map(settle).collect();
    assert_eq!(world.settle(&batch, at(3)).await, vec![true; 2 * half]);
    assert_eq!(world.fetch(all(elsewhere.id)).await.len(), half / 2);
}

pub(crate) async fn a_delivery_may_end_without_an_attempt(world: World) {
    let ground = world.ground().await;
    let endings = [
        Ending::DeadLetter(DeadReason::Expired),
        Ending::DeadLetter(DeadReason::DestinationDisabled),
        Ending::Cancelled(CancelReason::DestinationDeleted),
    ];
    for ending in endings {
        let delivery = world.delivery(&ground, at(1)).await;
        world.move_on(retried(&delivery, at(2), at(33))).await;
        let delivery = world.lane(ground.destination.id).await.remove(0);
        world.move_on(ended_without(&delivery, at(40), ending)).await;
        let record = world.store.delivery(ground.account.id, delivery.id).await.unwrap();
        assert_eq!(record.state, DeliveryState::Ended { ending, at: at(40) });
        assert_eq!((record.attempts, record.spent), (1, 1));
        assert_eq!((record.last_outcome, record.last_http_status), (Some(Outcome::ServerError), Some(503)));
        let attempts = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
        assert_eq!(attempts.len(), 1, "an ending is no attempt");
    }
}

pub(crate) async fn an_ending_without_an_attempt_needs_the_row_as_well(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let expired = Ending::DeadLetter(DeadReason::Expired);
    world.move_on(retried(&delivery, at(2), at(33))).await;
    assert_eq!(world.settle(&[ended_without(&delivery, at(3), expired)], at(3)).await, [false]);
    assert_eq!(world.lane(ground.destination.id).await.len(), 1);
}

pub(crate) async fn a_destination_that_is_gone_is_disabled_with_the_settlement(world: World) {
    let ground = world.ground().await;
    let other = world.destination(&ground.account).await;
    let delivery = world.delivery(&ground, at(1)).await;
    let before = world.version(&ground.account).await;
    let attempt = attempt(&delivery, at(2), Outcome::Gone, Some(410));
    let gone = Settlement {
        consequence: Some(Consequence::Disables),
        ..settlement(&delivery, attempt, Settled::Ended(Ending::DeadLetter(DeadReason::Gone)))
    };
    assert_eq!(world.settle(std::slice::from_ref(&gone), at(3)).await, [true]);
    let disabled = world.store.destination(ground.account.id, ground.destination.id).await.unwrap();
    assert_eq!(disabled.switch.disabled, Some(Disabled { at: at(3), reason: DisabledReason::Gone }));
    assert!(disabled.version > before, "it is a change as any other");
    assert_eq!(world.version(&ground.account).await, disabled.version);
    is_changed(world.store.update_destination(&ground.destination, &audit_entry()).await);
    assert_eq!(world.store.destination(ground.account.id, other.id).await.unwrap(), other);

    let mut enabled = disabled.clone();
    enabled.switch.disabled = None;
    let enabled = world.store.update_destination(&enabled, &audit_entry()).await.unwrap();
    assert_eq!(world.settle(&[gone], at(4)).await, [true]);
    let read = world.store.destination(ground.account.id, ground.destination.id).await.unwrap();
    assert_eq!(read, enabled, "a word that is repeated disables nothing");
}

pub(crate) async fn a_disabled_destination_keeps_its_first_reason(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let mut disabled = ground.destination.clone();
    disabled.switch.disabled = Some(Disabled { at: at(2), reason: DisabledReason::Requested });
    let disabled = world.store.update_destination(&disabled, &audit_entry()).await.unwrap();
    let attempt = attempt(&delivery, at(1), Outcome::Gone, Some(410));
    let settled = Settled::Ended(Ending::DeadLetter(DeadReason::Gone));
    let gone =
        Settlement { consequence: Some(Consequence::Disables), ..settlement(&delivery, attempt, settled) };
    assert_eq!(world.settle(&[gone], at(3)).await, [true]);
    assert_eq!(world.store.destination(ground.account.id, disabled.id).await.unwrap(), disabled);
}

pub(crate) async fn a_destination_is_paused_with_the_settlement_that_asks_for_it(world: World) {
    let ground = world.ground().await;
    let other = world.destination(&ground.account).await;
    let before = world.version(&ground.account).await;
    let pauses = pausing(&world.delivery(&ground, at(1)).await);
    assert_eq!(world.settle(std::slice::from_ref(&pauses), at(3)).await, [true]);
    let paused = world.store.destination(ground.account.id, ground.destination.id).await.unwrap();
    assert_eq!((paused.switch.paused_at, &paused.switch.disabled), (Some(at(3)), &None));
    assert_eq!((world.version(&ground.account).await, paused.version), (before + 1, before + 1));
    is_changed(world.store.update_destination(&ground.destination, &audit_entry()).await);
    assert_eq!(world.store.destination(ground.account.id, other.id).await.unwrap(), other);

    let mut resumed = paused.clone();
    (resumed.switch.paused_at, resumed.switch.resumed_at) = (None, Some(at(4)));
    let resumed = world.store.update_destination(&resumed, &audit_entry()).await.unwrap();
    assert_eq!(world.settle(&[pauses], at(5)).await, [true]);
    let read = world.store.destination(ground.account.id, ground.destination.id).await.unwrap();
    assert_eq!(read, resumed, "a word that is repeated pauses nothing");
}

pub(crate) async fn only_a_settlement_that_moved_pauses(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let moved_on = Delivery { attempts: 3, ..delivery };
    assert_eq!(world.settle(&[pausing(&moved_on)], at(3)).await, [false]);
    let read = world.store.destination(ground.account.id, ground.destination.id).await.unwrap();
    assert_eq!(read, ground.destination);
}

pub(crate) async fn what_is_paused_disabled_or_deleted_is_not_paused_again(world: World) {
    let record = async |id| {
        world.store.destination_records(&[id]).await.unwrap().remove(0).unwrap().destination.unwrap()
    };
    for case in ["paused", "disabled", "deleted"] {
        let ground = world.ground().await;
        let delivery = world.delivery(&ground, at(1)).await;
        let mut changed = ground.destination.clone();
        match case {
            "paused" => changed.switch.paused_at = Some(at(2)),
            _ => changed.switch.disabled = Some(Disabled { at: at(2), reason: DisabledReason::Requested }),
        }
        match case {
            "deleted" => world
                .store
                .delete_destination(ground.account.id, changed.id, at(2), &audit_entry())
                .await
                .unwrap(),
            _ => drop(world.store.update_destination(&changed, &audit_entry()).await.unwrap()),
        }
        let (before, version) = (record(changed.id).await, world.version(&ground.account).await);
        assert_eq!(world.settle(&[pausing(&delivery)], at(3)).await, [true]);
        assert_eq!(record(changed.id).await, before, "{case}");
        assert_eq!(world.version(&ground.account).await, version, "{case}");
    }
}

pub(crate) async fn of_many_consequences_each_account_takes_one_version(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let route = world.route(&elsewhere).await;
    let mut deliveries = Vec::new();
    for _ in 0..2 {
        deliveries.extend(world.commit_event(event(&ground.account, at(1)), &[&ground.route, &route]).await);
    }
    let before = world.version(&ground.account).await;
    let disabling = |delivery: &Delivery| Settlement {
        consequence: Some(Consequence::Disables),
        ..rejected(delivery, at(2))
    };
    let batch = [
        pausing(&deliveries[0]),
        pausing(&deliveries[1]),
        pausing(&deliveries[2]),
        disabling(&deliveries[3]),
    ];
    assert_eq!(world.settle(&batch, at(3)).await, [true; 4]);
    let paused = world.store.destination(ground.account.id, ground.destination.id).await.unwrap();
    assert_eq!((paused.switch.paused_at, paused.version), (Some(at(3)), before + 1));
    let disabled = world.store.destination(ground.account.id, elsewhere.id).await.unwrap();
    assert_eq!(disabled.switch.disabled, Some(Disabled { at: at(3), reason: DisabledReason::Gone }));
    assert_eq!((disabled.switch.paused_at, disabled.version), (None, before + 1), "one or the other");
    assert_eq!(world.version(&ground.account).await, before + 1);
}

// --- Fencing -------------------------------------------------------------------------------------------------------

pub(crate) async fn a_node_whose_row_is_gone_moves_nothing_where_nodes_are_fenced(world: World) {
    let ground = world.ground().await;
    let waiting = [world.delivery(&ground, at(1)).await, world.delivery(&ground, at(2)).await];
    let batch = [delivered(&waiting[0], at(3)), retried(&waiting[1], at(3), at(33))];
    world.store.leave(world.node.id).await.unwrap();
    let fenced = world.backend.fences_nodes();
    assert_eq!(world.settle(&batch, at(4)).await, [!fenced, !fenced]);
    for delivery in &waiting {
        let attempts = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
        assert_eq!(attempts.iter().map(|attempt| attempt.late).collect::<Vec<_>>(), [fenced]);
    }
    if fenced {
        assert_eq!(
            world.lane(ground.destination.id).await,
            waiting,
            "and its successor finds them where they were"
        );
    }
}

pub(crate) async fn a_node_that_never_joined_moves_nothing_where_nodes_are_fenced(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let stranger = NodeId::at(at(0), chance());
    let moved = world.store.settle(stranger, &[delivered(&delivery, at(2))], at(3)).await.unwrap();
    assert_eq!(moved, [!world.backend.fences_nodes()]);
}

// --- Words ---------------------------------------------------------------------------------------------------------

fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

fn deliveries(fetched: Vec<store::FetchedDelivery>) -> Vec<Delivery> {
    fetched.into_iter().map(|row| row.delivery).collect()
}

fn pausing(delivery: &Delivery) -> Settlement {
    Settlement { consequence: Some(Consequence::Pauses), ..rejected(delivery, at(2)) }
}

fn waits_at(delivery: &Delivery, due_at: Timestamp) -> Settled {
    Settled::Waits { position: Position::due(due_at, delivery.id), due_at, spent: delivery.spent + 1 }
}
