//! Hazard: while a secret is changed, a receiver that does everything right refuses what we send.
//!
//! Under load (100 events a second, `--rate`; to each of four destinations) what each of them signs with is changed, with an
//! overlap of ten seconds: the secret of one by each scheme, and the key pair of the fourth. The receivers verify every request
//! with the libraries' rules and answer 401 to what they do not believe: first with the old key alone, then, from the answer to
//! the change on, with both, and from the middle of the overlap on with the new one alone.
//!
//! Holds if nothing is refused; if from one second after the change until the end of the overlap every request is signed with
//! both keys; and if one second after that end no request is signed with the old one any more.

use std::sync::{Arc, Mutex};

use client::{RotateSecret, RotatedKey};
use domain::destination::{Scheme, header_of_new};
use domain::id::DestinationId;
use domain::signature::{
    self, SigningSecret,
    key_pair::{PublicKey, SignedContent},
    text::{self, TextSecret},
};
use http::HeaderMap;

use crate::harness::prelude::*;

const OVERLAP: Duration = Duration::from_secs(10);
const BEFORE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(5);
/// In which a change is obeyed, and in which an old key has signed for the last time.
const WITHIN_US: u64 = 1_000_000;
/// What the libraries allow.
const TOLERANCE_SECONDS: u64 = 300;
const KINDS: [Kind; 4] = [Kind::Standard, Kind::Stripe, Kind::Github, Kind::KeyPair];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Standard,
    Stripe,
    Github,
    /// `v1a` alone.
    KeyPair,
}

/// What a receiver has been given: a secret, or a public key.
type Keys = Arc<Mutex<Vec<String>>>;

/// One destination, and what was changed of it when.
struct Rotation {
    kind: Kind,
    id: DestinationId,
    old: String,
    new: String,
    keys: Keys,
    /// By the receiver's clock.
    asked_us: u64,
    answered_us: u64,
    until_us: u64,
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::FullWithBodies);
    let mut rotations = Vec::new();
    for kind in KINDS {
        rotations.push(destination(&testbed, kind).await?);
    }
    let load = testbed.publisher(Until::Elapsed(BEFORE + OVERLAP + AFTER)).open(options.rate(100.0));
    let load = Pump::start(load)?;
    sleep(BEFORE).await;
    for rotation in &mut rotations {
        rotate(&testbed, rotation).await?;
    }
    sleep(OVERLAP / 2).await;
    for rotation in &rotations {
        *lock(&rotation.keys) = vec![rotation.new.clone()];
    }
    let sent = load.report().await;
    report.must_all_be_accepted(&sent);
    report.note("events", sent.accepted);
    testbed.must_drain(Duration::from_secs(10), report).await?;
    for rotation in &rotations {
        judge(&testbed, rotation, sent.accepted, report).await?;
    }
    testbed.tear_down().await
}

async fn destination(testbed: &Testbed, kind: Kind) -> Result<Rotation> {
    let name = format!("{kind:?}").to_lowercase();
    let mut plan = testbed.destination_with_slots(&name, 50);
    plan.signing.scheme = match kind {
        Kind::Standard => Scheme::Standard,
        Kind::Stripe => Scheme::Stripe,
        Kind::Github => Scheme::Github,
        Kind::KeyPair => Scheme::None,
    };
    plan.signing.ed25519 = kind == Kind::KeyPair;
    let id = testbed.add_destination(&plan, &[]).await?;
    let old = match kind {
        Kind::KeyPair => testbed.client.destination(id).await?.signing.public_key.context("a public key")?,
        _ => testbed.client.destination_secret(id).await?.secret,
    };
    let keys: Keys = Arc::new(Mutex::new(vec![old.clone()]));
    let known = Arc::clone(&keys);
    let script = Script::custom(move |request| {
        let good = lock(&known).iter().any(|key| verifies(kind, key, request.headers, request.body));
        if good { Reply::ok() } else { Reply::status(401) }
    });
    testbed.receiver.script(&name, script);
    let new = String::new();
    Ok(Rotation { kind, id, old, new, keys, asked_us: 0, answered_us: 0, until_us: 0 })
}

