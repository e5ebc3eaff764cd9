//! What is signed, by which scheme, during a rotation and after it; and what a CloudEvent's request looks like.

use crate::{
    PATIENCE,
    bench::{Bench, Wish, bench},
};
use domain::{
    cloud_event::{CloudEvent, Structured},
    delivery::Status,
    destination::{
        Destination, Format, KeptKeyPair, Previous, PreviousKeyPair, Scheme, Signing, header_of_new,
    },
    id::DestinationId,
    signature::{
        self, SigningSecret,
        key_pair::{KeyPair, PublicKey, SignedContent},
        text::{self, TextSecret},
    },
    time::Timestamp,
};
use lab::{Record, Recording, Script};
use std::time::Duration;

const OLD_TEXT: &str = "the secret of old times";

fn old() -> SigningSecret {
    SigningSecret::from_bytes(&[8; 32]).unwrap()
}

/// In the middle of a rotation of everything.
fn rotating(it: &mut Destination, seal: &dyn Fn(&str, &str) -> domain::seal::Sealed, until: Timestamp) {
    let place = Destination::secret_place(it.id);
    it.secret.previous = Some(Previous { secret: seal(&place, &old().expose()), until });
    let place = Destination::key_pair_place(it.id);
    let pair = |seed: u8| {
        let pair = KeyPair::from_seed(&[seed; 32]);
        KeptKeyPair { private: seal(&place, &pair.expose()), public: pair.public().to_string() }
    };
    it.secret.key_pair = Some(pair(1));
    it.secret.previous_key_pair = Some(PreviousKeyPair { pair: pair(2), until });
}

fn public(seed: u8) -> PublicKey {
    KeyPair::from_seed(&[seed; 32]).public()
}

async fn received(bench: &Bench, to: DestinationId, payload: &[u8], wish: Wish) -> Record {
    let before = bench.receiver.snapshot().len();
    bench.send_as(to, payload, wish).await;
    bench.until(|| async { (bench.receiver.snapshot().len() > before).then_some(()) }).await;
    bench.receiver.snapshot().pop().unwrap()
}

fn header<'r>(record: &'r Record, name: &str) -> &'r str {
    record.kept.as_ref().unwrap().headers.get(name).map_or("", |value| value.to_str().unwrap())
}

fn body(record: &Record) -> &[u8] {
    &record.kept.as_ref().unwrap().body
}

fn verifies(record: &Record, secret: &SigningSecret, [id, timestamp, signature]: [&str; 3]) -> bool {
    let [id, timestamp, signature] = [id, timestamp, signature].map(|name| header(record, name));
    let now = timestamp.parse().unwrap();
    signature::verify([secret], id, timestamp, signature, body(record), now, 0).is_ok()
}

const STANDARD: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];
const SVIX: [&str; 3] = ["svix-id", "svix-timestamp", "svix-signature"];

/// How many entries of `webhook-signature` are by this key.
fn by_key(record: &Record, key: PublicKey) -> usize {
    let content =
        SignedContent::new(header(record, "webhook-id"), header(record, "webhook-timestamp"), body(record));
    header(record, "webhook-signature").split(' ').filter(|entry| key.matches(&content, entry)).count()
}

#[tokio::test]
async fn old_and_new_keys_sign_side_by_side_until_the_overlap_ends() {
    let bench = bench().await;
    bench.receiver.recording(Recording::FullWithBodies);
    for (over, signatures) in [(false, 4), (true, 2)] {
        let until = if over { bench.now() } else { bench.now().plus(Duration::from_secs(60)) };
        let seal = bench.sealer().await;
        let to = bench
            .destination("a", |it| {
                it.signing = Signing { ed25519: true, svix_headers: true, ..Signing::default() };
                rotating(it, &seal, until);
            })
            .await;
        let record = received(&bench, to, "{\"ü\":\"😀\"}".as_bytes(), Wish::default()).await;
        assert!(verifies(&record, &bench.secret, STANDARD) && verifies(&record, &bench.secret, SVIX));
        assert_eq!(verifies(&record, &old(), STANDARD), !over);
        assert_eq!((by_key(&record, public(1)), by_key(&record, public(2))), (1, usize::from(!over)));
        let all = header(&record, "webhook-signature");
        assert_eq!(all.split(' ').count(), signatures, "{all}");
        assert!(all.starts_with("v1,"), "libraries that know no other look at the first: {all}");
    }
}

