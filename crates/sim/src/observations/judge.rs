//! Promises that can be judged when a request begins, or when a gate is kept.

use super::{
    DRIFT, KnownDelivery, Observations, ProcessLife, RATE_SLACK, RECOVERED, Request, RequestEnd, TOLD,
};
use crate::{
    promise::Promise::{self, *},
    time::{MILLISECOND, Moment, SECOND},
};
use domain::destination::{Ordering, RateLimit};
use store::GateWord;

/// A promise that was broken, and how.
pub(super) type Judgement = Result<(), (Promise, String)>;

impl Observations {
    /// The sender has the right to: its own clock says so, and the store names no other owner.
    pub(super) fn judge_claim(&self, request: usize, now: Moment) -> Judgement {
        let Request { life, destination, began, .. } = self.requests[request];
        let ProcessLife { deadline, lease_end, node, .. } = self.lives[life];
        if began > deadline + DRIFT || now > lease_end + DRIFT {
            let late = (now - deadline) / MILLISECOND;
            return Err((OnlyTheOwnerSends, format!("first byte {late} ms after its sender's deadline")));
        }
        let id = self.destinations[destination].id;
        if let Some((Some(owner), _)) = self.shards.get(usize::from(id.shard())).copied()
            && self.members.contains(&owner)
            && self.life_of.get(&owner) != Some(&life)
            && self.is_member(life)
        {
            return Err((OnlyTheOwnerSends, format!("its sender is not the owner of d{destination}")));
        }
        let paused = self.paused.get(&id).copied().unwrap_or(Moment::MAX);
        if began > paused.saturating_add(TOLD) && began > self.troubled_at(node) + RECOVERED {
            return Err((NotBeforeItsTime, format!("d{destination} is paused")));
        }
        Ok(())
    }

    fn is_member(&self, life: usize) -> bool {
        self.members.iter().any(|id| self.life_of.get(id) == Some(&life))
    }

    fn troubled_at(&self, node: usize) -> Moment {
        self.troubled.get(node).copied().unwrap_or_default()
    }

    pub(super) fn judge_due(&self, request: usize, _: Moment) -> Judgement {
        let Request { delivery, believed, .. } = self.requests[request];
        let Some(known) = self.deliveries.get(&delivery) else {
            return Err((StoredWhole, format!("{delivery} was never committed")));
        };
        if known.due > believed {
            let early = (known.due - believed) / MILLISECOND;
            return Err((NotBeforeItsTime, format!("{delivery} is sent {early} ms before it is due")));
        }
        Ok(())
    }

    pub(super) fn judge_slots(&self, request: usize, now: Moment) -> Judgement {
        let destination = self.requests[request].destination;
        let counts = |other: &&usize| {
            let other = &self.requests[**other];
            other.first_byte.is_some() && !self.is_excused(other, now)
        };
        let open = self.open[destination].iter().filter(counts).count();
        let limit = self.destinations[destination].limit as usize;
        if open > limit {
            return Err((WithinLimits, format!("{open} open at d{destination}, limit {limit}")));
        }
        Ok(())
    }

    /// What is open when its sender's lease ends is aborted then. A frozen process cannot; and one that has its turn
    /// later in this step has not yet come to it. That a lease has ended is decided by the store's clock.
    fn is_excused(&self, request: &Request, now: Moment) -> bool {
        now.max(self.store_told) > self.lives[request.life].lease_end
    }

