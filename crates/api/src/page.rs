//! Lists: how much, from where on, and a cursor that only fits the list it came from.
//!
//! A cursor is the key to go on before, with a tag over it, the account, the path and the filters, under a key of the
//! installation: it cannot be made up, and not be carried to another account, list or filter.

use crate::{app::App, error::ApiError, named::Filters, query::Parameters, read::Listed};
use axum::extract::FromRequestParts;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use contract::ListBody;
use domain::{
    gate::HoldReason,
    id::{
        AccountId, ApiKeyId, AttemptId, AuditId, DeliveryId, DestinationId, EventId, PortalLinkId, ReplayId,
        RouteId, SourceId, UserId,
    },
    limits,
    time::Timestamp,
};
use http::request;
use serde::de::DeserializeOwned;
use store::Page;
use subtle::ConstantTimeEq;

pub use crate::query::NoFilter;

const TAG_BYTES: usize = 16;

/// The query of a list: `limit`, `cursor`, and the filters of `T`.
#[derive(Debug)]
pub struct List<T> {
    pub filter: T,
    pub limit: usize,
    cursor: Option<String>,
    /// Path and filters: what a cursor is bound to besides the account.
    bound_to: String,
}

impl<T: DeserializeOwned + Filters> FromRequestParts<App> for List<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let mut list = UnreadList::of(parts.uri.path(), parts.uri.query())?;
        // Known by now: the caller is asked for before the list in every handler.
        T::resolve(app, parts.extensions.get().copied(), &mut list.filters).await?;
        list.read()
    }
}

/// A list whose filters are still texts.
struct UnreadList {
    filters: Parameters,
    limit: usize,
    cursor: Option<String>,
    bound_to: String,
}

#[cfg(any(test, fuzzing))]
impl<T: DeserializeOwned> List<T> {
    #[cfg(test)]
    fn of(path: &str, query: Option<&str>) -> Result<Self, ApiError> {
        UnreadList::of(path, query)?.read()
    }

    #[cfg(fuzzing)]
    pub(crate) fn of_text(path: &str, query: &str) -> Result<Self, ApiError> {
        let list: Self = UnreadList::of(path, Some(query))?.read()?;
        if let Some(cursor) = &list.cursor {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).unwrap_or_default();
            let _ = <(DeliveryId, Timestamp)>::read(&bytes);
        }
        Ok(list)
    }
}

impl UnreadList {
    fn of(path: &str, query: Option<&str>) -> Result<Self, ApiError> {
        let mut parameters = Parameters::of(query);
        let limit = match parameters.take("limit")? {
            None => limits::PAGE_DEFAULT,
            Some(text) => {
                text.parse().ok().filter(|limit| (1..=limits::PAGE_MAX).contains(limit)).ok_or_else(|| {
                    ApiError::invalid_field(
                        "/limit",
                        "out_of_range",
                        format!("expected 1 to {}", limits::PAGE_MAX),
                    )
                })?
            }
        };
        let cursor = parameters.take("cursor")?;
        let bound_to = format!("{path}?{}", parameters.canonical());
        Ok(Self { filters: parameters, limit, cursor, bound_to })
    }

    fn read<T: DeserializeOwned>(self) -> Result<List<T>, ApiError> {
        let Self { filters, limit, cursor, bound_to } = self;
        Ok(List { filter: filters.read()?, limit, cursor, bound_to })
    }
}

impl<T> List<T> {
    /// The part of the list that is asked for.
    pub fn page<K: CursorKey>(
        &self,
        app: &App,
        account: impl Into<Option<AccountId>>,
    ) -> Result<Page<K>, ApiError> {
        let account = account.into();
        let before = self.cursor.as_deref().map(|cursor| self.open(app, account, cursor)).transpose()?;
        Ok(Page { before, limit: self.limit })
    }

    /// The page, with a cursor to go on by.
    pub fn body<R, K: CursorKey>(
        &self,
        app: &App,
        account: impl Into<Option<AccountId>>,
        listed: Listed<R, K>,
    ) -> ListBody<R> {
        let account = account.into();
        let next_cursor = listed.next.map(|key| self.seal(app, account, &key));
        ListBody { data: listed.data, next_cursor, searched_until: None }
    }

