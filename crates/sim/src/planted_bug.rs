//! Bugs on purpose. A simulator that finds nothing may be blind: each of these must be found.
//!
//! They are planted around the product, in what it is handed (store, internet, clock, announcements), so that the
//! shipped code has no switches for being wrong.

listed_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum PlantedBug {
        /// A node that has lost its row still moves deliveries.
        NoFence,
        /// The slot is given back while the receiver still has the request.
        SlotFreedEarly,
        /// The producer hears of success before anything is written.
        AckBeforeCommit,
        /// The producer hears of success as soon as its event waits for the committer.
        AnswerBeforeFlush,
        /// What may be there after an unknown outcome is forgotten instead of looked for, and nothing rescans.
        ForgottenAfterUnknown,
        /// A chunk of an expansion leaves its last delivery out.
        PartialExpansion,
        /// The holder does not know when its lease ends.
        NoHolderDeadline,
        /// Hand-overs get lost, and nothing rescans.
        LostWakeUp,
        /// A delivery ends and nothing is written about its attempt.
        EndingWithoutFact,
        /// Lanes are told which deliveries are to be committed when they have been.
        ExpectedLate,
        /// A retry does not know of the attempts before it.
        RetryForgetsAttempts,
        /// `Retry-After` does not reach the gate.
        RetryAfterIgnored,
        /// A repeated key makes another event.
        NoIdempotency,
        /// A flush that failed is taken for one that worked.
        LostFlush,
        /// The last delivery of an event is left out.
        PartialFanOut,
        /// Two routes to one destination deliver an event twice.
        DeliveryPerRoute,
        /// A request that timed out is sent again within the same attempt.
        SentTwice,
        /// Retries come before their time.
        RetryTooEarly,
        /// Members are declared dead whose lease has not ended.
        TakeOverAlive,
        /// Shards change hands while requests of theirs are open.
        DrainIgnored,
        /// A change of a destination is not read again.
        StaleConfiguration,
        /// A lease's end leaves open what is open.
        NoAbort,
        /// What an owner knows of its gates dies with it.
        GateForgotten,
        /// Each time a gate is written down, its throttle has climbed further.
        LadderByResponse,
        /// The next owner of a destination that has just said yes again lets everything through at once.
        RampForgotten,
        /// After a hold two requests try at once.
        TwoProbes,
        /// What is not due is not seen, as if a lane were sorted by due time.
        OrderByDueTime,
        /// "Retry now" asks the destination whatever it said.
        RetryPassesHold,
        /// A replay that is asked for again, because its answer was lost, is made again.
        ReplayWithoutKey,
        /// The cursor of a backfill moves behind a delivery that was not made.
        BackfillLeavesOut,
        /// A replay that is delivered does not know of which chain it is.
        ChainLeftUnresolved,
    }
}

impl PlantedBug {
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|plant| plant.name() == name)
    }
}
