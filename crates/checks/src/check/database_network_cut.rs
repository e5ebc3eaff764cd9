//! Hazard: the network between the nodes and the database is cut, or worse: it is silent.
//!
//! A proxy stands before each of three nodes. Under load: all connections are reset and refused for five seconds; then
//! both directions stall for twenty without a close; then only what the database says stalls, then only what the
//! nodes say; at last one node alone is cut off for twenty seconds, longer than its lease, and must be replaced.
//!
//! Holds if every node says 503 within eight seconds of a stall and accepts within five after its end; if a node that
//! is cut off uses no more than a fifth of a core; if nothing is lost, duplicates are within the budget, nobody sends
//! for a lane it does not own, and no node exits.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab::{Direction, Fault, FaultKind, Proxy, Pump, Until};
use serde_json::json;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::outsider::{Outsider, Seen, all_accept, only_accepted_or_refused};
use crate::harness::report::rounded;
use crate::harness::server::Server;
use crate::harness::several::{begin, end};
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind};

const CUT: Duration = Duration::from_secs(5);
const STALL: u64 = 20;
const CALM: Duration = Duration::from_secs(4);
const NOTICED_WITHIN: f64 = 8.0;
const SERVING_WITHIN: f64 = 5.0;
const IDLE_CORE: f64 = 0.2;

#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    Cut,
    Stall(Direction),
}

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let nodes = ask.nodes(store, 3);
    let database = Server::start().await?.addr()?;
    let mut plan = Plan::new(ask, store)?.nodes(nodes);
    let mut proxies = Vec::new();
    for _ in 0..nodes {
        let proxy = Proxy::start(database)?;
        plan = plan.database_addr(proxy.addr());
        proxies.push(proxy);
    }
    let (mut stage, fleet) = begin(plan, 20, 4).await?;

    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(500.0)))?;
    let stall = ask.seconds(STALL);
    let all: Vec<&Proxy> = proxies.iter().collect();
    let mut faults = Vec::new();
    let phases = [
        ("cut", Trouble::Cut, CUT, &all[..]),
        ("stall", Trouble::Stall(Direction::Both), stall, &all[..]),
        ("stall_of_answers", Trouble::Stall(Direction::Down), stall / 2, &all[..]),
        ("stall_of_questions", Trouble::Stall(Direction::Up), stall / 2, &all[..]),
        ("stall_of_one", Trouble::Stall(Direction::Both), stall, &all[..1]),
    ];
    for (name, trouble, span, proxies) in phases {
        if name == "stall_of_one" && nodes == 1 {
            continue;
        }
        sleep(CALM).await;
        let fault = phase(&mut stage, &fleet, name, trouble, span, proxies, &mut report).await?;
        faults.push(fault);
    }
    sleep(CALM).await;
    let sent = pump.finish().await;
    end(&mut stage, &fleet, &sent, faults, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

/// One trouble from its beginning to the recovery.
async fn phase(
    stage: &mut Stage,
    fleet: &Fleet,
    name: &str,
    trouble: Trouble,
    span: Duration,
    proxies: &[&Proxy],
    report: &mut Report,
) -> Result<Fault> {
    let outsider = Outsider::start(stage, fleet, Duration::from_millis(100));
    let struck = proxies.len();
    let (began, mut fault) = (Instant::now(), Fault::of_all(FaultKind::NetworkCut, stage.receiver.now_us()));
    if struck < stage.members.len() {
        fault.sender = Some(stage.members[0].node()?.pid());
    }
    for proxy in proxies {
        match trouble {
            Trouble::Cut => {
                proxy.refuse(true).await;
                proxy.cut_all();
            }
            Trouble::Stall(direction) => proxy.stall(direction),
        }
    }
    // The first second may still have work to end.
    sleep(Duration::from_secs(1).min(span)).await;
    let (cpu_before, from) = (cpu(stage, struck)?, Instant::now());
    sleep(span.saturating_sub(Duration::from_secs(1))).await;
    let busy =
        (cpu(stage, struck)? - cpu_before).as_secs_f64() / from.elapsed().as_secs_f64() / struck as f64;
    let healed = Instant::now();
    for proxy in proxies {
        proxy.heal().await;
    }
    fault.until_us = Some(stage.receiver.now_us());
    all_accept(stage, fleet, Duration::from_secs(30)).await?;
    let recovery = healed.elapsed().as_secs_f64();
    let seen = outsider.finish().await?;
    only_accepted_or_refused(&seen, &format!("{name}_answers"), report);
    let noticed = (0..struck).map(|node| noticed(&seen, node, began)).fold(0.0, f64::max);
    report.note(
        name,
        json!({
            "noticed_after_seconds": rounded(noticed), "recovery_seconds": rounded(recovery),
            "cores_of_a_node": rounded(busy),
        }),
    );
    // One that was over sooner may have passed for a slow moment.
    let long = span.as_secs_f64() > NOTICED_WITHIN + 1.0;
    report.must(!long || noticed <= NOTICED_WITHIN, format!("{name}: noticed after {noticed:.1} s"));
    report.must(recovery <= SERVING_WITHIN, format!("{name}: serving {recovery:.1} s after its end"));
    report.must(
        busy <= IDLE_CORE,
        format!("{name}: a node that is cut off uses {:.0} % of a core", busy * 100.0),
    );
    Ok(fault)
}

/// When a node was first heard saying no.
fn noticed(seen: &[Seen], node: usize, began: Instant) -> f64 {
    let no = |seen: &&Seen| seen.node == node && !seen.accepted() && seen.asked + seen.took >= began;
    seen.iter().find(no).map_or(f64::INFINITY, |seen| (seen.asked + seen.took - began).as_secs_f64())
}

fn cpu(stage: &Stage, nodes: usize) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for member in &stage.members[..nodes] {
        sum += member.node()?.cpu_time()?;
    }
    Ok(sum)
}
