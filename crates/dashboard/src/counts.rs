//! The numbers beside the names of the screens. They stand on every page and are the same for everybody who looks at an
//! account, so they are read once in a few seconds and not once a page.

use api::{App, read, session::Visitor};
use domain::{account::Scope, id::AccountId, time::Timestamp};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use store::{GroupFilter, Page};

/// How old the numbers may be.
const FRESH: Duration = Duration::from_secs(3);
/// Accounts whose numbers are remembered; beyond it all are forgotten.
const REMEMBERED: usize = 1_000;
/// Groups of dead letters that are added up.
const GROUPS: usize = 200;
/// Replays that are looked at for those that run.
const REPLAYS: usize = 20;

#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) account_name: String,
    pub(crate) account_uid: Option<String>,
    pub(crate) dead_letters: u64,
    /// More groups than were added up.
    pub(crate) more_dead_letters: bool,
    pub(crate) running_replays: u64,
}

#[derive(Default)]
pub(crate) struct CountCache(Mutex<HashMap<AccountId, (Timestamp, Arc<Counts>)>>);

impl CountCache {
    /// A store that is away costs the numbers, not the page: that will say it itself.
    pub(crate) async fn of(&self, app: &App, visitor: &Visitor, account: AccountId) -> Arc<Counts> {
        let now = visitor.now();
        let known = self.known(account).filter(|(at, _)| now.since(*at) < FRESH);
        let counts = match known {
            Some((_, counts)) => counts,
            None => {
                let counts = Arc::new(read(app, account).await);
                let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(account, (now, counts.clone()));
                counts
            }
        };
        if visitor.has(Scope::DeliveriesRead) {
            return counts;
        }
        let Counts { account_name, account_uid, .. } = (*counts).clone();
        Arc::new(Counts { account_name, account_uid, ..Counts::default() })
    }

    fn known(&self, account: AccountId) -> Option<(Timestamp, Arc<Counts>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&account).cloned()
    }
}

async fn read(app: &App, account: AccountId) -> Counts {
    let mut counts = Counts::default();
    if let Ok(found) = read::account(app, account).await {
        counts.account_name = found.view.name;
        counts.account_uid = found.view.uid;
    }
    if let Ok(groups) =
        read::dead_letter_groups(app, account, GroupFilter::default(), Page { before: None, limit: GROUPS })
            .await
    {
        counts.dead_letters = groups.data.iter().map(|group| group.count).sum();
        counts.more_dead_letters = groups.next.is_some();
    }
    if let Ok(replays) = read::replays(app, account, Page { before: None, limit: REPLAYS }).await {
        counts.running_replays = replays.data.iter().filter(|replay| !replay.status.ended()).count() as u64;
    }
    counts
}
