//! Why a delivery waits, and until when: every delivery a lane is responsible for has an answer.

use super::Lane;
use crate::{
    delivery::Delivery,
    destination::RateLimit,
    gate::{Hold, HoldReason},
    id::DeliveryId,
    limits,
    time::Timestamp,
    word::words,
};
use serde::{Deserialize, Serialize};

words! {
    "what a delivery waits for",
    WaitKind {
        Schedule = "schedule",
        DeliverAt = "deliver_at",
        Concurrency = "concurrency",
        Capacity = "capacity",
        Rate = "rate",
        Throttle = "throttle",
        Breaker = "breaker",
        Order = "order",
        Paused = "paused",
        NoWorker = "no_worker",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingFor {
    pub kind: WaitKind,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    pub behind: Option<DeliveryId>,
    pub detail: String,
}

/// What is known of a delivery that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Explanation {
    /// Its request is open.
    Delivering,
    Waits(WaitingFor),
    /// No lane that could tell has answered.
    Unknown,
}

impl Explanation {
    /// What it waits for, if it is known to wait.
    pub fn waits(self) -> Option<WaitingFor> {
        match self {
            Self::Waits(waiting_for) => Some(waiting_for),
            Self::Delivering | Self::Unknown => None,
        }
    }
}

impl WaitingFor {
    /// What a delivery waits for as long as its destination is held, or it is not due; None if it is neither.
    pub fn held_or_scheduled(hold: Option<Hold>, delivery: &Delivery, now: Timestamp) -> Option<Self> {
        // A delivery that is due only after the hold has ended does not wait for it.
        let outlasts = |until| delivery.due_at > now && delivery.due_at > until;
        if let Some(hold) = hold.filter(|hold| !hold.until.is_some_and(outlasts)) {
            let kind = match hold.reason {
                HoldReason::Throttle => WaitKind::Throttle,
                HoldReason::Breaker => WaitKind::Breaker,
                HoldReason::Paused => WaitKind::Paused,
                HoldReason::Disabled => WaitKind::Capacity,
            };
            let detail = match hold.reason {
                HoldReason::Throttle => format!("the destination answered {}", hold.detail),
                HoldReason::Breaker => format!("the destination is unwell: {}", hold.detail),
                HoldReason::Paused => "the destination is paused".into(),
                HoldReason::Disabled => "the destination is disabled: its deliveries are being ended".into(),
            };
            let since = hold.since.max(delivery.created_at);
            return Some(Self { kind, since, until: hold.until, behind: None, detail });
        }
        if delivery.due_at > now { scheduled(delivery) } else { None }
    }
}

/// Which limits of a lane bind at the moment, besides a hold: what its owner says itself, and tells the other nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Binding {
    /// Tracks of an ordered lane, and the delivery that stands before the others of each.
    pub leaders: Vec<(i64, DeliveryId)>,
    /// All slots are taken: how many there are, and since when.
    pub full: Option<(u32, Timestamp)>,
    /// Slots come back one by one after a hold.
    pub ramps: bool,
    /// The rate limit, and when the next one may start.
    pub paced: Option<(RateLimit, Timestamp)>,
}

impl Binding {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// What a delivery waits for that is due and not held; `otherwise` if it is none of these.
    pub fn waiting_for(&self, delivery: &Delivery, otherwise: impl FnOnce() -> String) -> WaitingFor {
        let due = delivery.due_at;
        let wait = |kind, since, detail| WaitingFor { kind, since, until: None, behind: None, detail };
        let track = delivery.position.track;
        let leader = self.leaders.iter().find(|(of, leader)| *of == track && *leader != delivery.id);
        if let Some((_, leader)) = leader {
            let detail = "those before it must have ended".into();
            let waits = wait(WaitKind::Order, delivery.available_at, detail);
            return WaitingFor { behind: Some(*leader), ..waits };
        }
        if let Some((slots, since)) = self.full {
            let detail = format!("all {slots} slots of the destination are taken");
            return wait(WaitKind::Concurrency, since.max(due), detail);
        }
        if self.ramps {
            return wait(WaitKind::Concurrency, due, "slots come back one by one after a hold".into());
        }
        if let Some((limit, until)) = self.paced {
            let detail = format!("{} requests in {} s are sent at most", limit.requests, limit.per_seconds);
            return WaitingFor { until: Some(until), ..wait(WaitKind::Rate, due, detail) };
        }
        wait(WaitKind::Capacity, due, otherwise())
    }
}

impl<C> Lane<C> {
    /// Whether this delivery is being delivered, and what it waits for if not. It need not be in memory.
    pub fn explain(&self, delivery: &Delivery, now: Timestamp) -> Explanation {
        if self.delivering_since(delivery.id).is_some() {
            return Explanation::Delivering;
        }
        if let Some(waits) = WaitingFor::held_or_scheduled(self.destination_hold(now), delivery, now) {
            return Explanation::Waits(waits);
        }
        if self.settings.is_none() {
            let none = Binding::default();
            return Explanation::Waits(none.waiting_for(delivery, || "its destination is being read".into()));
        }
        let track = delivery.position.track;
        let leader = self.order.as_ref().and_then(|order| order.leader(track));
        let binding = Binding {
            leaders: leader.map(|leader| (track, leader)).into_iter().collect(),
            ..self.slots(now)
        };
        Explanation::Waits(binding.waiting_for(delivery, || "its turn on this node".into()))
    }

    /// Which limits bind, to be told.
    pub fn binding(&self, now: Timestamp) -> Binding {
        let leaders = self.order.as_ref().map(|order| order.leaders(limits::LANES_LEADERS_NAMED));
        Binding { leaders: leaders.unwrap_or_default(), ..self.slots(now) }
    }

    pub(super) fn slots(&self, now: Timestamp) -> Binding {
        let Some(settings) = &self.settings else { return Binding::default() };
        let is_full = self.in_flight >= settings.max_concurrency;
        let since = self.full_since.unwrap_or(now);
        Binding {
            leaders: Vec::new(),
            full: is_full.then_some((settings.max_concurrency, since)),
            ramps: !self.gate.permits(now),
            paced: self.rate_limit.zip(self.paced_until(now)),
        }
    }
}

fn scheduled(delivery: &Delivery) -> Option<WaitingFor> {
    let first = delivery.attempts == 0;
    let kind = if first { WaitKind::DeliverAt } else { WaitKind::Schedule };
    let detail = if first {
        "scheduled for later".into()
    } else {
        format!("retry {} of its schedule", delivery.spent)
    };
    Some(WaitingFor { kind, since: delivery.created_at, until: Some(delivery.due_at), behind: None, detail })
}
