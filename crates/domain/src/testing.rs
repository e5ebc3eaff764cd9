//! For tests: the one event and the one delivery that all others are made of, by naming what is different; a clock that
//! stands, and dice that count.

use crate::{
    audit::AuditEntry,
    delivery::{Delivery, Position},
    dice::Dice,
    event::Event,
    id::{AccountId, AuditId, DeliveryId, DestinationId, EventId, RouteId},
    time::{Clock, Timestamp},
};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

/// It is always this time.
#[derive(Debug, Clone, Copy)]
pub struct StandingClock(pub Timestamp);

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// Draws that differ and are the same in every run; of two ids made at the same time the later is the newer.
#[derive(Debug, Default)]
pub struct CountingDice(AtomicU64);

impl CountingDice {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Dice for CountingDice {
    fn bits(&self) -> u128 {
        u128::from(self.next()) << 16
    }

    /// Mixed (SplitMix64), so that keys made of it look like keys.
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| {
            let mut z = self.next().wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z >> 56) as u8
        });
    }
}

/// An event of type `test.sent` with an empty JSON object in it.
pub fn event(account_id: AccountId, received_at: Timestamp, chance: u128) -> Event {
    let event_type = "test.sent".parse().expect("an event type");
    Event::new(
        EventId::at(received_at, chance),
        account_id,
        event_type,
        Bytes::from_static(b"{}"),
        received_at,
    )
}

/// For a change that a test makes and whose entry nobody reads.
pub fn audit_entry() -> AuditEntry {
    AuditEntry::system(AuditId::MIN, "test", None)
}

/// A delivery to an unordered destination, due when its event was received and not tried yet.
pub fn delivery(id: DeliveryId, event: &Event, destination_id: DestinationId) -> Delivery {
    let due_at = event.received_at;
    Delivery::new(id, event, destination_id, RouteId::MIN, Position::due(due_at, id), due_at)
}
