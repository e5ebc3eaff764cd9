//! Guessing at keys and ingest URLs: slowed down by address, and nobody else notices.

use crate::{
    connections::{Served, served},
    world::{TOKEN, World, request},
};
use api::{TrustedProxies, keys::KeyText};
use domain::{account::KeyKind, limits, testing::audit_entry};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::Catalog as _;

const EVENT: &str = r#"{"type":"a","data":1}"#;

/// A key that is well-formed, and nobody's.
fn fake(world: &World) -> String {
    KeyText::generate(KeyKind::Account, &*world.dice).expose().to_owned()
}

/// A wrong secret with the lookup of a key that exists, and a checksum that fits.
fn forged(world: &World) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = format!("{}{}", &world.key[..16], &fake(world)[16..49]);
    let sum = crc32fast::hash(text.as_bytes()) as usize;
    text.extend((0..6).rev().map(|place| char::from(ALPHABET[sum / 62usize.pow(place) % 62])));
    assert!(KeyText::parse(&text).is_some(), "{text}");
    text
}

#[tokio::test(start_paused = true)]
async fn whoever_guesses_is_told_to_wait_and_who_knows_a_key_is_not() {
    let world = World::new().await;
    for guess in 0..limits::WRONG_CREDENTIALS {
        let answer = match guess % 3 {
            0 => world.publish("/v1/events", &fake(&world), EVENT).await,
            1 => world.get("/v1/events", "phk_short").await,
            _ => world.ingest(&format!("guess{guess}"), &[], "x").await,
        };
        assert_eq!(answer.status, if guess % 3 == 2 { 404 } else { 401 });
    }
    let refused = [
        world.publish("/v1/events", &fake(&world), EVENT).await,
        world.get("/v1/events", "phk_short").await,
        world.ingest("another", &[], "x").await,
    ];
    for answer in refused {
        answer.is(429, "rate_limited");
        assert_eq!(answer.headers["retry-after"], "3");
    }
    // Not a guess, so not counted; and what is right is not refused, though this node has never seen it.
    world.ask(request("GET", "/v1/events", &[], "")).await.is(401, "unauthorized");
    world.publish("/v1/events", &world.key, EVENT).await.accepted("queued", 1);
    world.ingest(TOKEN, &[], "x").await.accepted("queued", 1);
    tokio::time::advance(Duration::from_secs(3)).await;
    world.get("/v1/events", "phk_short").await.is(401, "unauthorized");
    world.get("/v1/events", "phk_short").await.is(429, "rate_limited");
}

