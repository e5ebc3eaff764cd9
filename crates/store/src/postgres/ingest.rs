//! Committing events: one statement for a batch, one more for those that lost.
//!
//! Most batches take a short statement that knows no conflicts. It fails as a whole where a key was used before, or where the
//! batch was written before; then the long one is asked, which leaves out what is there. Where keys are repeated, they
//! are repeated often: for a while after that the long one is asked at once.

use super::{
    PostgresStore,
    new_deliveries::DeliveryColumns,
    planned::{Definition, Planned},
    pool::Connection,
    rows::{Cells, Rows, Unreadable},
    statement::{Params, Statement, params, sql, sql_file},
    trouble::Trouble,
};
use crate::{Committed, Ingest, NewEvent, StoreError, other_routes};
use async_trait::async_trait;
use domain::{id::EventId, limits, time::Timestamp};
use std::{
    collections::{HashMap, HashSet},
    sync::{LazyLock, atomic::Ordering::Relaxed},
};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

pub(super) static COMMIT: LazyLock<Planned> = LazyLock::new(|| {
    let sql = sql_file!("commit" + "commit_written");
    Planned::new(definition(sql), BatchColumns::default().untagged_params())
});
/// For the batches in which an event has tags.
pub(super) static COMMIT_TAGGED: LazyLock<Planned> = LazyLock::new(|| {
    let sql = sql_file!("commit" + "commit_tags" + "commit_written");
    Planned::new(definition(sql), BatchColumns::default().params())
});
pub(super) static COMMIT_PLAIN: LazyLock<Planned> = LazyLock::new(|| {
    Planned::new(definition(sql_file!("commit_plain")), BatchColumns::default().plain_params())
});
pub(super) static COMMIT_KEYED: LazyLock<Planned> = LazyLock::new(|| {
    Planned::new(definition(sql_file!("commit_keyed")), BatchColumns::default().keyed_params())
});
static COMMIT_LOST: LazyLock<Statement> = sql!("commit_lost");
static PRUNE_IDEMPOTENCY: LazyLock<Statement> = sql!("prune_idempotency");

fn definition(sql: &'static str) -> Definition {
    Definition {
        name: "ingest",
        sql,
        kept: true,
        settings: "set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off",
        gives: "id uuid",
    }
}

#[async_trait]
impl Ingest for PostgresStore {
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let connection = self.pools.ingest().await?;
        // One that cannot be stored never fails the others: halve until it is alone. Ends are taken from the right,
        // so parts are committed, and answered, in order.
        let mut parts = vec![batch];
        let mut answers = Vec::with_capacity(batch.len());
        while let Some(part) = parts.pop() {
            match self.commit_part(&connection, part, now).await {
                Ok(committed) => answers.extend(committed),
                Err(Trouble::Culprit { error }) if part.len() == 1 => {
                    answers.push(Committed::Refused(
                        error.as_db_error().map_or_else(String::new, |word| word.message().into()),
                    ));
                }
                Err(Trouble::Culprit { .. }) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                // What earlier parts have committed, the caller finds as its own when it commits again.
                Err(Trouble::Away(error)) if !answers.is_empty() => {
                    return Err(StoreError::OutcomeUnknown(error));
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
        Ok(answers)
    }

    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let connection = self.pools.ingest().await?;
        let params = params![created_before: before.micros() => INT8, limit: limit as i64 => INT8];
        Ok(connection.write(&PRUNE_IDEMPOTENCY, params).await?.len())
    }
}

impl PostgresStore {
    async fn commit_part(
        &self,
        connection: &Connection,
        batch: &[NewEvent],
        now: Timestamp,
    ) -> Result<Vec<Committed>, Trouble> {
        let written = self.write_part(connection, &BatchColumns::of(batch, now)).await?;
        let lost: Vec<&NewEvent> =
            batch.iter().filter(|new| !written.contains(&new.event.id.uuid())).collect();
        if lost.is_empty() {
            return Ok(vec![Committed::New; batch.len()]);
        }
        let mut why = reasons(connection, &lost).await?;
        let answer = |new: &NewEvent| why.remove(&new.event.id).unwrap_or(Committed::New);
        Ok(batch.iter().map(answer).collect())
    }

