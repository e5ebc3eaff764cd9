//! Hazard: a name leads to an address that may be called when it is looked at, and to another when it is called.
//!
//! A hundred names lead to another address each time they are asked for, with a TTL of zero: half of them to a public
//! one and then twice to a forbidden one, half to a forbidden one and then to a public one. All get the same events,
//! ten thousand deliveries in all (`--count`). Beside them a name that leads to a forbidden address from a certain
//! moment on, while connections to where it led before are kept, and one that then leads to another public address.
//! In a network where all addresses are this machine, with canaries at every one. `--seconds` is how long all that
//! goes on.
//!
//! Holds if no canary is ever called; if every delivery of the hundred has arrived or ended as blocked, and both have
//! happened at each kind; and if the names that moved are followed within a minute: from then on nothing reaches the
//! old address, and everything is blocked, or arrives at the new one.
//!
//! On SQLite only: the store plays no part in it. Needs root.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use domain::id::DestinationId;
use tokio::time::{Instant as TokioInstant, sleep_until};

use crate::harness::hostile::HostileReceiver;
use crate::harness::own_network::name_server::Said;
use crate::harness::own_network::{OwnNetwork, PUBLIC, PUBLIC_TOO, ok};
use crate::harness::prelude::*;

const FORBIDDEN: [u8; 4] = [127, 0, 0, 1];
/// Names of each kind.
const NAMES: u64 = 50;
/// Before the two names move.
const SETTLED: Duration = Duration::from_secs(5);
const FOLLOWED_WITHIN: Duration = Duration::from_secs(60);
/// At the end everything has ended.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of the name that becomes forbidden, and of the one that moves.
const LEAVES_PORT: u16 = 8443;
const MOVES_PORT: u16 = 8444;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let has_moved = Arc::<AtomicBool>::default();
    let moved = has_moved.clone();
    let script = move |name: &str, nth: u64| {
        let (public, public_too, forbidden) =
            (IpAddr::from(PUBLIC), IpAddr::from(PUBLIC_TOO), IpAddr::from(FORBIDDEN));
        let address = match (name.split_once('.'), moved.load(Relaxed)) {
            (Some((_, "public-first.example")), _) if nth.is_multiple_of(3) => public,
            (Some((_, "forbidden-first.example")), _) if !nth.is_multiple_of(2) => public,
            (Some((_, "public-first.example" | "forbidden-first.example")), _) => forbidden,
            (Some(("leaves", _)), true) => forbidden,
            (Some(("moves", _)), true) => public_too,
            (Some(("leaves" | "moves", _)), false) => public,
            _ => return Said::NoSuchName,
        };
        Said::addresses([address])
    };
    let names = ["*.public-first.example", "*.forbidden-first.example", "leaves.example", "moves.example"];
    let network = OwnNetwork::enter(&[LEAVES_PORT, MOVES_PORT], &names, script).await?;
    let left = network.receiver_at((PUBLIC, LEAVES_PORT).into(), ok()).await?;
    let moved_from = network.receiver_at((PUBLIC, MOVES_PORT).into(), ok()).await?;
    let moved_to = network.receiver_at((PUBLIC_TOO, MOVES_PORT).into(), ok()).await?;
    let mut testbed = network.plan(options)?.start().await?;
    let (mut public_first, mut forbidden_first) = (Vec::new(), Vec::new());
    for number in 0..NAMES {
        for (kind, all) in [("public-first", &mut public_first), ("forbidden-first", &mut forbidden_first)] {
            all.push(add(&testbed, &format!("https://n{number}.{kind}.example/")).await?);
        }
    }
    let leaves = add(&testbed, &format!("https://leaves.example:{LEAVES_PORT}/")).await?;
    let moves = add(&testbed, &format!("https://moves.example:{MOVES_PORT}/")).await?;

    let deliveries = options.count(10_000);
    let (events, span) = (deliveries.div_ceil(2 * NAMES), options.seconds(75));
    let began = TokioInstant::now();
    let (mut moved_at, mut last_left, mut last_moved) = (None, Latest::default(), Latest::default());
    for number in 0..events {
        sleep_until(began + span.mul_f64(number as f64 / events as f64)).await;
        if began.elapsed() >= SETTLED && moved_at.is_none() {
            has_moved.store(true, Relaxed);
            moved_at = Some(TokioInstant::now());
        }
        testbed.client.publish(&Publish::json("rebinding", "{}")?).await?;
        last_left.look(&left);
        last_moved.look(&moved_from);
    }
    testbed.must_drain(PATIENCE, report).await?;
    last_left.look(&left);
    last_moved.look(&moved_from);
    let moved_at = moved_at.context("it was too short for a name to move")?;
    ensure!(moved_at.elapsed() > FOLLOWED_WITHIN, "it was too short to see a name followed");

    report.note("events", events);
    report.note("questions_for_names", network.names.asked());
    let requests = |receiver: &HostileReceiver| receiver.log.requests().len() as u64;
    let mut delivered_by_turns = 0;
    for (kind, all) in [("public_first", &public_first), ("forbidden_first", &forbidden_first)] {
        let (delivered, blocked) = endings(&testbed, all).await?;
        report.must_be_at_least(&format!("{kind}_delivered"), delivered, 1);
        report.must_be_at_least(&format!("{kind}_blocked"), blocked, 1);
        report.must_be(&format!("{kind}_ended"), delivered + blocked, NAMES * events);
        delivered_by_turns += delivered;
    }
    report.must_be("requests_of_names_by_turns", requests(&network.receiver), delivered_by_turns);

    let (delivered, blocked) = endings(&testbed, &[leaves]).await?;
    report.must_be("leaves_ended", delivered + blocked, events);
    report.must_be_at_least("leaves_blocked", blocked, 1);
    report.must_be("leaves_requests", requests(&left), delivered);
    report.must_be_at_most("leaves_followed_after_seconds", last_left.since(moved_at), FOLLOWED_WITHIN);
    let (delivered, blocked) = endings(&testbed, &[moves]).await?;
    report.must_be("moves_delivered", delivered, events);
    report.must_be("moves_blocked", blocked, 0);
    report.must_be("moves_requests", requests(&moved_from) + requests(&moved_to), delivered);
    report.must_be_at_least("moves_requests_at_its_new_address", requests(&moved_to), 1);
    report.must_be_at_most("moves_followed_after_seconds", last_moved.since(moved_at), FOLLOWED_WITHIN);
    network.must_be_silent(&mut testbed, report);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}

