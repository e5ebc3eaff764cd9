//! Requests that a source did not believe, on their way into the store: of a source that is told to keep them, one a second.
//!
//! The answer waits for none of it. What comes within the second costs a look at a map, so that a flood of forged requests is
//! no dearer with it than without.

use crate::{app::App, auth::ToNote, client_address::ClientAddress, ingest_url::IngestSource};
use bytes::Bytes;
use domain::{
    id::SourceId,
    limits,
    refused_request::{RefusedRequest, shown},
    time::Timestamp,
    verification::RefusalReason,
};
use http::{HeaderMap, HeaderName};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};
use store::StoreError;
use tokio::time::Instant;

/// When one of each source was kept last.
#[derive(Default)]
pub(crate) struct RefusedPace(Mutex<HashMap<SourceId, Instant>>);

impl RefusedPace {
    /// Whether the next one of this source is kept: then it has its turn. Of more sources than are remembered none is, until
    /// a second has passed.
    fn takes(&self, source: SourceId) -> bool {
        let now = Instant::now();
        let rests = |last: &Instant| now.duration_since(*last) < limits::REFUSED_PAUSE;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(&source).is_some_and(rests) {
            return false;
        }
        if last.len() >= limits::REFUSED_SOURCES && !last.contains_key(&source) {
            last.retain(|_, last| rests(last));
            if last.len() >= limits::REFUSED_SOURCES {
                return false;
            }
        }
        last.insert(source, now);
        true
    }
}

impl App {
    /// Keeps it if the source is told to, and it is its turn.
    pub(crate) fn keep_refused(
        &self,
        source: &IngestSource,
        headers: &HeaderMap,
        body: &[u8],
        client: ClientAddress,
        (reason, at): (RefusalReason, Timestamp),
    ) {
        if !source.keep_refused || !self.refused.takes(source.source_id) {
            return;
        }
        let proof = source.verifier.as_deref().and_then(|verifier| verifier.own_header());
        let pairs = headers.iter().map(|(name, value): (&HeaderName, _)| (name.as_str(), value.as_bytes()));
        let request = RefusedRequest {
            source_id: source.source_id,
            account_id: source.account_id,
            at,
            reason,
            client: client.0,
            headers: shown(pairs, proof),
            body_bytes: body.len() as u64,
            body: Bytes::copy_from_slice(&body[..body.len().min(limits::REFUSED_BODY_BYTES)]),
            sealed: None,
        };
        self.keys.note(ToNote::Refused(Box::new(request)));
    }
}

/// Writes it down, sealed where its account has its payloads encrypted.
pub(crate) async fn write_refused(app: &App, request: &RefusedRequest) -> Result<(), StoreError> {
    match app.admission.snapshots().get(request.account_id).await?.sealing.as_deref() {
        None => app.store.keep_refused(request).await,
        Some(key) => app.store.keep_refused(&request.clone().sealed_by(key, &*app.dice)).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: usize) -> SourceId {
        SourceId::at(Timestamp::MIN, (n as u128) << 16)
    }

    #[tokio::test(start_paused = true)]
    async fn of_each_source_one_a_second_is_kept() {
        let pace = RefusedPace::default();
        assert_eq!(
            [pace.takes(source(1)), pace.takes(source(1)), pace.takes(source(2))],
            [true, false, true]
        );
        tokio::time::advance(limits::REFUSED_PAUSE).await;
        assert!(pace.takes(source(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_never_more_sources_than_may_be_remembered() {
        let pace = RefusedPace::default();
        assert_eq!(
            (0..limits::REFUSED_SOURCES * 2).filter(|n| pace.takes(source(*n))).count(),
            limits::REFUSED_SOURCES
        );
        tokio::time::advance(limits::REFUSED_PAUSE).await;
        assert!(pace.takes(source(limits::REFUSED_SOURCES * 3)));
        assert_eq!(pace.0.lock().unwrap().len(), 1);
    }
}
