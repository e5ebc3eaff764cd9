//! The replays that are asked for, each until it has been confirmed.

use super::World;
use crate::{
    commands::{Command, ReplayRequest},
    faulty::finish,
    shared_world::count as tally,
    time::{MILLISECOND, Moment, SECOND},
    verdict::DoneBackfill,
};
use domain::id::{AccountId, DeliveryId, EventId, ReplayId};
use store::{BackfillSelection, Selection};
use tokio::sync::oneshot::{self, error::TryRecvError};

pub(super) struct WantedReplay {
    account: AccountId,
    /// By id, each once; or of a backfill of all events, how many routes had been switched.
    wanted: Wanted,
    rate: u32,
    next: Moment,
    /// Since when, and for what.
    waiting: Option<(Moment, oneshot::Receiver<Result<ReplayId, ()>>)>,
    confirmed: Option<ReplayId>,
}

enum Wanted {
    Deliveries(Vec<DeliveryId>),
    Backfill {
        switched_before: usize,
        /// Those that were there when it was asked for.
        events: Vec<EventId>,
    },
}

impl World {
    /// Some neighbours among what has ended, so that tracks and destinations have several.
    pub(super) fn plan_replay(&mut self, count: usize, rate: u32) {
        let account = *self.chance.pick(&self.accounts);
        let ended: Vec<DeliveryId> = {
            let observed = self.shared.observed();
            let ended = observed.deliveries.iter().filter(|(_, known)| known.ending.is_some());
            ended.filter(|(_, known)| known.account == account).map(|(id, _)| *id).collect()
        };
        if ended.is_empty() {
            return;
        }
        let from = self.chance.index(ended.len());
        let wanted = Wanted::Deliveries(ended.into_iter().skip(from).take(count).collect());
        let next = self.now;
        self.replays.push(WantedReplay { account, wanted, rate, next, waiting: None, confirmed: None });
        tally(&self.shared.counts.replays);
    }

    pub(super) fn plan_backfill(&mut self, rate: u32) {
        let account = *self.chance.pick(&self.accounts);
        let wanted = {
            let observed = self.shared.observed();
            let events = observed.events.keys().copied().collect();
            Wanted::Backfill { switched_before: observed.switched_routes.len(), events }
        };
        let next = self.now;
        self.replays.push(WantedReplay { account, wanted, rate, next, waiting: None, confirmed: None });
        tally(&self.shared.counts.replays);
    }

    pub(super) fn replays_proceed(&mut self) {
        for at in 0..self.replays.len() {
            self.hear_of_replay(at);
            let WantedReplay { confirmed: None, waiting: None, next, .. } = self.replays[at] else {
                continue;
            };
            if next <= self.now {
                self.ask_for_replay(at);
            }
        }
    }

    fn hear_of_replay(&mut self, at: usize) {
        let replaying = &mut self.replays[at];
        let Some((since, answer)) = &mut replaying.waiting else { return };
        let heard = match answer.try_recv() {
            Ok(Ok(_)) if !self.calm && self.chance.happens(0.2) => Err(()),
            Ok(heard) => heard,
            Err(TryRecvError::Empty) if self.now - *since <= 10 * SECOND => return,
            Err(_) => Err(()),
        };
        replaying.waiting = None;
        replaying.confirmed = heard.ok();
        replaying.next = self.now + self.chance.range(10, 1_000) as Moment * MILLISECOND;
    }

    /// Under the same key each time.
    fn ask_for_replay(&mut self, at: usize) {
        let WantedReplay { account, wanted, rate, .. } = &self.replays[at];
        let (answer, answered) = oneshot::channel();
        let (account, rate, key) = (*account, *rate, format!("replay-{at}"));
        let selection = match wanted {
            Wanted::Deliveries(deliveries) => Selection::Deliveries(deliveries.clone().into()),
            Wanted::Backfill { .. } => Selection::Events(BackfillSelection::default()),
        };
        let request = ReplayRequest { account, selection, rate, key, answer };
        if let Some(process) = self.serving_process() {
            process.command(Command::Replay(request));
            self.replays[at].waiting = Some((self.now, answered));
        }
    }

    /// Each has been confirmed and has made all it was to make.
    pub(super) fn replays_are_over(&self) -> bool {
        self.replays.iter().all(|replaying| {
            let replay = |id| finish(self.truth.replay(replaying.account, id)).expect("it was confirmed");
            replaying.confirmed.is_some_and(|id| replay(id).status.ended())
        })
    }

    /// What was to be made again, of each that was asked for.
    pub(super) fn replayed(&self) -> Vec<&[DeliveryId]> {
        let wanted = self.replays.iter().map(|replaying| &replaying.wanted);
        let deliveries = wanted.filter_map(|wanted| match wanted {
            Wanted::Deliveries(deliveries) => Some(deliveries.as_slice()),
            Wanted::Backfill { .. } => None,
        });
        deliveries.collect()
    }

    /// The backfills that are over.
    pub(super) fn backfilled(&self) -> Vec<DoneBackfill> {
        let done = |replaying: &WantedReplay| {
            let Wanted::Backfill { switched_before, events } = &replaying.wanted else { return None };
            let (switched_before, events) = (*switched_before, events.clone());
            let replay = finish(self.truth.replay(replaying.account, replaying.confirmed?));
            let created_at = replay.expect("it was confirmed").created_at;
            Some(DoneBackfill { account: replaying.account, created_at, switched_before, events })
        };
        self.replays.iter().filter_map(done).collect()
    }
}
