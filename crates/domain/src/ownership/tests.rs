//! The rules one by one, then a seeded world: nodes that come, go, freeze and die, and a table of shards between them.

use super::*;
use crate::time::Timestamp;
use std::collections::BTreeSet;

const LEASE: Duration = Duration::from_secs(10);

fn node(n: u128) -> NodeId {
    NodeId::at(Timestamp::from_seconds(1_790_000_000), n)
}

fn member_view(n: u128) -> MemberView {
    MemberView { id: node(n), owns_lanes: true, expired: false }
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Fewer than in life, and as many steps in a blink.
const WORLD_SHARDS: usize = 200;

/// All shards, owned as `owner` says.
fn shards(owner: impl Fn(u16) -> Option<NodeId>) -> Vec<ShardRow> {
    (0..SHARDS).map(|shard| ShardRow { shard, owner: owner(shard), epoch: 1, wanted_by: None }).collect()
}

fn member(n: u128) -> Ownership {
    Ownership::new(node(n), true)
}

#[test]
fn who_is_alone_takes_everything() {
    let mut alone = member(1);
    let plan = alone.plan(&[member_view(1)], &shards(|_| None), at(0));
    assert_eq!(plan, Plan { take: 1024, ..Plan::default() });
}

#[test]
fn who_only_listens_takes_nothing() {
    let mut api = Ownership::new(node(1), false);
    let listens = MemberView { owns_lanes: false, ..member_view(1) };
    assert_eq!(api.plan(&[listens], &shards(|_| None), at(60_000)), Plan::default());
}

#[test]
fn free_shards_are_divided_to_the_last_one() {
    let members = [member_view(1), member_view(2), member_view(3)];
    let takes: Vec<usize> =
        (1..=3).map(|n| member(n).plan(&members, &shards(|_| None), at(0)).take).collect();
    assert_eq!(takes, [342, 341, 341]);
}

#[test]
fn what_no_node_comes_for_is_taken_above_ones_share() {
    let members = [member_view(1), member_view(2)];
    let rows = shards(|shard| (shard < 512).then_some(node(1)));
    let mut first = member(1);
    assert_eq!(first.plan(&members, &rows, at(0)).take, 0);
    assert_eq!(first.plan(&members, &rows, at(999)).take, 0);
    assert_eq!(first.plan(&members, &rows, at(1_000)).take, 512);
}

#[test]
fn a_newcomer_asks_for_a_few_at_a_time_and_is_given_them() {
    let members = [member_view(1), member_view(2)];
    let mut rows = shards(|_| Some(node(1)));
    let (mut first, mut second) = (member(1), member(2));
    assert_eq!(first.plan(&members, &rows, at(0)).gained.len(), 1024);
    let asked = second.plan(&members, &rows, at(0)).ask;
    assert_eq!(asked.len(), limits::SHARDS_ASKED);
    for shard in &asked {
        rows[usize::from(*shard)].wanted_by = Some(node(2));
    }
    assert_eq!(
        second.plan(&members, &rows, at(10)).ask,
        Vec::<u16>::new(),
        "not more before the first have come"
    );
    assert_eq!(first.plan(&members, &rows, at(10)).drain, asked);
    assert_eq!(first.plan(&members, &rows, at(20)), Plan::default(), "said once");
    assert_eq!(first.to_release(&asked).len(), asked.len());
}

#[test]
fn a_shard_that_does_not_drain_is_kept_and_left_alone_for_a_while() {
    let members = [member_view(1), member_view(2)];
    let mut rows = shards(|_| Some(node(1)));
    let (mut first, mut second) = (member(1), member(2));
    first.plan(&members, &rows, at(0));
    let asked = second.plan(&members, &rows, at(0)).ask;
    rows[usize::from(asked[0])].wanted_by = Some(node(2));
    assert_eq!(first.plan(&members, &rows, at(0)).drain, [asked[0]]);
    assert_eq!((first.overdue(at(1_999)), first.overdue(at(2_000))), (vec![], vec![asked[0]]));
    first.kept(&[asked[0]], at(2_000));
    assert_eq!(first.to_release(&[asked[0]]), [], "taken back is taken back");
    assert_eq!(first.plan(&members, &rows, at(3_000)).keep, [asked[0]], "asked again too soon");
    rows[usize::from(asked[0])].wanted_by = None;
    let again = second.plan(&members, &rows, at(3_000)).ask;
    assert!(!again.iter().any(|shard| asked.contains(shard)), "declined, and asked for again at once");
}

#[test]
fn what_may_have_been_given_up_is_never_taken_back() {
    let members = [member_view(1), member_view(2)];
    let mut rows = shards(|_| Some(node(1)));
    let mut first = member(1);
    first.plan(&members, &rows, at(0));
    rows[7].wanted_by = Some(node(2));
    first.plan(&members, &rows, at(0));
    let release = first.to_release(&[7]);
    first.in_doubt(&release);
    assert_eq!(first.overdue(at(60_000)), Vec::<u16>::new());
    rows[7].wanted_by = None;
    assert_eq!(
        first.plan(&members, &rows, at(60_000)),
        Plan::default(),
        "what was read may be older than the answer"
    );
    assert_eq!(
        first.to_release(&[7]),
        release,
        "it is given up again, until the store says what became of it"
    );
    first.not_released(&release);
    assert_eq!(first.plan(&members, &rows, at(60_000)).undrain, [7]);
}

#[test]
fn who_is_at_its_share_gives_nothing() {
    let members = [member_view(1), member_view(2)];
    let mut rows = shards(|shard| Some(node(1 + u128::from(shard % 2))));
    let mut first = member(1);
    first.plan(&members, &rows, at(0));
    rows[0].wanted_by = Some(node(2));
    assert_eq!(first.plan(&members, &rows, at(1)), Plan { keep: vec![0], ..Plan::default() });
}

#[test]
fn a_drain_ends_when_no_node_wants_the_shard_any_more() {
    let members = [member_view(1), member_view(2)];
    let mut rows = shards(|_| Some(node(1)));
    let mut first = member(1);
    first.plan(&members, &rows, at(0));
    rows[7].wanted_by = Some(node(2));
    first.plan(&members, &rows, at(0));
    rows[7].wanted_by = None;
    assert_eq!(first.plan(&members, &rows, at(1)).undrain, [7]);
    assert_eq!(first.to_release(&[7]), []);
}

#[test]
fn another_epoch_is_another_ownership() {
    let mut rows = shards(|_| Some(node(1)));
    let mut first = member(1);
    first.plan(&[member_view(1)], &rows, at(0));
    rows[3].epoch = 3;
    let plan = first.plan(&[member_view(1)], &rows, at(1));
    assert_eq!(
        (plan.lost, plan.gained),
        (vec![3], vec![OwnedShard { shard: 3, epoch: 3 }]),
        "it was another node's in between"
    );
}

#[test]
fn an_expired_member_keeps_its_share_and_is_asked_for_nothing() {
    let members = [member_view(1), MemberView { expired: true, ..member_view(2) }];
    let rows = shards(|_| Some(node(2)));
    assert_eq!(member(1).plan(&members, &rows, at(0)), Plan::default());
}

#[test]
fn only_a_node_that_renews_steadily_may_reap() {
    let mut first = Steadiness::default();
    first.renewed(at(0));
    first.renewed(at(3_000));
    assert!(!first.may_reap(LEASE, at(3_000)), "two renewals, but the others may need longer to come back");
    first.renewed(at(6_000));
    assert!(first.may_reap(LEASE, at(6_000)));
    first.interrupted();
    first.renewed(at(60_000));
    assert!(!first.may_reap(LEASE, at(69_000)));
    first.renewed(at(69_000));
    assert!(first.may_reap(LEASE, at(69_000)));
}

#[test]
fn who_leaves_bequeaths_to_those_with_the_most_room() {
    let members =
        [member_view(1), member_view(2), member_view(3), MemberView { owns_lanes: false, ..member_view(4) }];
    let rows = shards(|shard| Some(node(if shard < 1000 { 1 } else { 2 })));
    let mut first = member(1);
    first.plan(&members, &rows, at(0));
    let bequests = first.leave(&members, &rows, at(0));
    let counts: Vec<_> = bequests.iter().map(|(heir, shards)| (*heir, shards.len())).collect();
    assert_eq!(counts, [(node(2), 488), (node(3), 512)]);
    assert_eq!(first.to_release(&[5]).len(), 1);
    assert_eq!(first.overdue(at(60_000)), Vec::<u16>::new(), "who leaves takes nothing back");
    assert_eq!(first.plan(&members, &rows, at(60_000)), Plan::default());
}

// --- A seeded world ------------------------------------------------------------------------------------------------

/// Splitmix: small, and the same for ever.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct Row {
    member_view: MemberView,
    expires_at: Duration,
}

