//! Ids or uids: whatever an account has may be named by the id that we gave it or the uid that its owner did, in paths,
//! bodies and filters. An id counts first, and costs no lookup.
//!
//! A uid that nobody has is as absent as an id that was never given out. In paths and filters such an id stands in for it, so
//! that a key without the scope learns nothing of which uids there are.

use crate::{app::App, error::ApiError, query::Parameters, validate::is_uid};
use contract::{
    AuditQuery, DeadLetterGroupQuery, DeliveryQuery, DestinationQuery, EventQuery, NameQuery, StreamQuery,
};
use domain::{
    id::{
        AccountId, ApiKeyId, DeliveryId, DestinationId, EventId, PortalLinkId, ReplayId, RouteId, SessionId,
        SourceId, TypedId, UserId,
    },
    limits,
};
use serde_json::Value;
use std::{fmt::Display, str::FromStr};

/// An id by which something is asked for.
pub trait Named: TypedId + FromStr + Display + Copy + Send + 'static {
    /// An id that was never given out, for what a handler looks up itself. None: it is not there, whoever asks.
    const NEVER_GIVEN: Option<Self> = None;

    /// What has this uid, in this account. Most things have none.
    fn by_uid(
        _: &App,
        _: Option<AccountId>,
        _: &str,
    ) -> impl Future<Output = Result<Option<Self>, ApiError>> + Send {
        async { Ok(None) }
    }

    /// What is meant by a text: its id, or what has it for a uid.
    fn find(
        app: &App,
        account: Option<AccountId>,
        text: &str,
    ) -> impl Future<Output = Result<Option<Self>, ApiError>> + Send {
        async move {
            match text.parse().ok() {
                Some(id) => Ok(Some(id)),
                None if is_uid(text) => Self::by_uid(app, account, text).await,
                None => Ok(None),
            }
        }
    }
}

impl Named for ApiKeyId {}
impl Named for EventId {}
impl Named for DeliveryId {}
impl Named for ReplayId {}
impl Named for SessionId {}
impl Named for UserId {}
impl Named for PortalLinkId {}

impl Named for AccountId {
    async fn by_uid(app: &App, _: Option<AccountId>, uid: &str) -> Result<Option<Self>, ApiError> {
        app.account_of_uid(uid).await
    }
}

macro_rules! of_an_account {
    ($($id:ident $by_uid:ident)*) => {$(
        impl Named for $id {
            const NEVER_GIVEN: Option<Self> = Some(Self::MIN);

            async fn by_uid(app: &App, account: Option<AccountId>, uid: &str) -> Result<Option<Self>, ApiError> {
                match account {
                    Some(account) => Ok(app.store.$by_uid(account, uid).await?),
                    None => Ok(None),
                }
            }
        }
    )*};
}

of_an_account! {
    SourceId source_by_uid
    DestinationId destination_by_uid
    RouteId route_by_uid
}

/// Puts ids in the place of uids in a member of a body: a text, or a list of them. 422 with the place of one that nobody has;
/// whatever else is wrong with it is told by who reads it.
pub(crate) async fn resolve<T: Named>(
    app: &App,
    account: Option<AccountId>,
    body: &mut Value,
    pointer: &str,
) -> Result<(), ApiError> {
    let Some(member) = body.pointer_mut(pointer) else { return Ok(()) };
    match member {
        // More of them are refused, and are not looked for.
        Value::Array(items) if items.len() <= limits::FILTER_VALUES => {
            for (place, item) in items.iter_mut().enumerate() {
                resolve_one::<T>(app, account, item, || format!("{pointer}/{place}")).await?;
            }
            Ok(())
        }
        item => resolve_one::<T>(app, account, item, || pointer.to_owned()).await,
    }
}

/// The same for all that a filter of deliveries in a body may name.
pub(crate) async fn resolve_filter(
    app: &App,
    account: Option<AccountId>,
    body: &mut Value,
) -> Result<(), ApiError> {
    resolve::<DestinationId>(app, account, body, "/filter/destination_id").await?;
    resolve::<SourceId>(app, account, body, "/filter/source_id").await?;
    resolve::<RouteId>(app, account, body, "/filter/route_id").await
}

async fn resolve_one<T: Named>(
    app: &App,
    account: Option<AccountId>,
    item: &mut Value,
    pointer: impl FnOnce() -> String,
) -> Result<(), ApiError> {
    let Some(text) = item.as_str().filter(|text| is_uid(text)) else { return Ok(()) };
    match T::find(app, account, text).await? {
        Some(id) => *item = id.to_string().into(),
        None => {
            return Err(ApiError::invalid_field(pointer(), "not_found", format!("no such {}", T::NOUN)));
        }
    }
    Ok(())
}

/// The filters of a list, some of which may name things.
pub trait Filters: Send {
    /// Puts ids in the place of uids.
    fn resolve(
        _: &App,
        _: Option<AccountId>,
        _: &mut Parameters,
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }
}

impl Filters for crate::query::NoFilter {}
impl Filters for NameQuery {}
impl Filters for DestinationQuery {}

macro_rules! filters {
    ($($query:ident { $($name:literal $id:ident)* })*) => {$(
        impl Filters for $query {
            async fn resolve(
                app: &App,
                account: Option<AccountId>,
                parameters: &mut Parameters,
            ) -> Result<(), ApiError> {
                $(resolve_parameter::<$id>(app, account, parameters, $name).await?;)*
                Ok(())
            }
        }
    )*};
}

filters! {
    EventQuery { "source_id" SourceId }
    DeliveryQuery { "destination_id" DestinationId "route_id" RouteId "source_id" SourceId }
    StreamQuery { "destination_id" DestinationId "route_id" RouteId "source_id" SourceId }
    AuditQuery { "account_id" AccountId }
    DeadLetterGroupQuery { "destination_id" DestinationId }
}

async fn resolve_parameter<T: Named>(
    app: &App,
    account: Option<AccountId>,
    parameters: &mut Parameters,
    name: &str,
) -> Result<(), ApiError> {
    let values = parameters.values_mut(name);
    if values.len() > limits::FILTER_VALUES {
        return Ok(());
    }
    for value in values.iter_mut().filter(|value| is_uid(value)) {
        if let Some(id) = T::find(app, account, value).await?.or(T::NEVER_GIVEN) {
            *value = id.to_string();
        }
    }
    Ok(())
}
