//! What the lane does, as the dispatcher asks it; and what must hold, at every step and in the end.

use super::*;

impl World {
    /// The dispatcher's part: ask until there is nothing more to do, then sleep until the lane says.
    pub(super) fn pump(&mut self) -> Result<(), String> {
        if self.dice.chance(50) {
            self.fetch_if_wanted();
        }
        let share =
            if self.dice.chance(20) && !self.calm { self.dice.between(1, 3) as u32 } else { u32::MAX };
        let was_loaded = self.lane.loaded();
        while let Some(step) = self.lane.next(share, self.now) {
            match step {
                LaneAction::Start(loaded) => self.start(loaded, share)?,
                LaneAction::End(loaded, ending) => self.end(loaded, ending)?,
                LaneAction::Number(loaded, track) => {
                    tell!(self, "  numbers {} in {track}", loaded.delivery.id);
                    promise!(
                        loaded.delivery.due_at <= self.now.plus(limits::LOADED_FRESH),
                        "numbered too early"
                    );
                    promise!(track > Position::UNORDERED, "a number in no track");
                    self.numbering += 1;
                    let after = self.dice.delay();
                    self.plan(after, Happening::Numbering(loaded.delivery, track));
                }
            }
        }
        let full = self.open.len() >= self.settings.max_concurrency as usize;
        self.seen.slots_full += u64::from(full && self.lane.loaded() > 0);
        self.seen.dropped_stale +=
            u64::from(was_loaded > 0 && self.lane.loaded() == 0 && self.lane.unseen.is_some());
        self.fetch_if_wanted();
        if share != u32::MAX {
            self.plan(20, Happening::Round); // one lane after the other: a lane held back by its share is asked again
        }
        if let Some(at) = self.lane.wake_at(self.now).filter(|at| self.wake_at.is_none_or(|wake| *at < wake))
        {
            promise!(at > self.now, "wakes in the past");
            self.wake_at = Some(at);
            self.made += 1;
            self.agenda.insert((at, self.made), Happening::Wake);
        }
        Ok(())
    }

    fn fetch_if_wanted(&mut self) {
        while let Some(query) = self.lane.wants(self.now) {
            tell!(
                self,
                "  fetches {} from {} {}",
                query.limit,
                query.from.track,
                query.from.rank.wrapping_sub(START)
            );
            let fails = !self.calm && self.dice.chance(8);
            self.made += 1;
            let number = self.made;
            self.reads.insert(number, Read { query, rows: vec![], fails });
            let after = self.dice.delay();
            self.plan(after, Happening::Read(number));
        }
        if let Some(query) = self.lane.wants_tracks() {
            self.sweeping += 1;
            let after = self.dice.delay();
            self.plan(after, Happening::Sweep(query));
        }
    }

    fn start(&mut self, loaded: LoadedDelivery<Timestamp>, share: u32) -> Result<(), String> {
        let LoadedDelivery { delivery, carried: looked_at, read_at } = loaded;
        let (id, now, limit) = (delivery.id, self.now, self.settings.max_concurrency);
        tell!(self, "  starts {id}");
        promise!(self.settings.mode == LaneMode::Deliver, "{id} started while {:?}", self.settings.mode);
        promise!(self.open.len() < limit.min(share) as usize, "{id} is one too many");
        promise!(
            self.open.len() + self.unflushed.len() < 2 * limit as usize,
            "{id} started against back-pressure"
        );
        promise!(!self.open.contains_key(&id), "{id} is open twice");
        promise!(!self.unflushed.contains(&id), "{id} started before its settlement was durable");
        promise!(delivery.due_at <= now, "{id} started before its time");
        if self.settings.ordering != Ordering::None {
            let Position { track, rank, .. } = delivery.position;
            let before = |row: &&Delivery| row.position.track == track && row.position.rank < rank;
            let before = self.rows.values().find(before).map(|row| row.id);
            promise!(before.is_none(), "{id} started before {before:?}");
            let beside = self.open.values().find(|(open, _)| open.position.track == track);
            promise!(beside.is_none(), "{id} started beside another of its track");
            promise!(track > Position::UNORDERED, "{id} started before it had its number");
            self.seen.in_order += 1;
        }
        promise!(now.since(read_at) <= limits::LOADED_FRESH, "{id} was read too long ago");
        match (self.rows.get(&id), self.ended.get(&id)) {
            (Some(row), _) => promise!(row.attempts == delivery.attempts, "{id} started from an old row"),
            (None, Some(end)) => {
                let fresh = limits::LOADED_FRESH + read_at.since(looked_at);
                promise!(end.cancelled && now.since(end.at) <= fresh, "{id} started after its end");
                self.seen.started_after_a_fresh_cancel += 1;
            }
            (None, None) => return Err(format!("{id} was never committed")),
        }
        promise!(now >= self.held_until, "{id} started while the destination is held");
        if let Some(from) = self.probing_from {
            let probes = self.open.values().filter(|(_, started)| *started >= from).count();
            promise!(probes == 0, "{id} is a second probe");
        }
        self.open.insert(id, (delivery, now));
        let takes = self.dice.delay() + 1;
        let end =
            if !self.calm && self.dice.chance(5) { Happening::Abandon(id) } else { Happening::Respond(id) };
        self.plan(takes, end);
        Ok(())
    }

