//! Every rule against requests that `scripts/vectors` has signed with other libraries, and against what becomes of them when
//! somebody changes, keeps, repeats or strips them.

use super::*;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::net::Ipv4Addr;

type Headers = Vec<(String, String)>;

impl InboundHeaders for Headers {
    fn first_two<'h>(&'h self, name: &str) -> [Option<&'h [u8]>; 2] {
        let mut values = self.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_bytes());
        [values.next(), values.next()]
    }
}

/// A request that was signed elsewhere.
#[derive(Debug, Clone, Deserialize)]
struct Vector {
    #[serde(rename = "type")]
    kind: VerificationKind,
    secret: String,
    url: String,
    at: i64,
    headers: Headers,
    body: String,
    /// `*`: none of the provider's, and never the same twice.
    id: Option<String>,
    event_type: Option<String>,
    /// What of the body is signed; None: all of it.
    signed: Option<String>,
    hmac: Option<Value>,
    handshake: Option<String>,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("vectors.json")).expect("vectors")
}

fn vector(kind: VerificationKind) -> Vector {
    vectors().into_iter().find(|vector| vector.kind == kind).expect("a vector")
}

impl Vector {
    fn verification(&self) -> Verification {
        let hmac = self.hmac.clone().map(|rule| serde_json::from_value(rule).expect("a rule"));
        Verification { kind: self.kind, hmac, ..Verification::default() }
    }

