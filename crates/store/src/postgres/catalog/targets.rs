//! What a lane needs to know of its destination, in one read.

use super::{
    super::{
        planned::{self, Definition, Planned},
        pool::Connection,
        rows::{Unreadable, row},
        statement::{params, sql_file},
    },
    documents::DestinationRow,
};
use crate::{BoxError, KeptGate, StoreError, Target};
use domain::{
    account::Account,
    destination::Destination,
    id::{AccountId, DestinationId},
    route::Route,
    seal::Sealed,
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

pub(in super::super) static TARGETS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "targets",
        sql: sql_file!("targets"),
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
) -> Result<Vec<Option<Target>>, StoreError> {
    let uuids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = connection.read(&TARGETS.call, params![destination_ids: uuids => UUID_ARRAY]).await?;
    let (targets, destinations) = (rows.all::<TargetRow<'_>>()?, rows.each::<DestinationRow<'_>>()?);
    let found = ids.iter().zip(targets).zip(destinations);
    Ok(found.map(|((id, row), destination)| row.target(*id, destination.map(Into::into))).collect())
}

row! {
    /// Beside the destination's own columns; all null where there is no such destination.
    struct TargetRow<'r> {
        account_id: Option<AccountId>,
        account_version: Option<i64>,
        shard: Option<u16>,
        account_doc: Option<&'r str>,
        /// Of routes that override something.
        route_docs: Vec<&'r str>,
        route_versions: Vec<i64>,
        gate_doc: Option<&'r str>,
        gate_kept_at: Option<Timestamp>,
    }
}

impl TargetRow<'_> {
    fn target(self, id: DestinationId, destination: Result<Destination, Unreadable>) -> Option<Target> {
        let account_id = self.account_id?;
        let account = serde_json::from_str::<Account>(self.account_doc.unwrap_or_default());
        // What does not read back stops the deliveries of its own destination, and no other's.
        let unreadable = |error: BoxError| {
            tracing::error!(destination_id = %id, %error, "a destination does not read back");
            (Err(error.to_string()), Sealed::default())
        };
        let (destination, data_key) = match (destination, account) {
            (Ok(destination), Ok(account)) => (Ok(destination), account.data_key),
            (Err(error), _) => unreadable(error.into()),
            (_, Err(error)) => unreadable(error.into()),
        };
        // One that does not read has nothing to say; the destination's own settings hold.
        let overrides = self.route_docs.iter().zip(&self.route_versions).filter_map(|(doc, version)| {
            Some(Route { version: *version, ..serde_json::from_str(doc).ok()? })
        });
        Some(Target {
            id,
            account_id,
            account_version: self.account_version.unwrap_or_default(),
            shard: self.shard.unwrap_or_else(|| id.shard()),
            destination,
            data_key,
            overrides: overrides.collect(),
            gate: self.gate(),
        })
    }

    /// A newer version's words are none.
    fn gate(&self) -> Option<KeptGate> {
        let record = serde_json::from_str(self.gate_doc?).ok()?;
        Some(KeptGate { record, kept_at: self.gate_kept_at? })
    }
}
