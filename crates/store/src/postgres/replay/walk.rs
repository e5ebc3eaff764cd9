//! The originals of a replay: what has ended, oldest first. The same scan is counted or read, a bounded number of
//! entries at a time.

use super::super::{
    history::{dead_alone, expressions, some, uuids},
    pool::{Connection, params},
};
use crate::{DeliveryFilter, Original, OriginalWalk, Originals, Selection, StoreError, Survey, replay::AsOf};
use domain::{
    destination::Ordering,
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId, RouteId},
    limits,
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

pub(in super::super) const ORIGINALS: &str =
    concat!(include_str!("../sql/originals.sql"), include_str!("../sql/originals_page.sql"));
pub(in super::super) const SURVEY: &str =
    concat!(include_str!("../sql/originals.sql"), include_str!("../sql/originals_survey.sql"));

/// Entries that are looked at for each row of a chunk, and at least: where fewer match, there are more chunks.
const SCANNED_PER_ROW: usize = 10;
const SCANNED_LEAST: usize = 500;

pub(super) async fn survey(
    connection: &Connection,
    account: AccountId,
    selection: &Selection,
    as_of: Timestamp,
    limit: usize,
) -> Result<Survey, StoreError> {
    let (rows, exact, unknown) = match selection {
        Selection::Deliveries(ids) => {
            let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
            let params = params![account.uuid() => UUID, ids => UUID_ARRAY];
            let rows = connection.read(include_str!("../sql/survey_given.sql"), params).await?;
            let unknown = rows.iter().find_map(|row| row.get::<_, Option<Vec<Uuid>>>(2));
            (rows, true, unknown.unwrap_or_default())
        }
        Selection::Filter(filter) => {
            let scan = Scan {
                account,
                filter,
                after: None,
                look_at: limit,
                limit: 0,
                as_of: AsOf::at(as_of),
                but: None,
            };
            let rows = scan.run(connection, SURVEY).await?;
            let exact = rows.first().is_none_or(|row| row.get(2));
            (rows, exact, Vec::new())
        }
    };
    let counted = |row: &Row| {
        let destination: Option<Uuid> = row.get(0);
        destination.map(|id| (DestinationId::from_uuid(id), row.get::<_, i64>(1) as u64))
    };
    let by_destination: Vec<_> = rows.iter().filter_map(counted).collect();
    let matched = by_destination.iter().map(|(_, count)| count).sum();
    let unknown = unknown.into_iter().map(DeliveryId::from_uuid).collect();
    Ok(Survey { matched, exact, by_destination, unknown })
}

pub(super) async fn originals(connection: &Connection, walk: &OriginalWalk) -> Result<Originals, StoreError> {
    let OriginalWalk { replay, limit } = walk;
    let Some(filter) = &replay.filter else { return given(connection, walk).await };
    let scan = Scan {
        account: replay.account_id,
        filter,
        after: replay.cursor,
        // What is looked at is read, wanted or not: no more than a chunk is likely to need.
        look_at: (*limit * SCANNED_PER_ROW).clamp(SCANNED_LEAST, limits::PAGE_SCAN),
        limit: *limit,
        as_of: AsOf::at(replay.created_at),
        but: Some(replay.id),
    };
    let read = scan.run(connection, ORIGINALS).await?;
    let id_at = |column| read.first().and_then(|row| row.get::<_, Option<Uuid>>(column));
    let (last, looked_at) = (id_at(0), id_at(1));
    let found = read.iter().filter(|row| row.get::<_, Option<Uuid>>(2).is_some());
    let rows: Vec<Original> = found.map(|row| original(row, 2)).collect();
    // A full page goes on where it stopped, a short one where the scan stopped.
    let stopped = if rows.len() == *limit { rows.last().map(|row| row.id.uuid()) } else { looked_at };
    let next = stopped.filter(|stopped| last.is_some_and(|last| last > *stopped)).map(DeliveryId::from_uuid);
    Ok(Originals { rows, missing: 0, next })
}

