//! The promises that can only be judged when everything is over: the store is read from end to end and held against
//! what the world has observed.

use crate::{
    faulty::finish,
    observations::{KnownDestination, Observations, RequestEnd},
    promise::Promise::{self, *},
    shared_world::{SharedWorld, count},
    time::{Moment, SECOND, moment},
};
use domain::{
    delivery::Ending,
    destination::Ordering,
    id::{AccountId, DeliveryId, DestinationId, EventId},
    limits,
    outcome::{DeadReason, Outcome},
    route::{Candidate, Route},
    time::Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use store::{
    AttemptRecord, DeadLetterGroup, DeliveryFilter, DeliveryRecord, DeliveryState, EventFilter, EventRecord,
    GroupFilter, GroupKey, Listed, Page, Resolution, ResolvedBy, Store, StoreError,
};

pub(crate) fn judge(
    shared: &SharedWorld,
    store: &dyn Store,
    accounts: &[AccountId],
    sent: &[SentEvent],
    replayed: &[&[DeliveryId]],
    backfilled: &[DoneBackfill],
    now: Moment,
) {
    let mut found = Vec::new();
    let mut broken = |promise: Promise, what: String| found.push((promise, what));
    let mut events = BTreeMap::new();
    let mut deliveries: BTreeMap<EventId, Vec<DeliveryRecord>> = BTreeMap::new();
    for account in accounts {
        for event in all_events(store, *account) {
            if event.event.account_id != *account {
                broken(AccountsApart, format!("{} is listed for another account", event.event.id));
            }
            events.insert(event.event.id, event);
        }
        for delivery in all_deliveries(store, *account) {
            deliveries.entry(delivery.event_id).or_default().push(delivery);
        }
    }
    let observed = shared.observed();
    for sent in sent {
        judge_answer(sent, &events, &mut broken);
    }
    for (id, event) in &events {
        let made = deliveries.get(id).map(Vec::as_slice).unwrap_or_default();
        judge_fan_out(&observed, event, made, &mut broken);
    }
    let mut keys = BTreeSet::new();
    for event in events.values() {
        let key = (event.event.account_id, event.event.idempotency_key.clone());
        if !keys.insert(key) {
            broken(OneKeyOneEvent, format!("{}: its key has made another event", event.event.id));
        }
    }
    for record in deliveries.values().flatten() {
        let attempts =
            finish(store.attempts_of_delivery(record.account_id, record.id, limits::ATTEMPTS_SHOWN))
                .expect("the store itself does not fail");
        judge_delivery(&observed, shared, record, &attempts, &events, &mut broken);
    }
    judge_replays(replayed, &deliveries, &mut broken);
    judge_settled(&deliveries, &mut broken);
    for account in accounts {
        judge_counts(store, *account, &deliveries, &mut broken);
    }
    for backfill in backfilled {
        judge_backfill(&observed, store, backfill, &events, &deliveries, &mut broken);
    }
    judge_sequences(&observed, &deliveries, &mut broken);
    judge_slots(&observed, &mut broken);
    drop(observed);
    let mut observed = shared.observed();
    for (promise, what) in found {
        observed.broken(now, promise, what);
    }
}

/// What a producer knows of its event.
pub(crate) struct SentEvent {
    pub(crate) producer: usize,
    pub(crate) account: AccountId,
    pub(crate) key: String,
    pub(crate) confirmed: Option<EventId>,
    /// Every answer it had said that the event will not be stored.
    pub(crate) refused: bool,
}

/// I1: what was confirmed is there, what was refused is not.
fn judge_answer(
    sent: &SentEvent,
    events: &BTreeMap<EventId, EventRecord>,
    broken: &mut impl FnMut(Promise, String),
) {
    let producer = sent.producer;
    if let Some(event) = sent.confirmed.filter(|event| !events.contains_key(event)) {
        let what = format!("the event of producer {producer} was confirmed as {event}, which is not there");
        broken(StoredWhole, what);
    }
    let its_own = |record: &&EventRecord| {
        record.event.account_id == sent.account && record.event.idempotency_key.as_ref() == Some(&sent.key)
    };
    if let Some(record) = events.values().find(its_own).filter(|_| sent.refused) {
        let what = format!("the event of producer {producer} was refused, and {} is there", record.event.id);
        broken(StoredWhole, what);
    }
}

/// I1: it has one delivery for each destination that a route led it to when it was committed, by the oldest of them. An
/// expansion meets routes as they are: a destination one of whose routes was switched meanwhile may have its delivery or
/// not, and by any of them, but never two.
fn judge_fan_out(
    observed: &Observations,
    record: &EventRecord,
    made: &[DeliveryRecord],
    broken: &mut impl FnMut(Promise, String),
) {
    let event = record.event.id;
    let Some(committed) = observed.events.get(&event) else {
        return broken(StoredWhole, format!("{event} is there and was never committed"));
    };
    // With what backfills have made since.
    let all: Vec<_> = made.iter().filter(|delivery| delivery.origin == delivery.id).collect();
    let reached: BTreeSet<_> = all.iter().map(|delivery| delivery.destination_id).collect();
    if reached.len() < all.len() {
        let what = format!("{event} has {} first deliveries to {} destinations", all.len(), reached.len());
        broken(StoredWhole, what);
    }
    let first = made.iter().filter(|delivery| delivery.replay_id.is_none());
    let made: Vec<_> = first.map(|delivery| (delivery.destination_id, delivery.route_id)).collect();
    let is_certain = |destination: &DestinationId| !observed.switched_during(committed, *destination);
    let mut promised = BTreeMap::new();
    for (route, destination) in &committed.matched {
        let oldest = promised.entry(*destination).or_insert(*route);
        *oldest = *route.min(oldest);
    }
    promised.retain(|destination, _| is_certain(destination));
    let kept = made.iter().filter(|(destination, _)| is_certain(destination)).copied().collect();
    if promised != kept || record.fanout.total as usize != all.len() {
        let (matched, has, counted) = (promised.len(), made.len(), record.fanout.total);
        let what =
            format!("{event} is for {matched} destinations, has {has} deliveries and counts {counted}");
        broken(StoredWhole, what);
    }
}

/// I7: where deliveries are numbered and in no order, all are, without gaps.
fn judge_sequences(
    observed: &Observations,
    deliveries: &BTreeMap<EventId, Vec<DeliveryRecord>>,
    broken: &mut impl FnMut(Promise, String),
) {
    let numbered = |known: &&KnownDestination| known.sequence && known.ordering == Ordering::None;
    for known in observed.destinations.iter().filter(numbered) {
        let of_it = deliveries.values().flatten().filter(|record| record.destination_id == known.id);
        let mut numbers: Vec<_> = of_it.map(|record| record.sequence).collect();
        numbers.sort();
        if !numbers.iter().copied().eq((1..=numbers.len() as i64).map(Some)) {
            broken(InOrder, format!("the deliveries of {} are numbered {numbers:?}", known.id));
        }
    }
}

fn judge_delivery(
    observed: &Observations,
    shared: &SharedWorld,
    record: &DeliveryRecord,
    attempts: &[AttemptRecord],
    events: &BTreeMap<EventId, EventRecord>,
    broken: &mut impl FnMut(Promise, String),
) {
    let id = record.id;
    let known = observed.destinations.iter().find(|known| known.id == record.destination_id);
    let same_account = known.is_some_and(|known| known.account == record.account_id)
        && events.get(&record.event_id).is_some_and(|event| event.event.account_id == record.account_id);
    if !same_account {
        broken(AccountsApart, format!("{id} connects two accounts"));
    }
    judge_numbers(observed, id, record, attempts, broken);
    let DeliveryState::Ended { ending, at } = record.state else {
        return broken(EverythingEnds, format!("{id} has not ended"));
    };
    if observed.deliveries.get(&id).and_then(|known| known.ending) != Some(ending) {
        broken(EndsOnce, format!("{id} ended as {ending:?}, and that is not what was written"));
    }
    let counted: Vec<&AttemptRecord> = attempts.iter().filter(|attempt| !attempt.late).collect();
    let last = counted.last().map(|attempt| attempt.outcome);
    match ending {
        Ending::Delivered => {
            count(&shared.counts.delivered);
            let answered = observed
                .requests_for(id)
                .any(|it| matches!(it.over, Some((_, RequestEnd::Answered(200..=299)))));
            if !answered {
                broken(DeliveredMeansAnswered, format!("{id} is delivered and no receiver has said so"));
            }
            if last != Some(Outcome::Success) {
                broken(EveryAttemptOnRecord, format!("{id} is delivered and its last attempt met {last:?}"));
            }
        }
        Ending::DeadLetter(reason) => {
            count(&shared.counts.dead_letters);
            let spent = counted.iter().filter(|attempt| attempt.outcome != Outcome::Throttled).count() as u32;
            let known = known.expect("judged above");
            let justified = match reason {
                DeadReason::Exhausted => spent == known.retries + 1,
                DeadReason::Rejected => last == Some(Outcome::Rejected),
                DeadReason::Gone => last == Some(Outcome::Gone),
                // A retry that would come too late ends at once.
                DeadReason::Expired => {
                    moment(at) + 5 * SECOND
                        >= moment(record.created_at) + known.expire_after.as_micros() as Moment
                }
                DeadReason::DestinationDisabled => observed.requests.iter().any(|it| {
                    observed.destinations[it.destination].id == record.destination_id
                        && matches!(it.over, Some((_, RequestEnd::Answered(410))))
                }),
                _ => false,
            };
            if !justified {
                broken(
                    DeadMeansTried,
                    format!("{id} is dead ({reason:?}) after {spent} of {} attempts", known.retries + 1),
                );
            }
        }
        Ending::Cancelled(_) => count(&shared.counts.cancelled),
    }
}

/// I12: numbers without a gap, and a row for every answer that a living owner heard.
fn judge_numbers(
    observed: &Observations,
    id: DeliveryId,
    record: &DeliveryRecord,
    attempts: &[AttemptRecord],
    broken: &mut impl FnMut(Promise, String),
) {
    let mut numbers: Vec<u32> =
        attempts.iter().filter(|attempt| !attempt.late).map(|attempt| attempt.number).collect();
    numbers.sort_unstable();
    if numbers != (1..=numbers.len() as u32).collect::<Vec<_>>() || record.attempts as usize != numbers.len()
    {
        broken(EveryAttemptOnRecord, format!("{id} counts {} attempts and has {numbers:?}", record.attempts));
    }
    let requests = observed.requests_for(id).count();
    let made = |attempt: &&AttemptRecord| attempt.outcome != Outcome::Undeliverable;
    if attempts.iter().filter(made).count() > requests {
        broken(EveryAttemptOnRecord, format!("{id} has {} attempts and {requests} requests", attempts.len()));
    }
    for request in observed.requests_for(id) {
        let heard = request.over.is_some_and(|(_, how)| how.was_heard());
        let written = attempts.iter().any(|attempt| attempt.number == request.attempt);
        if heard && !written && !observed.lost_since(request.life, request.began) {
            broken(
                EveryAttemptOnRecord,
                format!("attempt {} of {id} was made and never written", request.attempt),
            );
        }
    }
}

/// A backfill that is over: all events of an account that were there when it was made.
pub(crate) struct DoneBackfill {
    pub(crate) account: AccountId,
    pub(crate) created_at: Timestamp,
    /// Switches of routes before it was asked for.
    pub(crate) switched_before: usize,
    /// What was committed before it was asked for.
    pub(crate) events: Vec<EventId>,
}

/// I1, of a backfill: every event has a delivery to each destination that a route of then leads it to. One whose routes were
/// switched since, and an event that was expanded, may have it or not. That none has two is judged with the fan-out.
fn judge_backfill(
    observed: &Observations,
    store: &dyn Store,
    backfill: &DoneBackfill,
    events: &BTreeMap<EventId, EventRecord>,
    deliveries: &BTreeMap<EventId, Vec<DeliveryRecord>>,
    broken: &mut impl FnMut(Promise, String),
) {
    let page = Page { before: None, limit: 1_000 };
    let routes = finish(store.routes(backfill.account, page)).expect("the store itself does not fail").rows;
    let switched = &observed.switched_routes[backfill.switched_before..];
    let certain = |route: &&Route| !switched.contains(&route.destination_id);
    for id in &backfill.events {
        let own = |record: &&EventRecord| record.event.account_id == backfill.account;
        let Some(record) = events.get(id).filter(own) else { continue };
        let expanded = observed.events.get(id).is_none_or(|committed| committed.expanded_after.is_some());
        // Clocks of nodes differ: by its id it came later.
        if expanded || id.made_at() > backfill.created_at {
            continue;
        }
        let candidate = Candidate::new(&record.event, false);
        let made = deliveries.get(id).map(Vec::as_slice).unwrap_or_default();
        for route in routes.iter().filter(certain).filter(|route| route.refuses(&candidate).is_none()) {
            if !made.iter().any(|delivery| delivery.destination_id == route.destination_id) {
                let what = format!("{id} was backfilled and has no delivery to {}", route.destination_id);
                broken(StoredWhole, what);
            }
        }
    }
}

/// I13: each has been made again as often as that was asked for, however often each of them asked. Of two of one chain
/// a replay makes one.
fn judge_replays(
    wanted: &[&[DeliveryId]],
    deliveries: &BTreeMap<EventId, Vec<DeliveryRecord>>,
    broken: &mut impl FnMut(Promise, String),
) {
    let all = || deliveries.values().flatten();
    let origins: BTreeMap<DeliveryId, DeliveryId> = all().map(|it| (it.id, it.origin)).collect();
    // How often each was asked for, and how often it was made.
    let mut again: BTreeMap<DeliveryId, (u32, u32)> = BTreeMap::new();
    for ids in wanted {
        let chains: BTreeSet<_> = ids.iter().filter_map(|id| origins.get(id)).collect();
        chains.into_iter().for_each(|origin| again.entry(*origin).or_default().0 += 1);
    }
    for replayed in all().filter(|it| it.replay_id.is_some() && it.origin != it.id) {
        again.entry(replayed.origin).or_default().1 += 1;
    }
    for (origin, (asked, made)) in again.into_iter().filter(|(_, (asked, made))| asked != made) {
        broken(
            OneKeyOneEvent,
            format!("{origin} was asked for again {asked} times and made again {made} times"),
        );
    }
}

/// I13: what a replay has delivered is settled, and nothing else: else it would be sent once more by the next replay.
fn judge_settled(
    deliveries: &BTreeMap<EventId, Vec<DeliveryRecord>>,
    broken: &mut impl FnMut(Promise, String),
) {
    let all = || deliveries.values().flatten();
    // Of each chain, what replays have delivered, and when.
    let mut delivered: BTreeMap<DeliveryId, Vec<(Timestamp, DeliveryId)>> = BTreeMap::new();
    for record in all().filter(|it| it.replay_id.is_some() && it.origin != it.id) {
        if let DeliveryState::Ended { ending: Ending::Delivered, at } = record.state {
            delivered.entry(record.origin).or_default().push((at, record.id));
        }
    }
    for record in all() {
        let by = delivered.get(&record.origin).map(Vec::as_slice).unwrap_or_default();
        let id = record.id;
        match &record.resolution {
            Some(_) if !is_dead(record) => {
                broken(OneKeyOneEvent, format!("{id} is settled, and no dead letter"));
            }
            Some(Resolution { at, by: ResolvedBy::Delivery(delivery) })
                if !by.contains(&(*at, *delivery)) =>
            {
                broken(
                    OneKeyOneEvent,
                    format!("{id} is settled by {delivery}, which was not delivered then"),
                );
            }
            // What was delivered before it was made has nothing to do with it.
            None if is_dead(record) && by.iter().any(|(at, _)| *at >= record.created_at) => {
                broken(
                    OneKeyOneEvent,
                    format!("{id} is not settled, and a replay of its chain was delivered"),
                );
            }
            Some(_) | None => {}
        }
    }
}

fn is_dead(record: &DeliveryRecord) -> bool {
    matches!(record.state, DeliveryState::Ended { ending: Ending::DeadLetter(_), .. })
}

/// I13: each dead letter is counted until it is settled, and subtracted once.
fn judge_counts(
    store: &dyn Store,
    account: AccountId,
    deliveries: &BTreeMap<EventId, Vec<DeliveryRecord>>,
    broken: &mut impl FnMut(Promise, String),
) {
    let key = |destination_id: DestinationId, reason: DeadReason, http_status, outcome: Option<Outcome>| {
        (destination_id, reason.as_str(), http_status, outcome.map(Outcome::as_str))
    };
    let mut open = BTreeMap::<_, u64>::new();
    for it in deliveries.values().flatten() {
        if let DeliveryState::Ended { ending: Ending::DeadLetter(reason), .. } = it.state
            && it.account_id == account
            && it.resolution.is_none()
        {
            let key = key(it.destination_id, reason, it.last_http_status, it.last_outcome);
            *open.entry(key).or_default() += 1;
        }
    }
    let groups =
        finish(store.dead_letter_groups(account, GroupFilter::default(), None, usize::from(u16::MAX)))
            .expect("the store itself does not fail");
    let of_group = |it: &DeadLetterGroup| {
        let GroupKey { destination_id, reason, http_status, outcome } = it.key;
        (key(destination_id, reason, http_status, outcome), it.count)
    };
    let counted: BTreeMap<_, u64> = groups.iter().map(of_group).collect();
    if counted != open {
        broken(OneKeyOneEvent, format!("dead letters are counted as {counted:?}, and there are {open:?}"));
    }
}

/// I15: when everything has ended, nothing is open.
fn judge_slots(observed: &Observations, broken: &mut impl FnMut(Promise, String)) {
    let open = observed.requests.iter().filter(|request| request.over.is_none()).count();
    if open > 0 {
        broken(TroubleStaysWhereItIs, format!("{open} requests are open after everything has ended"));
    }
}

fn all_events(store: &dyn Store, account: AccountId) -> Vec<EventRecord> {
    all_pages(|page| finish(store.events(account, &EventFilter::default(), page)))
}

fn all_deliveries(store: &dyn Store, account: AccountId) -> Vec<DeliveryRecord> {
    all_pages(|page| finish(store.deliveries(account, &DeliveryFilter::default(), page)))
}

fn all_pages<T, K>(list: impl Fn(Page<K>) -> Result<Listed<T, K>, StoreError>) -> Vec<T> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let listed = list(Page { before, limit: limits::PAGE_MAX }).expect("the store itself is well");
        all.extend(listed.rows);
        before = listed.next;
        if before.is_none() {
            return all;
        }
    }
}
