//! What is promised: the sentences by which a report names what was broken, with the numbers that the simulator, the
//! judge and the checks use. `docs/dev/promises.md` says which part keeps each of them.

/// One promise of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// 1 to 16; written as `I1` to `I16`.
    pub number: u8,
    pub name: &'static str,
    pub sentence: &'static str,
}

const fn promise(number: u8, name: &'static str, sentence: &'static str) -> Promise {
    Promise { number, name, sentence }
}

pub const PROMISES: [Promise; 16] = [
    promise(
        1,
        "stored whole",
        "Every acknowledged event is stored as it was accepted, with exactly one delivery for each destination that a \
         route matched when it was committed; in a fan-out too large for one commit a route that is changed or deleted \
         before its chunk is made counts as it then is.",
    ),
    promise(
        2,
        "everything ends",
        "Once faults stop, every delivery ends, within its schedule, the leases and a margin.",
    ),
    promise(3, "ends once", "A delivery ends exactly once, and what has ended never changes."),
    promise(
        4,
        "delivered means answered",
        "A delivery is called delivered only if a receiver has answered one of its requests with 2xx.",
    ),
    promise(
        5,
        "dead means tried",
        "A dead letter has spent its retry policy, or names the reason why it was not tried again.",
    ),
    promise(
        6,
        "within limits",
        "A destination never has more requests open than its limit, nor more starts than its rate.",
    ),
    promise(
        7,
        "in order",
        "In a track of an ordered destination first arrivals follow the commits, and nothing is sent while an earlier \
         one has not ended.",
    ),
    promise(
        8,
        "doubled only by faults",
        "Nothing is delivered twice but what was open, or answered and not yet written, when a fault struck.",
    ),
    promise(
        9,
        "only the owner sends",
        "No request begins after its sender's own deadline, and no two nodes hold the lease of one shard.",
    ),
    promise(
        10,
        "former owners move nothing",
        "The epochs of a shard only grow, and the settlement of a former owner moves no delivery.",
    ),
    promise(
        11,
        "not before its time",
        "No attempt starts before it is due, nor while its destination is throttled, paused or behind an open breaker, \
         but for the one probe.",
    ),
    promise(
        12,
        "every attempt on record",
        "Attempts are numbered from 1 without gaps, and each answered request has one attempt on record.",
    ),
    promise(
        13,
        "one key, one event",
        "One idempotency key makes one event, and one replay makes one set of deliveries.",
    ),
    promise(
        14,
        "forgets only what has ended",
        "Retention removes only what has ended and had its time, and then everything that belongs to it.",
    ),
    promise(
        15,
        "trouble stays where it is",
        "Slots in use are requests open, and the throttle and breaker of one destination change no other's schedule.",
    ),
    promise(
        16,
        "accounts apart",
        "No effect crosses an account: every row that an operation touches carries its account.",
    ),
];

/// How a report says that promise `number` was broken: what happened, and how often. None: it was kept.
pub fn broken(number: u8, what_happened: &str, times: u64) -> Option<String> {
    (times > 0).then(|| format!("{what_happened} (I{number}), {times} times"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_numbered_from_one_and_each_is_one_sentence() {
        for (at, promise) in PROMISES.iter().enumerate() {
            assert_eq!(promise.number as usize, at + 1);
            assert!(
                promise.sentence.ends_with('.') && promise.sentence.matches(". ").count() == 0,
                "{promise:?}"
            );
        }
    }

    #[test]
    fn a_broken_promise_is_told_by_its_sentence_and_number() {
        let lost = broken(1, "an acknowledged event was lost", 3);
        assert_eq!(lost.as_deref(), Some("an acknowledged event was lost (I1), 3 times"));
        assert_eq!(broken(1, "an acknowledged event was lost", 0), None);
    }
}
