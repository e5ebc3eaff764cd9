//! Erases what was the account's of an account that was deleted, and looks once more through the answers to events whose
//! payload was erased. One node does it at a time.
//!
//! Every account has its turn in a pass, for so many steps. A walk over an account goes through all phases and begins anew
//! until it finds nothing at all; the last one begins when whatever was under way has landed. Where a walk stands is known
//! here alone: whoever takes over begins at the first phase, where there is nothing left.

use crate::chores::term::{ChoreTerm, Stopped};
use domain::{
    id::{AccountId, EventId},
    limits,
    time::{Clock, Timestamp},
};
use std::{collections::HashMap, sync::Arc};
use store::{Erasure, ErasurePhase, ErasureStep, Store, failpoint};

pub(super) struct Eraser {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chore_term: ChoreTerm,
    walks: HashMap<AccountId, AccountWalk>,
}

/// A walk over what an account has.
#[derive(Debug, Clone, Copy)]
struct AccountWalk {
    phase: ErasurePhase,
    from: i64,
    begun_at: Timestamp,
    /// Something was erased.
    found: bool,
}

impl Eraser {
    pub(super) fn new(chore_term: ChoreTerm) -> Self {
        let (store, clock) = (Arc::clone(&chore_term.store), Arc::clone(&chore_term.clock));
        Self { store, clock, chore_term, walks: HashMap::new() }
    }

    pub(super) async fn run(mut self) {
        loop {
            supervisor::failpoint();
            tokio::time::sleep(limits::ERASE_EVERY).await;
            match self.pass().await {
                Ok(()) => {}
                // The node that has it now begins anew, and so do we if it comes back.
                Err(Stopped::TermOver) => self.walks.clear(),
                Err(Stopped::Trouble(error)) => {
                    tracing::warn!(%error, "what is to be erased could not be; trying again");
                }
            }
        }
    }

    async fn pass(&mut self) -> Result<(), Stopped> {
        let quiet_since = self.clock.now().minus(limits::ERASURE_QUIET);
        let open = self.store.open_erasures(limits::ERASED_AT_ONCE).await?;
        let payloads = self.store.payload_erasures(quiet_since, limits::PAYLOAD_ERASURES).await?;
        if open.is_empty() && payloads.is_empty() {
            return Ok(());
        }
        self.chore_term.term().await?;
        self.walks.retain(|account, _| open.iter().any(|erasure| erasure.account_id == *account));
        for event in payloads {
            self.answers(event).await?;
        }
        for erasure in open {
            self.account(&erasure).await?;
        }
        Ok(())
    }

    async fn account(&mut self, erasure: &Erasure) -> Result<(), Stopped> {
        let (account_id, now) = (erasure.account_id, self.clock.now());
        let first = AccountWalk { phase: ErasurePhase::FIRST, from: 0, begun_at: now, found: false };
        let mut walk = self.walks.remove(&account_id).unwrap_or(first);
        let (_, rows) = self.store.prune_step();
        for _ in 0..limits::ERASE_STEPS {
            let term = self.chore_term.term().await?;
            let step = ErasureStep { account_id, phase: walk.phase, from: walk.from, rows };
            // None also if another node has ended it.
            let erased = self.store.erase(term, &step).await?.ok_or(Stopped::TermOver)?;
            failpoint::hit("erase.step");
            walk.found |= erased.rows > 0;
            (walk.phase, walk.from) = match (erased.next, walk.phase.next()) {
                (Some(from), _) => (walk.phase, from),
                (None, Some(phase)) => (phase, 0),
                (None, None) => return self.end(erasure, &walk).await,
            };
            if erased.rows > 0 {
                tokio::time::sleep(limits::ERASE_BREATH).await;
            }
        }
        self.walks.insert(account_id, walk);
        Ok(())
    }

    /// A walk has come to its end; it was the last if nothing was there, and nothing can come any more.
    async fn end(&mut self, erasure: &Erasure, walk: &AccountWalk) -> Result<(), Stopped> {
        let quiet_from = erasure.requested_at.plus(limits::ERASURE_QUIET);
        if walk.found || walk.begun_at < quiet_from {
            return Ok(());
        }
        let term = self.chore_term.term().await?;
        if !self.store.end_erasure(term, erasure.account_id, self.clock.now()).await? {
            return Err(Stopped::TermOver);
        }
        tracing::info!(account_id = %erasure.account_id, "an account is erased");
        Ok(())
    }

    async fn answers(&mut self, event: EventId) -> Result<(), Stopped> {
        let mut after = None;
        loop {
            self.chore_term.term().await?;
            after = self.store.erase_answers(event, after, limits::ERASED_ANSWERS).await?;
            if after.is_none() {
                break;
            }
            tokio::time::sleep(limits::ERASE_BREATH).await;
        }
        Ok(self.store.end_payload_erasure(event).await?)
    }
}