#[tokio::test(start_paused = true)]
async fn a_guess_at_a_key_that_exists_is_answered_like_any_other() {
    let world = World::new().await;
    world.publish("/v1/events", &world.key, EVENT).await.accepted("queued", 1);
    let (existing, unknown) = (forged(&world), fake(&world));
    for _ in 0..limits::WRONG_CREDENTIALS {
        let [one, other] = [
            world.publish("/v1/events", &existing, EVENT).await,
            world.publish("/v1/events", &unknown, EVENT).await,
        ];
        assert_eq!((one.status, &one.body["detail"]), (other.status, &other.body["detail"]));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    world.publish("/v1/events", &existing, EVENT).await.is(429, "rate_limited");
}

/// How long an answer takes must not tell either: both cost a read, and both none when they are asked for again at once.
#[tokio::test(start_paused = true)]
async fn a_guess_at_a_key_that_is_in_use_costs_what_any_other_does() {
    let world = World::new().await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    world.store.interrupt(move |call| {
        counted.fetch_add(usize::from(call == "api_key_by_lookup"), Ordering::Relaxed);
        Ok(())
    });
    let (existing, unknown) = (forged(&world), fake(&world));
    for _ in 0..3 {
        // Its owner has just used it.
        world.publish("/v1/events", &world.key, EVENT).await.accepted("queued", 1);
        let mut cost = Vec::new();
        for guess in [&existing, &unknown, &existing, &unknown] {
            let before = reads.load(Ordering::Relaxed);
            world.publish("/v1/events", guess, EVENT).await.is(401, "unauthorized");
            cost.push(reads.load(Ordering::Relaxed) - before);
        }
        assert_eq!(cost, [1, 1, 0, 0]);
        let before = reads.load(Ordering::Relaxed);
        world.publish("/v1/events", &world.key, EVENT).await.accepted("queued", 1);
        assert_eq!(reads.load(Ordering::Relaxed), before, "the owner does not pay for it");
        tokio::time::advance(limits::CREDENTIAL_FRESH + limits::CREDENTIAL_OVERLAP).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_unknown_is_not_looked_up_for_an_address_that_asks_for_too_much_of_it() {
    let world = World::new().await;
    world.publish("/v1/events", &world.key, EVENT).await.accepted("queued", 1);
    for _ in 0..limits::UNKNOWN_CREDENTIALS_PER_SECOND * 2 {
        world.publish("/v1/events", &fake(&world), EVENT).await;
    }
    let (unseen, _) = world.new_key(KeyKind::Account, None).await;
    world.publish("/v1/events", &unseen, EVENT).await.is(429, "rate_limited");
    tokio::time::advance(limits::CREDENTIAL_FRESH * 2).await;
    for _ in 0..limits::UNKNOWN_CREDENTIALS_PER_SECOND * 2 {
        world.publish("/v1/events", &fake(&world), EVENT).await;
    }
    // Long seen, and to be read again.
    world.publish("/v1/events", &world.key, EVENT).await.accepted("queued", 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    world.publish("/v1/events", &unseen, EVENT).await.accepted("queued", 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_revoked_is_no_guess() {
    let world = World::new().await;
    world
        .store
        .revoke_api_key(Some(world.account), world.key_id, crate::world::NOW, &audit_entry())
        .await
        .unwrap();
    for _ in 0..=limits::WRONG_CREDENTIALS {
        world.publish("/v1/events", &world.key, EVENT).await.is(401, "unauthorized");
    }
}

/// Guesses once over a real connection, with these headers; the status of the answer.
async fn guess(served: &Served, headers: &str) -> String {
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer phk_short\r\n{headers}\r\n"
    );
    served.exchange(request.as_bytes()).await[9..12].to_owned()
}

async fn guess_often(served: &Served, headers: &str) {
    for _ in 0..limits::WRONG_CREDENTIALS {
        assert_eq!(guess(served, headers).await, "401");
    }
    assert_eq!(guess(served, headers).await, "429");
}

#[tokio::test]
async fn who_writes_another_address_into_its_request_is_the_same_one() {
    let served = served(|_| {}).await;
    guess_often(&served, "").await;
    assert_eq!(guess(&served, "x-forwarded-for: 198.51.100.7\r\n").await, "429");
    assert_eq!(guess(&served, "forwarded: for=198.51.100.7\r\n").await, "429");
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_counts_for_itself() {
    let proxies = TrustedProxies::new(vec!["127.0.0.0/8".parse().unwrap()]);
    let served = served(|config| config.trusted_proxies = proxies).await;
    guess_often(&served, "x-forwarded-for: 198.51.100.7\r\n").await;
    // It cannot hide behind what it writes itself …
    assert_eq!(guess(&served, "x-forwarded-for: 203.0.113.1, 198.51.100.7\r\n").await, "429");
    assert_eq!(guess(&served, "x-forwarded-for: 198.51.100.7, 127.0.0.9\r\n").await, "429");
    // … nor does it hurt the others.
    assert_eq!(guess(&served, "x-forwarded-for: 198.51.100.8\r\n").await, "401");
    assert_eq!(guess(&served, "forwarded: for=198.51.100.9\r\n").await, "401");
    assert_eq!(guess(&served, "").await, "401");
}

#[tokio::test]
async fn a_trusted_proxy_may_have_every_connection() {
    let proxies = TrustedProxies::new(vec!["127.0.0.1/32".parse().unwrap()]);
    let served = served(|config| {
        config.connections = 4;
        config.trusted_proxies = proxies;
    })
    .await;
    let _others = [served.connect().await, served.connect().await, served.connect().await];
    let answer = served.exchange(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
