//! The audit log: see [`domain::audit`]. An entry is written in the transaction of the change that it tells of, by the
//! methods that make changes; here is what goes with no change, what is read, and what is forgotten.
//!
//! The row of a chain is locked last in any transaction, and nothing is locked after it. So writers of one account wait
//! for each other, those of different accounts do not, and none for ever. What takes events in and delivers them does not
//! come here.

use crate::{
    Listed, Page, StoreError,
    page_rows::{PageRow, PageRows},
};
use async_trait::async_trait;
use domain::{
    audit::{Actor, AuditEntry, AuditRecord, Broken, ChainEnds, ChainPlace},
    id::{AccountId, ApiKeyId, AuditId, PortalLinkId, UserId},
    limits,
    time::Timestamp,
};

#[async_trait]
pub trait AuditLog: AuditChains {
    /// Writes an entry that goes with no change, flushed. Without an account it is the installation's own.
    async fn write_audit(&self, account: Option<AccountId>, entry: &AuditEntry) -> Result<(), StoreError>;

    /// An account's entries, or without one those of all, newest first; what the filter leaves out is looked at too, and
    /// a page looks at [`domain::limits::AUDIT_LOG_SCAN`] at most: it may be short and go on.
    async fn audit_entries(
        &self,
        account: Option<AccountId>,
        filter: &AuditFilter,
        page: Page<AuditId>,
    ) -> Result<Listed<AuditRecord, AuditId>, StoreError>;

    /// Forgets the oldest entries of a chain that were made before then, as long as none in front of them is newer, at
    /// most so many in all; the chain keeps where they ended. A chain of which none may go keeps no other from it. Says how
    /// many went. Can be run by several at once.
    async fn prune_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

/// The chains as they are kept: enough to check them, also from outside.
#[async_trait]
pub trait AuditChains: Send + Sync {
    /// Whose chains there are, or entries without one, in order after the given one; None is the installation's and comes
    /// first.
    async fn audit_chains(
        &self,
        after: Option<ChainOwner>,
        limit: usize,
    ) -> Result<Vec<ChainOwner>, StoreError>;

    /// None: there is no record of it.
    async fn audit_ends(&self, owner: ChainOwner) -> Result<Option<ChainEnds>, StoreError>;

    /// Its entries with higher numbers than this one, in their order. One that cannot be read is given too, with a hash
    /// that fits nothing.
    async fn audit_records(
        &self,
        owner: ChainOwner,
        after: i64,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError>;
}

/// An account, or the installation.
pub type ChainOwner = Option<AccountId>;

/// Conditions that all hold; an empty filter matches everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub action: Option<String>,
    pub actor: Option<AuditActor>,
    pub object_id: Option<String>,
}

/// An actor that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditActor {
    /// This key, an account's or an operator's.
    Key(ApiKeyId),
    User(UserId),
    PortalLink(PortalLinkId),
    AnyOperator,
    AnyPlatform,
    System,
}

impl AuditFilter {
    pub(crate) fn matches(&self, entry: &AuditEntry) -> bool {
        let same = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        same(&self.action, Some(&entry.action))
            && same(&self.object_id, entry.object_id.as_deref())
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
            && self.actor.is_none_or(|actor| match actor {
                AuditActor::Key(id) => entry.actor.key_id() == Some(id),
                AuditActor::User(id) => entry.actor.user_id() == Some(id),
                AuditActor::PortalLink(id) => entry.actor.portal_link_id() == Some(id),
                AuditActor::AnyOperator => matches!(entry.actor, Actor::Operator(_)),
                AuditActor::AnyPlatform => matches!(entry.actor, Actor::Platform(_)),
                AuditActor::System => entry.actor == Actor::System,
            })
    }

    /// The ids among which a page looks: at or above the first, below the second.
    pub(crate) fn ids(&self, page: Page<AuditId>) -> (AuditId, AuditId) {
        let from = self.since.map_or(AuditId::MIN, |since| AuditId::at(since, 0));
        let until = self.until.map_or(AuditId::MAX, |until| AuditId::at(until, 0));
        (from, page.before.unwrap_or(AuditId::MAX).min(until))
    }

