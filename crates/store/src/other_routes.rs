//! The other routes of an event as they are kept: one id after the other, and nothing where there are none.

use domain::id::RouteId;

pub(crate) fn packed(routes: &[RouteId]) -> Option<Vec<u8>> {
    (!routes.is_empty()).then(|| routes.iter().flat_map(|id| *id.bytes()).collect())
}

pub(crate) fn unpacked(kept: Option<&[u8]>) -> Vec<RouteId> {
    let (ids, _) = kept.unwrap_or_default().as_chunks::<16>();
    ids.iter().copied().map(RouteId::from_bytes).collect()
}
