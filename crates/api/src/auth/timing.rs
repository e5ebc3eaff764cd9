//! Whether the time it takes to look at a presented key says anything of the one that is kept: Welch's t-test on two kinds of
//! wrong secrets and the right one, 200,000 samples each pair, in turns that chance decides.
//!
//! `cargo test -p api --release --lib -- --ignored --nocapture the_time_of_a_look`

use super::is_of;
use crate::{
    installation_secrets::InstallationSecrets,
    keys::{KeyText, PresentedKey},
};
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    account::{ApiKey, KeyKind},
    id::ApiKeyId,
    seal::MasterKeys,
    testing::CountingDice,
    time::{Clock, Timestamp},
};
use std::{hint::black_box, sync::Arc, time::Instant};
use store::memory::MemoryStore;

const SAMPLES: usize = 200_000;

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn the_time_of_a_look_says_nothing_of_the_secret() {
    let store = MemoryStore::new(Arc::new(Still));
    let master = MasterKeys::parse(&format!("k1:{}", STANDARD.encode([7; 32]))).expect("a master key");
    let dice = CountingDice::default();
    let secrets = InstallationSecrets::open(&store, master, &dice).await.expect("secrets");
    let text = KeyText::generate(KeyKind::Account, &dice);
    let kept = text.kept(ApiKeyId::MIN, None, "timed", &secrets, Timestamp::MIN);
    let right = text.parts().secret.to_owned();
    let mut last = right.clone().into_bytes();
    *last.last_mut().expect("32 characters") ^= 1;
    let nearly = String::from_utf8(last).expect("ASCII");
    // Its hash has the first 31 bytes of the right one: what a look that ends early would betray.
    let mut near_hash = kept.clone();
    near_hash.hash[31] ^= 1;
    let far = "0".repeat(right.len());
    for (name, one, other) in [
        ("the right secret, and another", (&right, &kept), (&far, &kept)),
        ("one character away, and another", (&nearly, &kept), (&far, &kept)),
        ("31 bytes of the hash right, and none", (&right, &near_hash), (&far, &kept)),
    ] {
        let t = welch(&secrets, [one, other]);
        println!("{name}: |t| = {:.2} of {SAMPLES} samples", t.abs());
        assert!(t.abs() < 4.5, "{name}: {t}");
    }
}

fn welch(secrets: &InstallationSecrets, kinds: [(&String, &ApiKey); 2]) -> f64 {
    let random = SystemRandom::new();
    let mut bits = vec![0; SAMPLES];
    random.fill(&mut bits).expect("chance");
    let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for bit in bits {
        let kind = usize::from(bit & 1);
        let (secret, kept) = kinds[kind];
        let presented = PresentedKey { kind: KeyKind::Account, lookup: &[b'0'; 12], secret };
        let began = Instant::now();
        black_box(is_of(black_box(&presented), &secrets.hash(presented.secret.as_bytes()), Some(kept)));
        times[kind].push(began.elapsed().as_nanos() as f64);
    }
    // What was interrupted says nothing of the code: the slowest tenth of both together is left out.
    let mut all: Vec<f64> = times.concat();
    all.sort_by(f64::total_cmp);
    let most = all[all.len() * 9 / 10];
    let [one, other] = times.map(|times| moments(times.into_iter().filter(|time| *time <= most)));
    (one.0 - other.0) / (one.1 / one.2 + other.1 / other.2).sqrt()
}

/// Mean, variance, and how many.
fn moments(times: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let times: Vec<f64> = times.collect();
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance, count)
}
