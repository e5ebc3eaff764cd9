//! What a lane needs to know of its destination, in one read.

use super::{
    super::{
        planned::{self, Definition, Planned},
        pool::Connection,
        rows::{Cells, Unreadable},
        statement::{params, sql_file},
    },
    documents::StoredDocument as _,
};
use crate::{BoxError, DestinationRecord, KeptGate, StoreError};
use domain::{
    account::Account, delivery_settings::DeliverySettings, destination::Destination, id::DestinationId,
    route::Route, seal::Sealed, time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

pub(in super::super) static DESTINATION_RECORDS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "destination_records",
        sql: sql_file!("destination_records"),
        kept: true,
        settings: planned::BY_KEY,
        gives: "doc text, version bigint, paused_at bigint, resumed_at bigint, disabled_at bigint, \
                disabled_reason text, deleted_at bigint, probed_at bigint, account_id uuid, shard smallint, \
                account_doc text, route_docs text[], route_versions bigint[], account_version bigint, \
                gate_doc text, gate_kept_at bigint",
    };
    Planned::new(definition, params![destination_ids: Vec::<Uuid>::new() => UUID_ARRAY])
});

pub(super) async fn get(
    connection: &Connection,
    ids: &[DestinationId],
) -> Result<Vec<Option<DestinationRecord>>, StoreError> {
    let uuids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows =
        connection.read(&DESTINATION_RECORDS.call, params![destination_ids: uuids => UUID_ARRAY]).await?;
    let mut asked = ids.iter();
    Ok(rows.all(|cells| asked.next().map_or(Ok(None), |id| read(cells, *id)))?)
}

/// All null where there is no such destination.
fn read(cells: &mut Cells<'_, '_>, id: DestinationId) -> Result<Option<DestinationRecord>, Unreadable> {
    let Some(account_id) = cells.get("account_id")? else { return Ok(None) };
    let account =
        serde_json::from_str::<Account>(cells.get::<Option<&str>>("account_doc")?.unwrap_or_default());
    // What does not read back stops the deliveries of its own destination, and no other's.
    let unreadable = |error: BoxError| {
        tracing::error!(destination_id = %id, %error, "a destination does not read back");
        (Err(error.to_string()), DeliverySettings::default(), Sealed::default(), false)
    };
    let (destination, account_defaults, data_key, encrypts) = match (Destination::read(cells), account) {
        (Ok(destination), Ok(account)) => {
            (Ok(destination), account.defaults, account.data_key, account.encrypt_payloads)
        }
        (Err(error), _) => unreadable(error.into()),
        (_, Err(error)) => unreadable(error.into()),
    };
    // One that does not read has nothing to say; the destination's own settings hold.
    let (docs, versions): (Vec<&str>, Vec<i64>) = (cells.get("route_docs")?, cells.get("route_versions")?);
    let overrides = docs
        .iter()
        .zip(versions)
        .filter_map(|(doc, version)| Some(Route { version, ..serde_json::from_str(doc).ok()? }));
    Ok(Some(DestinationRecord {
        id,
        account_id,
        account_version: cells.get::<Option<i64>>("account_version")?.unwrap_or_default(),
        shard: cells.get::<Option<u16>>("shard")?.unwrap_or_else(|| id.shard()),
        destination,
        account_defaults,
        data_key,
        encrypts,
        overrides: overrides.collect(),
        gate: gate(cells)?,
    }))
}

/// A newer version's words are none.
fn gate(cells: &mut Cells<'_, '_>) -> Result<Option<KeptGate>, Unreadable> {
    let (doc, kept_at): (Option<&str>, Option<Timestamp>) =
        (cells.get("gate_doc")?, cells.get("gate_kept_at")?);
    let record = doc.and_then(|doc| serde_json::from_str(doc).ok());
    Ok(record.zip(kept_at).map(|(record, kept_at)| KeptGate { record, kept_at }))
}
