//! A request's place among those under way that read or change something for an account. It is given up while the body is
//! waited for, so that a client that sends slowly keeps nobody out.

use crate::error::ApiError;
use domain::{id::AccountId, limits};
use sharing::{Share, SharedResource};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::timeout;

/// Given back when the last copy is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    requests: Arc<SharedResource>,
    account: AccountId,
    share: Arc<Mutex<Option<Share>>>,
}

impl Place {
    /// 503 if there is none in time.
    pub(crate) async fn take(requests: &Arc<SharedResource>, account: AccountId) -> Result<Self, ApiError> {
        let place = Self { requests: requests.clone(), account, share: Arc::default() };
        place.take_again().await?;
        Ok(place)
    }

    pub(crate) fn give_up(&self) {
        self.keep(None);
    }

    pub(crate) async fn take_again(&self) -> Result<(), ApiError> {
        let share = timeout(limits::LOOKUP_PATIENCE, self.requests.take(self.account, 1)).await;
        self.keep(Some(
            share.map_err(|_| ApiError::overloaded("too much of this account is asked for at once"))?,
        ));
        Ok(())
    }

    fn keep(&self, share: Option<Share>) {
        *self.share.lock().unwrap_or_else(PoisonError::into_inner) = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_place_that_is_given_up_is_for_others_until_it_is_taken_again() {
        let (requests, account) = (SharedResource::new(1), AccountId::MIN);
        let first = Place::take(&requests, account).await.unwrap();
        assert!(Place::take(&requests, account).await.is_err(), "there is one");
        first.give_up();
        let second = Place::take(&requests, account).await.unwrap();
        assert!(first.take_again().await.is_err());
        drop(second);
        first.take_again().await.unwrap();
        drop(first);
        assert_eq!(requests.used(), 0);
    }
}
