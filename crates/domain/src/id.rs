//! Ids: time-ordered UUIDv7s that show their kind outside (`evt_01h…`) and are types inside.
//!
//! The text form is a TypeID: prefix, underscore, 26 characters of Crockford base32. Stored as 16 bytes, so that the
//! order of ids is the order of their creation on every store.

use crate::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use uuid::Uuid;

/// Why a text is not the id that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("expected an id that begins with `{expected}_`")]
    WrongKind { expected: &'static str },
    #[error(
        "not a well-formed `{expected}_` id: 26 characters of Crockford base32 must follow the underscore"
    )]
    Malformed { expected: &'static str },
}

/// An id of what is kept, and the word that says in an error what it names.
pub trait TypedId {
    const NOUN: &'static str;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal, $noun:literal;)*) => {
        /// What the ids of each kind begin with.
        const PREFIXES: &[&str] = &[$($prefix),*];
        $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            pub const PREFIX: &'static str = $prefix;
            /// Sorts before every id that was ever made.
            pub const MIN: Self = Self(Uuid::nil());
            /// Sorts after every id that will ever be made.
            pub const MAX: Self = Self(Uuid::max());

            /// A new id: its place in time is `now`, the rest is chance.
            pub fn at(now: Timestamp, chance: u128) -> Self { Self(uuid_at(now, chance)) }
            pub const fn from_uuid(uuid: Uuid) -> Self { Self(uuid) }
            pub const fn from_bytes(bytes: [u8; 16]) -> Self { Self(Uuid::from_bytes(bytes)) }
            pub const fn uuid(self) -> Uuid { self.0 }
            pub fn bytes(&self) -> &[u8; 16] { self.0.as_bytes() }
            /// When the id was made, to the microsecond.
            pub fn made_at(self) -> Timestamp { made_at(self.0) }
        }

        impl TypedId for $name {
            const NOUN: &'static str = $noun;
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write_id(f, $prefix, self.0) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write_id(f, $prefix, self.0) }
        }
        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> { parse_id(text, $prefix).map(Self) }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> { to.collect_str(self) }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

/// Whether a text has the form of an id of ours, of whatever kind: then it is no name that somebody else may give.
pub fn looks_like_id(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| parse_id(text, prefix).is_ok())
}

ids! {
    /// The tenant that owns everything below.
    AccountId = "acc", "account";
    /// A secret with scopes that acts for an account.
    ApiKeyId = "key", "api key";
    /// Where events of others come in.
    SourceId = "src", "source";
    /// Where deliveries go.
    DestinationId = "dst", "destination";
    /// The rule from a source to a destination.
    RouteId = "rte", "route";
    /// One immutable thing that happened.
    EventId = "evt", "event";
    /// The promise to bring one event to one destination.
    DeliveryId = "dlv", "delivery";
    /// One try of a delivery.
    AttemptId = "att", "attempt";
    /// A request to deliver again what has ended.
    ReplayId = "rpl", "replay";
    /// One act that was written down.
    AuditId = "aud", "audit entry";
    /// One start of one process.
    NodeId = "nod", "node";
    /// Somebody who signs in to the dashboard with a password.
    UserId = "usr", "user";
    /// A signed-in browser.
    SessionId = "ses", "session";
    /// A link by which somebody sees one account.
    PortalLinkId = "ptl", "portal link";
    /// One inbound request, as shown in errors and logs.
    RequestId = "req", "request";
}

impl EventId {
    /// That of an operational event: of UUID version 8, where all others are of version 7, so that the id alone tells them
    /// apart wherever only the id is at hand.
    pub fn operational(now: Timestamp, chance: u128) -> Self {
        let bits = uuid_at(now, chance).as_u128();
        Self(Uuid::from_u128(bits & !(0xf << 76) | 0x8 << 76))
    }

    pub fn is_operational(self) -> bool {
        self.0.as_u128() >> 76 & 0xf == 0x8
    }
}

/// How many parts the destinations are divided into; a destination's shard is stored when it is created.
pub const SHARDS: u16 = 1024;

impl DestinationId {
    /// The shard a new destination is given. FNV-1a: small, stable for ever, and even enough.
    pub fn shard(&self) -> u16 {
        let hash = self.bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        ((hash ^ (hash >> 32)) % u64::from(SHARDS)) as u16
    }
}

