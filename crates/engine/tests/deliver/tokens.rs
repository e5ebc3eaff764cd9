//! OAuth 2.0 with a real endpoint: tokens are asked for over the wire, kept, refused and not to be had.

use crate::bench::{Bench, bench, schedule};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    attempt::AttemptError,
    delivery::Status,
    destination::{Auth, Destination},
    id::DestinationId,
    oauth2::{ClientAuth, OAuth2Client},
    outcome::Outcome,
    testing::audit_entry,
};
use lab::{KeptRequest, Latency, Reply, Script};
use std::{sync::Arc, time::Duration};
use store::{Announce, Catalog, Change, DeliveryState, Lanes};

const PATIENCE: Duration = Duration::from_secs(10);

/// A token of its own for each request, good for so long.
fn tokens(expires_in: u32) -> Script {
    Script::custom(move |request| token(request.arrival, expires_in))
}

fn token(number: u64, expires_in: u32) -> Reply {
    let body =
        format!(r#"{{"access_token":"token-{number}","token_type":"Bearer","expires_in":{expires_in}}}"#);
    Reply::ok().body(body)
}

impl Bench {
    /// One that asks for its tokens at the receiver's path `/d/token`.
    async fn tokened(
        &self,
        name: &str,
        change: impl FnOnce(&mut Destination, &mut OAuth2Client),
    ) -> DestinationId {
        let token_url = self.receiver.url("/d/token");
        self.destination_sealing(name, |it, seal| {
            let mut client = OAuth2Client {
                token_url,
                client_id: "posthaste".into(),
                client_secret: seal("hunter2"),
                scope: Some("hooks:write".into()),
                audience: None,
                client_auth: ClientAuth::Basic,
                params: vec![("resource".into(), seal("urn:hooks"))],
            };
            change(it, &mut client);
            it.auth = Auth::OAuth2(client);
        })
        .await
    }

    fn asked(&self) -> Vec<Arc<KeptRequest>> {
        self.receiver.records("token").into_iter().filter_map(|record| record.kept).collect()
    }

    /// The credentials with which the destination's requests have come.
    fn came_with(&self, name: &str) -> Vec<String> {
        let records = self.receiver.records(name).into_iter().filter_map(|record| record.kept);
        records.map(|kept| kept.headers["authorization"].to_str().unwrap().to_owned()).collect()
    }

    async fn all_ended(&self, destination: DestinationId, count: usize) -> Vec<Option<&'static str>> {
        self.until(|| async {
            let rows = self.deliveries(destination).await;
            let endings: Vec<_> = rows
                .iter()
                .filter_map(|row| match &row.state {
                    DeliveryState::Ended { ending, .. } => Some(ending.reason()),
                    DeliveryState::Waiting(_) => None,
                })
                .collect();
            (endings.len() == count).then_some(endings)
        })
        .await
    }

    async fn first_error(&self, destination: DestinationId) -> AttemptError {
        self.attempts(destination).await.remove(0).detail.error.expect("there was no answer")
    }
}

