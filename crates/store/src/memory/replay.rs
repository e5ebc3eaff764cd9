//! Replays.

use super::{EndedDelivery, MemoryStore, Tables, newest_first};
use crate::{
    BackfillCursor, CreatedReplay, Listed, NewReplay, OpenBackfill, OpenReplay, Original, OriginalWalk,
    Originals, Page, Replay, ReplayChunk, ReplayHold, ReplayKey, ReplayStatus, ReplaySwitch, Replayed,
    Replays, SelectedDeliveries, Selection, StoreError, Survey, page_rows::PageRows, replay::AsOf,
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    delivery::Ending,
    id::{AccountId, DeliveryId, DestinationId, NodeId, ReplayId},
    limits,
    operations::OperationalNote,
    time::Timestamp,
};
use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

/// A replay, and what the node that works on it keeps there.
pub(super) struct KeptReplay {
    pub(super) replay: Replay,
    delivery_ids: Vec<DeliveryId>,
    key: Option<ReplayKey>,
    cursor: Option<DeliveryId>,
    pub(super) backfill_cursor: Option<BackfillCursor>,
    pub(super) held: Option<(NodeId, Timestamp)>,
    /// By origin: what was made of it.
    pub(super) made: BTreeMap<DeliveryId, DeliveryId>,
}

#[async_trait]
impl Replays for MemoryStore {
    async fn create_replay(&self, new: &NewReplay, audit: &AuditEntry) -> Result<CreatedReplay, StoreError> {
        let mut tables = self.tables();
        let created = tables.create_replay(new)?;
        if matches!(created, CreatedReplay::New(_)) {
            tables.append(Some(new.account_id), audit);
        }
        Ok(created)
    }

    async fn replay(&self, account: AccountId, id: ReplayId) -> Result<Replay, StoreError> {
        Ok(self.tables().own_replay(account, id)?.replay.clone().told())
    }

    async fn replays(
        &self,
        account: AccountId,
        page: Page<ReplayId>,
    ) -> Result<Listed<Replay, ReplayId>, StoreError> {
        let tables = self.tables();
        let mut own =
            newest_first(&tables.replays, page.before).filter(|(_, kept)| kept.replay.account_id == account);
        let mut rows = PageRows::new(page.limit);
        let _ = own.try_for_each(|(_, kept)| rows.add(kept.replay.id, Some(kept.replay.clone().told())));
        Ok(rows.listed())
    }

    async fn switch_replay(
        &self,
        account: AccountId,
        id: ReplayId,
        to: ReplaySwitch,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Replay, StoreError> {
        let mut tables = self.tables();
        let replay = &mut tables.own_replay(account, id)?.replay;
        let switches = !replay.status.ended();
        if switches {
            replay.status = to.status();
            replay.finished_at = replay.status.ended().then_some(now);
        }
        let replay = replay.clone().told();
        if switches {
            tables.append(Some(account), audit);
        }
        Ok(replay)
    }

    async fn replayed(
        &self,
        account: AccountId,
        id: ReplayId,
        origin: DeliveryId,
    ) -> Result<Option<DeliveryId>, StoreError> {
        Ok(self.tables().own_replay(account, id)?.made.get(&origin).copied())
    }

    async fn survey(
        &self,
        account: AccountId,
        selection: &Selection,
        as_of: Timestamp,
        limit: usize,
    ) -> Result<Survey, StoreError> {
        let (tables, as_of) = (self.tables(), AsOf::at(as_of));
        let mut survey = Survey { exact: true, ..Survey::default() };
        let mut by_destination = BTreeMap::<DestinationId, u64>::new();
        match selection {
            Selection::Deliveries(ids) => {
                for id in &ids.ids {
                    let ended = tables.ended.get(id).filter(|ended| ended.delivery.account_id == account);
                    let found = ended
                        .map(|ended| ended.delivery.destination_id)
                        .or_else(|| tables.waiting.of_account(account, *id).map(|it| it.destination_id));
                    match found {
                        Some(destination) => *by_destination.entry(destination).or_default() += 1,
                        None => survey.unknown.push(*id),
                    }
                }
            }
            Selection::Events(_) => {}
            Selection::Filter(filter) => {
                let mut entries = tables.ended.values().filter(|ended| ended.delivery.account_id == account);
                for ended in entries.by_ref().take(limit) {
                    if as_of.covers(ended.delivery.id, ended.at) && tables.matches(filter, ended) {
                        *by_destination.entry(ended.delivery.destination_id).or_default() += 1;
                    }
                }
                survey.exact = entries.next().is_none();
            }
        }
        survey.matched = by_destination.values().sum();
        survey.by_destination = by_destination.into_iter().collect();
        Ok(survey)
    }

    async fn open_replays(&self, limit: usize) -> Result<Vec<OpenReplay>, StoreError> {
        let tables = self.tables();
        let running = tables.replays.values().filter(|kept| kept.replay.status == ReplayStatus::Running);
        Ok(running.take(limit).map(|kept| tables.open_replay(kept)).collect())
    }

    async fn hold_replay(&self, hold: &ReplayHold) -> Result<Option<OpenReplay>, StoreError> {
        let mut tables = self.tables();
        let seen = hold.seen_by.zip(hold.seen_until);
        let runs = |kept: &&mut KeptReplay| kept.replay.status == ReplayStatus::Running && kept.held == seen;
        let Some(kept) = tables.replays.get_mut(&hold.id).filter(runs) else { return Ok(None) };
        kept.held = Some((hold.node, hold.until));
        Ok(tables.replays.get(&hold.id).map(|kept| tables.open_replay(kept)))
    }

    async fn originals(&self, walk: &OriginalWalk) -> Result<Originals, StoreError> {
        Ok(self.tables().originals(walk))
    }

    async fn write_replay(&self, chunk: &ReplayChunk) -> Result<Option<u32>, StoreError> {
        Ok(self.tables().write_replay(chunk))
    }
}

impl Tables {
    fn own_replay(&mut self, account: AccountId, id: ReplayId) -> Result<&mut KeptReplay, StoreError> {
        let found = self.replays.get_mut(&id).filter(|kept| kept.replay.account_id == account);
        found.ok_or(StoreError::NotFound { what: "replay" })
    }

