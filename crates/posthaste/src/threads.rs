//! How many threads run the tasks of a node.

use std::{num::NonZero, thread::available_parallelism};

/// Of each of the two sets, the one for requests that come in and the one for deliveries: three quarters of the cores, so
/// that a burst in one leaves room to the other and to the store's writer, and one has most of the machine where the other
/// rests.
///
/// With as many as there are cores each, every message between them woke a second thread that found nothing to do. On two
/// cores, one thread each instead of two took 15 % off the CPU time of an event of one destination, 20 % at a hundred events a
/// second, and up to 7 % in a fan-out of fifty. An event for thousands is all deliveries, and their one thread can do a fifth
/// less at most. Two threads for requests and one for deliveries: 12 % less CPU time in a fan-out than with one each, and 16 %
/// more for an event of one destination.
pub(crate) fn of_a_set() -> usize {
    let cores = available_parallelism().map_or(1, NonZero::get);
    (cores * 3 / 4).max(1)
}
