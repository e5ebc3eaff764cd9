//! Filters as the statements take them: each a list, as JSON, or null, which is no filter.

use domain::{id::DeliveryId, pattern::Pattern};
use serde::Serialize;
use uuid::Uuid;

/// None for an empty list.
pub(super) fn list<T, S: Serialize>(values: &[T], write: impl Fn(&T) -> S) -> Option<String> {
    let written: Vec<S> = values.iter().map(write).collect();
    let json = || serde_json::to_string(&written).expect("texts and numbers are always JSON");
    (!values.is_empty()).then(json)
}

/// Hexadecimal digits: JSON has no blobs.
pub(super) fn ids<T: Copy>(ids: &[T], uuid: impl Fn(T) -> Uuid) -> Option<String> {
    list(ids, |id| uuid(*id).simple().to_string())
}

/// A text for `glob`, how many full stops it has, and whether more segments may follow. A star of `glob` also takes
/// full stops, but not where all of them are spoken for.
pub(super) fn patterns(patterns: &[Pattern]) -> Option<String> {
    list(patterns, |pattern| match pattern.as_str() {
        "*" | "**" => ("*".to_owned(), 0, true),
        text => {
            let deep = text.strip_suffix(".**").map(|above| format!("{above}.*"));
            let more = deep.is_some();
            (deep.unwrap_or_else(|| text.to_owned()), text.matches('.').count(), more)
        }
    })
}

/// The one there is.
pub(super) fn only<T: Copy>(values: &[T]) -> Option<T> {
    match values {
        [one] => Some(*one),
        _ => None,
    }
}

pub(super) fn next_after(id: DeliveryId) -> DeliveryId {
    DeliveryId::from_uuid(Uuid::from_u128(id.uuid().as_u128().saturating_add(1)))
}
