//! Defaults of the account and of the installation: obeyed by lanes at work, from the moment they change.

use crate::{
    PATIENCE,
    bench::{Bench, bench, bench_with, schedule},
};
use domain::{
    delivery::Status,
    delivery_settings::DeliverySettings,
    destination::Destination,
    id::DestinationId,
    lane::{Explanation, WaitKind},
    retry::{RetrySettings, RetryStatus},
    testing::audit_entry,
};
use engine::EngineSettings;
use lab::Reply;
use std::time::Duration;
use store::{Announce, Catalog, Change, DeliveryState, Lanes};

impl Bench {
    /// Gives the account these defaults, and says nothing to anybody.
    pub(crate) async fn have_defaults(&self, defaults: DeliverySettings) {
        let account = self.store.account(self.account).await.unwrap();
        self.store.update_account(&account.with_defaults(defaults), &audit_entry()).await.unwrap();
    }

    /// The same, and tells the engine as the API does.
    async fn change_defaults(&self, defaults: DeliverySettings) {
        self.have_defaults(defaults).await;
        self.handle.changed(Change::Defaults(self.account)).await;
    }

    /// Why every delivery of this lane ended, the newest first, once none waits.
    async fn endings(&self, destination: DestinationId) -> Vec<(Status, Option<&'static str>)> {
        self.until(|| async {
            let rows = self.deliveries(destination).await;
            let ending = |row: &store::DeliveryRecord| match &row.state {
                DeliveryState::Ended { ending, .. } => Some((ending.status(), ending.reason())),
                DeliveryState::Waiting(_) => None,
            };
            rows.iter().map(ending).collect()
        })
        .await
    }

    /// Waits until a delivery waits for a slot.
    pub(crate) async fn is_full(&self, destination: DestinationId) {
        let full = || async {
            let rows = self.deliveries(destination).await.into_iter();
            let waiting = rows.filter_map(|row| match row.state {
                DeliveryState::Waiting(delivery) => Some(*delivery),
                DeliveryState::Ended { .. } => None,
            });
            let said = self.handle.explain(waiting.collect()).await;
            let mut waits = said.into_iter().filter_map(Explanation::waits);
            waits.any(|why| why.kind == WaitKind::Concurrency).then_some(())
        };
        self.until(full).await;
    }
}

pub(crate) fn slots(max_concurrency: u32) -> DeliverySettings {
    DeliverySettings { max_concurrency: Some(max_concurrency), ..DeliverySettings::default() }
}

#[tokio::test]
async fn a_changed_limit_of_the_account_is_obeyed_by_a_lane_at_work() {
    let bench = bench().await;
    bench.have_defaults(slots(1)).await;
    let silent = bench.destination("silent", |_| {}).await;
    let own = bench.destination("own", |it| it.settings.max_concurrency = Some(2)).await;
    for (destination, name) in [(silent, "silent"), (own, "own")] {
        bench.receiver.script(name, Reply::Hang);
        for _ in 0..5 {
            bench.send(&[destination], b"{}").await;
        }
        bench.is_full(destination).await;
    }
    assert_eq!((bench.receiver.max_open("silent"), bench.receiver.max_open("own")), (1, 2));

    bench.change_defaults(slots(3)).await;
    assert!(bench.receiver.wait_for_arrivals("silent", 3, PATIENCE).await);
    bench.is_full(silent).await;
    assert_eq!(bench.receiver.max_open("silent"), 3);
    assert_eq!(bench.receiver.max_open("own"), 2, "it has said so itself");

    bench.change_defaults(DeliverySettings::default()).await;
    assert!(bench.receiver.wait_for_arrivals("silent", 5, PATIENCE).await);
}

