//! The exchange of shards with the other nodes: looks at the roster and carries out what follows from it. Takes what is
//! free, asks for shards, drains and gives those that others ask for, and in the end gives everything.

use super::{
    Owner, Stops,
    renewal::{MembershipEnd, RenewalStatus},
};
use crate::dispatcher::{Message, ShardReport};
use domain::{
    id::NodeId,
    limits,
    ownership::{MemberView, Ownership, Plan},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::{OwnedShard, Roster, RosterStamp, StoreError};
use tokio::{sync::watch, time::Instant};

/// Runs for one membership: until it is told to leave, or finds that it is no member any more.
pub(super) async fn run(
    owner: &mut Owner,
    renewal_status: watch::Receiver<RenewalStatus>,
    stops: &Stops,
) -> MembershipEnd {
    let ownership = Ownership::new(owner.node.id, owner.node.role.owns_lanes());
    let mut exchange = ShardExchange {
        me: owner.node.id,
        owner,
        renewal_status,
        ownership,
        rounds: BTreeMap::new(),
        round: 0,
        drained: BTreeSet::new(),
        seen: None,
        read_at: None,
        next_look: Instant::now(),
        leaving: false,
    };
    exchange.run(stops).await
}

struct ShardExchange<'a> {
    owner: &'a mut Owner,
    me: NodeId,
    renewal_status: watch::Receiver<RenewalStatus>,
    ownership: Ownership,
    /// The drain each draining shard is in: a report about an earlier one says nothing.
    rounds: BTreeMap<u16, u64>,
    round: u64,
    /// Have drained and are to be given up.
    drained: BTreeSet<u16>,
    /// The stamp of the roster that was read last, and when that was.
    seen: Option<RosterStamp>,
    read_at: Option<Instant>,
    next_look: Instant,
    leaving: bool,
}

/// What makes it act.
enum Occasion {
    Look { read: bool },
    Reports,
    Overdue,
    Leave,
    Left,
    Nothing,
}

