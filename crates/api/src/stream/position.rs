//! Where a follower is in the stream: a place in the feed, and a version of the account's configuration.

use crate::{app::App, error::ApiError};
use domain::{
    gate::HoldRecord,
    id::{AccountId, DestinationId},
    limits,
    time::Timestamp,
};
use std::fmt;
use store::{FeedPlace, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamPosition {
    pub(super) version: i64,
    pub(super) place: FeedPlace,
}

impl StreamPosition {
    /// What happens from now on.
    pub(super) async fn now(app: &App, account: AccountId) -> Result<Self, ApiError> {
        let version = version(app, account).await?;
        Ok(Self { version, place: app.store.feed_end(app.now()).await? })
    }

    /// The version, and the text of the place.
    pub(super) fn split(text: &str) -> Option<(i64, &str)> {
        let (version, place) = text.split_once('_')?;
        let plain = version.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| i64::from_str_radix(version, 16).ok()).flatten().map(|version| (version, place))
    }
}

impl fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}_{}", self.version, self.place)
    }
}

async fn version(app: &App, account: AccountId) -> Result<i64, StoreError> {
    let versions = app.store.versions(&[account]).await?;
    versions.first().copied().flatten().ok_or(StoreError::NotFound { what: "account" })
}

/// Destinations that were paused or disabled after a version, and since that moment, and still are; and the version up to
/// which that is known. The end of such a hold is a line in the history, and comes with the feed.
pub(super) async fn switched(
    app: &App,
    account: AccountId,
    after: i64,
    since: Timestamp,
) -> Result<(Vec<(DestinationId, HoldRecord)>, i64), StoreError> {
    let version = version(app, account).await?;
    let mut switched = Vec::new();
    if version <= after {
        return Ok((switched, version));
    }
    let mut last = None;
    loop {
        let some = limits::VERSIONS_AT_ONCE;
        let changed = app.store.changed_destinations(account, after, last, some).await?;
        for target in app.store.destination_records(&changed).await?.into_iter().flatten() {
            let Ok(destination) = target.destination else { continue };
            let holds = destination.holds();
            let recent = holds.iter().filter(|hold| hold.since >= since);
            switched.extend(recent.map(|hold| (destination.id, HoldRecord::of(hold, None))));
        }
        last = changed.last().copied();
        if changed.len() < some {
            return Ok((switched, version));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_a_version_and_a_place() {
        assert_eq!(StreamPosition::split("1f_n-1-2-3-4"), Some((31, "n-1-2-3-4")));
        for text in ["", "1f", "_n-1-2-3", "-1_n-1-2-3", "+1_n", "ffffffffffffffffff_n"] {
            assert_eq!(StreamPosition::split(text), None, "{text}");
        }
    }
}
