//! Hazard: a request that its provider has not signed comes in, or one that it has signed does not.
//!
//! For each way to verify a source, forty requests and more, made by `harness/providers.rs` and not by the code that verifies:
//! signed rightly with either of two secrets; bytes of the body and of the signature turned, cut off and added; signatures
//! of nobody, of another source, of another account, in another encoding, twice and nine times; timestamps too old, too new, not
//! there and no timestamps at all, though well signed; another URL. Each from an address that is not slowed down. `--only` names
//! one provider.
//!
//! Holds if exactly the right ones are answered with 2xx, all others with 401, or 400 where a header is malformed; if what is
//! stored is what was accepted; if of each source every refusal is counted; and if a source that verifies cannot be enabled
//! without a secret.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use domain::limits;
use serde_json::Value;

use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::providers::{Provider, Secret, Sending, SignatureEncoding, Signed, providers};
use crate::harness::raw_http::{RawAnswer, json_request, request};
use crate::harness::scrape::Scrape;
use crate::harness::testbed::API_KEY;

const LIMIT: Duration = Duration::from_secs(10);
const FEWEST: usize = 40;

type Headers = Vec<(String, String)>;

/// A request, and whether it is a right one.
struct Vector {
    what: String,
    headers: Headers,
    body: Vec<u8>,
    is_right: bool,
}

/// A source, and what signs for it.
struct Door {
    path: String,
    url: String,
    secret: Secret,
    second: Secret,
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let other = OtherAccount::make(&testbed).await?;
    let wanted = |provider: &Provider| options.only.as_deref().is_none_or(|only| only == provider.name);
    let (mut next_address, mut tried, mut accepted, mut fewest) = (0, 0, 0, usize::MAX);
    let mut wrong: Vec<String> = Vec::new();
    let mut by_status: BTreeMap<u16, u64> = BTreeMap::new();
    for provider in providers().iter().filter(|provider| wanted(provider)) {
        without_a_secret(&testbed, provider, report).await?;
        let door = open(&testbed, API_KEY, provider).await?;
        let foreign = open(&testbed, &other.key, provider).await?;
        let vectors = vectors(provider, &door, &foreign);
        fewest = fewest.min(vectors.len());
        for vector in &vectors {
            // Fewer from each address than may be wrong.
            next_address += 1;
            let from = address(next_address / (limits::WRONG_CREDENTIALS / 2));
            let answer = send(&testbed, from, &door, vector).await?;
            let status = answer.status.unwrap_or(0);
            *by_status.entry(status).or_default() += 1;
            let fits =
                if vector.is_right { matches!(status, 200 | 202) } else { matches!(status, 400 | 401) };
            if !fits {
                wrong.push(format!("{} {}: {status}", provider.name, vector.what));
            }
            accepted += u64::from(status == 202);
        }
        tried += vectors.len();
    }
    report.note("by_status", &by_status);
    report.must_be_at_least("requests", tried as u64, 1);
    report.must_be_at_least("fewest_of_a_provider", fewest as u64, FEWEST as u64);
    report.must_be("wrongly_answered", wrong.len(), 0);
    report.must(wrong.is_empty(), format!("{:?}", &wrong[..wrong.len().min(20)]));
    let stored = testbed.database.count("events").await?;
    report.must_be("accepted", accepted, stored);
    let refused: u64 = by_status.iter().filter(|(status, _)| **status >= 400).map(|(_, count)| count).sum();
    let counted = Scrape::of(&testbed.nodes[0]).await?.sum("posthaste_ingest_unverified_total") as u64;
    report.must_be("refused_and_not_counted", refused.abs_diff(counted), 0);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from([127, 20 + (number / 62_500) as u8, (number / 250 % 250) as u8, 1 + (number % 250) as u8])
}

async fn send(testbed: &Testbed, from: Ipv4Addr, door: &Door, vector: &Vector) -> Result<RawAnswer> {
    let headers: Vec<(&str, &str)> =
        vector.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let bytes = request("POST", &door.path, &headers, &vector.body);
    Ok(raw_http::exchange_from(from, testbed.addr, &bytes, LIMIT).await?)
}

async fn create(testbed: &Testbed, key: &str, source: &Value) -> Result<RawAnswer> {
    let bytes = json_request("POST", "/v1/sources", key, &source.to_string());
    Ok(raw_http::exchange(testbed.addr, &bytes, LIMIT).await?)
}

async fn open(testbed: &Testbed, key: &str, provider: &Provider) -> Result<Door> {
    let (secret, second) = (provider.new_secret(), provider.new_secret());
    let verification = provider.verification(&[&second, &secret]);
    let made = create(testbed, key, &json!({ "name": provider.name, "verification": verification })).await?;
    ensure!(made.status == Some(201), "{}: {}", provider.name, made.text);
    let made: Value = serde_json::from_str(made.body())?;
    let url = made["ingest_url"].as_str().context("a source that was just made shows its URL")?.to_owned();
    let token = url.rsplit('/').next().context("a URL ends in its token")?;
    Ok(Door { path: format!("/ingest/{token}"), url: url.clone(), secret, second })
}

