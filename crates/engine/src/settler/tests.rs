//! When a flush begins and what is in it, by a clock that stands still.

use super::*;
use domain::{
    attempt::{Attempt, Detail},
    id::AttemptId,
    outcome::{DeadReason, Outcome},
    testing,
    time::Timestamp,
};
use std::time::Duration;
use store::Consequence;

const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

/// A result of the destination with this number, and the delivery's own number.
fn result(destination: u128, number: u128) -> PendingSettlement {
    let event = testing::event(AccountId::at(NOW, 1), NOW, number);
    let destination = DestinationId::at(NOW, destination);
    let delivery = testing::delivery(DeliveryId::at(NOW, number), &event, destination);
    let fact = Fact::Attempted(Box::new(Attempt {
        id: AttemptId::at(NOW, number),
        delivery_id: delivery.id,
        number: 1,
        started_at: NOW,
        duration: Duration::ZERO,
        outcome: Outcome::Success,
        http_status: Some(200),
        detail: Detail::default(),
        node: NodeId::MIN,
    }));
    let settled = Settled::Ended(Ending::Delivered);
    let settlement = Settlement { shard: destination.shard(), delivery, fact, settled, consequence: None };
    PendingSettlement { settlement, gate_word: None, hurry: false }
}

fn ending(number: u128) -> PendingSettlement {
    let mut pending = result(1, number);
    let ending = Ending::DeadLetter(DeadReason::DestinationDisabled);
    let id = AttemptId::at(NOW, number);
    pending.settlement.fact = Fact::EndedWithout { id, at: NOW, node: NodeId::MIN, ending };
    pending.settlement.settled = Settled::Ended(ending);
    pending
}

/// The next batch, and how long it was waited for.
async fn next_batch(queue: &mut SettlerQueue) -> (SettlementBatch, Duration) {
    let first = queue.first().await.expect("something waits");
    let begun = Instant::now();
    queue.gather(&first, begun).await;
    (queue.batch(first).by_destination(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn results_that_nobody_waits_for_are_written_with_those_that_come_soon_after() {
    let (handle, mut queue) = channels();
    handle.finished(result(1, 1));
    let later = async {
        tokio::time::sleep(limits::SETTLE_WAIT / 2).await;
        handle.finished(result(1, 2));
        std::future::pending::<()>().await
    };
    let (batch, waited) = tokio::select! {
        batch = next_batch(&mut queue) => batch,
        () = later => unreachable!("it never ends"),
    };
    assert_eq!((batch.settlements.len(), waited), (2, limits::SETTLE_WAIT));
}

#[tokio::test(start_paused = true)]
async fn whole_batches_are_written_one_after_the_other_without_a_pause() {
    let (handle, mut queue) = channels();
    (0..2 * limits::SETTLE_BATCH + 1).for_each(|n| handle.finished(result(1, n as u128)));
    for _ in 0..2 {
        let (batch, waited) = next_batch(&mut queue).await;
        assert_eq!((batch.settlements.len(), waited), (limits::SETTLE_BATCH, Duration::ZERO));
    }
    assert_eq!(next_batch(&mut queue).await.1, limits::SETTLE_WAIT, "the rest is none");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_becomes_full_is_not_waited_with() {
    let (handle, mut queue) = channels();
    handle.finished(result(1, 1));
    let first = queue.first().await.expect("something waits");
    let begun = Instant::now();
    let fill = async {
        tokio::time::sleep(limits::SETTLE_WAIT / 4).await;
        (1..limits::SETTLE_BATCH).for_each(|n| handle.finished(result(1, n as u128)));
    };
    tokio::join!(queue.gather(&first, begun), fill);
    assert_eq!(begun.elapsed(), limits::SETTLE_WAIT / 4);
    assert_eq!(queue.batch(first).settlements.len(), limits::SETTLE_BATCH);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_waits_for_is_written_at_once_with_all_that_is_there() {
    let hurried = |mut it: PendingSettlement| {
        it.hurry = true;
        it
    };
    let disables = |mut it: PendingSettlement| {
        it.settlement.consequence = Some(Consequence::Disables);
        it
    };
    for last in [hurried(result(2, 2)), disables(result(2, 2))] {
        let (handle, mut queue) = channels();
        handle.finished(result(1, 1));
        handle.finished(last);
        let (batch, waited) = next_batch(&mut queue).await;
        assert_eq!((batch.settlements.len(), waited), (2, Duration::ZERO));
        handle.finished(result(1, 3));
        assert_eq!(next_batch(&mut queue).await.1, limits::SETTLE_WAIT, "and those after it wait again");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_hurried_and_finds_no_room_has_the_next_batch_written_at_once() {
    let (handle, mut queue) = channels();
    (0..limits::SETTLE_BATCH).for_each(|n| handle.finished(result(1, n as u128)));
    handle.finished(PendingSettlement { hurry: true, ..result(1, 1_000) });
    for expected in [limits::SETTLE_BATCH, 1] {
        let (batch, waited) = next_batch(&mut queue).await;
        assert_eq!((batch.settlements.len(), waited), (expected, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn endings_go_by_the_interval_and_fill_up_what_results_leave() {
    let (handle, mut queue) = channels();
    (0..2 * limits::SETTLE_BATCH).for_each(|n| handle.ended(ending(n as u128)));
    let first = queue.first().await.expect("something waits");
    let begun = Instant::now();
    queue.gather(&first, begun + limits::BATCH_INTERVAL_MIN).await;
    assert_eq!(begun.elapsed(), limits::BATCH_INTERVAL_MIN, "however many there are");
    handle.finished(result(1, 9_999));
    let batch = queue.batch(first);
    assert_eq!((batch.settlements.len(), batch.results), (limits::SETTLE_BATCH, 1));
}

#[tokio::test(start_paused = true)]
async fn results_of_a_destination_stand_side_by_side_and_in_their_order() {
    let (handle, mut queue) = channels();
    for number in 0..30 {
        handle.finished(result(number % 3, number));
    }
    let (batch, _) = next_batch(&mut queue).await;
    let of = |settlement: &Settlement| settlement.delivery.destination_id;
    let groups: Vec<&[Settlement]> = batch.settlements.chunk_by(|one, next| of(one) == of(next)).collect();
    assert_eq!(groups.len(), 3);
    for group in groups {
        assert_eq!(group.len(), 10);
        assert!(group.is_sorted_by_key(|settlement| settlement.delivery.id));
    }
}
