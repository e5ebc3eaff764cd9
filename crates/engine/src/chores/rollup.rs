//! Sums up what happened: minutes soon after their end, hours and days later, when what came late is there too. One node
//! does it at a time. How far it has come is written down, so that the next node goes on there; a span that was
//! summed up twice says the same as one that was summed up once.
//!
//! Two loops: minutes are not to wait while a day is read again. A third one is ahead of them: [`open`].

mod lanes;
pub(super) mod open;

use crate::chores::term::{ChoreTerm, Stopped};
use domain::{
    id::{AccountId, DestinationId, EventId},
    limits,
    rollup::{FanoutSums, Span, Sums},
    time::{Clock, Timestamp},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{Rollup, RollupKind, RollupMark, Store, failpoint};
use tokio::time::Instant;

/// Which spans a loop looks after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SpanGroup {
    Minutes,
    HoursAndDays,
}

pub(super) struct RollUp {
    span_group: SpanGroup,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chore_term: ChoreTerm,
    every: Duration,
}

impl RollUp {
    pub(super) fn new(span_group: SpanGroup, chore_term: ChoreTerm, every: Duration) -> Self {
        let (store, clock) = (Arc::clone(&chore_term.store), Arc::clone(&chore_term.clock));
        Self { span_group, store, clock, chore_term, every }
    }

    pub(super) async fn run(mut self) {
        loop {
            supervisor::failpoint();
            tokio::time::sleep(self.every).await;
            if let Err(Stopped::Trouble(error)) = self.pass().await {
                tracing::warn!(%error, "statistics could not be summed up; trying again later");
            }
        }
    }

    async fn pass(&mut self) -> Result<(), Stopped> {
        match self.span_group {
            SpanGroup::Minutes => {
                self.sums(Span::Minute).await?;
                self.fanouts(RollupMark::FanoutMinute, Span::Minute, limits::ROLLUP_MINUTE_AFTER).await?;
                self.prune(RollupKind::Sums(Span::Minute), limits::ROLLUP_MINUTES_KEPT).await?;
                self.prune(RollupKind::Fanout(Span::Minute), limits::ROLLUP_MINUTES_KEPT).await
            }
            SpanGroup::HoursAndDays => {
                self.sums(Span::Hour).await?;
                // Before the fan-outs: nothing is forgotten before its day is summed up, whatever may befall those.
                self.sums(Span::Day).await?;
                self.lanes(Span::Hour).await?;
                self.lanes(Span::Day).await?;
                for hours in limits::FANOUT_HOURS_AFTER {
                    let after = Span::Hour.length() * u32::from(hours);
                    self.fanouts(RollupMark::FanoutHour(hours), Span::Hour, after).await?;
                }
                self.prune(RollupKind::Sums(Span::Hour), limits::ROLLUP_HOURS_KEPT).await?;
                self.prune_lanes(Span::Minute, limits::ROLLUP_MINUTES_KEPT).await?;
                self.prune_lanes(Span::Hour, limits::ROLLUP_HOURS_KEPT).await?;
                self.prune(RollupKind::Fanout(Span::Hour), limits::FANOUT_HOURS_KEPT).await
            }
        }
    }

    /// Sums up the spans that have ended long enough ago.
    async fn sums(&mut self, span: Span) -> Result<(), Stopped> {
        let (after, kept) = match span {
            Span::Minute => (limits::ROLLUP_MINUTE_AFTER, Some(limits::ROLLUP_MINUTES_KEPT)),
            Span::Hour => (limits::ROLLUP_HOUR_AFTER, Some(limits::ROLLUP_HOURS_KEPT)),
            Span::Day => (limits::ROLLUP_DAY_AFTER, None),
        };
        let mark = RollupMark::Sums(span);
        while let Some((from, to)) = self.next(mark, span, after, kept).await? {
            let sums = self.sum(span, from, to).await?;
            let row =
                |((account_id, destination_id), sums): ((AccountId, Option<DestinationId>), Sums)| Rollup {
                    account_id,
                    destination_id,
                    kind: RollupKind::Sums(span),
                    starts_at: from,
                    doc: sums.doc(),
                };
            self.close(mark, to, sums.into_iter().map(row).collect()).await?;
        }
        Ok(())
    }