    /// The ids of the events that were written, now and by this.
    async fn write_part(
        &self,
        connection: &Connection,
        rows: &BatchColumns<'_>,
    ) -> Result<HashSet<Uuid>, Trouble> {
        let wary = self.wary_commits.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if !wary && rows.are_short() {
            match rows.write_short(connection).await {
                Err(Trouble::Culprit { error }) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                    self.wary_commits.store(limits::WARY_COMMITS, Relaxed);
                }
                written => return written,
            }
        }
        rows.write(connection).await
    }
}

fn written_ids(rows: &Rows) -> Result<HashSet<Uuid>, Trouble> {
    Ok(rows.column("id").map_err(Trouble::after_write)?.into_iter().collect())
}

/// What became of the events that were not written. A loser cannot see the winner's row in its own statement, so this
/// is another; what it says of an event written before is the same whenever it is asked.
async fn reasons(
    connection: &Connection,
    lost: &[&NewEvent],
) -> Result<HashMap<EventId, Committed>, Trouble> {
    let ids: Vec<Uuid> = lost.iter().map(|new| new.event.id.uuid()).collect();
    let accounts: Vec<Uuid> = lost.iter().map(|new| new.event.account_id.uuid()).collect();
    let scopes: Vec<Option<Uuid>> = lost.iter().map(|new| new.key.map(|key| key.scope)).collect();
    let hashes: Vec<Option<&[u8]>> =
        lost.iter().map(|new| new.key.as_ref().map(|key| key.hash.as_slice())).collect();
    let params = params![
        event_id: ids => UUID_ARRAY, account_id: accounts => UUID_ARRAY, key_scope: scopes => UUID_ARRAY,
        key_hash: hashes => BYTEA_ARRAY,
    ];
    // Nothing is in doubt: what was committed is.
    let rows = connection.read(&COMMIT_LOST, params).await.map_err(unknown)?;
    let mut asked = lost.iter();
    let found = rows.all(|cells| asked.next().map(|new| Ok((new.event.id, reason(cells, new)?))).transpose());
    Ok(found.map_err(Trouble::after_write)?.into_iter().flatten().collect())
}

fn reason(cells: &mut Cells<'_, '_>, new: &NewEvent) -> Result<Committed, Unreadable> {
    let known = cells.get("known")?;
    let version: Option<i64> = cells.get("account_version")?;
    let winner: Option<EventId> = cells.get("event_id")?;
    Ok(match (known, version, winner) {
        (true, ..) => Committed::New,
        (_, None, _) => Committed::NoAccount(new.event.account_id),
        (_, Some(version), _) if version != new.account_version => Committed::Stale,
        (_, _, Some(winner)) if winner == new.event.id => Committed::New,
        (_, _, Some(winner)) => Committed::Duplicate {
            of: winner,
            deliveries: cells.get("deliveries")?,
            body_hash: cells
                .get::<Option<&[u8]>>("body_hash")?
                .unwrap_or_default()
                .try_into()
                .unwrap_or_default(),
        },
        // It changed and changed back, or its key was forgotten just now: worth another round.
        (_, Some(_), None) => Committed::Stale,
    })
}

/// The first statement has been committed: losing the second leaves the caller in the dark.
fn unknown(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Away(error) => Trouble::Unknown(error),
        other => other,
    }
}

/// A batch, by columns. Nothing is copied before it is written to the connection.
#[derive(Default)]
struct BatchColumns<'a> {
    now: i64,
    events: EventColumns<'a>,
    keys: KeyColumns<'a>,
    tags: TagColumns<'a>,
    deliveries: DeliveryColumns,
    delivery_event_id: Vec<Uuid>,
    accounts: (Vec<Uuid>, Vec<i64>),
}

#[derive(Default)]
struct EventColumns<'a> {
    id: Vec<Uuid>,
    account_id: Vec<Uuid>,
    account_version: Vec<i64>,
    keyed: Vec<bool>,
    source_id: Vec<Option<Uuid>>,
    event_type: Vec<&'a str>,
    idempotency_key: Vec<Option<&'a str>>,
    content_type: Vec<&'a str>,
    headers: Vec<&'a str>,
    payload: Vec<&'a [u8]>,
    /// Of the payload as it was accepted.
    size_bytes: Vec<i32>,
    ordering_key: Vec<Option<&'a str>>,
    metadata: Vec<&'a str>,
    received_at: Vec<i64>,
    deliver_at: Vec<Option<i64>>,
    /// None: an expansion makes them.
    deliveries: Vec<Option<i32>>,
    payload_crc: Vec<i32>,
    other_routes: Vec<Option<Vec<u8>>>,
    tags: Vec<Option<&'a str>>,
    sealed_headers: Vec<Option<&'a [u8]>>,
}

