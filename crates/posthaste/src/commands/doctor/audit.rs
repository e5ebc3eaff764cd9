//! The audit: shards that no node looks after, deliveries that will never be made, facts that do not fit together.
//!
//! Everything is looked at in small steps. What looks wrong is looked at a second time, after as long as a node that might be
//! at work on it can take: only what has not moved by then is a fault. Nothing wrong, no waiting.

use super::finding::{Finding, Level};
use crate::progress::Progress;
use domain::{
    delivery_settings::DeliverySettings,
    id::{DestinationId, EventId},
    limits,
    time::Timestamp,
};
use std::{collections::BTreeMap, time::Duration};
use store::{
    Audit, FIRST_FACT, FIRST_TRACK, KnownLane, Missing, Roster, StoreError, StrayFact, UnevenFanOut,
    UnownedShard, WaitingHead, Walked,
};
use tokio::time::{Instant, sleep, sleep_until};

/// How this installation keeps time, and how it delivers unless told otherwise.
pub(super) struct Terms {
    pub(super) lease: Duration,
    pub(super) rescan: Duration,
    pub(super) defaults: DeliverySettings,
}

pub(super) async fn audit(
    look: &dyn Audit,
    terms: &Terms,
    progress: &mut Progress,
) -> Result<Vec<Finding>, StoreError> {
    let roster = look.audit_roster().await?;
    let free = unowned(&roster, terms);
    let mut second_look = Instant::now() + if free.is_empty() { Duration::ZERO } else { 2 * terms.lease };
    let overdue = overdue(look, terms, progress).await?;
    if roster.has_workers() && !overdue.heads.first.is_empty() {
        second_look = second_look.max(Instant::now() + overdue.a_turn_takes + limits::AUDIT_SLACK);
    }
    let fan_outs = walk(EventId::MIN, "events", progress, async |from, rows| {
        look.audit_fan_outs(from, rows, limits::AUDIT_DELIVERIES).await
    });
    let fan_outs = fan_outs.await?;
    let facts = walk(FIRST_FACT, "attempts", progress, async |from, rows| look.audit_facts(from, rows).await);
    let facts = facts.await?;
    if !fan_outs.first.is_empty() || !facts.first.is_empty() {
        second_look = second_look.max(Instant::now() + limits::AUDIT_SECOND_LOOK);
    }
    while let Some(left) = second_look.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        progress.say(|| format!("looking again in {} s at what may be wrong", left.as_secs() + 1));
        sleep_until(second_look.min(Instant::now() + Duration::from_millis(500))).await;
    }
    let mut findings = match roster.has_workers() {
        true => vec![
            shards_finding(&still_unowned(look, &free, terms).await?),
            stuck_finding(&still_overdue(look, terms, overdue).await?),
        ],
        false => vec![no_worker_finding(&overdue.heads)],
    };
    findings.push(fan_outs_finding(&fan_outs, &still_uneven(look, &fan_outs).await?));
    findings.extend(facts_findings(&facts, &still_stray(look, &facts).await?));
    progress.clear();
    Ok(findings)
}

// --- Walking ---------------------------------------------------------------------------------------------------------

/// What a walk has found: the first of it to be looked at again, and how much more there is.
struct Suspects<T> {
    first: Vec<T>,
    beyond: u64,
    looked_at: u64,
}

impl<T> Default for Suspects<T> {
    fn default() -> Self {
        Self { first: Vec::new(), beyond: 0, looked_at: 0 }
    }
}

/// Where the store is slow, fewer rows at a time are tried before it is given up.
const SMALLEST_STEP: usize = 10;

async fn walk<K: Copy, T>(
    from: K,
    what: &str,
    progress: &mut Progress,
    mut step: impl AsyncFnMut(K, usize) -> Result<Walked<K, T>, StoreError>,
) -> Result<Suspects<T>, StoreError> {
    let (mut next, mut rows) = (Some(from), limits::AUDIT_ROWS);
    let mut suspects = Suspects::default();
    while let Some(from) = next {
        let walked = match step(from, rows).await {
            Err(StoreError::Unavailable(_)) if rows > SMALLEST_STEP => {
                rows = (rows / 10).max(SMALLEST_STEP);
                continue;
            }
            walked => walked?,
        };
        suspects.looked_at += walked.looked_at as u64;
        for found in walked.found {
            match suspects.first.len() < limits::AUDIT_SUSPECTS {
                true => suspects.first.push(found),
                false => suspects.beyond += 1,
            }
        }
        next = walked.next;
        progress.say(|| format!("{} {what} looked at", suspects.looked_at));
        sleep(limits::AUDIT_BREATH).await;
    }
    Ok(suspects)
}

// --- Shards ----------------------------------------------------------------------------------------------------------

/// Those that may be a fault: without a node that delivers, no shard has an owner.
fn unowned(roster: &Roster, terms: &Terms) -> Vec<UnownedShard> {
    if roster.has_workers() { roster.unowned(2 * terms.lease) } else { Vec::new() }
}

