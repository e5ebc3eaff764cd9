//! Notes by the minute what no fact tells of this node's lanes: how many slots were taken and denied, and how much waited.
//! Every few seconds the dispatcher is asked what has happened since, and the minute is written as it stands, in one flush.
//!
//! Bounded: so many destinations and accounts in a minute, those that were noted first; and so many rows are counted of
//! lanes that are not in memory as a whole, which have their turns. Where nothing happens nothing is asked of the store.

mod minutes;

use crate::{
    dispatcher::{LaneSample, Message},
    ownership_view::OwnershipView,
};
use domain::{
    id::{AccountId, DestinationId},
    limits,
    time::{Clock, Timestamp},
};
pub(crate) use minutes::SampledMinutes;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{Store, StoreError};
use tokio::sync::{Mutex, mpsc, oneshot};

#[derive(Clone)]
pub(crate) struct LaneSampler {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ownership_view: Arc<OwnershipView>,
    pub(crate) dispatcher: mpsc::Sender<Message>,
    pub(crate) every: Duration,
    /// Outside of the loop: the next one goes on with the minute.
    pub(crate) minutes: Arc<Mutex<SampledMinutes>>,
}

impl LaneSampler {
    /// Samples for ever.
    pub(crate) async fn run(self) {
        loop {
            tokio::time::sleep(self.every).await;
            supervisor::failpoint();
            let (answer, answered) = oneshot::channel();
            let _ = self.dispatcher.send(Message::Samples(answer)).await;
            let Ok(samples) = answered.await else { return };
            let mut minutes = self.minutes.lock().await;
            if let Err(error) = self.round(&mut minutes, samples).await {
                tracing::debug!(%error, "what lanes were like could not be noted; trying again later");
            }
        }
    }

    async fn round(&self, minutes: &mut SampledMinutes, samples: Vec<LaneSample>) -> Result<(), StoreError> {
        let (node, now) = (self.ownership_view.membership().node, self.clock.now());
        minutes.begin(node, now);
        minutes.add(&samples, now);
        // What was counted counts, whatever becomes of the rest.
        let counted = match samples.is_empty() {
            true => Ok(()),
            false => self.count_backlogs(minutes, &samples, now).await,
        };
        let rows = minutes.unwritten();
        if !rows.is_empty() {
            self.store.write_lane_minutes(node, &rows).await?;
            minutes.written(now);
        }
        counted
    }

    async fn count_backlogs(
        &self,
        minutes: &mut SampledMinutes,
        samples: &[LaneSample],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let noted =
            samples.iter().filter(|sample| minutes.has(sample.account_id, sample.destination_id, now));
        let (here, elsewhere): (Vec<&LaneSample>, Vec<_>) =
            noted.partition(|sample| sample.waiting.is_some());
        for sample in here {
            minutes.waits(sample.account_id, Some(sample.destination_id), sample.waiting.unwrap_or(0), now);
        }
        self.count_accounts(minutes, samples, now).await?;
        let elsewhere: BTreeMap<DestinationId, AccountId> =
            elsewhere.iter().map(|sample| (sample.destination_id, sample.account_id)).collect();
        let mut left = limits::LANE_BACKLOG_ROWS;
        for few in minutes.in_turn(&elsewhere).chunks(limits::LANE_BACKLOGS_AT_ONCE) {
            if left <= 0 {
                break;
            }
            let counted = self.store.backlog(few, limits::QUEUED_EVENTS_EXACT).await?;
            for (destination, (rows, _)) in few.iter().zip(counted) {
                left -= rows;
                minutes.waits(elsewhere[destination], Some(*destination), rows.max(0) as u64, now);
                minutes.counted_last(*destination);
            }
        }
        Ok(())
    }

    /// Of accounts the store knows it, whoever owns their lanes; each owner of some of them says the same.
    async fn count_accounts(
        &self,
        minutes: &mut SampledMinutes,
        samples: &[LaneSample],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let backlogs = self.store.account_backlogs(limits::BACKLOG_ACCOUNTS).await?;
        let is_all = backlogs.len() < limits::BACKLOG_ACCOUNTS;
        let known: BTreeMap<AccountId, u64> =
            backlogs.iter().map(|backlog| (backlog.account_id, backlog.rows)).collect();
        for sample in samples {
            let rows = known.get(&sample.account_id).copied().or(is_all.then_some(0));
            if let Some(rows) = rows {
                minutes.waits(sample.account_id, None, rows, now);
            }
        }
        Ok(())
    }
}
