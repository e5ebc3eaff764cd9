//! Hours and days of lanes, from what their owners noted of minutes, and from hours.

use super::{RollUp, breathe};
use crate::chores::term::Stopped;
use domain::{
    id::{AccountId, DestinationId},
    limits,
    rollup::{LaneSums, Span},
    time::Timestamp,
};
use std::{collections::BTreeMap, time::Duration};
use store::{LaneRollup, RollupMark};
use tokio::time::Instant;

type LaneSumsByPlace = BTreeMap<(AccountId, Option<DestinationId>), LaneSums>;

impl RollUp {
    pub(super) async fn lanes(&mut self, span: Span) -> Result<(), Stopped> {
        let (part, after, kept) = match span {
            Span::Day => (Span::Hour, limits::ROLLUP_DAY_AFTER, limits::ROLLUP_HOURS_KEPT),
            _ => (Span::Minute, limits::ROLLUP_HOUR_AFTER, limits::ROLLUP_MINUTES_KEPT),
        };
        let mark = RollupMark::Lanes(span);
        while let Some((from, to)) = self.next(mark, span, after, Some(kept)).await? {
            let mut sums = LaneSumsByPlace::new();
            let mut starts_at = from;
            while starts_at < to {
                for (place, found) in self.lanes_at(part, starts_at).await? {
                    sums.entry(place).or_default().then(&found);
                }
                starts_at = starts_at.plus(part.length());
            }
            let row =
                |((account_id, destination_id), sums): (&(AccountId, Option<DestinationId>), &LaneSums)| {
                    LaneRollup {
                        account_id: *account_id,
                        destination_id: *destination_id,
                        starts_at: from,
                        doc: sums.doc(),
                    }
                };
            let rows: Vec<LaneRollup> = sums.iter().map(row).collect();
            for chunk in rows.chunks(limits::ROLLUP_ROWS) {
                let (term, began) = (self.chore_term.term().await?, Instant::now());
                if !self.store.write_lane_rollups(term, span, chunk).await? {
                    return Err(Stopped::TermOver);
                }
                breathe(began).await;
            }
            self.close(mark, to, Vec::new()).await?;
        }
        Ok(())
    }

    /// What all owners saw of the span that began then.
    async fn lanes_at(&mut self, span: Span, starts_at: Timestamp) -> Result<LaneSumsByPlace, Stopped> {
        let (mut sums, mut after) = (LaneSumsByPlace::new(), None);
        loop {
            self.chore_term.term().await?;
            let began = Instant::now();
            let step = self.store.lane_rollups_at(span, starts_at, after, limits::LANE_ROLLUP_ROWS).await?;
            for (place, doc) in &step {
                // What a newer version wrote otherwise is passed over.
                let Some(found) = LaneSums::read(doc) else { continue };
                let whole_account = place.destination_id.is_none();
                let of_place = sums.entry((place.account_id, place.destination_id)).or_default();
                of_place.beside(&found, whole_account);
            }
            if step.len() < limits::LANE_ROLLUP_ROWS {
                return Ok(sums);
            }
            after = step.last().map(|(place, _)| *place);
            breathe(began).await;
        }
    }

    /// After they were summed up, in the same pass.
    pub(super) async fn prune_lanes(&mut self, span: Span, kept: Duration) -> Result<(), Stopped> {
        let before = self.clock.now().minus(kept);
        loop {
            let (term, began) = (self.chore_term.term().await?, Instant::now());
            let pruned = self.store.prune_lane_rollups(term, span, before, limits::PRUNE_STEP).await?;
            if pruned.ok_or(Stopped::TermOver)? < limits::PRUNE_STEP {
                return Ok(());
            }
            breathe(began).await;
        }
    }
}
