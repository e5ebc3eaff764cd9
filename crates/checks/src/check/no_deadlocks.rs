//! Hazard: changes of configuration and fan-outs lock the same rows in different orders.
//!
//! Three nodes, two hundred destinations, events that go to all of them; meanwhile fifty changes a second, on the nodes in
//! turn: destinations are paused, resumed, deleted and made anew, for thirty seconds.
//!
//! Holds if the database counts no deadlock, no call of the API is answered 5xx, every event has all its deliveries, each
//! ends once, and nothing waits at the end.

use std::collections::BTreeMap;

use client::{Client, Error, NewRoute};
use domain::id::{DestinationId, SourceId};
use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::harness::prelude::*;

const DESTINATIONS: usize = 200;
const CHANGES_PER_SECOND: u32 = 50;
const CHANGERS: usize = 10;
const DEADLOCKS: &str = "select deadlocks from pg_stat_database where datname = current_database()";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let span = options.seconds(30);
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    testbed.receiver.recording(Recording::Counts);
    let server = testbed.server()?;
    let source = RoutedSource::make(&testbed, options.count(DESTINATIONS as u64) as usize, 4).await?;
    let before = server.number(DEADLOCKS).await?;
    let mut config = source.pump(Until::Stopped).open(options.rate(10.0));
    config.event_types = vec!["lab.all".into()];
    let pump = Pump::start(config)?;

    // Ten at a time, each with destinations of its own: two changes of one would rightly be told of each other.
    let mut changers = JoinSet::new();
    for (number, ids) in source.destinations.chunks(source.destinations.len().div_ceil(CHANGERS)).enumerate()
    {
        let clients = testbed.nodes.iter().map(|node| node.client.clone()).collect();
        let anew = testbed.destination_with_slots("new", 4);
        let changer = Changer { number, clients, ids: ids.to_vec(), source: source.id, anew };
        changers.spawn(changer.run(span));
    }
    let (mut ids, mut answers) = (Vec::new(), BTreeMap::new());
    while let Some(done) = changers.join_next().await {
        let (its, words) = done?;
        ids.extend(its);
        for (word, count) in words {
            *answers.entry(word).or_insert(0u64) += count;
        }
    }
    let sent = pump.finish().await;
    for id in &ids {
        testbed.client.resume(*id).await?;
    }
    testbed.must_drain(Duration::from_secs(60), report).await?;
    let wrong: Vec<_> =
        answers.keys().filter(|word| !matches!(word.as_str(), "done" | "409" | "412")).collect();
    report.must(wrong.is_empty(), format!("changes were answered {wrong:?}"));
    report.note("changes", &answers);
    report.must_all_be_accepted(&sent);
    report.must_be("deadlocks", server.number(DEADLOCKS).await? - before, 0);
    testbed.must_be_running(report);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}

/// Changes some destinations, one after the other.
struct Changer {
    number: usize,
    clients: Vec<Client>,
    ids: Vec<DestinationId>,
    source: SourceId,
    /// What takes the place of a deleted one.
    anew: NewDestination,
}

impl Changer {
    /// Its destinations at the end, and how often it was answered how.
    async fn run(mut self, span: Duration) -> (Vec<DestinationId>, BTreeMap<String, u64>) {
        let mut answers = BTreeMap::new();
        let mut pace = interval(Duration::from_secs(1) * CHANGERS as u32 / CHANGES_PER_SECOND);
        let began = Instant::now();
        for change in self.number.. {
            pace.tick().await;
            if began.elapsed() >= span {
                break;
            }
            let word = match self.change(change).await {
                Ok(()) => "done".to_owned(),
                Err(Error::Refused { problem, .. }) => problem.status.to_string(),
                Err(other) => other.to_string(),
            };
            *answers.entry(word).or_insert(0) += 1;
        }
        (self.ids, answers)
    }

    /// One change in ten deletes a destination and makes another.
    async fn change(&mut self, change: usize) -> Result<(), Error> {
        let client = &self.clients[change % self.clients.len()];
        let at = rand::rng().random_range(0..self.ids.len());
        match change % 10 {
            0 => {
                client.delete_destination(self.ids[at]).await?;
                self.ids[at] = client.create_destination(&self.anew).await?.id;
                let route = NewRoute::from_source(self.source, self.ids[at]);
                let types = vec!["lab.all".to_owned()];
                client.create_route(&NewRoute { event_types: types, ..route }).await?;
            }
            odd if odd % 2 == 1 => drop(client.pause(self.ids[at]).await?),
            _ => drop(client.resume(self.ids[at]).await?),
        }
        Ok(())
    }
}
