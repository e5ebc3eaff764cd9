//! Opening what an account has encrypted: payloads and headers of events, what is kept of attempts, requests that were not
//! believed. The one place where the API has a key for any of them.
//!
//! What does not open is no fault of the caller's and of no use to ask again for. Its key is gone: it was erased. Something
//! else is wrong with it: it does not read.

use crate::{app::App, error::ApiError};
use domain::{
    event::Event,
    id::AccountId,
    refused_request::RefusedRequest,
    seal::{DataKey, SealError, Sealed},
};
use std::sync::Arc;
use store::{AttemptRecord, EventRecord, KeptPayload, StoredEvent, open_detail, shut_detail};

impl App {
    /// As it was accepted.
    pub(crate) async fn open_event(&self, stored: StoredEvent) -> Result<Arc<Event>, ApiError> {
        match stored {
            StoredEvent::Plain(event) => Ok(event),
            StoredEvent::Sealed(sealed) => {
                let key = self.data_key_for(sealed.account_id(), [sealed.seal()]).await?;
                sealed.open(&key).map_err(shut)
            }
        }
    }

    /// With its headers.
    pub(crate) async fn open_record(
        &self,
        account: AccountId,
        mut record: EventRecord,
    ) -> Result<EventRecord, ApiError> {
        if let Some(sealed) = &record.sealed_headers {
            let key = self.data_key_for(account, [sealed]).await?;
            record.open(&key).map_err(shut)?;
        }
        Ok(record)
    }

    /// To be read in pieces.
    pub(crate) async fn open_payload(
        &self,
        account: AccountId,
        payload: KeptPayload,
    ) -> Result<KeptPayload, ApiError> {
        match payload.seal() {
            None => Ok(payload),
            Some(sealed) => {
                let key = self.data_key_for(account, [sealed]).await?;
                payload.open(&key).map_err(shut)
            }
        }
    }

    /// Of an attempt whose key is gone it is shown that it was made, what it met, and why there is no more.
    pub(crate) async fn open_attempts(
        &self,
        account: AccountId,
        attempts: &mut [AttemptRecord],
    ) -> Result<(), ApiError> {
        let sealed = attempts.iter().filter_map(|attempt| attempt.detail.sealed.as_ref()).collect();
        let Some(key) = self.key_for(account, sealed).await? else { return Ok(()) };
        for attempt in attempts {
            if let Some(sealed) = &attempt.detail.sealed {
                let detail = open_detail(sealed, (attempt.delivery_id, attempt.id), &key);
                attempt.detail = detail.unwrap_or_else(|_| shut_detail());
            }
        }
        Ok(())
    }

    /// Of one whose key is gone the reason is left, and who sent it.
    pub(crate) async fn open_refused(
        &self,
        account: AccountId,
        requests: Vec<RefusedRequest>,
    ) -> Result<Vec<RefusedRequest>, ApiError> {
        let sealed = requests.iter().filter_map(|request| request.sealed.as_ref()).collect();
        let Some(key) = self.key_for(account, sealed).await? else { return Ok(requests) };
        let open = |request: RefusedRequest| request.clone().opened_by(&key).unwrap_or(request);
        Ok(requests.into_iter().map(open).collect())
    }

    /// None where nothing is sealed.
    async fn key_for(
        &self,
        account: AccountId,
        sealed: Vec<&Sealed>,
    ) -> Result<Option<Arc<DataKey>>, ApiError> {
        match sealed.is_empty() {
            true => Ok(None),
            false => Ok(Some(self.data_key_for(account, sealed).await?)),
        }
    }
}

fn shut(error: SealError) -> ApiError {
    match error {
        SealError::UnknownDataKey(_) => ApiError::payload_erased(
            "it is encrypted by a data key that the account has no more: nobody can read it",
        )
        .because(error),
        error => {
            ApiError::unreadable("it is encrypted, and does not open: it is damaged, or of another event")
                .because(error)
        }
    }
}
