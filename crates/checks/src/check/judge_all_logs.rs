//! Hazard: a check looks at its own promise and not at the others; or a fault that all of them are about never
//! happened.
//!
//! Every check that settles accounts leaves its logbook: both logs, the faults, the owners, the facts of the tables. All of
//! them are judged again, by all rules. Run the others first: what is judged is what they left, the latest run of each.
//!
//! Holds if in every logbook nothing is lost, doubled beyond the budget, altered or sent by a stranger; if every delivery
//! ends once and its attempts are numbered from 1 without gaps; if what is called delivered was answered 2xx by a receiver
//! and what is called dead has a reason; if every answered request has its attempt, but those within the budget; and if,
//! over all of them, every kind of fault and of ending and a late settlement happened at least once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lab::{RequestEnd, promises};

use crate::harness::logbook::{self, AttemptRow, Logbook};
use crate::harness::prelude::*;

const KINDS: [FaultKind; 6] = [
    FaultKind::Kill,
    FaultKind::Freeze,
    FaultKind::Terminate,
    FaultKind::LostOwnership,
    FaultKind::DatabaseAway,
    FaultKind::NetworkCut,
];
const SOMETIMES: [&str; 5] = ["delivered", "dead_letter", "success", "server_error", "late"];

pub(crate) async fn run(_options: &Options, report: &mut Report) -> Result<()> {
    let files = logbook::all()?;
    ensure!(!files.is_empty(), "there is no logbook: run other checks first");
    let (mut faults, mut met, mut judged) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for file in &files {
        let book = logbook::read(file)?;
        let broken = broken_rules(&book);
        report.must(broken.is_empty(), format!("{}: {}", book.check, broken.join("; ")));
        for fault in &book.evidence.faults {
            *faults.entry(fault.kind).or_insert(0u64) += 1;
        }
        for fact in &book.attempts {
            met.extend(fact.ending.clone());
            met.extend(fact.outcome.clone());
            met.extend(fact.late.then(|| "late".to_owned()));
        }
        judged.push(
            json!({ "check": book.check, "requests": book.evidence.received.len(), "facts": book.attempts.len() }),
        );
    }
    for kind in KINDS {
        report.must(faults.contains_key(&kind), format!("no logbook has a fault of the kind {kind:?}"));
    }
    for what in SOMETIMES {
        report.must(met.contains(what), format!("nothing was ever {what}"));
    }
    report.note("faults", faults);
    report.note("met", met);
    report.note("judged", judged);
    Ok(())
}

fn broken_rules(book: &Logbook) -> Vec<String> {
    let verdict = book.evidence.judge();
    let mut deliveries: HashMap<&str, Vec<&AttemptRow>> = HashMap::new();
    for fact in &book.attempts {
        deliveries.entry(&fact.delivery).or_default().push(fact);
    }
    let received = &book.evidence.received;
    let answered: HashSet<&str> =
        received.iter().filter(|record| record.succeeded()).map(|record| &*record.delivery_id).collect();
    let [mut twice, mut gaps, mut unfounded, mut unreasoned] = [0u64; 4];
    for (delivery, facts) in &deliveries {
        twice += u64::from(facts.iter().filter(|fact| fact.ending.is_some()).count() > 1);
        let mut numbers: Vec<i64> =
            facts.iter().filter(|fact| !fact.late).filter_map(|fact| fact.number).collect();
        numbers.sort_unstable();
        gaps += u64::from(numbers.iter().enumerate().any(|(at, number)| *number != at as i64 + 1));
        let ended = |how: &str| facts.iter().find(|fact| fact.ending.as_deref() == Some(how));
        unfounded += u64::from(ended("delivered").is_some() && !answered.contains(delivery));
        unreasoned += u64::from(ended("dead_letter").is_some_and(|fact| fact.reason.is_none()));
    }
    let known: HashSet<(&str, i64)> =
        book.attempts.iter().filter_map(|fact| Some((fact.delivery.as_str(), fact.number?))).collect();
    let unrecorded = received.iter().filter(|record| {
        matches!(record.end, RequestEnd::Answered(_))
            && !known.contains(&(&*record.delivery_id, i64::from(record.attempt)))
    });
    let unrecorded = (unrecorded.count() as u64).saturating_sub(verdict.budget);
    let mut broken = verdict.broken;
    broken.extend(promises::broken(3, "a delivery ended twice", twice));
    broken.extend(promises::broken(4, "a delivery is called delivered and no receiver said so", unfounded));
    broken.extend(promises::broken(5, "a dead letter has no reason", unreasoned));
    broken.extend(promises::broken(
        12,
        "the attempts of a delivery are not numbered from 1 without gaps",
        gaps,
    ));
    broken.extend(promises::broken(12, "an answered request beyond the budget has no attempt", unrecorded));
    broken
}
