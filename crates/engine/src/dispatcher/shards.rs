//! Which shards are this node's, and what is open in each: a shard is given away only when nothing is.

use domain::{id::SHARDS, time::Timestamp};
use store::OwnedShard;

pub(super) struct Shards {
    each: Vec<Shard>,
    /// Have drained since they were last asked about, each with the round of its drain.
    drained: Vec<(u16, u64)>,
}

#[derive(Clone, Copy, Default)]
struct Shard {
    ownership: ShardOwnership,
    /// When it became ours.
    since: Option<Timestamp>,
    /// Requests that are open and results that are not durable, of whatever owner we were.
    open: u32,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum ShardOwnership {
    #[default]
    Foreign,
    Own {
        epoch: i64,
    },
    /// Nothing starts any more.
    Draining {
        epoch: i64,
        round: u64,
    },
}

impl Default for Shards {
    fn default() -> Self {
        Self { each: vec![Shard::default(); usize::from(SHARDS)], drained: Vec::new() }
    }
}

impl Shards {
    pub(super) fn gained(&mut self, gained: OwnedShard, now: Timestamp) {
        let at = self.at(gained.shard);
        at.ownership = ShardOwnership::Own { epoch: gained.epoch };
        at.since = Some(now);
    }

    pub(super) fn since(&self, shard: u16) -> Option<Timestamp> {
        self.each[usize::from(shard)].since
    }

    pub(super) fn lost(&mut self, shard: u16) {
        self.at(shard).ownership = ShardOwnership::Foreign;
    }

    pub(super) fn drain(&mut self, shard: u16, round: u64) {
        let at = self.at(shard);
        if let ShardOwnership::Own { epoch } | ShardOwnership::Draining { epoch, .. } = at.ownership {
            at.ownership = ShardOwnership::Draining { epoch, round };
            if at.open == 0 {
                self.drained.push((shard, round));
            }
        }
    }

    pub(super) fn undrain(&mut self, shard: u16) {
        let at = self.at(shard);
        if let ShardOwnership::Draining { epoch, .. } = at.ownership {
            at.ownership = ShardOwnership::Own { epoch };
        }
    }

    /// The epoch at which the shard is ours; None if it is not.
    pub(super) fn epoch(&self, shard: u16) -> Option<i64> {
        match self.each[usize::from(shard)].ownership {
            ShardOwnership::Foreign => None,
            ShardOwnership::Own { epoch } | ShardOwnership::Draining { epoch, .. } => Some(epoch),
        }
    }

    pub(super) fn is_ours(&self, shard: u16) -> bool {
        self.epoch(shard).is_some()
    }

    pub(super) fn may_start(&self, shard: u16) -> bool {
        matches!(self.each[usize::from(shard)].ownership, ShardOwnership::Own { .. })
    }

    /// Something is under way that must be durable before the shard is given away.
    pub(super) fn opened(&mut self, shard: u16) {
        self.at(shard).open += 1;
    }

    pub(super) fn closed(&mut self, shard: u16) {
        let at = self.at(shard);
        at.open -= 1;
        if let (0, ShardOwnership::Draining { round, .. }) = (at.open, at.ownership) {
            self.drained.push((shard, round));
        }
    }

    pub(super) fn take_drained(&mut self) -> Vec<(u16, u64)> {
        std::mem::take(&mut self.drained)
    }

    fn at(&mut self, shard: u16) -> &mut Shard {
        &mut self.each[usize::from(shard)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_drained_when_the_last_of_it_is_durable() {
        let mut shards = Shards::default();
        shards.gained(OwnedShard { shard: 3, epoch: 1 }, Timestamp::MIN);
        shards.opened(3);
        shards.opened(3);
        shards.drain(3, 9);
        shards.closed(3);
        assert_eq!((shards.take_drained(), shards.may_start(3)), (vec![], false));
        shards.closed(3);
        assert_eq!(shards.take_drained(), [(3, 9)]);
    }

    #[test]
    fn what_is_taken_back_goes_on_under_the_same_epoch() {
        let mut shards = Shards::default();
        shards.gained(OwnedShard { shard: 3, epoch: 7 }, Timestamp::MIN);
        shards.opened(3);
        shards.drain(3, 1);
        shards.undrain(3);
        shards.closed(3);
        assert_eq!((shards.take_drained(), shards.epoch(3)), (vec![], Some(7)));
        assert!(shards.may_start(3));
    }
}
