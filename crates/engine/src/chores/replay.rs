//! Makes the deliveries of replays, at the pace each was given.
//!
//! A node holds the replays it works on, for as long as it goes on writing; every node looks for those that no node
//! holds. What is made waits in its lane as everything else does: limits, holds and order are the lane's business. What
//! is kept in memory is bounded: so many replays, and one chunk.
//!
//! A backfill for one destination is best made by the node that has its lane, which then need not read what was made: others
//! leave it alone for a moment.
//!
//! While as much of an account waits as may, its replays wait too: they are held, and make nothing.

mod backfill;
mod full_backlogs;
mod hand_over;
#[cfg(test)]
mod tests;

use crate::{backoff::Backoff, data_keys::DataKeys, dispatcher::Message, ownership_view::OwnershipView};
use domain::{
    delivery::Position,
    dice::Dice,
    id::{DeliveryId, DestinationId, NodeId, ReplayId},
    limits,
    time::Clock,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{
    BackfillChunk, Backfilled, NewDelivery, OpenReplay, Original, OriginalWalk, ReplayChunk, ReplayHold,
    Replayed, Store, StoreError, failpoint,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

pub(super) use backfill::Backfiller;
use backfill::{ChunkMaker, ChunkPlan, NextChunk};
pub(super) use full_backlogs::FullBacklogs;
use hand_over::HandOver;

pub(super) struct Replayer {
    pub(super) store: Arc<dyn Store>,
    pub(super) data_keys: Arc<DataKeys>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) dice: Arc<dyn Dice>,
    pub(super) ownership_view: Arc<OwnershipView>,
    /// Told where new deliveries wait.
    pub(super) dispatcher: mpsc::Sender<Message>,
    pub(super) backlog: FullBacklogs,
    pub(super) backfiller: Backfiller,
}

/// A replay that this node holds.
struct HeldReplay {
    replay: OpenReplay,
    /// The next chunk may be written.
    next_at: Instant,
    /// As much of its account waits as may.
    waits: bool,
    pace: BackfillPace,
}

/// What the chunks of a backfill were like so far.
struct BackfillPace {
    /// A chunk may have so many times as many deliveries as one of an expansion.
    times: usize,
    /// Lanes of this node took some of the last one.
    for_us: bool,
}

impl Default for BackfillPace {
    fn default() -> Self {
        Self { times: 1, for_us: true }
    }
}

impl BackfillPace {
    /// Writing a chunk of so many deliveries took so long.
    fn took(&mut self, took: Duration, is_full: bool) {
        if took > limits::BACKFILL_CHUNK_QUICK * 2 {
            self.times = (self.times / 2).max(1);
        } else if is_full && took <= limits::BACKFILL_CHUNK_QUICK {
            self.times = (self.times * 2).min(limits::BACKFILL_CHUNK_TIMES);
        }
    }
}

/// What became of a replay's cursor.
enum Moved {
    /// With so many deliveries made.
    On(u32),
    ToTheEnd,
    /// Nowhere: as much of its account waits as may.
    HeldBack,
    /// It was paused or cancelled, or another node holds it.
    NotOurs,
}

impl Replayer {
    pub(super) async fn run(mut self) {
        let (mut held, mut backoff) = (BTreeMap::new(), Backoff::default());
        let mut left_to_owners = BTreeMap::new();
        let mut next_look = Instant::now();
        loop {
            supervisor::failpoint();
            let now = Instant::now();
            let done = if next_look <= now {
                next_look = now + limits::REPLAY_LOOK;
                self.look(&mut held, &mut left_to_owners).await
            } else if let Some(id) = next_of(&held).filter(|id| held[id].next_at <= now) {
                let done = self.go_on(&mut held, id).await;
                if done.is_err() {
                    // It may have been written all the same: it is taken, and read, anew. The others go on meanwhile.
                    held.remove(&id);
                }
                done
            } else {
                let next = next_of(&held).map_or(next_look, |id| held[&id].next_at.min(next_look));
                sleep_until(next).await;
                continue;
            };
            match done {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "a replay could not go on; trying again");
                    }
                    sleep(backoff.pause(self.dice.as_ref())).await;
                }
            }
        }
    }

    /// Takes what no node holds.
    async fn look(
        &self,
        held: &mut BTreeMap<ReplayId, HeldReplay>,
        left_to_owners: &mut BTreeMap<ReplayId, Instant>,
    ) -> Result<(), StoreError> {
        let membership = self.ownership_view.membership();
        if !membership.may_start() {
            held.clear();
            return Ok(());
        }
        let open = self.store.open_replays(limits::REPLAYS_HELD).await?;
        let mut left = std::mem::take(left_to_owners);
        for seen in open {
            let now = self.clock.now();
            if held.contains_key(&seen.id) || !seen.is_free_for(membership.node, now) {
                continue;
            }
            if self.is_for_a_lane_of_another(membership.node, &seen) {
                let since = left.remove(&seen.id).unwrap_or_else(Instant::now);
                if since.elapsed() < limits::BACKFILL_LEFT_TO_OWNER {
                    left_to_owners.insert(seen.id, since);
                    continue;
                }
            }
            let hold = ReplayHold {
                id: seen.id,
                node: membership.node,
                until: now.plus(limits::REPLAY_HOLD),
                seen_by: seen.held_by,
                seen_until: seen.held_until,
            };
            if let Some(replay) = self.store.hold_replay(&hold).await? {
                let (next_at, pace) = (Instant::now(), BackfillPace::default());
                held.insert(replay.id, HeldReplay { replay, next_at, waits: false, pace });
            }
        }
        Ok(())
    }

    /// Whether all that it makes goes to a lane that another node has.
    fn is_for_a_lane_of_another(&self, node: NodeId, replay: &OpenReplay) -> bool {
        let wanted = replay.backfill.iter().flat_map(|backfill| &backfill.selection.destination_ids);
        let mut owners = wanted.map(|to| self.ownership_view.runs(to.shard()));
        let Some(Some(first)) = owners.next() else { return false };
        first != node && owners.all(|owner| owner == Some(first))
    }

    /// Writes the next chunk of one.
    async fn go_on(
        &mut self,
        held: &mut BTreeMap<ReplayId, HeldReplay>,
        id: ReplayId,
    ) -> Result<(), StoreError> {
        let Some(ours) = held.get_mut(&id) else { return Ok(()) };
        let (membership, began) = (self.ownership_view.membership(), Instant::now());
        let moved = if !membership.may_start() {
            Moved::NotOurs
        } else if self.backlog.is_full(self.store.as_ref(), ours.replay.account_id).await? {
            self.keep(membership.node, &ours.replay).await?
        } else {
            self.write_chunk(membership.node, ours).await?
        };
        let waited = std::mem::replace(&mut ours.waits, matches!(moved, Moved::HeldBack));
        if waited != ours.waits {
            tracing::info!(replay_id = %id, waits = ours.waits, "replay.backlog");
        }
        match moved {
            Moved::HeldBack => ours.next_at = began + limits::BACKLOG_LOOK,
            Moved::On(made) => {
                // Not faster later on for having been late.
                ours.next_at = began + Duration::from_secs(1) * made / ours.replay.rate.max(1);
            }
            Moved::ToTheEnd => {
                held.remove(&id);
                tracing::info!(replay_id = %id, "replay.completed");
            }
            Moved::NotOurs => {
                held.remove(&id);
            }
        }
        Ok(())
    }

    async fn write_chunk(&mut self, node: NodeId, ours: &mut HeldReplay) -> Result<Moved, StoreError> {
        if ours.replay.backfill.is_some() {
            return self.write_backfill(node, ours).await;
        }
        let replay = &mut ours.replay;
        let chunk = self.next_chunk(node, replay).await?;
        failpoint::hit("replay.before");
        let written = self.store.write_replay(&chunk).await;
        failpoint::hit("replay.after");
        let maybe_there = !matches!(written, Ok(None) | Err(StoreError::Unavailable(_)));
        if maybe_there && !chunk.deliveries.is_empty() {
            // One that has stopped hears nothing: the rows are durable.
            let _ = self.dispatcher.send(Message::Made(places(&chunk))).await;
        }
        let Some(made) = written? else { return Ok(Moved::NotOurs) };
        replay.cursor = chunk.to;
        Ok(if chunk.done { Moved::ToTheEnd } else { Moved::On(made) })
    }

    async fn write_backfill(&mut self, node: NodeId, ours: &mut HeldReplay) -> Result<Moved, StoreError> {
        let HeldReplay { replay, pace, .. } = ours;
        let limit = self.chunk_limit(replay, pace.times);
        let plan = ChunkPlan { deliveries: limit, payloads: pace.for_us };
        let with = ChunkMaker {
            store: self.store.as_ref(),
            data_keys: &self.data_keys,
            clock: self.clock.as_ref(),
            dice: self.dice.as_ref(),
        };
        let Some(backfill) = &replay.backfill else { return Ok(Moved::NotOurs) };
        let next = self.backfiller.next_chunk(&with, node, replay, backfill, plan).await?;
        let NextChunk { chunk, promised } = next;
        let owned = self.ownership_view.owned();
        let for_us = |one: &Backfilled| owned.binary_search(&one.delivery.shard).is_ok();
        // Of nothing nothing is known.
        pace.for_us = chunk.deliveries.is_empty() || chunk.deliveries.iter().any(for_us);
        let hand_over = HandOver::begin(&self.dispatcher, promised).await;
        let begun = Instant::now();
        failpoint::hit("backfill.before");
        let written = self.store.write_backfill(&chunk).await;
        failpoint::hit("backfill.after");
        pace.took(begun.elapsed(), chunk.deliveries.len() >= limit);
        hand_over.end(&written).await;
        let Some(made) = written? else { return Ok(Moved::NotOurs) };
        if let Some(backfill) = &mut replay.backfill {
            backfill.cursor = chunk.to;
        }
        Ok(if chunk.done { Moved::ToTheEnd } else { Moved::On(made.len() as u32) })
    }

    fn chunk_limit(&self, replay: &OpenReplay, times: usize) -> usize {
        let step = replay.rate.div_ceil(limits::REPLAY_STEPS_A_SECOND) as usize;
        step.clamp(1, (self.store.chunk_routes() * times).min(limits::BACKFILL_EVENTS))
    }

    /// Says that it is still ours, by a chunk of nothing.
    async fn keep(&self, node: NodeId, replay: &OpenReplay) -> Result<Moved, StoreError> {
        let now = self.clock.now();
        if let Some(backfill) = &replay.backfill {
            let nothing = BackfillChunk {
                replay_id: replay.id,
                account_id: replay.account_id,
                node,
                from: backfill.cursor,
                to: backfill.cursor,
                deliveries: Vec::new(),
                skipped: 0,
                done: false,
                now,
                until: now.plus(limits::REPLAY_HOLD),
            };
            let ours = self.store.write_backfill(&nothing).await?.is_some();
            return Ok(if ours { Moved::HeldBack } else { Moved::NotOurs });
        }
        let nothing = ReplayChunk {
            replay_id: replay.id,
            node,
            from: replay.cursor,
            to: replay.cursor,
            deliveries: Vec::new(),
            skipped: 0,
            done: false,
            now,
            until: now.plus(limits::REPLAY_HOLD),
        };
        let ours = self.store.write_replay(&nothing).await?.is_some();
        Ok(if ours { Moved::HeldBack } else { Moved::NotOurs })
    }

    async fn next_chunk(&self, node: NodeId, replay: &OpenReplay) -> Result<ReplayChunk, StoreError> {
        let limit = self.chunk_limit(replay, 1);
        let originals = self.store.originals(&OriginalWalk { replay: replay.clone(), limit }).await?;
        let now = self.clock.now();
        let mut chunk = ReplayChunk {
            replay_id: replay.id,
            node,
            from: replay.cursor,
            to: originals.next.or_else(|| originals.rows.last().map(|row| row.id)).or(replay.cursor),
            deliveries: Vec::new(),
            skipped: originals.missing,
            done: originals.next.is_none(),
            now,
            until: now.plus(limits::REPLAY_HOLD),
        };
        for original in originals.rows {
            match self.again(&original) {
                Some(replayed) => chunk.deliveries.push(replayed),
                None => chunk.skipped += 1,
            }
        }
        Ok(chunk)
    }

    /// None if its destination is no longer there.
    fn again(&self, original: &Original) -> Option<Replayed> {
        let now = self.clock.now();
        let id = DeliveryId::at(now, self.dice.bits());
        let (destination, key) =
            ((original.destination_id, original.numbering?), original.ordering_key.as_deref());
        let delivery = NewDelivery::new(id, original.route_id, destination, key, now, now);
        Some(Replayed { origin: original.origin, event_id: original.event_id, delivery })
    }
}

/// The one that is due first.
fn next_of(held: &BTreeMap<ReplayId, HeldReplay>) -> Option<ReplayId> {
    held.iter().min_by_key(|(_, held)| held.next_at).map(|(id, _)| *id)
}

fn places(chunk: &ReplayChunk) -> Vec<(DestinationId, DeliveryId, Position)> {
    let place = |one: &Replayed| (one.delivery.destination_id, one.delivery.id, one.delivery.position);
    chunk.deliveries.iter().map(place).collect()
}