#[tokio::test]
async fn a_key_pair_signs_alone_where_the_scheme_is_none() {
    let bench = bench().await;
    let until = bench.now();
    let seal = bench.sealer().await;
    let to = bench
        .destination("a", |it| {
            it.signing = Signing { scheme: Scheme::None, ed25519: true, ..Signing::default() };
            rotating(it, &seal, until);
        })
        .await;
    let record = received(&bench, to, b"{}", Wish::default()).await;
    assert_eq!(by_key(&record, public(1)), 1);
    assert!(header(&record, "webhook-signature").starts_with("v1a,"));
    assert!(!verifies(&record, &bench.secret, STANDARD));
}

#[tokio::test]
async fn stripes_scheme_has_both_signatures_under_its_own_header() {
    let bench = bench().await;
    let until = bench.now().plus(Duration::from_secs(60));
    let seal = bench.sealer().await;
    let to = bench
        .destination("a", |it| {
            let header = Some("acme-signature".into());
            it.signing = Signing { scheme: Scheme::Stripe, header, ..Signing::default() };
            // It comes in with the event, and is not what is passed on.
            it.forward_headers = vec!["acme-signature".into()];
            let secret = seal(&Destination::secret_place(it.id), OLD_TEXT);
            it.secret.previous = Some(Previous { secret, until });
        })
        .await;
    let wish = Wish { headers: &[("acme-signature", "forged")], ..Wish::default() };
    let record = received(&bench, to, b"{}", wish).await;
    let at: i64 = header(&record, "webhook-timestamp").parse().unwrap();
    let secrets = [&*bench.secret.expose(), OLD_TEXT].map(|text| TextSecret::new(text).unwrap());
    assert_eq!(header(&record, "acme-signature"), text::stripe(&secrets, at, b"{}"));
    assert_eq!(header(&record, "webhook-signature"), "");
    assert_ne!(header(&record, "webhook-id"), "", "which names the event in any scheme");
}

#[tokio::test]
async fn githubs_header_is_the_old_secrets_until_the_overlap_ends() {
    let bench = bench().await;
    for over in [false, true] {
        let until = if over { bench.now() } else { bench.now().plus(Duration::from_secs(60)) };
        let seal = bench.sealer().await;
        let to = bench
            .destination("a", |it| {
                it.signing = Signing { scheme: Scheme::Github, ..Signing::default() };
                let secret = seal(&Destination::secret_place(it.id), OLD_TEXT);
                it.secret.previous = Some(Previous { secret, until });
            })
            .await;
        let record = received(&bench, to, b"{}", Wish::default()).await;
        let by_old = text::github(&TextSecret::new(OLD_TEXT).unwrap(), b"{}");
        let by_new = text::github(&TextSecret::new(&bench.secret.expose()).unwrap(), b"{}");
        let found = ["x-hub-signature-256".to_owned(), header_of_new("x-hub-signature-256")];
        let found = found.map(|name| header(&record, &name).to_owned());
        assert_eq!(found, if over { [by_new, String::new()] } else { [by_old, by_new] });
    }
}

