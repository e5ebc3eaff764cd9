//! Hazard: who tries keys or ingest URLs one after the other finds one, learns which there are, or keeps others out.
//!
//! First a wrong secret of a key that exists and one of a key that does not, by turns, from so many addresses that
//! none is slowed down. Then ten thousand wrong keys (`--count`) from one address, as fast as eight at once can, and
//! as many from a hundred addresses: keys with a wrong checksum, of nobody, and with a wrong secret; and a tenth as
//! many ingest URLs. Meanwhile somebody at the same address uses a right key, and somebody elsewhere another. Last passwords: for
//! a user that is there and for nobody, by turns, then as many as of keys for one user, from a hundred addresses.
//!
//! Holds if the first two are answered alike, word for word; if each address is told 401, or 404 of an ingest URL, as
//! often as a person may mistype and 429 with Retry-After for all the rest; if no answer is 2xx or 5xx; if a right key
//! is never refused; and if one that this node has never seen is let in within ten seconds. How long the first two take
//! is told and not judged: a key that was used lately is found without asking the store. Of passwords as many are tried as
//! one name has, a user that is there takes as long as nobody, within a tenth, and the user itself gets in all the while.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use client::ApiKeyInput;
use domain::limits;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::harness::prelude::*;
use crate::harness::raw_http::RawAnswer;
use crate::harness::testbed::{API_KEY, OPERATOR_KEY};

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Where a key has what it is looked up by.
const LOOKUP: std::ops::Range<usize> = 4..16;
const AT_ONCE: u64 = 8;
const ADDRESSES: u8 = 100;
/// Of pairs that are compared: each address may be wrong so often.
const PAIRS: u32 = 1_000;
const LIMIT: Duration = Duration::from_secs(10);
/// Where most of the guessing comes from, and where nobody guesses.
const GUESSER: Ipv4Addr = Ipv4Addr::new(127, 7, 7, 7);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 8, 8, 8);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    existing_like_unknown(&testbed, report).await?;

    let count = options.count(10_000);
    let bystanders = [("beside", GUESSER), ("elsewhere", ELSEWHERE)]
        .map(|(name, from)| (name, use_right_key(testbed.addr, from)));
    let began = Instant::now();
    let one = guess(&testbed, count, |_| GUESSER, key_request).await?;
    let new_key = let_in(&testbed, count, report).await?;
    let seconds = began.elapsed().as_secs_f64();
    must_be_slowed(&one, "one_address", 1.0, 401, seconds, report);
    report.must_be_at_most("new_key_let_in_after_seconds", new_key, LIMIT);

    let began = Instant::now();
    let from = |number: u64| Ipv4Addr::new(127, 9, 9, 1 + (number % u64::from(ADDRESSES)) as u8);
    let many = guess(&testbed, count, from, key_request).await?;
    let seconds = began.elapsed().as_secs_f64();
    must_be_slowed(&many, "many_addresses", f64::from(ADDRESSES), 401, seconds, report);

    let began = Instant::now();
    let urls = guess(&testbed, count / 10, |_| Ipv4Addr::new(127, 7, 7, 8), ingest_request).await?;
    must_be_slowed(&urls, "ingest_urls", 1.0, 404, began.elapsed().as_secs_f64(), report);
    passwords(&testbed, count, report).await?;
    for (name, bystander) in bystanders {
        let (right, refused) = bystander.finish().await?;
        report.must_be_at_least(&format!("{name}_let_in"), right, 1);
        report.must_be(&format!("{name}_refused"), refused, 0);
    }
    testbed.must_be_running(report);
    testbed.tear_down().await
}

const PASSWORD: &str = "correct horse battery staple";
/// Of each, of a user that is there and of one that is not: as many as one name has, from addresses that may be wrong so often.
const TIMED: u32 = 40;

