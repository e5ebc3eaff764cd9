//! How many rows a page has: as many as were asked for, or fewer if they are large. Rows are read in the order of the page
//! until its text is full, so that no more of them are in memory either; the first one is always taken.
//!
//! What counts is about what an answer shows of a row, worked out of the row itself: all stores stop at the same one.

use crate::{AttemptRecord, DeliveryRecord, EventRecord, Listed, Replay, ResolvedBy, documents::Document};
use domain::{attempt::Response, event::Event, limits};
use serde::Serialize;
use std::{io, ops::ControlFlow};

/// A row of a list.
pub(crate) trait PageRow {
    /// Its text in an answer, about.
    fn text_bytes(&self) -> usize;
}

/// How many rows a page asks for: one more than are wanted, by which it is known that the list goes on.
pub(crate) fn asked_for(limit: usize) -> usize {
    limit.saturating_add(1)
}

/// The rows of a page, as they are read.
pub(crate) struct PageRows<T, K> {
    rows: Vec<T>,
    /// How many it has come by, those that do not read included, and the last of them.
    seen: usize,
    last: Option<K>,
    limit: usize,
    room: PageRoom,
    goes_on: bool,
}

impl<T, K: Copy> PageRows<T, K> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { rows: Vec::new(), seen: 0, last: None, limit, room: PageRoom::default(), goes_on: false }
    }

    /// The next row, none if it does not read. Breaks at the one that is one too many: it begins the next page.
    pub(crate) fn add(&mut self, key: K, row: Option<T>) -> ControlFlow<()>
    where
        T: PageRow,
    {
        if self.seen >= self.limit || row.as_ref().is_some_and(|row| !self.room.takes(row.text_bytes())) {
            self.goes_on = true;
            return ControlFlow::Break(());
        }
        self.rows.extend(row);
        self.seen += 1;
        self.last = Some(key);
        ControlFlow::Continue(())
    }

    /// It takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.goes_on || self.seen >= self.limit
    }

    /// Where it stopped.
    pub(crate) fn last(&self) -> Option<K> {
        self.last
    }

    pub(crate) fn into_rows(self) -> Vec<T> {
        self.rows
    }

    /// Of a list in which every row that is read is wanted.
    pub(crate) fn listed(self) -> Listed<T, K> {
        Listed { next: self.last.filter(|_| self.goes_on), rows: self.rows }
    }
}

/// What is left of a page's text.
#[derive(Default)]
pub(crate) struct PageRoom {
    used: usize,
}

impl PageRoom {
    /// Whether so much still fits. The first always does.
    pub(crate) fn takes(&mut self, bytes: usize) -> bool {
        let fits = self.used == 0 || self.used + bytes <= limits::PAGE_BYTES;
        self.used += if fits { bytes } else { 0 };
        fits
    }

    /// An attempt as it is shown inside its delivery: all of them are, but once they fill a page those that follow come
    /// without headers and answers.
    pub(crate) fn fit(&mut self, mut attempt: AttemptRecord) -> AttemptRecord {
        if !self.takes(attempt.text_bytes()) {
            attempt.detail.request_headers = Vec::new();
            let left_out = |_| Response { truncated: true, ..Response::default() };
            attempt.detail.response = attempt.detail.response.take().map(left_out);
            // What is sealed is all of it.
            attempt.detail.sealed = None;
        }
        attempt
    }
}

impl PageRow for Event {
    fn text_bytes(&self) -> usize {
        let Self { headers, metadata, idempotency_key, ordering_key, content_type, tags, .. } = self;
        limits::PAGE_ROW_BYTES
            + text_of(&(headers, metadata, idempotency_key, ordering_key, content_type, tags))
    }
}

impl PageRow for EventRecord {
    fn text_bytes(&self) -> usize {
        self.event.text_bytes()
    }
}

impl PageRow for DeliveryRecord {
    fn text_bytes(&self) -> usize {
        let note = match self.resolution.as_ref().map(|resolution| &resolution.by) {
            Some(ResolvedBy::Dismissal { note, .. }) => note.as_deref(),
            _ => None,
        };
        limits::PAGE_ROW_BYTES + text_of(&(&self.event_type, &self.ordering_key, note))
    }
}

impl PageRow for AttemptRecord {
    fn text_bytes(&self) -> usize {
        limits::PAGE_ROW_BYTES + text_of(&self.detail)
    }
}

impl PageRow for Replay {
    fn text_bytes(&self) -> usize {
        limits::PAGE_ROW_BYTES + text_of(&self.filter)
    }
}

impl<D: Document> PageRow for D {
    fn text_bytes(&self) -> usize {
        limits::PAGE_ROW_BYTES + text_of(self)
    }
}

/// How long something is as JSON, without writing it down.
fn text_of(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written is shown by nobody.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(usize);

    impl PageRow for Row {
        fn text_bytes(&self) -> usize {
            self.0
        }
    }

    fn page(limit: usize, rows: &[usize]) -> (Vec<usize>, Option<usize>) {
        let mut page = PageRows::new(limit);
        let _ = rows.iter().try_for_each(|bytes| page.add(*bytes, Some(Row(*bytes))));
        let listed = page.listed();
        (listed.rows.iter().map(|row| row.0).collect(), listed.next)
    }

    #[test]
    fn a_page_is_full_of_rows_or_of_text_and_goes_on_at_the_row_that_did_not_fit() {
        let half = limits::PAGE_BYTES / 2;
        assert_eq!(page(2, &[1, 2]), (vec![1, 2], None));
        assert_eq!(page(2, &[1, 2, 3]), (vec![1, 2], Some(2)));
        assert_eq!(page(9, &[half, half]), (vec![half, half], None));
        assert_eq!(page(9, &[1, half, half, 2]), (vec![1, half], Some(half)));
        assert_eq!(page(9, &[3 * half, 1]), (vec![3 * half], Some(3 * half)), "a large one is given alone");
        assert_eq!(page(9, &[]), (vec![], None));
    }

    #[test]
    fn rows_that_do_not_read_count_and_the_page_goes_on_behind_them() {
        let mut page = PageRows::<Row, usize>::new(2);
        assert!(page.add(1, None).is_continue() && page.add(2, None).is_continue());
        assert!(page.add(3, Some(Row(1))).is_break());
        let listed = page.listed();
        assert_eq!((listed.rows.len(), listed.next), (0, Some(2)));
    }
}
