//! How fan-outs fare, judged by a sample: one event in five seconds, of those that came in here within five minutes. Each
//! is looked at until its last delivery has ended, so most are looked at once or twice, and the cost is the same at any
//! load. Scheduled events and those beyond 1,000 deliveries are left out: how long they take says nothing.

use domain::{
    id::EventId,
    limits,
    metrics::{MetricKind, Text},
    time::Timestamp,
};
use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use store::{NewEvent, Store, StoreError};

#[derive(Debug, Default)]
pub(crate) struct Fanouts {
    /// From when on the next event is taken into the sample.
    next: AtomicI64,
    sample: Mutex<VecDeque<Sampled>>,
}

#[derive(Debug, Clone, Copy)]
struct Sampled {
    event_id: EventId,
    received_at: Timestamp,
    ended: Option<Ended>,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    took: Duration,
    /// Some deliveries are dead letters, and some are not.
    partly: bool,
}

/// Events looked at in one scrape; the others have not ended as far as we know.
const LOOKS: usize = 16;

impl Fanouts {
    /// An event has become durable. Mostly this is one comparison.
    pub(crate) fn offer(&self, new: &NewEvent) {
        let received_at = new.event.received_at;
        let early = received_at.micros() < self.next.load(Ordering::Relaxed);
        if early || new.expands || new.deliveries.is_empty() || new.event.deliver_at.is_some() {
            return;
        }
        self.next.store(received_at.plus(limits::FANOUT_SAMPLE_EVERY).micros(), Ordering::Relaxed);
        let event_id = new.event.id;
        let mut sample = self.sample();
        drop_old(&mut sample, received_at);
        sample.push_back(Sampled { event_id, received_at, ended: None });
    }

    /// Looks at those that had not ended.
    pub(super) async fn look(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let open: Vec<EventId> = {
            let mut sample = self.sample();
            drop_old(&mut sample, now);
            sample.iter().filter(|it| it.ended.is_none()).take(LOOKS).map(|it| it.event_id).collect()
        };
        if open.is_empty() {
            return Ok(());
        }
        let found = store.fanouts(&open).await?;
        let mut sample = self.sample();
        for (event_id, fanout) in open.into_iter().zip(found) {
            let Some(fanout) = fanout else {
                sample.retain(|it| it.event_id != event_id);
                continue;
            };
            let sampled = sample.iter_mut().find(|it| it.event_id == event_id);
            if let (Some(at), Some(it)) = (fanout.completed_at, sampled) {
                let partly = fanout.dead_letter > 0 && fanout.dead_letter < fanout.total;
                it.ended = Some(Ended { took: at.since(it.received_at), partly });
            }
        }
        Ok(())
    }

    /// `expanding`: since when the oldest large fan-out has been under way.
    pub(super) fn write(&self, expanding: Option<Timestamp>, now: Timestamp, text: &mut Text) {
        let sample = self.sample().clone();
        let young =
            |it: &&Sampled| it.ended.is_some() || now.since(it.received_at) >= limits::FANOUT_SAMPLE_EVERY;
        let judged = sample.iter().filter(young).count();
        let ended: Vec<Ended> = sample.iter().filter_map(|it| it.ended).collect();
        let share = |part: usize, of: usize, none: f64| if of == 0 { none } else { part as f64 / of as f64 };
        text.single(
            "posthaste_fanout_completion_ratio",
            MetricKind::Gauge,
            "Share of fan-outs whose every delivery has ended, among a sample of the events of the last 5 minutes (one in 5 \
             seconds, of up to 1,000 deliveries, not scheduled); 1 without events.",
            share(ended.len(), judged, 1.0),
        );
        text.single(
            "posthaste_fanout_partial_failure_ratio",
            MetricKind::Gauge,
            "Share of fan-outs of which some deliveries ended as dead letters and some did not, among those of the same \
             sample that have ended.",
            share(ended.iter().filter(|ended| ended.partly).count(), ended.len(), 0.0),
        );
        let took = sample.iter().map(|it| it.ended.map_or(now.since(it.received_at), |ended| ended.took));
        let slowest = took.chain(expanding.map(|since| now.since(since))).max().unwrap_or_default();
        text.single(
            "posthaste_fanout_lag_seconds",
            MetricKind::Gauge,
            "The longest that a fan-out of the same sample took from receipt to the end of its last delivery, or has been \
             taking; or a large one to be expanded.",
            slowest.as_secs_f64(),
        );
    }

    fn sample(&self) -> MutexGuard<'_, VecDeque<Sampled>> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drop_old(sample: &mut VecDeque<Sampled>, now: Timestamp) {
    sample.retain(|it| now.since(it.received_at) < limits::FANOUT_SAMPLE_FOR);
    // More only if clocks jump.
    let most = (limits::FANOUT_SAMPLE_FOR.as_secs() / limits::FANOUT_SAMPLE_EVERY.as_secs()) as usize;
    while sample.len() >= most {
        sample.pop_front();
    }
}
