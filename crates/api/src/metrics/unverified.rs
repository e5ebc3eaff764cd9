//! Requests that were refused because they are not believed, by source and reason. Only so many sources are named: who makes
//! sources does not decide how large the metrics are.

use domain::{
    id::SourceId,
    limits,
    metrics::{MetricKind, Text},
    verification::RefusalReason,
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

const REASONS: usize = RefusalReason::ALL.len();

#[derive(Default)]
pub(crate) struct Unverified(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    named: BTreeMap<SourceId, [u64; REASONS]>,
    other: [u64; REASONS],
}

impl Unverified {
    pub(crate) fn count(&self, source: SourceId, reason: RefusalReason) {
        let mut counts = self.lock();
        let has_room = counts.named.len() < limits::METRIC_SOURCES || counts.named.contains_key(&source);
        let Counts { named, other } = &mut *counts;
        let of_source = if has_room { named.entry(source).or_default() } else { other };
        of_source[reason as usize] += 1;
    }

    pub(crate) fn write(&self, named: bool, text: &mut Text) {
        let counts = self.lock();
        let help = "Requests to ingest URLs that were refused because their sender was not verified.";
        let mut family = text.family("posthaste_ingest_unverified_total", MetricKind::Counter, help);
        if !named {
            for (place, reason) in RefusalReason::ALL.into_iter().enumerate() {
                let all = counts.named.values().map(|of_source| of_source[place]).sum::<u64>();
                family.value(&[("reason", reason.as_str())], all + counts.other[place]);
            }
            return;
        }
        let other = ("other".to_owned(), counts.other);
        let of_sources = counts.named.iter().map(|(source, counts)| (source.to_string(), *counts));
        for (source, counts) in of_sources.chain([other]) {
            for (place, reason) in
                RefusalReason::ALL.into_iter().enumerate().filter(|(place, _)| counts[*place] > 0)
            {
                family.value(&[("source_id", &source), ("reason", reason.as_str())], counts[place]);
            }
        }
    }

    /// Nothing in here can be half done.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;

    fn written(unverified: &Unverified, named: bool) -> String {
        let mut text = Text::default();
        unverified.write(named, &mut text);
        text.into_string()
    }

    #[test]
    fn only_so_many_sources_are_named_and_all_are_counted() {
        let unverified = Unverified::default();
        let count = limits::METRIC_SOURCES + 3;
        for n in 0..count {
            unverified.count(SourceId::at(Timestamp::MIN, n as u128), RefusalReason::Stale);
        }
        let names = written(&unverified, true);
        assert_eq!(names.lines().filter(|line| !line.starts_with('#')).count(), limits::METRIC_SOURCES + 1);
        assert!(names.contains("{source_id=\"other\",reason=\"stale\"} 3\n"), "{names}");
        let sums = written(&unverified, false);
        assert!(
            sums.contains(&format!("{{reason=\"stale\"}} {count}\n")) && !sums.contains("src_"),
            "{sums}"
        );
    }
}
