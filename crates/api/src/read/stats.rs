//! Statistics: read from what was summed up, and what has happened since. However long the history is, a request reads
//! a bounded number of rows.

use crate::{app::App, error::ApiError, views};
use contract::{DestinationStatsView, FanoutStatsView, StatsQuery, StatsView};
use domain::{
    id::{AccountId, DestinationId},
    limits,
    rollup::{FanoutSums, Span, Sums},
    time::Timestamp,
};
use serde::de::DeserializeOwned;
use std::time::Duration;
use store::{RollupKind, RollupMark, SummedTail};

/// What happened in an account: totals, by status, and day by day.
pub async fn stats(app: &App, account: AccountId, query: &StatsQuery) -> Result<StatsView, ApiError> {
    let window = StatsWindow::of(query, app.now(), limits::STATS_OVER_DEFAULT)?;
    let found = window.read(app, account, None).await?;
    let waiting = waiting(app, account).await?;
    Ok(views::stats(window.from, window.to, found.as_of, &found.spans, waiting))
}

/// How fan-outs went.
pub async fn fanout_stats(
    app: &App,
    account: AccountId,
    query: &StatsQuery,
) -> Result<FanoutStatsView, ApiError> {
    let mut window = StatsWindow::of(query, app.now(), limits::STATS_OVER_DESTINATION)?;
    window.widen_to_hours(app.now());
    let mark = async |mark| app.store.mark(mark).await.map(|at| at.unwrap_or(Timestamp::MIN));
    let hours =
        mark(RollupMark::FanoutHour(limits::FANOUT_HOURS_AFTER[0])).await?.clamp(window.from, window.to);
    let minutes = mark(RollupMark::FanoutMinute).await?;
    let mut sums = FanoutSums::default();
    for (kind, from, to) in [
        (RollupKind::Fanout(Span::Hour), window.from, hours),
        (RollupKind::Fanout(Span::Minute), hours, minutes.min(window.to)),
    ] {
        for (_, found) in rollups::<FanoutSums>(app, account, None, kind, from, to).await? {
            sums.add(&found);
        }
    }
    let as_of = minutes.max(hours).min(window.to);
    Ok(views::fanout_stats(window.from, window.to, as_of, &sums))
}

/// How a destination does.
pub async fn destination_stats(
    app: &App,
    account: AccountId,
    id: DestinationId,
    query: &StatsQuery,
) -> Result<DestinationStatsView, ApiError> {
    app.store.destination(account, id).await?;
    let window = StatsWindow::of(query, app.now(), limits::STATS_OVER_DESTINATION)?;
    let found = window.read(app, account, Some(id)).await?;
    Ok(views::destination_stats(window.from, window.to, found.as_of, window.span, &found.spans))
}

/// What is asked for, in whole spans.
struct StatsWindow {
    from: Timestamp,
    to: Timestamp,
    /// The shortest that is known so far back.
    span: Span,
    now: Timestamp,
}

/// What was found, oldest first, and up to when it is complete.
struct SummedSpans {
    spans: Vec<(Timestamp, Sums)>,
    as_of: Timestamp,
}

impl StatsWindow {
    fn of(query: &StatsQuery, now: Timestamp, by_default: Duration) -> Result<Self, ApiError> {
        let until = query.until.unwrap_or(now).min(now);
        let since = query.since.unwrap_or(until.minus(by_default));
        if since >= until {
            let detail = "must lie before `until`, and not in the future";
            return Err(ApiError::invalid_field("/since", "out_of_range", detail));
        }
        let since = since.max(now.minus(limits::STATS_OVER_MAX));
        let age = now.since(since);
        let span = if age < limits::ROLLUP_MINUTES_KEPT {
            Span::Minute
        } else if age < limits::ROLLUP_HOURS_KEPT {
            Span::Hour
        } else {
            Span::Day
        };
        Ok(Self { from: span.start_of(since), to: span.start_after(until).min(now), span, now })
    }

    /// Fan-outs are summed up by the hour, and kept so for long.
    fn widen_to_hours(&mut self, now: Timestamp) {
        let kept = Span::Hour.start_after(now.minus(limits::FANOUT_HOURS_KEPT));
        self.from = Span::Hour.start_of(self.from).max(kept);
        self.to = Span::Hour.start_after(self.to).min(now).max(self.from);
    }

