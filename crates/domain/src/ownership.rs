//! Which node owns which shard, and what a node does about it: a pure state machine, one per membership of a node.
//!
//! It is told what happens (what was taken, given, drained) and shown the members and the shards at
//! one moment; it answers with a [`Plan`]. Every node comes to the same shares from the same picture: so many shards each,
//! the remainder to the lowest ids. A node below its share takes what is free, then asks those above theirs, a few at a
//! time; the owner stops starting on them, finishes, and gives them over. What does not drain in time stays.
//!
//! Time is monotonic, counted from wherever the caller likes; no clocks are compared.

use crate::{
    id::{NodeId, SHARDS},
    limits,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A node that has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberView {
    pub id: NodeId,
    /// Has a share of the shards.
    pub owns_lanes: bool,
    /// Its lease has ended and it has not been reaped: it may come back, so it keeps its share, but nothing is asked of it.
    pub expired: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRow {
    pub shard: u16,
    /// None: it is free.
    pub owner: Option<NodeId>,
    pub epoch: i64,
    /// A member that would like to have it.
    pub wanted_by: Option<NodeId>,
}

/// A shard, and the epoch at which it came to be owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedShard {
    pub shard: u16,
    pub epoch: i64,
}

/// What to do now, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// No longer ours: drop their lanes.
    pub lost: Vec<u16>,
    /// Ours since another node gave them to us.
    pub gained: Vec<OwnedShard>,
    /// So many free ones to take.
    pub take: usize,
    /// Of others' shards, those to ask for.
    pub ask: Vec<u16>,
    /// Wanted by another node that is to have them: start nothing more there, finish, give them up.
    pub drain: Vec<u16>,
    /// Were being drained, and no node wants them any more or we can no longer spare them.
    pub undrain: Vec<u16>,
    /// Wanted by another and not given.
    pub keep: Vec<u16>,
}

/// What one member knows of its own.
#[derive(Debug)]
pub struct Ownership {
    me: NodeId,
    owns_lanes: bool,
    held: BTreeMap<u16, Holding>,
    /// When others' shards were last asked for: what was declined is not asked for again at once.
    asked: BTreeMap<u16, Duration>,
    /// Since when there has been something free.
    free_since: Option<Duration>,
    leaving: bool,
}

#[derive(Debug, Clone, Copy)]
struct Holding {
    epoch: i64,
    draining_since: Option<Duration>,
    /// Has been given up as far as we know, and the store has not confirmed it: there is no way back but the next look at the shards.
    in_doubt: bool,
    /// When it was last taken back because it did not drain.
    kept_at: Option<Duration>,
}

impl Ownership {
    /// A member that has just joined, and holds nothing.
    pub fn new(me: NodeId, owns_lanes: bool) -> Self {
        Self {
            me,
            owns_lanes,
            held: BTreeMap::new(),
            asked: BTreeMap::new(),
            free_since: None,
            leaving: false,
        }
    }

    // --- Things that happen ----------------------------------------------------------------------------------------

    /// These were free and are ours now.
    pub fn taken(&mut self, shards: &[OwnedShard]) {
        for OwnedShard { shard, epoch } in shards {
            let draining_since = self.leaving.then_some(Duration::ZERO);
            self.held
                .insert(*shard, Holding { epoch: *epoch, draining_since, in_doubt: false, kept_at: None });
        }
    }

    /// They have been given up.
    pub fn released(&mut self, shards: &[u16]) {
        for shard in shards {
            self.held.remove(shard);
        }
    }

    /// Whether they have been given up is not known: they are not taken back, but given up again until there is an
    /// answer. Otherwise two nodes would own them.
    pub fn in_doubt(&mut self, shards: &[OwnedShard]) {
        for OwnedShard { shard, .. } in shards {
            if let Some(holding) = self.held.get_mut(shard) {
                holding.in_doubt = true;
            }
        }
    }

    /// They have certainly not been given up.
    pub fn not_released(&mut self, shards: &[OwnedShard]) {
        for OwnedShard { shard, .. } in shards {
            if let Some(holding) = self.held.get_mut(shard) {
                holding.in_doubt = false;
            }
        }
    }

    /// They did not drain in time and have been taken back.
    pub fn kept(&mut self, shards: &[u16], now: Duration) {
        for shard in shards {
            if let Some(holding) = self.held.get_mut(shard) {
                *holding = Holding { draining_since: None, kept_at: Some(now), ..*holding };
            }
        }
    }

    // --- What to do ------------------------------------------------------------------------------------------------

    /// Compares the members and the shards with what we hold, and says what follows.
    pub fn plan(&mut self, members: &[MemberView], shards: &[ShardRow], now: Duration) -> Plan {
        let mut plan = Plan::default();
        self.reconcile(shards, &mut plan);
        let book = Book::new(members, shards);
        if !self.owns_lanes || !book.shares.contains_key(&self.me) {
            return plan;
        }
        if self.leaving {
            plan.drain = plan.gained.iter().map(|gained| gained.shard).collect();
            return plan;
        }
        self.give(members, shards, &book, now, &mut plan);
        let missing = book.share(self.me).saturating_sub(self.held.len());
        plan.take = self.take(&book, missing, now);
        if plan.take == 0 && missing > 0 {
            plan.ask = self.ask(shards, &book, missing, now);
        }
        plan
    }