    pub(super) fn judge_repeat(&self, request: usize, now: Moment) -> Judgement {
        let Request { delivery, attempt, .. } = self.requests[request];
        let all = self.requests_of.get(&delivery).into_iter().flatten().copied();
        for earlier in all.filter(|other| *other != request) {
            let before = &self.requests[earlier];
            match before.over {
                None if before.first_byte.is_some() && !self.is_excused(before, now) => {
                    let what = format!("request {earlier} of {delivery} is open at the same time");
                    return Err((DoubledOnlyByFaults, what));
                }
                None => {}
                Some(_) if self.lost_since(before.life, before.began) => {}
                Some((_, RequestEnd::Answered(200..=299))) => {
                    let what = format!("{delivery} was delivered by request {earlier}");
                    return Err((DoubledOnlyByFaults, what));
                }
                Some((_, how)) if how.was_heard() && before.attempt == attempt => {
                    let what = format!("attempt {attempt} of {delivery} was request {earlier} too");
                    return Err((EveryAttemptOnRecord, what));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// I7: at an ordered destination nothing starts before the end of what comes before it in its track is durable.
    pub(super) fn judge_order(&self, request: usize, now: Moment) -> Judgement {
        let Request { destination, delivery, .. } = self.requests[request];
        let known_destination = &self.destinations[destination];
        if known_destination.ordering == Ordering::None {
            return Ok(());
        }
        let Some((track, sequence)) = self.deliveries.get(&delivery).and_then(|known| known.number) else {
            return Err((InOrder, format!("{delivery} has no number")));
        };
        let earlier = |known: &KnownDelivery| {
            let before = known.number.is_some_and(|(other, number)| other == track && number < sequence);
            before && known.destination == known_destination.id && known.ending.is_none()
        };
        if let Some((other, _)) = self.deliveries.iter().find(|(_, known)| earlier(known)) {
            let what = format!("{delivery} is number {sequence}, and {other} has not ended");
            return Err((InOrder, what));
        }
        let beside = |other: &&usize| {
            let other = &self.requests[**other];
            let same = self.deliveries.get(&other.delivery).and_then(|known| known.number);
            let same = same.is_some_and(|(other, _)| other == track) && other.delivery != delivery;
            same && other.first_byte.is_some() && !self.is_excused(other, now)
        };
        if let Some(other) = self.open[destination].iter().find(beside) {
            return Err((InOrder, format!("request {other} of its track is open at the same time")));
        }
        Ok(())
    }

    /// I6: never more in any window than the destination's rate. A large payload is read after its start was paced.
    pub(super) fn judge_rate(&self, request: usize, _: Moment) -> Judgement {
        let Request { life, destination, began, large, .. } = self.requests[request];
        let Some(RateLimit { requests, per_seconds }) = self.destinations[destination].rate_limit else {
            return Ok(());
        };
        let window = i64::from(per_seconds) * SECOND - RATE_SLACK;
        let sent = |other: &&Request| {
            let counts = other.destination == destination && other.first_byte.is_some() && !other.large;
            counts && began - other.began < window
        };
        let count = self.requests.iter().filter(sent).count();
        // After trouble a node's clock is set right, by as much as an answer was late.
        let troubled = self.troubled_at(self.lives[life].node);
        let requests = requests + u32::from(began < troubled + RECOVERED);
        if !large && count > requests as usize {
            let what = format!("{count} in a window of d{destination} that takes {requests}");
            return Err((WithinLimits, what));
        }
        Ok(())
    }

    pub(super) fn judge_hold(&self, request: usize, _: Moment) -> Judgement {
        let Request { life, destination, believed: began, large, .. } = self.requests[request];
        let Some(hold) = self.holds.get(&destination).filter(|hold| hold.kept.is_some() || hold.life == life)
        else {
            return Ok(());
        };
        let slots = 1 + hold.answers.get(&life).copied().unwrap_or_default() as usize;
        let until = if hold.life == life { hold.until } else { hold.kept.unwrap_or(hold.until) };
        // A large payload is read in the slot: its attempt had started when the hold began.
        if began > hold.since && began < until - DRIFT && !large {
            let early = (until - began) / MILLISECOND;
            return Err((NotBeforeItsTime, format!("d{destination} asked to wait {early} ms more")));
        }
        let probes = |other: &&usize| {
            let other = &self.requests[**other];
            other.life == life && other.believed >= until - DRIFT
        };
        let open = self.open[destination].iter().filter(probes).count();
        if began >= until - DRIFT && open > slots {
            return Err((NotBeforeItsTime, format!("{open} open after a hold that permits {slots}")));
        }
        Ok(())
    }

    /// The ladder climbs by windows: never further than there were any.
    pub(super) fn judge_ladder(&mut self, destination: usize, word: &GateWord, now: Moment) {
        let doc = serde_json::to_value(&word.record).unwrap_or_default();
        let step = doc["throttle"]["step"].as_u64().unwrap_or_default();
        let windows = self.windows.get(&destination).copied().unwrap_or_default();
        if step > windows {
            let what = format!("d{destination} stands at step {step} after {windows} throttled windows");
            self.broken(now, NotBeforeItsTime, what);
        }
    }
}