#[tokio::test]
async fn many_deliveries_at_once_ask_for_one_token() {
    let bench = bench().await;
    let slow = Script::custom(|request| {
        token(request.arrival, 3600).after(Latency::Fixed(Duration::from_millis(100)))
    });
    bench.receiver.script("token", slow);
    let destination = bench.tokened("a", |it, _| it.settings.max_concurrency = Some(20)).await;
    for _ in 0..40 {
        bench.send(&[destination], b"{}").await;
    }
    assert_eq!(bench.all_ended(destination, 40).await, [None; 40]);
    assert_eq!(bench.came_with("a"), vec!["Bearer token-1"; 40]);
    let asked = bench.asked();
    assert_eq!(asked.len(), 1);
    let pair = format!("Basic {}", STANDARD.encode("posthaste:hunter2"));
    assert_eq!(asked[0].headers["authorization"].to_str().unwrap(), pair);
    assert_eq!(asked[0].headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(&asked[0].body[..], b"grant_type=client_credentials&scope=hooks%3Awrite&resource=urn%3Ahooks");
    assert!(!asked[0].headers.contains_key("webhook-id"));
    let shown = &bench.attempts(destination).await[0].detail.request_headers;
    assert!(shown.contains(&("authorization".into(), "***".into())), "{shown:?}");
}

#[tokio::test]
async fn a_secret_may_be_shown_in_the_form() {
    let bench = bench().await;
    bench.receiver.script("token", tokens(3600));
    let destination = bench.tokened("a", |_, client| client.client_auth = ClientAuth::Post).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    let asked = bench.asked().remove(0);
    assert!(!asked.headers.contains_key("authorization"));
    assert!(asked.body.ends_with(b"&client_id=posthaste&client_secret=hunter2"), "{:?}", asked.body);
}

#[tokio::test]
async fn a_token_that_is_over_is_not_sent() {
    let bench = bench().await;
    bench.receiver.script("token", tokens(0));
    let destination = bench.tokened("a", |it, _| it.settings.max_concurrency = Some(1)).await;
    for _ in 0..3 {
        bench.send(&[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for_succeeded_at("a", 3, PATIENCE).await);
    assert_eq!(bench.came_with("a"), ["Bearer token-1", "Bearer token-2", "Bearer token-3"]);
}

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced_once_and_costs_no_retry() {
    let bench = bench().await;
    bench.receiver.script("token", tokens(3600));
    bench.receiver.script("a", Script::InTurn(vec![Reply::status(401), Reply::ok()]));
    let destination = bench.tokened("a", |it, _| it.settings.retry_policy = schedule(&[])).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.outcomes(destination).await, [Outcome::Rejected, Outcome::Success]);
    assert_eq!(bench.came_with("a"), ["Bearer token-1", "Bearer token-2"]);
}

#[tokio::test]
async fn a_destination_that_takes_no_token_does_not_cost_its_endpoint_a_request_for_each_delivery() {
    let bench = bench().await;
    bench.receiver.script("token", tokens(3600));
    bench.receiver.script("a", Reply::status(401));
    let destination = bench.tokened("a", |it, _| it.settings.max_concurrency = Some(2)).await;
    for _ in 0..10 {
        bench.send(&[destination], b"{}").await;
    }
    assert_eq!(bench.all_ended(destination, 10).await, [Some("rejected"); 10]);
    assert_eq!(
        bench.receiver.arrivals("a"),
        20,
        "each was tried with the token that was there, and once more"
    );
    assert_eq!(bench.asked().len(), 2);
}

#[tokio::test]
async fn an_endpoint_that_is_away_is_not_the_destinations_fault() {
    let bench = bench().await;
    bench.receiver.script("token", Reply::status(503).body("hunter2"));
    let destination = bench.tokened("a", |it, _| it.settings.retry_policy = schedule(&[])).await;
    for _ in 0..30 {
        bench.send(&[destination], b"{}").await;
    }
    assert_eq!(bench.all_ended(destination, 30).await, [Some("exhausted"); 30]);
    assert!(bench.outcomes(destination).await.iter().all(|outcome| *outcome == Outcome::TokenError));
    let error = bench.first_error(destination).await;
    let said = "no credential could be had: the token endpoint answered 503";
    assert_eq!((&*error.code, &*error.message), ("token_error", said));
    assert_eq!(bench.receiver.arrivals("a"), 0, "nothing is sent without a token");
    let view = bench.handle.views(&[destination]).await.remove(0).unwrap();
    assert_eq!(view.hold, None, "as many failures of its own would have opened the breaker");
    assert!((1..=3).contains(&bench.asked().len()), "{} times", bench.asked().len());
}

#[tokio::test]
async fn an_endpoint_that_comes_back_is_asked_again() {
    for trouble in
        [Reply::status(500), Reply::status(429), Reply::status(302), Reply::Close, Reply::ok().body("<html>")]
    {
        let bench = bench().await;
        bench.receiver.script("token", Script::InTurn(vec![trouble.clone(), token(2, 3600)]));
        let destination = bench.tokened("a", |it, _| it.settings.retry_policy = schedule(&[2])).await;
        bench.send(&[destination], b"{}").await;
        assert_eq!(bench.ended(destination).await, (Status::Delivered, None), "{trouble:?}");
        assert_eq!(bench.outcomes(destination).await, [Outcome::TokenError, Outcome::Success]);
        assert_eq!(bench.came_with("a"), ["Bearer token-2"]);
    }
}

#[tokio::test]
async fn what_is_said_of_an_endpoint_that_was_not_reached_names_no_address() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bench = bench().await;
    let once = |it: &mut Destination| it.settings.retry_policy = schedule(&[]);
    let refused = bench
        .tokened("a", |it, client| {
            once(it);
            client.token_url = format!("http://{nobody}/token");
        })
        .await;
    bench.send(&[refused], b"{}").await;
    assert_eq!(bench.ended(refused).await, (Status::DeadLetter, Some("exhausted")));
    let error = bench.first_error(refused).await;
    assert_eq!(error.message, "no credential could be had: the token endpoint: it could not be reached");
    assert_eq!((&*error.code, error.kind), ("token_error", None));

    let long = format!(r#"{{"access_token":"t","padding":"{}"}}"#, "x".repeat(70_000));
    bench.receiver.script("token", Reply::ok().body(long));
    let long = bench.tokened("b", |it, _| once(it)).await;
    bench.send(&[long], b"{}").await;
    bench.ended(long).await;
    let error = bench.first_error(long).await;
    assert!(error.message.ends_with("is cut off, or longer than 65536 bytes"), "{}", error.message);
}

#[tokio::test]
async fn a_client_that_is_refused_makes_deliveries_undeliverable_without_asking_for_each() {
    let bench = bench().await;
    let refusal = r#"{"error":"invalid_client","error_description":"unknown secret hunter2"}"#;
    bench.receiver.script("token", Reply::status(401).body(refusal));
    let destination = bench.tokened("a", |it, _| it.settings.retry_policy = schedule(&[1, 1])).await;
    for _ in 0..20 {
        bench.send(&[destination], b"{}").await;
    }
    assert_eq!(bench.all_ended(destination, 20).await, [Some("undeliverable"); 20]);
    let error = bench.first_error(destination).await;
    let said = "no credential can be had: the token endpoint answered 401, `invalid_client`";
    assert_eq!((&*error.code, &*error.message), ("undeliverable", said));
    assert_eq!((bench.asked().len(), bench.receiver.arrivals("a")), (1, 0));
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_any_more_is_there_for_the_next_attempt() {
    let bench = bench().await;
    let slow = token(1, 3600).after(Latency::Fixed(Duration::from_millis(1_500)));
    bench.receiver.script("token", slow);
    let destination = bench
        .tokened("a", |it, _| {
            it.settings.timeout = Some(Duration::from_secs(1));
            it.settings.retry_policy = schedule(&[1]);
        })
        .await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.outcomes(destination).await, [Outcome::TokenError, Outcome::Success]);
    let error = bench.first_error(destination).await;
    assert_eq!(error.message, "no credential could be had: none came within 1 s");
    assert_eq!(bench.asked().len(), 1);
}

#[tokio::test]
async fn a_token_outlives_a_change_of_its_destination_but_not_of_its_credentials() {
    let bench = bench().await;
    bench.receiver.script("token", tokens(3600));
    let destination = bench.tokened("a", |_, _| {}).await;
    let sent = async |count| {
        bench.send(&[destination], b"{}").await;
        assert!(bench.receiver.wait_for_succeeded_at("a", count, PATIENCE).await);
    };
    let change = async |change: &dyn Fn(&mut Destination)| {
        let mut row = bench.store.destination(bench.account, destination).await.unwrap();
        change(&mut row);
        bench.store.update_destination(&row, &audit_entry()).await.unwrap();
        bench.handle.changed(Change::Destinations(bench.account, vec![destination])).await;
    };
    sent(1).await;
    change(&|it| it.name = "renamed".into()).await;
    sent(2).await;
    assert_eq!(bench.came_with("a"), ["Bearer token-1"; 2]);
    let other = bench.sealed_for(destination, "another").await;
    change(&|it| {
        let Auth::OAuth2(client) = &mut it.auth else { panic!("it was made so") };
        client.client_secret = other.clone();
    })
    .await;
    sent(3).await;
    assert_eq!(bench.came_with("a")[2], "Bearer token-2");
    let pair = format!("Basic {}", STANDARD.encode("posthaste:another"));
    assert_eq!(bench.asked()[1].headers["authorization"].to_str().unwrap(), pair);
}

#[tokio::test]
async fn two_destinations_share_no_token() {
    let bench = bench().await;
    bench.receiver.script("token", tokens(3600));
    let (a, b) = (bench.tokened("a", |_, _| {}).await, bench.tokened("b", |_, _| {}).await);
    bench.send(&[a], b"{}").await;
    assert_eq!(bench.ended(a).await, (Status::Delivered, None));
    bench.send(&[b], b"{}").await;
    assert_eq!(bench.ended(b).await, (Status::Delivered, None));
    assert_eq!(
        (bench.came_with("a").remove(0), bench.came_with("b").remove(0)),
        ("Bearer token-1".into(), "Bearer token-2".into())
    );
}

#[tokio::test]
async fn what_an_answer_repeats_of_a_token_is_not_kept() {
    let bench = bench().await;
    bench.receiver.script("token", tokens(3600));
    bench.receiver.script("a", Reply::status(400).body("you sent token-1"));
    let destination = bench.tokened("a", |_, _| {}).await;
    bench.send(&[destination], b"{}").await;
    bench.ended(destination).await;
    let kept = bench.attempts(destination).await.remove(0).detail.response.unwrap();
    assert_eq!(kept.body.as_deref(), Some("you sent ***"));
}

#[tokio::test]
async fn a_request_is_signed_as_it_arrives() {
    let bench = bench().await;
    let destination = bench
        .destination_sealing("signed", |it, seal| {
            it.headers = vec![("x-amz-target".into(), "Put".into())];
            it.auth = Auth::AwsSigv4(domain::destination::AwsCredentials {
                access_key_id: "AKIDEXAMPLE".into(),
                secret_access_key: seal("hunter2hunter2"),
                session_token: Some(seal("a-token-for-a-while")),
                region: "eu-central-1".into(),
                service: "execute-api".into(),
            });
        })
        .await;
    bench.receiver.script("signed", Reply::status(400).body("the token was a-token-for-a-while"));
    bench.send(&[destination], b"{\"a\": 1}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("rejected")));
    let kept = bench.receiver.records("signed").remove(0).kept.unwrap();
    let header = |name: &str| kept.headers[name].to_str().unwrap();
    // Once more, over what came.
    let signer = domain::aws_signature::AwsSigner {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: String::from("hunter2hunter2").into(),
        region: "eu-central-1".into(),
        service: "execute-api".into(),
    };
    let names = [
        "content-type",
        "host",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-security-token",
        "x-amz-target",
    ];
    let hash = domain::aws_signature::payload_hash(&kept.body);
    let attempt = bench.attempts(destination).await.remove(0);
    let expected = signer.authorization(&domain::aws_signature::RequestToSign {
        method: kept.method.as_str(),
        path: &kept.path,
        query: "",
        headers: &names.map(|name| (name, header(name))),
        payload_hash: &hash,
        at: attempt.started_at,
    });
    assert_eq!(header("authorization"), expected);
    assert_eq!(header("x-amz-content-sha256"), hash);
    let shown = &attempt.detail.request_headers;
    for name in ["authorization", "x-amz-security-token"] {
        assert!(shown.contains(&(name.into(), "***".into())), "{shown:?}");
    }
    assert!(shown.contains(&("x-amz-date".into(), header("x-amz-date").into())), "{shown:?}");
    assert_eq!(attempt.detail.response.unwrap().body.as_deref(), Some("the token was ***"));
}
