//! Credentials that are asked for at the attempt: they expire, are renewed, and cannot always be had.

use crate::bench::{Bench, bench_with, egress, schedule};
use async_trait::async_trait;
use domain::{delivery::Status, outcome::Outcome, time::Timestamp};
use engine::{
    EngineSettings,
    credentials::{Credential, CredentialError, CredentialSource, Credentials},
    sink::{HttpKind, Sinks},
    transport::HttpTransport,
};
use lab::{Reply, Script};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::Membership;
use tokio::sync::Notify;

/// Gives out tokens that are numbered from 1 on, and keeps the last.
#[derive(Default)]
struct Tokens {
    kept: Mutex<Option<Arc<Credential>>>,
    given: Mutex<u32>,
    /// What becomes of the first ones that are asked for.
    troubles: Mutex<VecDeque<Trouble>>,
    asked: Notify,
}

enum Trouble {
    Fails(CredentialError),
    /// There is no answer.
    Hangs,
}

#[async_trait]
impl CredentialSource for Tokens {
    fn at_hand(&self, _: Timestamp) -> Option<Arc<Credential>> {
        self.kept.lock().unwrap().clone()
    }

    async fn obtain(&self, _: Timestamp) -> Result<Arc<Credential>, CredentialError> {
        self.asked.notify_one();
        let trouble = self.troubles.lock().unwrap().pop_front();
        match trouble {
            Some(Trouble::Fails(error)) => return Err(error),
            Some(Trouble::Hangs) => std::future::pending().await,
            None => {}
        }
        let number = {
            let mut given = self.given.lock().unwrap();
            *given += 1;
            *given
        };
        let mut token = Credential::default();
        token.add("authorization", &format!("Bearer t{number}")).unwrap();
        let token = Arc::new(token);
        *self.kept.lock().unwrap() = Some(Arc::clone(&token));
        Ok(token)
    }

    fn refused(&self, credential: &Credential) -> bool {
        let mut kept = self.kept.lock().unwrap();
        if kept.as_deref().is_some_and(|kept| std::ptr::eq(kept, credential)) {
            *kept = None;
        }
        true
    }
}

async fn token_bench(troubles: impl IntoIterator<Item = Trouble>) -> (Bench, Arc<Tokens>) {
    let troubles = Mutex::new(troubles.into_iter().collect());
    let tokens = Arc::new(Tokens { troubles, ..Tokens::default() });
    let source = Arc::clone(&tokens);
    let asked = move |_: &_, _: &_| Ok(Credentials::Asked(source.clone()));
    let http = HttpKind::new(Arc::new(HttpTransport::new(egress()))).with_credentials(asked);
    let sinks = Sinks::default().with("http", Arc::new(http));
    (bench_with(EngineSettings::default(), Some(sinks)).await, tokens)
}

impl Bench {
    /// The credentials that have come in.
    fn shown(&self) -> Vec<String> {
        let header = |record: lab::Record| {
            let kept = record.kept.unwrap();
            kept.headers.get("authorization").unwrap().to_str().unwrap().to_owned()
        };
        self.receiver.snapshot().into_iter().map(header).collect()
    }
}

#[tokio::test]
async fn one_token_serves_many_attempts() {
    let (bench, _) = token_bench([]).await;
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    for _ in 0..3 {
        bench.send(&[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for_succeeded(3, Duration::from_secs(10)).await);
    assert_eq!(bench.shown(), ["Bearer t1"; 3]);
}

#[tokio::test]
async fn a_token_that_has_expired_is_renewed_once_and_costs_no_retry() {
    let (bench, _) = token_bench([]).await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[])).await;
    bench.receiver.script("a", Script::InTurn(vec![Reply::status(401), Reply::ok()]));
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.outcomes(destination).await, [Outcome::Rejected, Outcome::Success]);
    assert_eq!(bench.shown(), ["Bearer t1", "Bearer t2"]);
    let shown = &bench.attempts(destination).await[0].detail.request_headers;
    assert!(shown.contains(&("authorization".into(), "***".into())), "{shown:?}");
}

#[tokio::test]
async fn a_second_refusal_is_a_rejection() {
    let (bench, _) = token_bench([]).await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[1, 1])).await;
    bench.receiver.script("a", Reply::status(401));
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("rejected")));
    assert_eq!(bench.outcomes(destination).await, [Outcome::Rejected; 2]);
    assert_eq!(bench.shown(), ["Bearer t1", "Bearer t2"]);
}

#[tokio::test]
async fn a_token_that_cannot_be_had_now_is_asked_for_again_and_the_attempt_says_why() {
    let away = CredentialError::Unavailable("the token server is away".into());
    let (bench, _) = token_bench([Trouble::Fails(away)]).await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[1])).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.outcomes(destination).await, [Outcome::TokenError, Outcome::Success]);
    let error = bench.attempts(destination).await.remove(0).detail.error.unwrap();
    assert_eq!(error.message, "no credential could be had: the token server is away");
    assert_eq!(bench.shown(), ["Bearer t1"], "nothing was sent without one");
}

#[tokio::test]
async fn a_token_that_will_never_be_had_makes_a_delivery_undeliverable() {
    let unknown = CredentialError::Refused("the client is unknown".into());
    let (bench, _) = token_bench([Trouble::Fails(unknown)]).await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[1])).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("undeliverable")));
    assert_eq!(bench.receiver.total(), 0);
}

#[tokio::test]
async fn a_token_is_waited_for_as_long_as_the_attempt_may_take() {
    let (bench, _) = token_bench([Trouble::Hangs]).await;
    let destination = bench
        .destination("a", |it| {
            it.settings.timeout = Some(Duration::from_secs(1));
            it.settings.retry_policy = schedule(&[]);
        })
        .await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("exhausted")));
    let error = bench.attempts(destination).await.remove(0).detail.error.unwrap();
    assert_eq!(error.message, "no credential could be had: none came within 1 s");
    assert_eq!(bench.receiver.total(), 0);
}

#[tokio::test]
async fn a_lease_that_ends_while_a_token_is_waited_for_sends_nothing() {
    let (bench, tokens) = token_bench([Trouble::Hangs]).await;
    let destination = bench.destination("a", |_| {}).await;
    bench.send(&[destination], b"{}").await;
    tokens.asked.notified().await;
    bench.store.leave(bench.id).await.unwrap();
    bench.reborn().await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.shown(), ["Bearer t1"], "by the next owner");
    let attempts = bench.attempts(destination).await;
    assert!(attempts.iter().all(|attempt| attempt.node != bench.id), "{attempts:?}");
}