async fn without_a_secret(testbed: &Testbed, provider: &Provider, report: &mut Report) -> Result<()> {
    for secrets in [json!([]), json!([""]), json!(null)] {
        let mut verification = provider.verification(&[]);
        verification["secrets"] = secrets;
        let made = create(testbed, API_KEY, &json!({ "name": "none", "verification": verification })).await?;
        report
            .must(made.status == Some(422), format!("{} without a secret: {:?}", provider.name, made.status));
    }
    let made =
        create(testbed, API_KEY, &json!({ "name": "none", "verification": { "type": "acme" } })).await?;
    report.must(made.status == Some(422), format!("an unknown provider: {:?}", made.status));
    Ok(())
}

fn vectors(provider: &Provider, door: &Door, foreign: &Door) -> Vec<Vector> {
    let ids = Cell::new(0);
    let sign = |secret: &Secret, url: &str, stamp: &str| {
        ids.set(ids.get() + 1);
        let id = format!("id{}x{:08x}", ids.get(), rand::random::<u32>());
        provider.sign(secret, &Sending { url, stamp, id: &id })
    };
    let now = || provider.stamp(0);
    let mut all = Vec::new();
    let mut add = |what: String, signed: Signed, is_right: bool| {
        all.push(Vector { what, headers: signed.headers, body: signed.body, is_right });
    };

    add("as it is".into(), sign(&door.secret, &door.url, &now()), true);
    add("by the second secret".into(), sign(&door.second, &door.url, &now()), true);
    let right = || sign(&door.secret, &door.url, &now());
    if provider.encoding == SignatureEncoding::Hex {
        let signed = right();
        add("in upper case".into(), replaced(&signed, &signed.signature.to_uppercase()), true);
    }

    // --- The body
    if provider.encoding != SignatureEncoding::Credential {
        for part in 0..10 {
            let mut signed = right();
            let at = signed_place(&signed, part);
            signed.body[at] ^= 1;
            add(format!("byte {at} of the body turned"), signed, false);
        }
        if right().signed_texts.is_none() {
            let mut longer = right();
            longer.body.push(b' ');
            add("a byte more".into(), longer, false);
            let mut shorter = right();
            shorter.body.pop();
            add("a byte less".into(), shorter, false);
            let mut spaced = right();
            spaced.body = String::from_utf8_lossy(&spaced.body).replace(':', ": ").into_bytes();
            add("written anew".into(), spaced, false);
            let mut twice = right();
            twice.body = [twice.body.clone(), twice.body].concat();
            add("the body twice".into(), twice, false);
        }
        let mut empty = right();
        empty.body.clear();
        add("no body".into(), empty, false);
    }

    // --- The signature
    for part in 0..10 {
        let signed = right();
        let at = part * (signed.signature.len() - 2) / 10;
        add(
            format!("character {at} of the signature turned"),
            replaced(&signed, &turned(&signed.signature, at)),
            false,
        );
    }
    let signed = right();
    let whole = signed.signature.clone();
    for (what, other) in [
        ("an empty signature", String::new()),
        ("one character less", whole[..whole.len() - 1].to_owned()),
        ("half of it", whole[..whole.len() / 2].to_owned()),
        ("one character more", format!("{whole}a")),
        ("twice in one", format!("{whole}{whole}")),
        ("of zeroes", whole.chars().map(|_| '0').collect()),
        ("`v1,`", "v1,".into()),
        ("`=`", "=".into()),
        ("backwards", whole.chars().rev().collect()),
        ("`null`", "null".into()),
        ("of stars", "*".repeat(whole.len())),
        (
            "the secret",
            if provider.encoding == SignatureEncoding::Credential {
                "x".into()
            } else {
                door.secret.told.clone()
            },
        ),
    ] {
        add(what.into(), replaced(&right(), &other), false);
    }
    add("by nobody's secret".into(), sign(&provider.new_secret(), &door.url, &now()), false);
    add("by another account's secret".into(), sign(&foreign.secret, &door.url, &now()), false);
    if let Some(at) = signature_header(&signed) {
        let with = |change: &dyn Fn(&mut Headers)| {
            let mut signed = signed.clone();
            change(&mut signed.headers);
            signed
        };
        let (name, value) = signed.headers[at].clone();
        add("without its header".into(), with(&|headers| drop(headers.remove(at))), false);
        add("its header empty".into(), with(&|headers| headers[at].1.clear()), false);
        add("its header twice".into(), with(&|headers| headers.push((name.clone(), value.clone()))), false);
        let forged = turned(&value, value.len() - 3);
        add(
            "its header twice, one forged".into(),
            with(&|headers| headers.insert(0, (name.clone(), forged.clone()))),
            false,
        );
        add("under another name".into(), with(&|headers| headers[at].0 = "x-signature-256".into()), false);
        add(
            "the signature bare or behind a prefix".into(),
            with(&|headers| {
                let bare = headers[at].1 == signed.signature;
                headers[at].1 =
                    if bare { format!("sha3={}", signed.signature) } else { signed.signature.clone() };
            }),
            false,
        );
        let nine =
            vec![turned(&value, value.len() - 3); 9].join(if value.contains("v1,") { " " } else { "," });
        add("nine forged ones".into(), with(&|headers| headers[at].1 = nine.clone()), false);
        add("a long one".into(), with(&|headers| headers[at].1 = "a".repeat(8_000)), false);
    }

    let scheme = if provider.name == "basic" { ["Basic", "Bearer"] } else { ["Bearer", "Basic"] };
    if provider.encoding == SignatureEncoding::Credential {
        let [own, other] = scheme;
        for (what, value, is_right) in [
            ("the scheme in lower case", format!("{} {whole}", own.to_lowercase()), true),
            ("by another scheme", format!("{other} {whole}"), false),
            ("by no scheme that there is", format!("Digest {whole}"), false),
            ("with a comma", format!("{own} {whole},"), false),
            ("the scheme twice", format!("{own} {own} {whole}"), false),
            ("with a colon", format!("{own}: {whole}"), false),
        ] {
            let mut signed = right();
            signed.headers[0].1 = value;
            add(what.into(), signed, is_right);
        }
    }
    if signature_header(&signed).is_none() {
        for other in ["1", "null", "[]", "{}", "true"] {
            let signed = right();
            let quoted = format!("\"{}\"", signed.signature);
            let changed = replaced_text(&signed, &quoted, other).unwrap_or(signed);
            add(format!("{other} in its place"), changed, false);
        }
    }

    // --- Where it is sent
    let elsewhere = sign(&foreign.secret, &foreign.url, &now());
    add("another source's request".into(), elsewhere, false);
    if signs_url(provider) {
        for other in [foreign.url.clone(), format!("{}?a=1", door.url), door.url.replace("http:", "https:")] {
            add(format!("signed for {other}"), sign(&door.secret, &other, &now()), false);
        }
    }

    // --- When
    let Some(stamp) = provider.stamp else { return all };
    let tolerance = stamp.tolerance_seconds;
    for (from_now, is_right) in [
        (10 - tolerance, true),
        (tolerance - 10, true),
        (-tolerance - 10, false),
        (tolerance + 10, false),
        (-10 * tolerance, false),
    ] {
        let stamp = provider.stamp(from_now);
        add(format!("{from_now} s from now"), sign(&door.secret, &door.url, &stamp), is_right);
    }
    for stamp in
        ["", "0", "-1", "now", "99999999999999999999999999", "1e9", "0x6553f100", "18446744073709551616"]
    {
        add(format!("at `{stamp}`"), sign(&door.secret, &door.url, stamp), false);
    }
    let late = provider.stamp(1);
    let signed = right();
    let moved = replaced_text(&signed, &now(), &late);
    if let Some(moved) = moved {
        add("another moment than was signed".into(), moved, false);
    }
    all
}

