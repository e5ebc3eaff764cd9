//! Hazard: a key that was taken from the store, seen in a URL, revoked, expired or meant for somewhere else still opens something.
//!
//! Keys of every kind are made and used. Then everything that is stored is read: every table, and on the embedded store every
//! file of the folder. Keys are sent in URLs, by forty names; one is revoked, and one expires, while each node is asked all
//! the while; others are used from elsewhere, beyond their scope and with a wrong checksum.
//!
//! Holds if nothing of a key's secret is stored, in the clear or as a plain digest; if a key in a URL is a 400; if on every node a
//! revoked key is refused within a second, and an expired one within a second of its end; and if the others are 401, or 403 where
//! the scope is missing, with the same words wherever they are sent.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use client::{ApiKeyInput, NewSource};
use domain::account::{KeyKind, Scope};
use domain::time::Timestamp;

use crate::harness::prelude::*;
use crate::harness::providers::{hex, now_millis};
use crate::harness::raw_http::{RawAnswer, json_request, request};
use crate::harness::testbed::{API_KEY, OPERATOR_KEY};

const LIMIT: Duration = Duration::from_secs(10);
const GONE_WITHIN: Duration = Duration::from_secs(1);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let plan = match options.store() {
        StoreKind::Sqlite => TestbedPlan::new(options)?,
        StoreKind::Postgres => TestbedPlan::of_several(options)?,
    };
    let mut testbed = plan.start().await?;
    let made = keys_of_every_kind(&testbed).await?;
    for key in &made {
        let answer = ask(&testbed, 0, key, "/v1/account").await?;
        report.must(answer.status != Some(401), format!("a key that was just made: {:?}", answer.status));
    }
    in_urls(&testbed, report).await?;
    gone_in_time(&testbed, report).await?;
    elsewhere_and_beyond(&testbed, report).await?;
    not_stored(&mut testbed, &made, report).await?;
    testbed.tear_down().await
}

async fn keys_of_every_kind(testbed: &Testbed) -> Result<Vec<String>> {
    let operator = testbed.client.with_key(OPERATOR_KEY)?;
    let source = testbed.client.create_source(&NewSource::new("keys")).await?;
    let plan = |kind| ApiKeyInput { name: "kept".into(), kind: Some(kind), ..Default::default() };
    let ingest = ApiKeyInput { source_id: Some(source.id), ..plan(KeyKind::Ingest) };
    let mut made = vec![API_KEY.to_owned(), OPERATOR_KEY.to_owned()];
    for (client, plan) in [
        (&testbed.client, plan(KeyKind::Account)),
        (&testbed.client, ingest),
        (&operator, plan(KeyKind::Operator)),
        (&operator, plan(KeyKind::Platform)),
    ] {
        made.push(client.create_api_key(&plan).await?.key);
    }
    Ok(made)
}

async fn ask(testbed: &Testbed, node: usize, key: &str, path: &str) -> Result<RawAnswer> {
    let bytes = json_request("GET", path, key, "");
    Ok(raw_http::exchange(testbed.nodes[node].addr, &bytes, LIMIT).await?)
}

/// By whatever name, with a good key in its header beside it.
async fn in_urls(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let key =
        testbed.client.create_api_key(&ApiKeyInput { name: "url".into(), ..Default::default() }).await?.key;
    let names =
        ["key", "api_key", "apikey", "token", "access_token", "authorization", "auth", "bearer", "q", "x"];
    let (mut tried, mut taken) = (0, Vec::new());
    for path in ["/v1/routes", "/v1/events", "/ingest/abc", "/v1/account"] {
        for name in names {
            for header in [None, Some(format!("Bearer {API_KEY}"))] {
                let header: Vec<(&str, &str)> =
                    header.iter().map(|text| ("authorization", text.as_str())).collect();
                let method = if path.starts_with("/ingest") { "POST" } else { "GET" };
                let bytes = request(method, &format!("{path}?{name}={key}"), &header, b"");
                let from = Ipv4Addr::from([127, 40, 0, 1 + (tried / 8) as u8]);
                let answer = raw_http::exchange_from(from, testbed.addr, &bytes, LIMIT).await?;
                tried += 1;
                if (answer.status, answer.code().as_deref()) != (Some(400), Some("credential_in_url")) {
                    taken.push(format!("{path}?{name}: {:?}", answer.status));
                }
            }
        }
    }
    report.note("keys_in_urls", tried);
    report.must_be("keys_in_urls_not_refused", taken.len(), 0);
    report.must(taken.is_empty(), format!("{taken:?}"));
    Ok(())
}