impl ShardExchange<'_> {
    async fn run(&mut self, stops: &Stops) -> MembershipEnd {
        loop {
            let next = self.next(stops).await;
            supervisor::failpoint();
            let done = match next {
                Occasion::Look { read } => {
                    // A look that fails is tried again soon: another node may wait for what we would give.
                    self.next_look = Instant::now() + limits::MEMBERSHIP_LOOK;
                    self.look(read).await
                }
                Occasion::Reports => self.release().await,
                Occasion::Overdue => self.take_back().await,
                Occasion::Leave => self.begin_to_leave().await,
                Occasion::Left => {
                    self.leave().await;
                    return MembershipEnd::Left;
                }
                Occasion::Nothing => continue,
            };
            if let Err(StoreError::NodeLost) = done {
                return MembershipEnd::Lost;
            }
            if let Err(error) = done {
                tracing::debug!(%error, "ownership could not be seen to; trying again");
                self.seen = None;
                self.next_look = Instant::now() + limits::MEMBERSHIP_LOOK;
            }
            self.note();
        }
    }

    async fn next(&mut self, stops: &Stops) -> Occasion {
        let overdue = self.ownership.next_overdue().map(|at| self.instant(at));
        let alone = self.owner.ownership_view.is_alone() && self.seen.is_some();
        tokio::select! {
            biased;
            () = stops.leave.cancelled() => Occasion::Left,
            () = stops.drain.cancelled(), if !self.leaving => Occasion::Leave,
            Some(report) = self.owner.reports.recv() => {
                self.reported(report);
                while let Ok(report) = self.owner.reports.try_recv() {
                    self.reported(report);
                }
                Occasion::Reports
            }
            () = sleep_until(overdue) => Occasion::Overdue,
            () = self.owner.membership_moved.notified() => Occasion::Look { read: true },
            Ok(()) = self.renewal_status.changed() => {
                let stamp = self.renewal_status.borrow_and_update().stamp;
                if stamp == self.seen { Occasion::Nothing } else { Occasion::Look { read: false } }
            }
            () = tokio::time::sleep_until(self.next_look), if !alone => Occasion::Look { read: false },
        }
    }

    fn reported(&mut self, report: ShardReport) {
        let ShardReport::Drained(shards) = report else { return };
        let current = |(shard, round): &(u16, u64)| self.rounds.get(shard) == Some(round);
        self.drained.extend(shards.iter().filter(|it| current(it)).map(|(shard, _)| *shard));
    }

    /// Reaps nodes whose leases have ended, and if anything has changed reads the roster and does what the plan says.
    async fn look(&mut self, read: bool) -> Result<(), StoreError> {
        let store = Arc::clone(&self.owner.joiner.store);
        let stamp = store.roster_stamp().await?;
        let mut read = read || self.seen != Some(stamp) || stamp.free > 0;
        read |= self.read_at.is_none_or(|at| at.elapsed() >= limits::MEMBERSHIP_READ);
        let steadiness = self.renewal_status.borrow().steadiness;
        if stamp.expired > 0 && steadiness.may_reap(self.owner.joiner.length, self.now()) {
            let reaped = store.reap(self.me).await?;
            if !reaped.is_empty() {
                tracing::info!(nodes = ?reaped, "their leases have ended: their shards are free");
                self.owner.outbox.membership_moved();
                read = true;
            }
        }
        if !read {
            return self.release().await;
        }
        let roster = Arc::new(store.roster().await?);
        if !roster.members.iter().any(|member| member.record.id == self.me) {
            return Err(StoreError::NodeLost);
        }
        self.seen = Some(stamp);
        self.read_at = Some(Instant::now());
        self.owner.ownership_view.roster_read(Arc::clone(&roster));
        let plan = self.ownership.plan(&member_views(&roster), &roster.shards, self.now());
        self.carry_out(plan).await?;
        self.release().await
    }

    /// The dispatcher is told before the store is asked: what fails there is tried again at the next look.
    async fn carry_out(&mut self, plan: Plan) -> Result<(), StoreError> {
        let Plan { lost, gained, take, ask, drain, undrain, keep } = plan;
        let store = Arc::clone(&self.owner.joiner.store);
        if !lost.is_empty() {
            tracing::info!(shards = lost.len(), "shards are another node's now");
            self.forget_rounds(&lost);
            self.owner.tell(Message::Lost(lost)).await;
        }
        self.gain(gained).await;
        if !undrain.is_empty() {
            self.forget_rounds(&undrain);
            self.owner.tell(Message::Undrain(undrain)).await;
        }
        self.drain(drain).await;
        if take > 0 {
            let taken = store.take_shards(self.me, take).await?;
            self.ownership.taken(&taken);
            self.gain(taken).await;
        }
        if !ask.is_empty() {
            store.ask_shards(self.me, &ask).await?;
            self.owner.outbox.membership_moved();
        }
        if !keep.is_empty() {
            store.keep_shards(self.me, &keep).await?;
            self.owner.outbox.membership_moved();
        }
        Ok(())
    }

    /// The dispatcher is told before a rescan looks what waits there, so that what is found is not thrown away.
    async fn gain(&mut self, gained: Vec<OwnedShard>) {
        if gained.is_empty() {
            return;
        }
        tracing::info!(shards = gained.len(), owned = self.ownership.held().len(), "shards are ours now");
        let shards: Vec<u16> = gained.iter().map(|gained| gained.shard).collect();
        self.owner.tell(Message::Gained(gained)).await;
        self.note();
        self.owner.rescans.ask(shards);
        self.owner.outbox.membership_moved();
    }

    async fn drain(&mut self, shards: Vec<u16>) {
        if !shards.is_empty() {
            self.round += 1;
            self.rounds.extend(shards.iter().map(|shard| (*shard, self.round)));
            self.owner.tell(Message::Drain(shards, self.round)).await;
        }
    }

    /// Gives up what has drained.
    async fn release(&mut self) -> Result<(), StoreError> {
        let drained: Vec<u16> = self.drained.iter().copied().collect();
        let release = self.ownership.to_release(&drained);
        self.drained = release.iter().map(|it| it.shard).collect();
        if release.is_empty() {
            return Ok(());
        }
        self.ownership.in_doubt(&release);
        let answer = self.owner.joiner.store.release_shards(self.me, &release).await;
        if !matches!(answer, Err(StoreError::OutcomeUnknown(_))) {
            self.ownership.not_released(&release);
        }
        let given = answer?;
        self.drained.clear();
        self.ownership.released(&given);
        self.forget_rounds(&given);
        tracing::info!(shards = given.len(), "shards were given up");
        self.owner.tell(Message::Lost(given)).await;
        self.owner.outbox.membership_moved();
        Ok(())
    }

    /// Takes back what has not drained in time.
    async fn take_back(&mut self) -> Result<(), StoreError> {
        let overdue = self.ownership.overdue(self.now());
        if overdue.is_empty() {
            return Ok(());
        }
        tracing::info!(shards = ?overdue, "requests hang: these shards stay");
        self.ownership.kept(&overdue, self.now());
        self.forget_rounds(&overdue);
        self.owner.tell(Message::Undrain(overdue.clone())).await;
        self.owner.joiner.store.keep_shards(self.me, &overdue).await?;
        self.owner.outbox.membership_moved();
        Ok(())
    }

    /// Everything drains, and the others are named as heirs, so that each shard goes straight to its next owner.
    async fn begin_to_leave(&mut self) -> Result<(), StoreError> {
        self.leaving = true;
        let store = Arc::clone(&self.owner.joiner.store);
        let Ok(roster) = store.roster().await else {
            // Without the roster there are no heirs: the shards are free when our row is gone.
            self.ownership.leave(&[], &[], self.now());
            return Ok(());
        };
        let member_views = member_views(&roster);
        let bequests = self.ownership.leave(&member_views, &roster.shards, self.now());
        if !member_views.iter().any(|it| it.id != self.me && it.owns_lanes && !it.expired) {
            return Ok(());
        }
        let mut named = Ok(());
        for (heir, shards) in bequests {
            for some in shards.chunks(limits::SHARDS_ASKED) {
                named = named.and(store.ask_shards(heir, some).await);
            }
        }
        self.drain(self.ownership.held().collect()).await;
        named
    }

    async fn leave(&mut self) {
        // The dispatcher has ended: whatever is still ours has nothing open any more.
        self.drained = self.ownership.held().collect();
        if let Err(error) = self.release().await {
            tracing::debug!(%error, "the last shards were not given up");
        }
        let store = &self.owner.joiner.store;
        match store.leave(self.me).await {
            Ok(()) if self.owner.ownership_view.is_alone() => {}
            Ok(()) => {
                // The outbox may be gone before it speaks again.
                let _ = store.tell(&[store::News::Roster]).await;
            }
            Err(error) => tracing::warn!(%error, "this node's row stays behind until its lease ends"),
        }
    }

    /// What the rest of the engine may know.
    fn note(&self) {
        let alone = self.ownership.holds_all() && self.seen.is_some_and(|seen| seen.members == 1);
        self.owner.ownership_view.owns(self.ownership.held(), alone);
    }

    fn forget_rounds(&mut self, shards: &[u16]) {
        for shard in shards {
            self.rounds.remove(shard);
            self.drained.remove(shard);
        }
    }

    fn now(&self) -> Duration {
        self.owner.joiner.lease.now()
    }

    fn instant(&self, at: Duration) -> Instant {
        Instant::now() + at.saturating_sub(self.now())
    }
}

fn member_views(roster: &Roster) -> Vec<MemberView> {
    let member_view = |member: &store::Member| MemberView {
        id: member.record.id,
        owns_lanes: member.record.role.owns_lanes(),
        expired: member.expired,
    };
    roster.members.iter().map(member_view).collect()
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
