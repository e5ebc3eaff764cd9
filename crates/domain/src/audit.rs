//! The audit log: who did what to which object of an account, when, from where, and what changed by it.
//!
//! The entries of an account are a chain: each has a number and a hash over itself and the hash before it, so that none
//! can be changed, taken out or moved without writing all that follow anew. What is no account's (operators' keys) is a
//! chain of its own. The oldest entries may be forgotten: where they ended is kept, and the rest is checked from there.

mod difference;

pub use difference::Told;

use crate::{
    id::{AccountId, ApiKeyId, AuditId, PortalLinkId, RequestId, UserId},
    session::Holder,
    time::Timestamp,
    word::words,
};
use aws_lc_rs::digest;
use uuid::Uuid;

/// What is to be written down about one act.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub id: AuditId,
    pub at: Timestamp,
    pub actor: Actor,
    /// The operation's name in the API's own description, or `refused_` and the code of a problem.
    pub action: String,
    /// The id of what it was done to.
    pub object_id: Option<String>,
    /// The address of the client.
    pub client: Option<String>,
    pub request_id: Option<RequestId>,
    /// What changed, as the text of a JSON object; see [`Told`].
    pub difference: Option<String>,
    /// How often it happened, where one entry stands for many.
    pub count: Option<u32>,
}

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// A key of an account.
    Key(ApiKeyId),
    Operator(ApiKeyId),
    /// A platform's key, for an account that it named.
    Platform(ApiKeyId),
    /// Somebody who signed in with a password.
    User(UserId),
    /// Whoever has opened it.
    PortalLink(PortalLinkId),
    /// The product itself, or somebody beside the store.
    System,
}

words! {
    "the kind of an actor",
    /// An actor without its key.
    ActorKind {
        Key = "key",
        Operator = "operator",
        Platform = "platform",
        User = "user",
        PortalLink = "portal_link",
        System = "system",
    }
}

impl Actor {
    pub const fn kind(self) -> ActorKind {
        match self {
            Self::Key(_) => ActorKind::Key,
            Self::Operator(_) => ActorKind::Operator,
            Self::Platform(_) => ActorKind::Platform,
            Self::User(_) => ActorKind::User,
            Self::PortalLink(_) => ActorKind::PortalLink,
            Self::System => ActorKind::System,
        }
    }

    pub const fn key_id(self) -> Option<ApiKeyId> {
        match self {
            Self::Key(id) | Self::Operator(id) | Self::Platform(id) => Some(id),
            Self::User(_) | Self::PortalLink(_) | Self::System => None,
        }
    }

    pub const fn user_id(self) -> Option<UserId> {
        match self {
            Self::User(id) => Some(id),
            Self::Key(_) | Self::Operator(_) | Self::Platform(_) | Self::PortalLink(_) | Self::System => None,
        }
    }

    pub const fn portal_link_id(self) -> Option<PortalLinkId> {
        match self {
            Self::PortalLink(id) => Some(id),
            Self::Key(_) | Self::Operator(_) | Self::Platform(_) | Self::User(_) | Self::System => None,
        }
    }

    /// The key, the user or the portal link.
    pub const fn holder(self) -> Option<Holder> {
        match self {
            Self::Key(id) | Self::Operator(id) | Self::Platform(id) => Some(Holder::Key(id)),
            Self::User(id) => Some(Holder::User(id)),
            Self::PortalLink(id) => Some(Holder::PortalLink(id)),
            Self::System => None,
        }
    }

    /// As it was written; None where the two do not belong together.
    pub const fn read(kind: ActorKind, id: Option<Uuid>) -> Option<Self> {
        match (kind, id) {
            (ActorKind::Key, Some(id)) => Some(Self::Key(ApiKeyId::from_uuid(id))),
            (ActorKind::Operator, Some(id)) => Some(Self::Operator(ApiKeyId::from_uuid(id))),
            (ActorKind::Platform, Some(id)) => Some(Self::Platform(ApiKeyId::from_uuid(id))),
            (ActorKind::User, Some(id)) => Some(Self::User(UserId::from_uuid(id))),
            (ActorKind::PortalLink, Some(id)) => Some(Self::PortalLink(PortalLinkId::from_uuid(id))),
            (ActorKind::System, None) => Some(Self::System),
            _ => None,
        }
    }
}

impl AuditEntry {
    /// Of the product itself, without a request.
    pub fn system(id: AuditId, action: &str, object_id: Option<String>) -> Self {
        Self {
            id,
            at: id.made_at(),
            actor: Actor::System,
            action: action.into(),
            object_id,
            client: None,
            request_id: None,
            difference: None,
            count: None,
        }
    }
}

pub type ChainHash = [u8; 32];

/// A place in a chain: how many entries come up to here, and the hash of the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChainPlace {
    pub number: i64,
    pub hash: ChainHash,
}

/// Where a chain begins, and where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChainEnds {
    /// The last that was forgotten.
    pub forgotten: ChainPlace,
    pub last: ChainPlace,
}

/// An entry as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    /// None: the installation's own chain.
    pub account_id: Option<AccountId>,
    /// From 1, without gaps.
    pub number: i64,
    pub entry: AuditEntry,
    pub hash: ChainHash,
}

/// Where a chain does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The entry of this number is not there.
    Missing { number: i64 },
    /// It is not what was written: it, or one before it, was changed or moved.
    Altered { number: i64 },
    /// It has a number before the chain's beginning or behind its end: nobody has written it there.
    Outside { number: i64 },
    /// There is no record of where the chain ends.
    NoEnd,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { number } => write!(f, "entry {number} is missing"),
            Self::Altered { number } => write!(f, "entry {number} is not what was written"),
            Self::Outside { number } => {
                write!(
                    f,
                    "entry {number} is none of the chain: it lies before its beginning or behind its end"
                )
            }
            Self::NoEnd => f.write_str("there are entries, and no record of where they end"),
        }
    }
}

