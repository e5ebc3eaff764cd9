//! Chores that one node does at a time.
//!
//! The node that has a chore says so again as long as it goes on; the first to say so after that has ended takes it over,
//! with the next term. What is written for a chore names its term, and matches nothing once another has begun: a node that was
//! frozen and goes on where it stopped changes nothing.

use crate::StoreError;
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;

#[async_trait]
pub trait Chores: Send + Sync {
    /// Takes a chore up, or goes on with it, until `now` plus `lease`; None while another node has it.
    async fn take_chore(
        &self,
        chore: Chore,
        node: NodeId,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Term>, StoreError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chore {
    /// Forget what is older than its account keeps it.
    Prune,
    /// Sum up what happened.
    RollUp,
    /// Erase what was an account's.
    Erase,
}

impl Chore {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prune => "prune",
            Self::RollUp => "roll_up",
            Self::Erase => "erase",
        }
    }
}

/// A node's time with a chore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    pub chore: Chore,
    pub node: NodeId,
    pub number: i64,
}
