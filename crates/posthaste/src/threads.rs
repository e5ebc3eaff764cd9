//! How many threads run the tasks of a node.

use std::{num::NonZero, thread::available_parallelism};

/// Of each of the two sets, the one for requests that come in and the one for deliveries: three quarters of the cores, so
/// that a burst in one leaves room to the other and to the store's writer, and one has most of the machine where the other
/// rests.
///
/// With as many as there are cores each, every message between them woke a second thread that found nothing to do. On two
/// cores, one thread each instead of two took 15 % off the CPU time of an event of one destination, 7 % in a fan-out, and
/// 20 % at a hundred events a second.
pub(crate) fn of_a_set() -> usize {
    let cores = available_parallelism().map_or(1, NonZero::get);
    (cores * 3 / 4).max(1)
}
