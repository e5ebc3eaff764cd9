//! Accounts that have their payloads encrypted.

use crate::bench::{Bench, Wish, bench, schedule};
use domain::{
    attempt::Detail,
    delivery::Status,
    id::{DestinationId, EventId},
    limits,
};
use lab::{Reply, Script};
use store::{History, open_detail};

async fn encrypting() -> Bench {
    let bench = bench().await;
    let now = bench.now();
    bench.change_account(|account, _, _| account.with_encryption(true, now)).await;
    bench
}

/// Waits until the receiver has answered so many with a 2xx.
async fn succeeded(bench: &Bench, count: u64) {
    bench.until(|| async { (bench.receiver.succeeded() >= count).then_some(()) }).await;
}

fn bodies(bench: &Bench, event: EventId) -> Vec<bytes::Bytes> {
    let records =
        bench.receiver.snapshot().into_iter().filter(|record| *record.event_id == *event.to_string());
    records.filter_map(|record| record.kept.as_ref().map(|kept| kept.body.clone())).collect()
}

/// What is kept of the attempts of its only delivery: as the store has it, and opened.
async fn kept(bench: &Bench, destination: DestinationId) -> Vec<(Detail, Detail)> {
    let delivery = bench.deliveries(destination).await.remove(0);
    let key = bench.data_key().await;
    let attempts = bench.store.attempts_of_delivery(bench.account, delivery.id, 10).await.unwrap();
    let open = |attempt: store::AttemptRecord| {
        let sealed = attempt.detail.sealed.clone().expect("it is sealed");
        (attempt.detail, open_detail(&sealed, (delivery.id, attempt.id), &key).expect("it opens"))
    };
    attempts.into_iter().map(open).collect()
}

#[tokio::test]
async fn what_is_read_from_the_store_arrives_as_it_was_accepted() {
    let bench = encrypting().await;
    let headers = &[("x-customer", "Ann")];
    for (number, size) in [2, 100, 3_000, limits::CARRIED_BYTES + 1, 1_000_000].into_iter().enumerate() {
        let forwarding =
            |it: &mut domain::destination::Destination| it.forward_headers = vec!["x-customer".into()];
        let destination = bench.destination(&format!("d{number}"), forwarding).await;
        let payload = vec![b'x'; size];
        let event = bench.send_silently_as(destination, &payload, Wish { headers, ..Wish::default() }).await;
        bench.look_at(destination).await;
        assert_eq!(bench.ended(destination).await, (Status::Delivered, None), "{size} bytes");
        assert_eq!(bodies(&bench, event), [payload]);
        let sent = bench.receiver.snapshot().into_iter().rev().find_map(|record| record.kept).unwrap();
        assert_eq!(sent.headers["x-customer"], "Ann", "headers are sealed too, and sent");
    }
}

#[tokio::test]
async fn a_retry_sends_the_same_and_what_is_kept_of_both_is_sealed() {
    let bench = encrypting().await;
    bench.receiver.default_script(Script::custom(|request| match request.attempt {
        1 => Reply::status(500).header("x-answer", "a canary").body("not now: a canary"),
        _ => Reply::ok().body("thanks"),
    }));
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[0, 0])).await;
    let event = bench.send(&[destination], b"a payload").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bodies(&bench, event), [&b"a payload"[..], b"a payload"]);
    let kept = kept(&bench, destination).await;
    assert_eq!(kept.len(), 2);
    for (stored, opened) in &kept {
        assert_eq!(Detail { sealed: None, ..stored.clone() }, Detail::default(), "nothing is beside it");
        assert!(opened.url.ends_with("/d/a"));
    }
    let answer = kept[0].1.response.clone().expect("there was an answer");
    assert_eq!(answer.body.as_deref(), Some("not now: a canary"));
    assert!(answer.headers.contains(&("x-answer".into(), "a canary".into())));
}

#[tokio::test]
async fn what_is_sealed_by_a_key_that_was_made_just_now_is_opened() {
    let bench = encrypting().await;
    let destination = bench.destination("a", |_| {}).await;
    bench.send(&[destination], b"first").await;
    succeeded(&bench, 1).await;
    // Nobody tells the engine.
    let (now, id) = (bench.now(), bench.account);
    bench
        .change_account_silently(|mut account, keys, dice| {
            account.data_key = keys.with_new_data_key(id, &account.data_key, now, dice).unwrap();
            account
        })
        .await;
    let event = bench.send_silently_as(destination, b"second", Wish::default()).await;
    bench.look_at(destination).await;
    succeeded(&bench, 2).await;
    assert_eq!(bodies(&bench, event), [&b"second"[..]]);
}

#[tokio::test]
async fn a_payload_whose_key_is_gone_is_a_dead_letter_that_says_so_and_others_arrive() {
    let bench = encrypting().await;
    let (lost, other) = (bench.destination("lost", |_| {}).await, bench.destination("other", |_| {}).await);
    let (now, id) = (bench.now(), bench.account);
    let first = store::Catalog::account(&*bench.store, id).await.unwrap().data_key;
    bench
        .change_account(|mut account, keys, dice| {
            account.data_key = keys.with_new_data_key(id, &account.data_key, now, dice).unwrap();
            account
        })
        .await;
    bench.send_silently_as(lost, b"a payload", Wish::default()).await;
    bench
        .change_account(|mut account, _, _| {
            account.data_key = first;
            account
        })
        .await;
    bench.send_silently_as(other, b"a payload", Wish::default()).await;
    bench.look_at(lost).await;
    bench.look_at(other).await;
    assert_eq!(bench.ended(lost).await, (Status::DeadLetter, Some("undeliverable")));
    assert_eq!(bench.ended(other).await, (Status::Delivered, None));
    let delivery = bench.deliveries(lost).await.remove(0);
    let attempt = bench.store.attempts_of_delivery(id, delivery.id, 10).await.unwrap().remove(0);
    let message = attempt.detail.error.expect("it says why").message;
    assert!(message.contains("data key 2") && message.contains("gone"), "{message}");
    assert_eq!(bench.receiver.arrivals("lost"), 0);
}