/// Every change of an owner counts the epoch up: one that is the same was not looked after in between.
async fn still_unowned(
    look: &dyn Audit,
    before: &[UnownedShard],
    terms: &Terms,
) -> Result<Vec<u16>, StoreError> {
    if before.is_empty() {
        return Ok(Vec::new());
    }
    let now = look.audit_roster().await?.unowned(2 * terms.lease);
    let same =
        |shard: &&UnownedShard| before.iter().any(|old| (old.shard, old.epoch) == (shard.shard, shard.epoch));
    Ok(now.iter().filter(same).map(|shard| shard.shard).collect())
}

/// Worth knowing; and a problem as soon as something waits for it.
fn no_worker_finding(due: &Suspects<WaitingHead>) -> Finding {
    let (level, waits) = match due.first.len() as u64 + due.beyond {
        0 => (Level::Warning, "nothing is overdue".to_owned()),
        1 => (Level::Problem, "something is overdue in one lane".to_owned()),
        lanes => (Level::Problem, format!("something is overdue in {lanes} lanes")),
    };
    let detail = format!("no node is there that delivers, and {waits}");
    let fix = "Start `posthaste serve` with role all or worker; what waits is then delivered by itself";
    let examples = due.first.iter().take(limits::AUDIT_EXAMPLES).map(due_since).collect();
    Finding { examples, ..Finding::bad("audit.shards", level, detail, fix) }
}

fn shards_finding(shards: &[u16]) -> Finding {
    let examples = shards.iter().map(|shard| format!("shard {shard}"));
    counted(
        "audit.shards",
        shards.len() as u64,
        examples,
        ("every shard has an owner", "shards have no live owner, and nothing of them is delivered"),
        "Look at the logs of the nodes; restart one of them: whoever starts takes what is free",
    )
}

// --- Deliveries that wait --------------------------------------------------------------------------------------------

struct Overdue {
    heads: Suspects<WaitingHead>,
    lanes: BTreeMap<DestinationId, KnownLane>,
    /// The longest that one of them can be under way.
    a_turn_takes: Duration,
}

/// First rows that have been due for longer than two rescans, in lanes that are not held.
async fn overdue(look: &dyn Audit, terms: &Terms, progress: &mut Progress) -> Result<Overdue, StoreError> {
    let (mut lanes, mut a_turn_takes) = (BTreeMap::new(), Duration::ZERO);
    let heads = walk(FIRST_TRACK, "lanes", progress, async |from, rows| {
        let mut walked = look.audit_heads(from, rows).await?;
        if walked.found.is_empty() {
            return Ok(walked);
        }
        let now = look.audit_roster().await?.now;
        walked.found.retain(|head| head.due_at < now.minus(2 * terms.rescan));
        let known = known(look, &walked.found, now).await?;
        let judged = |id: &DestinationId| {
            known.get(id).is_some_and(|lane| {
                lane.is_free(&terms.defaults, now)
                    && lane.a_turn_takes(&terms.defaults) <= limits::AUDIT_TURN_MAX
            })
        };
        walked.found.retain(|head| judged(&head.place.1));
        for (id, lane) in
            known.into_iter().filter(|(id, _)| walked.found.iter().any(|head| head.place.1 == *id))
        {
            a_turn_takes = a_turn_takes.max(lane.a_turn_takes(&terms.defaults));
            if lanes.len() < limits::AUDIT_SUSPECTS {
                lanes.insert(id, lane);
            }
        }
        Ok(walked)
    });
    let heads = heads.await?;
    Ok(Overdue { heads, lanes, a_turn_takes })
}

async fn known(
    look: &dyn Audit,
    heads: &[WaitingHead],
    now: Timestamp,
) -> Result<BTreeMap<DestinationId, KnownLane>, StoreError> {
    let mut ids: Vec<DestinationId> = heads.iter().map(|head| head.place.1).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let lanes = look.audit_lanes(&ids, now.minus(limits::LANES_FRESH)).await?;
    Ok(ids.into_iter().zip(lanes).collect())
}

/// Those that have not moved. Of a lane with more such rows than slots, some must have, and then it is only busy.
async fn still_overdue(
    look: &dyn Audit,
    terms: &Terms,
    before: Overdue,
) -> Result<Suspects<WaitingHead>, StoreError> {
    let Overdue { mut heads, lanes, .. } = before;
    if heads.first.is_empty() {
        return Ok(heads);
    }
    let (mut same, mut moved) = (Vec::new(), Vec::new());
    for head in heads.first {
        let again = look.audit_heads(head.place, 1).await?.found;
        if again.first() == Some(&head) { same.push(head) } else { moved.push(head.place.1) }
    }
    let now = look.audit_roster().await?.now;
    let known = known(look, &same, now).await?;
    let seen = |id: DestinationId| {
        let there = same.iter().filter(|head| head.place.1 == id).count();
        there + moved.iter().filter(|other| **other == id).count()
    };
    let busy = |id: DestinationId| {
        let slots = lanes.get(&id).map_or(1, |lane| lane.max_concurrency(&terms.defaults));
        moved.contains(&id) && seen(id) > slots
    };
    let stuck = |head: &&WaitingHead| {
        let id = head.place.1;
        known.get(&id).is_some_and(|lane| lane.is_free(&terms.defaults, now)) && !busy(id)
    };
    heads.first = same.iter().filter(stuck).copied().collect();
    Ok(heads)
}

