//! The doors between the crates that write and the engine that delivers: what has been committed is announced through
//! [`Announce`], what only the owner of a lane knows is seen through [`Lanes`], and what is counted is told through
//! [`Scraped`]. They are traits of this crate, so that `api` need not know `engine`.

use crate::{expand::Expansion, queue::FetchedDelivery};
use async_trait::async_trait;
use domain::{
    delivery::{Delivery, Position},
    gate::Hold,
    id::{AccountId, DeliveryId, DestinationId},
    lane::Explanation,
    metrics::Text,
};

/// A delivery that has just been committed, with its event: no need to fetch it.
pub type Arrival = FetchedDelivery;

/// Told about every commit, in this order: `expected` before the flush, then exactly one of the others.
#[async_trait]
pub trait Announce: Send + Sync {
    /// These deliveries are about to be committed. A fetch that returns one of them must ignore it.
    async fn expected(&self, deliveries: &[(DestinationId, DeliveryId)]);
    /// They are durable.
    async fn arrived(&self, arrivals: Vec<Arrival>);
    /// They were rolled back.
    async fn forgotten(&self, deliveries: &[(DestinationId, DeliveryId)]);
    /// They may or may not be there, or they came by another way: look from this position on.
    async fn look(&self, places: &[(DestinationId, DeliveryId, Position)]);
    /// These events are durable and their deliveries are still to be made: begin at once.
    async fn expanding(&self, expansions: Vec<Expansion>);
    /// Configuration has changed: read it again before the next start.
    async fn changed(&self, change: Change);
}

#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Settings, switches, secrets of these destinations, or routes that lead to them.
    Destinations(AccountId, Vec<DestinationId>),
    /// The defaults of this account: all its destinations may go by others now.
    Defaults(AccountId),
    /// "Probe now".
    Probe(DestinationId),
}

/// What the owner of the lanes knows.
#[async_trait]
pub trait Lanes: Send + Sync {
    /// One view per destination asked for, in order; None where no lane runs.
    async fn views(&self, destinations: &[DestinationId]) -> Vec<Option<LaneView>>;
    /// What is known of each of these deliveries, in order.
    async fn explain(&self, deliveries: Vec<Delivery>) -> Vec<Explanation>;
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct LaneView {
    pub in_flight: u32,
    pub hold: Option<Hold>,
}

/// A part of the process that counts what it does.
#[async_trait]
pub trait Scraped: Send + Sync {
    /// Writes its metrics. `named`: the reader may know the names of destinations.
    async fn scrape(&self, named: bool, text: &mut Text);
}