struct Node {
    own: Ownership,
    steady: Steadiness,
    id: NodeId,
    owns_lanes: bool,
    /// Until when it may start requests, by its own clock.
    good_until: Duration,
    renew_at: Duration,
    /// Draining, and when nothing is open there any more.
    draining: BTreeMap<u16, Duration>,
    frozen_until: Duration,
    leaving: bool,
}

struct World {
    chance: Chance,
    now: Duration,
    rows: BTreeMap<NodeId, Row>,
    table: Vec<ShardRow>,
    nodes: Vec<Node>,
    born: u128,
    moves: usize,
    calm: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            chance: Chance(seed),
            now: at(0),
            rows: BTreeMap::new(),
            table: shards(|_| None)[..WORLD_SHARDS].to_vec(),
            nodes: Vec::new(),
            born: 0,
            moves: 0,
            calm: false,
        };
        for _ in 0..=world.chance.below(4) {
            world.join(true);
        }
        world
    }

    fn join(&mut self, owns_lanes: bool) {
        self.born += 1;
        let id = node(self.chance.next() as u128);
        let member_view = MemberView { id, owns_lanes, expired: false };
        self.rows.insert(id, Row { member_view, expires_at: self.now + LEASE });
        let mut steady = Steadiness::default();
        steady.renewed(self.now);
        self.nodes.push(Node {
            own: Ownership::new(id, owns_lanes),
            steady,
            id,
            owns_lanes,
            good_until: self.now + LEASE - limits::LEASE_MARGIN,
            renew_at: self.now + limits::LEASE_RENEWAL,
            draining: BTreeMap::new(),
            frozen_until: at(0),
            leaving: false,
        });
    }

    fn members(&self) -> Vec<MemberView> {
        let member_view = |row: &Row| MemberView { expired: row.expires_at <= self.now, ..row.member_view };
        self.rows.values().map(member_view).collect()
    }

    /// The table as a query would show it: owners and askers without a row count for nothing.
    fn shards(&self) -> Vec<ShardRow> {
        let there = |id: &NodeId| self.rows.contains_key(id);
        let row = |row: &ShardRow| ShardRow {
            owner: row.owner.filter(there),
            wanted_by: row.wanted_by.filter(there),
            ..*row
        };
        self.table.iter().map(row).collect()
    }

    fn step(&mut self) {
        self.now += at(50 + self.chance.below(150));
        if !self.calm {
            self.trouble();
        }
        for n in 0..self.nodes.len() {
            if self.nodes[n].frozen_until <= self.now && !self.chance.one_in(4) {
                self.act(n);
            }
        }
        self.nodes.retain(|node| !node.leaving || self.rows.contains_key(&node.id));
        self.check();
    }

    fn trouble(&mut self) {
        if self.chance.one_in(40) && self.nodes.len() < 7 {
            let owns_lanes = !self.chance.one_in(4);
            self.join(owns_lanes);
        }
        if self.nodes.is_empty() {
            return;
        }
        let n = self.chance.below(self.nodes.len() as u64) as usize;
        match self.chance.below(200) {
            0 => drop(self.nodes.remove(n)), // killed: its row stays
            1 => self.nodes[n].frozen_until = self.now + at(self.chance.below(25_000)),
            2 => {
                let (members, shards, now) = (self.members(), self.shards(), self.now);
                let bequests = self.nodes[n].own.leave(&members, &shards, now);
                self.nodes[n].leaving = true;
                for (heir, shards) in bequests {
                    shards.into_iter().for_each(|shard| self.wants(heir, shard));
                }
                let held: Vec<u16> = self.nodes[n].own.held().collect();
                self.drain(n, &held);
            }
            _ => {}
        }
    }

    fn wants(&mut self, by: NodeId, shard: u16) {
        let row = &mut self.table[usize::from(shard)];
        if row.wanted_by.is_none_or(|other| !self.rows.contains_key(&other)) && row.owner != Some(by) {
            row.wanted_by = Some(by);
        }
    }

    fn drain(&mut self, n: usize, shards: &[u16]) {
        for shard in shards {
            let pause = if self.chance.one_in(20) && !self.calm { 9_000 } else { self.chance.below(400) };
            let done = self.now + at(pause);
            self.nodes[n].draining.entry(*shard).or_insert(done);
        }
    }

    /// What a node does when it looks: renew, reap, plan, and what the plan says.
    fn act(&mut self, n: usize) {
        let (now, id) = (self.now, self.nodes[n].id);
        if self.nodes[n].renew_at <= now {
            let Some(row) = self.rows.get_mut(&id) else { return self.lost(n) };
            row.expires_at = now + LEASE;
            let node = &mut self.nodes[n];
            if now > node.renew_at + limits::LEASE_RENEWAL {
                node.steady.interrupted(); // it was late
            }
            node.good_until = now + LEASE - limits::LEASE_MARGIN;
            node.renew_at = now + limits::LEASE_RENEWAL;
            node.steady.renewed(now);
        }
        if !self.rows.contains_key(&id) {
            return; // it will find out at its next renewal
        }
        if self.nodes[n].steady.may_reap(LEASE, now) {
            self.rows.retain(|other, row| *other == id || row.expires_at > now);
        }
        self.release(n);
        let overdue = self.nodes[n].own.overdue(now);
        self.nodes[n].own.kept(&overdue, now);
        self.decline(n, &overdue);

        let (members, shards) = (self.members(), self.shards());
        let plan = self.nodes[n].own.plan(&members, &shards, now);
        for shard in plan.lost.iter().chain(&plan.undrain) {
            self.nodes[n].draining.remove(shard);
        }
        let free = shards.iter().filter(|row| row.owner.is_none()).take(plan.take);
        let free: Vec<u16> = free.map(|row| row.shard).collect();
        for shard in free {
            let row = &mut self.table[usize::from(shard)];
            *row = ShardRow { shard, owner: Some(id), epoch: row.epoch + 1, wanted_by: None };
            let taken = OwnedShard { shard, epoch: row.epoch };
            self.nodes[n].own.taken(&[taken]);
            self.moves += 1;
        }
        assert!(plan.ask.len() <= limits::SHARDS_ASKED);
        plan.ask.iter().for_each(|shard| self.wants(id, *shard));
        self.decline(n, &plan.keep);
        self.drain(n, &plan.drain);
    }

    fn lost(&mut self, n: usize) {
        let owns_lanes = self.nodes[n].owns_lanes;
        self.nodes.remove(n);
        self.join(owns_lanes);
    }

    fn decline(&mut self, n: usize, shards: &[u16]) {
        for shard in shards {
            self.table[usize::from(*shard)].wanted_by = None;
            self.nodes[n].draining.remove(shard);
        }
    }

    fn release(&mut self, n: usize) {
        let now = self.now;
        let done = self.nodes[n].draining.iter().filter(|(_, at)| **at <= now);
        let done: Vec<u16> = done.map(|(shard, _)| *shard).collect();
        let id = self.nodes[n].id;
        for OwnedShard { shard, epoch } in self.nodes[n].own.to_release(&done) {
            let row = &mut self.table[usize::from(shard)];
            if row.owner == Some(id) && row.epoch == epoch {
                let heir = row.wanted_by.filter(|by| self.rows.contains_key(by));
                *row = ShardRow { shard, owner: heir, epoch: epoch + 1, wanted_by: None };
                self.moves += 1;
            }
            self.nodes[n].own.released(&[shard]);
            self.nodes[n].draining.remove(&shard);
        }
        let node = &self.nodes[n];
        if node.leaving && node.own.held().len() == 0 {
            self.rows.remove(&id);
        }
    }

    /// No two nodes may start something on the same shard.
    fn check(&self) {
        let mut owned = BTreeSet::new();
        for node in self.nodes.iter().filter(|node| self.now < node.good_until) {
            for shard in node.own.held() {
                assert!(owned.insert(shard), "{shard} has two owners at {:?}", self.now);
            }
        }
    }

    /// Every member has exactly its share, and nothing is left over.
    fn is_settled(&self) -> bool {
        let (members, shards) = (self.members(), self.shards());
        let book = Book::new(&members, &shards);
        let even = book.shares.iter().all(|(id, share)| book.count(*id) == *share);
        let all_are_well = self.rows.keys().all(|id| self.nodes.iter().any(|it| it.id == *id && !it.leaving));
        self.nodes.is_empty() || book.shares.is_empty() || (even && book.free == 0 && all_are_well)
    }
}

