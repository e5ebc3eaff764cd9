//! Ordered destinations: one at a time in each track, whatever fails, waits or is cancelled.

use super::{
    PATIENCE,
    bench::{Bench, Wish, bench, schedule},
};
use domain::{
    destination::{OnDeadLetter, Ordering},
    lane::{Explanation, WaitKind},
    testing::audit_entry,
};
use lab::{Reply, Script};
use std::{sync::Mutex, time::Duration};
use store::{Announce, Catalog, Change, DeliveryState, Lanes, Queue};

/// The payloads that were accepted, in the order they came.
fn accepted(bench: &Bench) -> Vec<String> {
    let mut records = bench.receiver.snapshot();
    records.sort_by_key(|record| record.start_us);
    let good = records.iter().filter(|record| record.succeeded());
    good.map(|record| String::from_utf8_lossy(&record.kept.as_ref().unwrap().body).into_owned()).collect()
}

fn sequences(bench: &Bench) -> Vec<u64> {
    let mut records = bench.receiver.snapshot();
    records.sort_by_key(|record| record.start_us);
    records.iter().filter(|record| record.succeeded()).filter_map(|record| record.sequence).collect()
}

#[tokio::test]
async fn a_head_that_fails_is_waited_for() {
    let bench = bench().await;
    let destination = bench
        .destination("a", |it| {
            it.ordering = Ordering::Strict;
            it.settings.retry_policy = schedule(&[1, 1]);
        })
        .await;
    bench.receiver.script("a", Script::InTurn(vec![Reply::status(503), Reply::ok()]));
    for body in ["1", "2", "3", "4"] {
        bench.send(&[destination], body.as_bytes()).await;
    }
    assert!(bench.receiver.wait_for_succeeded(4, PATIENCE).await);
    assert_eq!(accepted(&bench), ["1", "2", "3", "4"]);
    assert_eq!(sequences(&bench), [1, 2, 3, 4]);
    assert_eq!(bench.receiver.max_open("a"), 1);
}

#[tokio::test]
async fn numbers_without_order_wait_for_nobody() {
    let bench = bench().await;
    let destination = bench
        .destination("a", |it| {
            it.sequence = true;
            it.settings.retry_policy = schedule(&[600]);
        })
        .await;
    let replies = vec![Reply::status(500), Reply::ok(), Reply::ok()];
    bench.receiver.script("a", Script::InTurn(replies));
    bench.send(&[destination], b"1").await;
    assert!(bench.receiver.wait_for_ended(1, PATIENCE).await);
    for body in ["2", "3"] {
        bench.send(&[destination], body.as_bytes()).await;
    }
    assert!(bench.receiver.wait_for_succeeded(2, PATIENCE).await);
    let mut sent = sequences(&bench);
    sent.sort();
    assert_eq!(sent, [2, 3], "the first waits for its retry, and is missed by its number");
}

#[tokio::test]
async fn an_attempt_shows_the_number_that_was_sent() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.ordering = Ordering::Strict).await;
    bench.send(&[destination], b"{}").await;
    bench.ended(destination).await;
    let shown = &bench.attempts(destination).await[0].detail.request_headers;
    assert!(shown.contains(&("posthaste-sequence".into(), "1".into())), "{shown:?}");
}

#[tokio::test]
async fn a_blocked_key_hides_no_other_and_says_which_delivery_blocks() {
    let bench = bench().await;
    let destination = bench
        .destination("a", |it| {
            it.ordering = Ordering::Key;
            it.settings.retry_policy = schedule(&[2]);
        })
        .await;
    let failed = Mutex::new(false);
    bench.receiver.script(
        "a",
        Script::custom(move |seen| {
            let first = seen.body.starts_with(b"x") && !std::mem::replace(&mut *failed.lock().unwrap(), true);
            if first { Reply::status(503) } else { Reply::ok() }
        }),
    );
    let key = |key| Wish { key: Some(key), ..Wish::default() };
    for body in ["x1", "x2", "x3"] {
        bench.send_as(destination, body.as_bytes(), key("x")).await;
    }
    bench.receiver.wait_for(1, PATIENCE).await;
    for body in ["y1", "y2"] {
        bench.send_as(destination, body.as_bytes(), key("y")).await;
    }
    assert!(bench.receiver.wait_for_succeeded(2, Duration::from_millis(1_500)).await, "y waits for x");
    assert_eq!(accepted(&bench), ["y1", "y2"]);
    let records = bench.deliveries(destination).await;
    let waiting = records.iter().filter_map(|record| match &record.state {
        DeliveryState::Waiting(delivery) => Some(delivery.as_ref().clone()),
        DeliveryState::Ended { .. } => None,
    });
    let mut waiting: Vec<_> = waiting.collect();
    waiting.sort_by_key(|delivery| delivery.sequence);
    let head = waiting[0].id;
    let said = bench.handle.explain(waiting).await.into_iter();
    let kinds: Vec<_> = said.filter_map(Explanation::waits).map(|why| (why.kind, why.behind)).collect();
    assert_eq!(
        kinds,
        [(WaitKind::Schedule, None), (WaitKind::Order, Some(head)), (WaitKind::Order, Some(head))]
    );
    assert!(bench.receiver.wait_for_succeeded(5, PATIENCE).await);
    assert_eq!(accepted(&bench), ["y1", "y2", "x1", "x2", "x3"]);
}

