//! Sessions of the dashboard, the links by which one begins, and the users that sign in with a password.
//!
//! A session stands in for its holder: it may what the holder may, and ends with it. What is kept of its id is a hash.

use crate::{
    account::Scope,
    id::{AccountId, ApiKeyId, PortalLinkId, SessionId, UserId},
    limits,
    time::Timestamp,
    word::words,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// HMAC-SHA-256 of a session's id, or of a link's token, under the installation's pepper.
pub type SecretHash = [u8; 32];

/// A signed-in browser.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Names it in lists; the id in the cookie is another one.
    pub id: SessionId,
    pub hash: SecretHash,
    pub holder: Holder,
    /// The account that was chosen, by whoever may choose one.
    pub account_id: Option<AccountId>,
    pub created_at: Timestamp,
    /// To the minute or so.
    pub seen_at: Timestamp,
    pub expires_at: Timestamp,
    /// The address it was begun from.
    pub client: String,
    pub user_agent: Option<String>,
}

impl Session {
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.expires_at || now.since(self.seen_at) >= limits::SESSION_IDLE
    }
}

/// Whom a session stands in for, and who makes a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    Key(ApiKeyId),
    User(UserId),
    /// Whoever has opened it.
    PortalLink(PortalLinkId),
}

words! {
    "the kind of a holder",
    /// A holder without its id.
    HolderKind {
        Key = "key",
        User = "user",
        PortalLink = "portal_link",
    }
}

impl Holder {
    pub const fn kind(self) -> HolderKind {
        match self {
            Self::Key(_) => HolderKind::Key,
            Self::User(_) => HolderKind::User,
            Self::PortalLink(_) => HolderKind::PortalLink,
        }
    }

    pub const fn uuid(self) -> Uuid {
        match self {
            Self::Key(id) => id.uuid(),
            Self::User(id) => id.uuid(),
            Self::PortalLink(id) => id.uuid(),
        }
    }

    /// As it was written.
    pub const fn read(kind: HolderKind, id: Uuid) -> Self {
        match kind {
            HolderKind::Key => Self::Key(ApiKeyId::from_uuid(id)),
            HolderKind::User => Self::User(UserId::from_uuid(id)),
            HolderKind::PortalLink => Self::PortalLink(PortalLinkId::from_uuid(id)),
        }
    }
}

impl From<ApiKeyId> for Holder {
    fn from(id: ApiKeyId) -> Self {
        Self::Key(id)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => fmt::Display::fmt(id, f),
            Self::User(id) => fmt::Display::fmt(id, f),
            Self::PortalLink(id) => fmt::Display::fmt(id, f),
        }
    }
}

impl FromStr for Holder {
    type Err = crate::id::IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(user) = text.parse() {
            return Ok(Self::User(user));
        }
        match text.parse() {
            Ok(link) => Ok(Self::PortalLink(link)),
            Err(_) => text.parse().map(Self::Key),
        }
    }
}

impl Serialize for Holder {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Holder {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

words! {
    "what a link is for",
    /// What a link is for.
    LinkPurpose {
        /// Begins a session of a key.
        SignIn = "sign_in",
        /// Makes the first user.
        SetUp = "set_up",
    }
}

/// A link that can be opened once.
#[derive(Debug, Clone, PartialEq)]
pub struct SignInLink {
    pub hash: SecretHash,
    pub purpose: LinkPurpose,
    /// Whose session it begins; none of a set-up link.
    pub key_id: Option<ApiKeyId>,
    pub expires_at: Timestamp,
}

/// Somebody who signs in with a name and a password.
#[derive(Clone, PartialEq)]
pub struct User {
    pub id: UserId,
    /// Unique, in small letters.
    pub name: String,
    /// Argon2id, as a PHC string.
    pub password: String,
    pub role: UserRole,
    /// Those it may see; an operator sees all, and has none of its own.
    pub accounts: Vec<AccountId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("id", &self.id).field("role", &self.role).finish_non_exhaustive()
    }
}

words! {
    "a role",
    /// What a user may do.
    UserRole {
        /// Runs the installation, as an operator's key does.
        Operator = "operator",
        /// Works in its accounts, but for their keys and settings.
        Editor = "editor",
        /// Sees what is in its accounts, and nothing that is secret.
        Viewer = "viewer",
    }
}

impl UserRole {
    /// What it may do in an account.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Operator => &Scope::ALL,
            Self::Editor => &[
                Scope::IngestWrite,
                Scope::EventsRead,
                Scope::DeliveriesRead,
                Scope::DeliveriesRetry,
                Scope::DestinationsRead,
                Scope::DestinationsWrite,
                Scope::SecretsReveal,
                Scope::AuditRead,
            ],
            Self::Viewer => {
                &[Scope::EventsRead, Scope::DeliveriesRead, Scope::DestinationsRead, Scope::AuditRead]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn session() -> Session {
        let now = Timestamp::from_seconds(1_790_000_000);
        Session {
            id: SessionId::at(now, 1),
            hash: [7; 32],
            holder: Holder::Key(ApiKeyId::MIN),
            account_id: None,
            created_at: now,
            seen_at: now,
            expires_at: now.plus(limits::SESSION_LENGTH),
            client: "192.0.2.1".into(),
            user_agent: None,
        }
    }

    #[test]
    fn a_session_ends_when_it_rests_and_at_the_latest_after_its_length() {
        let mut session = session();
        let start = session.created_at;
        let moment = Duration::from_micros(1);
        assert!(!session.is_over(start.plus(limits::SESSION_IDLE - moment)));
        assert!(session.is_over(start.plus(limits::SESSION_IDLE)));
        session.seen_at = start.plus(limits::SESSION_LENGTH - moment);
        assert!(!session.is_over(session.seen_at));
        assert!(session.is_over(start.plus(limits::SESSION_LENGTH)));
    }

    #[test]
    fn a_holder_reads_back_as_itself() {
        let link = Holder::PortalLink(PortalLinkId::MAX);
        for holder in [Holder::Key(ApiKeyId::MAX), Holder::User(UserId::MAX), link] {
            assert_eq!(holder.to_string().parse(), Ok(holder));
            assert_eq!(Holder::read(holder.kind(), holder.uuid()), holder);
        }
        assert!(AccountId::MAX.to_string().parse::<Holder>().is_err());
    }

    #[test]
    fn a_viewer_may_change_and_reveal_nothing_and_an_editor_may_not_let_others_in() {
        let viewer = UserRole::Viewer.scopes();
        assert!(viewer.iter().all(|scope| scope.as_str().ends_with(":read")));
        let editor = UserRole::Editor.scopes();
        for scope in Scope::ALL {
            let of_account = Scope::OF_ACCOUNT.contains(&scope);
            let kept_back = !of_account || matches!(scope, Scope::KeysManage | Scope::AccountAdmin);
            assert_eq!(editor.contains(&scope), !kept_back, "{scope}");
        }
    }
}
