//! Portal links: a platform sends somebody of its customer's to the pages of one account, for a while.
//!
//! A link is opened once and begins a session, which shows and does what is of that account alone: where its deliveries go and
//! what became of them. Keys, sources, the account's settings and whatever is the operator's are none of its business. It may
//! never do more than whoever made it, and ends with them.

use crate::{
    account::Scope,
    id::{AccountId, PortalLinkId},
    session::{Holder, SecretHash, Session},
    time::Timestamp,
    word::words,
};
use std::time::Duration;

/// A link as it is kept: enough to recognise it, not enough to open it.
#[derive(Debug, Clone, PartialEq)]
pub struct PortalLink {
    pub id: PortalLinkId,
    pub hash: SecretHash,
    pub account_id: AccountId,
    /// A key or a user, with whom it ends.
    pub maker: Holder,
    /// Its session looks, and changes nothing.
    pub read_only: bool,
    pub created_at: Timestamp,
    /// Until then it can be opened.
    pub expires_at: Timestamp,
    /// How long the session lasts that it begins, in whole seconds.
    pub session_length: Duration,
    pub opened_at: Option<Timestamp>,
}

words! {
    "the status of a portal link",
    /// What can come of a portal link.
    PortalLinkStatus {
        /// It can be opened.
        Unopened = "unopened",
        /// It was opened, and somebody is signed in by it.
        Open = "open",
        Over = "over",
    }
}

/// What a session needs to show anything at all: whoever lacks one of these makes no links.
pub const PORTAL_READ_SCOPES: [Scope; 3] =
    [Scope::EventsRead, Scope::DeliveriesRead, Scope::DestinationsRead];

const SCOPES: [Scope; 5] = [
    Scope::EventsRead,
    Scope::DeliveriesRead,
    Scope::DestinationsRead,
    Scope::DeliveriesRetry,
    Scope::DestinationsWrite,
];

impl PortalLink {
    pub fn can_be_opened(&self, now: Timestamp) -> bool {
        self.opened_at.is_none() && now < self.expires_at
    }

    /// When nothing can come of it any more.
    pub fn ends_at(&self) -> Timestamp {
        self.opened_at.map_or(self.expires_at, |at| at.plus(self.session_length))
    }

    /// By the session that it has begun, if that one is still there.
    pub fn status(&self, session: Option<&Session>, now: Timestamp) -> PortalLinkStatus {
        match session {
            _ if self.can_be_opened(now) => PortalLinkStatus::Unopened,
            Some(session) if !session.is_over(now) => PortalLinkStatus::Open,
            _ => PortalLinkStatus::Over,
        }
    }

    /// What its session may do, of what its maker may.
    pub fn scopes(&self, of_maker: &[Scope]) -> Vec<Scope> {
        let own = if self.read_only { &PORTAL_READ_SCOPES[..] } else { &SCOPES[..] };
        own.iter().copied().filter(|scope| of_maker.contains(scope)).collect()
    }

    /// Whether its session may see how deliveries are signed: a secret that the receiver has to know. It is no scope of the
    /// session: with that one the values of `auth` could be carried off to another address.
    pub fn reveals_signing_secrets(&self, of_maker: &[Scope]) -> bool {
        !self.read_only && of_maker.contains(&Scope::SecretsReveal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ApiKeyId;

    fn link(read_only: bool) -> PortalLink {
        let now = Timestamp::from_seconds(1_790_000_000);
        PortalLink {
            id: PortalLinkId::at(now, 1),
            hash: [7; 32],
            account_id: AccountId::MIN,
            maker: Holder::Key(ApiKeyId::MIN),
            read_only,
            created_at: now,
            expires_at: now.plus(Duration::from_secs(60)),
            session_length: Duration::from_secs(600),
            opened_at: None,
        }
    }

    #[test]
    fn a_link_is_opened_once_and_in_time() {
        let fresh = link(false);
        assert!(fresh.can_be_opened(fresh.created_at));
        assert!(!fresh.can_be_opened(fresh.expires_at));
        assert_eq!(fresh.ends_at(), fresh.expires_at);
        let opened = PortalLink { opened_at: Some(fresh.created_at), ..fresh };
        assert!(!opened.can_be_opened(opened.created_at));
        assert_eq!(opened.ends_at(), opened.created_at.plus(Duration::from_secs(600)));
    }

    #[test]
    fn a_link_never_gives_more_than_its_maker_has() {
        assert_eq!(link(false).scopes(&Scope::ALL), SCOPES);
        assert_eq!(link(true).scopes(&Scope::ALL), PORTAL_READ_SCOPES);
        let some = [Scope::EventsRead, Scope::DestinationsWrite, Scope::AccountsWrite];
        assert_eq!(link(false).scopes(&some), [Scope::EventsRead, Scope::DestinationsWrite]);
        assert_eq!(link(true).scopes(&some), [Scope::EventsRead]);
    }

    #[test]
    fn nothing_that_lets_others_in_or_is_secret_is_among_its_scopes() {
        let never = [
            Scope::IngestWrite,
            Scope::SecretsReveal,
            Scope::KeysManage,
            Scope::AuditRead,
            Scope::AccountAdmin,
            Scope::AccountsRead,
            Scope::AccountsWrite,
        ];
        assert!(link(false).scopes(&Scope::ALL).iter().all(|scope| !never.contains(scope)));
        assert!(link(false).reveals_signing_secrets(&Scope::ALL));
        assert!(!link(false).reveals_signing_secrets(&SCOPES));
        assert!(!link(true).reveals_signing_secrets(&Scope::ALL));
    }
}