    /// Days as far as they are summed up, then hours, then minutes, then what has happened since.
    async fn read(
        &self,
        app: &App,
        account: AccountId,
        destination: Option<DestinationId>,
    ) -> Result<SummedSpans, ApiError> {
        let (mut at, mut spans) = (self.from, Vec::new());
        for span in [Span::Day, Span::Hour, Span::Minute] {
            if span > self.span {
                continue;
            }
            let closed = app.store.mark(RollupMark::Sums(span)).await?.unwrap_or(Timestamp::MIN);
            let end = span.start_of(self.to.min(closed));
            if at < end {
                spans.extend(rollups(app, account, destination, RollupKind::Sums(span), at, end).await?);
                at = end;
            }
        }
        if at >= self.to {
            return Ok(SummedSpans { spans, as_of: self.to });
        }
        let added_up = added_up(app, destination).await?;
        // A few facts are read here and now; what is asked for up to an earlier moment is told by whole minutes.
        if self.to == self.now {
            let SummedTail { sums, until } =
                app.store.sum_tail(account, destination, at, limits::STATS_TAIL).await?;
            if until.is_none_or(|until| until >= added_up) {
                // The last minutes, as a rule: they are told as the present one.
                spans.push((self.now, sums));
                let as_of = until.map_or(self.to, |until| until.clamp(at, self.to));
                return Ok(SummedSpans { spans, as_of });
            }
        }
        if at < added_up {
            let kind = RollupKind::Sums(Span::Minute);
            spans.extend(rollups(app, account, destination, kind, at, self.to).await?);
        }
        Ok(SummedSpans { spans, as_of: added_up.clamp(at, self.to) })
    }
}

/// Up to when the open minutes have everything.
pub(super) async fn added_up(app: &App, destination: Option<DestinationId>) -> Result<Timestamp, ApiError> {
    let mark = match destination {
        None => RollupMark::OpenAccounts,
        Some(_) => RollupMark::OpenDestinations,
    };
    Ok(app.store.mark(mark).await?.unwrap_or(Timestamp::MIN))
}

/// Rollups of a kind. What a newer version wrote otherwise is passed over.
pub(super) async fn rollups<T: DeserializeOwned>(
    app: &App,
    account: AccountId,
    destination: Option<DestinationId>,
    kind: RollupKind,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<(Timestamp, T)>, ApiError> {
    if from >= to {
        return Ok(Vec::new());
    }
    let rows = app.store.rollups(account, destination, kind, from, to).await?;
    let known = |(at, doc): (Timestamp, String)| serde_json::from_str(&doc).ok().map(|sums| (at, sums));
    Ok(rows.into_iter().filter_map(known).collect())
}

/// What waits in an account now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    pub waiting: u64,
    pub oldest_due_at: Option<Timestamp>,
    pub waiting_max: u64,
}

/// How much waits, for how long, and how much may.
pub async fn waiting(app: &App, account: AccountId) -> Result<Waiting, ApiError> {
    let (now, limit) = (app.now(), limits::OLDEST_DUE_LOOKED_AT);
    let oldest_due_at = app.store.oldest_due(account, now, limit).await?;
    let cap = app.config.backlog.of(&app.limits_of(account).await?.quotas);
    let waiting = count_waiting(app, account).await?;
    Ok(Waiting { waiting, oldest_due_at, waiting_max: cap.rows })
}

/// Counted while they are few, else as they are counted for the backlog's sake.
async fn count_waiting(app: &App, account: AccountId) -> Result<u64, ApiError> {
    let most = limits::QUEUED_EVENTS_EXACT as usize + 1;
    let counted = app.store.count_waiting(account, most).await?;
    if counted < most as u64 {
        return Ok(counted);
    }
    let backlogs = app.store.account_backlogs(limits::BACKLOG_ACCOUNTS).await?;
    let own = backlogs.iter().find(|backlog| backlog.account_id == account);
    Ok(own.map_or(counted, |backlog| backlog.rows.max(counted)))
}
