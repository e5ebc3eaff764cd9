//! Hazard: an account has this node call what only this machine or its network may reach.
//!
//! Some three hundred URLs (`forbidden_targets/spellings.rs`): every range of addresses that is not public, in every
//! way to write an address, names that lead there, and what only some parsers take for a URL. In a network where all
//! addresses are this machine, with canaries at every one, each is tried in every way in which a URL gets to the
//! node: a destination is made with it, changed to it, and tested with it, or made with it for its token endpoint; it is put
//! into the table, as another program or an older version might have, as the one or the other, and then delivered to, tested
//! and replayed; and a receiver that may be called redirects there, with every status from 300 to 308. `--only` leaves out the URLs that begin otherwise.
//! `forbidden_by_proxy`: what stands in the table once more, with variables such as HTTP_PROXY set, and through the
//! operator's proxy, by CONNECT and by SOCKS5.
//!
//! Holds if each is refused with its code, or its attempt ends as blocked, or as undeliverable where it is no URL; if
//! all refusals read the same; if no redirect is followed; if no canary is ever called and no proxy told to call one,
//! nor any that the environment names; and if everything for the address that may be called arrives.
//!
//! On SQLite only: the store plays no part in it. Needs root.

pub(crate) mod spellings;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use client::{AuthInput, AuthKind, Client, TestEvent};
use domain::id::DestinationId;
use domain::outcome::Outcome;
use lab::{TunnelManners, TunnelProtocol, TunnelProxy};
use serde_json::Value;

use crate::harness::hostile::conduct::Conduct;
use crate::harness::own_network::{OwnNetwork, PUBLIC};
use crate::harness::prelude::*;
use spellings::{Expected, Spelling, good_url, led, spellings};

/// Where canaries listen besides the port of https.
const PORTS: [u16; 4] = [22, 80, 6379, 8443];
/// Of receivers that redirect, from here on.
const REDIRECT_PORTS: u16 = 10_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Mistakes that are told; the others are counted.
const TOLD: usize = 12;

pub(crate) async fn run(name: &'static str, options: &Options, report: &mut Report) -> Result<()> {
    let network = OwnNetwork::enter(&PORTS, &["*.led.example"], |name, _| led(name)).await?;
    let mut spellings = spellings();
    spellings.retain(|it| options.only.as_ref().is_none_or(|only| it.url.starts_with(only)));
    report.note("spellings", spellings.len());
    match name {
        "forbidden_by_proxy" => by_proxy(&network, &spellings, options, report).await,
        _ => directly(&network, &spellings, options, report).await,
    }
}

async fn directly(
    network: &OwnNetwork,
    spellings: &[Spelling],
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let mut testbed = network.plan(options)?.start().await?;
    written(&testbed, spellings, report).await?;
    standing_in_the_table(network, &mut testbed, spellings, report).await?;
    redirected_to(network, &testbed, spellings, report).await?;
    network.must_be_silent(&mut testbed, report);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}

async fn by_proxy(
    network: &OwnNetwork,
    spellings: &[Spelling],
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    for (way, scheme, protocol) in [
        ("environment", None, TunnelProtocol::Connect),
        ("connect", Some("http"), TunnelProtocol::Connect),
        ("socks5", Some("socks5"), TunnelProtocol::Socks5),
    ] {
        let proxy = TunnelProxy::local(protocol, TunnelManners::Connects);
        let mut plan = network.plan(options)?;
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            // A canary's. Only the proxy that the operator's settings name counts.
            plan = plan.env(variable, "http://127.0.0.1:8443");
        }
        plan = plan.env("NO_PROXY", "").env("no_proxy", "");
        if let Some(scheme) = scheme {
            plan = plan.env("POSTHASTE_EGRESS_PROXY", &format!("{scheme}://{}", proxy.addr()));
        }
        let mut testbed = plan.start().await?;
        let mut part = Report::default();
        standing_in_the_table(network, &mut testbed, spellings, &mut part).await?;
        let heard = proxy.heard();
        let (told, own) = (heard.targets.len(), format!("{PUBLIC}:443"));
        part.must_be("told_to_call_others", heard.targets.iter().filter(|it| **it != own).count(), 0);
        match scheme {
            Some(_) => part.must_be_at_least("told_to_call_the_vetted_address", told, 1),
            None => part.must_be("connections_to_the_proxy", heard.connections, 0),
        }
        let words = String::from_utf8_lossy(&heard.words).to_lowercase();
        part.must(
            !words.contains("webhook") && !words.contains("good"),
            "a proxy was told more than an address",
        );
        network.must_be_silent(&mut testbed, &mut part);
        report.note(way, part.counts());
        report.must_hold(way, &part);
        testbed.tear_down().await?;
    }
    Ok(())
}

