//! Hazard: the database has fewer connections than the nodes want.
//!
//! Three nodes with a pool of ten each under load; the server is restarted with room for twenty, runs so for twenty
//! seconds (`--seconds`), and gets its room back.
//!
//! Holds if events are only ever answered 202 or 503 with Retry-After, no node exits, everybody serves within five
//! seconds after the limit was raised, nothing is lost and duplicates are within the budget.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::{Fault, FaultKind, Pump, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::outsider::{Outsider, all_accept, only_accepted_or_refused};
use crate::harness::server::Server;
use crate::harness::several::{begin, end};
use crate::harness::{Database, Plan, Report, StoreKind};

const SERVING_WITHIN: f64 = 5.0;
/// Not a superuser: those may have the server's last three connections, which are the checks' own.
const ROLE: &str = "check_node";

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let server = Server::start().await?;
    let role =
        format!("do $$ begin create role {ROLE} login; exception when duplicate_object then null; end $$");
    server.execute(&role).await?;
    let own = server.with_new_database().await?;
    let name = own.url().rsplit('/').next().context("a database has a name")?;
    server.execute(&format!("alter database {name} owner to {ROLE}")).await?;
    own.execute(&format!("grant all on schema public to {ROLE}")).await?;
    let database = Database::Postgres { server: own.clone(), schema: None };
    let url = own.url().replace("posthaste@", &format!("{ROLE}@"));
    let plan = Plan::new(ask, store)?.nodes(ask.nodes(store, 3)).database(database);
    let plan = plan.env("POSTHASTE_DATABASE", &url).env("POSTHASTE_DATABASE_POOL", "10");
    let (mut stage, fleet) = begin(plan, 20, 4).await?;
    // The triggers write on the nodes' behalf.
    own.execute(&format!("grant all on check_turns, check_joins to {ROLE}")).await?;

    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(500.0)))?;
    sleep(Duration::from_secs(3)).await;
    let outsider = Outsider::start(&stage, &fleet, Duration::from_millis(200));
    let mut faults = vec![Fault::of_all(FaultKind::DatabaseAway, stage.receiver.now_us())];
    limit(&server, Some(20)).await?;
    let tight = tight(&own, ask.seconds(20)).await;
    faults.push(Fault::of_all(FaultKind::DatabaseAway, stage.receiver.now_us()));
    limit(&server, None).await?;
    report.note("most_connections_while_tight", tight?);
    let raised = Instant::now();
    all_accept(&stage, &fleet, Duration::from_secs(30)).await?;
    report.at_most("serving_again_after_seconds", raised.elapsed().as_secs_f64(), SERVING_WITHIN);
    sleep(Duration::from_secs(2)).await;
    only_accepted_or_refused(&outsider.finish().await?, "answers", &mut report);
    let sent = pump.finish().await;
    end(&mut stage, &fleet, &sent, faults, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

/// Looks on for a while; the most connections that the nodes had.
async fn tight(server: &Server, span: Duration) -> Result<i64> {
    let until = Instant::now() + span;
    let mut most = 0;
    while Instant::now() < until {
        let sql = "select count(*) from pg_stat_activity where application_name = 'posthaste'";
        // Even the reserved ones may be taken for a moment.
        most = most.max(server.number(sql).await.unwrap_or(0));
        sleep(Duration::from_millis(200)).await;
    }
    Ok(most)
}

/// A new limit takes a restart.
async fn limit(server: &Server, connections: Option<u32>) -> Result<()> {
    let change = match connections {
        Some(connections) => format!("alter system set max_connections = {connections}"),
        None => "alter system reset max_connections".to_owned(),
    };
    let mut tries = 0;
    while let Err(error) = server.execute(&change).await {
        tries += 1;
        anyhow::ensure!(tries < 100, "{error:#}");
        sleep(Duration::from_millis(100)).await;
    }
    server.crash().await?;
    server.resume().await
}
