//! Refused requests, summed up by the minute: one entry of the audit log for each account and kind of refusal.
//!
//! What nobody may do, or nobody is allowed to see, is counted in memory and written down once a minute: a guesser makes
//! no more entries than somebody who mistypes. A node that is killed loses the minute it was in.

use crate::{app::App, client_address::ClientAddress, error::Code};
use domain::{
    audit::{Actor, AuditEntry},
    id::{AccountId, AuditId},
    limits,
    time::Timestamp,
};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use store::ChainOwner;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Whose key a request had, once that is known: the account's, or an operator's, and for which account that one acts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recognised {
    key_of: Arc<OnceLock<Option<AccountId>>>,
    acts_for: Arc<OnceLock<AccountId>>,
}

impl Recognised {
    pub(crate) fn as_key_of(&self, account: Option<AccountId>) {
        let _ = self.key_of.set(account);
    }

    /// An operator's request is about this account.
    pub(crate) fn acting_for(&self, account: AccountId) {
        let _ = self.acts_for.set(account);
    }

    pub(crate) fn acts_for(&self) -> Option<AccountId> {
        self.acts_for.get().copied()
    }
}

/// What was refused since it was last written down.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<(ChainOwner, Code), Sum>>);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sum {
    count: u32,
    /// Where all of them came from; None if they came from several.
    client: Option<IpAddr>,
}

impl Refusals {
    /// Counts it, if it is one that says who tried what they may not. What is not found counts only for a key: anybody
    /// may ask for a page that is not there.
    pub(crate) fn note(&self, code: Code, recognised: &Recognised, client: ClientAddress) {
        let owner = recognised.acts_for().map(Some).or_else(|| recognised.key_of.get().copied());
        let counts = match code {
            Code::Unauthorized
            | Code::ScopeMissing
            | Code::CredentialInUrl
            | Code::SignInRefused
            | Code::CrossSite => true,
            Code::NotFound => owner.is_some(),
            _ => false,
        };
        if counts {
            self.add((owner.flatten(), code), Sum { count: 1, client: Some(client.0) });
        }
    }

    fn add(&self, key: (ChainOwner, Code), more: Sum) {
        let mut sums = self.lock();
        let is_full = sums.len() >= limits::REFUSALS_REMEMBERED && !sums.contains_key(&key);
        let key = if is_full { (None, key.1) } else { key };
        let sum = sums.entry(key).or_insert(Sum { count: 0, client: more.client });
        sum.count = sum.count.saturating_add(more.count);
        sum.client = sum.client.filter(|client| Some(*client) == more.client);
    }

    fn take(&self) -> HashMap<(ChainOwner, Code), Sum> {
        std::mem::take(&mut *self.lock())
    }

    /// Nothing in here can be half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<(ChainOwner, Code), Sum>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl App {
    /// Writes down what was refused up to now. What cannot be written is counted with what comes next.
    pub async fn sum_up_refusals(&self) {
        let minute = minute_of(self.now());
        for ((owner, code), sum) in self.refusals.take() {
            let entry = AuditEntry {
                id: AuditId::at(minute, self.dice.bits()),
                at: minute,
                actor: Actor::System,
                action: format!("refused_{}", code.as_str()),
                object_id: None,
                client: sum.client.map(|client| client.to_string()),
                request_id: None,
                difference: None,
                count: Some(sum.count),
            };
            if let Err(error) = self.store.write_audit(owner, &entry).await {
                tracing::warn!(%error, "refused requests could not be written down; trying again in a minute");
                self.refusals.add((owner, code), sum);
            }
        }
    }
}

/// Once a minute, and once more at the end.
pub(crate) async fn write_down(app: &App, stop: CancellationToken) {
    loop {
        supervisor::failpoint();
        let now = app.now();
        let next = minute_of(now).plus(limits::REFUSALS_SUMMED);
        // A little before the minute is over, so that it is written down under its own name.
        let pause = next.since(now).saturating_sub(BEFORE_THE_END).max(Duration::from_secs(1));
        let stopped = stop.run_until_cancelled(sleep(pause)).await.is_none();
        app.sum_up_refusals().await;
        if stopped {
            return;
        }
    }
}

const BEFORE_THE_END: Duration = Duration::from_millis(500);

fn minute_of(now: Timestamp) -> Timestamp {
    let length = limits::REFUSALS_SUMMED.as_micros() as i64;
    Timestamp::from_micros(now.micros() - now.micros().rem_euclid(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(n: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, n)
    }

    fn recognised(account: Option<AccountId>) -> Recognised {
        let recognised = Recognised::default();
        recognised.as_key_of(account);
        recognised
    }

    fn client(n: u32) -> ClientAddress {
        ClientAddress(IpAddr::V4(n.into()))
    }

    #[test]
    fn refusals_are_summed_up_by_account_and_kind() {
        let refusals = Refusals::default();
        for n in [1, 1, 2] {
            refusals.note(Code::ScopeMissing, &recognised(Some(account(1))), client(n));
        }
        refusals.note(Code::NotFound, &recognised(Some(account(1))), client(7));
        refusals.note(Code::Unauthorized, &Recognised::default(), client(7));
        let sums = refusals.take();
        assert_eq!(sums.len(), 3);
        let sum = |owner, code| sums[&(owner, code)];
        assert_eq!(sum(Some(account(1)), Code::ScopeMissing), Sum { count: 3, client: None });
        assert_eq!(sum(Some(account(1)), Code::NotFound).client, Some(client(7).0));
        assert_eq!(sum(None, Code::Unauthorized).count, 1);
        assert!(refusals.take().is_empty());
    }

    #[test]
    fn a_mistake_is_no_refusal_and_neither_is_a_page_that_is_not_there() {
        let refusals = Refusals::default();
        refusals.note(Code::ValidationFailed, &recognised(Some(account(1))), client(1));
        refusals.note(Code::NotFound, &Recognised::default(), client(1));
        assert!(refusals.take().is_empty());
    }

    #[test]
    fn there_are_never_more_sums_than_may_be_remembered_and_none_is_lost() {
        let refusals = Refusals::default();
        let many = limits::REFUSALS_REMEMBERED as u128 + 100;
        for n in 0..many {
            refusals.note(Code::NotFound, &recognised(Some(account(n << 16))), client(1));
        }
        let sums = refusals.take();
        assert!(sums.len() <= limits::REFUSALS_REMEMBERED + 1);
        assert_eq!(sums.values().map(|sum| u128::from(sum.count)).sum::<u128>(), many);
    }
}
