//! What to do now: what to start or end, what to fetch, when to ask again.

use super::{
    DeliveryStage, Lane, LaneAction, LaneMode, LaneSettings, LoadedDelivery, TrackQuery, WindowQuery,
    pace::StartInterval,
};
use crate::{
    delivery::{Delivery, Ending, Position, expires_at},
    limits,
    outcome::DeadReason,
    time::Timestamp,
};
use std::collections::BTreeMap;

impl<C> Lane<C> {
    /// The next thing to do, if there is one. `share` is what the node's capacity leaves to this lane.
    pub fn next(&mut self, share: u32, now: Timestamp) -> Option<LaneAction<C>> {
        let mode = self.settings.as_ref()?.mode;
        if let LaneMode::End { with, .. } = mode {
            let loaded =
                if self.unflushed < limits::ENDING_UNFLUSHED { self.take_any()? } else { return None };
            return Some(self.end(loaded, with));
        }
        if let Some((loaded, track)) = self.order.as_mut().and_then(|order| order.next_to_number()) {
            self.known.insert(loaded.delivery.id, DeliveryStage::Numbering.into());
            return Some(LaneAction::Number(loaded, track));
        }
        if let LaneMode::Paused { .. } = mode {
            self.drop_loaded();
            return None;
        }
        if self.awaits_flush() {
            return None;
        }
        if self.gate.held_until(now).is_some() {
            return self.end_expired(now);
        }
        self.expiry_looked_at = None;
        let place = self.first(now)?.position;
        if self.peek(place).is_some_and(|first| self.has_expired(first, now)) {
            let loaded = self.take(place)?;
            return Some(self.end(loaded, Ending::DeadLetter(DeadReason::Expired)));
        }
        let settings = self.settings.as_ref()?;
        if self.in_flight >= settings.max_concurrency.min(share) || !self.gate.permits(now) {
            self.full_since.get_or_insert(now);
            if self.is_full() {
                self.deny(place, now);
            }
            return None;
        }
        if self.paced_until(now).is_some() {
            return None;
        }
        let loaded = self.take(place)?;
        if let Some(limit) = self.rate_limit {
            self.pace.started(StartInterval::of(limit), now);
        }
        self.known.insert(loaded.delivery.id, DeliveryStage::Open { since: now }.into());
        if let Some(order) = &mut self.order {
            order.busy(place.track, loaded.delivery.id);
        }
        self.in_flight += 1;
        self.window.started(now);
        self.gate.started();
        Some(LaneAction::Start(loaded))
    }

    /// A held lane starts nothing, but what has waited too long ends all the same. Where one has, there may be others.
    fn end_expired(&mut self, now: Timestamp) -> Option<LaneAction<C>> {
        if let Some(place) = self.first(now).map(|first| first.position)
            && let Some(first) = self.peek(place)
            && self.has_expired(first, now)
        {
            let loaded = self.take(place)?;
            self.expiry_looked_at = Some(Timestamp::MIN);
            return Some(self.end(loaded, Ending::DeadLetter(DeadReason::Expired)));
        }
        self.drop_loaded();
        self.expiry_looked_at.get_or_insert(now);
        None
    }

    /// The window to fetch now, if any. Asking is doing: the mark is cleared, the lane waits for the answer.
    pub fn wants(&mut self, now: Timestamp) -> Option<WindowQuery> {
        if self.order.is_some() {
            return self.wants_track(now);
        }
        if self.left_over.take_if(|at| *at <= now).is_some() {
            self.look(Position::START);
        }
        let settings = self.settings.as_ref()?;
        let from = self.unseen.filter(|_| !self.fetching)?;
        let wanted = match settings.mode {
            LaneMode::Paused { .. } => false,
            LaneMode::End { .. } => self.loaded.is_empty(),
            LaneMode::Deliver if self.looks_for_expired(now) => from.rank <= now.micros(),
            LaneMode::Deliver => {
                let slot = self.in_flight < settings.max_concurrency && self.gate.permits(now);
                let soon = self.paced_until(now).is_none_or(|at| at <= now.plus(limits::LOADED_FRESH / 2));
                self.gate.held_until(now).is_none()
                    && soon
                    && from.rank <= now.micros()
                    && self.window.wants_more(self.loaded.len(), slot, now)
            }
        };
        if !wanted {
            return None;
        }
        self.unseen = None;
        self.fetching = true;
        self.fetching_from = Some(from);
        if self.looks_for_expired(now) {
            self.expiry_looked_at = Some(now);
            let limit = limits::WINDOW_MIN + self.in_flight as usize;
            return Some(WindowQuery { from, last_track: i64::MAX, limit, life: self.life });
        }
        let ending = self.is_ending();
        // Rows in hand may lie in the way of a mark that was lowered: ask for so many more.
        let mut limit = self.window.ask(settings.max_concurrency, ending, now);
        if let Some(rate) = self.rate_limit.filter(|_| !ending) {
            limit = limit.min(StartInterval::of(rate).starts_in(limits::LOADED_FRESH));
        }
        limit += self.in_flight as usize;
        Some(WindowQuery {
            from,
            last_track: i64::MAX,
            limit: limit.min(limits::WINDOW_MAX),
            life: self.life,
        })
    }

