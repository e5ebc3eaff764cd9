//! Series: what was summed up span by span, the open minutes, and what the owners of lanes noted. However long the history
//! is, a request reads a bounded number of rows.

use super::stats::{added_up, rollups};
use crate::{
    app::App,
    error::ApiError,
    views::{self, SeriesPieces},
};
use contract::{SeriesBy, SeriesQuery, SeriesView};
use domain::{
    id::{AccountId, DestinationId},
    limits,
    rollup::{LaneSums, Span, Sums},
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use store::{RollupKind, RollupMark};

/// What happened in an account, span by span.
pub async fn series(app: &App, account: AccountId, query: &SeriesQuery) -> Result<SeriesView, ApiError> {
    SeriesWindow::of(query, app.now())?.read(app, account, None).await
}

/// What happened at a destination, span by span.
pub async fn destination_series(
    app: &App,
    account: AccountId,
    id: DestinationId,
    query: &SeriesQuery,
) -> Result<SeriesView, ApiError> {
    app.store.destination(account, id).await?;
    SeriesWindow::of(query, app.now())?.read(app, account, Some(id)).await
}

/// The last day of many destinations, hour by hour, as far as it is summed up: to draw beside each in a list, so no lane is
/// asked and no fact read. The first [`limits::SERIES_AT_ONCE`] of them.
pub async fn destinations_series(
    app: &App,
    account: AccountId,
    ids: &[DestinationId],
) -> Result<HashMap<DestinationId, SeriesView>, ApiError> {
    let ids = &ids[..ids.len().min(limits::SERIES_AT_ONCE)];
    let query = SeriesQuery { by: SeriesBy::Hour, ..SeriesQuery::default() };
    let SeriesWindow { by, span, from, to, now } = SeriesWindow::of(&query, app.now())?;
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let hours = app.store.mark(RollupMark::Sums(Span::Hour)).await?.unwrap_or(Timestamp::MIN);
    let hours = span.start_of(hours.min(to)).max(from);
    let minutes = hours.max(now.minus(limits::ROLLUP_MINUTES_KEPT));
    let mut found: HashMap<DestinationId, Vec<(Timestamp, Sums)>> = HashMap::new();
    for (span, from, to) in [(Span::Hour, from, hours), (Span::Minute, minutes, to)] {
        if from >= to {
            continue;
        }
        let (kind, limit) = (RollupKind::Sums(span), limits::SERIES_AT_ONCE_ROWS);
        let rows = app.store.rollups_of_destinations(account, ids, kind, from, to, limit).await?;
        for (id, at, doc) in rows {
            // What a newer version wrote otherwise is passed over.
            found.entry(id).or_default().extend(Sums::read(&doc).map(|sums| (at, sums)));
        }
    }
    let as_of = added_up(app, ids.first().copied()).await?.clamp(from, to);
    let view = |(id, sums)| {
        let pieces = SeriesPieces {
            by,
            span,
            since: from,
            until: to,
            as_of,
            now,
            sums,
            lanes: Vec::new(),
            whole_account: false,
        };
        (id, views::series(pieces))
    };
    Ok(found.into_iter().map(view).collect())
}

/// What is asked for, in whole spans.
struct SeriesWindow {
    by: SeriesBy,
    span: Span,
    from: Timestamp,
    to: Timestamp,
    now: Timestamp,
}

impl SeriesWindow {
    fn of(query: &SeriesQuery, now: Timestamp) -> Result<Self, ApiError> {
        let (span, by_default, kept, told) = match query.by {
            SeriesBy::Minute => {
                (Span::Minute, limits::SERIES_OVER_MINUTES, limits::ROLLUP_MINUTES_KEPT, "six hours")
            }
            SeriesBy::Hour => {
                (Span::Hour, limits::SERIES_OVER_HOURS, limits::ROLLUP_HOURS_KEPT, "eight days")
            }
            SeriesBy::Day => (Span::Day, limits::SERIES_OVER_DAYS, limits::STATS_OVER_MAX, "ten years"),
        };
        let until = query.until.unwrap_or(now).min(now);
        let since = query.since.unwrap_or(until.minus(by_default));
        let wrong = |detail: String| Err(ApiError::invalid_field("/since", "out_of_range", detail));
        if since >= until {
            return wrong("must lie before `until`, and not in the future".into());
        }
        if since < now.minus(kept) {
            let by = span.as_str();
            return wrong(format!("by the {by}, the last {told} are known; ask for longer spans with `by`"));
        }
        let from = span.start_of(since);
        let points = span.start_after(until).since(from).as_secs() / span.length().as_secs();
        if points > limits::SERIES_POINTS as u64 {
            let most = limits::SERIES_POINTS;
            return wrong(format!(
                "a series has at most {most} points, and this one would have {points}; ask for less time, or for longer \
                 spans with `by`"
            ));
        }
        Ok(Self { by: query.by, span, from, to: span.start_after(until).min(now), now })
    }

    async fn read(
        &self,
        app: &App,
        account: AccountId,
        destination: Option<DestinationId>,
    ) -> Result<SeriesView, ApiError> {
        let (sums, as_of) = self.sums(app, account, destination).await?;
        let lanes = self.lanes(app, account, destination).await?;
        let Self { by, span, from, to, now } = *self;
        Ok(views::series(SeriesPieces {
            by,
            span,
            since: from,
            until: to,
            as_of,
            now,
            sums,
            lanes,
            whole_account: destination.is_none(),
        }))
    }

    /// Spans as far as they are summed up, then shorter ones, then the open minutes; and what has happened since they were
    /// written, as far as it is little.
    async fn sums(
        &self,
        app: &App,
        account: AccountId,
        destination: Option<DestinationId>,
    ) -> Result<(Vec<(Timestamp, Sums)>, Timestamp), ApiError> {
        let (mut at, mut sums) = (self.from, Vec::new());
        for span in [Span::Day, Span::Hour, Span::Minute] {
            if span > self.span {
                continue;
            }
            let closed = app.store.mark(RollupMark::Sums(span)).await?.unwrap_or(Timestamp::MIN);
            let end = span.start_of(self.to.min(closed));
            if at < end {
                sums.extend(rollups(app, account, destination, RollupKind::Sums(span), at, end).await?);
                at = end;
            }
        }
        if at >= self.to {
            return Ok((sums, self.to));
        }
        let minutes = RollupKind::Sums(Span::Minute);
        // No more of them is open than this, whatever has become of who sums them up.
        let open_from = at.max(self.now.minus(limits::ROLLUP_MINUTES_KEPT));
        let mut open = rollups(app, account, destination, minutes, open_from, self.to).await?;
        let mut as_of = added_up(app, destination).await?.clamp(at, self.to);
        if self.to == self.now {
            let tail = app.store.sum_tail(account, destination, at, limits::STATS_TAIL).await?;
            if tail.until.is_none() {
                let mut known = Sums::default();
                open.iter().for_each(|(_, sums)| known.add(sums));
                // It is of the last seconds, and told as of the present minute until it is in its own.
                open.push((Span::Minute.start_of(self.now), tail.sums.without(&known)));
                as_of = self.to;
            }
        }
        sums.append(&mut open);
        Ok((sums, as_of))
    }

    /// What the owners of lanes noted: longer spans as far as they are summed up, then minutes.
    async fn lanes(
        &self,
        app: &App,
        account: AccountId,
        destination: Option<DestinationId>,
    ) -> Result<Vec<(Timestamp, LaneSums)>, ApiError> {
        let (mut at, mut found) = (self.from, Vec::new());
        for span in [Span::Day, Span::Hour] {
            if span > self.span {
                continue;
            }
            let closed = app.store.mark(RollupMark::Lanes(span)).await?.unwrap_or(Timestamp::MIN);
            let end = span.start_of(self.to.min(closed));
            if at < end {
                found.extend(lane_rollups(app, account, destination, span, at, end).await?);
                at = end;
            }
        }
        at = at.max(self.now.minus(limits::ROLLUP_MINUTES_KEPT + MINUTES_LATE));
        if at < self.to {
            found.extend(lane_rollups(app, account, destination, Span::Minute, at, self.to).await?);
        }
        Ok(found)
    }
}

/// Minutes go with the pass after they have had their time.
const MINUTES_LATE: Duration = Duration::from_secs(3_600);

/// As all owners saw it together, oldest first. What a newer version wrote otherwise is passed over.
async fn lane_rollups(
    app: &App,
    account: AccountId,
    destination: Option<DestinationId>,
    span: Span,
    from: Timestamp,
    to: Timestamp,
) -> Result<BTreeMap<Timestamp, LaneSums>, ApiError> {
    let mut found: BTreeMap<Timestamp, LaneSums> = BTreeMap::new();
    for (at, doc) in app.store.lane_rollups(account, destination, span, from, to).await? {
        if let Some(sums) = LaneSums::read(&doc) {
            found.entry(at).or_default().beside(&sums, destination.is_none());
        }
    }
    Ok(found)
}