    fn create_replay(&mut self, new: &NewReplay) -> Result<CreatedReplay, StoreError> {
        let used = |kept: &&KeptReplay| {
            kept.replay.account_id == new.account_id
                && kept.key.zip(new.key).is_some_and(|(used, key)| used.hash == key.hash)
        };
        if let Some(known) = self.replays.values().find(used) {
            let body_hash = known.key.expect("found by it").body_hash;
            return Ok(CreatedReplay::Known { replay: known.replay.clone().told(), body_hash });
        }
        self.account(new.account_id)?;
        match new.at_once.as_ref().map(|one| self.events.get(&one.event_id)) {
            Some(None) => return Err(StoreError::NotFound { what: "event" }),
            Some(Some(kept)) if kept.payload_erased_at.is_some() => return Err(StoreError::PayloadErased),
            _ => {}
        }
        let unfinished = |kept: &&KeptReplay| {
            kept.replay.account_id == new.account_id && kept.replay.finished_at.is_none()
        };
        let full = self.replays.values().filter(unfinished).count() >= limits::REPLAYS_PER_ACCOUNT;
        if full && new.at_once.is_none() {
            return Err(StoreError::Full { what: "replays" });
        }
        let (filter, given, events) = match &new.selection {
            Selection::Filter(filter) => (Some(filter.clone()), SelectedDeliveries::default(), None),
            Selection::Deliveries(given) => (None, given.clone(), None),
            Selection::Events(events) => (None, SelectedDeliveries::default(), Some(events.clone())),
        };
        let replay = Replay {
            id: new.id,
            account_id: new.account_id,
            filter,
            resolved: given.resolved,
            events,
            rate: new.rate,
            matched: new.matched,
            matched_exact: new.matched_exact,
            created: 0,
            skipped: 0,
            delivered: 0,
            dead_letter: 0,
            status: ReplayStatus::Running,
            created_by: new.created_by,
            created_at: new.created_at,
            finished_at: None,
        };
        let kept = KeptReplay {
            replay,
            delivery_ids: given.ids,
            key: new.key,
            cursor: None,
            backfill_cursor: None,
            held: None,
            made: BTreeMap::new(),
        };
        self.replays.insert(new.id, kept);
        if let Some(one) = &new.at_once {
            self.make_again(new.id, one);
            let replay = &mut self.replays.get_mut(&new.id).expect("inserted above").replay;
            replay.created = 1;
            (replay.status, replay.finished_at) = (ReplayStatus::Completed, Some(new.created_at));
        }
        Ok(CreatedReplay::New(self.replays[&new.id].replay.clone().told()))
    }

    fn open_replay(&self, kept: &KeptReplay) -> OpenReplay {
        let KeptReplay { replay, cursor, backfill_cursor, held, .. } = kept;
        let backfill = |selection| OpenBackfill { selection, cursor: *backfill_cursor };
        OpenReplay {
            id: replay.id,
            account_id: replay.account_id,
            filter: replay.filter.clone(),
            resolved: replay.resolved,
            backfill: replay.events.clone().map(backfill),
            rate: replay.rate,
            cursor: *cursor,
            created_at: replay.created_at,
            held_by: held.map(|(node, _)| node),
            held_until: held.map(|(_, until)| until),
            holder_lives: held.is_some_and(|(node, _)| self.nodes.contains_key(&node)),
        }
    }