/// Whatever gets to no address that may be called has failed for good.
async fn add(testbed: &Testbed, url: &str) -> Result<DestinationId> {
    let plan = NewDestination { retry_policy: retry_policy(&[]), ..NewDestination::new(url, url) };
    testbed.add_destination(&plan, &["rebinding"]).await
}

/// How many deliveries to these have arrived, and how many were blocked.
async fn endings(testbed: &Testbed, of: &[DestinationId]) -> Result<(u64, u64)> {
    let ids: Vec<String> = of.iter().map(|id| testbed.database.literal(id.bytes())).collect();
    let count = |rule: &str| {
        format!("select count(*) from attempts where {rule} and destination_id in ({})", ids.join(","))
    };
    let delivered = testbed.database.number(&count("ending = 'delivered'")).await?;
    let blocked = testbed.database.number(&count("ending = 'dead_letter' and reason = 'blocked'")).await?;
    Ok((delivered, blocked))
}

/// When a receiver was last seen to have had more requests than before.
#[derive(Default)]
struct Latest {
    requests: usize,
    at: Option<TokioInstant>,
}

impl Latest {
    fn look(&mut self, receiver: &HostileReceiver) {
        let requests = receiver.log.requests().len();
        if requests > self.requests {
            (self.requests, self.at) = (requests, Some(TokioInstant::now()));
        }
    }

    fn since(&self, moved_at: TokioInstant) -> Duration {
        self.at.map_or(Duration::ZERO, |at| at.saturating_duration_since(moved_at))
    }
}
