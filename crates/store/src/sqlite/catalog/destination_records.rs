//! What the engine needs to deliver to a destination.

use super::{
    super::{
        gates,
        rows::Columns,
        statement::{bound, sql},
        trouble::{Reach, Trouble},
    },
    accounts,
    documents::{StoredDocument as _, route},
};
use crate::{DestinationRecord, StoreError};
use domain::{
    delivery_settings::DeliverySettings,
    destination::Destination,
    id::{AccountId, DestinationId},
    seal::Sealed,
};
use rusqlite::Connection;

const DESTINATION_RECORDS: &str = sql!("destination_records");
const OVERRIDES: &str = sql!("overrides");

pub(in crate::sqlite) fn get(
    connection: &Connection,
    id: DestinationId,
) -> Result<Option<DestinationRecord>, Trouble> {
    let found = bound!(DESTINATION_RECORDS, id: id).first(connection, |columns| {
        // What goes wrong while it is read is told apart from what keeps it from being found.
        let account = columns.clone().id();
        Ok((account, whole(connection, columns, id)))
    })?;
    match found {
        // What does not read back stops the deliveries of its own destination and of no other.
        Some((account, Err(trouble))) if trouble.reach() == Reach::Row => {
            let reason = StoreError::from(trouble).to_string();
            tracing::error!(destination_id = %id, reason, "a destination does not read back");
            Ok(Some(DestinationRecord {
                id,
                account_id: account.unwrap_or(AccountId::MIN),
                account_version: 0,
                shard: id.shard(),
                destination: Err(reason),
                account_defaults: DeliverySettings::default(),
                data_key: Sealed::default(),
                encrypts: false,
                overrides: Vec::new(),
                gate: None,
            }))
        }
        found => found.map(|(_, record)| record).transpose(),
    }
}

fn whole(
    connection: &Connection,
    columns: &mut Columns<'_>,
    id: DestinationId,
) -> Result<DestinationRecord, Trouble> {
    let (account_id, shard) = (columns.id()?, columns.get()?);
    let account = accounts::get(connection, account_id)?;
    Ok(DestinationRecord {
        id,
        account_id,
        account_version: account.version,
        shard,
        destination: Ok(Destination::read(columns)?),
        account_defaults: account.defaults,
        data_key: account.data_key,
        encrypts: account.encrypt_payloads,
        overrides: bound!(OVERRIDES, destination_id: id).all(connection, route)?,
        gate: gates::kept(connection, id)?,
    })
}