    fn originals(&self, walk: &OriginalWalk) -> Originals {
        let OriginalWalk { replay, limit } = walk;
        let as_of = AsOf::at(replay.created_at);
        let mut found = Originals::default();
        let Some(filter) = &replay.filter else {
            let ids = self.replays.get(&replay.id).map_or(&[][..], |kept| &kept.delivery_ids);
            let mut ids = ids.iter().filter(|id| replay.cursor.is_none_or(|cursor| **id > cursor)).copied();
            let mut last = None;
            for id in ids.by_ref().take(*limit) {
                last = Some(id);
                let own = |ended: &&EndedDelivery| {
                    let is_settled = self.settled.contains_key(&id);
                    ended.delivery.account_id == replay.account_id
                        && as_of.covers(ended.delivery.id, ended.at)
                        && replay.resolved.is_none_or(|resolved| resolved == is_settled)
                };
                match self.ended.get(&id).filter(own) {
                    Some(ended) => found.rows.push(self.original(ended)),
                    None => found.missing += 1,
                }
            }
            found.next = ids.next().and(last);
            return found;
        };
        let above = (replay.cursor.map_or(Unbounded, Excluded), Unbounded);
        let entries = self.ended.range::<DeliveryId, _>(above);
        let mut entries = entries.filter(|(_, ended)| ended.delivery.account_id == replay.account_id);
        let mut last = None;
        for (id, ended) in entries.by_ref().take(limits::PAGE_SCAN) {
            last = Some(*id);
            let earlier = as_of.covers(*id, ended.at) && ended.delivery.replay_id != Some(replay.id);
            if earlier && self.matches(filter, ended) {
                found.rows.push(self.original(ended));
            }
            if found.rows.len() == *limit {
                break;
            }
        }
        found.next = entries.next().and(last);
        found
    }

    fn original(&self, ended: &EndedDelivery) -> Original {
        let delivery = &ended.delivery;
        let destination = self.destinations.0.get(&delivery.destination_id).and_then(|kept| kept.live());
        Original {
            id: delivery.id,
            origin: delivery.origin,
            event_id: delivery.event_id,
            route_id: delivery.route_id,
            destination_id: delivery.destination_id,
            ordering_key: self
                .events
                .get(&delivery.event_id)
                .and_then(|kept| kept.event.ordering_key.clone()),
            numbering: destination.map(|destination| destination.numbering()),
        }
    }

    fn write_replay(&mut self, chunk: &ReplayChunk) -> Option<u32> {
        let kept = self.replays.get(&chunk.replay_id)?;
        let holds = kept.held.is_some_and(|(node, _)| node == chunk.node);
        if kept.replay.status != ReplayStatus::Running || !holds || kept.cursor != chunk.from {
            return None;
        }
        let made = chunk.deliveries.iter().filter(|one| self.make_again(chunk.replay_id, one)).count() as u32;
        let kept = self.replays.get_mut(&chunk.replay_id).expect("found above");
        (kept.cursor, kept.held) = (chunk.to, Some((chunk.node, chunk.until)));
        kept.replay.created += u64::from(made);
        kept.replay.skipped += chunk.deliveries.len() as u64 - u64::from(made) + u64::from(chunk.skipped);
        if chunk.done {
            kept.held = None;
            // What was counted and is no longer there has had its time meanwhile.
            let gone = kept.replay.matched.saturating_sub(kept.replay.created);
            kept.replay.skipped = kept.replay.skipped.max(gone);
            (kept.replay.status, kept.replay.finished_at) = (ReplayStatus::Completed, Some(chunk.now));
            let account = kept.replay.account_id;
            self.note_operational(&OperationalNote::of_replay(account, chunk.replay_id, chunk.now));
        }
        Some(made)
    }

    /// Whether it was made: of an event that is there, and once.
    fn make_again(&mut self, id: ReplayId, one: &Replayed) -> bool {
        let there = self.events.get(&one.event_id).filter(|kept| kept.payload_erased_at.is_none());
        let Some(event) = there.map(|kept| kept.event.clone()) else { return false };
        let made = &mut self.replays.get_mut(&id).expect("the caller has found it").made;
        if made.contains_key(&one.origin) {
            return false;
        }
        made.insert(one.origin, one.delivery.id);
        self.promise_again(&event, one, id);
        true
    }

    /// A delivery of a replay has ended.
    pub(super) fn count_replayed(&mut self, id: ReplayId, ending: Ending) {
        let Some(kept) = self.replays.get_mut(&id) else { return };
        match ending {
            Ending::Delivered => kept.replay.delivered += 1,
            Ending::DeadLetter(_) => kept.replay.dead_letter += 1,
            Ending::Cancelled(_) => {}
        }
    }
}
