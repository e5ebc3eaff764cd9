//! Hazard: the network between the nodes and the database is cut, or worse: it is silent.
//!
//! A proxy stands before each of three nodes. Under load: all connections are reset and refused for five seconds; then
//! both directions stall for twenty without a close; then only what the database says stalls, then only what the
//! nodes say; at last one node alone is cut off for twenty seconds, longer than its lease, and must be replaced.
//!
//! Holds if every node says 503 within eight seconds of a stall and accepts within five after its end; if a node that
//! is cut off uses no more than a fifth of a core; if nothing is lost, duplicates are within the budget, no node sends
//! for a lane it does not own, and no node exits.

use lab::{Direction, Proxy};

use crate::harness::ingest_probe::{
    IngestProbe, ProbeAnswer, SERVING_WITHIN, must_be_accepted_or_refused, wait_until_all_accept,
};
use crate::harness::multi_node::{drain_and_settle, start_nodes};
use crate::harness::postgres_server::PostgresServer;
use crate::harness::prelude::*;

const CUT: Duration = Duration::from_secs(5);
const STALL: u64 = 20;
const CALM: Duration = Duration::from_secs(4);
const NOTICED_WITHIN: f64 = 8.0;
const IDLE_CORE: f64 = 0.2;

#[derive(Clone, Copy, PartialEq)]
enum NetworkTrouble {
    Cut,
    Stall(Direction),
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let nodes = options.nodes(3);
    let database = PostgresServer::start().await?.addr()?;
    let mut plan = TestbedPlan::new(options)?.nodes(nodes);
    let mut proxies = Vec::new();
    for _ in 0..nodes {
        let proxy = Proxy::start(database)?;
        plan = plan.database_addr(proxy.addr());
        proxies.push(proxy);
    }
    let (mut testbed, source) = start_nodes(plan, 20, 4).await?;

    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(500.0)))?;
    let stall = options.seconds(STALL);
    let all: Vec<&Proxy> = proxies.iter().collect();
    let mut faults = Vec::new();
    let phases = [
        ("cut", NetworkTrouble::Cut, CUT, &all[..]),
        ("stall", NetworkTrouble::Stall(Direction::Both), stall, &all[..]),
        ("stall_of_answers", NetworkTrouble::Stall(Direction::Down), stall / 2, &all[..]),
        ("stall_of_questions", NetworkTrouble::Stall(Direction::Up), stall / 2, &all[..]),
        ("stall_of_one", NetworkTrouble::Stall(Direction::Both), stall, &all[..1]),
    ];
    for (name, trouble, span, proxies) in phases {
        if name == "stall_of_one" && nodes == 1 {
            continue;
        }
        sleep(CALM).await;
        let fault = phase(&mut testbed, &source, name, trouble, span, proxies, report).await?;
        faults.push(fault);
    }
    sleep(CALM).await;
    let sent = pump.finish().await;
    drain_and_settle(&mut testbed, &source, &sent, faults, report).await?;
    testbed.tear_down().await
}

/// One trouble from its beginning to the recovery.
async fn phase(
    testbed: &mut Testbed,
    source: &RoutedSource,
    name: &str,
    trouble: NetworkTrouble,
    span: Duration,
    proxies: &[&Proxy],
    report: &mut Report,
) -> Result<Fault> {
    let probe = IngestProbe::start(testbed, source, Duration::from_millis(100));
    let struck = proxies.len();
    let (began, mut fault) =
        (Instant::now(), Fault::of_all(FaultKind::NetworkCut, testbed.receiver.now_us()));
    if struck < testbed.nodes.len() {
        fault.sender = Some(testbed.nodes[0].process()?.pid());
    }
    for proxy in proxies {
        match trouble {
            NetworkTrouble::Cut => {
                proxy.refuse(true).await;
                proxy.cut_all();
            }
            NetworkTrouble::Stall(direction) => proxy.stall(direction),
        }
    }
    // The first second may still have work to end.
    sleep(Duration::from_secs(1).min(span)).await;
    let (cpu_before, from) = (cpu(testbed, struck)?, Instant::now());
    sleep(span.saturating_sub(Duration::from_secs(1))).await;
    let busy =
        (cpu(testbed, struck)? - cpu_before).as_secs_f64() / from.elapsed().as_secs_f64() / struck as f64;
    let healed = Instant::now();
    for proxy in proxies {
        proxy.heal().await;
    }
    fault.until_us = Some(testbed.receiver.now_us());
    wait_until_all_accept(testbed, source, Duration::from_secs(30)).await?;
    let recovery = healed.elapsed().as_secs_f64();
    let answers = probe.finish().await?;
    must_be_accepted_or_refused(&answers, &format!("{name}_answers"), report);
    let noticed = (0..struck).map(|node| noticed(&answers, node, began)).fold(0.0, f64::max);
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
    report.must(
        recovery <= SERVING_WITHIN.as_secs_f64(),
        format!("{name}: serving {recovery:.1} s after its end"),
    );
    report.must(
        busy <= IDLE_CORE,
        format!("{name}: a node that is cut off uses {:.0} % of a core", busy * 100.0),
    );
    Ok(fault)
}

/// When a node was first heard saying no.
fn noticed(answers: &[ProbeAnswer], node: usize, began: Instant) -> f64 {
    let ended = |answer: &ProbeAnswer| answer.asked + answer.took;
    let no = |answer: &&ProbeAnswer| answer.node == node && !answer.accepted() && ended(answer) >= began;
    answers.iter().find(no).map_or(f64::INFINITY, |answer| (ended(answer) - began).as_secs_f64())
}

fn cpu(testbed: &Testbed, nodes: usize) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for node in &testbed.nodes[..nodes] {
        sum += node.process()?.cpu_time()?;
    }
    Ok(sum)
}
