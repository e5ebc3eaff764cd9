//! Retention: what is older than its account keeps it goes, if it has ended. One node does it at a time.
//!
//! A pass takes whole days away first, where the store has days, then walks the events of each account from where the
//! last pass stopped to the account's horizon, and its replays. What had to stay is not looked at again in the next passes, but every
//! few hours, when all walks begin anew.

use crate::chores::term::{ChoreTerm, Stopped};
use domain::{
    account::Account,
    id::{AccountId, DeliveryId, EventId},
    limits,
    rollup::Span,
    time::{Clock, Timestamp},
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use store::{EventWalk, FIRST_REPLAY, FactWalk, Page, ReplayWalk, RollupMark, Store, StoreError, failpoint};
use tokio::time::Instant;

/// The real one; tests have shorter ones.
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(in crate::chores) struct Retention {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chore_term: ChoreTerm,
    settings: RetentionSettings,
    /// Where the walk over an account's events goes on.
    places: HashMap<AccountId, EventId>,
    begun: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::chores) struct RetentionSettings {
    /// How often to look.
    pub(in crate::chores) every: Duration,
    /// How long a day of retention is.
    pub(in crate::chores) day: Duration,
}

impl Retention {
    pub(in crate::chores) fn new(chore_term: ChoreTerm, settings: RetentionSettings) -> Self {
        let (store, clock) = (Arc::clone(&chore_term.store), Arc::clone(&chore_term.clock));
        Self { store, clock, chore_term, settings, places: HashMap::new(), begun: Timestamp::MIN }
    }

    pub(in crate::chores) async fn run(mut self) {
        loop {
            supervisor::failpoint();
            tokio::time::sleep(self.settings.every).await;
            match self.pass().await {
                Ok(()) => {}
                // The node that has it now begins anew, and so do we if it comes back.
                Err(Stopped::TermOver) => self.places.clear(),
                Err(Stopped::Trouble(error)) => {
                    tracing::warn!(%error, "old events could not be pruned; trying again later");
                }
            }
        }
    }

    async fn pass(&mut self) -> Result<(), Stopped> {
        let now = self.clock.now();
        self.chore_term.term().await?;
        if now.since(self.begun) >= self.settings.day / limits::PRUNE_AGAIN
            || self.places.len() > limits::PRUNE_PLACES
        {
            self.places.clear();
            self.begun = now;
        }
        let accounts = self.accounts().await?;
        let Some(longest) = accounts.iter().map(|(_, days)| *days).max() else { return Ok(()) };
        // Nothing is forgotten before it is summed up.
        let summed_up = self.summed_up().await?;
        let kept_by_all = self.horizon(now, longest).min(summed_up);
        let days_end = kept_by_all.min(now.minus(DAY * (limits::PARTITION_DAYS_BEHIND as u32 + 1)));
        self.days(days_end).await?;
        for (account, days) in accounts {
            let horizon = self.horizon(now, days).min(summed_up);
            let horizon = if days == longest { self.whole_days(horizon) } else { horizon };
            self.account(account, horizon).await?;
            self.replays(account, horizon).await?;
        }
        self.facts(self.whole_days(kept_by_all)).await?;
        self.give_room_back().await
    }

    /// What goes with its day anyway is not looked for in it row by row.
    fn whole_days(&self, horizon: Timestamp) -> Timestamp {
        let by_day = self.store.has_days() && self.settings.day == DAY;
        if by_day { Span::Day.start_of(horizon) } else { horizon }
    }

    /// Much takes long; what has had its time meanwhile does not wait for it.
    async fn give_room_back(&self) -> Result<(), Stopped> {
        let next_pass = Instant::now() + self.settings.every;
        while Instant::now() < next_pass && self.store.give_room_back().await? {
            tokio::time::sleep(limits::RETENTION_BREATH).await;
        }
        Ok(())
    }

    fn horizon(&self, now: Timestamp, days: u32) -> Timestamp {
        now.minus(self.settings.day * days)
    }

    /// Up to when days are summed up. Where days are not real ones the end of one is not waited for.
    async fn summed_up(&self) -> Result<Timestamp, StoreError> {
        if self.settings.day != limits::RETENTION_DAY {
            return Ok(Timestamp::MAX);
        }
        Ok(self.store.mark(RollupMark::Sums(Span::Day)).await?.unwrap_or(Timestamp::MIN))
    }

    /// All there are, with the days they keep what has ended.
    async fn accounts(&self) -> Result<Vec<(AccountId, u32)>, StoreError> {
        let mut all = Vec::new();
        let mut page = Page { before: None, limit: limits::PAGE_MAX };
        loop {
            let found: Vec<Account> = self.store.accounts(page).await?;
            page.before = found.last().map(|account| account.id);
            all.extend(found.iter().map(|account| (account.id, account.retention_days)));
            if found.len() < limits::PAGE_MAX {
                return Ok(all);
            }
        }
    }

    async fn days(&mut self, before: Timestamp) -> Result<(), Stopped> {
        loop {
            let term = self.chore_term.term().await?;
            match self.store.prune_days(term, before).await?.ok_or(Stopped::TermOver)? {
                0 => return Ok(()),
                _ => tokio::time::sleep(limits::RETENTION_BREATH).await,
            }
        }
    }

    async fn account(&mut self, account_id: AccountId, before: Timestamp) -> Result<(), Stopped> {
        let (events, rows) = self.store.prune_step();
        let mut from = self.places.get(&account_id).copied().unwrap_or(EventId::MIN);
        loop {
            let term = self.chore_term.term().await?;
            let walk = EventWalk { account_id, from, before, events, rows };
            failpoint::hit("prune.before");
            let pruned = self.store.prune_events(term, walk).await?.ok_or(Stopped::TermOver)?;
            failpoint::hit("prune.after");
            let Some(next) = pruned.next else { break };
            from = next;
            tokio::time::sleep(limits::RETENTION_BREATH).await;
        }
        // All that was made before is gone, or had to stay.
        self.places.insert(account_id, EventId::at(before, 0));
        Ok(())
    }

    /// Walked from the beginning every time: few stay.
    async fn replays(&mut self, account_id: AccountId, before: Timestamp) -> Result<(), Stopped> {
        let (_, rows) = self.store.prune_step();
        let mut from = FIRST_REPLAY;
        loop {
            let term = self.chore_term.term().await?;
            let walk = ReplayWalk { account_id, from, before, replays: limits::PRUNE_REPLAYS, rows };
            let pruned = self.store.prune_replays(term, walk).await?.ok_or(Stopped::TermOver)?;
            failpoint::hit("prune.replays");
            let Some(next) = pruned.next else { return Ok(()) };
            from = next;
            tokio::time::sleep(limits::RETENTION_BREATH).await;
        }
    }

    async fn facts(&mut self, before: Timestamp) -> Result<(), Stopped> {
        let mut from = DeliveryId::MIN;
        loop {
            let term = self.chore_term.term().await?;
            let walk = FactWalk { from, before, deliveries: limits::PRUNE_STEP };
            let pruned = self.store.prune_facts(term, walk).await?.ok_or(Stopped::TermOver)?;
            let Some(next) = pruned.next else { return Ok(()) };
            from = next;
            tokio::time::sleep(limits::RETENTION_BREATH).await;
        }
    }
}