    fn end(&mut self, loaded: LoadedDelivery<Timestamp>, ending: Ending) -> Result<(), String> {
        let delivery = loaded.delivery;
        let id = delivery.id;
        tell!(self, "  ends {id} {ending:?}");
        promise!(!self.open.contains_key(&id) && !self.unflushed.contains(&id), "{id} ended while under way");
        match self.settings.mode {
            LaneMode::End { with, .. } => promise!(ending == with, "{id} ended as {ending:?}"),
            LaneMode::Paused { .. } => return Err(format!("{id} ended while paused")),
            LaneMode::Deliver => {
                let expires_at = crate::delivery::expires_at(
                    &delivery,
                    self.policy.expire_after,
                    self.settings.resumed_at,
                );
                promise!(ending == Ending::DeadLetter(DeadReason::Expired), "{id} ended as {ending:?}");
                promise!(self.now >= expires_at, "{id} expired too early");
            }
        }
        self.settle_later(delivery, Settled::Ended(ending));
        Ok(())
    }

    // --- What must hold --------------------------------------------------------------------------------------------

    pub(super) fn check(&mut self) -> Result<(), String> {
        let lane = &self.lane;
        promise!(
            lane.in_flight as usize == self.open.len(),
            "{} slots for {}",
            lane.in_flight,
            self.open.len()
        );
        promise!(lane.unflushed as usize == self.unflushed.len(), "unflushed: {}", lane.unflushed);
        let loaded = lane.known.values().filter(|known| known.stage == DeliveryStage::Loaded).count();
        promise!(lane.loaded() == loaded, "{} in the window, {loaded} known", lane.loaded());
        let reading = lane.fetching || lane.order.as_ref().is_some_and(|order| order.is_reading());
        let made = self.reads.values().any(|read| read.query.life == lane.life);
        promise!(reading == made, "a fetch that is not made");
        self.last_hold_ends =
            self.last_hold_ends.max(lane.gate.held_until(self.now).unwrap_or(Timestamp::MIN));
        self.seen.pushed_back += u64::from(self.unflushed.len() >= self.settings.max_concurrency as usize);
        self.check_wakefulness()
    }

    /// With nothing under way that could wake the lane, the lane itself must know when to go on.
    fn check_wakefulness(&self) -> Result<(), String> {
        let under_way =
            self.unannounced + self.open.len() + self.unflushed.len() + self.reads.len() + self.numbering;
        let under_way = under_way + self.sweeping;
        if under_way > 0 || self.lane.settings.is_none() {
            return Ok(());
        }
        match self.settings.mode {
            LaneMode::Deliver => {}
            LaneMode::Paused { .. } => return Ok(()),
            LaneMode::End { .. } => {
                promise!(self.rows.is_empty(), "not ended: {:?}", self.rows.keys().collect::<Vec<_>>());
                return Ok(());
            }
        }
        let leads = |row: &&Delivery| {
            let before = |other: &Delivery| {
                other.position.track == row.position.track && other.position < row.position
            };
            self.settings.ordering == Ordering::None || !self.rows.values().any(before)
        };
        let Some(due) = self.rows.values().filter(leads).map(|row| row.due_at).min() else { return Ok(()) };
        // A window in hand may come first, for as long as it is fresh.
        let soon = self.now.plus(limits::LOADED_FRESH);
        let latest = due.max(soon).max(self.lane.gate.held_until(self.now).unwrap_or(soon));
        let wakes = self.lane.wake_at(self.now);
        promise!(wakes.is_some_and(|at| at <= latest), "sleeps until {wakes:?} with something due at {due}");
        Ok(())
    }

    pub(super) fn check_the_end(&self) -> Result<(), String> {
        promise!(self.rows.is_empty(), "forgotten: {:?}", self.rows.keys().collect::<Vec<_>>());
        promise!(self.lane.known.is_empty(), "still in hand: {:?}", self.lane.known);
        promise!(self.lane.loaded.is_empty() && self.lane.settled_meanwhile.is_empty(), "remembers too much");
        promise!(self.lane.unseen.is_none(), "still to look at: {:?}", self.lane.unseen);
        promise!(self.lane.order.as_ref().is_none_or(|order| order.is_idle()), "{:?}", self.lane.order);
        Ok(())
    }
}
