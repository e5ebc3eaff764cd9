//! How a scan of the queue gets over shards that are not asked for: from wherever it has come to, straight to the next
//! shard that is.

use domain::id::{DestinationId, SHARDS};

/// For every shard the first one from it on that is asked for; [`SHARDS`] if there is none.
pub(crate) struct ShardScan(Vec<i16>);

impl ShardScan {
    pub(crate) fn over(shards: &[u16]) -> Self {
        let mut next = vec![SHARDS as i16; usize::from(SHARDS)];
        for shard in shards {
            next[usize::from(*shard)] = *shard as i16;
        }
        for shard in (0..next.len() - 1).rev() {
            if next[shard] != shard as i16 {
                next[shard] = next[shard + 1];
            }
        }
        Self(next)
    }

    pub(crate) fn wants(&self, shard: u16) -> bool {
        self.0.get(usize::from(shard)).is_some_and(|next| *next == shard as i16)
    }

    /// The place behind which to look: the given one, or the end of the shard before the next that is asked for.
    pub(crate) fn start(&self, after: Option<(u16, DestinationId)>) -> (i16, DestinationId) {
        match after {
            Some((shard, id)) if self.wants(shard) => (shard as i16, id),
            after => {
                let from = after.map_or(0, |(shard, _)| usize::from(shard));
                (self.0.get(from).copied().unwrap_or(SHARDS as i16) - 1, DestinationId::MAX)
            }
        }
    }

    /// As the statement on PostgreSQL takes it.
    pub(crate) fn next_shards(&self) -> &Vec<i16> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_at_the_next_shard_that_is_asked_for() {
        let (scan, id) = (ShardScan::over(&[3, 4, 1023]), DestinationId::MIN);
        assert_eq!(scan.start(None), (2, DestinationId::MAX));
        assert_eq!(scan.start(Some((3, id))), (3, id), "it goes on where it is");
        assert_eq!(scan.start(Some((5, id))), (1022, DestinationId::MAX));
        assert!(scan.wants(1023) && !scan.wants(5) && !scan.wants(1024));
    }

    #[test]
    fn nothing_asked_for_is_behind_everything() {
        assert_eq!(ShardScan::over(&[]).start(None), (1023, DestinationId::MAX));
    }
}
