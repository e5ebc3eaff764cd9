//! Events of accounts that have their payloads encrypted: what the tables keep of one, and what is read of it.
//!
//! Payload and headers are sealed each for itself, so that headers are shown without reading a large payload. That there are
//! sealed headers is the mark: both are sealed, or neither is. The checksum of a sealed payload is turned over: a node that
//! does not know the mark finds a payload that was altered, and sends nothing, where it would send what is sealed.
//!
//! Nothing in the store opens them: it has no key. Whoever reads one is given a [`StoredEvent`], and gets at the event by the
//! account's key alone.

use crate::{
    StoreError, checksum,
    payload::{self, pack},
};
use bytes::Bytes;
use domain::{
    dice::Dice,
    event::{Event, Headers},
    id::{AccountId, EventId},
    seal::{DataKey, SealError, Sealed},
};
use std::sync::Arc;

fn payload_place(id: EventId) -> String {
    format!("events|payload|{id}")
}

fn headers_place(id: EventId) -> String {
    format!("events|headers|{id}")
}

/// What is written of an event's payload and headers where they are sealed.
#[derive(Debug)]
pub(crate) struct Seals {
    pub(crate) payload: Vec<u8>,
    pub(crate) headers: Sealed,
    pub(crate) crc: i32,
}

impl Seals {
    /// Packed first: what is sealed does not pack.
    pub(crate) fn of(event: &Event, headers: &str, key: &DataKey, dice: &dyn Dice) -> Self {
        let packed = pack(&event.payload);
        let plain = packed.as_deref().unwrap_or(&event.payload);
        let payload = key.seal_row(&payload_place(event.id), plain, dice).0;
        let headers = key.seal_row(&headers_place(event.id), headers.as_bytes(), dice);
        Self { crc: checksum::of_sealed(&payload), payload, headers }
    }
}

/// An event as it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredEvent {
    Plain(Arc<Event>),
    Sealed(Box<SealedEvent>),
}

impl StoredEvent {
    /// The event without its headers and its payload, if these are sealed.
    pub fn outside(&self) -> &Event {
        match self {
            Self::Plain(event) => event,
            Self::Sealed(sealed) => &sealed.event,
        }
    }

    /// As it was accepted; None if it is sealed.
    pub fn plain(self) -> Option<Arc<Event>> {
        match self {
            Self::Plain(event) => Some(event),
            Self::Sealed(_) => None,
        }
    }
}

/// An event whose payload and headers are sealed.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedEvent {
    event: Event,
    size: usize,
    payload: Bytes,
    headers: Sealed,
}

impl SealedEvent {
    pub(crate) fn new(event: Event, size: usize, payload: Bytes, headers: Sealed) -> Self {
        Self {
            event: Event { headers: Headers::new(), payload: Bytes::new(), ..event },
            size,
            payload,
            headers,
        }
    }

    pub fn account_id(&self) -> AccountId {
        self.event.account_id
    }

    /// Names the data key that opens it.
    pub fn seal(&self) -> &Sealed {
        &self.headers
    }

    pub fn open(self, key: &DataKey) -> Result<Arc<Event>, SealError> {
        let headers = open_headers(self.event.id, key, &self.headers)?;
        let payload = open_payload(self.event.id, key, self.payload)?;
        let payload = payload::read(&payload, self.size, None).ok_or(SealError::DoesNotOpen)?;
        Ok(Arc::new(Event { headers, payload, ..self.event }))
    }
}

pub(crate) fn open_payload(id: EventId, key: &DataKey, sealed: Bytes) -> Result<Bytes, SealError> {
    Ok(key.open_row(&payload_place(id), sealed.into())?.into())
}

/// The headers of an event that was read without its payload.
pub(crate) fn open_headers(id: EventId, key: &DataKey, sealed: &Sealed) -> Result<Headers, SealError> {
    let text = key.open_row(&headers_place(id), sealed.0.clone())?;
    serde_json::from_slice(&text).map_err(|_| SealError::DoesNotOpen)
}

