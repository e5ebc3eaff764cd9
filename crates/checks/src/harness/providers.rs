//! Providers that sign what they send: each with a secret of its own, and a request of theirs made as their documentation says.
//! Nothing here is taken from the code that verifies: what it believes is held against this.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::time::Timestamp;
use serde_json::{Value, json};

/// A way to sign, as a source is told it.
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    kind: &'static str,
    /// What a source needs beside type and secrets.
    members: Value,
    secret: SecretForm,
    /// None: what is signed has no timestamp.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) encoding: SignatureEncoding,
    sign: fn(&Secret, &Sending<'_>) -> Signed,
}

/// How a moment is written, and how far from now it may be.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) form: StampForm,
    pub(crate) tolerance_seconds: i64,
}

#[derive(Clone, Copy)]
pub(crate) enum StampForm {
    Seconds,
    Millis,
    Rfc3339,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum SignatureEncoding {
    Hex,
    Base64,
    /// It is the secret itself.
    Credential,
}

#[derive(Clone, Copy)]
enum SecretForm {
    Text,
    Whsec,
    Hex,
    NameAndPassword,
    Ed25519Hex,
    Ed25519Whpk,
    P256,
}

/// A secret of one source: as the source is told it, and to sign with.
#[derive(Clone)]
pub(crate) struct Secret {
    pub(crate) told: String,
    key: Arc<SigningKey>,
}

enum SigningKey {
    Bytes(Vec<u8>),
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

/// What is sent, and where.
pub(crate) struct Sending<'a> {
    pub(crate) url: &'a str,
    /// In the provider's form, or in none.
    pub(crate) stamp: &'a str,
    /// By what a repeat is known.
    pub(crate) id: &'a str,
}

/// A request of a provider. The signature stands in one of the headers, or in the body.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// As it stands there.
    pub(crate) signature: String,
    /// The parts of the body that are signed, if not all of it is.
    pub(crate) signed_texts: Option<Vec<String>>,
}

impl Provider {
    pub(crate) fn new_secret(&self) -> Secret {
        let random: [u8; 32] = rand::random();
        let bytes = |told: String, key: Vec<u8>| Secret { told, key: Arc::new(SigningKey::Bytes(key)) };
        let text = hex(&random);
        match self.secret {
            SecretForm::Text => bytes(text.clone(), text.into_bytes()),
            SecretForm::Whsec => bytes(format!("whsec_{}", STANDARD.encode(random)), random.to_vec()),
            SecretForm::Hex => bytes(text, random.to_vec()),
            SecretForm::NameAndPassword => {
                let told = format!("ada:{text}");
                bytes(told.clone(), told.into_bytes())
            }
            SecretForm::Ed25519Hex | SecretForm::Ed25519Whpk => {
                let pair = Ed25519KeyPair::from_seed_unchecked(&random).expect("32 bytes are a seed");
                let public = pair.public_key().as_ref();
                let told = match self.secret {
                    SecretForm::Ed25519Hex => hex(public),
                    _ => format!("whpk_{}", STANDARD.encode(public)),
                };
                Secret { told, key: Arc::new(SigningKey::Ed25519(pair)) }
            }
            SecretForm::P256 => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key pair");
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("a public key");
                let told = STANDARD.encode(public.as_ref());
                Secret { told, key: Arc::new(SigningKey::P256(pair)) }
            }
        }
    }

    /// As a source is told it, with these secrets.
    pub(crate) fn verification(&self, secrets: &[&Secret]) -> Value {
        let mut verification = self.members.clone();
        verification["type"] = self.kind.into();
        verification["secrets"] = secrets.iter().map(|secret| secret.told.as_str()).collect();
        verification
    }

    pub(crate) fn sign(&self, secret: &Secret, sending: &Sending<'_>) -> Signed {
        (self.sign)(secret, sending)
    }

    /// A moment so many seconds from now, in the provider's form.
    pub(crate) fn stamp(&self, from_now: i64) -> String {
        let Some(Stamp { form, .. }) = self.stamp else { return String::new() };
        let millis = now_millis() + from_now * 1_000;
        match form {
            StampForm::Seconds => (millis / 1_000).to_string(),
            StampForm::Millis => millis.to_string(),
            StampForm::Rfc3339 => Timestamp::from_micros(millis * 1_000).to_string(),
        }
    }
}

impl Secret {
    fn bytes(&self) -> &[u8] {
        if let SigningKey::Bytes(bytes) = &*self.key { bytes } else { &[] }
    }

    fn sha256(&self, parts: &[&[u8]]) -> Vec<u8> {
        mac(hmac::HMAC_SHA256, self.bytes(), parts)
    }