/// UUIDv7 with the microseconds in the first twelve random bits (RFC 9562, method 3).
fn uuid_at(now: Timestamp, chance: u128) -> Uuid {
    let micros = now.micros().max(0) as u128;
    let (millis, rest) = (micros / 1000, micros % 1000);
    let fraction = (rest * 4096).div_ceil(1000);
    let bits = (millis & 0xffff_ffff_ffff) << 80
        | 0x7 << 76
        | fraction << 64
        | 0b10 << 62
        | (chance & 0x3fff_ffff_ffff_ffff);
    Uuid::from_u128(bits)
}

fn made_at(uuid: Uuid) -> Timestamp {
    let bits = uuid.as_u128();
    let millis = (bits >> 80) as i64;
    let fraction = ((bits >> 64) & 0xfff) as i64;
    Timestamp::from_micros(millis * 1000 + fraction * 1000 / 4096)
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_LENGTH: usize = 26;

fn write_id(f: &mut fmt::Formatter<'_>, prefix: &str, uuid: Uuid) -> fmt::Result {
    let bits = uuid.as_u128();
    let mut text = [0u8; TEXT_LENGTH];
    for (place, digit) in text.iter_mut().enumerate() {
        *digit = ALPHABET[(bits >> (5 * (TEXT_LENGTH - 1 - place)) & 31) as usize];
    }
    f.write_str(prefix)?;
    f.write_str("_")?;
    f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
}

fn parse_id(text: &str, expected: &'static str) -> Result<Uuid, IdError> {
    let digits = text
        .strip_prefix(expected)
        .and_then(|rest| rest.strip_prefix('_'))
        .ok_or(IdError::WrongKind { expected })?;
    let malformed = IdError::Malformed { expected };
    // 26 digits hold 130 bits: a first digit above 7 would not fit.
    if digits.len() != TEXT_LENGTH || digits.as_bytes()[0] > b'7' {
        return Err(malformed);
    }
    digits
        .bytes()
        .try_fold(0u128, |bits, digit| {
            let value = ALPHABET.iter().position(|known| *known == digit)?;
            Some(bits << 5 | value as u128)
        })
        .map(Uuid::from_u128)
        .ok_or(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_itself() {
        let id = EventId::at(Timestamp::from_micros(1_790_000_000_123_456), u128::MAX);
        assert_eq!(id.to_string().parse::<EventId>(), Ok(id));
        assert_eq!(id.uuid().get_version_num(), 7);
        assert_eq!(id.made_at(), Timestamp::from_micros(1_790_000_000_123_456));
    }

    #[test]
    fn the_text_form_is_a_type_id() {
        let id = EventId::from_uuid("01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap());
        assert_eq!(id.to_string(), "evt_01h455vb4pex5vsknk084sn02q");
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        let text = EventId::MAX.to_string();
        assert_eq!(text.parse::<DeliveryId>(), Err(IdError::WrongKind { expected: "dlv" }));
        assert_eq!("evt_01".parse::<EventId>(), Err(IdError::Malformed { expected: "evt" }));
        assert_eq!(
            "evt_8zzzzzzzzzzzzzzzzzzzzzzzzz".parse::<EventId>(),
            Err(IdError::Malformed { expected: "evt" })
        );
    }

    #[test]
    fn what_has_the_form_of_an_id_looks_like_one() {
        for text in [AccountId::MAX.to_string(), RequestId::MIN.to_string()] {
            assert!(looks_like_id(&text), "{text}");
        }
        for text in
            ["acc_1", "customer-7", "evt_8zzzzzzzzzzzzzzzzzzzzzzzzz", "xyz_01h455vb4pex5vsknk084sn02q", ""]
        {
            assert!(!looks_like_id(text), "{text}");
        }
    }

    #[test]
    fn ids_sort_by_the_microsecond_they_were_made_in() {
        let made = |micros| EventId::at(Timestamp::from_micros(micros), 0x3fff_ffff_ffff_ffff);
        for micros in 1_790_000_000_000_000..1_790_000_000_002_000 {
            assert!(made(micros) < EventId::at(Timestamp::from_micros(micros + 1), 0));
            assert_eq!(made(micros).made_at().micros(), micros);
        }
    }

    #[test]
    fn destinations_spread_over_all_shards() {
        let mut seen = vec![0u32; SHARDS as usize];
        for n in 0..200_000u128 {
            let id = DestinationId::at(
                Timestamp::from_micros(1_790_000_000_000_000 + n as i64),
                n * 0x9e37_79b9_7f4a,
            );
            seen[id.shard() as usize] += 1;
        }
        assert!(seen.iter().all(|count| (100..320).contains(count)), "uneven: {seen:?}");
    }
}