/// [`StoreError::Altered`] if a sealed payload is not what was written.
pub(crate) fn check(stored: &[u8], crc: Option<i32>) -> Result<(), StoreError> {
    match checksum::fits_sealed(stored, crc) {
        true => Ok(()),
        false => Err(StoreError::Altered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use domain::{
        seal::MasterKeys,
        testing::{self, CountingDice},
        time::Timestamp,
    };

    fn key(account: AccountId) -> DataKey {
        let dice = CountingDice::default();
        let keys = MasterKeys::parse(&STANDARD.encode([7; 32])).unwrap();
        keys.data_key(account, &keys.new_data_key(account, &dice)).unwrap()
    }

    fn event(payload: Vec<u8>) -> Event {
        let event = testing::event(AccountId::at(Timestamp::MIN, 1), Timestamp::MIN, 1);
        Event { payload: payload.into(), headers: vec![("x-canary".into(), "canary".into())], ..event }
    }

    fn sealed(event: &Event) -> Seals {
        let headers = serde_json::to_string(&event.headers).unwrap();
        Seals::of(event, &headers, &key(event.account_id), &CountingDice::default())
    }

    fn read(event: &Event, seals: &Seals) -> SealedEvent {
        let payload = Bytes::copy_from_slice(&seals.payload);
        SealedEvent::new(event.clone(), event.payload.len(), payload, seals.headers.clone())
    }

    #[test]
    fn what_is_sealed_gives_the_event_back_and_shows_nothing_of_it() {
        for payload in [vec![], b"a canary".to_vec(), b"canary ".repeat(1_000), vec![b'x'; 2_000_000]] {
            let event = event(payload);
            let seals = sealed(&event);
            assert!(!seals.payload.windows(6).any(|window| window == b"canary"));
            assert!(!seals.headers.0.windows(6).any(|window| window == b"canary"));
            let read = read(&event, &seals);
            assert!(read.event.headers.is_empty() && read.event.payload.is_empty());
            assert_eq!(*read.open(&key(event.account_id)).unwrap(), event);
        }
        let packed = sealed(&event(b"canary ".repeat(1_000)));
        assert!(packed.payload.len() < 200, "it is packed before it is sealed");
    }

    #[test]
    fn it_opens_in_its_own_row_and_account_alone() {
        let (event, seals) = (event(b"a canary".to_vec()), sealed(&event(b"a canary".to_vec())));
        let elsewhere = Event { id: EventId::at(Timestamp::MIN, 2), ..event.clone() };
        assert_eq!(read(&elsewhere, &seals).open(&key(event.account_id)), Err(SealError::DoesNotOpen));
        let another = AccountId::at(Timestamp::MIN, 2);
        assert_eq!(read(&event, &seals).open(&key(another)), Err(SealError::DoesNotOpen));
        // The payload in the place of the headers, and the other way round.
        let swapped =
            Seals { payload: seals.headers.0.clone(), headers: Sealed(seals.payload.clone()), crc: 0 };
        assert_eq!(read(&event, &swapped).open(&key(event.account_id)), Err(SealError::DoesNotOpen));
    }

    #[test]
    fn whoever_does_not_know_the_mark_finds_it_altered() {
        let event = event(b"a canary".to_vec());
        let seals = sealed(&event);
        assert_eq!(payload::read(&seals.payload, seals.payload.len(), Some(seals.crc)), None);
        assert!(check(&seals.payload, Some(seals.crc)).is_ok());
        let mut altered = seals.payload.clone();
        altered[9] ^= 1;
        assert!(matches!(check(&altered, Some(seals.crc)), Err(StoreError::Altered)));
        let altered = Seals { payload: altered, ..seals };
        assert_eq!(read(&event, &altered).open(&key(event.account_id)), Err(SealError::DoesNotOpen));
    }

    /// Run it by hand, in a release build: `cargo test --release -p store --lib -- --ignored --nocapture sealing_costs`.
    #[test]
    #[ignore = "a measurement"]
    fn sealing_costs() {
        let dice = CountingDice::default();
        for size in [200, 1_000, 16_000, 1_000_000] {
            let line =
                |n: usize| format!("{{\"n\":{n},\"id\":\"{:x}\"}},", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let payload: Vec<u8> = (0..).flat_map(|n| line(n).into_bytes()).take(size).collect();
            let event = Arc::new(event(payload));
            let key = key(event.account_id);
            let seals = sealed(&event);
            let rounds = 20_000_000 / (size + 5_000);
            let time = |what: &str, run: &dyn Fn()| {
                run();
                let begun = std::time::Instant::now();
                (0..rounds).for_each(|_| run());
                println!(
                    "{size} bytes, {what}: {:.2} µs",
                    begun.elapsed().as_secs_f64() * 1e6 / rounds as f64
                );
            };
            time("prepared", &|| drop(std::hint::black_box(crate::PreparedEvent::new(event.clone()))));
            time("prepared and sealed", &|| {
                drop(std::hint::black_box(crate::PreparedEvent::sealed(event.clone(), &key, &dice)));
            });
            let sealed = read(&event, &seals);
            time("opened and unpacked", &|| drop(std::hint::black_box(sealed.clone().open(&key))));
        }
    }
}