/// How long a wrong password takes for a user that is there and for one that is not; then as many tries as of keys, of one name
/// and from a hundred addresses, beside the user itself.
async fn passwords(testbed: &Testbed, count: u64, report: &mut Report) -> Result<()> {
    for name in ["ada", "grace"] {
        let user = json!({ "name": name, "password": PASSWORD, "role": "operator" }).to_string();
        let made = raw_http::json_request("POST", "/v1/users", OPERATOR_KEY, &user);
        let made = raw_http::exchange(testbed.addr, &made, LIMIT).await?;
        ensure!(made.status == Some(201), "a user: {}", made.text);
    }
    let (mut looks, mut times) = (BTreeMap::new(), [Vec::new(), Vec::new()]);
    for number in 0..TIMED {
        let from = Ipv4Addr::from([127, 12, 0, 1 + (number / 8) as u8]);
        for (kind, name) in ["ada", "nobody"].into_iter().enumerate() {
            let answer =
                raw_http::exchange_from(from, testbed.addr, &sign_in(testbed, name, "wrong"), LIMIT).await?;
            *looks.entry(look(&answer)).or_insert(0) += 1;
            times[kind].push(answer.took.as_secs_f64() * 1e3);
        }
    }
    report.must(looks.len() == 1, format!("a user and nobody can be told apart: {looks:?}"));
    let [existing, unknown] = times.map(median);
    report.note("wrong_password_ms", rounded(existing));
    report.note("nobodys_password_ms", rounded(unknown));
    report.must_be_at_most("password_times_apart", (existing - unknown).abs() / existing, 0.1);

    // The owner was right from here before.
    let own = Ipv4Addr::new(127, 13, 0, 1);
    let right = sign_in(testbed, "grace", PASSWORD);
    let answer = raw_http::exchange_from(own, testbed.addr, &right, LIMIT).await?;
    ensure!(answer.status == Some(200), "the right password: {}", answer.text);
    let began = Instant::now();
    let from = |number: u64| Ipv4Addr::new(127, 14, 0, 1 + (number % u64::from(ADDRESSES)) as u8);
    let wrong = sign_in(testbed, "grace", "wrong");
    let tries = guess_with(testbed, count, from, move |_| wrong.clone()).await?;
    let seconds = began.elapsed().as_secs_f64();
    report.note("passwords_of_one_name", &tries.by_status);
    let told = tries.by_status.get(&401).copied().unwrap_or(0);
    let again = seconds / f64::from(limits::WRONG_PASSWORDS_OF_A_NAME_SECONDS);
    let most = f64::from(limits::WRONG_PASSWORDS_OF_A_NAME) * (1.0 + again) + 1.0;
    report.must_be_at_most("passwords_tried", told, most);
    let limited = tries.by_status.get(&429).copied().unwrap_or(0);
    let all: u64 = tries.by_status.values().sum();
    // Two passwords at once are tried, and few wait: the others are told to come back.
    let busy = tries.by_status.get(&503).copied().unwrap_or(0);
    report.must_be("passwords_other_answers", all - told - limited - busy, 0);
    report.must_be("passwords_without_retry_after", tries.without_retry_after, 0);
    let answer = raw_http::exchange_from(own, testbed.addr, &right, LIMIT).await?;
    report.must(answer.status == Some(200), format!("the owner is kept out: {:?}", answer.status));
    Ok(())
}

/// As a page of this node sends it.
fn sign_in(testbed: &Testbed, user: &str, password: &str) -> Vec<u8> {
    let body = json!({ "user": user, "password": password }).to_string();
    let (addr, length) = (testbed.addr, body.len());
    format!(
        "POST /ui/sign-in HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\nsec-fetch-site: same-origin\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// By turns, so that whatever else goes on meets both.
async fn existing_like_unknown(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let lookup = &API_KEY[LOOKUP];
    let (mut looks, mut times) = (BTreeMap::new(), [Vec::new(), Vec::new()]);
    for number in 0..PAIRS {
        let a_pair = number / (limits::WRONG_CREDENTIALS / 2);
        let from = Ipv4Addr::from([127, 10, (a_pair / 250) as u8, 1 + (a_pair % 250) as u8]);
        for (kind, key) in [well_formed(Some(lookup)), well_formed(None)].into_iter().enumerate() {
            let request = raw_http::json_request("GET", "/v1/routes", &key, "");
            let answer = raw_http::exchange_from(from, testbed.addr, &request, LIMIT).await?;
            *looks.entry(look(&answer)).or_insert(0) += 1;
            times[kind].push(answer.took.as_secs_f64() * 1e3);
        }
    }
    report.must_be("ways_a_wrong_key_is_answered", looks.len(), 1);
    report.must(looks.len() == 1, format!("they can be told apart: {looks:?}"));
    let [existing, unknown] = times.map(median);
    report.note("existing_ms", rounded(existing));
    report.note("unknown_ms", rounded(unknown));
    Ok(())
}

/// The answer without what differs between any two.
fn look(answer: &RawAnswer) -> String {
    let mut body: Value = serde_json::from_str(answer.body()).unwrap_or_default();
    body["request_id"] = Value::Null;
    let head = answer.text.split("\r\n\r\n").next().unwrap_or_default();
    let names: Vec<&str> = head.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    format!("{names:?} {body}")
}

/// How often each status came, and whether each 429 said when to come back.
#[derive(Debug, Default)]
struct Answers {
    by_status: BTreeMap<u16, u64>,
    without_retry_after: u64,
}

/// So many, eight at once, from the addresses they are said to come from.
async fn guess(
    testbed: &Testbed,
    count: u64,
    from: impl Fn(u64) -> Ipv4Addr + Copy + Send + 'static,
    request: fn(u64) -> Vec<u8>,
) -> Result<Answers> {
    guess_with(testbed, count, from, request).await
}

async fn guess_with(
    testbed: &Testbed,
    count: u64,
    from: impl Fn(u64) -> Ipv4Addr + Copy + Send + 'static,
    request: impl Fn(u64) -> Vec<u8> + Clone + Send + 'static,
) -> Result<Answers> {
    let (addr, next) = (testbed.addr, Arc::<AtomicU64>::default());
    let mut guessers = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (next, request) = (next.clone(), request.clone());
        guessers.spawn(async move {
            let mut answers = Answers::default();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= count {
                    return Ok::<_, std::io::Error>(answers);
                }
                let answer = raw_http::exchange_from(from(number), addr, &request(number), LIMIT).await?;
                *answers.by_status.entry(answer.status.unwrap_or(0)).or_default() += 1;
                let told = answer.header("retry-after").and_then(|text| text.parse::<u64>().ok());
                let is_told = told.is_some_and(|seconds| (1..=60).contains(&seconds));
                answers.without_retry_after += u64::from(answer.status == Some(429) && !is_told);
            }
        });
    }
    let mut all = Answers::default();
    while let Some(one) = guessers.join_next().await {
        let one = one??;
        one.by_status.iter().for_each(|(status, count)| *all.by_status.entry(*status).or_default() += count);
        all.without_retry_after += one.without_retry_after;
    }
    Ok(all)
}

