//! Hazard: behind a connection pooler nothing that belongs to a session can be relied upon: prepared statements,
//! locks, listening, settings.
//!
//! PgBouncer in transaction mode with a pool of four stands between three nodes and PostgreSQL, and there is no direct
//! way. First every kind of call of the API; then receivers sleep for two seconds; then `nodes_killed` is played.
//!
//! Holds if all of that holds, no log speaks of a prepared statement, no advisory lock is left, and no connection is idle
//! in a transaction while a receiver sleeps. Needs pgbouncer.

use std::time::Duration;

use anyhow::{Context, Result};
use client::{DeliveryQuery, EventQuery, NewDestination, NewRoute, Publish};
use lab::Reply;
use serde_json::json;
use tokio::time::sleep;

use super::nodes_killed;
use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::pooler::Pooler;
use crate::harness::server::{Server, target_dir};
use crate::harness::{Database, Plan, Report, Stage, StoreKind};

const POOL: usize = 4;
const ASLEEP: Duration = Duration::from_secs(2);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let nodes = ask.nodes(store, 3);
    // A schema travels as a start-up option, which poolers refuse: so each stage has a database of its own.
    let folder = target_dir()?.join(format!("checks/pooler-{:08x}", rand::random::<u32>()));
    let server = Server::start().await?;
    let pooler = Pooler::start(&server, &folder, POOL).await?;
    let plan = async || -> Result<Plan> {
        let server = server.with_new_database().await?;
        let database = Database::Postgres { server, schema: None };
        Ok(Plan::new(ask, store)?.nodes(nodes).database(database).database_addr(pooler.addr))
    };
    let stage = plan().await?.start().await?;
    every_call(&stage, &mut report).await.context("the calls of the API")?;
    idle_while_receivers_sleep(&stage, &mut report).await?;
    let logs: String = stage.members.iter().map(|member| member.log()).collect();
    report.must(!logs.contains("prepared statement"), "a node's log speaks of a prepared statement");
    stage.strike().await?;

    nodes_killed::played(ask, plan().await?, nodes, ask.seconds(30), &mut report).await?;
    report.must(
        !pooler.log().contains("prepared statement"),
        "the pooler's log speaks of a prepared statement",
    );
    drop(pooler);
    std::fs::remove_dir_all(&folder)?;
    Ok(report)
}

/// Each endpoint once, on the nodes in turn.
async fn every_call(stage: &Stage, report: &mut Report) -> Result<()> {
    let client = |at: usize| &stage.members[at % stage.members.len()].client;
    let destination =
        client(0).create_destination(&NewDestination::new("calls", &stage.receiver.url("/d/calls"))).await?;
    let route = client(1).create_route(&NewRoute::to(destination.id)).await?;
    client(2).update_destination(destination.id, &json!({ "name": "called" })).await?;
    client(0).pause(destination.id).await?;
    let accepted = client(1).publish(&Publish::json("calls", "{\"n\":1}")?).await?;
    client(2).publish_batch(&[Publish::json("calls", "{\"n\":2}")?]).await?;
    let waiting = client(0).deliveries(&DeliveryQuery::default(), None).await?.data;
    report.exactly("deliveries_seen_from_another_node", waiting.len() as u64, 2u64);
    if let Some(delivery) = waiting.first() {
        client(1).delivery(delivery.id).await?;
        client(2).cancel(delivery.id).await?;
    }
    client(0).resume(destination.id).await?;
    report.must(
        stage.receiver.wait_for_succeeded(1, Duration::from_secs(10)).await,
        "the other did not arrive",
    );
    client(1).event(accepted.id).await?;
    client(2).event_payload(accepted.id).await?;
    client(0).events(&EventQuery::default(), None).await?;
    client(1).rotate_secret(destination.id).await?;
    client(2).destination_secret(destination.id).await?;
    client(0).test(destination.id).await?;
    client(1).disable(destination.id).await?;
    client(2).enable(destination.id).await?;
    client(0).destinations(None).await?;
    client(1).routes(None).await?;
    client(2).sources(None).await?;
    client(0).api_keys(None).await?;
    client(1).own_account().await?;
    client(2).delete_route(route.id).await?;
    client(0).delete_destination(destination.id).await?;
    Ok(())
}

/// While every request takes two seconds, nobody may hold a transaction, and nobody a lock afterwards.
async fn idle_while_receivers_sleep(stage: &Stage, report: &mut Report) -> Result<()> {
    let server = stage.database.server().context("this check needs PostgreSQL")?;
    stage.receiver.script("sleepy", Reply::ok().after(ASLEEP));
    sole_destination(&stage.client, &stage.destination("sleepy")).await?;
    for n in 0..50 {
        let member = &stage.members[n % stage.members.len()];
        member.client.publish(&Publish::json("sleepy", format!("{{\"n\":{n}}}"))?).await?;
    }
    stage.receiver.wait_for_arrivals("sleepy", 1, Duration::from_secs(10)).await;
    let mut most = 0;
    for _ in 0..30 {
        // A transaction of several statements is idle for an instant between them.
        let sql = "select count(*) from pg_stat_activity where state like 'idle in transaction%'
                   and state_change < clock_timestamp() - interval '200 milliseconds' and datname = current_database()";
        most = most.max(server.number(sql).await?);
        sleep(Duration::from_millis(100)).await;
    }
    report.exactly("idle_in_transaction_while_a_receiver_sleeps", most as u64, 0u64);
    stage.quiesce(Duration::from_secs(30)).await?;
    let sql = "select count(*) from pg_locks where locktype = 'advisory'";
    report.exactly("advisory_locks_left", server.number(sql).await? as u64, 0u64);
    Ok(())
}
