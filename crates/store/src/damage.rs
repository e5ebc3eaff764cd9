//! Rows that do not read: damaged by hand or by a disk, or written by a newer version. A list goes on without them and the log
//! names each; what asks for such a row alone is told ([`crate::StoreError::Unreadable`]).

use domain::limits;
use std::fmt::Display;

/// A row of a list that does not read.
#[derive(Debug)]
pub(crate) struct DamagedRow {
    id: String,
    why: String,
}

impl DamagedRow {
    pub(crate) fn new(id: impl Display, why: impl Display) -> Self {
        Self { id: id.to_string(), why: why.to_string() }
    }
}

/// Whether a page that has these rows must be asked for again, with room for as many more as may be passed over.
pub(crate) fn is_cut_short<T>(found: &[Result<T, DamagedRow>], limit: usize) -> bool {
    found.len() >= limit && found.iter().any(Result::is_err)
}

/// The first that read; each that does not is named.
pub(crate) fn sound<T>(what: &'static str, found: Vec<Result<T, DamagedRow>>, limit: usize) -> Vec<T> {
    found
        .into_iter()
        .filter_map(|row| row.map_err(|damaged| left_out(what, &damaged)).ok())
        .take(limit)
        .collect()
}

/// A page of those that read, by a statement that takes a limit.
pub(crate) fn page<T, E>(
    what: &'static str,
    limit: usize,
    mut ask: impl FnMut(usize) -> Result<Vec<Result<T, DamagedRow>>, E>,
) -> Result<Vec<T>, E> {
    let mut found = ask(limit)?;
    if is_cut_short(&found, limit) {
        found = ask(limit + limits::DAMAGED_PASSED_OVER)?;
    }
    Ok(sound(what, found, limit))
}

pub(crate) fn left_out(what: &'static str, DamagedRow { id, why }: &DamagedRow) {
    tracing::error!(
        what,
        id,
        why,
        "row.unreadable: what is stored of it does not read, and a list is shown without it"
    );
}
