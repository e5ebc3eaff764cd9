//! Documents and the rows they are kept in. What has a column of its own is read from there.

use super::rows::optional_time;
use crate::{KeptGate, StoreError, Target};
use domain::{
    account::{Account, ApiKey},
    destination::{Destination, Disabled, DisabledReason, Ordering, Switch},
    id::{AccountId, DestinationId},
    route::Route,
    seal::Sealed,
    source::Source,
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) fn document<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Refused(error.into()))
}

/// A document that does not read was written by a newer binary or by hand; the row is there, but not for us.
fn read<T: DeserializeOwned>(doc: &str) -> Result<T, StoreError> {
    serde_json::from_str(doc).map_err(|error| StoreError::Unavailable(error.into()))
}

/// id, ordering.
pub(in crate::postgres) fn ordering(row: &Row) -> (DestinationId, Ordering) {
    (DestinationId::from_uuid(row.get(0)), Ordering::read(row.get(1)))
}

/// doc, version.
pub(super) fn account(row: &Row) -> Result<Account, StoreError> {
    Ok(Account { version: row.get(1), ..read(row.get(0))? })
}

/// doc, last_used_at, revoked_at.
pub(super) fn api_key(row: &Row) -> Result<ApiKey, StoreError> {
    let (last_used_at, revoked_at) = (optional_time(row, 1), optional_time(row, 2));
    Ok(ApiKey { last_used_at, revoked_at, ..read(row.get(0))? })
}

/// doc, version, token_hash.
pub(super) fn source(row: &Row) -> Result<Source, StoreError> {
    Ok(Source { version: row.get(1), token_hash: row.get(2), ..read(row.get(0))? })
}

/// doc, version.
pub(in crate::postgres) fn route(row: &Row) -> Result<Route, StoreError> {
    Ok(Route { version: row.get(1), ..read(row.get(0))? })
}

/// doc, version, paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, probed_at.
pub(super) fn destination(row: &Row) -> Result<Destination, StoreError> {
    let disabled = |at: Timestamp| Disabled {
        at,
        reason: DisabledReason::parse(row.get::<_, Option<&str>>(5).unwrap_or_default()),
    };
    let switch = Switch {
        paused_at: optional_time(row, 2),
        resumed_at: optional_time(row, 3),
        disabled: optional_time(row, 4).map(disabled),
        probed_at: optional_time(row, 7),
        deleted_at: optional_time(row, 6),
    };
    Ok(Destination { version: row.get(1), switch, ..read(row.get(0))? })
}

/// The columns of a destination, then account_id, shard, the account's document, the routes' documents and versions,
/// the account's version, its gate's document and when that was kept; all null where there is no such destination.
pub(super) fn target(row: &Row, id: DestinationId) -> Option<Target> {
    let account_id = row.get::<_, Option<Uuid>>(8)?;
    // What does not read back stops the deliveries of its own destination, nobody else's.
    let account = read::<Account>(row.get::<_, Option<&str>>(10).unwrap_or_default());
    let (destination, data_key) = match (destination(row), account) {
        (Ok(destination), Ok(account)) => (Ok(destination), account.data_key),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(destination_id = %id, %error, "a destination does not read back");
            (Err(error.to_string()), Sealed::default())
        }
    };
    let (docs, versions): (Vec<&str>, Vec<i64>) = (row.get(11), row.get(12));
    // One that does not read has nothing to say; the destination's own settings hold.
    let overrides =
        docs.iter().zip(versions).filter_map(|(doc, version)| Some(Route { version, ..read(doc).ok()? }));
    Some(Target {
        id,
        account_id: AccountId::from_uuid(account_id),
        account_version: row.get::<_, Option<i64>>(13).unwrap_or_default(),
        shard: row.get::<_, i16>(9) as u16,
        destination,
        data_key,
        overrides: overrides.collect(),
        gate: gate(row),
    })
}

/// A newer version's words are none.
fn gate(row: &Row) -> Option<KeptGate> {
    let record = serde_json::from_str(row.get::<_, Option<&str>>(14)?).ok()?;
    Some(KeptGate { record, kept_at: optional_time(row, 15)? })
}
