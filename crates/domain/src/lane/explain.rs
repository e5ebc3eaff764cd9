//! Why a delivery waits, and until when: every delivery a lane is responsible for has an answer.

use super::Lane;
use crate::{
    delivery::Delivery,
    gate::{Hold, HoldReason},
    time::Timestamp,
};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    Schedule,
    DeliverAt,
    Concurrency,
    Capacity,
    Rate,
    Throttle,
    Breaker,
    Order,
    Paused,
    NoWorker,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitingFor {
    pub kind: WaitKind,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    pub behind: Option<crate::id::DeliveryId>,
    pub detail: String,
}

impl WaitingFor {
    /// What a delivery waits for as long as its destination is held, or it is not due; None if it is neither.
    pub fn held_or_scheduled(hold: Option<Hold>, delivery: &Delivery, now: Timestamp) -> Option<Self> {
        // Who is due only after the hold has ended does not wait for it.
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

impl<C> Lane<C> {
    /// What this delivery waits for; None if it is being delivered. The delivery need not be in memory.
    pub fn waiting_for(&self, delivery: &Delivery, now: Timestamp) -> Option<WaitingFor> {
        if self.delivering_since(delivery.id).is_some() {
            return None;
        }
        let waits = WaitingFor::held_or_scheduled(self.destination_hold(now), delivery, now);
        if waits.is_some() {
            return waits;
        }
        let wait = |kind, since: Timestamp, until, detail: String| {
            Some(WaitingFor { kind, since, until, behind: None, detail })
        };
        let Some(settings) = &self.settings else {
            return wait(WaitKind::Capacity, delivery.due_at, None, "its destination is being read".into());
        };
        let leader = self.order.as_ref().and_then(|order| order.leader(delivery.position.track));
        if let Some(leader) = leader.filter(|leader| *leader != delivery.id) {
            let detail = "those before it must have ended".into();
            let since = delivery.available_at;
            return Some(WaitingFor {
                kind: WaitKind::Order,
                since,
                until: None,
                behind: Some(leader),
                detail,
            });
        }
        if self.in_flight >= settings.max_concurrency {
            let detail = format!("all {} slots of the destination are taken", settings.max_concurrency);
            let since = self.full_since.unwrap_or(delivery.due_at).max(delivery.due_at);
            return wait(WaitKind::Concurrency, since, None, detail);
        }
        if !self.gate.permits(now) {
            return wait(
                WaitKind::Concurrency,
                delivery.due_at,
                None,
                "slots come back one by one after a hold".into(),
            );
        }
        if let (Some(limit), Some(until)) = (self.rate_limit, self.paced_until(now)) {
            let detail = format!("{} requests in {} s are sent at most", limit.requests, limit.per_seconds);
            return wait(WaitKind::Rate, delivery.due_at, Some(until), detail);
        }
        wait(WaitKind::Capacity, delivery.due_at, None, "its turn on this node".into())
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
