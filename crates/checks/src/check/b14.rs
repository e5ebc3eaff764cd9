//! B14. Hazard: changes of configuration and fan-outs lock the same rows in different orders.
//!
//! Three nodes, two hundred destinations, events that go to all of them; meanwhile fifty changes a second, on the nodes in
//! turn: destinations are paused, resumed, deleted and made anew, for thirty seconds.
//!
//! Holds if the database counts no deadlock, no call of the API is answered 5xx, every event has all its deliveries, each
//! ends once, and nothing waits at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use client::{Error, NewDestination, NewRoute};
use domain::id::DestinationId;
use lab::{Pump, Recording, Until};
use rand::RngExt;
use tokio::time::{Instant, sleep_until};

use crate::Ask;
use crate::harness::{Audit, Fleet, Plan, Report, Stage, StoreKind};

const DESTINATIONS: usize = 200;
const CHANGES_PER_SECOND: u32 = 50;
const DEADLOCKS: &str = "select deadlocks from pg_stat_database where datname = current_database()";

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let span = ask.seconds(30);
    let mut stage = Plan::new(ask, store)?.nodes(ask.nodes(store, 3)).start().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    stage.receiver.recording(Recording::Counts);
    let server = stage.database.server().context("this check needs PostgreSQL")?.clone();
    let fleet = Fleet::assemble(&stage, ask.count(DESTINATIONS as u64) as usize, 4).await?;
    let before = server.number(DEADLOCKS).await?;
    let mut config = fleet.pump(Until::Stopped).open(ask.rate(10.0));
    config.event_types = vec!["lab.all".into()];
    let pump = Pump::start(config)?;

    let (mut ids, mut answers) = (fleet.ids.clone(), BTreeMap::new());
    let began = Instant::now();
    for change in 0..CHANGES_PER_SECOND * span.as_secs() as u32 {
        sleep_until(began + Duration::from_secs(1) * change / CHANGES_PER_SECOND).await;
        let at = rand::rng().random_range(0..ids.len());
        let answer = change_one(&stage, change as usize, &mut ids[at]).await;
        let word = match answer {
            Ok(()) => "done".to_owned(),
            Err(Error::Refused(problem)) => problem.status.to_string(),
            Err(other) => other.to_string(),
        };
        *answers.entry(word).or_insert(0u64) += 1;
    }
    let sent = pump.finish().await;
    for id in &ids {
        stage.client.resume(*id).await?;
    }
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    let wrong: Vec<_> =
        answers.keys().filter(|word| !matches!(word.as_str(), "done" | "409" | "412")).collect();
    report.must(wrong.is_empty(), format!("changes were answered {wrong:?}"));
    report.note("changes", &answers);
    report.note("pump", &sent);
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    report.exactly("deadlocks", (server.number(DEADLOCKS).await? - before) as u64, 0u64);
    report.must(stage.all_running(), "a node exited");
    Audit::of(&stage.database).await?.rules(&mut report);
    stage.strike().await?;
    Ok(report)
}

/// One change in ten deletes a destination and makes another.
async fn change_one(stage: &Stage, number: usize, id: &mut DestinationId) -> Result<(), Error> {
    let client = &stage.members[number % stage.members.len()].client;
    match number % 10 {
        0 => {
            client.delete_destination(*id).await?;
            let plan = NewDestination { max_concurrency: Some(4), ..stage.destination("new") };
            *id = client.create_destination(&plan).await?.id;
            let types = Some(vec!["lab.all".to_owned()]);
            client.create_route(&NewRoute { event_types: types, ..NewRoute::to(*id) }).await?;
        }
        odd if odd % 2 == 1 => drop(client.pause(*id).await?),
        _ => drop(client.resume(*id).await?),
    }
    Ok(())
}