impl ChainPlace {
    /// The entry that follows here, as it is to be kept.
    pub fn next(&self, account_id: Option<AccountId>, entry: AuditEntry) -> AuditRecord {
        let number = self.number + 1;
        let hash = hash(account_id, number, &entry, &self.hash);
        AuditRecord { account_id, number, entry, hash }
    }

    /// Goes on to the entry that was found behind this place.
    pub fn follow(&self, found: &AuditRecord) -> Result<Self, Broken> {
        let number = self.number + 1;
        if found.number != number {
            return Err(Broken::Missing { number });
        }
        if hash(found.account_id, number, &found.entry, &self.hash) != found.hash {
            return Err(Broken::Altered { number });
        }
        Ok(Self { number, hash: found.hash })
    }
}

/// SHA-256 over the hash before it and every member of the entry. Each is led by its length, or by a byte that says that
/// there is none, so that no two entries have the same bytes. What is hashed is what is kept, to the byte: another text
/// of the same JSON is another entry.
fn hash(account_id: Option<AccountId>, number: i64, entry: &AuditEntry, before: &ChainHash) -> ChainHash {
    let AuditEntry { id, at, actor, action, object_id, client, request_id, difference, count } = entry;
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(b"posthaste audit 1");
    let mut member = |value: Option<&[u8]>| match value {
        None => context.update(&[0]),
        Some(bytes) => {
            context.update(&[1]);
            context.update(&(bytes.len() as u64).to_be_bytes());
            context.update(bytes);
        }
    };
    member(Some(before));
    member(account_id.as_ref().map(|id| &id.bytes()[..]));
    member(Some(&number.to_be_bytes()));
    member(Some(id.bytes()));
    member(Some(&at.micros().to_be_bytes()));
    member(Some(actor.kind().as_str().as_bytes()));
    member(actor.holder().map(Holder::uuid).as_ref().map(|id| &id.as_bytes()[..]));
    member(Some(action.as_bytes()));
    member(object_id.as_ref().map(String::as_bytes));
    member(client.as_ref().map(String::as_bytes));
    member(request_id.as_ref().map(|id| &id.bytes()[..]));
    member(difference.as_ref().map(String::as_bytes));
    member(count.map(u32::to_be_bytes).as_ref().map(|bytes| &bytes[..]));
    context.finish().as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u128) -> AuditEntry {
        AuditEntry::system(AuditId::at(Timestamp::from_seconds(1_790_000_000), n), "create_destination", None)
    }

    fn chain(length: u128) -> Vec<AuditRecord> {
        let mut place = ChainPlace::default();
        let mut next = |n| {
            let record = place.next(Some(AccountId::MIN), entry(n));
            place = ChainPlace { number: record.number, hash: record.hash };
            record
        };
        (1..=length).map(&mut next).collect()
    }

    fn checked(from: ChainPlace, records: &[AuditRecord]) -> Result<ChainPlace, Broken> {
        records.iter().try_fold(from, |place, record| place.follow(record))
    }

    #[test]
    fn a_chain_as_it_was_written_holds() {
        let records = chain(4);
        let last = records.last().unwrap();
        let end = ChainPlace { number: 4, hash: last.hash };
        assert_eq!(checked(ChainPlace::default(), &records), Ok(end));
        let forgotten = ChainPlace { number: 2, hash: records[1].hash };
        assert_eq!(checked(forgotten, &records[2..]), Ok(end), "from where the forgotten ones ended");
    }

    #[test]
    fn whatever_member_is_changed_is_found() {
        let changes: [fn(&mut AuditRecord); 11] = [
            |it| it.account_id = None,
            |it| it.entry.id = AuditId::MAX,
            |it| it.entry.at = Timestamp::MIN,
            |it| it.entry.actor = Actor::Key(ApiKeyId::MIN),
            |it| it.entry.action.push('x'),
            |it| it.entry.object_id = Some(String::new()),
            |it| it.entry.client = Some("192.0.2.1".into()),
            |it| it.entry.request_id = Some(RequestId::MIN),
            |it| it.entry.difference = Some("{}".into()),
            |it| it.entry.count = Some(1),
            |it| it.hash[0] ^= 1,
        ];
        for (place, change) in changes.iter().enumerate() {
            let mut records = chain(3);
            change(&mut records[1]);
            assert_eq!(
                checked(ChainPlace::default(), &records),
                Err(Broken::Altered { number: 2 }),
                "{place}"
            );
        }
    }

    #[test]
    fn an_entry_taken_out_or_moved_is_found() {
        let broken = |records: &[AuditRecord]| checked(ChainPlace::default(), records).unwrap_err();
        let mut records = chain(4);
        records.remove(1);
        assert_eq!(broken(&records), Broken::Missing { number: 2 });
        let mut records = chain(4);
        records.swap(1, 2);
        assert_eq!(broken(&records), Broken::Missing { number: 2 }, "with their numbers");
        (records[1].number, records[2].number) = (2, 3);
        assert_eq!(broken(&records), Broken::Altered { number: 2 }, "with each other's");
    }

    #[test]
    fn what_one_member_ends_with_is_not_what_the_next_begins_with() {
        let with = |object: &str, client: &str| {
            let mut entry = entry(1);
            (entry.object_id, entry.client) = (Some(object.into()), Some(client.into()));
            ChainPlace::default().next(None, entry).hash
        };
        assert_ne!(with("ab", "c"), with("a", "bc"));
    }
}