fn stuck_finding(stuck: &Suspects<WaitingHead>) -> Finding {
    counted(
        "audit.waiting",
        stuck.first.len() as u64 + stuck.beyond,
        stuck.first.iter().map(due_since),
        (
            "everything that is due is under way",
            "lanes stand still although they are free and something is due",
        ),
        "Look at the log of the node that owns them; restart it: whoever takes its shards reads them anew",
    )
}

fn due_since(head: &WaitingHead) -> String {
    let WaitingHead { place: (_, destination, _), delivery_id, due_at, attempts } = head;
    format!("{delivery_id} at {destination}, due since {due_at}, {attempts} attempts")
}

// --- Events and facts ------------------------------------------------------------------------------------------------

async fn still_uneven(
    look: &dyn Audit,
    before: &Suspects<UnevenFanOut>,
) -> Result<Vec<UnevenFanOut>, StoreError> {
    let mut still = Vec::new();
    for fan_out in &before.first {
        let again = look.audit_fan_outs(fan_out.event_id, 1, u64::MAX).await?.found;
        still.extend(again.into_iter().filter(|again| again.event_id == fan_out.event_id));
    }
    Ok(still)
}

async fn still_stray(look: &dyn Audit, before: &Suspects<StrayFact>) -> Result<Vec<StrayFact>, StoreError> {
    let mut still = Vec::new();
    for fact in &before.first {
        let again = look.audit_facts(fact.key, 1).await?.found;
        still.extend(again.into_iter().filter(|again| again.key == fact.key));
    }
    Ok(still)
}

fn fan_outs_finding(walked: &Suspects<UnevenFanOut>, uneven: &[UnevenFanOut]) -> Finding {
    let examples = uneven.iter().map(|uneven| {
        let promised =
            uneven.promised.map_or("an unknown number of".to_owned(), |promised| promised.to_string());
        format!("{} promised {promised} deliveries, {} wait or have ended", uneven.event_id, uneven.found)
    });
    counted(
        "audit.deliveries",
        uneven.len() as u64 + walked.beyond,
        examples,
        (
            format!("all deliveries of {} events wait or have ended", walked.looked_at).as_str(),
            "events have not the deliveries they were accepted with",
        ),
        "The store has lost rows: look for damage (posthaste doctor while the server is stopped), and publish these \
         events again, or go back to a backup",
    )
}

fn facts_findings(walked: &Suspects<StrayFact>, stray: &[StrayFact]) -> [Finding; 2] {
    let of = |wanted: fn(Missing) -> bool| stray.iter().filter(move |fact| wanted(fact.misses));
    let name = |fact: &StrayFact| format!("{} of {} ({})", fact.key.1, fact.key.0, fact.event_id);
    let bare: Vec<String> = of(|misses| misses == Missing::Attempts).map(name).collect();
    let lost = of(|misses| misses != Missing::Attempts).map(|fact| {
        let misses = if fact.misses == Missing::Event { "event" } else { "delivery" };
        format!("{}: its {misses} is not there", name(fact))
    });
    let lost: Vec<String> = lost.collect();
    // What was not looked at again is of either kind.
    let (more_bare, more_lost) = if lost.is_empty() { (walked.beyond, 0) } else { (0, walked.beyond) };
    [
        counted(
            "audit.dead_letters",
            bare.len() as u64 + more_bare,
            bare.into_iter(),
            ("every dead letter has its attempts", "dead letters have no attempt to show for their reason"),
            "Replay them; and report it: this is a fault of ours, or of whoever changed the tables",
        ),
        counted(
            "audit.attempts",
            lost.len() as u64 + more_lost,
            lost.into_iter(),
            (
                format!("all of {} facts have their event and their delivery", walked.looked_at).as_str(),
                "attempts are about something that is not there",
            ),
            "The store has lost rows: look for damage (posthaste doctor while the server is stopped), or go back to a \
             backup",
        ),
    ]
}

fn counted(
    check: &'static str,
    count: u64,
    examples: impl Iterator<Item = String>,
    (well, ill): (&str, &str),
    fix: &str,
) -> Finding {
    let finding = match count {
        0 => Finding::ok(check, well),
        _ => Finding::bad(check, Level::Problem, format!("{count} {ill}"), fix),
    };
    let examples = examples.take(limits::AUDIT_EXAMPLES).collect();
    Finding { count: Some(count), examples, ..finding }
}
