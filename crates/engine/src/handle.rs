//! The engine as the rest of the process sees it.

use crate::{
    dispatcher::{LaneAnswer, Message},
    metrics::Metrics,
    ownership_view::OwnershipView,
    sender::Sender,
    wakes::Outbox,
};
use async_trait::async_trait;
use domain::{
    delivery::{Delivery, Position},
    id::{DeliveryId, DestinationId, NodeId},
    lane::{Explanation, WaitKind, WaitingFor},
    limits,
    metrics::Text,
    time::Timestamp,
};
use std::sync::Arc;
use store::{Announce, Arrival, Change, Expansion, LaneRow, LaneView, Lanes, Scraped};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

pub struct EngineHandle {
    pub(crate) inbox: mpsc::Sender<Message>,
    /// For the expander.
    pub(crate) expansions: mpsc::Sender<Vec<Expansion>>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) ownership_view: Arc<OwnershipView>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) metrics: Arc<Metrics>,
    /// Ends what outlives the engine: without a handle nothing can be announced.
    pub(crate) _ended: DropGuard,
}

impl EngineHandle {
    /// A dispatcher that has stopped hears nothing: the node is ending, and the rows are durable.
    pub(crate) async fn tell(&self, message: Message) {
        let _ = self.inbox.send(message).await;
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.tell(question(answer)).await;
        answered.await.ok()
    }
}

#[async_trait]
impl Announce for EngineHandle {
    async fn expected(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.tell(Message::Expected(deliveries.to_vec())).await;
    }

    async fn arrived(&self, arrivals: Vec<Arrival>) {
        self.tell(Message::Arrived(arrivals)).await;
    }

    async fn forgotten(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.tell(Message::Forgotten(deliveries.to_vec())).await;
    }

    async fn look(&self, places: &[(DestinationId, DeliveryId, Position)]) {
        self.tell(Message::Look(places.to_vec())).await;
    }

    async fn expanding(&self, expansions: Vec<Expansion>) {
        // One that does not fit is found when an expander looks for those that have not moved.
        let _ = self.expansions.try_send(expansions);
    }

    async fn changed(&self, change: Change) {
        if let Change::Destinations(account, _) | Change::Defaults(account) = &change {
            self.sender.data_keys.forget(*account);
            if !self.ownership_view.is_alone() {
                self.outbox.changed(*account);
            }
        }
        self.tell(Message::Changed(change)).await;
    }
}

#[async_trait]
impl Lanes for EngineHandle {
    async fn views(&self, destinations: &[DestinationId]) -> Vec<Option<LaneView>> {
        let wanted = destinations.to_vec();
        let seen = self.ask(|answer| Message::Views(wanted, answer)).await;
        let seen = seen.unwrap_or_else(|| vec![LaneAnswer::Elsewhere; destinations.len()]);
        let mut published = self.published(destinations.iter().copied().zip(&seen)).await.into_iter();
        let view = |seen| match seen {
            LaneAnswer::Here(view) => view,
            LaneAnswer::Elsewhere => published.next().flatten().map(view_of),
        };
        seen.into_iter().map(view).collect()
    }

    async fn explain(&self, deliveries: Vec<Delivery>) -> Vec<Explanation> {
        let wanted = deliveries.clone();
        let Some(seen) = self.ask(|answer| Message::Explain(wanted, answer)).await else {
            return vec![Explanation::Unknown; deliveries.len()];
        };
        let destinations = deliveries.iter().map(|delivery| delivery.destination_id);
        let mut published = self.published(destinations.zip(&seen)).await.into_iter();
        let now = self.sender.clock.now();
        let explain = |(delivery, seen): (&Delivery, LaneAnswer<_>)| match seen {
            LaneAnswer::Here(explanation) => self.sender.large_payloads.explain(delivery, explanation),
            LaneAnswer::Elsewhere => {
                explain_elsewhere(delivery, self.owner_of(delivery), published.next().flatten(), now)
            }
        };
        deliveries.iter().zip(seen).map(explain).collect()
    }
}

#[async_trait]
impl Scraped for EngineHandle {
    async fn scrape(&self, named: bool, text: &mut Text) {
        self.metrics.write(text);
        self.sender.large_payloads.write(text);
        // A dispatcher that has stopped has no lanes any more.
        let figures = self.ask(Message::Figures).await.unwrap_or_default();
        figures.write(named, self.sender.clock.now(), text);
    }
}

impl EngineHandle {
    /// What the owners of others' lanes said last, for each of these that is elsewhere. Nothing if it cannot be read:
    /// a page without these lines is better than none.
    async fn published<'a, T: 'a>(
        &self,
        lanes: impl Iterator<Item = (DestinationId, &'a LaneAnswer<T>)>,
    ) -> Vec<Option<LaneRow>> {
        let elsewhere = lanes.filter(|(_, seen)| matches!(seen, LaneAnswer::Elsewhere));
        let elsewhere: Vec<DestinationId> = elsewhere.map(|(destination, _)| destination).collect();
        if elsewhere.is_empty() {
            return Vec::new();
        }
        let newer_than = self.sender.clock.now().minus(limits::LANES_FRESH);
        self.sender.store.published_lanes(&elsewhere, newer_than).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "published lanes could not be read");
            vec![None; elsewhere.len()]
        })
    }

    fn owner_of(&self, delivery: &Delivery) -> Option<NodeId> {
        self.ownership_view.runs(delivery.destination_id.shard())
    }
}

fn view_of(lane: LaneRow) -> LaneView {
    LaneView { in_flight: lane.in_flight, hold: lane.hold }
}

/// What becomes of a delivery in a lane of another node, as far as that can be said from here.
fn explain_elsewhere(
    delivery: &Delivery,
    owner: Option<NodeId>,
    lane: Option<LaneRow>,
    now: Timestamp,
) -> Explanation {
    let Some(owner) = owner else {
        let detail = "no worker runs its destination's lane at the moment".into();
        let since = delivery.due_at.min(now).max(delivery.created_at);
        let kind = WaitKind::NoWorker;
        return Explanation::Waits(WaitingFor { kind, since, until: None, behind: None, detail });
    };
    if lane.as_ref().is_some_and(|lane| lane.open.contains(&delivery.id)) {
        return Explanation::Delivering;
    }
    let (hold, binding) = lane.map(|lane| (lane.hold, lane.binding)).unwrap_or_default();
    let waits = WaitingFor::held_or_scheduled(hold, delivery, now);
    let otherwise = || binding.waiting_for(delivery, || format!("its turn on node {owner}"));
    Explanation::Waits(waits.unwrap_or_else(otherwise))
}