    /// From which track on to look for tracks, if that is needed now. Asking is doing, as in [`Lane::wants`].
    pub fn wants_tracks(&mut self) -> Option<TrackQuery> {
        self.settings.as_ref()?;
        let from = self.order.as_mut()?.sweep()?;
        Some(TrackQuery { from, life: self.life })
    }

    /// When to ask again if nothing happens before.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let settings = self.settings.as_ref()?;
        let scheduled =
            self.order.as_ref().and_then(|order| order.next_scheduled_at()).filter(|at| *at > now);
        match settings.mode {
            LaneMode::Deliver => {}
            LaneMode::Paused { .. } => return scheduled,
            LaneMode::End { .. } => return None,
        }
        let ordered = self.order.iter().flat_map(|order| order.wakes());
        let loaded = self.loaded.values().next().map(|loaded| loaded.delivery.due_at);
        let unseen = self.unseen.map(|position| Timestamp::from_micros(position.rank.max(0)));
        let gate = self.gate.held_until(now).unwrap_or(Timestamp::MIN);
        let pace = self.paced_until(now).unwrap_or(Timestamp::MIN);
        // What is overdue waits for a slot, a flush or an answer, and must not hide what falls due later.
        let expiry = self.next_expiry_look().filter(|_| unseen.is_some() || self.order.is_some());
        let scheduled = scheduled.into_iter().chain(expiry);
        loaded
            .into_iter()
            .chain(unseen)
            .chain(self.left_over)
            .chain(ordered)
            .map(|due| due.max(gate).max(pace))
            .chain(scheduled)
            .filter(|at| *at > now)
            .min()
    }

    fn end(&mut self, loaded: LoadedDelivery<C>, with: Ending) -> LaneAction<C> {
        self.known.insert(loaded.delivery.id, DeliveryStage::Unflushed.into());
        self.unflushed += 1;
        if let Some(order) = &mut self.order {
            order.busy(loaded.delivery.position.track, loaded.delivery.id);
        }
        LaneAction::End(loaded, with)
    }

    /// What would start next: due, and read a moment ago.
    fn first(&mut self, now: Timestamp) -> Option<&Delivery> {
        if self.order.is_none() {
            self.refresh(now);
            return self
                .loaded
                .values()
                .next()
                .map(|loaded| &loaded.delivery)
                .filter(|first| first.due_at <= now);
        }
        let (order, mut stale) = (self.order.as_mut()?, Vec::new());
        let first = order.first(now, &mut stale);
        for id in stale {
            self.known.remove(&id);
        }
        first
    }

    /// One that is in memory.
    fn peek(&self, place: Position) -> Option<&Delivery> {
        match &self.order {
            Some(order) => order.peek(place),
            None => self.loaded.get(&place).map(|loaded| &loaded.delivery),
        }
    }

    /// While it is held: now and then.
    fn looks_for_expired(&self, now: Timestamp) -> bool {
        self.gate.held_until(now).is_some() && self.next_expiry_look().is_some_and(|at| at <= now)
    }

    fn next_expiry_look(&self) -> Option<Timestamp> {
        self.expiry_looked_at.map(|at| at.plus(limits::EXPIRY_LOOK))
    }

    fn has_expired(&self, delivery: &Delivery, now: Timestamp) -> bool {
        let Some(settings) = &self.settings else { return false };
        let own_age = settings.expire_after_by_route.get(&delivery.route_id);
        let expire_after = *own_age.unwrap_or(&settings.expire_after);
        expires_at(delivery, expire_after, settings.resumed_at) <= now
    }

    fn take(&mut self, place: Position) -> Option<LoadedDelivery<C>> {
        if let Some(order) = &mut self.order {
            return order.take(place);
        }
        let loaded = self.loaded.remove(&place)?;
        // A map that has been used keeps room for eleven: three kilobytes, in every lane there is.
        if self.loaded.is_empty() {
            self.loaded = BTreeMap::new();
        }
        Some(loaded)
    }

    fn take_any(&mut self) -> Option<LoadedDelivery<C>> {
        match &mut self.order {
            Some(order) => order.take_any(),
            None => self.loaded.keys().next().copied().and_then(|place| self.take(place)),
        }
    }

    fn wants_track(&mut self, now: Timestamp) -> Option<WindowQuery> {
        let settings = self.settings.as_ref()?;
        // Every track that has room in memory, not only the first.
        let looks_for_expired = self.looks_for_expired(now)
            || (self.expiry_looked_at == Some(now) && self.gate.held_until(now).is_some());
        let open = match settings.mode {
            LaneMode::Paused { .. } => false,
            LaneMode::End { .. } => true,
            LaneMode::Deliver => {
                let soon = self.paced_until(now).is_none_or(|at| at <= now.plus(limits::LOADED_FRESH / 2));
                looks_for_expired || (self.gate.held_until(now).is_none() && soon && self.gate.permits(now))
            }
        };
        if looks_for_expired {
            self.expiry_looked_at = Some(now);
        }
        let tracks = tracks_wanted(self.settings.as_ref()?);
        let order = self.order.as_mut()?;
        order.tick(now);
        let query = order.query(open, tracks)?;
        Some(WindowQuery { life: self.life, ..query })
    }
}

/// Tracks of an ordered lane worth having in memory: what may be open, and as many again.
fn tracks_wanted(settings: &LaneSettings) -> usize {
    (settings.max_concurrency as usize * 2).clamp(limits::WINDOW_MIN, limits::WINDOW_MAX)
}