    fn sha1(&self, parts: &[&[u8]]) -> Vec<u8> {
        mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.bytes(), parts)
    }

    fn by_key_pair(&self, parts: &[&[u8]]) -> Vec<u8> {
        let whole = parts.concat();
        match &*self.key {
            SigningKey::Ed25519(pair) => pair.sign(&whole).as_ref().to_vec(),
            SigningKey::P256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), &whole).expect("a signature");
                signature.as_ref().to_vec()
            }
            SigningKey::Bytes(_) => Vec::new(),
        }
    }
}

fn mac(algorithm: hmac::Algorithm, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign().as_ref().to_vec()
}

pub(crate) fn now_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A request with one header that carries the signature, and others.
fn with(headers: &[(&str, String)], body: Vec<u8>, signature: String) -> Signed {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Signed { headers, body, signature, signed_texts: None }
}

fn json_body(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

const SECONDS: Option<Stamp> = Some(Stamp { form: StampForm::Seconds, tolerance_seconds: 300 });
const MILLIS: Option<Stamp> = Some(Stamp { form: StampForm::Millis, tolerance_seconds: 300 });

macro_rules! provider {
    ($name:literal, $kind:literal, $members:expr, $secret:ident, $stamp:expr, $encoding:ident, $sign:expr) => {
        Provider {
            name: $name,
            kind: $kind,
            members: $members,
            secret: SecretForm::$secret,
            stamp: $stamp,
            encoding: SignatureEncoding::$encoding,
            sign: $sign,
        }
    };
}

/// Every way to verify that there is.
pub(crate) fn providers() -> Vec<Provider> {
    let twitch = Some(Stamp { form: StampForm::Rfc3339, tolerance_seconds: 600 });
    let zendesk = Some(Stamp { form: StampForm::Rfc3339, tolerance_seconds: 300 });
    let mailgun = Some(Stamp { form: StampForm::Seconds, tolerance_seconds: 12 * 3_600 });
    let hmac_rule = json!({
        "header": "X-Signature", "prefix": "v1=", "encoding": "base64", "algorithm": "sha512",
        "timestamp_header": "X-Time", "id_header": "X-Id", "signed_content": "{id}.{timestamp}.{body}",
    });
    vec![
        provider!("stripe", "stripe", json!({}), Text, SECONDS, Hex, |secret, it| {
            let body = json_body(&json!({ "id": it.id, "type": "invoice.paid", "data": { "amount": 4200 } }));
            let signature = hex(&secret.sha256(&[it.stamp.as_bytes(), b".", &body]));
            with(&[("stripe-signature", format!("t={},v1={signature}", it.stamp))], body, signature)
        }),
        provider!("github", "github", json!({}), Text, None, Hex, |secret, it| {
            let body = json_body(&json!({ "ref": "refs/heads/main", "before": it.id }));
            let signature = hex(&secret.sha256(&[&body]));
            let headers = [
                ("x-hub-signature-256", format!("sha256={signature}")),
                ("x-github-event", "push".into()),
                ("x-github-delivery", it.id.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("shopify", "shopify", json!({}), Text, None, Base64, |secret, it| {
            let body = json_body(&json!({ "id": 7, "note": it.id }));
            let signature = STANDARD.encode(secret.sha256(&[&body]));
            let headers = [
                ("x-shopify-hmac-sha256", signature.clone()),
                ("x-shopify-topic", "orders/create".into()),
                ("x-shopify-webhook-id", it.id.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("slack", "slack", json!({}), Text, SECONDS, Hex, |secret, it| {
            let body =
                json_body(&json!({ "type": "event_callback", "event_id": it.id, "event": { "type": "x" } }));
            let signature = hex(&secret.sha256(&[b"v0:", it.stamp.as_bytes(), b":", &body]));
            let headers = [
                ("x-slack-signature", format!("v0={signature}")),
                ("x-slack-request-timestamp", it.stamp.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("twilio", "twilio", json!({}), Text, None, Base64, |secret, it| {
            // Sorted by name already, and with nothing to decode.
            let body = format!("Body=hello&From=12345&MessageSid={}", it.id).into_bytes();
            let fields = format!("BodyhelloFrom12345MessageSid{}", it.id);
            let signature = STANDARD.encode(secret.sha1(&[it.url.as_bytes(), fields.as_bytes()]));
            let headers = [
                ("x-twilio-signature", signature.clone()),
                ("content-type", "application/x-www-form-urlencoded".into()),
                ("i-twilio-idempotency-token", it.id.into()),
            ];
            let texts = vec!["Body".into(), "hello".into(), "12345".into(), it.id.to_owned()];
            Signed { signed_texts: Some(texts), ..with(&headers, body, signature) }
        }),
        provider!("linear", "linear", json!({}), Text, MILLIS, Hex, |secret, it| {
            let stamp = it.stamp.parse::<i64>().map_or_else(|_| json!(it.stamp), |number| json!(number));
            let body = json_body(&json!({ "action": "create", "type": "Issue", "webhookTimestamp": stamp }));
            let signature = hex(&secret.sha256(&[&body]));
            let headers = [
                ("linear-signature", signature.clone()),
                ("linear-event", "Issue".into()),
                ("linear-delivery", it.id.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("paddle", "paddle", json!({}), Text, SECONDS, Hex, |secret, it| {
            let body = json_body(&json!({ "event_id": it.id, "event_type": "transaction.paid" }));
            let signature = hex(&secret.sha256(&[it.stamp.as_bytes(), b":", &body]));
            with(&[("paddle-signature", format!("ts={};h1={signature}", it.stamp))], body, signature)
        }),
        provider!("standard", "standard", json!({}), Whsec, SECONDS, Base64, |secret, it| {
            standard(it, ["webhook-id", "webhook-timestamp", "webhook-signature"], "v1", |parts| {
                secret.sha256(parts)
            })
        }),
        provider!("standard_ed25519", "standard", json!({}), Ed25519Whpk, SECONDS, Base64, |secret, it| {
            let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
            standard(it, names, "v1a", |parts| secret.by_key_pair(parts))
        }),
        provider!("svix", "standard", json!({}), Whsec, SECONDS, Base64, |secret, it| {
            standard(it, ["svix-id", "svix-timestamp", "svix-signature"], "v1", |parts| secret.sha256(parts))
        }),
        provider!("hubspot", "hubspot", json!({}), Text, MILLIS, Base64, |secret, it| {
            let body = json_body(&json!([{ "subscriptionType": "contact.creation", "eventId": it.id }]));
            let parts: [&[u8]; 4] = [b"POST", it.url.as_bytes(), &body, it.stamp.as_bytes()];
            let signature = STANDARD.encode(secret.sha256(&parts));
            let headers = [
                ("x-hubspot-signature-v3", signature.clone()),
                ("x-hubspot-request-timestamp", it.stamp.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("intercom", "intercom", json!({}), Text, None, Hex, |secret, it| {
            let body = json_body(&json!({ "id": it.id, "topic": "conversation.user.created" }));
            let signature = hex(&secret.sha1(&[&body]));
            with(&[("x-hub-signature", format!("sha1={signature}"))], body, signature)
        }),
        provider!("zendesk", "zendesk", json!({}), Text, zendesk, Base64, |secret, it| {
            let body = json_body(&json!({ "type": "zen:event-type:ticket.created", "id": it.id }));
            let signature = STANDARD.encode(secret.sha256(&[it.stamp.as_bytes(), &body]));
            let headers = [
                ("x-zendesk-webhook-signature", signature.clone()),
                ("x-zendesk-webhook-signature-timestamp", it.stamp.into()),
                ("x-zendesk-webhook-invocation-id", it.id.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("twitch", "twitch", json!({}), Text, twitch, Hex, |secret, it| {
            let body =
                json_body(&json!({ "subscription": { "type": "stream.online" }, "event": { "id": it.id } }));
            let signature = hex(&secret.sha256(&[it.id.as_bytes(), it.stamp.as_bytes(), &body]));
            let headers = [
                ("twitch-eventsub-message-signature", format!("sha256={signature}")),
                ("twitch-eventsub-message-id", it.id.into()),
                ("twitch-eventsub-message-timestamp", it.stamp.into()),
                ("twitch-eventsub-message-type", "notification".into()),
                ("twitch-eventsub-subscription-type", "stream.online".into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("discord", "discord", json!({}), Ed25519Hex, SECONDS, Hex, |secret, it| {
            let body =
                json_body(&json!({ "type": 1, "event": { "type": "APPLICATION_AUTHORIZED", "id": it.id } }));
            let signature = hex(&secret.by_key_pair(&[it.stamp.as_bytes(), &body]));
            let headers =
                [("x-signature-ed25519", signature.clone()), ("x-signature-timestamp", it.stamp.into())];
            with(&headers, body, signature)
        }),
        provider!("mailgun", "mailgun", json!({}), Text, mailgun, Hex, |secret, it| {
            let signature = hex(&secret.sha256(&[it.stamp.as_bytes(), it.id.as_bytes()]));
            let body = json_body(&json!({
                "signature": { "timestamp": it.stamp, "token": it.id, "signature": signature },
                "event-data": { "event": "opened" },
            }));
            let texts = vec![it.id.to_owned(), it.stamp.to_owned()];
            Signed { headers: Vec::new(), body, signature, signed_texts: Some(texts) }
        }),
        provider!("sendgrid", "sendgrid", json!({}), P256, SECONDS, Base64, |secret, it| {
            let body = json_body(&json!([{ "event": "delivered", "sg_event_id": it.id }]));
            let signature = STANDARD.encode(secret.by_key_pair(&[it.stamp.as_bytes(), &body]));
            let headers = [
                ("x-twilio-email-event-webhook-signature", signature.clone()),
                ("x-twilio-email-event-webhook-timestamp", it.stamp.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("square", "square", json!({}), Text, None, Base64, |secret, it| {
            let body = json_body(&json!({ "event_id": it.id, "type": "payment.updated" }));
            let signature = STANDARD.encode(secret.sha256(&[it.url.as_bytes(), &body]));
            with(&[("x-square-hmacsha256-signature", signature.clone())], body, signature)
        }),
        provider!("adyen", "adyen", json!({}), Hex, None, Base64, |secret, it| {
            let signed = format!("{}::ShopAccount:order-1:1130:EUR:AUTHORISATION:true", it.id);
            let signature = STANDARD.encode(secret.sha256(&[signed.as_bytes()]));
            let item = json!({
                "pspReference": it.id, "merchantAccountCode": "ShopAccount", "merchantReference": "order-1",
                "amount": { "value": 1130, "currency": "EUR" }, "eventCode": "AUTHORISATION", "success": "true",
                "additionalData": { "hmacSignature": signature },
            });
            let body = json_body(
                &json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": item }] }),
            );
            let texts = vec![it.id.to_owned(), "ShopAccount".into(), "order-1".into()];
            Signed { headers: Vec::new(), body, signature, signed_texts: Some(texts) }
        }),
        provider!("calendly", "calendly", json!({}), Text, SECONDS, Hex, |secret, it| {
            let body = json_body(&json!({ "event": "invitee.created", "payload": { "uri": it.id } }));
            let signature = hex(&secret.sha256(&[it.stamp.as_bytes(), b".", &body]));
            with(&[("calendly-webhook-signature", format!("t={},v1={signature}", it.stamp))], body, signature)
        }),
        provider!("typeform", "typeform", json!({}), Text, None, Base64, |secret, it| {
            let body = json_body(&json!({ "event_id": it.id, "event_type": "form_response" }));
            let signature = STANDARD.encode(secret.sha256(&[&body]));
            with(&[("typeform-signature", format!("sha256={signature}"))], body, signature)
        }),
        provider!("pagerduty", "pagerduty", json!({}), Text, None, Hex, |secret, it| {
            let body = json_body(&json!({ "event": { "id": it.id, "event_type": "incident.triggered" } }));
            let signature = hex(&secret.sha256(&[&body]));
            with(&[("x-pagerduty-signature", format!("v1={signature}"))], body, signature)
        }),
        provider!("vercel", "vercel", json!({}), Text, None, Hex, |secret, it| {
            let body = json_body(&json!({ "id": it.id, "type": "deployment.created" }));
            let signature = hex(&secret.sha1(&[&body]));
            with(&[("x-vercel-signature", signature.clone())], body, signature)
        }),
        provider!("hmac", "hmac", hmac_rule, Text, SECONDS, Base64, |secret, it| {
            let body = json_body(&json!({ "type": "a.b", "id": it.id }));
            let parts: [&[u8]; 5] = [it.id.as_bytes(), b".", it.stamp.as_bytes(), b".", &body];
            let signature = STANDARD.encode(mac(hmac::HMAC_SHA512, secret.bytes(), &parts));
            let headers = [
                ("x-signature", format!("v1={signature}")),
                ("x-time", it.stamp.into()),
                ("x-id", it.id.into()),
            ];
            with(&headers, body, signature)
        }),
        provider!("basic", "basic", json!({}), NameAndPassword, None, Credential, |secret, it| {
            let signature = STANDARD.encode(secret.bytes());
            let headers =
                [("authorization", format!("Basic {signature}")), ("idempotency-key", it.id.into())];
            with(&headers, json_body(&json!({ "type": "a.b" })), signature)
        }),
        provider!("bearer", "bearer", json!({}), Text, None, Credential, |secret, it| {
            let signature = secret.told.clone();
            let headers =
                [("authorization", format!("Bearer {signature}")), ("idempotency-key", it.id.into())];
            with(&headers, json_body(&json!({ "type": "a.b" })), signature)
        }),
    ]
}

/// As Standard Webhooks has it, by whichever names.
fn standard(
    it: &Sending<'_>,
    [id, timestamp, header]: [&str; 3],
    version: &str,
    sign: impl FnOnce(&[&[u8]]) -> Vec<u8>,
) -> Signed {
    let body = json_body(&json!({ "type": "user.created", "data": { "name": "Ada" } }));
    let signature = STANDARD.encode(sign(&[it.id.as_bytes(), b".", it.stamp.as_bytes(), b".", &body]));
    let headers =
        [(id, it.id.into()), (timestamp, it.stamp.into()), (header, format!("{version},{signature}"))];
    with(&headers, body, signature)
}
