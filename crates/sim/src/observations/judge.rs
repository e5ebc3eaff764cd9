//! Promises that can be judged when a request begins, or when a gate is kept.

use super::{
    DRIFT, KnownDelivery, Observations, ProcessLife, RATE_SLACK, RECOVERED, Request, RequestEnd, TOLD,
};
use crate::{
    promise::Promise,
    time::{MILLISECOND, Moment, SECOND},
};
use domain::{
    destination::{Ordering, RateLimit},
    id::DeliveryId,
};
use store::GateWord;

impl Observations {
    /// The sender has the right to: its own clock says so, and the store names no other owner.
    pub(super) fn judge_claim(&mut self, request: usize, life: usize, destination: usize, now: Moment) {
        let ProcessLife { deadline, lease_end, node, .. } = self.lives[life];
        let began = self.requests[request].began;
        if began > deadline + DRIFT || now > lease_end + DRIFT {
            let late = (now - deadline) / MILLISECOND;
            self.broken(
                now,
                Promise::OnlyTheOwnerSends,
                format!("request {request}: first byte {late} ms after its sender's deadline"),
            );
        }
        let place = &self.destinations[destination];
        let id = place.id;
        if let Some((Some(owner), _)) = self.shards.get(usize::from(id.shard())).copied()
            && self.members.contains(&owner)
            && self.life_of.get(&owner) != Some(&life)
            && self.is_member(life)
        {
            self.broken(
                now,
                Promise::OnlyTheOwnerSends,
                format!("request {request}: its sender is not the owner of d{destination}"),
            );
        }
        let paused = self.paused.get(&id).copied().unwrap_or(Moment::MAX);
        let troubled = self.troubled.get(node).copied().unwrap_or_default();
        if began > paused.saturating_add(TOLD) && began > troubled + RECOVERED {
            self.broken(
                now,
                Promise::NotBeforeItsTime,
                format!("request {request}: d{destination} is paused"),
            );
        }
    }

    fn is_member(&self, life: usize) -> bool {
        self.members.iter().any(|id| self.life_of.get(id) == Some(&life))
    }

    pub(super) fn judge_slots(&mut self, request: usize, destination: usize, now: Moment) {
        let counts = |other: &&usize| {
            let other = &self.requests[**other];
            other.first_byte.is_some() && !self.is_excused(other, now)
        };
        let open = self.open[destination].iter().filter(counts).count();
        let limit = self.destinations[destination].limit as usize;
        if open > limit {
            self.broken(
                now,
                Promise::WithinLimits,
                format!("request {request}: {open} open at d{destination}, limit {limit}"),
            );
        }
    }

    /// What is open when its sender's lease ends is aborted then. A frozen process cannot; and one that has its turn
    /// later in this step has not yet come to it.
    fn is_excused(&self, request: &Request, now: Moment) -> bool {
        now > self.lives[request.life].lease_end
    }

    pub(super) fn judge_repeat(&mut self, request: usize, delivery: DeliveryId, attempt: u32, now: Moment) {
        let mut found = None;
        for earlier in
            self.requests_of.get(&delivery).into_iter().flatten().copied().filter(|other| *other != request)
        {
            let before = &self.requests[earlier];
            match before.over {
                None if before.first_byte.is_some() && !self.is_excused(before, now) => {
                    found = Some((
                        Promise::DoubledOnlyByFaults,
                        format!("requests {earlier} and {request} of {delivery} are open at once"),
                    ));
                }
                Some((_, RequestEnd::Answered(200..=299))) if !self.lost_since(before.life, before.began) => {
                    found = Some((
                        Promise::DoubledOnlyByFaults,
                        format!("{delivery} was delivered by request {earlier}, sent again by {request}"),
                    ));
                }
                Some((_, RequestEnd::Answered(_) | RequestEnd::TimedOut | RequestEnd::Reset))
                    if before.attempt == attempt && !self.lost_since(before.life, before.began) =>
                {
                    found = Some((
                        Promise::EveryAttemptOnRecord,
                        format!("attempt {attempt} of {delivery}: requests {earlier} and {request}"),
                    ));
                }
                _ => {}
            }
        }
        if let Some((promise, what)) = found {
            self.broken(now, promise, what);
        }
    }

