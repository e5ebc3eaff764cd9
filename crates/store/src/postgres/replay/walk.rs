//! The originals of a replay: what has ended, oldest first. The same scan is counted or read, a bounded number of
//! entries at a time.

use super::super::{
    history::{dead_letters_alone, expressions, page_ends, some, uuids},
    pool::Connection,
    rows::{Cells, Rows, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{DeliveryFilter, Original, OriginalWalk, Originals, Selection, StoreError, Survey, replay::AsOf};
use domain::{
    id::{AccountId, DeliveryId, ReplayId},
    limits,
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static ORIGINALS: LazyLock<Statement> = sql!("originals" + "originals_page");
static SURVEY: LazyLock<Statement> = sql!("originals" + "originals_survey");
static SURVEY_GIVEN: LazyLock<Statement> = sql!("survey_given");
static GIVEN_IDS: LazyLock<Statement> = sql!("given_ids");
static ORIGINALS_GIVEN: LazyLock<Statement> = sql!("originals_given");

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
        Selection::Deliveries(given) => {
            let ids: Vec<Uuid> = given.ids.iter().map(|id| id.uuid()).collect();
            let params = params![account_id: account.uuid() => UUID, delivery_ids: ids => UUID_ARRAY];
            let rows = connection.read(&SURVEY_GIVEN, params).await?;
            let unknown: Vec<Option<Vec<Uuid>>> = rows.column("unknown")?;
            (rows, true, unknown.into_iter().flatten().next().unwrap_or_default())
        }
        Selection::Events(_) => return Ok(Survey { exact: true, ..Survey::default() }),
        Selection::Filter(filter) => {
            let scan = OriginalScan {
                account,
                filter,
                after: None,
                look_at: limit,
                limit: None,
                as_of: AsOf::at(as_of),
                except: None,
            };
            let rows = scan.run(connection, &SURVEY).await?;
            let exact = rows.first_value("exact")?.unwrap_or(true);
            (rows, exact, Vec::new())
        }
    };
    let by_destination: Vec<(_, u64)> =
        rows.joined("destination_id", |cells| Ok((cells.get("destination_id")?, cells.get("count")?)))?;
    let matched = by_destination.iter().map(|(_, count)| count).sum();
    let unknown = unknown.into_iter().map(DeliveryId::from_uuid).collect();
    Ok(Survey { matched, exact, by_destination, unknown })
}

pub(super) async fn originals(connection: &Connection, walk: &OriginalWalk) -> Result<Originals, StoreError> {
    let OriginalWalk { replay, limit } = walk;
    let Some(filter) = &replay.filter else { return given(connection, walk).await };
    let scan = OriginalScan {
        account: replay.account_id,
        filter,
        after: replay.cursor,
        // What is looked at is read, wanted or not: no more than a chunk is likely to need.
        look_at: (*limit * SCANNED_PER_ROW).clamp(SCANNED_LEAST, limits::PAGE_SCAN),
        limit: Some(*limit),
        as_of: AsOf::at(replay.created_at),
        except: Some(replay.id),
    };
    let read = scan.run(connection, &ORIGINALS).await?;
    let (last, looked_at): (Option<DeliveryId>, _) = read.one(page_ends)?;
    let rows = read.joined("delivery_id", original)?;
    // A full page goes on where it stopped, a short one where the scan stopped.
    let stopped = if rows.len() == *limit { rows.last().map(|row| row.id) } else { looked_at };
    let next = stopped.filter(|stopped| last.is_some_and(|last| last > *stopped));
    Ok(Originals { rows, missing: 0, next })
}

/// Of ids that were given.
async fn given(connection: &Connection, walk: &OriginalWalk) -> Result<Originals, StoreError> {
    let OriginalWalk { replay, limit } = walk;
    let as_of = AsOf::at(replay.created_at);
    let params = params![
        replay_id: replay.id.uuid() => UUID,
        after_delivery_id: replay.cursor.unwrap_or(DeliveryId::MIN).uuid() => UUID,
        limit: *limit as i64 + 1 => INT8,
    ];
    let mut ids: Vec<Uuid> = connection.read(&GIVEN_IDS, params).await?.column("id")?;
    let goes_on = ids.len() > *limit;
    ids.truncate(*limit);
    let next = ids.last().copied().filter(|_| goes_on).map(DeliveryId::from_uuid);
    let params = params![
        account_id: replay.account_id.uuid() => UUID, delivery_ids: ids => UUID_ARRAY,
        ended_by: as_of.ended_by.micros() => INT8, below_delivery_id: as_of.below.uuid() => UUID,
        resolved: replay.resolved => BOOL,
    ];
    let read = connection.read(&ORIGINALS_GIVEN, params).await?;
    let missing = (ids.len() - read.len()) as u32;
    Ok(Originals { rows: read.all(original)?, missing, next })
}

/// What is looked for, and how far.
struct OriginalScan<'f> {
    account: AccountId,
    filter: &'f DeliveryFilter,
    after: Option<DeliveryId>,
    look_at: usize,
    /// None: they are counted, not read.
    limit: Option<usize>,
    as_of: AsOf,
    /// What this replay made itself is none of its originals.
    except: Option<ReplayId>,
}

impl OriginalScan<'_> {
    async fn run(&self, connection: &Connection, statement: &Statement) -> Result<Rows, StoreError> {
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
            account_id: self.account.uuid() => UUID, below_delivery_id: below => UUID,
            after_delivery_id: above => UUID, look_at: self.look_at as i64 => INT8,
            limit: self.limit.map(|limit| limit as i64) => INT8,
            dead_letters_alone: dead_letters_alone(filter) => BOOL, destination_id: destination => UUID,
            event_ids: uuids(&filter.event_ids, |id| id.uuid()) => UUID_ARRAY,
            endings: some(&endings) => TEXT_ARRAY, reasons: some(&filter.reasons) => TEXT_ARRAY,
            destination_ids: uuids(&filter.destination_ids, |id| id.uuid()) => UUID_ARRAY,
            route_ids: uuids(&filter.route_ids, |id| id.uuid()) => UUID_ARRAY,
            source_ids: uuids(&filter.source_ids, |id| id.uuid()) => UUID_ARRAY,
            types: expressions(&filter.types) => TEXT_ARRAY, http_statuses: some(&http_statuses) => INT2_ARRAY,
            replay_ids: uuids(&filter.replay_ids, |id| id.uuid()) => UUID_ARRAY,
            ended_by: self.as_of.ended_by.micros() => INT8,
            except_replay_id: self.except.map(|id| id.uuid()) => UUID, resolved: filter.resolved => BOOL,
        ];
        let params = if self.limit.is_some() { params } else { params.without(&["limit"]) };
        Ok(connection.read(statement, params).await?)
    }
}

fn before(id: DeliveryId) -> Uuid {
    Uuid::from_u128(id.uuid().as_u128().saturating_sub(1))
}

fn original(cells: &mut Cells<'_, '_>) -> Result<Original, Unreadable> {
    Ok(Original {
        id: cells.get("delivery_id")?,
        origin: cells.get("origin")?,
        event_id: cells.get("event_id")?,
        route_id: cells.get("route_id")?,
        destination_id: cells.get("destination_id")?,
        ordering_key: cells.get("ordering_key")?,
        numbering: cells.get("numbering")?,
    })
}