/// Of ids that were given.
async fn given(connection: &Connection, walk: &OriginalWalk) -> Result<Originals, StoreError> {
    let OriginalWalk { replay, limit } = walk;
    let as_of = AsOf::at(replay.created_at);
    let sql = "select given.id from replays r cross join lateral unnest(r.delivery_ids) as given (id) \
               where r.id = $1 and given.id > $2 order by given.id limit $3";
    let after = replay.cursor.unwrap_or(DeliveryId::MIN).uuid();
    let params = params![replay.id.uuid() => UUID, after => UUID, *limit as i64 + 1 => INT8];
    let mut ids: Vec<Uuid> = connection.read(sql, params).await?.iter().map(|row| row.get(0)).collect();
    let goes_on = ids.len() > *limit;
    ids.truncate(*limit);
    let next = ids.last().copied().filter(|_| goes_on).map(DeliveryId::from_uuid);
    let params = params![
        replay.account_id.uuid() => UUID, ids => UUID_ARRAY, as_of.ended_by.micros() => INT8,
        as_of.below.uuid() => UUID,
    ];
    let read = connection.read(include_str!("../sql/originals_given.sql"), params).await?;
    let missing = (ids.len() - read.len()) as u32;
    Ok(Originals { rows: read.iter().map(|row| original(row, 0)).collect(), missing, next })
}

/// What is looked for, and how far.
struct Scan<'f> {
    account: AccountId,
    filter: &'f DeliveryFilter,
    after: Option<DeliveryId>,
    look_at: usize,
    limit: usize,
    as_of: AsOf,
    but: Option<ReplayId>,
}

impl Scan<'_> {
    async fn run(&self, connection: &Connection, sql: &str) -> Result<Vec<Row>, StoreError> {
        let filter = self.filter;
        let until = filter.until.map_or(DeliveryId::MAX, |until| DeliveryId::at(until, 0));
        let below = until.min(self.as_of.below).uuid();
        // Above the last id before: an id that is the first of its moment is not left out.
        let since = filter.since.map_or(Uuid::nil(), |since| before(DeliveryId::at(since, 0)));
        let above = self.after.map_or(since, |after| after.uuid().max(since));
        let destination = match filter.destination_ids.as_slice() {
            [one] => Some(one.uuid()),
            _ => None,
        };
        let endings: Vec<_> = filter.statuses.iter().map(|status| status.as_str()).collect();
        let http_statuses: Vec<i16> = filter.http_statuses.iter().map(|status| *status as i16).collect();
        let params = params![
            self.account.uuid() => UUID, below => UUID, above => UUID, self.look_at as i64 => INT8,
            self.limit as i64 => INT8, dead_alone(filter) => BOOL, destination => UUID,
            uuids(&filter.event_ids, |id| id.uuid()) => UUID_ARRAY, some(&endings) => TEXT_ARRAY,
            some(&filter.reasons) => TEXT_ARRAY, uuids(&filter.destination_ids, |id| id.uuid()) => UUID_ARRAY,
            uuids(&filter.route_ids, |id| id.uuid()) => UUID_ARRAY,
            uuids(&filter.source_ids, |id| id.uuid()) => UUID_ARRAY, expressions(&filter.types) => TEXT_ARRAY,
            some(&http_statuses) => INT2_ARRAY, uuids(&filter.replay_ids, |id| id.uuid()) => UUID_ARRAY,
            self.as_of.ended_by.micros() => INT8, self.but.map(|id| id.uuid()) => UUID,
        ];
        Ok(connection.read(sql, params).await?)
    }
}

fn before(id: DeliveryId) -> Uuid {
    Uuid::from_u128(id.uuid().as_u128().saturating_sub(1))
}

/// delivery_id, origin, event_id, route_id, destination_id, ordering_key, ordering.
fn original(row: &Row, at: usize) -> Original {
    Original {
        id: DeliveryId::from_uuid(row.get(at)),
        origin: DeliveryId::from_uuid(row.get(at + 1)),
        event_id: EventId::from_uuid(row.get(at + 2)),
        route_id: RouteId::from_uuid(row.get(at + 3)),
        destination_id: DestinationId::from_uuid(row.get(at + 4)),
        ordering_key: row.get(at + 5),
        ordering: row.get::<_, Option<&str>>(at + 6).map(Ordering::read),
    }
}