    /// We are going: everything drains, and this is which node gets what. From now on nothing is taken and nothing is asked for.
    pub fn leave(
        &mut self,
        members: &[MemberView],
        shards: &[ShardRow],
        now: Duration,
    ) -> BTreeMap<NodeId, Vec<u16>> {
        self.leaving = true;
        for holding in self.held.values_mut() {
            holding.draining_since.get_or_insert(now);
        }
        let heirs: Vec<MemberView> =
            members.iter().copied().filter(|it| it.id != self.me && !it.expired).collect();
        let mut book = Book::new(&heirs, shards);
        let mut bequests: BTreeMap<NodeId, Vec<u16>> = BTreeMap::new();
        for row in shards {
            let promised = row.wanted_by.is_some_and(|by| book.shares.contains_key(&by));
            if row.owner != Some(self.me) || promised {
                continue;
            }
            let room = |id: &NodeId| book.share(*id) as i64 - book.count(*id) as i64;
            // The lowest id of those with the most room.
            let Some(heir) = book.shares.keys().copied().rev().max_by_key(room) else { break };
            *book.counts.entry(heir).or_default() += 1;
            bequests.entry(heir).or_default().push(row.shard);
        }
        bequests
    }

    /// Of these shards, in which nothing is open any more, those to be given up.
    pub fn to_release(&self, drained: &[u16]) -> Vec<OwnedShard> {
        let release = |shard: &u16| {
            let holding = self.held.get(shard).filter(|holding| holding.draining_since.is_some())?;
            Some(OwnedShard { shard: *shard, epoch: holding.epoch })
        };
        drained.iter().filter_map(release).collect()
    }

    /// Shards that have not drained in time and are to be taken back. A node that leaves takes nothing back.
    pub fn overdue(&self, now: Duration) -> Vec<u16> {
        let is_over = |holding: &Holding| drain_ends(holding).is_some_and(|at| at <= now);
        let over = self.held.iter().filter(|(_, holding)| !self.leaving && is_over(holding));
        over.map(|(shard, _)| *shard).collect()
    }

    /// When [`Ownership::overdue`] has something to say, if nothing happens before.
    pub fn next_overdue(&self) -> Option<Duration> {
        self.held.values().filter(|_| !self.leaving).filter_map(drain_ends).min()
    }

    // --- What it is like -------------------------------------------------------------------------------------------

    pub fn held(&self) -> impl ExactSizeIterator<Item = u16> + '_ {
        self.held.keys().copied()
    }

    /// Owns everything there is.
    pub fn holds_all(&self) -> bool {
        self.held.len() == usize::from(SHARDS)
    }

    // --- Leaves ----------------------------------------------------------------------------------------------------

    fn reconcile(&mut self, shards: &[ShardRow], plan: &mut Plan) {
        for row in shards {
            let mine = row.owner == Some(self.me);
            let known = self.held.get(&row.shard).map(|holding| holding.epoch);
            if known.is_some() && (!mine || known != Some(row.epoch)) {
                self.held.remove(&row.shard);
                plan.lost.push(row.shard);
            }
            if mine && known != Some(row.epoch) {
                plan.gained.push(OwnedShard { shard: row.shard, epoch: row.epoch });
            }
        }
        self.taken(&plan.gained);
    }

    /// Gives to the nodes that ask as long as we are above our share, and says no to the rest.
    fn give(
        &mut self,
        members: &[MemberView],
        shards: &[ShardRow],
        book: &Book,
        now: Duration,
        plan: &mut Plan,
    ) {
        let alive = |id: NodeId| members.iter().any(|it| it.id == id && it.owns_lanes && !it.expired);
        let wanted: Vec<&ShardRow> =
            shards.iter().filter(|row| row.wanted_by.is_some_and(|by| by != self.me && alive(by))).collect();
        let mut surplus = self.held.len().saturating_sub(book.share(self.me));
        // First those that are on their way: they stay on it while we can spare them.
        let mut going = BTreeSet::new();
        for row in &wanted {
            let draining = self.held.get(&row.shard).is_some_and(|holding| holding.draining_since.is_some());
            if draining && surplus > 0 {
                surplus -= 1;
                going.insert(row.shard);
            }
        }
        for (shard, holding) in &mut self.held {
            if !going.contains(shard) && !holding.in_doubt && holding.draining_since.take().is_some() {
                plan.undrain.push(*shard);
            }
        }
        for row in wanted {
            let Some(holding) = self.held.get_mut(&row.shard) else { continue };
            if going.contains(&row.shard) || holding.in_doubt {
                continue;
            }
            let declined = holding.kept_at.is_some_and(|at| now.saturating_sub(at) < limits::SHARD_KEPT);
            if surplus > 0 && !declined && !plan.undrain.contains(&row.shard) {
                surplus -= 1;
                holding.draining_since = Some(now);
                plan.drain.push(row.shard);
            } else {
                plan.keep.push(row.shard);
            }
        }
    }

    fn take(&mut self, book: &Book, missing: usize, now: Duration) -> usize {
        if book.free == 0 {
            self.free_since = None;
            return 0;
        }
        let since = *self.free_since.get_or_insert(now);
        // The node they would be due to does not come for them: rather too many at one node than waiting at none.
        let unclaimed = now.saturating_sub(since) >= limits::SHARD_FREE;
        if unclaimed { book.free } else { book.free.min(missing) }
    }

    fn ask(&mut self, shards: &[ShardRow], book: &Book, missing: usize, now: Duration) -> Vec<u16> {
        self.asked.retain(|_, at| now.saturating_sub(*at) < limits::SHARD_ASKED_AGAIN);
        let waiting = shards.iter().filter(|row| row.wanted_by == Some(self.me)).count();
        let mut wanted = missing.min(limits::SHARDS_ASKED).saturating_sub(waiting);
        let mut surplus = book.surplus.clone();
        let mut asked = Vec::new();
        // From our own place in the round on, so that two nodes that ask at once ask for different ones.
        let rank = book.shares.keys().position(|id| *id == self.me).unwrap_or(0);
        let start = rank * shards.len() / book.shares.len().max(1);
        for row in shards[start..].iter().chain(&shards[..start]) {
            if wanted == 0 {
                break;
            }
            let free_to_ask = row.wanted_by.is_none() && !self.asked.contains_key(&row.shard);
            let Some(owner) = row.owner.filter(|owner| *owner != self.me && free_to_ask) else { continue };
            let Some(spare) = surplus.get_mut(&owner).filter(|spare| **spare > 0) else { continue };
            *spare -= 1;
            wanted -= 1;
            asked.push(row.shard);
        }
        asked.sort_unstable();
        self.asked.extend(asked.iter().map(|shard| (*shard, now)));
        asked
    }
}