/// On every node, asked all the while.
async fn gone_in_time(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let nodes = testbed.nodes.len();
    let plan = ApiKeyInput { name: "revoked".into(), ..Default::default() };
    let revoked = testbed.client.create_api_key(&plan).await?;
    for node in 0..nodes {
        let answer = ask(testbed, node, &revoked.key, "/v1/account").await?;
        report.must(answer.status == Some(200), format!("node {node} does not know it: {:?}", answer.status));
    }
    testbed.client.revoke_api_key(revoked.api_key.id).await?;
    let took = until_all_refuse(testbed, &revoked.key, Instant::now()).await?;
    report.note("nodes", nodes);
    report.must_be_at_most("revoked_everywhere_after_seconds", took, GONE_WITHIN);

    let until = Timestamp::from_micros((now_millis() + 2_500) * 1_000);
    let plan = ApiKeyInput { name: "expires".into(), expires_at: Some(until), ..Default::default() };
    let expires = testbed.client.create_api_key(&plan).await?.key;
    for node in 0..nodes {
        let answer = ask(testbed, node, &expires, "/v1/account").await?;
        report
            .must(answer.status == Some(200), format!("before its end, on node {node}: {:?}", answer.status));
    }
    let left = until.micros() / 1_000 - now_millis();
    sleep(Duration::from_millis(left.max(0) as u64)).await;
    let took = until_all_refuse(testbed, &expires, Instant::now()).await?;
    report.must_be_at_most("expired_everywhere_after_seconds", took, GONE_WITHIN);
    Ok(())
}

/// How long after a moment every node has refused it.
async fn until_all_refuse(testbed: &Testbed, key: &str, from: Instant) -> Result<Duration> {
    let mut last = Duration::ZERO;
    for node in 0..testbed.nodes.len() {
        let refuses = async || Ok(ask(testbed, node, key, "/v1/account").await?.status == Some(401));
        ensure!(becomes(LIMIT, 50, refuses).await?, "node {node} goes on taking it");
        last = from.elapsed();
    }
    Ok(last)
}

async fn elsewhere_and_beyond(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let make = async |plan: ApiKeyInput| testbed.client.create_api_key(&plan).await.map(|made| made.key);
    let named = |name: &str| ApiKeyInput { name: name.into(), ..Default::default() };
    let networks = vec!["127.41.0.0/24".to_owned(), "2001:db8::/32".to_owned()];
    let bound = make(ApiKeyInput { allowed_addresses: networks, ..named("bound") }).await?;
    let narrow = make(ApiKeyInput { scopes: Some(vec![Scope::EventsRead]), ..named("narrow") }).await?;
    let mut mistyped = API_KEY.to_owned();
    mistyped.pop();
    mistyped.push('x');
    let paths = ["/v1/routes", "/v1/destinations", "/v1/deliveries", "/v1/api-keys", "/v1/stream"];
    let here = Ipv4Addr::new(127, 41, 0, 7);
    for (what, key, from, status) in [
        ("from where it may", &bound, here, 200),
        ("from elsewhere", &bound, Ipv4Addr::new(127, 41, 1, 7), 401),
        ("without the scope", &narrow, here, 403),
        ("with a wrong checksum", &mistyped, Ipv4Addr::new(127, 41, 2, 7), 401),
    ] {
        let (mut statuses, mut words) = (BTreeSet::new(), BTreeSet::new());
        // A stream that is let in has no end.
        for path in paths.iter().filter(|path| status != 200 || !path.ends_with("stream")) {
            let bytes = json_request("GET", path, key, "");
            let answer = raw_http::exchange_from(from, testbed.addr, &bytes, LIMIT).await?;
            statuses.insert(answer.status.unwrap_or(0));
            words.insert(answer.code());
        }
        let fits = statuses == BTreeSet::from([status]) && (status == 200 || words.len() == 1);
        report.must(fits, format!("{what}: {statuses:?} {words:?}"));
    }
    Ok(())
}