    fn verifier(&self) -> Verifier {
        Verifier::new(&self.verification(), [self.secret.as_bytes()])
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound {
            method: "POST",
            url: &self.url,
            headers: &self.headers,
            body: self.body.as_bytes(),
            client: Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(self.at)
    }

    fn verify(&self) -> Result<Verified, RefusalReason> {
        self.verify_at(0)
    }

    fn verify_at(&self, later_seconds: i64) -> Result<Verified, RefusalReason> {
        self.verifier().verify(&self.inbound(), Timestamp::from_seconds(self.at + later_seconds))
    }

    fn tolerance(&self) -> Option<i64> {
        let has_none = self.hmac.as_ref().is_some_and(|rule| rule["timestamp_header"].is_null());
        let seconds = self.kind.tolerance_seconds().filter(|_| !has_none)?;
        Some(i64::try_from(seconds).unwrap())
    }

    /// The headers that its rule looks at and cannot do without.
    fn needed_headers(&self) -> Vec<String> {
        let always = |name: &str| {
            name.contains("signature") || name.contains("hmac") || name == "authorization" || name == "x-time"
        };
        let signed_id = |name: &str| {
            matches!(name, "webhook-id" | "svix-id" | "webhook-timestamp" | "svix-timestamp")
                || name == "twitch-eventsub-message-id"
                || name.contains("timestamp")
        };
        let names = self.headers.iter().map(|(name, _)| name.clone());
        names.filter(|name| always(name) || signed_id(name)).collect()
    }

    fn changed(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }
}

#[test]
fn every_way_to_verify_has_a_request_that_was_signed_elsewhere() {
    let all = vectors();
    for kind in VerificationKind::ALL {
        let found = all.iter().any(|vector| vector.kind == kind);
        assert_eq!(found, kind != VerificationKind::None, "{kind}");
    }
}

#[test]
fn a_request_as_its_provider_signs_it_is_believed_and_known_by_its_own_name_and_id() {
    for vector in vectors() {
        let verified = vector.verify().unwrap_or_else(|reason| panic!("{reason}: {vector:?}"));
        let found = verified.event_type.as_ref().map(|found| found.as_str().to_owned());
        assert_eq!(found, vector.event_type, "{vector:?}");
        if vector.id.as_deref() == Some("*") {
            assert!(verified.id.is_some_and(|id| id.starts_with("sha256:")), "{vector:?}");
        } else {
            assert_eq!(verified.id, vector.id, "{vector:?}");
        }
        let handshake = vector.handshake.as_ref().map(|text| match text.as_str() {
            "" => HandshakeAnswer::Nothing,
            text => HandshakeAnswer::Text(text.to_owned()),
        });
        assert_eq!(verified.handshake, handshake, "{vector:?}");
    }
}

#[test]
fn an_altered_byte_is_noticed() {
    for vector in vectors() {
        let signed = vector.signed.clone().unwrap_or_else(|| vector.body.clone());
        let from = vector.body.find(&signed).expect("part of the body");
        // Of a form, where the order of fields and how they are escaped are not signed, one value.
        let places: Vec<usize> = match vector.kind {
            VerificationKind::Twilio if !vector.body.starts_with('{') => {
                vec![vector.body.find('=').unwrap() + 1]
            }
            _ => (from..from + signed.len()).collect(),
        };
        for place in places {
            let altered = vector.changed(|it| {
                let mut bytes = it.body.clone().into_bytes();
                bytes[place] ^= 1;
                it.body = String::from_utf8(bytes).unwrap();
            });
            let refused = altered.verify().unwrap_err();
            assert!(!refused.is_malformed() && refused != RefusalReason::Stale, "{refused}: {altered:?}");
        }
        for name in vector.needed_headers() {
            let altered = vector.changed(|it| {
                let (_, value) = it.headers.iter_mut().find(|(found, _)| *found == name).unwrap();
                // A digit of the signature's end; its very last may be padding.
                let at = value.len() - 5;
                let other = if &value[at..=at] == "2" { "3" } else { "2" };
                value.replace_range(at..=at, other);
            });
            assert!(altered.verify().is_err(), "{name}: {altered:?}");
        }
    }
}

#[test]
fn what_is_too_old_or_ahead_of_its_time_is_refused() {
    for vector in vectors() {
        match vector.tolerance() {
            Some(tolerance) => {
                for late in [tolerance + 1, -tolerance - 1] {
                    assert_eq!(vector.verify_at(late), Err(RefusalReason::Stale), "{vector:?}");
                }
                // Fractions of a second are part of some timestamps.
                for within in [tolerance - 1, 1 - tolerance] {
                    assert!(vector.verify_at(within).is_ok(), "{vector:?}");
                }
            }
            None => assert!(vector.verify_at(1_000_000).is_ok(), "{vector:?}"),
        }
    }
}

#[test]
fn a_tolerance_of_ones_own_counts() {
    let vector = vector(VerificationKind::Stripe);
    let verification = Verification { tolerance_seconds: Some(10), ..vector.verification() };
    let verifier = Verifier::new(&verification, [vector.secret.as_bytes()]);
    let at = |later| verifier.verify(&vector.inbound(), Timestamp::from_seconds(vector.at + later));
    assert!(at(10).is_ok());
    assert_eq!(at(11), Err(RefusalReason::Stale));
}

#[test]
fn a_replayed_request_is_known_by_the_same_id() {
    for vector in vectors() {
        let (first, again) = (vector.verify().unwrap(), vector.verify_at(1).unwrap());
        assert_eq!(first.id, again.id);
        let has_none = matches!(vector.kind, VerificationKind::Basic | VerificationKind::Bearer);
        // Twilio sends its token with what it repeats.
        let without = vector.kind == VerificationKind::Twilio && vector.id.is_none();
        assert_eq!(first.id.is_none(), has_none || without, "{vector:?}");
    }
}

#[test]
fn a_header_that_is_missing_or_there_twice_is_refused() {
    for vector in vectors() {
        for name in vector.needed_headers() {
            let without = vector.changed(|it| it.headers.retain(|(found, _)| *found != name));
            assert_eq!(without.verify(), Err(RefusalReason::MissingSignature), "{name}: {vector:?}");
            for first in [true, false] {
                let doubled = vector.changed(|it| {
                    let at = it.headers.iter().position(|(found, _)| *found == name).unwrap();
                    let other = (name.clone(), if first { it.headers[at].1.clone() } else { "x".into() });
                    it.headers.push(other);
                });
                assert_eq!(doubled.verify(), Err(RefusalReason::RepeatedHeader), "{name}: {vector:?}");
            }
        }
        if vector.needed_headers().is_empty() {
            let without = vector.changed(|it| it.body = "{}".into());
            assert_eq!(without.verify(), Err(RefusalReason::MissingSignature), "{vector:?}");
        }
    }
}

#[test]
fn one_of_four_secrets_must_fit_and_a_fifth_is_not_tried() {
    for vector in vectors() {
        let other: String = match vector.kind {
            VerificationKind::Standard => format!("whsec_{}", STANDARD.encode([7; 32])),
            VerificationKind::Discord => "00".repeat(31) + "01",
            // Its own generator, as a public key.
            VerificationKind::Sendgrid => STANDARD.encode(other_point()),
            VerificationKind::Adyen => "ab".repeat(32),
            VerificationKind::Basic => "Aladdin:open sesamE".into(),
            _ => "another-secret".into(),
        };
        check_secret(vector.kind, &other).unwrap_or_else(|why| panic!("{}: {why}", vector.kind));
        let (right, other) = (vector.secret.as_bytes(), other.as_bytes());
        let verify = |secrets: &[&[u8]]| {
            let verifier = Verifier::new(&vector.verification(), secrets.iter().copied());
            verifier.verify(&vector.inbound(), vector.now())
        };
        assert!(verify(&[other, right]).is_ok(), "{vector:?}");
        assert!(verify(&[other, other, other, right]).is_ok(), "{vector:?}");
        assert!(verify(&[right, other, other, other]).is_ok(), "{vector:?}");
        for none in [&[][..], &[other], &[b"\xff"], &[other, other, other, other, right]] {
            assert_eq!(verify(none), Err(RefusalReason::WrongSignature), "{vector:?}");
        }
    }
}

/// The base point of P-256 as a public key.
fn other_point() -> Vec<u8> {
    let head = "3059301306072a8648ce3d020106082a8648ce3d03010703420004";
    let point = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296\
                 4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
    keys::unhex(&format!("{head}{point}")).unwrap()
}

#[test]
fn the_ninth_signature_is_one_too_many() {
    let right = |kind| {
        let vector = vector(kind);
        (vector.headers.iter().position(|(name, _)| name.ends_with("signature")).unwrap(), vector)
    };
    for (kind, other, separator) in [
        (VerificationKind::Stripe, "v1=00", ","),
        (VerificationKind::Paddle, "h1=00", ";"),
        (VerificationKind::Pagerduty, "v1=00", ","),
        (VerificationKind::Pagerduty, "v2=00", ","),
        (VerificationKind::Standard, "v1,AAAA", " "),
        (VerificationKind::Standard, "v2,AAAA", " "),
    ] {
        let (at, vector) = right(kind);
        let own = vector.headers[at].1.matches(&other[..2]).count();
        let with = |count: usize| {
            vector.changed(|it| {
                it.headers[at].1 =
                    format!("{}{separator}{}", vec![other; count].join(separator), it.headers[at].1)
            })
        };
        let room = SIGNATURES_TRIED
            - own.max(match kind {
                VerificationKind::Standard => 3,
                VerificationKind::Pagerduty => 2,
                _ => 1,
            });
        assert!(with(room).verify().is_ok(), "{kind} {other}");
        assert_eq!(with(room + 1).verify(), Err(RefusalReason::Malformed), "{kind} {other}");
    }
}

#[test]
fn what_is_not_exactly_the_signature_does_not_match() {
    let github = vector(VerificationKind::Github);
    let hex =
        github.headers.iter().find(|(name, _)| name == "x-hub-signature-256").unwrap().1[7..].to_owned();
    let with = |value: &str| {
        github.changed(|it| {
            it.headers.iter_mut().find(|(name, _)| name == "x-hub-signature-256").unwrap().1 = value.into()
        })
    };
    assert!(with(&format!("sha256={}", hex.to_uppercase())).verify().is_ok());
    for wrong in [
        String::new(),
        "sha256=".into(),
        hex.clone(),
        format!("sha1={hex}"),
        format!("sha256={}", &hex[..62]),
        format!("sha256={}", &hex[..63]),
        format!("sha256={hex}00"),
        format!("sha256={hex},sha256={hex}"),
        format!("sha256={}", "g".repeat(64)),
    ] {
        assert_eq!(with(&wrong).verify(), Err(RefusalReason::WrongSignature), "{wrong}");
    }
    assert_eq!(with("sha256=\u{e9}").verify(), Err(RefusalReason::Malformed));
}

#[test]
fn a_timestamp_that_is_none_is_malformed() {
    for (kind, name) in [
        (VerificationKind::Slack, "x-slack-request-timestamp"),
        (VerificationKind::Standard, "webhook-timestamp"),
        (VerificationKind::Twitch, "twitch-eventsub-message-timestamp"),
        (VerificationKind::Hubspot, "x-hubspot-request-timestamp"),
    ] {
        for text in ["", "+1790000000", "-1", " 1", "1e9", "now", "99999999999999999999"] {
            let vector = vector(kind).changed(|it| {
                it.headers.iter_mut().find(|(found, _)| found == name).unwrap().1 = text.into()
            });
            assert_eq!(vector.verify(), Err(RefusalReason::Malformed), "{kind} {text}");
        }
    }
    let stripe = vector(VerificationKind::Stripe);
    let at = stripe.headers.iter().position(|(name, _)| name == "stripe-signature").unwrap();
    for header in ["v1=00", "t=1790000000,t=1790000000,v1=00", ""] {
        let vector = stripe.changed(|it| it.headers[at].1 = header.into());
        assert_eq!(vector.verify(), Err(RefusalReason::Malformed), "{header}");
    }
}

#[test]
fn an_id_with_a_full_stop_is_malformed_where_it_is_signed() {
    for id in ["", "msg.1"] {
        let vector = vector(VerificationKind::Standard).changed(|it| {
            it.headers.iter_mut().find(|(name, _)| name == "webhook-id").unwrap().1 = id.into()
        });
        assert_eq!(vector.verify(), Err(RefusalReason::Malformed), "{id}");
    }
}

#[test]
fn addresses_are_asked_for_beside_the_signature() {
    let vector = vector(VerificationKind::Github);
    let with = |networks: &[&str], client: &str| {
        let allowed_addresses = networks.iter().map(|network| network.parse().unwrap()).collect();
        let verification = Verification { allowed_addresses, ..vector.verification() };
        let verifier = Verifier::new(&verification, [vector.secret.as_bytes()]);
        let inbound = Inbound { client: client.parse().unwrap(), ..vector.inbound() };
        verifier.verify(&inbound, vector.now()).map(drop)
    };
    assert_eq!(with(&[], "192.0.2.1"), Ok(()));
    assert_eq!(with(&["192.0.2.0/24", "2001:db8::/32"], "192.0.2.1"), Ok(()));
    assert_eq!(with(&["192.0.2.0/24"], "::ffff:192.0.2.1"), Ok(()));
    assert_eq!(with(&["192.0.2.0/24", "2001:db8::/32"], "2001:db8::7"), Ok(()));
    assert_eq!(with(&["192.0.2.0/24"], "198.51.100.1"), Err(RefusalReason::AddressNotAllowed));
    let wrong = vector.changed(|it| it.body.push('x'));
    assert_eq!(wrong.verify(), Err(RefusalReason::WrongSignature));
}

#[test]
fn what_a_url_signer_signs_is_the_whole_url() {
    for kind in [VerificationKind::Twilio, VerificationKind::Square, VerificationKind::Hubspot] {
        let other = vector(kind).changed(|it| it.url.push('x'));
        assert_eq!(other.verify(), Err(RefusalReason::WrongSignature), "{kind}");
    }
}

#[test]
fn of_twilio_no_body_is_believed_that_the_signature_does_not_cover() {
    let twilio = vector(VerificationKind::Twilio);
    let without_form = twilio.changed(|it| it.headers.retain(|(name, _)| name != "content-type"));
    assert_eq!(without_form.verify(), Err(RefusalReason::WrongSignature));
    let json = vectors().into_iter().find(|it| it.kind == twilio.kind && it.body.starts_with('{')).unwrap();
    assert!(json.verify().is_ok());
    let other = json.changed(|it| it.body = "{}".into());
    assert_eq!(other.verify(), Err(RefusalReason::WrongSignature));
}

#[test]
fn every_item_of_adyen_must_be_signed_and_no_other_comes_with_it() {
    let adyen = vector(VerificationKind::Adyen);
    let body: Value = serde_json::from_str(&adyen.body).unwrap();
    let item = body["notificationItems"][0].clone();
    let with = |items: Vec<Value>| {
        let mut body = body.clone();
        body["notificationItems"] = items.into();
        adyen.changed(|it| it.body = body.to_string()).verify().map(drop)
    };
    let mut forged = item.clone();
    forged["NotificationRequestItem"]["amount"]["value"] = 1.into();
    let empty = serde_json::json!({ "NotificationRequestItem": {} });
    assert_eq!(with(vec![item.clone(); SIGNATURES_TRIED]), Ok(()));
    for items in [
        vec![forged.clone()],
        vec![item.clone(), forged.clone()],
        vec![forged.clone(), item.clone()],
        vec![item.clone(), empty.clone(), forged],
        vec![item.clone(), empty],
        vec![item; SIGNATURES_TRIED + 1],
        vec![],
    ] {
        assert!(with(items).is_err());
    }
}

#[test]
fn a_secret_of_another_form_is_not_taken() {
    for (kind, wrong) in [
        (VerificationKind::Stripe, ""),
        (VerificationKind::Stripe, " whsec_x"),
        (VerificationKind::Stripe, "whsec_é"),
        (VerificationKind::Standard, "whsec_AAAA"),
        (VerificationKind::Standard, "whpk_AAAA"),
        (VerificationKind::Discord, "00"),
        (VerificationKind::Sendgrid, "AAAA"),
        (VerificationKind::Adyen, "xyz"),
        (VerificationKind::Basic, "nocolon"),
        (VerificationKind::Basic, "name:"),
        (VerificationKind::Bearer, "short"),
        (VerificationKind::Bearer, "with a space in it"),
        (VerificationKind::None, "anything"),
    ] {
        assert!(check_secret(kind, wrong).is_err(), "{kind} {wrong}");
    }
    assert!(
        check_secret(VerificationKind::Stripe, &"x".repeat(limits::VERIFICATION_SECRET_BYTES + 1)).is_err()
    );
    for vector in vectors() {
        assert_eq!(check_secret(vector.kind, &vector.secret), Ok(()), "{}", vector.kind);
    }
}

#[test]
fn what_a_rule_of_ones_own_signs_must_have_the_body_and_the_timestamp_in_it() {
    let rule = |signed: &str, timestamp: bool, id: bool| HmacRule {
        header: "x-signature".into(),
        signed_content: Some(signed.into()),
        timestamp_header: timestamp.then(|| "x-time".into()),
        id_header: id.then(|| "x-id".into()),
        ..HmacRule::default()
    };
    for (signed, timestamp, id) in [
        ("{body}", false, false),
        ("{body}", false, true),
        ("v1:{timestamp}:{body}", true, false),
        ("{id}{timestamp}{body}", true, true),
    ] {
        assert_eq!(rule(signed, timestamp, id).check_signed_content(), Ok(()), "{signed}");
    }
    for (signed, timestamp, id) in [
        ("", false, false),
        ("{timestamp}", true, false),
        ("{body}", true, false),
        ("{timestamp}.{body}", false, false),
        ("{body}{body}", false, false),
        ("{id}.{body}", false, false),
        ("{method}{body}", false, false),
        ("{body", false, false),
    ] {
        assert!(rule(signed, timestamp, id).check_signed_content().is_err(), "{signed}");
    }
}

#[test]
fn a_batch_has_the_type_that_all_in_it_have() {
    let sendgrid = vector(VerificationKind::Sendgrid);
    let shared = |body: &str| super::shared("event", body.as_bytes());
    assert_eq!(shared(&sendgrid.body).as_deref(), Some("dropped"));
    assert_eq!(shared(r#"[{"event":"open"},{"event":"open","x":[{}]}]"#).as_deref(), Some("open"));
    for other in [r#"[{"event":"open"},{"event":"click"}]"#, r#"[{"event":"open"},{}]"#, "[]", "{}", "x"] {
        assert_eq!(shared(other), None, "{other}");
    }
}

#[test]
fn an_id_that_is_no_key_is_known_by_its_digest() {
    assert_eq!(fitting("a b".into()), "a b");
    for odd in ["\u{e9}".to_owned(), "x".repeat(limits::IDEMPOTENCY_KEY_BYTES + 1)] {
        assert_eq!(fitting(odd).len(), "sha256:".len() + 64);
    }
}

#[test]
fn nothing_of_a_secret_is_printed() {
    let vector = vector(VerificationKind::Stripe);
    assert_eq!(format!("{:?}", vector.verifier()), "Verifier(stripe, ***)");
    assert_eq!(format!("{:?}", Key::new(vector.kind, HmacAlgorithm::default(), &vector.secret)), "Ok(***)");
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_request_makes_it_panic(
            which in any::<prop::sample::Index>(),
            value in "[ -~é]{0,80}",
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let all = vectors();
            let vector = which.get(&all);
            let headers: Headers = vector.headers.iter().map(|(name, _)| (name.clone(), value.clone())).collect();
            let inbound = Inbound { headers: &headers, body: &body, ..vector.inbound() };
            prop_assert!(vector.verifier().verify(&inbound, vector.now()).is_err());
        }
    }
}

/// What it costs to believe a request of a kilobyte, by the kind of its signature. Run it in release:
/// `cargo test -p domain --release -- --ignored --nocapture what_a_request_costs`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn what_a_request_costs() {
    use aws_lc_rs::hmac;
    use std::time::Instant;
    const ROUNDS: u32 = 5_000;
    // A kilobyte in place of its own body, signed anew where that can be done here.
    let body = format!("{{\"id\":\"evt_1\",\"type\":\"a.b\",\"x\":\"{}\"}}", "y".repeat(990));
    let sign = |secret: &str, text: &str| {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), text.as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let github = vector(VerificationKind::Github).changed(|it| {
        it.body = body.clone();
        it.headers[1].1 = format!("sha256={}", sign(&it.secret, &body));
    });
    let stripe = vector(VerificationKind::Stripe).changed(|it| {
        it.body = body.clone();
        it.headers[1].1 = format!("t={},v1={}", it.at, sign(&it.secret, &format!("{}.{body}", it.at)));
    });
    for (vector, at_most_micros) in [
        (github, 5),
        (stripe, 5),
        (vector(VerificationKind::Discord), 200),
        (vector(VerificationKind::Sendgrid), 200),
    ] {
        let verifier = vector.verifier();
        let wrong = vector.changed(|it| it.body = body.replace('y', "z"));
        for (what, request, right) in [("believed", &vector, true), ("refused", &wrong, false)] {
            let begun = Instant::now();
            for _ in 0..ROUNDS {
                assert_eq!(verifier.verify(&request.inbound(), request.now()).is_ok(), right);
            }
            let took = begun.elapsed() / ROUNDS;
            println!("{} {what}, {} bytes: {took:?}", vector.kind, request.body.len());
            assert!(took.as_micros() <= at_most_micros, "{} {what}: {took:?}", vector.kind);
        }
    }
}