    /// The span that comes next, if its time has come.
    async fn next(
        &mut self,
        mark: RollupMark,
        span: Span,
        after: Duration,
        kept: Option<Duration>,
    ) -> Result<Option<(Timestamp, Timestamp)>, Stopped> {
        self.chore_term.term().await?;
        let now = self.clock.now();
        let mut from = match self.store.mark(mark).await? {
            Some(closed) => closed,
            None => span.start_of(self.store.oldest_event().await?.unwrap_or(now).min(now)),
        };
        if let Some(kept) = kept {
            from = from.max(span.start_of(now.minus(kept)));
        }
        let to = from.plus(span.length());
        Ok((to.plus(after) <= now).then_some((from, to)))
    }

    async fn sum(
        &mut self,
        span: Span,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<BTreeMap<(AccountId, Option<DestinationId>), Sums>, Stopped> {
        let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
        let mut at = None;
        loop {
            self.chore_term.term().await?;
            let began = Instant::now();
            let step = self.store.sum_facts(span, from, to, at).await?;
            for ((account, destination), found) in &step.sums {
                sums.entry((*account, None)).or_default().add(found);
                sums.entry((*account, Some(*destination))).or_default().add(found);
            }
            breathe(began).await;
            at = step.next;
            if at.is_none() {
                break;
            }
        }
        let mut minute = from;
        while minute < to {
            self.chore_term.term().await?;
            let (began, end) = (Instant::now(), minute.plus(Span::Minute.length()));
            let counts = self.store.count_events(minute, end).await?;
            for count in &counts {
                let sum = sums.entry((count.account_id, None)).or_default();
                sum.events += count.events;
                sum.deliveries += count.deliveries;
            }
            breathe(began).await;
            minute = end;
        }
        Ok(sums)
    }

    /// How the fan-outs of the events of a span went, as far as it can be known so long after.
    async fn fanouts(&mut self, mark: RollupMark, span: Span, after: Duration) -> Result<(), Stopped> {
        let kept = match span {
            Span::Minute => limits::ROLLUP_MINUTES_KEPT,
            _ => limits::FANOUT_HOURS_KEPT,
        };
        while let Some((starts_at, to)) = self.next(mark, span, after, Some(kept)).await? {
            let mut all: BTreeMap<AccountId, FanoutSums> = BTreeMap::new();
            let mut from = Some(EventId::at(starts_at, 0));
            while let Some(begin) = from {
                self.chore_term.term().await?;
                let began = Instant::now();
                let (sums, next) = self.store.sum_fanouts(begin, to, limits::ROLLUP_FANOUTS).await?;
                for (account, found) in &sums {
                    all.entry(*account).or_default().add(found);
                }
                breathe(began).await;
                from = next;
            }
            let (kind, mut rows) = (RollupKind::Fanout(span), Vec::new());
            for (account_id, sums) in all {
                // Some of its events may have had their time since it was summed up last.
                let known = self.store.rollups(account_id, None, kind, starts_at, to).await?;
                let knows = |doc: &String| FanoutSums::read(doc).map_or(0, |known| known.events);
                if known.first().is_none_or(|(_, doc)| knows(doc) <= sums.events) {
                    rows.push(Rollup { account_id, destination_id: None, kind, starts_at, doc: sums.doc() });
                }
            }
            self.close(mark, to, rows).await?;
        }
        Ok(())
    }

    async fn close(&mut self, mark: RollupMark, until: Timestamp, rows: Vec<Rollup>) -> Result<(), Stopped> {
        for chunk in rows.chunks(limits::ROLLUP_ROWS) {
            let (term, began) = (self.chore_term.term().await?, Instant::now());
            failpoint::hit("rollup.before");
            if !self.store.write_rollups(term, chunk).await? {
                return Err(Stopped::TermOver);
            }
            breathe(began).await;
        }
        let term = self.chore_term.term().await?;
        failpoint::hit("rollup.after");
        match self.store.write_mark(term, mark, until).await? {
            true => Ok(()),
            false => Err(Stopped::TermOver),
        }
    }

    async fn prune(&mut self, kind: RollupKind, kept: Duration) -> Result<(), Stopped> {
        let before = self.clock.now().minus(kept);
        loop {
            let (term, began) = (self.chore_term.term().await?, Instant::now());
            let pruned = self.store.prune_rollups(term, kind, before, limits::PRUNE_STEP).await?;
            if pruned.ok_or(Stopped::TermOver)? < limits::PRUNE_STEP {
                return Ok(());
            }
            breathe(began).await;
        }
    }
}

/// Twice as long as the step took, so that this never is what the store does most of.
async fn breathe(began: Instant) {
    let pause = (2 * began.elapsed()).min(limits::PRUNE_BREATH);
    match pause < Duration::from_millis(1) {
        true => tokio::task::yield_now().await,
        false => tokio::time::sleep(pause).await,
    }
}