/// Counts what went wrong, and tells the first of it.
#[derive(Default)]
struct Mistakes {
    count: usize,
}

impl Mistakes {
    fn unless(&mut self, is_right: bool, report: &mut Report, told: impl FnOnce() -> String) {
        if !is_right {
            self.count += 1;
            if self.count <= TOLD {
                report.must(false, told());
            }
        }
    }
}

/// A destination is made with each URL, another is changed to it, and those that are taken are tested.
async fn written(testbed: &Testbed, spellings: &[Spelling], report: &mut Report) -> Result<()> {
    let changed = testbed.client.create_destination(&NewDestination::new("changed", &good_url())).await?.id;
    let (mut mistakes, mut refused, mut tested, mut sentences) = (Mistakes::default(), 0, 0, BTreeSet::new());
    for Spelling { url, expected } in spellings {
        let wanted = match expected {
            Expected::Forbidden | Expected::Slashless => Some("blocked_target"),
            Expected::Invalid | Expected::Unreadable | Expected::Elsewhere => Some("invalid_url"),
            Expected::Led => None,
        };
        let made = testbed.client.create_destination(&NewDestination::new("made", url)).await;
        let patched = testbed.client.update_destination(changed, &json!({ "url": url })).await;
        let tokened =
            NewDestination { auth: tokens_from(url), ..NewDestination::new("tokened", &good_url()) };
        let tokened = testbed.client.create_destination(&tokened).await;
        for (how, answer) in [("made", &made), ("changed", &patched), ("for tokens", &tokened)] {
            let error = answer.as_ref().err().and_then(|error| error.problem()?.errors.first());
            mistakes.unless(error.map(|it| &*it.code) == wanted, report, || {
                format!("{url:?} {how}: {answer:?}, not {wanted:?}")
            });
            refused += u64::from(error.is_some());
            if wanted == Some("blocked_target") {
                sentences.extend(error.map(|it| it.detail.to_string()));
            }
        }
        if let Ok(made) = made {
            tested += 1;
            let outcome = test(&testbed.client, made.id).await;
            mistakes
                .unless(outcome == Ok(Outcome::Blocked), report, || format!("{url:?} tested: {outcome:?}"));
        }
    }
    report.must_be("written", refused + 3 * tested, 3 * spellings.len());
    report.note("refused_when_written", refused);
    report.note("tested_as_written", tested);
    report.must(sentences.len() <= 1, format!("refusals can be told apart: {sentences:?}"));
    report.must_be("wrongly_written", mistakes.count, 0);
    Ok(())
}

async fn test(client: &Client, id: DestinationId) -> Result<Outcome, String> {
    let sent = client.test(id, &TestEvent { force: true, ..TestEvent::default() }).await;
    sent.map(|attempt| attempt.outcome).map_err(|error| error.to_string())
}

/// A client of OAuth 2.0.
fn tokens_from(token_url: &str) -> AuthInput {
    AuthInput {
        kind: AuthKind::Oauth2,
        token_url: Some(token_url.into()),
        client_id: Some("check".into()),
        client_secret: Some("check".into()),
        ..AuthInput::default()
    }
}

/// Tried once and not again.
pub(super) fn once(name: &str, url: &str) -> NewDestination {
    NewDestination { retry_policy: retry_policy(&[]), ..NewDestination::new(name, url) }
}

