//! Tests that are asked for on one node and made by another.

use crate::fixtures::*;
use domain::{
    attempt::{Attempt, Detail},
    event::EventType,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    lane::{WaitKind, WaitingFor},
    outcome::Outcome,
};
use std::time::Duration;
use store::{AskedTest, TestAnswer, TestProgress};

pub(crate) async fn a_test_is_taken_once_by_the_owner_of_its_shard(world: World) {
    let mut tests: Vec<AskedTest> = (0..3).map(|_| asked()).collect();
    tests.sort_by_key(|test| test.id);
    for test in &tests {
        world.store.ask_test(test, at(1)).await.expect("it is asked for");
    }
    let shards: Vec<u16> = tests.iter().map(|test| test.destination_id.shard()).collect();
    let others: Vec<u16> = (0..1024).filter(|shard| !shards.contains(shard)).collect();
    assert_eq!(world.take_tests(&others, 9).await, []);
    assert_eq!(world.take_tests(&[], 9).await, []);
    assert_eq!(world.progress(&tests).await, vec![Some(TestProgress::Asked); 3]);
    assert_eq!(world.take_tests(&shards, 2).await, tests[..2]);
    assert_eq!(world.take_tests(&shards, 9).await, tests[2..]);
    assert_eq!(world.take_tests(&shards, 9).await, []);
    assert_eq!(world.progress(&tests).await, vec![Some(TestProgress::Taken); 3]);
}

pub(crate) async fn the_answer_to_a_test_is_read_as_it_was_given(world: World) {
    let attempt = Attempt {
        id: AttemptId::at(at(2), chance()),
        delivery_id: DeliveryId::at(at(1), chance()),
        number: 1,
        started_at: at(2),
        duration: Duration::from_micros(1_234_567),
        outcome: Outcome::ServerError,
        http_status: Some(503),
        detail: Detail { url: "https://example.com/ü".into(), ..Detail::default() },
        node: world.node.id,
    };
    let waits = WaitingFor {
        kind: WaitKind::Breaker,
        since: at(1),
        until: Some(at(60)),
        behind: None,
        detail: "the destination is unwell".into(),
    };
    for answer in [TestAnswer::Attempted(Box::new(attempt)), TestAnswer::Waits(waits), TestAnswer::Abandoned]
    {
        let test = asked();
        world.store.ask_test(&test, at(1)).await.expect("it is asked for");
        world.take_tests(&[test.destination_id.shard()], 9).await;
        world.store.answer_test(test.id, &answer).await.expect("it is answered");
        assert_eq!(world.progress(&[test]).await, [Some(TestProgress::Answered(answer))]);
    }
}

pub(crate) async fn a_test_that_was_forgotten_stays_so(world: World) {
    let (test, other) = (asked(), asked());
    for test in [&test, &other] {
        world.store.ask_test(test, at(1)).await.expect("it is asked for");
    }
    world.store.forget_test(test.id).await.expect("it is forgotten");
    world.store.forget_test(test.id).await.expect("once more is fine");
    world.store.answer_test(test.id, &TestAnswer::Abandoned).await.expect("it comes to nothing");
    assert_eq!(world.progress(&[test.clone(), other]).await, [None, Some(TestProgress::Asked)]);
    assert_eq!(world.take_tests(&[test.destination_id.shard()], 9).await, []);
}

pub(crate) async fn what_nobody_waits_for_any_more_is_forgotten(world: World) {
    let (old, young) = (asked(), asked());
    world.store.ask_test(&old, at(1)).await.expect("it is asked for");
    world.store.ask_test(&young, at(2)).await.expect("it is asked for");
    world.store.forget_tests_before(at(2)).await.expect("the old one is forgotten");
    assert_eq!(world.progress(&[old, young]).await, [None, Some(TestProgress::Asked)]);
}

fn asked() -> AskedTest {
    AskedTest {
        id: DeliveryId::at(at(1), chance()),
        destination_id: DestinationId::at(at(0), chance()),
        account_id: AccountId::at(at(0), chance()),
        event_id: EventId::at(at(1), chance()),
        event_type: EventType::of_provider("test"),
        payload: "{\"greeting\":\"hallo, Jürgen\"}".into(),
        received_at: at(1),
        forced: true,
    }
}

impl World {
    async fn take_tests(&self, shards: &[u16], limit: usize) -> Vec<AskedTest> {
        self.store.take_tests(shards, limit).await.expect("they are taken")
    }

    async fn progress(&self, tests: &[AskedTest]) -> Vec<Option<TestProgress>> {
        let ids: Vec<DeliveryId> = tests.iter().map(|test| test.id).collect();
        self.store.tests(&ids).await.expect("they are read")
    }
}