#[derive(Default)]
struct TagColumns<'a> {
    tag: Vec<&'a str>,
    event_id: Vec<Uuid>,
}

#[derive(Default)]
struct KeyColumns<'a> {
    scope: Vec<Uuid>,
    hash: Vec<&'a [u8]>,
    body_hash: Vec<&'a [u8]>,
    event_id: Vec<Uuid>,
    account_id: Vec<Uuid>,
    account_version: Vec<i64>,
    deliveries: Vec<Option<i32>>,
}

impl<'a> BatchColumns<'a> {
    fn of(batch: &'a [NewEvent], now: Timestamp) -> Self {
        let mut rows = Self { now: now.micros(), ..Self::default() };
        let mut matched_at = HashSet::new();
        for new in batch {
            rows.events.push(new);
            rows.keys.push(new);
            rows.tags.push(new);
            for delivery in &new.deliveries {
                rows.deliveries.push(delivery);
                rows.delivery_event_id.push(new.event.id.uuid());
            }
            matched_at.insert((new.event.account_id.uuid(), new.account_version));
        }
        rows.accounts = matched_at.into_iter().unzip();
        rows
    }

    /// Leaves out what is there already.
    async fn write(&self, connection: &Connection) -> Result<HashSet<Uuid>, Trouble> {
        let rows = match self.tags.tag.is_empty() {
            true => connection.write(&COMMIT.call, self.untagged_params()).await?,
            false => connection.write(&COMMIT_TAGGED.call, self.params()).await?,
        };
        written_ids(&rows)
    }

    /// Fails where anything is there already.
    async fn write_short(&self, connection: &Connection) -> Result<HashSet<Uuid>, Trouble> {
        let rows = match self.keys.event_id.is_empty() {
            true => connection.write(&COMMIT_PLAIN.call, self.plain_params()).await?,
            false => connection.write(&COMMIT_KEYED.call, self.keyed_params()).await?,
        };
        written_ids(&rows)
    }

    /// Nothing in it has tags or other routes, is sealed, needs an expansion or takes a number.
    fn are_short(&self) -> bool {
        let expands = self.events.deliveries.iter().any(Option::is_none);
        let named = self.events.other_routes.iter().any(Option::is_some);
        let sealed = self.events.sealed_headers.iter().any(Option::is_some);
        self.tags.tag.is_empty()
            && !expands
            && !named
            && !sealed
            && !self.deliveries.sequenced.contains(&true)
    }

    /// Without what only long statements write.
    fn keyed_params(&self) -> Params<'_, '_> {
        self.untagged_params().without(&[
            "event_keyed",
            "event_other_routes",
            "event_tags",
            "event_sealed_headers",
            "delivery_sequenced",
        ])
    }

    /// The same without keys.
    fn plain_params(&self) -> Params<'_, '_> {
        self.keyed_params().without(&[
            "now",
            "key_scope",
            "key_hash",
            "key_body_hash",
            "key_event_id",
            "key_account_id",
            "key_account_version",
            "key_deliveries",
        ])
    }

    fn untagged_params(&self) -> Params<'_, '_> {
        self.params().without(&["tag", "tag_event_id"])
    }