fn must_be_slowed(
    answers: &Answers,
    name: &str,
    addresses: f64,
    wrong: u16,
    seconds: f64,
    report: &mut Report,
) {
    report.note(name, &answers.by_status);
    let told = answers.by_status.get(&wrong).copied().unwrap_or(0);
    let limited = answers.by_status.get(&429).copied().unwrap_or(0);
    let again = seconds / f64::from(limits::WRONG_CREDENTIALS_SECONDS);
    let most = addresses * f64::from(limits::WRONG_CREDENTIALS) * (1.0 + again) + addresses;
    report.must_be_at_most(&format!("{name}_told_wrong"), told, most);
    let all: u64 = answers.by_status.values().sum();
    report.must_be(&format!("{name}_other_answers"), all - told - limited, 0);
    report.must_be_at_least(&format!("{name}_slowed_down"), limited, 1);
    report.must_be(&format!("{name}_without_retry_after"), answers.without_retry_after, 0);
}

/// Somebody who has nothing to do with it: how often it was let in, and refused.
fn use_right_key(addr: std::net::SocketAddr, from: Ipv4Addr) -> Background<(u64, u64)> {
    Background::task(move |stop| async move {
        let request = raw_http::json_request("GET", "/v1/routes", API_KEY, "");
        let (mut right, mut refused) = (0, 0);
        while !stop.is_set() {
            let answer = raw_http::exchange_from(from, addr, &request, LIMIT).await?;
            *(if answer.status == Some(200) { &mut right } else { &mut refused }) += 1;
            sleep(Duration::from_millis(20)).await;
        }
        Ok((right, refused))
    })
}

/// How long a key that this node has never seen takes to be let in, at the address that goes on guessing.
async fn let_in(testbed: &Testbed, count: u64, report: &mut Report) -> Result<Duration> {
    let key =
        testbed.client.create_api_key(&ApiKeyInput { name: "new".into(), ..Default::default() }).await?.key;
    let request = raw_http::json_request("GET", "/v1/routes", &key, "");
    let began = Instant::now();
    let guessing = guess(testbed, count / 10, |_| GUESSER, key_request);
    let comes_in = async {
        let mut refused = 0;
        let is_in = becomes(LIMIT, 20, async || {
            let answer = raw_http::exchange_from(GUESSER, testbed.addr, &request, LIMIT).await?;
            refused += u64::from(answer.status != Some(200));
            Ok(answer.status == Some(200))
        });
        is_in.await.map(|is_in| (is_in, began.elapsed(), refused))
    };
    let (guessed, came_in) = tokio::join!(guessing, comes_in);
    guessed?;
    let (is_in, took, refused) = came_in?;
    report.note("new_key_refused_before", refused);
    report.must(is_in, "a right key that is new to this node is not let in");
    Ok(took)
}

/// By turns: a checksum that is wrong, a key of nobody, a wrong secret.
fn key_request(number: u64) -> Vec<u8> {
    let key = match number % 3 {
        0 => format!("phk_{}_{}", draw(12), draw(38)),
        1 => well_formed(None),
        _ => well_formed(Some(&API_KEY[LOOKUP])),
    };
    raw_http::json_request("GET", "/v1/routes", &key, "")
}

fn ingest_request(_: u64) -> Vec<u8> {
    raw_http::request("POST", &format!("/ingest/{}", draw(32)), &[], b"{}")
}

/// A key with a right checksum and a secret that nobody has.
fn well_formed(lookup: Option<&str>) -> String {
    let lookup = lookup.map_or_else(|| draw(12), str::to_owned);
    let body = format!("phk_{lookup}_{}", draw(32));
    let checksum = checksum(&body);
    body + &checksum
}

fn checksum(body: &str) -> String {
    let mut sum = crc32(body.as_bytes());
    let mut digits = [0; 6];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(sum % 62) as usize];
        sum /= 62;
    }
    String::from_utf8_lossy(&digits).into_owned()
}

fn draw(count: usize) -> String {
    (0..count).map(|_| char::from(ALPHABET[rand::random_range(0..62)])).collect()
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_key_has_the_checksum_of_a_real_one() {
        let (body, sum) = API_KEY.split_at(API_KEY.len() - 6);
        assert_eq!(checksum(body), sum);
    }
}