/// Reads all that is stored, and looks for what must not be in it.
async fn not_stored(testbed: &mut Testbed, made: &[String], report: &mut Report) -> Result<()> {
    let needles: Vec<(String, Vec<u8>)> = made.iter().flat_map(|key| needles(key)).collect();
    report.note("keys_looked_for", made.len());
    report.note("forms_looked_for", needles.len());
    let dump = dump(testbed).await?;
    report.must_be_at_least("bytes_read", dump.len() as u64, 10_000);
    // What is there is found: the part by which a key is looked up.
    let lookup = &made[2].as_bytes()[4..16];
    report.must(contains(&dump, lookup), "what is stored was not read: a key's lookup is not in it");
    let found: Vec<&str> =
        needles.iter().filter(|(_, needle)| contains(&dump, needle)).map(|(what, _)| what.as_str()).collect();
    report.must_be("forms_found", found.len(), 0);
    report.must(found.is_empty(), format!("{found:?}"));
    Ok(())
}

/// The key and its secret as they are, and what a plain digest of either would look like.
fn needles(key: &str) -> Vec<(String, Vec<u8>)> {
    let secret = &key[17..49];
    let mut needles = vec![(format!("{}… itself", &key[..8]), secret.as_bytes().to_vec())];
    for (what, text) in [("key", key), ("secret", secret), ("secret and checksum", &key[17..])] {
        for (by, algorithm) in [
            ("SHA-256", &digest::SHA256),
            ("SHA-512", &digest::SHA512),
            ("SHA-1", &digest::SHA1_FOR_LEGACY_USE_ONLY),
        ] {
            let digest = digest::digest(algorithm, text.as_bytes());
            let digest = digest.as_ref();
            let name = format!("{}… {by} of the {what}", &key[..8]);
            let texts = [
                hex(digest),
                hex(digest).to_uppercase(),
                STANDARD.encode(digest),
                URL_SAFE_NO_PAD.encode(digest),
            ];
            needles.push((name.clone(), digest.to_vec()));
            needles.extend(texts.map(|text| (name.clone(), text.into_bytes())));
        }
    }
    needles
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

async fn dump(testbed: &mut Testbed) -> Result<Vec<u8>> {
    let database = testbed.database.clone();
    if let Database::Sqlite { file } = &database {
        testbed.stop().await?;
        let folder = file.parent().context("a folder")?;
        let mut bytes = Vec::new();
        read_folder(folder, &mut bytes)?;
        return Ok(bytes);
    }
    let tables = database
        .rows("select table_name::text from information_schema.tables where table_schema = current_schema() order by 1")
        .await?;
    let mut bytes = Vec::new();
    for table in tables.iter().filter_map(|row| row[0].text()) {
        for row in database.rows(&format!("select t::text from {table} t")).await? {
            bytes.extend_from_slice(row[0].text().unwrap_or_default().as_bytes());
            bytes.push(b'\n');
        }
    }
    Ok(bytes)
}

fn read_folder(folder: &Path, bytes: &mut Vec<u8>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => read_folder(&entry.path(), bytes)?,
            false => bytes.extend(std::fs::read(entry.path())?),
        }
    }
    Ok(())
}