/// A character of another value, in the same alphabet.
fn turned(text: &str, at: usize) -> String {
    let turned = |character: char| match character {
        '0' => '1',
        'a'..='y' | 'A'..='Y' | '1'..='8' => char::from(character as u8 + 1),
        _ => 'a',
    };
    // A signature in hexadecimal digits has none but those.
    let is_hex = text.chars().all(|character| character.is_ascii_hexdigit());
    let next = |character| if is_hex && character == 'f' { '0' } else { turned(character) };
    text.chars().enumerate().map(|(place, one)| if place == at { next(one) } else { one }).collect()
}

/// The same with another signature, wherever it stands.
fn replaced(signed: &Signed, other: &str) -> Signed {
    replaced_text(signed, &signed.signature, other).unwrap_or_else(|| signed.clone())
}

fn replaced_text(signed: &Signed, text: &str, other: &str) -> Option<Signed> {
    let mut changed = signed.clone();
    let mut found = false;
    for (_, value) in &mut changed.headers {
        found |= value.contains(text);
        *value = value.replace(text, other);
    }
    let body = String::from_utf8_lossy(&changed.body).into_owned();
    if !found {
        found = body.contains(text);
        changed.body = body.replace(text, other).into_bytes();
    }
    found.then_some(changed)
}

fn signature_header(signed: &Signed) -> Option<usize> {
    signed.headers.iter().position(|(_, value)| value.contains(&signed.signature))
}

/// The place of a byte that is signed: spread over all that is, or over the parts that are.
fn signed_place(signed: &Signed, part: usize) -> usize {
    let Some(texts) = &signed.signed_texts else { return part * (signed.body.len() - 1) / 9 };
    let text = &texts[part % texts.len()];
    let body = String::from_utf8_lossy(&signed.body).into_owned();
    let begins = body.find(text.as_str()).unwrap_or_default();
    begins + (part / texts.len()) % text.trim_end_matches(['"', ',']).len()
}

fn signs_url(provider: &Provider) -> bool {
    matches!(provider.name, "twilio" | "square" | "hubspot")
}