#[tokio::test]
async fn a_dead_letter_frees_the_next_or_pauses_the_destination() {
    for (on_dead_letter, after) in [(OnDeadLetter::Continue, 1), (OnDeadLetter::Pause, 0)] {
        let bench = bench().await;
        let destination = bench
            .destination("a", |it| {
                it.ordering = Ordering::Strict;
                it.on_dead_letter = on_dead_letter;
                it.settings.retry_policy = schedule(&[]);
            })
            .await;
        bench.receiver.script("a", Script::InTurn(vec![Reply::status(400), Reply::ok()]));
        bench.send(&[destination], b"1").await;
        bench.send(&[destination], b"2").await;
        if on_dead_letter == OnDeadLetter::Continue {
            assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
        } else {
            let paused = || async {
                let switch = bench.store.destination(bench.account, destination).await.unwrap().switch;
                switch.paused_at
            };
            bench.until(paused).await;
        }
        assert_eq!(bench.receiver.succeeded(), after);
        if on_dead_letter == OnDeadLetter::Pause {
            let mut it = bench.store.destination(bench.account, destination).await.unwrap();
            (it.switch.paused_at, it.switch.resumed_at) = (None, Some(bench.now()));
            bench.store.update_destination(&it, &audit_entry()).await.unwrap();
            bench.handle.changed(Change::Destinations(bench.account, vec![destination])).await;
            assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
        }
        assert_eq!(accepted(&bench), ["2"]);
    }
}

#[tokio::test]
async fn what_is_scheduled_takes_its_turn_when_its_time_has_come() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.ordering = Ordering::Strict).await;
    bench.receiver.script("a", Reply::ok());
    let later = Wish { later: Some(Duration::from_secs(1)), ..Wish::default() };
    bench.send_as(destination, b"later", later).await;
    bench.send(&[destination], b"1").await;
    bench.send(&[destination], b"2").await;
    assert!(bench.receiver.wait_for_succeeded(3, PATIENCE).await);
    bench.send(&[destination], b"3").await;
    assert!(bench.receiver.wait_for_succeeded(4, PATIENCE).await);
    assert_eq!(accepted(&bench), ["1", "2", "later", "3"]);
    assert_eq!(sequences(&bench), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_cancelled_head_frees_those_behind_it() {
    let bench = bench().await;
    let destination = bench
        .destination("a", |it| {
            it.ordering = Ordering::Strict;
            it.settings.retry_policy = schedule(&[600]);
        })
        .await;
    bench.receiver.script("a", Script::InTurn(vec![Reply::status(503), Reply::ok()]));
    bench.send(&[destination], b"1").await;
    bench.send(&[destination], b"2").await;
    let head = || async {
        let records = bench.deliveries(destination).await;
        records.into_iter().find_map(|record| match record.state {
            DeliveryState::Waiting(delivery) if delivery.attempts == 1 => Some(*delivery),
            _ => None,
        })
    };
    let head = bench.until(head).await;
    let fact = domain::id::AttemptId::at(bench.now(), 1);
    bench
        .store
        .cancel(bench.account, head.id, fact, bench.now(), &audit_entry())
        .await
        .unwrap()
        .expect("it waits");
    bench.handle.look(&[(destination, head.id, head.position)]).await;
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    assert_eq!(accepted(&bench), ["2"]);
}
