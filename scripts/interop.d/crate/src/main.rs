//! What the crate `standardwebhooks` says to the requests that a node has sent. Its clock cannot be set: requests of another
//! time are made by `posthaste sign`, and are good but for that.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use standardwebhooks::Webhook;
use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, ExitCode, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

/// What `docs/signatures.md` tells people to write.
mod snippet {
    include!(env!("SNIPPET"));

    pub fn believes(secret: &str, headers: &http::HeaderMap, body: &[u8]) -> bool {
        is_ours(secret, headers, body)
    }
}

#[derive(Deserialize)]
struct Request {
    way: String,
    headers: BTreeMap<String, String>,
    body: String,
    secrets: Vec<String>,
}

fn headers<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> HeaderMap {
    let pair = |(name, value): (&str, &str)| -> (HeaderName, HeaderValue) {
        (name.parse().expect("a name"), value.parse().expect("a value"))
    };
    pairs.into_iter().map(pair).collect()
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (file, posthaste) = (args.next().expect("a file"), args.next().expect("the binary"));
    let text = std::fs::read_to_string(file).expect("requests");
    let requests: Vec<Request> = serde_json::from_str(&text).expect("requests");
    let other = Webhook::new(&format!("whsec_{}", STANDARD.encode([9; 32]))).expect("a secret");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    let mut failed = false;
    for way in ["v1", "v1 rotated", "v1 + v1a", "v1a"] {
        let (mut good, mut wanted, mut bad, mut tries) = (0, 0, 0, 0);
        let knows = way != "v1a";
        for request in requests.iter().filter(|request| request.way == way) {
            let body = STANDARD.decode(&request.body).expect("base64");
            let sent = headers(request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            let mut altered = body.clone();
            *altered.last_mut().expect("a body") ^= 1;
            for secret in &request.secrets {
                let webhook = Webhook::new(secret).expect("a secret");
                wanted += i32::from(knows);
                let believed = webhook.verify(&body, &sent).is_ok();
                assert_eq!(snippet::believes(secret, &sent, &body), believed, "the documented lines say something else");
                assert!(!snippet::believes(secret, &sent, &altered), "the documented lines believe anything");
                good += i32::from(knows && believed);
                tries += 1 + i32::from(!knows);
                bad += i32::from(!knows && !believed) + i32::from(webhook.verify(&altered, &sent).is_err());
                for at in [now - 301 - 2, now + 301 + 30] {
                    let stale = signed(&posthaste, secret, at, &body);
                    let stale = headers(stale.iter().map(|(name, value)| (name.as_str(), value.as_str())));
                    // Good but for its time: the crate signs the same.
                    let text = |name: &str| stale[name].to_str().expect("ASCII");
                    let own = webhook.sign(text("webhook-id"), at, &body).expect("UTF-8");
                    assert_eq!(text("webhook-signature"), own, "`posthaste sign` signs as the crate does");
                    tries += 1;
                    bad += i32::from(webhook.verify(&body, &stale).is_err());
                }
            }
            tries += 1;
            bad += i32::from(other.verify(&body, &sent).is_err());
        }
        failed |= good != wanted || bad != tries || tries == 0;
        let word = if knows { format!("believed {good}/{wanted}, ") } else { "knows it not: ".into() };
        println!("crate {:<32} {way:<15} {word}refused {bad}/{tries}", "standardwebhooks");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn signed(posthaste: &str, secret: &str, at: i64, body: &[u8]) -> BTreeMap<String, String> {
    let mut child = Command::new(posthaste)
        .args(["sign", "--json", "--timestamp", &at.to_string()])
        .env("POSTHASTE_SIGN_SECRET", secret)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary");
    child.stdin.take().expect("its input").write_all(body).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "`posthaste sign` fails");
    serde_json::from_slice(&output.stdout).expect("headers")
}