#[tokio::test]
async fn what_cannot_be_signed_as_it_should_is_not_sent() {
    let bench = bench().await;
    let seal = bench.sealer().await;
    let without_pair = bench.destination("a", |it| it.signing.ed25519 = true).await;
    let other_scheme = bench
        .destination("b", |it| it.secret.current = seal(&Destination::secret_place(it.id), OLD_TEXT))
        .await;
    let moved = bench
        .destination("c", |it| {
            it.signing.ed25519 = true;
            // Sealed in the place of the shared secret: it does not open elsewhere.
            let private = seal(&Destination::secret_place(it.id), &KeyPair::from_seed(&[1; 32]).expose());
            it.secret.key_pair = Some(KeptKeyPair { private, public: public(1).to_string() });
        })
        .await;
    for destination in [without_pair, other_scheme, moved] {
        bench.send(&[destination], b"{}").await;
        assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("undeliverable")));
    }
    assert_eq!(bench.receiver.snapshot().len(), 0);
}

const CAME_IN: &[(&str, &str)] = &[
    ("ce-specversion", "1.0"),
    ("ce-id", "7"),
    ("ce-source", "/shop"),
    ("ce-type", "com.example.paid"),
    ("ce-subject", "%E2%82%AC"),
    ("x-other", "1"),
];

#[tokio::test]
async fn a_cloud_event_goes_out_with_the_attributes_it_came_with() {
    let bench = bench().await;
    bench.receiver.script("a", Script::ok());
    let formatted = async |format| bench.destination("a", |it| it.format = format).await;
    let payload = br#"{ "n": 1.0 }"#;
    let wish = Wish { headers: CAME_IN, ..Wish::default() };

    let record = received(&bench, formatted(Format::CloudeventsBinary).await, payload, wish).await;
    for (name, value) in &CAME_IN[..5] {
        assert_eq!(header(&record, name), *value);
    }
    assert_eq!((header(&record, "x-other"), header(&record, "content-type")), ("", "application/json"));
    assert_eq!(body(&record), payload);
    assert!(verifies(&record, &bench.secret, STANDARD));

    let record = received(&bench, formatted(Format::CloudeventsStructured).await, payload, wish).await;
    assert_eq!(header(&record, "content-type"), "application/cloudevents+json");
    assert_eq!(header(&record, "ce-id"), "");
    let document = Structured::parse(body(&record)).unwrap();
    assert_eq!(
        document.event,
        CloudEvent::of_headers(CAME_IN.iter().map(|(n, v)| (*n, v.as_bytes()))).unwrap()
    );
    assert_eq!((&*document.payload, document.content_type.as_str()), (&payload[..], "application/json"));
    assert!(verifies(&record, &bench.secret, STANDARD), "over the bytes that are sent");

    let record = received(&bench, formatted(Format::Standard).await, payload, wish).await;
    assert_eq!((body(&record), header(&record, "ce-id")), (&payload[..], ""));
}

#[tokio::test]
async fn an_event_that_was_no_cloud_event_is_sent_as_one() {
    let bench = bench().await;
    let to = bench.destination("a", |it| it.format = Format::CloudeventsStructured).await;
    // Not all that a CloudEvent has.
    let wish = Wish { headers: &[("ce-id", "7")], ..Wish::default() };
    let record = received(&bench, to, b"not json", wish).await;
    let document = Structured::parse(body(&record)).unwrap();
    assert_eq!(document.event.id, header(&record, "webhook-id"));
    assert_eq!(document.event.source, format!("/accounts/{}", bench.account));
    assert_eq!(document.event.kind, "test.sent");
    assert_eq!(&*document.payload, b"not json");
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
}

#[tokio::test]
async fn a_large_payload_is_sent_in_a_document_too() {
    let bench = bench().await;
    let to = bench.destination("a", |it| it.format = Format::CloudeventsStructured).await;
    let payload = vec![0xA5; 3 * 1024 * 1024];
    bench.send(&[to], &payload).await;
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    let record = bench.receiver.snapshot().pop().unwrap();
    assert_eq!(&*Structured::parse(body(&record)).unwrap().payload, &payload[..]);
    assert!(verifies(&record, &bench.secret, STANDARD));
}