/// The URLs are put into the table while no node runs; then an event is delivered, tested and replayed to each.
async fn standing_in_the_table(
    network: &OwnNetwork,
    testbed: &mut Testbed,
    spellings: &[Spelling],
    report: &mut Report,
) -> Result<()> {
    let good = testbed.add_destination(&once("good", &good_url()), &["row"]).await?;
    let mut rows = Vec::new();
    for (at, spelling) in spellings.iter().enumerate() {
        let plan = once(&format!("row {at}"), &good_url());
        rows.push((testbed.add_destination(&plan, &["row"]).await?, spelling));
    }
    // What leads elsewhere, or is no URL, is tried as a destination's own.
    let mut for_tokens = Vec::new();
    for spelling in spellings {
        if matches!(spelling.expected, Expected::Forbidden | Expected::Invalid | Expected::Led) {
            let plan = NewDestination { auth: tokens_from(&good_url()), ..once("tokens", &good_url()) };
            for_tokens.push((testbed.add_destination(&plan, &["row"]).await?, spelling));
        }
    }
    testbed.stop().await?;
    let urls: Vec<_> = rows.iter().map(|(id, spelling)| (*id, spelling.url.as_str())).collect();
    put_into_the_table(&testbed.database, "/url", &urls).await?;
    let urls: Vec<_> = for_tokens.iter().map(|(id, spelling)| (*id, spelling.url.as_str())).collect();
    put_into_the_table(&testbed.database, "/auth/token_url", &urls).await?;
    testbed.start().await?;

    let before = network.receiver.log.requests().len();
    let event = testbed.client.publish(&Publish::json("row", "{}")?).await?.id;
    let all = (rows.len() + for_tokens.len()) as u64 + 1;
    wait_for_endings(testbed, "row", all).await?;
    testbed.client.replay_event(event).await?;
    wait_for_endings(testbed, "row", 2 * all).await?;

    let endings = endings(testbed).await?;
    let (mut mistakes, mut blocked, mut tests_blocked) = (Mistakes::default(), 0, 0);
    for (id, Spelling { url, expected }) in &rows {
        let (reason, outcome) = match expected {
            Expected::Forbidden | Expected::Invalid | Expected::Led => (Some("blocked"), Outcome::Blocked),
            Expected::Unreadable | Expected::Slashless => (Some("undeliverable"), Outcome::Undeliverable),
            Expected::Elsewhere => (None, Outcome::Success),
        };
        let own = endings.get(id.bytes()).map(Vec::as_slice).unwrap_or_default();
        let right = own.len() == 2 && own.iter().all(|(it, _)| it.as_deref() == reason);
        mistakes.unless(right, report, || format!("{url:?} in the table: {own:?}, not twice {reason:?}"));
        blocked += own.iter().filter(|(reason, _)| reason.as_deref() == Some("blocked")).count();
        let tested = test(&testbed.client, *id).await;
        mistakes.unless(tested == Ok(outcome), report, || {
            format!("{url:?} in the table, tested: {tested:?}, not {outcome:?}")
        });
        tests_blocked += usize::from(tested == Ok(Outcome::Blocked));
    }
    for (id, Spelling { url, .. }) in &for_tokens {
        let own = endings.get(id.bytes()).map(Vec::as_slice).unwrap_or_default();
        // Without a host it is no URL of a request, and nobody is looked for.
        let reason = if url.starts_with("file:///") { "undeliverable" } else { "blocked" };
        let right = own.len() == 2 && own.iter().all(|(it, _)| it.as_deref() == Some(reason));
        mistakes.unless(right, report, || format!("tokens from {url:?}: {own:?}, not twice {reason}"));
    }
    report.note("token_endpoints", for_tokens.len());
    report.note("blocked_deliveries", blocked);
    report.note("blocked_tests", tests_blocked);
    report.must_be("wrong_in_the_table", mistakes.count, 0);

    let elsewhere = spellings.iter().filter(|it| it.expected == Expected::Elsewhere).count();
    let arrived = network.receiver.log.requests().len() - before;
    // Each once, once more as a replay, and what may be called was tested too.
    report.must_be("arrived_where_it_may", arrived, 2 + 3 * elsewhere);
    let reached = test(&testbed.client, good).await;
    report.must(reached == Ok(Outcome::Success), format!("what may be called, tested: {reached:?}"));
    Ok(())
}