    fn params(&self) -> Params<'_, '_> {
        let Self { now, events: e, keys: k, deliveries: d, accounts, tags: t, .. } = self;
        params![
            current_account_id: accounts.0 => UUID_ARRAY, current_version: accounts.1 => INT8_ARRAY,
            event_id: e.id => UUID_ARRAY, event_account_id: e.account_id => UUID_ARRAY,
            event_account_version: e.account_version => INT8_ARRAY, event_source_id: e.source_id => UUID_ARRAY,
            event_type: e.event_type => TEXT_ARRAY, event_idempotency_key: e.idempotency_key => TEXT_ARRAY,
            event_content_type: e.content_type => TEXT_ARRAY, event_headers: e.headers => TEXT_ARRAY,
            event_payload: e.payload => BYTEA_ARRAY, event_ordering_key: e.ordering_key => TEXT_ARRAY,
            event_metadata: e.metadata => TEXT_ARRAY, event_received_at: e.received_at => INT8_ARRAY,
            event_deliver_at: e.deliver_at => INT8_ARRAY, event_deliveries: e.deliveries => INT4_ARRAY,
            event_size_bytes: e.size_bytes => INT4_ARRAY, event_payload_crc: e.payload_crc => INT4_ARRAY,
            delivery_id: d.id => UUID_ARRAY, delivery_event_id: self.delivery_event_id => UUID_ARRAY,
            delivery_shard: d.shard => INT2_ARRAY, delivery_destination_id: d.destination_id => UUID_ARRAY,
            delivery_route_id: d.route_id => UUID_ARRAY, delivery_track: d.track => INT8_ARRAY,
            delivery_rank: d.rank => INT8_ARRAY, delivery_due_at: d.due_at => INT8_ARRAY,
            delivery_created_at: d.created_at => INT8_ARRAY,
            now: *now => INT8, event_keyed: e.keyed => BOOL_ARRAY, event_other_routes: e.other_routes => BYTEA_ARRAY,
            event_tags: e.tags => TEXT_ARRAY, event_sealed_headers: e.sealed_headers => BYTEA_ARRAY,
            delivery_sequenced: d.sequenced => BOOL_ARRAY,
            key_scope: k.scope => UUID_ARRAY, key_hash: k.hash => BYTEA_ARRAY,
            key_body_hash: k.body_hash => BYTEA_ARRAY, key_event_id: k.event_id => UUID_ARRAY,
            key_account_id: k.account_id => UUID_ARRAY, key_account_version: k.account_version => INT8_ARRAY,
            key_deliveries: k.deliveries => INT4_ARRAY,
            tag: t.tag => TEXT_ARRAY, tag_event_id: t.event_id => UUID_ARRAY,
        ]
        .owned()
    }
}

impl<'a> EventColumns<'a> {
    fn push(&mut self, new: &'a NewEvent) {
        let event = &*new.event;
        self.id.push(event.id.uuid());
        self.account_id.push(event.account_id.uuid());
        self.account_version.push(new.account_version);
        self.keyed.push(new.key.is_some());
        self.source_id.push(event.source_id.map(|id| id.uuid()));
        self.event_type.push(event.event_type.as_str());
        self.idempotency_key.push(event.idempotency_key.as_deref());
        self.content_type.push(&event.content_type);
        self.headers.push(&event.headers_text);
        self.payload_crc.push(event.payload_crc());
        self.payload.push(event.payload_bytes());
        self.size_bytes.push(event.payload.len() as i32);
        self.ordering_key.push(event.ordering_key.as_deref());
        self.metadata.push(&event.metadata_text);
        self.received_at.push(event.received_at.micros());
        self.deliver_at.push(event.deliver_at.map(Timestamp::micros));
        self.deliveries.push(promised(new));
        self.other_routes.push(other_routes::packed(&new.other_routes));
        self.tags.push(event.tags_text.as_deref());
        self.sealed_headers.push(event.sealed_headers().map(|sealed| sealed.0.as_slice()));
    }
}

impl<'a> TagColumns<'a> {
    fn push(&mut self, new: &'a NewEvent) {
        for tag in &new.event.tags {
            self.tag.push(tag);
            self.event_id.push(new.event.id.uuid());
        }
    }
}

fn promised(new: &NewEvent) -> Option<i32> {
    (!new.expands).then_some(new.deliveries.len() as i32)
}

impl<'a> KeyColumns<'a> {
    fn push(&mut self, new: &'a NewEvent) {
        let Some(key) = &new.key else { return };
        self.scope.push(key.scope);
        self.hash.push(&key.hash);
        self.body_hash.push(&key.body_hash);
        self.event_id.push(new.event.id.uuid());
        self.account_id.push(new.event.account_id.uuid());
        self.account_version.push(new.account_version);
        self.deliveries.push(promised(new));
    }
}
