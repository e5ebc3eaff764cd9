//! A source and its destinations: most events go to one of them, every so many-th to all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, Result};
use client::{Client, NewDestination, NewRoute, NewSource};
use domain::destination::Ordering;
use domain::id::{DestinationId, SourceId};
use lab::judge::{Acked, acked};
use lab::{PumpConfig, Sent, Target, Until};

use super::Stage;
use super::member::Member;

/// Destination `dNN` gets the events of type `lab.dNN`, and all of them get those of type `lab.all`.
pub(crate) struct Fleet {
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) ids: Vec<DestinationId>,
    pub(crate) source: SourceId,
    pub(crate) token: String,
    /// Those that get everything one at a time, in the order of the commits.
    pub(crate) ordered: HashSet<Arc<str>>,
    limit: u32,
    base: String,
    /// The other nodes.
    also_at: Vec<String>,
}

impl Fleet {
    pub(crate) async fn assemble(stage: &Stage, size: usize, limit: u32) -> Result<Fleet> {
        Fleet::assemble_with(stage, size, limit, |_, plan| plan).await
    }

    /// The same with destinations of another kind, or of several: `change` is told their number.
    pub(crate) async fn assemble_with(
        stage: &Stage,
        size: usize,
        limit: u32,
        change: impl Fn(usize, NewDestination) -> NewDestination,
    ) -> Result<Fleet> {
        let source = stage.client.create_source(&NewSource::new("pump")).await?;
        let token =
            source.ingest_url.rsplit('/').next().context("an ingest URL ends in its token")?.to_owned();
        let also_at = stage.members[1..].iter().map(Member::base).collect();
        let (names, ids, ordered) = (Vec::new(), Vec::new(), HashSet::new());
        let mut fleet =
            Fleet { names, ids, source: source.id, token, ordered, limit, base: stage.base(), also_at };
        for at in 0..size {
            let name = format!("d{at:02}");
            let plan = NewDestination { max_concurrency: limit, ..stage.destination(&name) };
            let plan = change(at, plan);
            let destination = stage.client.create_destination(&plan).await?;
            let types = vec![format!("lab.{name}"), "lab.all".to_owned()];
            let route = NewRoute::from_source(source.id, destination.id);
            stage.client.create_route(&NewRoute { event_types: types, ..route }).await?;
            if plan.ordering == Ordering::Strict {
                fleet.ordered.insert(name.as_str().into());
            }
            fleet.names.push(name.into());
            fleet.ids.push(destination.id);
        }
        Ok(fleet)
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

    /// What was promised to a producer that used [`Fleet::pump`].
    pub(crate) fn promised(&self, sent: &[Sent]) -> Vec<Acked> {
        acked(sent, |sent| match self.names.get((sent.n % (self.names.len() as u64 + 1)) as usize) {
            Some(name) => vec![name.clone()],
            None => self.names.clone(),
        })
    }

    /// The same without the events to all: event *n* goes to destination *n* mod their number.
    pub(crate) fn promised_singly(&self, sent: &[Sent]) -> Vec<Acked> {
        acked(sent, |sent| vec![self.names[(sent.n % self.names.len() as u64) as usize].clone()])
    }

    pub(crate) fn limits(&self) -> HashMap<Arc<str>, u32> {
        let limit = |name: &Arc<str>| if self.ordered.contains(name) { 1 } else { self.limit };
        self.names.iter().map(|name| (name.clone(), limit(name))).collect()
    }

    pub(crate) fn name_of(&self, id: DestinationId) -> Option<Arc<str>> {
        let at = self.ids.iter().position(|known| *known == id)?;
        Some(self.names[at].clone())
    }
}

/// One destination for everything that is published.
pub(crate) async fn sole_destination(client: &Client, plan: &NewDestination) -> Result<DestinationId> {
    let destination = client.create_destination(plan).await?;
    client.create_route(&NewRoute::to(destination.id)).await?;
    Ok(destination.id)
}
