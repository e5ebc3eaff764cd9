//! How destinations are doing whose holds have changed: read once for a page of changes, not for each of them.

use crate::{app::App, views};
use contract::DestinationChangeView;
use domain::{destination::Destination, gate::HoldRecord, id::DestinationId, limits};
use std::collections::HashMap;
use store::{FeedChange, FeedEntry, LaneView, StoreError};

/// What is known of some destinations: their settings, if they read back, and what their lanes say.
#[derive(Default)]
pub(super) struct KnownDestinations(HashMap<DestinationId, (Option<Destination>, Option<LaneView>)>);

impl KnownDestinations {
    /// Of those that something happened to.
    pub(super) async fn of(app: &App, entries: &[FeedEntry]) -> Result<Self, StoreError> {
        let id = |entry: &FeedEntry| match entry.change {
            FeedChange::Hold(id, _) => Some(id),
            FeedChange::Event(_) | FeedChange::Delivery(_) => None,
        };
        Self::read(app, entries.iter().filter_map(id).collect()).await
    }

    pub(super) async fn read(app: &App, mut ids: Vec<DestinationId>) -> Result<Self, StoreError> {
        ids.sort_unstable();
        ids.dedup();
        let mut known = HashMap::with_capacity(ids.len());
        for some in ids.chunks(limits::VERSIONS_AT_ONCE) {
            let targets = app.store.destination_records(some).await?;
            let lanes = app.lanes.views(some).await;
            let lanes = lanes.into_iter().chain(std::iter::repeat(None));
            for ((id, target), lane) in some.iter().zip(targets).zip(lanes) {
                known.insert(*id, (target.and_then(|target| target.destination.ok()), lane));
            }
        }
        Ok(Self(known))
    }

    pub(super) fn view(&self, id: DestinationId, change: &HoldRecord) -> DestinationChangeView {
        let (destination, lane) =
            self.0.get(&id).map_or((None, None), |(destination, lane)| (destination.as_ref(), lane.as_ref()));
        views::destination_change(id, destination, lane, change)
    }
}