    /// I7: at an ordered destination nothing starts before the end of what comes before it in its track is durable.
    pub(super) fn judge_order(
        &mut self,
        request: usize,
        destination: usize,
        delivery: DeliveryId,
        now: Moment,
    ) {
        let place = &self.destinations[destination];
        if place.ordering == Ordering::None {
            return;
        }
        let Some((track, sequence)) = self.deliveries.get(&delivery).and_then(|page| page.number) else {
            return self.broken(
                now,
                Promise::InOrder,
                format!("request {request}: {delivery} has no number"),
            );
        };
        let id = place.id;
        let earlier = |page: &KnownDelivery| {
            let before = page.number.is_some_and(|(other, number)| other == track && number < sequence);
            before && page.destination == id && page.ending.is_none()
        };
        if let Some((other, _)) = self.deliveries.iter().find(|(_, page)| earlier(page)) {
            let what =
                format!("request {request}: {delivery} is number {sequence}, and {other} has not ended");
            return self.broken(now, Promise::InOrder, what);
        }
        let beside = |other: &&usize| {
            let other = &self.requests[**other];
            let same = self.deliveries.get(&other.delivery).and_then(|page| page.number);
            let same = same.is_some_and(|(other, _)| other == track) && other.delivery != delivery;
            same && other.first_byte.is_some() && !self.is_excused(other, now)
        };
        if let Some(other) = self.open[destination].iter().find(beside) {
            self.broken(
                now,
                Promise::InOrder,
                format!("requests {other} and {request} of one track are open at once"),
            );
        }
    }

    /// I6: never more in any window than the destination's rate. A large payload is read after its start was paced.
    pub(super) fn judge_rate(&mut self, request: usize, destination: usize, now: Moment) {
        let Some(RateLimit { requests, per_seconds }) = self.destinations[destination].rate_limit else {
            return;
        };
        let window = i64::from(per_seconds) * SECOND - RATE_SLACK;
        let began = self.requests[request].began;
        let sent = |other: &&Request| {
            let counts = other.destination == destination && other.first_byte.is_some() && !other.large;
            counts && began - other.began < window
        };
        let count = self.requests.iter().filter(sent).count();
        // After trouble a node's clock is set right, by as much as an answer was late.
        let node = self.lives[self.requests[request].life].node;
        let troubled = self.troubled.get(node).copied().unwrap_or_default();
        let requests = requests + u32::from(began < troubled + RECOVERED);
        if !self.requests[request].large && count > requests as usize {
            let what =
                format!("request {request}: {count} in a window of d{destination} that takes {requests}");
            self.broken(now, Promise::WithinLimits, what);
        }
    }

    pub(super) fn judge_hold(
        &mut self,
        request: usize,
        life: usize,
        destination: usize,
        began: Moment,
        now: Moment,
    ) {
        let Some(hold) = self.holds.get(&destination).filter(|hold| hold.kept.is_some() || hold.life == life)
        else {
            return;
        };
        let (since, slots) = (hold.since, 1 + hold.answers.get(&life).copied().unwrap_or_default() as usize);
        let until = if hold.life == life { hold.until } else { hold.kept.unwrap_or(hold.until) };
        // A large payload is read in the slot: its attempt had started when the hold began.
        if began > since && began < until - DRIFT && !self.requests[request].large {
            let early = (until - began) / MILLISECOND;
            return self.broken(
                now,
                Promise::NotBeforeItsTime,
                format!("request {request}: d{destination} asked to wait {early} ms more"),
            );
        }
        let probes = |other: &&usize| {
            let other = &self.requests[**other];
            other.life == life && other.believed >= until - DRIFT
        };
        let open = self.open[destination].iter().filter(probes).count();
        if began >= until - DRIFT && open > slots {
            self.broken(
                now,
                Promise::NotBeforeItsTime,
                format!("request {request}: {open} open after a hold that permits {slots}"),
            );
        }
    }

    /// The ladder climbs by windows: never further than there were any.
    pub(super) fn judge_ladder(&mut self, destination: usize, word: &GateWord, now: Moment) {
        let doc = serde_json::to_value(&word.record).unwrap_or_default();
        let step = doc["throttle"]["step"].as_u64().unwrap_or_default();
        let windows = self.windows.get(&destination).copied().unwrap_or_default();
        if step > windows {
            let what = format!("d{destination} stands at step {step} after {windows} throttled windows");
            self.broken(now, Promise::NotBeforeItsTime, what);
        }
    }
}
