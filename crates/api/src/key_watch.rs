//! Data keys of accounts that were deleted, on this node or another, are forgotten here within a second: what is remembered of
//! keys is held against the accounts that there are. Nothing could be opened by them any more, but they need not lie around.

use crate::app::App;
use domain::limits;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Looks for ever. Where nothing is remembered the store is not asked.
pub(crate) async fn run(app: &App, stop: CancellationToken) {
    let mut ticks = interval(limits::DELETED_LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        supervisor::failpoint();
        for some in app.accounts_with_keys().chunks(limits::VERSIONS_AT_ONCE) {
            match app.store.versions(some).await {
                Ok(versions) => {
                    let gone = some.iter().zip(versions).filter(|(_, version)| version.is_none());
                    gone.for_each(|(account, _)| app.forget_keys(*account));
                }
                // It is asked again.
                Err(error) => tracing::debug!(%error, "it cannot be seen which accounts were deleted"),
            }
        }
    }
}