    fn seal<K: CursorKey>(&self, app: &App, account: Option<AccountId>, key: &K) -> String {
        let mut bytes = Vec::with_capacity(K::BYTES + TAG_BYTES);
        key.write(&mut bytes);
        let tag = app.secrets.cursor_tag(&self.tagged(account, &bytes));
        bytes.extend_from_slice(&tag[..TAG_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn open<K: CursorKey>(&self, app: &App, account: Option<AccountId>, cursor: &str) -> Result<K, ApiError> {
        let foreign =
            || ApiError::invalid_cursor("the cursor does not belong to this list with these filters");
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| foreign())?;
        let (key, tag) = bytes.split_at_checked(K::BYTES).ok_or_else(foreign)?;
        let expected = app.secrets.cursor_tag(&self.tagged(account, key));
        if !bool::from(expected[..TAG_BYTES].ct_eq(tag)) {
            return Err(foreign());
        }
        K::read(key).ok_or_else(foreign)
    }

    /// Unambiguous: the parts before the last have a fixed length or an end that they cannot contain.
    fn tagged(&self, account: Option<AccountId>, key: &[u8]) -> Vec<u8> {
        let account = account.unwrap_or(AccountId::MIN);
        [account.bytes(), self.bound_to.as_bytes(), &[0], key].concat()
    }
}

/// What a list goes on before.
pub trait CursorKey: Sized {
    const BYTES: usize;
    fn write(&self, bytes: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! cursor_keys {
    ($($id:ident),*) => {$(
        impl CursorKey for $id {
            const BYTES: usize = 16;
            fn write(&self, bytes: &mut Vec<u8>) { bytes.extend_from_slice(self.bytes()); }
            fn read(bytes: &[u8]) -> Option<Self> { bytes.try_into().ok().map(Self::from_bytes) }
        }
    )*};
}

cursor_keys!(
    AccountId,
    ApiKeyId,
    SourceId,
    DestinationId,
    RouteId,
    EventId,
    DeliveryId,
    AttemptId,
    ReplayId,
    AuditId,
    UserId,
    PortalLinkId
);

impl CursorKey for Timestamp {
    const BYTES: usize = 8;

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.micros().to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self::from_micros(i64::from_be_bytes(bytes)))
    }
}

impl CursorKey for HoldReason {
    const BYTES: usize = 1;

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(Self::ALL.iter().position(|reason| reason == self).map(|place| place as u8));
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Self::ALL.get(usize::from(*bytes.first()?)).copied()
    }
}

impl<A: CursorKey, B: CursorKey> CursorKey for (A, B) {
    const BYTES: usize = A::BYTES + B::BYTES;

    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (first, second) = bytes.split_at_checked(A::BYTES)?;
        Some((A::read(first)?, B::read(second)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_page_is_of_1_to_200() {
        let limit = |query| List::<NoFilter>::of("/v1/events", query).map(|list| list.limit);
        assert_eq!(limit(None).unwrap(), 50);
        assert_eq!(limit(Some("limit=200")).unwrap(), 200);
        for query in ["limit=0", "limit=201", "limit=-1", "limit=many", "limit=1&limit=2"] {
            assert_eq!(limit(Some(query)).unwrap_err().code(), Code::ValidationFailed, "{query}");
        }
    }

    #[test]
    fn a_pair_of_ids_reads_back() {
        let key = (DeliveryId::MAX, AttemptId::MIN);
        let mut bytes = Vec::new();
        key.write(&mut bytes);
        assert_eq!(CursorKey::read(&bytes), Some(key));
        assert_eq!(<(DeliveryId, AttemptId)>::read(&bytes[1..]), None);
    }

    #[test]
    fn a_place_in_the_history_of_holds_reads_back() {
        for reason in HoldReason::ALL {
            let key = (Timestamp::from_seconds(1_790_000_000), reason);
            let mut bytes = Vec::new();
            key.write(&mut bytes);
            assert_eq!(CursorKey::read(&bytes), Some(key));
        }
    }
}