#[tokio::test]
async fn changed_retries_and_statuses_of_the_account_are_obeyed_by_a_lane_at_work() {
    let bench = bench().await;
    let destination = bench.destination("a", |_| {}).await;
    bench.receiver.script("a", Reply::status(404));
    bench.send(&[destination], b"{}").await;
    let rejected = (Status::DeadLetter, Some("rejected"));
    assert_eq!(bench.endings(destination).await, [rejected]);

    let statuses = |status| RetrySettings { retry_statuses: Some(vec![status]), ..schedule(&[1]) };
    let all =
        DeliverySettings { retry_policy: statuses(RetryStatus::Class(4)), ..DeliverySettings::default() };
    bench.change_defaults(all).await;
    bench.send(&[destination], b"{}").await;
    let exhausted = (Status::DeadLetter, Some("exhausted"));
    assert_eq!(bench.endings(destination).await, [exhausted, rejected]);
    let records = bench.receiver.snapshot();
    assert_eq!(records.iter().map(|record| record.attempt).collect::<Vec<_>>(), [1, 1, 2]);

    let other =
        DeliverySettings { retry_policy: statuses(RetryStatus::Code(302)), ..DeliverySettings::default() };
    bench.change_defaults(other).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.endings(destination).await, [rejected, exhausted, rejected]);
}

#[tokio::test]
async fn a_changed_timeout_of_the_account_is_obeyed_by_a_lane_at_work() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[])).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.endings(destination).await, [(Status::Delivered, None)]);
    bench.receiver.script("a", Reply::Hang);
    let timeout = Some(Duration::from_secs(1));
    bench.change_defaults(DeliverySettings { timeout, ..DeliverySettings::default() }).await;
    bench.send(&[destination], b"{}").await;
    // With the default of the product it would be under way for as long as the bench waits.
    assert_eq!(bench.endings(destination).await[0], (Status::DeadLetter, Some("exhausted")));
    // The receiver sees the connection close a moment after the ending is durable.
    assert!(bench.receiver.wait_for_ended(2, PATIENCE).await);
    let record = bench.receiver.snapshot().pop().unwrap();
    let open = record.end_us.unwrap() - record.start_us;
    assert!((900_000..3_000_000).contains(&open), "open for {open} µs");
}

#[tokio::test]
async fn under_4xx_a_429_holds_and_a_410_disables_as_always() {
    let bench = bench().await;
    // Without a retry to spend, only a hold brings the next attempt.
    let mut retry_policy = schedule(&[]);
    retry_policy.retry_statuses = Some(vec![RetryStatus::Class(4)]);
    bench.have_defaults(DeliverySettings { retry_policy, ..DeliverySettings::default() }).await;
    let throttling = bench.destination("throttling", |_| {}).await;
    bench.receiver.script("throttling", lab::Script::InTurn(vec![Reply::throttled(1), Reply::ok()]));
    bench.send(&[throttling], b"{}").await;
    assert_eq!(bench.endings(throttling).await, [(Status::Delivered, None)]);

    let gone = bench.destination("gone", |_| {}).await;
    bench.receiver.script("gone", Reply::status(410));
    bench.send(&[gone], b"{}").await;
    assert_eq!(bench.endings(gone).await, [(Status::DeadLetter, Some("gone"))]);
    let Destination { switch, .. } = bench.store.destination(bench.account, gone).await.unwrap();
    assert!(switch.disabled.is_some());
}

#[tokio::test]
async fn the_installations_defaults_hold_where_nobody_else_says_anything() {
    let settings = EngineSettings { defaults: slots(1), ..EngineSettings::default() };
    let bench = bench_with(settings, None).await;
    let destination = bench.destination("a", |_| {}).await;
    bench.receiver.script("a", Reply::Hang);
    for _ in 0..3 {
        bench.send(&[destination], b"{}").await;
    }
    bench.is_full(destination).await;
    assert_eq!(bench.receiver.max_open("a"), 1);
    bench.change_defaults(slots(2)).await;
    assert!(bench.receiver.wait_for_arrivals("a", 2, PATIENCE).await);
    bench.is_full(destination).await;
    assert_eq!(bench.receiver.max_open("a"), 2);
}
