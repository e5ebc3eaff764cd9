//! Hazard: behind a connection pooler nothing that belongs to a session can be relied upon: prepared statements,
//! locks, listening, settings.
//!
//! PgBouncer in transaction mode with a pool of four stands between three nodes and PostgreSQL, and there is no direct
//! way. First every kind of call of the API; then receivers sleep for two seconds; then `nodes_killed` is played.
//!
//! Holds if all of that holds, no log speaks of a prepared statement, no advisory lock is left, and no connection is idle
//! in a transaction while a receiver sleeps. Needs pgbouncer.

use client::{DeliveryQuery, EventQuery, NewRoute, TestEvent};

use super::nodes_killed;
use crate::harness::pooler::Pooler;
use crate::harness::postgres_server::{PostgresServer, target_dir};
use crate::harness::prelude::*;

const POOL: usize = 4;
const ASLEEP: Duration = Duration::from_secs(2);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    // A schema travels as a start-up option, which poolers refuse: so each testbed has a database of its own.
    let folder = target_dir()?.join(format!("checks/pooler-{:08x}", rand::random::<u32>()));
    let server = PostgresServer::start().await?;
    let pooler = Pooler::start(&server, &folder, POOL).await?;
    let plan = async || -> Result<TestbedPlan> {
        let server = server.with_new_database().await?;
        let database = Database::Postgres { server, schema: None };
        Ok(TestbedPlan::of_several(options)?.database(database).database_addr(pooler.addr))
    };
    let testbed = plan().await?.start().await?;
    every_call(&testbed, report).await.context("the calls of the API")?;
    idle_while_receivers_sleep(&testbed, report).await?;
    let logs: String = testbed.nodes.iter().map(|node| node.log()).collect();
    report.must(!logs.contains("prepared statement"), "a node's log speaks of a prepared statement");
    testbed.tear_down().await?;

    nodes_killed::play(options, plan().await?, options.seconds(30), report).await?;
    report.must(
        !pooler.log().contains("prepared statement"),
        "the pooler's log speaks of a prepared statement",
    );
    drop(pooler);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Each endpoint once, on the nodes in turn.
async fn every_call(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let client = |at: usize| &testbed.nodes[at % testbed.nodes.len()].client;
    let destination = client(0)
        .create_destination(&NewDestination::new("calls", &testbed.receiver.url("/d/calls")))
        .await?;
    let route = client(1).create_route(&NewRoute::to(destination.id)).await?;
    client(2).update_destination(destination.id, &json!({ "name": "called" })).await?;
    client(0).pause(destination.id).await?;
    let accepted = client(1).publish(&Publish::json("calls", "{\"n\":1}")?).await?;
    client(2).publish_batch(&[Publish::json("calls", "{\"n\":2}")?]).await?;
    let waiting = client(0).deliveries(&DeliveryQuery::default(), None).await?.data;
    report.must_be("deliveries_seen_from_another_node", waiting.len(), 2);
    if let Some(delivery) = waiting.first() {
        client(1).delivery(delivery.id).await?;
        client(2).cancel(delivery.id).await?;
    }
    client(0).resume(destination.id).await?;
    report.must(
        testbed.receiver.wait_for_succeeded(1, Duration::from_secs(10)).await,
        "the other did not arrive",
    );
    client(1).event(accepted.id).await?;
    client(2).event_payload(accepted.id).await?;
    client(0).events(&EventQuery::default(), None).await?;
    client(1).rotate_secret(destination.id).await?;
    client(2).destination_secret(destination.id).await?;
    client(0).test(destination.id, &TestEvent::default()).await?;
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

/// While every request takes two seconds, no connection may be idle in a transaction, and no lock may be left afterwards.
async fn idle_while_receivers_sleep(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let server = testbed.server()?;
    testbed.receiver.script("sleepy", Reply::ok().after(ASLEEP));
    testbed.add_destination(&testbed.destination("sleepy"), &[]).await?;
    for n in 0..50 {
        let node = &testbed.nodes[n % testbed.nodes.len()];
        node.client.publish(&Publish::json("sleepy", format!("{{\"n\":{n}}}"))?).await?;
    }
    testbed.receiver.wait_for_arrivals("sleepy", 1, Duration::from_secs(10)).await;
    let mut most = 0;
    for _ in 0..30 {
        // A transaction of several statements is idle for an instant between them.
        let sql = "select count(*) from pg_stat_activity where state like 'idle in transaction%'
                   and state_change < clock_timestamp() - interval '200 milliseconds' and datname = current_database()";
        most = most.max(server.number(sql).await?);
        sleep(Duration::from_millis(100)).await;
    }
    report.must_be("idle_in_transaction_while_a_receiver_sleeps", most, 0);
    testbed.quiesce(Duration::from_secs(30)).await?;
    let sql = "select count(*) from pg_locks where locktype = 'advisory'";
    report.must_be("advisory_locks_left", server.number(sql).await?, 0);
    Ok(())
}
