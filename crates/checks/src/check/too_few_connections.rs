//! Hazard: the database has fewer connections than the nodes want.
//!
//! Three nodes with a pool of ten each under load; the server is restarted with room for twenty, runs so for twenty
//! seconds (`--seconds`), and gets its room back.
//!
//! Holds if events are only ever answered 202 or 503 with Retry-After, no node exits, every node serves within five
//! seconds after the limit was raised, nothing is lost and duplicates are within the budget.

use crate::harness::ingest_probe::{IngestProbe, must_accept_again, must_be_accepted_or_refused};
use crate::harness::multi_node::{drain_and_settle, start_nodes};
use crate::harness::postgres_server::PostgresServer;
use crate::harness::prelude::*;

/// Not a superuser: those may have the server's last three connections, which are the checks' own.
const ROLE: &str = "check_node";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let server = PostgresServer::start().await?;
    let role =
        format!("do $$ begin create role {ROLE} login; exception when duplicate_object then null; end $$");
    server.execute(&role).await?;
    let own = server.with_new_database().await?;
    let name = own.url().rsplit('/').next().context("a database has a name")?;
    server.execute(&format!("alter database {name} owner to {ROLE}")).await?;
    own.execute(&format!("grant all on schema public to {ROLE}")).await?;
    let database = Database::Postgres { server: own.clone(), schema: None };
    let url = own.url().replace("posthaste@", &format!("{ROLE}@"));
    let plan = TestbedPlan::of_several(options)?.database(database);
    let plan = plan.env("POSTHASTE_DATABASE", &url).env("POSTHASTE_DATABASE_POOL", "10");
    let (mut testbed, source) = start_nodes(plan, 20, 4).await?;
    // The triggers write on the nodes' behalf.
    own.execute(&format!("grant all on check_owner_changes, check_node_rows to {ROLE}")).await?;

    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(500.0)))?;
    sleep(Duration::from_secs(3)).await;
    let probe = IngestProbe::start(&testbed, &source, Duration::from_millis(200));
    let mut faults = vec![Fault::of_all(FaultKind::DatabaseAway, testbed.receiver.now_us())];
    limit(&server, Some(20)).await?;
    let tight = tight(&own, options.seconds(20)).await;
    faults.push(Fault::of_all(FaultKind::DatabaseAway, testbed.receiver.now_us()));
    limit(&server, None).await?;
    report.note("most_connections_while_tight", tight?);
    let raised = Instant::now();
    must_accept_again(&testbed, &source, raised, report).await?;
    sleep(Duration::from_secs(2)).await;
    must_be_accepted_or_refused(&probe.finish().await?, "answers", report);
    let sent = pump.finish().await;
    drain_and_settle(&mut testbed, &source, &sent, faults, report).await?;
    testbed.tear_down().await
}

/// Looks on for a while; the most connections that the nodes had.
async fn tight(server: &PostgresServer, span: Duration) -> Result<i64> {
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
async fn limit(server: &PostgresServer, connections: Option<u32>) -> Result<()> {
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