async fn rotate(testbed: &Testbed, rotation: &mut Rotation) -> Result<()> {
    let which = if rotation.kind == Kind::KeyPair { RotatedKey::KeyPair } else { RotatedKey::Secret };
    let overlap_seconds = Some(OVERLAP.as_secs());
    let how = RotateSecret { which: Some(which), overlap_seconds, ..RotateSecret::default() };
    rotation.asked_us = testbed.receiver.now_us();
    let signing = testbed.client.rotate_secret_as(rotation.id, &how).await?.signing;
    let (new, until) = match rotation.kind {
        Kind::KeyPair => (signing.public_key, signing.previous_public_key_until),
        _ => (signing.secret, signing.previous_until),
    };
    rotation.new = new.context("a new key")?;
    lock(&rotation.keys).push(rotation.new.clone());
    rotation.answered_us = testbed.receiver.now_us();
    let began_us = lab::clock::unix_us() - rotation.answered_us;
    rotation.until_us = (until.context("an overlap")?.micros() as u64).saturating_sub(began_us);
    Ok(())
}

async fn judge(testbed: &Testbed, rotation: &Rotation, events: u64, report: &mut Report) -> Result<()> {
    let name = format!("{:?}", rotation.kind).to_lowercase();
    let records: Vec<Record> =
        testbed.receiver.snapshot().into_iter().filter(|record| *record.destination == name).collect();
    report.must_be(&format!("{name}_requests"), records.len(), events);
    let refused = records.iter().filter(|record| !record.succeeded()).count();
    report.must_be(&format!("{name}_refused"), refused, 0);
    let (mut without_old, mut without_new, mut with_old_after, mut both, mut last_old_us) =
        (0u64, 0u64, 0u64, 0u64, 0u64);
    for record in &records {
        let Some(kept) = &record.kept else { continue };
        let [old, new] =
            [&rotation.old, &rotation.new].map(|key| verifies(rotation.kind, key, &kept.headers, &kept.body));
        let at = record.start_us;
        if old {
            last_old_us = last_old_us.max(at);
        }
        both += u64::from(old && new);
        without_old += u64::from(at < rotation.until_us && !old);
        without_new += u64::from(at > rotation.answered_us + WITHIN_US && !new);
        with_old_after += u64::from(at > rotation.until_us + WITHIN_US && old);
    }
    report.must_be(&format!("{name}_without_the_old_key_before_its_end"), without_old, 0);
    report.must_be(&format!("{name}_without_the_new_key_a_second_after_the_change"), without_new, 0);
    report.must_be(&format!("{name}_with_the_old_key_a_second_after_its_end"), with_old_after, 0);
    report.must_be_at_least(&format!("{name}_with_both"), both as f64, (OVERLAP.as_secs() - 2) as f64);
    let last = last_old_us as f64 - rotation.until_us as f64;
    report.note(&format!("{name}_old_key_last_seen_ms_after_its_end"), rounded(last / 1e3));
    let after = records.iter().filter(|record| record.start_us > rotation.until_us + WITHIN_US).count();
    report.must_be_at_least(&format!("{name}_requests_after_its_end"), after as f64, 1.0);
    Ok(())
}

/// As a receiver does that knows this key.
fn verifies(kind: Kind, key: &str, headers: &HeaderMap, body: &[u8]) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (id, timestamp, signatures) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let now = (lab::clock::unix_us() / 1_000_000) as i64;
    match kind {
        Kind::Standard => {
            let Ok(secret) = key.parse::<SigningSecret>() else { return false };
            signature::verify([&secret], id, timestamp, signatures, body, now, TOLERANCE_SECONDS).is_ok()
        }
        Kind::KeyPair => {
            let Ok(key) = key.parse::<PublicKey>() else { return false };
            let content = SignedContent::new(id, timestamp, body);
            signatures.split(' ').any(|entry| key.matches(&content, entry))
        }
        Kind::Stripe => {
            let Ok(secret) = TextSecret::new(key) else { return false };
            let found = header("stripe-signature");
            let at = found.split(',').find_map(|part| part.strip_prefix("t=")?.parse::<i64>().ok());
            let Some(at) = at.filter(|at| at.abs_diff(now) <= TOLERANCE_SECONDS) else { return false };
            let ours = text::stripe([&secret], at, body);
            let ours = ours.split(',').next_back().unwrap_or_default();
            found.split(',').any(|part| text::is_same(part, ours))
        }
        Kind::Github => {
            let Ok(secret) = TextSecret::new(key) else { return false };
            let ours = text::github(&secret, body);
            let usual = "x-hub-signature-256";
            [header(usual), header(&header_of_new(usual))].iter().any(|found| text::is_same(found, &ours))
        }
    }
}

fn lock(keys: &Keys) -> std::sync::MutexGuard<'_, Vec<String>> {
    keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