#[test]
fn whatever_happens_every_shard_finds_one_owner_and_the_shares_become_even() {
    for seed in 0..12 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.calm = true;
        for node in &mut world.nodes {
            node.frozen_until = node.frozen_until.min(world.now);
        }
        // A lease, the reaper's patience, then steps of 32 and one round of what was declined.
        let rounds = (0..1_200).take_while(|_| {
            world.step();
            !world.is_settled()
        });
        let rounds = rounds.count();
        assert!(rounds < 1_200, "seed {seed}: the shares did not become even");
        // What was on its way then may still go there and back.
        for _ in 0..100 {
            world.step();
        }
        let moves = world.moves;
        for _ in 0..100 {
            world.step();
        }
        assert!(world.is_settled(), "seed {seed}: it fell apart again");
        assert_eq!(world.moves, moves, "seed {seed}: shards go on changing hands");
    }
}

#[test]
fn a_newcomer_has_its_share_in_bounded_rounds_and_nothing_moves_twice() {
    let mut world = World::new(7);
    world.nodes.clear();
    world.rows.clear();
    world.calm = true;
    for _ in 0..3 {
        world.join(true);
    }
    while !world.is_settled() {
        world.step();
    }
    let moves = world.moves;
    world.join(true);
    let mut steps = 0;
    while !world.is_settled() {
        world.step();
        steps += 1;
    }
    assert_eq!(world.moves - moves, WORLD_SHARDS / 4, "only what the newcomer is due moves");
    assert!(steps < 100, "{steps} steps");
}
