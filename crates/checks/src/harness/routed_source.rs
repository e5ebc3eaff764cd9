//! A source with a route to each of its destinations: most events go to one of them, every so many-th to all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use client::{NewDestination, NewRoute, NewSource};
use domain::destination::Ordering;
use domain::id::{DestinationId, SourceId};
use lab::judge::{Acked, acked};
use lab::{Evidence, Fault, PumpConfig, PumpReport, Sent, Target, Until};

use super::test_node::TestNode;
use super::{Testbed, raw_http};

/// Sends everything, all of which is accepted.
pub(crate) async fn pump_all(config: PumpConfig) -> Result<PumpReport> {
    let sent = lab::pump::run(config).await?;
    ensure!(sent.accepted == sent.offered, "not everything was accepted: {sent}");
    Ok(sent)
}

/// Destination `dNN` gets the events of type `lab.dNN`, and all of them get those of type `lab.all`.
pub(crate) struct RoutedSource {
    pub(crate) id: SourceId,
    pub(crate) token: String,
    pub(crate) destinations: Vec<DestinationId>,
    /// Of the destinations.
    pub(crate) names: Vec<Arc<str>>,
    /// Those that get everything one at a time, in the order of the commits.
    pub(crate) ordered: HashSet<Arc<str>>,
    limit: u32,
    base: String,
    /// The other nodes.
    also_at: Vec<String>,
}

impl RoutedSource {
    pub(crate) async fn make(testbed: &Testbed, size: usize, limit: u32) -> Result<RoutedSource> {
        RoutedSource::make_with(testbed, size, limit, |_, plan| plan).await
    }

    /// The same with destinations of another kind, or of several: `change` is told their number.
    pub(crate) async fn make_with(
        testbed: &Testbed,
        size: usize,
        limit: u32,
        change: impl Fn(usize, NewDestination) -> NewDestination,
    ) -> Result<RoutedSource> {
        let made = testbed.client.create_source(&NewSource::new("pump")).await?;
        let url = made.ingest_url.context("a source that was just made shows its ingest URL")?;
        let token = url.rsplit('/').next().context("an ingest URL ends in its token")?;
        let mut source = RoutedSource {
            id: made.id,
            token: token.to_owned(),
            destinations: Vec::new(),
            names: Vec::new(),
            ordered: HashSet::new(),
            limit,
            base: testbed.base_url(),
            also_at: testbed.nodes[1..].iter().map(TestNode::base_url).collect(),
        };
        for at in 0..size {
            let name = format!("d{at:02}");
            let plan = change(at, testbed.destination_with_slots(&name, limit));
            let destination = testbed.client.create_destination(&plan).await?;
            let types = vec![format!("lab.{name}"), "lab.all".to_owned()];
            let route = NewRoute::from_source(source.id, destination.id);
            testbed.client.create_route(&NewRoute { event_types: types, ..route }).await?;
            if plan.ordering == Ordering::Strict {
                source.ordered.insert(name.as_str().into());
            }
            source.names.push(name.into());
            source.destinations.push(destination.id);
        }
        Ok(source)
    }

    /// In turn, one event to each destination; over all nodes.
    pub(crate) fn pump_singly(&self, until: Until) -> PumpConfig {
        let mut config = self.pump(until);
        config.event_types.pop();
        config
    }

    /// In turn: one event to each destination, then one to all; over all nodes.
    pub(crate) fn pump(&self, until: Until) -> PumpConfig {
        let types = self.names.iter().map(|name| format!("lab.{name}")).chain(["lab.all".to_owned()]);
        PumpConfig {
            event_types: types.collect(),
            also_at: self.also_at.clone(),
            ..PumpConfig::new(self.target(), until)
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target::Ingest { base: self.base.clone(), tokens: vec![self.token.clone()] }
    }

    pub(crate) fn ingest_path(&self) -> String {
        format!("/ingest/{}", self.token)
    }

    /// A whole request with an event of this type.
    pub(crate) fn ingest_request(&self, event_type: &str, body: &[u8]) -> Vec<u8> {
        raw_http::request("POST", &self.ingest_path(), &[("x-event-type", event_type)], body)
    }

    /// What the judge is to know of a producer that used [`RoutedSource::pump`], and of the faults of its time.
    pub(crate) fn evidence(&self, sent: &PumpReport, faults: Vec<Fault>) -> Evidence {
        Evidence { acked: self.promised(&sent.sent), faults, ..Evidence::default() }
    }

    /// What was promised to a producer that used [`RoutedSource::pump`].
    pub(crate) fn promised(&self, sent: &[Sent]) -> Vec<Acked> {
        acked(sent, |sent| match self.names.get((sent.n % (self.names.len() as u64 + 1)) as usize) {
            Some(name) => vec![name.clone()],
            None => self.names.clone(),
        })
    }

    /// And to one that used [`RoutedSource::pump_singly`]: event *n* goes to destination *n* mod their number.
    pub(crate) fn promised_singly(&self, sent: &[Sent]) -> Vec<Acked> {
        acked(sent, |sent| vec![self.names[(sent.n % self.names.len() as u64) as usize].clone()])
    }

    pub(crate) fn limits(&self) -> HashMap<Arc<str>, u32> {
        let limit = |name: &Arc<str>| if self.ordered.contains(name) { 1 } else { self.limit };
        self.names.iter().map(|name| (name.clone(), limit(name))).collect()
    }

    pub(crate) fn name_of(&self, id: DestinationId) -> Option<Arc<str>> {
        let at = self.destinations.iter().position(|known| *known == id)?;
        Some(self.names[at].clone())
    }
}