    /// The page of what was looked at, newest first.
    pub(crate) fn page(
        &self,
        looked_at: impl IntoIterator<Item = AuditRecord>,
        limit: usize,
    ) -> Listed<AuditRecord, AuditId> {
        let (mut rows, mut count, mut last) = (PageRows::new(limit), 0, None);
        for record in looked_at {
            let id = record.entry.id;
            if self.matches(&record.entry) && rows.add(id, Some(record)).is_break() {
                return rows.listed();
            }
            (count, last) = (count + 1, Some(id));
        }
        Listed { rows: rows.into_rows(), next: last.filter(|_| count >= limits::AUDIT_LOG_SCAN) }
    }
}

impl PageRow for AuditRecord {
    fn text_bytes(&self) -> usize {
        limits::PAGE_ROW_BYTES + self.entry.difference.as_ref().map_or(0, String::len)
    }
}

/// What became of checking a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    Holds(ChainEnds),
    Breaks(Broken),
}

/// Goes over a chain from where the forgotten entries ended to where it ended when this began, and looks for entries
/// outside. What is written meanwhile is left for the next time; if entries are forgotten meanwhile, it begins anew.
pub async fn check_chain(chains: &dyn AuditChains, owner: ChainOwner) -> Result<Checked, StoreError> {
    'anew: loop {
        let Some(ends) = chains.audit_ends(owner).await? else {
            return Ok(match chains.audit_records(owner, i64::MIN, 1).await?.is_empty() {
                true => Checked::Holds(ChainEnds::default()),
                false => Checked::Breaks(Broken::NoEnd),
            });
        };
        // What is forgotten was deleted when that was written down, so what is here was put here later.
        let first = chains.audit_records(owner, i64::MIN, 1).await?;
        if let Some(number) = first.first().map(|first| first.number)
            && number <= ends.forgotten.number
        {
            return Ok(Checked::Breaks(Broken::Outside { number }));
        }
        let mut place: ChainPlace = ends.forgotten;
        while place.number < ends.last.number {
            let found = chains.audit_records(owner, place.number, limits::AUDIT_LOG_CHECKED).await?;
            let within = found.iter().take_while(|record| record.number <= ends.last.number);
            let mut broken = found.is_empty().then_some(Broken::Missing { number: place.number + 1 });
            for record in within {
                match place.follow(record) {
                    Ok(next) => place = next,
                    Err(why) => {
                        broken = Some(why);
                        break;
                    }
                }
            }
            if broken.is_none() && found.first().is_some_and(|first| first.number > ends.last.number) {
                broken = Some(Broken::Missing { number: place.number + 1 });
            }
            if let Some(broken) = broken {
                let now = chains.audit_ends(owner).await?;
                if now.is_some_and(|now| now.forgotten.number > ends.forgotten.number) {
                    continue 'anew;
                }
                return Ok(Checked::Breaks(broken));
            }
        }
        if place != ends.last {
            // The last is another than the one that the chain ends with.
            return Ok(Checked::Breaks(Broken::Altered { number: ends.last.number }));
        }
        return Ok(match behind_the_end(chains, owner, ends).await? {
            Some(number) => Checked::Breaks(Broken::Outside { number }),
            None => Checked::Holds(ends),
        });
    }
}

/// An entry that the chain does not know of. What was written since the ends were read has moved them: they are read
/// again after it was found.
async fn behind_the_end(
    chains: &dyn AuditChains,
    owner: ChainOwner,
    ends: ChainEnds,
) -> Result<Option<i64>, StoreError> {
    let mut last = ends.last.number;
    loop {
        let found = chains.audit_records(owner, last, limits::AUDIT_LOG_CHECKED).await?;
        let Some(furthest) = found.last().map(|record| record.number) else { return Ok(None) };
        let now = chains.audit_ends(owner).await?.unwrap_or(ends).last.number;
        if furthest > now {
            return Ok(found.iter().map(|record| record.number).find(|number| *number > now));
        }
        last = furthest;
    }
}