/// How sure a member is of its own lease: only one that renews steadily may judge others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steadiness {
    renewals: u32,
    /// Since when every renewal has come in time.
    since: Duration,
}

impl Steadiness {
    /// Joining counts as the first renewal.
    pub fn renewed(&mut self, now: Duration) {
        if self.renewals == 0 {
            self.since = now;
        }
        self.renewals = self.renewals.saturating_add(1);
    }

    /// A renewal failed or came too late: other nodes that are late may be as innocent as we are.
    pub fn interrupted(&mut self) {
        *self = Self::default();
    }

    /// Whether expired members may be declared dead by us. After an outage of the store every lease has ended:
    /// the node that comes back first waits for the others.
    pub fn may_reap(&self, lease: Duration, now: Duration) -> bool {
        self.renewals >= 2 && now.saturating_sub(self.since) >= lease / 2
    }
}

fn drain_ends(holding: &Holding) -> Option<Duration> {
    holding.draining_since.filter(|_| !holding.in_doubt).map(|since| since + limits::SHARD_DRAIN)
}

/// Shares and counts, the same for every node that sees the same members and shards.
struct Book {
    /// Of every member that owns lanes.
    shares: BTreeMap<NodeId, usize>,
    counts: BTreeMap<NodeId, usize>,
    /// What a member that answers has above its share and no node wants yet.
    surplus: BTreeMap<NodeId, usize>,
    free: usize,
}

impl Book {
    fn new(members: &[MemberView], shards: &[ShardRow]) -> Self {
        let mut owners: Vec<NodeId> = members.iter().filter(|it| it.owns_lanes).map(|it| it.id).collect();
        owners.sort_unstable();
        let (each, over) = match owners.len() {
            0 => (0, 0),
            n => (shards.len() / n, shards.len() % n),
        };
        let share = |(place, id): (usize, NodeId)| (id, each + usize::from(place < over));
        let shares: BTreeMap<NodeId, usize> = owners.into_iter().enumerate().map(share).collect();
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut leaving: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut free = 0;
        for row in shards {
            match row.owner {
                None => free += 1,
                Some(owner) => {
                    *counts.entry(owner).or_default() += 1;
                    *leaving.entry(owner).or_default() += usize::from(row.wanted_by.is_some());
                }
            }
        }
        let asked = members.iter().filter(|it| !it.expired).map(|it| it.id);
        let spare = |id: NodeId| {
            let has = counts.get(&id).copied().unwrap_or(0);
            let due = shares.get(&id).copied().unwrap_or(0) + leaving.get(&id).copied().unwrap_or(0);
            (id, has.saturating_sub(due))
        };
        let surplus = asked.map(spare).collect();
        Self { shares, counts, surplus, free }
    }

    fn share(&self, id: NodeId) -> usize {
        self.shares.get(&id).copied().unwrap_or(0)
    }

    fn count(&self, id: NodeId) -> usize {
        self.counts.get(&id).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