/// As nobody who asks the API can; for use while no node runs.
pub(super) async fn put_into_the_table(
    database: &Database,
    member: &str,
    rows: &[(DestinationId, &str)],
) -> Result<()> {
    let mut kept: HashMap<[u8; 16], Value> = HashMap::new();
    for row in database.rows("select id, doc from destinations").await? {
        let text = row[1].text().context("a document")?;
        kept.insert(row[0].id().context("an id")?, serde_json::from_str(text)?);
    }
    let mut sql = String::from("begin;");
    for (id, url) in rows {
        let doc = kept.get_mut(id.bytes()).context("a destination that was made")?;
        *doc.pointer_mut(member).context("a document has this member")? = json!(url);
        let text = doc.to_string().replace('\'', "''");
        let id = database.literal(id.bytes());
        sql.push_str(&format!("update destinations set doc = '{text}' where id = {id};"));
    }
    database.write(&(sql + "commit;")).await
}

/// Why it ended undelivered, and with which status, by destination.
type Endings = HashMap<[u8; 16], Vec<(Option<String>, Option<i64>)>>;

async fn endings(testbed: &Testbed) -> Result<Endings> {
    let mut endings = Endings::new();
    let sql = "select destination_id, reason, http_status from attempts where ending is not null";
    for row in testbed.database.rows(sql).await? {
        let ending = (row[1].text().map(str::to_owned), row[2].number());
        endings.entry(row[0].id().context("an id")?).or_default().push(ending);
    }
    Ok(endings)
}

async fn wait_for_endings(testbed: &Testbed, event_type: &str, count: u64) -> Result<()> {
    let sql = format!(
        "select count(*) from attempts a join events e on e.id = a.event_id
         where a.ending is not null and e.type = '{event_type}'"
    );
    let ended = async || Ok(testbed.database.number(&sql).await? >= count);
    wait_until(&format!("not all {count} deliveries have ended"), PATIENCE, 50, ended).await
}

/// A receiver for each URL answers that it is there now, with another status each time.
async fn redirected_to(
    network: &OwnNetwork,
    testbed: &Testbed,
    spellings: &[Spelling],
    report: &mut Report,
) -> Result<()> {
    let mut all = Vec::new();
    let sayable = spellings.iter().filter(|it| !it.url.contains(char::is_control));
    for ((spelling, status), port) in sayable.zip((300..=308).cycle()).zip(REDIRECT_PORTS..) {
        let head = format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {}\r\n", spelling.url);
        let conduct = Conduct::says(format!("{head}content-length: 0\r\n\r\n"));
        let receiver = network.receiver_at(SocketAddr::from((PUBLIC, port)), conduct).await?;
        let plan = once(&format!("redirect {port}"), &receiver.url("/"));
        all.push((testbed.add_destination(&plan, &["redirect"]).await?, receiver, spelling, status));
    }
    testbed.client.publish(&Publish::json("redirect", "{}")?).await?;
    wait_for_endings(testbed, "redirect", all.len() as u64).await?;
    let endings = endings(testbed).await?;
    let mut mistakes = Mistakes::default();
    for (id, receiver, spelling, status) in &all {
        let expected = [(Some("rejected".to_owned()), Some(*status))];
        let own = endings.get(id.bytes()).map(Vec::as_slice).unwrap_or_default();
        let asked = receiver.log.requests().len();
        mistakes.unless(own == expected && asked == 1, report, || {
            format!("{status} to {:?}: {own:?}, asked {asked} times", spelling.url)
        });
    }
    report.note("redirects", all.len());
    report.must_be("wrong_redirects", mistakes.count, 0);
    Ok(())
}
